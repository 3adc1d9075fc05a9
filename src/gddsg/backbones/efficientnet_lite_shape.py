"""Widths and depths of EfficientNet-Lite, for those who need no network: torch takes seconds to import."""

from __future__ import annotations

FEATURE_DIM = 1280
SCALES = {"efficientnet-lite0": (1.0, 1.0), "efficientnet-lite1": (1.0, 1.1), "efficientnet-lite2": (1.1, 1.2)}
"""Factors of width and depth."""

STEM_WIDTH = 32
_WIDTH_STEP = 8
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks, kernel, stride of the first block, expansion, channels: one line a stage."""


def layer_widths(name: str) -> tuple[int, ...]:
    """How many features each layer gives: those that the stages end with, and the last.

    Parameters
    ----------
    name : str
        A key of ``SCALES``.
    """
    return (*(scaled_width(stage[-1], SCALES[name][0]) for stage in STAGES), FEATURE_DIM)


def scaled_width(channels: int, factor: float) -> int:
    """The nearest multiple of eight, or the next one where that would take away more than a tenth."""
    wanted = channels * factor
    nearest = max(_WIDTH_STEP, int(wanted + _WIDTH_STEP / 2) // _WIDTH_STEP * _WIDTH_STEP)
    return nearest if nearest >= 0.9 * wanted else nearest + _WIDTH_STEP
