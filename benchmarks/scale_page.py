"""What docs/scale.md says of measurements, from the records of bench_scale.py and bench_classes.py.

    python -m benchmarks.scale_page

The cost model has no constant of its own: every rate is one that was measured, and times are those rates times sizes.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

RECORDS = Path(__file__).parent / "records"
SIZES = ((10**6, 10**5), (10**7, 10**5), (10**7, 10**6), (10**8, 10**6))
MACHINES = (1, 10, 100)
SAMPLE_BYTES = 24  # of a photo in its card: an id and a sketch


def records() -> tuple[dict[str, Any], dict[str, Any]]:
    """Of learning by several workers, and of very many classes."""
    return tuple(json.loads((RECORDS / name).read_text()) for name in ("scale.json", "classes.json"))  # type: ignore[return-value]


def speed_lines(scale: dict[str, Any]) -> list[str]:
    """Seconds of each way to learn the same photos."""
    names = {
        "local": "the local engine",
        "ray 1": "Ray, one worker with all cores",
        "ray 2": "Ray, two workers with half of the cores each",
        "two processes": "two processes of the local engine, half of the photos and of the cores each",
    }
    lines = ["| | seconds | of these to start and end Ray |", "|---|---|---|"]
    for key, name in names.items():
        start = scale["seconds"].get(f"{key} start")
        lines.append(f"| {name} | {median(scale['seconds'][key]):.1f} | {f'{median(start):.1f}' if start else ''} |")
    return lines


def class_lines(classes: dict[str, Any]) -> list[str]:
    """Of a model of very many classes."""
    answers = f"seconds_{classes['queries']}_answers"
    rows = [
        ("file, of it cards", f"{classes['kB_a_class']:.0f} kB a class, {classes['kB_a_card']:.0f} kB"),
        ("learning all of them, synthesis included", f"{classes['minutes_to_learn']:.0f} min"),
        ("from opening the file to the first answer", f"{classes['seconds_to_first_answer']:.1f} s"),
        (
            "one answer, median and 95th percentile",
            f"{classes['milliseconds_one_answer']:.1f} and {classes['milliseconds_one_answer_p95']:.1f} ms",
        ),
        (f"{classes['queries']} answers together", f"{classes[answers]:.1f} s"),
        ("a new class, in the file", f"{classes['seconds_to_add_a_class']:.2f} s"),
        ("forgetting one", f"{classes['seconds_to_forget_a_class']:.2f} s"),
        ("the best class by the exact pass is listed", f"{classes['recall_of_the_best']:.2f} %"),
        ("so is each class close to it", f"{classes['recall_of_the_close']:.2f} %"),
        ("memory at most, learning and answering", f"{classes['learning_GB']:.1f} and {classes['resident_GB']:.1f} GB"),
    ]
    return [f"| {classes['classes']:,} classes of {classes['samples_a_class']} samples | |", "|---|---|"] + [
        f"| {name} | {value} |" for name, value in rows
    ]


def cost_lines(scale: dict[str, Any], classes: dict[str, Any]) -> list[str]:
    """What other sizes would take, by the measured rates."""
    bare = median(scale["seconds"]["ray 1"]) - median(scale["seconds"]["ray 1 start"])
    a_photo = bare * scale["cores"] / scale["photos"]  # core seconds, reading twice and cards included
    a_class = 60 * classes["minutes_to_learn"] / classes["classes"]
    lines = [
        f"| photos | classes | embedding on 1, 10, 100 machines of {scale['cores']} cores | deriving what answers, on "
        "one machine | file | memory to answer | ids in the cards |",
        "|---|---|---|---|---|---|---|",
    ]
    for photos, n in SIZES:
        times = ", ".join(duration(photos * a_photo / scale["cores"] / machines) for machines in MACHINES)
        file = n * classes["kB_a_class"] / 1e6
        memory, ids = n * answering_bytes(classes) / 1e9, photos * SAMPLE_BYTES / 1e9
        sizes = " | ".join(f"{size:.1f} GB" for size in (file, memory, ids))
        lines.append(f"| {photos:,} | {n:,} | {times} | {duration(n * a_class)} | {sizes} |")
    return lines


def answering_bytes(classes: dict[str, Any]) -> float:
    """A class in memory, beside what a program takes anyway: mean, place in leading directions, inner matrix."""
    rank = classes["samples_a_class"] - 1
    return 4.0 * (classes["features"] + 128 + rank**2) * 2  # twice: in blocks, and joined for products


def duration(seconds: float) -> str:
    """In the unit that people would use."""
    for name, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def main() -> None:
    """Print all lines."""
    scale, classes = records()
    for lines in (speed_lines(scale), class_lines(classes), cost_lines(scale, classes)):
        print("\n".join(lines), end="\n\n")
    print(json.dumps({"ratios": scale["ratios"], "driver": scale["driver"]}, indent=1))


if __name__ == "__main__":
    main()
