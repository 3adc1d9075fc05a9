"""Measure what differential privacy costs: accuracy against epsilon, of one place and of five that are merged.

    python benchmarks/bench_privacy.py FEATURES [--out benchmarks/records/privacy.json] [--plot docs/privacy.png]

FEATURES is a folder with ``cub200_efficientnet-lite0.npz`` and ``cifar100_efficientnet-lite0.npz``. Needs
``pip install 'gddsg[privacy]'``. The clip is a round number near the median length of the features of CUB-200 (those of
CIFAR-100 are longer, so most are shortened), and the bound of distances to the centre was chosen on CUB-200: a place
has to take both from public photos, so what is measured is a little too good.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.bench.revision import code_revision
from gddsg.core.model import Model, Settings
from gddsg.core.privacy import CENTRED_SHARE, SHARES, clipped, private_cards
from gddsg.core.privacy_spending import noise_multiplier
from gddsg.data import FeatureDataset, feature_file
from gddsg.evaluation import average_accuracy
from gddsg.learners import GDDSG

DATASETS = ("cub200", "cifar100")
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, math.inf)
WAYS_AT, WAYS_ON = (2.0, 8.0, 32.0, 128.0), "cub200"  # other ways cost more than they tell
DELTA, CLIP, SEEDS, SITES = 1e-5, 12.0, (0, 1, 2), (1, 5)
SETTINGS = Settings(projection_dim=0, feature_transform="none")
SCATTER_SHARE = 0.3  # of what is spent, for a scatter

Floats = NDArray[np.float64]
Way = Callable[[FeatureDataset, float, np.random.Generator], Any]


def per_cent(data: FeatureDataset, answers: Any) -> float:
    """Mean accuracy over classes."""
    return round(100 * float(average_accuracy(data.test_labels, np.asarray(answers))), 2)


def site_model(data: FeatureDataset, rows: Any, multiplier: float, random: np.random.Generator) -> Model:
    """What one place hands out."""
    labels = data.train_labels[rows].tolist()
    cards = private_cards(data.train_features[rows], labels, clip=CLIP, noise_multiplier=multiplier, generator=random)
    return Model(SETTINGS).plus(cards)


def merged_answers(data: FeatureDataset, sites: int, multiplier: float, seed: int) -> Any:
    """Answers of the model that the places make together; each has its own samples, dealt out at random."""
    place = np.random.default_rng(seed).permutation(len(data.train_labels)) % sites
    models = [site_model(data, place == site, multiplier, np.random.default_rng([seed, site])) for site in range(sites)]
    model = models[0]
    for other in models[1:]:
        model = model.merged(other)
    found = model.predictor.predict_log_proba(data.test_features).argmax(1)
    return np.array(model.labels)[found]


def spread_out(accuracies: list[float]) -> dict[str, Any]:
    """Mean and standard deviation over seeds."""
    return {"mean": round(float(np.mean(accuracies)), 2), "deviation": round(float(np.std(accuracies, ddof=1)), 2)}


def by_epsilon(measure: Callable[[float, int], float], epsilons: tuple[float, ...] = EPSILONS) -> dict[str, Any]:
    """A measurement of noise multiplier and seed, at every epsilon."""
    found = {}
    for epsilon in epsilons:
        multiplier = noise_multiplier(epsilon, DELTA)
        found[f"{epsilon:g}"] = spread_out([measure(multiplier, seed) for seed in SEEDS])
    return found


# ---------------------------------------------------------------- other ways, for comparison


def class_sums(rows: Floats, labels: Any, n_classes: int) -> Floats:
    """``(n_classes, dim)``."""
    sums = np.zeros((n_classes, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return sums


def nearest(means: Floats, queries: Floats) -> Any:
    """The nearest mean."""
    return (queries @ means.T - np.square(means).sum(1) / 2).argmax(1)


def noisy_means(rows: Floats, labels: Any, bound: float, multiplier: float, random: np.random.Generator) -> Floats:
    """Means of clipped rows; the noise of counts is left out, which favours the ways below."""
    n = np.bincount(labels)
    sums = class_sums(clipped(rows, bound), labels, len(n))
    return sums_with_noise(sums, bound, multiplier, random) / n[:, None]


def sums_with_noise(sums: Floats, bound: float, multiplier: float, random: np.random.Generator) -> Floats:
    """Gaussian noise on all of them."""
    return sums + random.normal(0.0, 1.0, sums.shape) * multiplier * bound


def not_centred(data: FeatureDataset, multiplier: float, random: np.random.Generator) -> Any:
    """Means of features as they are."""
    return nearest(
        noisy_means(data.train_features.astype(float), data.train_labels, CLIP, multiplier, random), data.test_features
    )


def roots(data: FeatureDataset, multiplier: float, random: np.random.Generator) -> Any:
    """Square roots, centred exactly, which favours them; about 14 long."""
    train, test = (np.sqrt(np.maximum(one, 0)) for one in (data.train_features, data.test_features))
    centre = train.mean(0).astype(float)
    means = noisy_means(train - centre, data.train_labels, 14.0 * CENTRED_SHARE, multiplier, random)
    return nearest(means, test - centre)


def projected(data: FeatureDataset, multiplier: float, random: np.random.Generator) -> Any:
    """In 256 random directions that all know, centred exactly, with a bound that fits their lengths there."""
    base = np.linalg.qr(np.random.default_rng(0).normal(size=(data.train_features.shape[1], 256)))[0]
    centre = data.train_features.mean(0).astype(float)
    bound = CENTRED_SHARE * CLIP * math.sqrt(256 / data.train_features.shape[1])
    means = noisy_means((data.train_features - centre) @ base, data.train_labels, bound, multiplier, random)
    return nearest(means, (data.test_features - centre) @ base)


def pooled_scatter(data: FeatureDataset, multiplier: float, random: np.random.Generator, louder: float = 1.0) -> Any:
    """Means, and one scatter of all samples with noise, of which what stands above the noise is kept; best shrinkage.

    The shrinkage is the one that is best on the test samples, which favours it.
    """
    centre, bound = data.train_features.mean(0).astype(float), CENTRED_SHARE * CLIP
    rows, n = clipped(data.train_features - centre, bound), np.bincount(data.train_labels)
    means = noisy_means(rows, data.train_labels, bound, multiplier / math.sqrt(1 - SCATTER_SHARE), random)
    means = clipped(means, bound)
    scale = louder * multiplier / math.sqrt(SCATTER_SHARE) * bound**2
    noise = random.normal(size=(rows.shape[1],) * 2)
    scatter = rows.T @ rows - (means.T * n) @ means + scale * (noise + noise.T) / 2
    return _best_discriminant(data, centre, means, scatter, math.sqrt(2 * len(scatter)) * scale)


def _best_discriminant(data: FeatureDataset, centre: Floats, means: Floats, scatter: Floats, edge: float) -> Any:
    values, vectors = np.linalg.eigh(scatter)
    level = max(float(np.trace(scatter)), 1.0) / len(scatter)
    kept = values > max(edge, level)
    # what noise of that edge adds to a value that stands above it
    values = np.where(kept, (values + np.sqrt(np.maximum(values**2 - edge**2, 0))) / 2, 0)
    values = np.maximum(values, max(level * len(values) - values.sum(), 0.01 * level) / max((~kept).sum(), 1))
    tries = []
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        white = vectors / np.sqrt((1 - share) * values + share * values.mean())
        tries.append(nearest(means @ white, (data.test_features - centre) @ white))
    return max(tries, key=lambda answers: per_cent(data, answers))


def class_scatters(data: FeatureDataset, multiplier: float, random: np.random.Generator) -> Any:
    """A scatter of every class with noise of its own, pooled: as one with the noise of all of them together."""
    return pooled_scatter(data, multiplier, random, math.sqrt(len(data.classes)))


WAYS: dict[str, Way] = {
    "not centred": not_centred,
    "roots": roots,
    "256 random directions": projected,
    "pooled scatter": pooled_scatter,
    "a scatter a class": class_scatters,
}


# ---------------------------------------------------------------- all of it


def measured(data: FeatureDataset) -> dict[str, Any]:
    """Everything of one data set."""
    lengths = np.linalg.norm(data.train_features, axis=1)
    default = GDDSG().fit(data.train_features, data.train_labels)
    means = class_sums(data.train_features.astype(float), data.train_labels, len(data.classes))
    means /= np.bincount(data.train_labels)[:, None]
    found: dict[str, Any] = {
        "samples": len(lengths),
        "classes": len(data.classes),
        "median_length": round(float(np.median(lengths)), 2),
        "gddsg": per_cent(data, default.predict(data.test_features)),
        "nearest_mean": per_cent(data, nearest(means, data.test_features)),
        "sites": {},
        "ways": {},
    }
    for sites in SITES:
        found["sites"][str(sites)] = by_epsilon(
            lambda multiplier, seed, sites=sites: per_cent(data, merged_answers(data, sites, multiplier, seed))
        )
        print(sites, found["sites"][str(sites)], flush=True)
    for name, way in WAYS.items() if data.name.startswith(WAYS_ON) else ():
        found["ways"][name] = by_epsilon(
            lambda multiplier, seed, way=way: per_cent(data, way(data, multiplier, np.random.default_rng(seed))),
            WAYS_AT,
        )
        print(name, found["ways"][name], flush=True)
    return found


NAMES = {"cub200": "CUB-200", "cifar100": "CIFAR-100"}


def accuracy_lines(record: dict[str, Any]) -> list[str]:
    """The table of ``docs/privacy.md``: accuracy and its deviation over seeds, by epsilon."""
    columns = [(name, sites) for name in record["datasets"] for sites in record["datasets"][name]["sites"]]
    heads = [f"{NAMES[name]}, {sites} place{'s' * (sites != '1')}" for name, sites in columns]
    lines = [f"| epsilon | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for epsilon in EPSILONS:
        cells = (record["datasets"][name]["sites"][sites][f"{epsilon:g}"] for name, sites in columns)
        shown = " | ".join(f"{one['mean']:.1f} ± {one['deviation']:.1f}" for one in cells)
        lines.append(f"| {_epsilon(epsilon)} | {shown} |")
    return lines


def ways_lines(record: dict[str, Any]) -> list[str]:
    """The table of other ways, on one data set."""
    found = record["datasets"][WAYS_ON]
    ours = {f"{epsilon:g}": found["sites"]["1"][f"{epsilon:g}"] for epsilon in WAYS_AT}
    lines = [f"| epsilon | {' | '.join(f'{epsilon:g}' for epsilon in WAYS_AT)} |", "|---|" + "---|" * len(WAYS_AT)]
    for name, row in {"**these cards**": ours, **found["ways"]}.items():
        lines.append(f"| {name} | {' | '.join(format(one['mean'], '.1f') for one in row.values())} |")
    return lines


def _epsilon(epsilon: float) -> str:
    return f"{epsilon:g}" if epsilon < math.inf else "no noise"


def plot(record: dict[str, Any], path: Path) -> None:
    """Accuracy against epsilon, one panel a data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    ticks = [_epsilon(epsilon) for epsilon in EPSILONS]
    for axes, (name, found) in zip(figure.subplots(1, 2), record["datasets"].items(), strict=True):
        for sites, curve in found["sites"].items():
            middle, error = ([one[key] for one in curve.values()] for key in ("mean", "deviation"))
            axes.errorbar(range(len(ticks)), middle, error, marker="o", label=f"{sites} place{'s' * (sites != '1')}")
        axes.axhline(found["nearest_mean"], color="grey", linestyle="--", label="nearest mean, not private")
        axes.axhline(found["gddsg"], color="black", linestyle=":", label="GDDSG, not private")
        axes.set(title=name, xlabel="epsilon (delta 1e-5)", ylabel="accuracy, %", ylim=(0, None))
        axes.set_xticks(range(len(ticks)), ticks)
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, write the record, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/privacy.json"))
    parser.add_argument("--plot", type=Path, default=Path("docs/privacy.png"))
    given = parser.parse_args()
    start = time.perf_counter()
    record: dict[str, Any] = {
        "revision": code_revision(),
        "delta": DELTA,
        "clip": CLIP,
        "seeds": list(SEEDS),
        "centred_share": CENTRED_SHARE,
        "shares": SHARES,
        "scatter_share": SCATTER_SHARE,
        "datasets": {},
    }
    for name in DATASETS:
        record["datasets"][name] = measured(feature_file(given.features / f"{name}_efficientnet-lite0.npz"))
    record["seconds"] = round(time.perf_counter() - start, 1)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    plot(record, given.plot)


if __name__ == "__main__":
    main()
