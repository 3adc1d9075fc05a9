"""How much memory a model may ask for, whatever its file says."""

from __future__ import annotations

from gddsg.errors import InputError

LARGEST_PREDICTOR = 8 * 2**30
"""Bytes of what a model derives from its cards beside their own size. A file of megabytes could ask for any number of
them, so one that asks for more than this is refused, and none is learnt or written."""


def check_memory(feature_dim: int, projection_dim: int) -> None:
    """Refuse a model whose matrices of features by features, and of features by projections, are beyond the limit.

    Parameters
    ----------
    feature_dim, projection_dim : int
        Widths of the features and of their projection.
    """
    needed = 64 * feature_dim**2 + 12 * feature_dim * projection_dim
    if needed > LARGEST_PREDICTOR:
        raise InputError(
            f"{feature_dim} features and a projection of {projection_dim} take {needed / 2**30:.1f} GiB to predict; "
            f"a model may take up to {LARGEST_PREDICTOR / 2**30:.0f}. Use fewer of either."
        )
