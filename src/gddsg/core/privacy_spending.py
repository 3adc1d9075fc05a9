"""What noisy releases spend of a sample's privacy, by Google's accounting (``dp-accounting``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gddsg.errors import InputError, MissingExtraError


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The least noise with which a release is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon, delta : float
        What may be spent; an infinite epsilon asks for no noise, and for no privacy.

    Returns
    -------
    float
        Standard deviation of the noise over the most that one sample can move a sum.
    """
    _check_delta(delta)
    if not epsilon > 0:
        raise InputError(f"epsilon={epsilon!r} was given; expected a number above 0, the smaller the more private.")
    if epsilon == math.inf:
        return 0.0
    return float(_accounting().get_sigma_gaussian(epsilon, delta))


def spent_epsilon(noise_multipliers: Sequence[float], delta: float) -> float:
    """The epsilon that several releases of the same samples spend together.

    Gaussian mechanisms of multipliers σ_i, each of which may depend on what was released before, are together one of
    ``1/σ² = Σ 1/σ_i²``.

    Parameters
    ----------
    noise_multipliers : sequence of float
        One a release; 0 for one without noise.
    delta : float
        See :func:`noise_multiplier`.

    Returns
    -------
    float
        Infinite if one of them had no noise.
    """
    _check_delta(delta)
    if any(not one >= 0 for one in noise_multipliers):
        raise InputError(f"Noise multipliers {list(noise_multipliers)} were given; expected numbers from 0.")
    if 0.0 in noise_multipliers:
        return math.inf
    total = sum(one**-2 for one in noise_multipliers)
    return float(_accounting().get_epsilon_gaussian(total**-0.5, delta)) if total else 0.0


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InputError(
            f"delta={delta!r} was given; expected a number above 0 and far below one over the number of samples, "
            "such as 1e-5."
        )


def _accounting() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise MissingExtraError(
            "Privacy is accounted for by dp-accounting, which is not installed. Install it: pip install "
            "'gddsg[privacy]'"
        ) from error
    return dp_accounting
