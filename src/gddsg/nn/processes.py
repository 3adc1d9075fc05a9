"""Several processes, each with a GPU of its own, that train one and the same thing (``accelerate launch``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import nn

from gddsg.errors import MissingExtraError

if TYPE_CHECKING:
    from gddsg.nn.training import Batch

__all__ = ["Processes", "processes"]


class Processes:
    """One process that works alone."""

    def part(self, batch: Batch) -> Batch:
        """The samples of a batch that this process looks at."""
        return batch

    def add_up(self, parameters: Sequence[nn.Parameter]) -> None:
        """Add the gradients of all processes, so that each has those of the whole batch."""


class _Team(Processes):
    """One of several, all with the same parameters and the same order of samples."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def part(self, batch: Batch) -> Batch:
        mine = slice(self._state.process_index, None, self._state.num_processes)
        if len(batch.rows[mine]) == 0:  # fewer samples than processes: look at one, and count it for nothing
            return replace(batch, inputs=batch.inputs[:1], targets=batch.targets[:1], rows=batch.rows[:0])
        return replace(batch, inputs=batch.inputs[mine], targets=batch.targets[mine], rows=batch.rows[mine])

    def add_up(self, parameters: Sequence[nn.Parameter]) -> None:
        from accelerate.utils import reduce

        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad = reduce(parameter.grad, reduction="sum")


def processes() -> Processes:
    """The processes that were started together with this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return Processes()
    try:
        from accelerate import PartialState
    except ImportError as error:
        raise MissingExtraError(
            "Training in several processes needs accelerate. Install it: pip install accelerate"
        ) from error
    return _Team(PartialState())
