"""Memory of a learner, measured in a process of its own, where nothing was resident before."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gddsg.bench.findings import MemoryFindings
from gddsg.bench.measurements import learn_stream, require
from gddsg.bench.processes import process_pool
from gddsg.errors import InputError
from gddsg.working_folder import working_folder


def measure_memory(load: Callable[..., tuple[Any, Any]], *arguments: Any) -> MemoryFindings:
    """Learn in a fresh process, and say how much memory that took and how large the model file is.

    Parameters
    ----------
    load : callable
        Gives an unfitted learner with ``save``, and a stream of tasks. It is called in the fresh process, so that it
        and its arguments can be pickled.
    *arguments : Any
        Of ``load``.

    Returns
    -------
    MemoryFindings
        What was measured.
    """
    with process_pool(1, torch.get_num_threads()) as pool:  # what uses one core here uses one there
        return pool.submit(_measured_here, load, arguments).result()


def _measured_here(load: Callable[..., tuple[Any, Any]], arguments: tuple[Any, ...]) -> MemoryFindings:
    learner, stream = load(*arguments)
    require(learner, "memory", "save")
    loaded = peak_mebibytes()
    learn_stream(learner, stream)
    peak = peak_mebibytes()  # before the file is written, which is no part of learning
    with working_folder() as folder:
        learner.save(folder / "model")
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    return MemoryFindings(len(stream.order), len(stream.sizes), round(size, 3), round(loaded, 1), round(peak, 1))


def peak_mebibytes() -> float:
    """Peak resident memory of this process.

    Returns
    -------
    float
        In 2²⁰ bytes.

    Raises
    ------
    InputError
        Where the system does not tell.
    """
    status = Path("/proc/self/status")
    if status.exists():  # getrusage counts the parent that a process was forked from too
        found = re.search(r"VmHWM:\s+(\d+)", status.read_text(encoding="utf-8"))
        if found:
            return int(found[1]) / 1024
    try:
        import resource
    except ImportError as error:
        raise InputError(
            "The measurement 'memory' was asked for, and Windows does not tell a process how much it took at most. "
            "Leave it out, or run it on Linux or macOS."
        ) from error
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
