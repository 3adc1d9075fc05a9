"""Which numbers a feature may be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gddsg.errors import InputError

LARGEST_FEATURE = 1e15
"""In size; larger ones are not learnt, since their squares leave the range of float32."""

SMALLEST_FEATURE = 1e-15
"""In size, likewise; smaller ones count as zero."""


def usable_features(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features of a network, the tiny ones set to zero, or an :class:`InputError`.

    Parameters
    ----------
    features : ndarray
        ``(n, feature_dim)``, one row at least.
    """
    if not np.isfinite(features).all():
        raise InputError("The features contain NaN or infinity. Look at the backbone, or at the photos it was given.")
    sizes = np.abs(features)
    refuse_range(float(sizes.max()))
    return np.where(sizes >= SMALLEST_FEATURE, features, np.float32(0))


def refuse_range(largest: float) -> None:
    """Refuse features of which the largest has such a size.

    Parameters
    ----------
    largest : float
        Not negative.
    """
    if largest > LARGEST_FEATURE:
        raise InputError(f"A feature exceeds {LARGEST_FEATURE:g} in size. Rescale the features, then try again.")
    if 0 < largest < SMALLEST_FEATURE:
        raise InputError(f"All features are below {SMALLEST_FEATURE:g} in size. Rescale them, then try again.")
