"""RanPAC, phase 2: one ridge head for all classes on random projections."""

from __future__ import annotations

from torch import Tensor

from gddsg.core.projection import project
from gddsg.core.transform import View
from gddsg.learners.ridge import RANPAC_SCALE, RidgeLearner


class RanPAC(RidgeLearner):
    """Ridge regression on ``relu(x W)`` from running sums (McDonnell et al., NeurIPS 2023), without first-task tuning.

    The original picks λ on the last fifth of the current task, so that its result depends on which task came last.
    Here a fifth of all samples, chosen by a hash of their content, gives held-out sums: λ sees every task, and the
    result does not depend on the order of classes.

    Parameters
    ----------
    projection_dim : int
        M, width of the random projection; the paper's 10,000. A narrower one takes a fraction of the time.
    regularisation : float or None
        λ; ``None`` picks it from 1e-8 … 1e8 by squared error on the held-out sums.
    seed : int
        Of the projection.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> RanPAC(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2307.02251
    """

    score_scale = RANPAC_SCALE
    number_bytes = 4

    def __init__(
        self,
        projection_dim: int = 10_000,
        regularisation: float | None = None,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.regularisation = regularisation
        self.seed = seed
        self.view = view
        self.device = device

    def _units(self, features: Tensor) -> Tensor:
        return project(features.double(), self.projection_dim, self.seed)
