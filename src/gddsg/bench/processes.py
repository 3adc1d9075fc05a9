"""Processes that do the runs: started afresh, bounded in threads, and gone when the one that started them is."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

import torch
from threadpoolctl import threadpool_limits

from gddsg.backbones.base import available_cores


def process_pool(workers: int, threads: int | None = None) -> ProcessPoolExecutor:
    """A pool of fresh processes that share the cores.

    Parameters
    ----------
    workers : int
        How many.
    threads : int or None
        Of each of them; an equal share of the cores unless told.

    Returns
    -------
    ProcessPoolExecutor
        To be used in a ``with`` statement.
    """
    threads = threads or max(available_cores() // workers, 1)  # more would only get in each other's way
    return ProcessPoolExecutor(workers, get_context("spawn"), _prepare_process, (threads,))


def _prepare_process(threads: int) -> None:
    """Bound the threads; and end with the runner, so that a kill leaves nothing behind that goes on for hours."""
    limit_threads(threads)

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()  # the id of the parent would not tell: Windows keeps it when the parent has ended
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit_threads(threads: int) -> None:
    """Have the arithmetic of this process use no more threads from now on.

    Parameters
    ----------
    threads : int
        How many.
    """
    torch.set_num_threads(threads)
    threadpool_limits(threads)
