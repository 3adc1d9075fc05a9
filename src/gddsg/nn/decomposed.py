"""Weights as a part that all tasks share, gated by a mask of each task, plus a sparse part of the task's own.

``θ_t = σ ⊙ sigmoid(v_t) + σ̃_g + τ_t`` with σ shared by all tasks, a number of v_t for every output unit, σ̃_g shared by
the tasks of a cluster, and τ_t sparse: Additive Parameter Decomposition, Yoon et al., ICLR 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

from gddsg.nn.sparse import Sparse

__all__ = ["Decomposed", "NewTask", "consolidated", "gated", "retention"]

MASK = 0.0
"""v at first: half of the shared part is let through, and τ begins with the other half."""


@dataclass(frozen=True, eq=False)
class Decomposed:
    """What a task has of a layer, besides the part that all tasks share.

    Attributes
    ----------
    mask : Tensor
        v, a number for every output unit, ``(out,)``.
    own : Sparse
        τ, of the shape of the layer's weight.
    local : Sparse or None
        σ̃, the same object in all tasks of a cluster, so that it is stored once.
    """

    mask: Tensor
    own: Sparse
    local: Sparse | None = None

    def weight(self, shared: Tensor) -> Tensor:
        """θ, of the shape of σ.

        Parameters
        ----------
        shared : Tensor
            σ, ``(out, ...)``.
        """
        found = gated(shared, self.mask) + self.own.dense().to(shared.device)
        return found if self.local is None else found + self.local.dense().to(found.device)


class NewTask:
    """Parts of a task that is being trained: its weights begin as the shared part, or where there is none as given.

    Parameters
    ----------
    begun : mapping of str to Tensor
        Weights and biases of a network that has learnt nothing here.
    shared : mapping of str to Tensor
        σ of every layer, by the name of its weight; empty before the first task, which trains it.
    own : bool
        Whether there is a τ.
    trains_shared : bool
        Whether σ is trained.
    """

    def __init__(
        self, begun: Mapping[str, Tensor], shared: Mapping[str, Tensor], own: bool, trains_shared: bool
    ) -> None:
        weights = {name: tensor for name, tensor in begun.items() if name.endswith(".weight")}
        device = next(iter(weights.values())).device
        first = {name: tensor.clone().to(device) for name, tensor in (shared or weights).items()}
        self.shared: dict[str, Tensor] = (
            {name: nn.Parameter(tensor) for name, tensor in first.items()} if trains_shared else first
        )
        self.masks = {name: nn.Parameter(torch.full((len(one),), MASK, device=device)) for name, one in first.items()}
        self.own = {
            name: nn.Parameter(one - gated(one, self.masks[name].detach())) for name, one in first.items() if own
        }
        self.biases = {name: nn.Parameter(one.clone()) for name, one in begun.items() if name not in weights}

    def parameters(self) -> list[nn.Parameter]:
        """All that is trained."""
        shared = [one for one in self.shared.values() if isinstance(one, nn.Parameter)]
        return [*shared, *self.masks.values(), *self.own.values(), *self.biases.values()]

    def weights(self) -> dict[str, Tensor]:
        """θ of every layer, and biases."""
        found: dict[str, Tensor] = dict(self.biases)
        for name, shared in self.shared.items():
            gate = gated(shared, self.masks[name])
            found[name] = gate + self.own[name] if name in self.own else gate
        return found

    def length(self) -> Tensor | float:
        """``‖τ‖₁`` of all layers."""
        return sum((one.abs().sum() for one in self.own.values()), 0.0)

    def energy(self, shared: bool) -> Tensor:
        """``½ ‖·‖²`` of masks, of own parts and, if ``shared``, of σ."""
        parts = [*self.masks.values(), *self.own.values(), *(self.shared.values() if shared else ())]
        return torch.stack([one.square().sum() for one in parts]).sum() / 2

    def finished(self, above: float) -> dict[str, Decomposed]:
        """What is kept of every layer; entries of τ up to ``above`` are dropped."""
        return {
            name: Decomposed(
                mask.detach().cpu().clone(),
                Sparse.of(self.own.get(name, torch.zeros_like(self.shared[name])), above),
            )
            for name, mask in self.masks.items()
        }


def gated(shared: Tensor, mask: Tensor) -> Tensor:
    """``σ ⊙ sigmoid(v)``, with a number of v for every output unit.

    Parameters
    ----------
    shared : Tensor
        σ, ``(out, ...)``.
    mask : Tensor
        v, ``(out,)``.
    """
    return shared * mask.to(shared.device).sigmoid().view(-1, *[1] * (shared.dim() - 1))


def retention(shared: Tensor, masks: Tensor, own: Tensor, wanted: Tensor) -> Tensor:
    """``½ Σ_i ‖θ_i − θ_i*‖²``: what holds the weights of earlier tasks while a later one trains σ and their τ.

    Parameters
    ----------
    shared : Tensor
        σ, ``(out, ...)``.
    masks : Tensor
        v of the tasks, ``(n_tasks, out)``.
    own : Tensor
        τ of the tasks, ``(n_tasks, out, ...)``.
    wanted : Tensor
        θ*, the weights before the later task, of the same shape; both without the part that is shared in clusters.
    """
    gate = masks.sigmoid().view(*masks.shape, *[1] * (shared.dim() - 1))
    return torch.addcmul(own - wanted, gate, shared).square().sum() / 2


def consolidated(parts: Sequence[Decomposed], clusters: int, spread: float, seed: int) -> list[Decomposed]:
    """Own parts of tasks that are alike, told as one shared part wherever they are nearly equal.

    The own parts of all tasks of one layer are put into clusters by k-means. Where the largest and the smallest entry
    of a cluster differ by at most ``spread``, ``σ̃ = (max + min) / 2`` stands for all of them and τ becomes zero;
    elsewhere ``σ̃ = 0`` and τ stays. So no weight changes by more than ``spread / 2``.

    Parameters
    ----------
    parts : sequence of Decomposed
        Of one layer, a task each.
    clusters : int
        How many, if there are as many tasks that differ.
    spread : float
        β.
    seed : int
        Of k-means.
    """
    table = torch.stack([(_local(part) + part.own.dense()).flatten() for part in parts])
    found: list[Decomposed] = list(parts)
    group = _groups(table.numpy(), clusters, seed)
    for one in np.unique(group):
        members = np.flatnonzero(group == one)
        rows = table[torch.from_numpy(members)]
        high, low = rows.amax(0), rows.amin(0)
        near = high - low <= spread
        shape = parts[0].own.shape
        local = Sparse.of(torch.where(near, (high + low) / 2, 0).view(shape))
        for row, member in zip(rows, members.tolist(), strict=True):
            own = Sparse.of(torch.where(near, 0, row).view(shape))
            found[member] = replace(parts[member], own=own, local=local)
    return found


def _local(part: Decomposed) -> Any:
    return 0 if part.local is None else part.local.dense()


def _groups(table: NDArray[np.float32], clusters: int, seed: int) -> NDArray[Any]:
    """The cluster of every row, ``(n,)``; rows that are equal are in one."""
    distinct, place = np.unique(table, axis=0, return_inverse=True)
    if len(distinct) <= clusters:
        return place.ravel()
    found: NDArray[Any] = KMeans(clusters, n_init=1, random_state=seed).fit(distinct).labels_[place.ravel()]
    return found
