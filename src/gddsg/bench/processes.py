"""Processes that do the runs: started afresh, bounded in threads, and gone when the one that started them is."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from threadpoolctl import threadpool_limits

from gddsg.backbones.base import available_cores


def process_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of fresh processes that share the cores.

    Parameters
    ----------
    workers : int
        How many.

    Returns
    -------
    ProcessPoolExecutor
        To be used in a ``with`` statement.
    """
    threads = max(available_cores() // workers, 1)  # more would only get in each other's way
    return ProcessPoolExecutor(workers, get_context("spawn"), _prepare_process, (os.getpid(), threads))


def _prepare_process(parent: int, threads: int) -> None:
    """Bound the threads; and end with the runner, so that a kill leaves nothing behind that goes on for hours."""
    torch.set_num_threads(threads)
    threadpool_limits(threads)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
