"""Speed, measured side by side in one process: ratios only, since seconds depend on the machine.

    python benchmarks/bench_learn.py FOLDER --out benchmarks/records/speed.json

1. Learning throughput against the GEMM peak of the machine, counting the projection and factor products only.
2. Adding one class to a model of 1000 classes and predicting, against fitting from scratch and predicting.
3. Adding one class to a model of 20,000 classes and predicting, against the same at 1000, each in a fresh process
   whose peak memory is recorded. Samples are generated class by class, so that all of them are never there at once.
4. GDDSG against the recipe of the released code (:mod:`gddsg.evaluation.released`, through the protocol ``released``):
   the ten-task CUB-200 run, learning and testing after every task. FOLDER holds ``cub200*.npz``. Its voters use as many
   cores as their libraries take by themselves. The released code asks them about all rows again for each of 100
   weightings that are tried; here they are asked once, that time is taken 100 times, and the ratio is recorded with it
   and without it.
5. Answers of a model of 200 classes, one at a time and all test samples of CUB-200 together, against RanPAC of the same
   width, in turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg import GDDSG, RanPAC
from gddsg.bench.memory import peak_mebibytes
from gddsg.bench.processes import process_pool
from gddsg.bench.revision import code_revision
from gddsg.core.class_card import CardRanks
from gddsg.data import FeatureDataset, class_stream, feature_file, seeded_order, task_sizes
from gddsg.evaluation.protocol import HONEST, RELEASED, Protocol, StepResult, evaluate_stream
from gddsg.evaluation.released import ReleasedRecipe
from gddsg.files import replace_file

M = 2_000
SEED = 1993
QUERIES = 201
NEWCOMERS = 9


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def against_released(
    data: FeatureDataset, n_tasks: int, released_tasks: int, projection_dim: int = M, n_jobs: int | None = None
) -> dict[str, Any]:
    """Learn and test after every task, both ways; both may be stopped after some tasks, since one of them is slow.

    Parameters
    ----------
    data : FeatureDataset
        What is learnt.
    n_tasks : int
        Number of tasks it is cut into.
    released_tasks : int
        Number of tasks that are run.
    projection_dim : int
        M of both.
    n_jobs : int or None
        Threads of the recipe's voters, see :class:`ReleasedRecipe`.

    Returns
    -------
    dict
        Seconds of both, what asking the voters again and again adds, and the ratio with it and without it.
    """
    ours = [
        _seconds_of(step)
        for step in _steps(GDDSG(projection_dim=projection_dim), data, HONEST, n_tasks, released_tasks)
    ]
    recipe, theirs, repeated = ReleasedRecipe(projection_dim=projection_dim, n_jobs=n_jobs), [], 0.0
    for step in _steps(recipe, data, RELEASED, n_tasks, released_tasks):
        theirs.append(_seconds_of(step))
        repeated += (recipe.trials - 1) * seconds(recipe.ask_voters)
    return {
        "tasks_compared": released_tasks,
        "gddsg_seconds": round(sum(ours), 2),
        "released_seconds_votes_once": round(sum(theirs), 1),
        "repeated_votes_seconds": round(repeated, 1),
        "times_faster": round((sum(theirs) + repeated) / sum(ours), 1),
        "times_faster_votes_once": round(sum(theirs) / sum(ours), 1),
    }


def _steps(
    learner: Any, data: FeatureDataset, protocol: Protocol, n_tasks: int, most: int
) -> itertools.islice[StepResult]:
    classes = np.unique(data.train_labels).tolist()
    stream = class_stream(data, seeded_order(classes, SEED), task_sizes(len(classes), n_tasks))
    return itertools.islice(evaluate_stream(learner, stream, protocol), most)


def _seconds_of(step: StepResult) -> float:
    return step.seconds_learning + step.seconds_predicting


def answering(data: FeatureDataset, singles: int = 60, repeats: int = 7) -> dict[str, Any]:
    """Milliseconds of one prediction, and of a row in a batch, for GDDSG and for RanPAC; medians.

    Parameters
    ----------
    data : FeatureDataset
        What is learnt and asked about.
    singles, repeats : int
        How many predictions one by one, and how often all of it.
    """
    learners = {"gddsg": GDDSG(projection_dim=M), "ranpac": RanPAC(projection_dim=M)}
    found: dict[str, dict[str, list[float]]] = {}
    for learner in learners.values():
        learner.fit(data.train_features, data.train_labels).predict(data.test_features)
    for _ in range(repeats):
        for name, learner in learners.items():
            taken = found.setdefault(name, {"one": [], "row_of_a_batch": []})
            taken["one"].append(seconds(lambda one=learner: _one_by_one(one, data, singles)) / singles)
            taken["row_of_a_batch"].append(
                seconds(lambda one=learner: one.predict(data.test_features)) / len(data.test_features)
            )
    medians = {
        name: {what: round(1000 * float(np.median(times)), 4) for what, times in taken.items()}
        for name, taken in found.items()
    }
    ratios = {what: round(medians["gddsg"][what] / medians["ranpac"][what], 2) for what in medians["gddsg"]}
    return {"classes": len(np.unique(data.train_labels)), "milliseconds": medians, "gddsg_against_ranpac": ratios}


def _one_by_one(learner: Any, data: FeatureDataset, singles: int) -> None:
    for row in range(singles):
        learner.predict(data.test_features[row : row + 1])


def throughput(n_classes: int = 40, n: int = 500, dim: int = 1280) -> dict[str, Any]:
    """Share of the GEMM peak reached while building cards like those of CIFAR-100."""
    A = torch.randn(2048, 2048)
    peak = max(2 * 2048**3 / seconds(lambda: A @ A) for _ in range(20))
    rng = np.random.default_rng(0)
    X = rng.random((n_classes * n, dim), dtype=np.float32)
    y = np.arange(n_classes).repeat(n)
    GDDSG(projection_dim=M).fit(X[: 2 * n], y[: 2 * n])
    taken = min(seconds(lambda: GDDSG(projection_dim=M).fit(X, y)) for _ in range(5))
    learnt, held = round(0.8 * n), round(0.2 * n)
    ranks, projection = CardRanks.of(64), 2 * n * dim * M
    grams = 2 * (2 * n * n * dim + (learnt**2 + held**2) * M)  # two views of the features, two shares of projections
    factors = 2 * ((ranks.usual + ranks.spare) * n * dim + (ranks.projected * learnt + ranks.held_out * held) * M)
    reached = n_classes * (projection + grams + factors) / taken
    return {"gemm_peak_gflops": round(peak / 1e9), "learning_gflops": round(reached / 1e9), "share": reached / peak}


def adding_a_class(n_classes: int = 1000, n: int = 50, dim: int = 1280, noise: float = 0.7) -> dict[str, Any]:
    """One more class: update and predict (median of nine) against fit from scratch and predict.

    Parameters
    ----------
    n_classes, n, dim, noise
        See :func:`growing`.

    Returns
    -------
    dict
        Seconds of both, their ratio, and how far the probabilities of the two are apart.
    """
    rng = np.random.RandomState(0)
    centres = np.abs(rng.randn(n_classes + NEWCOMERS, dim)).repeat(n, 0)
    X = np.abs(centres + noise * rng.randn(len(centres), dim)).astype(np.float32)
    y = np.arange(n_classes + NEWCOMERS).repeat(n)
    queries = X[:: 5 * n][:QUERIES]
    queries = np.abs(queries + 0.4 * noise * rng.randn(*queries.shape)).astype(np.float32)
    grown, updates, metrics = GDDSG(projection_dim=M).fit(X[y < n_classes], y[y < n_classes]), [], []
    grown.predict(queries)
    for newcomer in range(n_classes, n_classes + NEWCOMERS):
        rows, before = y == newcomer, grown.model_.derived.metric
        updates.append(seconds(lambda rows=rows: grown.partial_fit(X[rows], y[rows]).predict_proba(queries)))
        metrics.append(grown.model_.derived.metric is not before)
    fresh = GDDSG(projection_dim=M)
    fitting, updating = seconds(lambda: fresh.fit(X, y).predict_proba(queries)), float(np.median(updates))
    return {
        "classes": n_classes,
        "dim": dim,
        "noise": noise,
        "groups": len(grown.class_groups_),
        "queries": len(queries),
        "update_seconds": round(updating, 3),
        "mean_update_seconds": round(float(np.mean(updates)), 3),
        "newcomers": NEWCOMERS,
        "newcomers_that_changed_the_metric": sum(metrics),
        "scratch_seconds": round(fitting, 2),
        "times_faster": round(fitting / updating, 1),
        "largest_probability_gap": float(np.abs(grown.predict_proba(queries) - fresh.predict_proba(queries)).max()),
    }


def growing(
    sizes: tuple[int, int] = (1_000, 20_000), n: int = 50, dim: int = 1280, noise: float = 0.7, projection_dim: int = M
) -> dict[str, Any]:
    """One more class in a small and in a large model, and 201 queries answered; each in a fresh process.

    Parameters
    ----------
    sizes : (int, int)
        Number of classes of both models.
    n : int
        Samples a class.
    dim : int
        Width of the features.
    noise : float
        Spread of a class; the more, the more classes are taken for each other.
    projection_dim : int
        M.

    Returns
    -------
    dict
        What :func:`grown` found for both, and how many times longer the large one takes.
    """
    found = []
    for n_classes in sizes:
        with process_pool(1) as pool:
            found.append(pool.submit(grown, n_classes, n, dim, noise, projection_dim).result())
    small, large = found
    ratio = large["update_seconds"] / small["update_seconds"]
    return {"dim": dim, "noise": noise, "models": found, "times_longer": round(ratio, 2)}


def grown(n_classes: int, n: int, dim: int, noise: float, projection_dim: int, batch: int = 100) -> dict[str, Any]:
    """Learn synthetic classes in batches, then add nine one by one and answer the queries after each.

    Parameters
    ----------
    n_classes, n, dim, noise, projection_dim
        See :func:`growing`.
    batch : int
        Classes that are generated and learnt at a time.

    Returns
    -------
    dict
        Seconds of learning all, seconds (median of nine) of one class more with the queries answered, and peak
        resident memory of this process after each of the two.
    """
    model, places = GDDSG(projection_dim=projection_dim), np.linspace(0, n_classes - 1, QUERIES).astype(int)
    queries = np.concatenate([class_samples(label, 1, dim, noise, stream=1) for label in places.tolist()])
    learning = 0.0
    for first in range(0, n_classes, batch):
        labels = range(first, min(first + batch, n_classes))
        X, y = np.concatenate([class_samples(c, n, dim, noise) for c in labels]), np.repeat(np.array(labels), n)
        learning += seconds(lambda X=X, y=y: model.partial_fit(X, y))
    learnt = peak_mebibytes()
    model.predict_proba(queries)
    updates = []
    for newcomer in range(n_classes, n_classes + NEWCOMERS):
        X, y = class_samples(newcomer, n, dim, noise), np.full(n, newcomer)
        updates.append(seconds(lambda X=X, y=y: model.partial_fit(X, y).predict_proba(queries)))
    return {
        "classes": n_classes,
        "queries": len(queries),
        "learning_seconds": round(learning, 1),
        "update_seconds": round(float(np.median(updates)), 4),
        "peak_learning_MiB": round(learnt),
        "peak_predicting_MiB": round(peak_mebibytes()),
    }


def class_samples(label: int, n: int, dim: int, noise: float, stream: int = 0) -> NDArray[np.float32]:
    """Samples of a synthetic class, always the same ones.

    Parameters
    ----------
    label : int
        The class.
    n, dim, noise
        See :func:`growing`.
    stream : int
        Other numbers give other samples of the class.

    Returns
    -------
    array
        Features ``(n, dim)``.
    """
    centre = np.abs(np.random.default_rng([0, label]).standard_normal(dim, dtype=np.float32))
    spread = np.random.default_rng([1, label, stream]).standard_normal((n, dim), dtype=np.float32)
    return np.abs(centre + np.float32(noise) * spread)


def main() -> None:
    """Run all five and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/speed.json"))
    parser.add_argument("--released-tasks", type=int, default=10, help="stop the slow side after so many tasks")
    parser.add_argument("--many", type=int, default=20_000, help="classes of the large model")
    args = parser.parse_args()
    kinds = list(itertools.product((256, 1280), (0.7, 1.5)))  # classes that are hardly confused, or often
    data = feature_file(next(args.folder.glob("cub200*.npz")))
    parts: dict[str, Callable[[], Any]] = {
        "throughput": throughput,
        "adding_a_class": lambda: [adding_a_class(dim=dim, noise=noise) for dim, noise in kinds],
        "growing": lambda: [growing((1_000, args.many), noise=noise) for noise in (0.7, 1.5)],
        "answering": lambda: answering(data),
        "released_recipe": lambda: against_released(data, 10, args.released_tasks),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"revision": code_revision()}
    for name, measure in parts.items():
        record[name] = measure()
        print(json.dumps({name: record[name]}), flush=True)
    replace_file(args.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
