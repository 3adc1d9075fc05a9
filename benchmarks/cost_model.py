"""What learning and answering would take at other sizes, by rates fitted to the records.

    python -m benchmarks.cost_model

Every rate comes from ``scale.json`` (photos by one and two workers, and by one worker half as many) or ``classes.json``
(models of two sizes): straight lines through what was measured, which is all that one machine can tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

RECORDS = Path(__file__).parent / "records"
PHOTOS, MACHINES = (10**6, 10**7, 10**8), (1, 10, 100)
CLASSES = (10**5, 3 * 10**5, 10**6)
WAYS = {
    "local": "the local engine",
    "ray 1": "Ray, one worker with all cores",
    "ray 1 half": "Ray, one worker with all cores, half of the photos",
    "ray 2": "Ray, two workers with half of the cores each",
    "ray 3": "Ray, three workers that share the cores",
    "two processes": "two processes of the local engine, half of the photos and of the cores each",
}

Record = dict[str, Any]


def records() -> tuple[Record, Record]:
    """Of learning by several workers, and of very many classes."""
    scale, classes = (json.loads((RECORDS / name).read_text()) for name in ("scale.json", "classes.json"))
    return scale, classes


def way_lines(scale: Record) -> list[str]:
    """Seconds of each way to learn the same photos, and megabytes of a worker and of the driver."""
    lines = ["| | seconds | of these to start and end Ray |", "|---|---|---|"]
    for key, name in WAYS.items():
        start = scale["seconds"].get(f"{key} start")
        lines.append(f"| {name} | {median(scale['seconds'][key]):.1f} | {f'{median(start):.1f}' if start else ''} |")
    return lines


def photo_lines(scale: Record) -> list[str]:
    """Time to learn photos, by machines such as the one of the record."""
    fixed, rate = photo_rate(scale)
    head = " | ".join(f"{n} machine{'s' * (n > 1)}" for n in MACHINES)
    lines = [f"| photos | {head} |", "|---" * (len(MACHINES) + 1) + "|"]
    for photos in PHOTOS:
        times = " | ".join(duration(fixed + photos * rate / machines) for machines in MACHINES)
        lines.append(f"| {photos:,} | {times} |")
    return lines


def photo_rate(scale: Record) -> tuple[float, float]:
    """Seconds that a run takes anyway, and seconds a photo that all cores of a machine take."""
    whole, half = (_bare(scale, way) for way in ("ray 1", "ray 1 half"))
    rate = (whole - half) / (scale["photos"] - scale["photos"] // 2)
    return whole - rate * scale["photos"] + median(scale["seconds"]["ray 1 start"]), rate


def _bare(scale: Record, way: str) -> float:
    return median(scale["seconds"][way]) - median(scale["seconds"][f"{way} start"])


def class_size_lines(classes: Record) -> list[str]:
    """What models of other numbers of classes would take."""
    of: dict[str, Callable[[Record], float]] = {
        "file": lambda one: one["file_GB"],
        "memory while answering": lambda one: one["resident_GB"],
        "opening, to the first answer": lambda one: one["seconds_to_first_answer"],
        "one answer": lambda one: one["milliseconds_one_answer"],
        f"{classes['queries']} answers together": lambda one: one[f"seconds_{classes['queries']}_answers"],
        "a new class": lambda one: one["seconds_to_add_a_class"],
    }
    units = ("GB", "GB", "s", "ms", "s", "s")
    lines = [f"| classes | {' | '.join(of)} |", "|---" * (len(of) + 1) + "|"]
    for n in CLASSES:
        cells = [
            f"{_extended(classes, n, get):.{0 if unit == 'ms' else 1}f} {unit}"
            for get, unit in zip(of.values(), units, strict=True)
        ]
        lines.append(f"| {n:,} | {' | '.join(cells)} |")
    return lines


def _extended(classes: Record, n: int, get: Callable[[Record], float]) -> float:
    """On the straight line through what the smallest and the largest model took."""
    small, large = classes["sizes"][0], classes["sizes"][-1]
    slope = (get(large) - get(small)) / (large["classes"] - small["classes"])
    return get(large) + slope * (n - large["classes"])


def duration(seconds: float) -> str:
    """In the unit that people would use."""
    for name, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def main() -> None:
    """Print all tables."""
    scale, classes = records()
    for lines in (way_lines(scale), photo_lines(scale), class_size_lines(classes)):
        print("\n".join(lines), end="\n\n")
    print(json.dumps({"ratios": scale["ratios"], "driver": scale["driver"]}, indent=1))


if __name__ == "__main__":
    main()
