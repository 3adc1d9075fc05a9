"""Features of zero mean and unit deviation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.core.transform import signed_root


@dataclass(frozen=True, eq=False)
class StandardisedRoot:
    """``(√x - mean) / deviation``, the root keeping the sign; a feature that never varies becomes 0.

    Attributes
    ----------
    mean, deviation : Tensor
        ``(feature_dim,)`` float64, of the roots of the features it was made from.
    """

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, features: Tensor) -> StandardisedRoot:
        """From features ``(n, feature_dim)``."""
        roots = signed_root(features)
        mean = roots.mean(0, dtype=torch.float64)
        squares = torch.stack([part.double().sub_(mean).square_().sum(0) for part in roots.split(4096)]).sum(0)
        deviation = (squares / len(roots)).sqrt()
        constant = deviation <= 1e-6 * mean.abs()  # float32 features differ by that much through rounding alone
        return cls(mean, torch.where(constant | (deviation == 0), torch.inf, deviation))

    def __call__(self, features: Tensor) -> Tensor:
        """The standardised features, in the precision of ``features``."""
        roots = signed_root(features)
        return roots.sub_(self.mean.to(roots)).div_(self.deviation.to(roots))
