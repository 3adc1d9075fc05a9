"""What a frozen part makes of images, kept while there is room: no image goes through it twice."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor

from gddsg.data.images import Images

__all__ = ["KeptInputs", "room_for_inputs"]

_MOST_BYTES = 2**32
_SHARE = 4  # no more than a fourth of the machine's memory


def room_for_inputs() -> int:
    """Bytes that prepared images may take; where the system does not tell its memory, half of the most."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # as on Windows
        return _MOST_BYTES // 2
    return min(_MOST_BYTES, memory // _SHARE)


class KeptInputs:
    """Inputs of images by what the images are; those that were wanted least lately make room for others.

    After every task a benchmark tests all classes seen so far, so the same images come again and again, to one learner
    after another.

    Parameters
    ----------
    compute : callable
        From some images to their inputs, a row each, on the CPU; what it makes of one does not depend on the others.
    at_once : int
        How many images it is given at a time.
    most_bytes : int or None
        That all of them may take; half of :func:`room_for_inputs` unless told, since who trains has a copy.
    """

    def __init__(self, compute: Callable[[Images], Tensor], at_once: int, most_bytes: int | None = None) -> None:
        self._compute, self._at_once = compute, at_once
        self._most = room_for_inputs() // 2 if most_bytes is None else most_bytes
        self._kept: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes, self._lock = 0, threading.Lock()

    def fill(self, inputs: Tensor, images: Images) -> None:
        """Write the inputs of all images to the rows of ``inputs``.

        Parameters
        ----------
        inputs : Tensor
            ``(n, *shape)``.
        images : Images
            What is looked at, n of them.
        """
        keys = images.digests()
        missing = [row for row, key in enumerate(keys) if not self._found(key, inputs[row])]
        for start in range(0, len(missing), self._at_once):
            rows = missing[start : start + self._at_once]
            computed = self._compute(images[rows])
            inputs[rows] = computed
            for row, one in zip(rows, computed, strict=True):
                self._keep(keys[row], one)

    def _found(self, key: bytes, out: Tensor) -> bool:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        if kept is None:
            return False
        out.copy_(kept)  # what is kept never changes, so nobody has to wait
        return True

    def _keep(self, key: bytes, one: Tensor) -> None:
        one = one.clone(memory_format=torch.contiguous_format)  # a row would keep all of its batch
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = one
            self._bytes += one.nbytes
            while self._bytes > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.nbytes
