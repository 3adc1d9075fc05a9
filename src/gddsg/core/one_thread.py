"""Arithmetic whose rounding must not follow the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock, _inside, _usual = Lock(), 0, 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Have torch use one thread for what the present thread of the program computes; others go on as they were.

    On some processors a product of small matrices is rounded in another way by two threads than by one. What is kept
    for years must not show how many cores there were. Not to be nested.
    """
    global _inside, _usual
    with _lock:  # torch gives the number that any thread has set last
        _usual = _usual if _inside else torch.get_num_threads()
        _inside += 1
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            torch.set_num_threads(_usual)
