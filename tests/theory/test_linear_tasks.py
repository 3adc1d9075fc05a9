"""Theorem 1: the closed forms are those of the recursion and of the learner itself, and no others are."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gddsg.errors import InputError
from gddsg.theory import (
    LinearTasks,
    expected_forgetting,
    expected_generalisation_error,
    expected_losses,
    printed_generalisation_error,
    simulate,
    simulated_losses,
)
from gddsg.theory.linear_tasks import last_weights, norm_weights, pair_weights

SETTINGS = import_module("benchmarks.theory_lab").settings()
DRAWS = 4000
SEED = 7_000


@pytest.fixture(scope="module")
def simulations():
    """Every setting, simulated once; with fixed seeds, so that what passes once passes always."""
    return [simulate(tasks, DRAWS, SEED + k) for k, tasks in enumerate(SETTINGS)]


def deviations(simulations, quantity, form):
    """Standard errors between simulation and closed form, setting by setting."""
    pairs = zip(SETTINGS, simulations, strict=True)
    return np.array([getattr(found, quantity).standard_errors_from(form(tasks)) for tasks, found in pairs])


def forgetting(tasks, *, norms=norm_weights, pairs=pair_weights, noise=None):
    """E[F_T] with parts of it exchanged."""
    t, r = tasks.n_tasks, tasks.ratio
    level = tasks.noise_level if noise is None else noise(tasks)
    known = norms(t, r) @ tasks.squared_norms + (pairs(t, r) * tasks.squared_distances).sum()
    return (known - norm_weights(t, r).sum() * level) / (t - 1)


def generalisation(tasks, *, between=last_weights, power=0, noise=None):
    """E[G_T] with parts of it exchanged."""
    t, r = tasks.n_tasks, tasks.ratio
    level = tasks.noise_level if noise is None else noise(tasks)
    start = r ** (t + power) * tasks.squared_norms.mean()
    return start + (1 - r) * (between(t, r) @ tasks.squared_distances.mean(1)) + level * (1 - r**t)


def too_wide(tasks):
    return tasks.width * tasks.noise**2 / (tasks.width - tasks.n_samples)


def samples_for_width(tasks):
    return tasks.n_samples * tasks.noise**2 / (tasks.width - tasks.n_samples - 1)


def pairs_without(k):
    """c_ij with one of its three powers left out."""

    def weights(t, r):
        i, j = np.meshgrid(np.arange(1.0, t + 1), np.arange(1.0, t + 1), indexing="ij")
        powers = [r ** (t - i), -(r ** np.abs(j - i)), r ** (t - j)]
        return np.triu((1 - r) * sum(power for at, power in enumerate(powers) if at != k), 1)

    return weights


WRONG = {
    "forgetting, no norms": ("forgetting", lambda tasks: forgetting(tasks, norms=lambda t, r: 0 * norm_weights(t, r))),
    "forgetting, norms with the other sign": (
        "forgetting",
        lambda tasks: forgetting(tasks, norms=lambda t, r: -norm_weights(t, r)),
    ),
    "forgetting, c without r^(T-i)": ("forgetting", lambda tasks: forgetting(tasks, pairs=pairs_without(0))),
    "forgetting, c without r^(j-i)": ("forgetting", lambda tasks: forgetting(tasks, pairs=pairs_without(1))),
    "forgetting, c without r^(T-j)": ("forgetting", lambda tasks: forgetting(tasks, pairs=pairs_without(2))),
    "forgetting, c two per cent larger": (
        "forgetting",
        lambda tasks: forgetting(tasks, pairs=lambda t, r: 1.02 * pair_weights(t, r)),
    ),
    "forgetting, noise over p - n": ("forgetting", lambda tasks: forgetting(tasks, noise=too_wide)),
    "generalisation, first sum to T - 1": ("generalisation_error", printed_generalisation_error),
    "generalisation, r^(T-1) at the start": ("generalisation_error", lambda tasks: generalisation(tasks, power=-1)),
    "generalisation, tasks in reverse": (
        "generalisation_error",
        lambda tasks: generalisation(tasks, between=lambda t, r: last_weights(t, r)[::-1]),
    ),
    "generalisation, noise over p - n": ("generalisation_error", lambda tasks: generalisation(tasks, noise=too_wide)),
    "generalisation, n in place of p": (
        "generalisation_error",
        lambda tasks: generalisation(tasks, noise=samples_for_width),
    ),
}


def test_there_are_enough_settings():
    shapes = {(tasks.n_tasks, tasks.n_samples, tasks.width, tasks.noise) for tasks in SETTINGS}
    assert len(shapes) == len(SETTINGS) >= 50


@pytest.mark.parametrize(
    ("quantity", "form"),
    [("forgetting", expected_forgetting), ("generalisation_error", expected_generalisation_error)],
)
def test_closed_forms_are_what_the_learner_does(simulations, quantity, form):
    off = deviations(simulations, quantity, form)
    assert np.abs(off).max() < 3
    # were standard errors too large, anything would be within three of them
    assert 0.75 < np.sqrt(np.square(off).mean()) < 1.25


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_coefficient_is_found(simulations, name):
    quantity, form = WRONG[name]
    right = forgetting if quantity == "forgetting" else generalisation
    differs = [not np.isclose(form(tasks), right(tasks), rtol=1e-12) for tasks in SETTINGS]
    off = np.abs(deviations(simulations, quantity, form))
    assert (off > 3).sum() >= 3
    assert (off > 3).sum() > 0.15 * sum(differs)
    assert off.max() > 4


def test_the_exchangeable_forms_are_ours_where_nothing_is_exchanged():
    for tasks in SETTINGS:
        assert forgetting(tasks) == pytest.approx(expected_forgetting(tasks))
        assert generalisation(tasks) == pytest.approx(expected_generalisation_error(tasks))


def test_the_printed_generalisation_error_is_right_where_the_last_task_is_zero():
    tasks = LinearTasks([[1.0, 2.0], [3.0, -1.0], [0.0, 0.0]], n_samples=4, width=12, noise=0.5)
    assert printed_generalisation_error(tasks) == expected_generalisation_error(tasks)


@given(st.integers(2, 7), st.integers(1, 30), st.integers(2, 60), st.floats(0, 3), st.integers(0, 2**32))
def test_closed_forms_sum_up_the_recursion(n_tasks, n_samples, more, noise, seed):
    optima = np.random.default_rng(seed).standard_normal((n_tasks, 2))
    tasks = LinearTasks(optima, n_samples, n_samples + more, noise)
    losses = expected_losses(tasks)
    own = np.diagonal(losses[1:])[:-1]
    assert expected_forgetting(tasks) == pytest.approx((losses[-1, :-1] - own).mean(), rel=1e-9, abs=1e-9)
    assert expected_generalisation_error(tasks) == pytest.approx(losses[-1].mean(), rel=1e-9)


def test_the_learner_fits_its_last_task_and_moves_no_further_than_it_must():
    tasks = LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=3, width=9)
    losses = simulated_losses(tasks, draws=50, seed=0)
    assert losses.shape == (50, 3, 2)
    assert (losses[:, 0] == 1).all()
    # without noise each step is a projection that has the task's optimum in it: its loss cannot rise
    assert (losses[:, 1, 0] <= losses[:, 0, 0] + 1e-12).all()
    assert (losses[:, 2, 1] <= losses[:, 1, 1] + 1e-12).all()


def test_large_simulations_are_the_same_in_batches(monkeypatch):
    tasks = LinearTasks([[1.0, 0.0], [0.0, 1.0]], n_samples=3, width=9, noise=0.5)
    monkeypatch.setattr("gddsg.theory.minimum_norm._BATCH_NUMBERS", 270)
    losses = simulated_losses(tasks, draws=25, seed=0)
    assert losses.shape == (25, 3, 2)
    assert len(np.unique(losses[:, -1, 0])) == 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0], [2.0]], 5, 6), "width is 6 with 5 samples a task, expected 7 or more"),
        (([[1.0]], 5, 10), r"shape \(1, 1\), expected \(n_tasks, dim\) with two tasks or more"),
        (([1.0, 2.0], 5, 10), r"shape \(2,\)"),
        (([[1.0] * 11] * 2, 5, 10), "dim at most the width, 10"),
        (([[1.0], [np.nan]], 5, 10), "NaN or infinity"),
        (([[1.0], [2.0]], 0, 10), "n_samples is 0"),
        (([[1.0], [2.0]], 5, 10, -1.0), "noise is -1.0"),
        (([[1.0], [2.0]], 5, 10, np.nan), "noise is nan"),
    ],
)
def test_what_cannot_be_computed_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        LinearTasks(*arguments)


def test_orders_and_draws_are_checked():
    tasks = LinearTasks([[1.0], [2.0]], 5, 10)
    with pytest.raises(InputError, match="each of 0 to 1 once"):
        tasks.in_order([0, 0])
    with pytest.raises(InputError, match="draws is 1"):
        simulate(tasks, 1, 0)
