"""A model of very many classes: size, loading, answers, changes, memory, and what the first look misses.

    python benchmarks/bench_classes.py --classes 100000 --out benchmarks/records/classes.json

Cards are synthetic: means and scatter are drawn with spectra like those of CUB-200's features, and siblings lie close
together, 20 of them in a family, so that the first look has something to miss. Each card is that of 20 samples of 1280
features. Loading is measured in a process of its own, which starts with nothing in memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gddsg.bench.memory import peak_mebibytes
from gddsg.bench.revision import code_revision
from gddsg.core.class_card import ClassCard
from gddsg.core.coded_rows import CodedRows
from gddsg.core.large_predictor import CLOSE_CLASSES, CLOSE_LOG_ODDS, LargePredictor
from gddsg.core.model import Model, Settings
from gddsg.core.moments import CodedMoments
from gddsg.core.shortlist import LISTED_CLASSES, pick
from gddsg.files import replace_file
from gddsg.store import SharedModel, read_model

DIM, SAMPLES, FAMILY, STEP = 1280, 20, 20, 20_000
SETTINGS = Settings(projection_dim=0)


class Drawn:
    """Synthetic classes of non-negative features, by number."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        decay = np.arange(1, DIM + 1.0)
        self.between, self.within = 0.16 * decay**-0.75, 0.6 * decay**-0.5  # deviations of roots along the axes below
        self.axes = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0].astype(np.float32)
        self.pool = (rng.standard_normal((8192, DIM)) * self.within).astype(np.float32) @ self.axes
        self.codes = CodedRows.of(torch.from_numpy(self.pool))

    def mean(self, number: int) -> NDArray[np.float32]:
        """Of the roots of the features."""
        family, own = (np.random.default_rng([7, seed]) for seed in (number // FAMILY, 10**9 + number))
        place = 0.8 * family.standard_normal(DIM) + 0.6 * own.standard_normal(DIM)
        roots: NDArray[np.float32] = 1 + (place * self.between).astype(np.float32) @ self.axes
        return roots.clip(min=0.01)

    def card(self, number: int) -> ClassCard:
        """Of a class."""
        rows = np.random.default_rng([8, number]).integers(len(self.pool), size=SAMPLES - 1)
        mean = self.mean(number)
        factor = CodedRows(self.codes.codes[rows], self.codes.scales[rows])
        plain = CodedRows(self.codes.codes[rows[:16]], 2 * self.codes.scales[rows[:16]])
        features = torch.from_numpy(mean**2)
        empty = CodedMoments.of(torch.zeros(SAMPLES, 0), 8)
        none = CodedMoments.of(torch.zeros(0, 0), 4)
        return ClassCard(
            unit_sum=SAMPLES * 0.9 * features / features.norm(),
            root=CodedMoments(SAMPLES, SAMPLES * torch.from_numpy(mean), factor, 0.0),
            raw=CodedMoments(SAMPLES, SAMPLES * features, plain, 0.0),
            projected=empty,
            held_out=none,
        )

    def sample(self, number: int, seed: int) -> NDArray[np.float32]:
        """Features of a fresh sample."""
        rng = np.random.default_rng([9, number, seed])
        roots = self.mean(number) + (rng.standard_normal(DIM) * self.within).astype(np.float32) @ self.axes / 4.4
        return np.asarray(roots.clip(min=0) ** 2, dtype=np.float32)


def name(number: int) -> str:
    """Of a class."""
    return f"class {number:06d}"


def learn(path: Path, drawn: Drawn, classes: int) -> Iterator[dict[str, float]]:
    """Build the file step by step."""
    shared = SharedModel(path)
    for start in range(0, classes, STEP):
        numbers = range(start, min(start + STEP, classes))
        begun = time.perf_counter()
        cards = {name(number): drawn.card(number) for number in numbers}
        drawing = time.perf_counter() - begun
        shared.change(lambda model, cards=cards: (model or Model(SETTINGS)).plus(cards))
        step = {"classes": numbers.stop, "seconds": round(time.perf_counter() - begun - drawing, 1)}
        print(step, flush=True)
        yield step


def load_and_answer(path: Path, classes: int, queries: int) -> dict[str, Any]:
    """In a fresh process: load, answer, look at what the first look misses, add and forget a class."""
    drawn, rng, found = Drawn(), np.random.default_rng(1), {}
    own = rng.choice(classes, queries, replace=False)
    rows = np.stack([drawn.sample(int(number), 0) for number in own])
    begun = time.perf_counter()
    model = read_model(path)
    first = model.predictor.predict(rows[:1])
    found["seconds_to_first_answer"] = round(time.perf_counter() - begun, 2)
    assert isinstance(model.predictor, LargePredictor)
    single = []
    for row in rows[1:101]:
        begun = time.perf_counter()
        model.predictor.predict(row[None])
        single.append(time.perf_counter() - begun)
    found["milliseconds_one_answer"] = round(1e3 * float(np.median(single)), 1)
    found["milliseconds_one_answer_p95"] = round(1e3 * float(np.quantile(single, 0.95)), 1)
    begun = time.perf_counter()
    labels = model.predictor.predict(rows)
    found[f"seconds_{queries}_answers"] = round(time.perf_counter() - begun, 2)
    found["accuracy"] = round(100 * float(np.mean(labels == [name(int(number)) for number in own])), 2)
    found["first_answer_the_same"] = bool(first[0] == labels[0])
    found |= missed(model.predictor, rows)
    found |= change(path, drawn, classes, rows)
    found["resident_GB"] = round(peak_mebibytes() * 2**20 / 1e9, 2)
    return found


def missed(predictor: LargePredictor, rows: NDArray[np.float32]) -> dict[str, float]:
    """The first look against the exact pass: the best class, and all that are close to it."""
    best, close, listed_close = 0, 0, 0
    means, biases = predictor._gather(np.arange(len(predictor.labels)))
    for start in range(0, len(rows), 50):
        whitened = predictor._whitened(rows[start : start + 50])
        exact = whitened.astype(np.float32) @ means.T - biases.astype(np.float32)
        near = predictor._leading(exact, CLOSE_CLASSES, CLOSE_LOG_ODDS / predictor.temperature)
        near[np.arange(len(exact)), exact.argmax(1)] = True
        listed = np.zeros_like(near)
        np.put_along_axis(listed, pick(predictor.shortlist.rough_scores(whitened), LISTED_CLASSES), True, 1)
        best += int(listed[np.arange(len(exact)), exact.argmax(1)].sum())
        close, listed_close = close + int(near.sum()), listed_close + int((near & listed).sum())
    return {
        "recall_of_the_best": round(100 * best / len(rows), 3),
        "recall_of_the_close": round(100 * listed_close / close, 3),
        "close_classes_a_row": round(close / len(rows), 2),
    }


def change(path: Path, drawn: Drawn, classes: int, rows: NDArray[np.float32]) -> dict[str, Any]:
    """Add classes one at a time, each in the file when the call returns, and forget them again."""
    shared, adding, forgetting, moved = SharedModel(path), [], [], 0
    shared.read().predictor.predict(rows[:1])
    for number in range(classes, classes + 9):
        card, metric = drawn.card(number), shared.read().derived.metric
        begun = time.perf_counter()
        shared.change(lambda model, card=card, number=number: model.plus({name(number): card}))
        took = time.perf_counter() - begun
        if shared.read().derived.metric is metric:
            adding.append(took)
        else:
            moved += 1
    newcomer = np.stack([drawn.sample(classes, 1)])
    known = shared.read().predictor.predict(newcomer)[0] == name(classes)
    for number in range(classes, classes + 9):
        begun = time.perf_counter()
        shared.change(lambda model, number=number: model.without(name(number)))
        forgetting.append(time.perf_counter() - begun)
    return {
        "seconds_to_add_a_class": round(float(np.median(adding)), 2),
        "seconds_to_add_a_class_most": round(max(adding), 2),
        "added_classes_that_moved_the_metric": moved,
        "newcomer_recognised": bool(known),
        "seconds_to_forget_a_class": round(float(np.median(forgetting)), 2),
    }


def measure(path: Path, classes: int, queries: int) -> dict[str, Any]:
    """The file, and what it does in a fresh process."""
    found = {
        "classes": classes,
        "file_GB": round(path.stat().st_size / 1e9, 2),
        "kB_a_class": round(path.stat().st_size / classes / 1e3, 1),
        "kB_a_card": round(len(Drawn().card(0).to_bytes()) / 1e3, 1),
    }
    command = [sys.executable, __file__, "--load", str(path), "--classes", str(classes), "--queries", str(queries)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found |= json.loads(done.stdout.splitlines()[-1])
    print(found, flush=True)
    return found


def class_lines(record: dict[str, Any]) -> list[str]:
    """Of models of very many classes, a column each."""
    answers = f"seconds_{record['queries']}_answers"
    rows: dict[str, Callable[[dict[str, Any]], str]] = {
        "file, of it cards": lambda one: f"{one['kB_a_class']:.0f} kB a class, {one['kB_a_card']:.0f} kB",
        "from opening the file to the first answer": lambda one: f"{one['seconds_to_first_answer']:.1f} s",
        "one answer, median and 95th percentile": lambda one: (
            f"{one['milliseconds_one_answer']:.1f} and {one['milliseconds_one_answer_p95']:.1f} ms"
        ),
        f"{record['queries']} answers together": lambda one: f"{one[answers]:.1f} s",
        "a new class, in the file": lambda one: f"{one['seconds_to_add_a_class']:.2f} s",
        "forgetting one": lambda one: f"{one['seconds_to_forget_a_class']:.2f} s",
        "the best class by the exact pass is listed": lambda one: f"{one['recall_of_the_best']:.2f} %",
        "so is each class close to it": lambda one: f"{one['recall_of_the_close']:.2f} %",
        "memory at most, while answering and changing": lambda one: f"{one['resident_GB']:.1f} GB",
    }
    sizes = record["sizes"]
    head = " | ".join(f"{one['classes']:,} classes" for one in sizes)
    lines = [f"| of {record['samples_a_class']} samples each | {head} |", "|---" * (len(sizes) + 1) + "|"]
    return lines + [f"| {name} | {' | '.join(map(show, sizes))} |" for name, show in rows.items()]


def main() -> None:
    """Measure and write a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="for the model file, some gigabytes; a temporary one unless named")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.load:
        print(json.dumps(load_and_answer(given.load, given.classes, given.queries)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "many.gddsg"
        record = {"revision": code_revision(), "threads": torch.get_num_threads(), "samples_a_class": SAMPLES}
        record |= {"features": DIM, "queries": given.queries, "steps": [], "sizes": []}
        for step in learn(path, Drawn(), given.classes):
            record["steps"].append(step)
            if step["classes"] in (STEP, given.classes):
                record["sizes"].append(measure(path, step["classes"], given.queries))
        record["minutes_to_learn"] = round(sum(step["seconds"] for step in record["steps"]) / 60, 1)
        record["learning_GB"] = round(peak_mebibytes() * 2**20 / 1e9, 2)
    print(json.dumps(record, indent=1))
    if given.out:
        replace_file(given.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
