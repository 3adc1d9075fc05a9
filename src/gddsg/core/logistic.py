"""Multinomial logistic regression by L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gddsg.core.decompositions import symmetric_eigen

_HISTORY = 10


@dataclass(frozen=True, eq=False)
class PrincipalRows:
    """Rows in their principal coordinates, ``rows = Z basis``: there the best scale of every coordinate is known.

    Attributes
    ----------
    rows : Tensor
        ``(n, dim)``.
    basis : Tensor
        ``(dim, dim)`` orthogonal.
    variances : Tensor
        ``(dim,)`` of the coordinates.
    """

    rows: Tensor
    basis: Tensor
    variances: Tensor

    @classmethod
    def of(cls, Z: Tensor) -> PrincipalRows:
        """Of centred rows ``(n, dim)``."""
        variances, basis = symmetric_eigen((Z.T @ Z / len(Z)).double())
        # in float64: among hundreds of classes the search magnifies rounding, which follows the order of the names
        return cls(Z.double() @ basis, basis, variances.clamp(min=0))

    def among(self, chosen: Tensor) -> PrincipalRows:
        """Some of the rows, in the same coordinates."""
        return PrincipalRows(self.rows[chosen], self.basis, self.variances)


def fit_logistic(design: PrincipalRows, classes: Tensor, penalty: float, start: Tensor, steps: int) -> Tensor:
    """Minimise ``mean cross-entropy + penalty / 2 ‖W‖²`` over ``W`` ``(dim + 1, n_classes)``, from ``start``.

    W acts on principal coordinates; its last row holds the intercepts, which are not penalised. The search goes over
    ``W / scale`` with ``scale² = 1 / (variance / n_classes + penalty)``, the inverse curvature at W = 0, so that some
    twenty steps go as far as hundreds would without. The penalty is a rotation's own: W has the same in any basis.
    """
    start, n_classes = start.to(design.rows), start.shape[1]
    curvatures = torch.cat([design.variances / n_classes + penalty, start.new_tensor([1 / n_classes])])
    scale = curvatures.rsqrt()[:, None]
    V = (start / scale).requires_grad_()
    optimiser = torch.optim.LBFGS([V], max_iter=steps, history_size=_HISTORY, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        W = scale * V
        loss = cross_entropy(scores(design.rows, W), classes) + penalty / 2 * W[:-1].square().sum()
        torch.autograd.backward(loss)
        return loss.detach()

    optimiser.step(closure)
    return (scale * V).detach()


def scores(rows: Tensor, W: Tensor) -> Tensor:
    """``rows W + intercepts``, ``(n, n_classes)``."""
    return torch.addmm(W[-1], rows, W[:-1])
