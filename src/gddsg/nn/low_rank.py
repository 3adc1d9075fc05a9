"""Weights of a task as scaled rows and columns of a base, plus a residual of low rank.

``θ_t ≈ diag(r_t) W diag(s_t) + U_t V_t``: Hessian Aware Low-Rank Perturbation, Li et al., ICML 2024. Of a convolution,
r has a number for every output channel, s one for every input channel, and the residual is the same at all places of
the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.nn.sparse import Sparse

__all__ = ["LowRank", "choose_ranks", "factors", "perturbed", "pruned", "scaled", "scales", "singular"]

_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class LowRank:
    """What a task changes in a layer of the base.

    Attributes
    ----------
    rows, columns : Tensor
        r ``(out,)`` and s ``(in,)``.
    left, right : Sparse
        U ``(out, rank)`` and V ``(rank, in)``.
    """

    rows: Tensor
    columns: Tensor
    left: Sparse
    right: Sparse

    @classmethod
    def of(cls, parts: Sequence[Tensor]) -> LowRank:
        """Copies of r, s, U and V, in this order."""
        rows, columns, left, right = (part.detach().cpu() for part in parts)
        return cls(rows.clone(), columns.clone(), Sparse.of(left), Sparse.of(right))

    @classmethod
    def unchanged(cls, base: Tensor) -> LowRank:
        """No change at all: scales of one, and factors without a column."""
        out, given = base.shape[:2]
        return cls.of((torch.ones(out), torch.ones(given), torch.zeros(out, 0), torch.zeros(0, given)))

    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """r, s, U and V; not to be changed."""
        return self.rows, self.columns, self.left.dense(), self.right.dense()

    def weight(self, base: Tensor) -> Tensor:
        """θ, of the shape of the base.

        Parameters
        ----------
        base : Tensor
            W, ``(out, in, ...)``.
        """
        return perturbed(base, *(part.to(base.device) for part in self.parts()))

    @property
    def extra(self) -> int:
        """How many numbers the task adds to the base: scales that are not one, entries of factors that are not zero."""
        scalings = sum(int((part != 1).sum()) for part in (self.rows, self.columns))
        return scalings + self.left.count + self.right.count


def scaled(base: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``diag(r) W diag(s)``.

    Parameters
    ----------
    base : Tensor
        W, ``(out, in, ...)``.
    rows, columns : Tensor
        r ``(out,)`` and s ``(in,)``.
    """
    places = [1] * (base.dim() - 2)
    return base * rows.view(-1, 1, *places) * columns.view(1, -1, *places)


def perturbed(base: Tensor, rows: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``diag(r) W diag(s) + U V``.

    Parameters
    ----------
    base : Tensor
        W, ``(out, in, ...)``.
    rows, columns, left, right : Tensor
        See :class:`LowRank`.
    """
    residual = left @ right
    return scaled(base, rows, columns) + residual.view(*residual.shape, *[1] * (base.dim() - 2))


def scales(base: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """The r and s that make ``‖W_free − diag(r) W diag(s)‖²`` least, by least squares for one and the other in turn.

    A row or column of the base that is all zero keeps the scale one, which is as good as any.

    Parameters
    ----------
    base, free : Tensor
        W and W_free, ``(out, in, ...)``.
    """
    places = tuple(range(2, base.dim()))
    square = base.double().square()
    product = base.double() * free.double()
    if places:
        square, product = square.sum(places), product.sum(places)
    rows, columns = square.new_ones(square.shape[0]), square.new_ones(square.shape[1])
    for _ in range(_ROUNDS):
        rows = _ratio(product @ columns, square @ columns.square())
        columns = _ratio(rows @ product, rows.square() @ square)
    return rows.to(base.dtype), columns.to(base.dtype)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    return torch.where(below > 0, above / below.clamp(min=torch.finfo(below.dtype).tiny), 1.0)


def singular(residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``U, σ, V`` of a residual, of a convolution averaged over the places of its kernel; σ falls.

    Parameters
    ----------
    residual : Tensor
        ``(out, in, ...)``.
    """
    places = tuple(range(2, residual.dim()))
    left, values, right = torch.linalg.svd(residual.mean(places) if places else residual, full_matrices=False)
    return left, values, right


def choose_ranks(
    values: Mapping[str, Tensor], importance: Mapping[str, float], rate: float, most: int
) -> dict[str, int]:
    """Ranks of all layers together: as few directions as carry ``rate`` of what all residuals are worth.

    A direction is worth ``importance · σ²``, by which the loss grows without it where the Hessian of a layer is taken
    to be its importance times the identity. Every layer has at least one and at most ``most``.

    Parameters
    ----------
    values : mapping of str to Tensor
        Singular values σ of each layer's residual.
    importance : mapping of str to float
        Of each layer; of a convolution times the number of places of its kernel.
    rate : float
        From 0 to 1.
    most : int
        Largest rank of a layer.
    """
    worth = {name: importance[name] * found.double().square() for name, found in values.items()}
    every = torch.cat(list(worth.values())).sort(descending=True).values
    carried = every.cumsum(0)
    enough = int((carried < rate * carried[-1]).sum())  # the first direction with which it is reached is kept, too
    least = every[min(enough, len(every) - 1)]
    return {name: max(1, min(most, int((found >= least).sum()), len(found))) for name, found in worth.items()}


def factors(left: Tensor, values: Tensor, right: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """``U √σ`` and ``√σ V`` of the first ``rank`` directions.

    Parameters
    ----------
    left, values, right : Tensor
        What :func:`singular` gives.
    rank : int
        How many directions.
    """
    root = values[:rank].sqrt()
    return left[:, :rank] * root, root[:, None] * right[:rank]


def pruned(layers: Mapping[str, LowRank], most: int) -> dict[str, LowRank]:
    """The same with at most so many extra numbers in all, see :attr:`LowRank.extra`.

    Scales stay, as long as there is room for all of them; of the factors those entries stay that are largest. Where
    even the scales are too many, those stay that are farthest from one, and no factor does.

    Parameters
    ----------
    layers : mapping of str to LowRank
        All layers of a task.
    most : int
        How many.
    """
    parts = [layer.parts() for layer in layers.values()]
    scalings = [part for layer in parts for part in layer[:2]]
    used = sum(int((part != 1).sum()) for part in scalings)
    if used > most:
        scalings = [1 + part for part in _largest([part - 1 for part in scalings], most)]
    entries = _largest([part for layer in parts for part in layer[2:]], max(most - used, 0))
    return {
        name: LowRank.of((*scalings[2 * i : 2 * i + 2], *entries[2 * i : 2 * i + 2])) for i, name in enumerate(layers)
    }


def _largest(parts: Sequence[Tensor], most: int) -> list[Tensor]:
    """The tensors with zeros for all but the ``most`` entries that are largest in absolute value; the first of ties."""
    flat = torch.cat([part.flatten() for part in parts])
    keep = torch.zeros(len(flat), dtype=torch.bool)
    keep[flat.abs().sort(descending=True, stable=True).indices[:most]] = True
    found = torch.where(keep, flat, 0.0).split([math.prod(part.shape) for part in parts])
    return [values.view(part.shape) for values, part in zip(found, parts, strict=True)]
