"""What has been trained so far, on disk: who is killed in the middle of a task goes on in the middle of it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from gddsg.files import replace_file

__all__ = ["Checkpoint"]


class Checkpoint:
    """A file of one training.

    Parameters
    ----------
    path : Path
        Where; it need not exist. What another training has left there, or a damaged file, is not used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(
        self, key: bytes, epochs: int, parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer
    ) -> None:
        """Write down what there is after so many epochs, in one step."""
        content = io.BytesIO()
        tensors = [one.detach().cpu() for one in parameters]
        found = {"key": key.hex(), "epochs": epochs, "parameters": tensors, "optimiser": optimiser.state_dict()}
        torch.save(found, content)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, content.getvalue())

    def restore(self, key: bytes, parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer) -> int:
        """Take over what was written down of this training; how many epochs that was, 0 for nothing."""
        try:
            found = torch.load(self._path, map_location="cpu", weights_only=True)  # tensors, and nothing that is run
            if found["key"] != key.hex():
                return 0
            tensors, state, epochs = found["parameters"], found["optimiser"], int(found["epochs"])
        except Exception:  # whatever is wrong with the file, training from the beginning is right
            return 0
        with torch.no_grad():
            for one, kept in zip(parameters, tensors, strict=True):
                one.copy_(kept)
        optimiser.load_state_dict(state)
        return epochs

    def drop(self) -> None:
        """Remove the file: what it was for is done."""
        self._path.unlink(missing_ok=True)
