"""All attacks, one after the other."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.attack.counts import Counts

MEMORY_LIMIT = 16 * 2**30
"""Address space of an attack: what asks for more fails, and the attack has succeeded."""

ATTACKS = {
    "kills of every writing command, up to three processes, links": ("kills", "attack_by_kills", 200),
    "damaged model files": ("model_files", "attack_damaged_models", 3000),
    "forged model files with right digests": ("model_files", "attack_forged_models", 1000),
    "damaged networks and feature caches": ("networks", "attack_networks_and_caches", 1000),
    "damaged photos": ("images", "attack_images", 10_000),
    "damaged feature files": ("images", "attack_feature_files", 1000),
    "damaged records": ("records", "attack_records", 1000),
    "damaged experiments": ("records", "attack_experiments", 1000),
    "hostile names of classes and files": ("names", "attack_names", 300),
    "hostile inputs and labels, all learners": ("inputs", "attack_learners", 1000),
    "mutated uploads to the service": ("uploads", "attack_uploads", 10_000),
    "small data sets of simple pictures, 1, 2 and 4 threads": ("small_sets", "attack_small_sets", 500),
}
"""What is attacked: module, function and how often."""


def attack_all(seed: int, share: float = 1.0) -> Iterator[dict[str, Any]]:
    """The results of all attacks, each in a process of its own, so that its memory can be measured."""
    for title, (module, function, n) in ATTACKS.items():
        began = time.monotonic()
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            counts, peak = pool.submit(attack, module, function, math.ceil(share * n), seed).result()
        yield {
            "attack": title,
            "tried": counts.tried,
            "outcomes": dict(sorted(counts.outcomes.items())),
            "failures": counts.failures,
            "peak_mebibytes": round(peak),
            "seconds": round(time.monotonic() - began),
        }


def attack(module: str, function: str, n: int, seed: int) -> tuple[Counts, float]:
    """One attack, in a folder of its own and within the limit of memory; and its peak."""
    from importlib import import_module

    from gddsg.bench.memory import peak_mebibytes

    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # libtiff tells there of every damaged file; what matters is in the counts
    import resource  # which Windows does not have

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    run: Callable[..., Counts] = getattr(import_module(f"tests.attack.{module}"), function)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GDDSG_CACHE"] = f"{folder}/cache"
        wants_folder = "folder" in run.__code__.co_varnames[: run.__code__.co_argcount]
        counts = run(n, seed, Path(folder)) if wants_folder else run(n, seed)
    return counts, peak_mebibytes()


def table_line(row: dict[str, Any]) -> str:
    """A line of the table in ``docs/reliability.md``."""
    outcomes = ", ".join(f"{n} {what}" for what, n in row["outcomes"].items())
    return f"| {row['attack']} | {row['tried']} | {outcomes} | {len(row['failures'])} | {row['peak_mebibytes']} |"
