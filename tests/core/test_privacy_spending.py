"""Accounting, held to the closed form of a single Gaussian mechanism and to another accountant."""

import math
import sys

import pytest
from scipy.stats import norm

from gddsg.core.privacy_spending import noise_multiplier, spent_epsilon
from gddsg.errors import InputError, MissingExtraError

try:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
except ImportError:
    dp_accounting = None

needs_accounting = pytest.mark.skipif(dp_accounting is None, reason="dp-accounting is not installed")


def delta_of(epsilon, sigma):
    """Balle and Wang, 2018: the exact delta of a Gaussian mechanism."""
    return norm.cdf(1 / (2 * sigma) - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
        -1 / (2 * sigma) - epsilon * sigma
    )


@needs_accounting
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 30.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_noise_spends_what_was_asked_for_and_no_more(epsilon, delta):
    sigma = noise_multiplier(epsilon, delta)
    assert delta_of(epsilon, sigma) == pytest.approx(delta, rel=1e-3)
    assert spent_epsilon([sigma], delta) == pytest.approx(epsilon, rel=1e-3)


@needs_accounting
def test_several_releases_add_up_as_an_accountant_of_compositions_says():
    accountant = PLDAccountant()
    for sigma in (1.0, 2.0, 3.0):
        accountant.compose(dp_accounting.GaussianDpEvent(sigma))
    assert spent_epsilon([1.0, 2.0, 3.0], 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)


@needs_accounting
def test_the_limits():
    assert noise_multiplier(math.inf, 1e-5) == 0
    assert spent_epsilon([1.0, 0.0], 1e-5) == math.inf
    assert spent_epsilon([], 1e-5) == 0
    assert noise_multiplier(1.0, 1e-5) > noise_multiplier(2.0, 1e-5) > noise_multiplier(2.0, 1e-3)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan])
def test_an_epsilon_that_makes_no_sense_is_refused(epsilon):
    with pytest.raises(InputError, match="epsilon="):
        noise_multiplier(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -1e-5, math.nan])
def test_a_delta_that_makes_no_sense_is_refused(delta):
    with pytest.raises(InputError, match="delta="):
        noise_multiplier(1, delta)
    with pytest.raises(InputError, match="delta="):
        spent_epsilon([1], delta)


@pytest.mark.parametrize("multiplier", [-1, math.nan])
def test_a_noise_that_makes_no_sense_is_refused(multiplier):
    with pytest.raises(InputError, match="Noise multipliers"):
        spent_epsilon([1, multiplier], 1e-5)


def test_without_accounting_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtraError, match=r"gddsg\[privacy\]"):
        noise_multiplier(1, 1e-5)
