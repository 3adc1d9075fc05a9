"""Several processes, each with a GPU of its own, that train one and the same thing (``accelerate launch``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gddsg.errors import MissingExtraError, TrainingError

__all__ = ["Processes", "processes"]


class Processes:
    """One process that works alone.

    Attributes
    ----------
    count, place : int
        How many there are, and which of them this one is, from 0.
    device : str or None
        Torch device that is this one's own; None where it may use any.
    """

    count: int = 1
    place: int = 0
    device: str | None = None

    def share(self, n: int) -> slice:
        """Places, among ``n`` samples, of those that this process looks at; none where there are too few for all."""
        return slice(n * self.place // self.count, n * (self.place + 1) // self.count)

    def add_up(self, loss: float, parameters: Sequence[nn.Parameter]) -> float:
        """Add the gradients of all processes, so that each has those of the whole batch; and their losses."""
        return loss

    def agree(self, number: int) -> bool:
        """Whether all processes have come to the same number."""
        return True


class _Team(Processes):
    """One of several, all with the same parameters and the same order of samples."""

    def __init__(self, state: Any) -> None:
        self.count, self.place = int(state.num_processes), int(state.process_index)
        self.device = str(state.device)

    def add_up(self, loss: float, parameters: Sequence[nn.Parameter]) -> float:
        # what is used by no sample of one process may be used by those of another: all must take part in each sum
        used = [float(one.grad is not None) for one in parameters]
        total, *uses = self._sum(torch.tensor([loss, *used], dtype=torch.float64)).tolist()
        for parameter, use in zip(parameters, uses, strict=True):
            if use:
                own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad = self._sum(own)
        return float(total)

    def agree(self, number: int) -> bool:
        sum_, squares = self._sum(torch.tensor([number, number**2], dtype=torch.float64)).tolist()
        return bool(squares * self.count == sum_**2)

    def _sum(self, numbers: Tensor) -> Tensor:
        from accelerate.utils import reduce

        total: Tensor = reduce(numbers.to(self.device), reduction="sum")
        return total.to(numbers.device)


def processes() -> Processes:
    """The processes that were started together with this one."""
    if os.environ.get("WORLD_SIZE", "1") in ("", "0", "1"):
        return Processes()
    try:
        from accelerate import PartialState
    except ImportError as error:
        raise MissingExtraError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']} says that several processes train together, which needs "
            "accelerate. Install it: pip install accelerate"
        ) from error
    team = _Team(PartialState(cpu=not torch.cuda.is_available()))  # it finds nobody on CPUs unless told to
    if str(team.count) != os.environ["WORLD_SIZE"]:
        raise TrainingError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']} says how many processes train together, and accelerate finds "
            f"{team.count}. Start them with `accelerate launch`, or train in one process without WORLD_SIZE."
        )
    return team
