"""LoRanPAC is least squares on truncated singular value decompositions, written out here."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import softmax

from gddsg import LoRanPAC
from gddsg.checks.laws import separated_classes
from gddsg.core.projection import projection_weights
from gddsg.errors import InputError

SCORE_SCALE = 10


def samples(n_classes=6, n=20, dim=12, noise=2.0):
    X, y = separated_classes(n_classes, n, dim)
    rows = [np.abs(X + np.random.default_rng(s).normal(0, noise, X.shape)).astype(np.float32) for s in (1, 2)]
    return rows[0], y, rows[1]


def lifted(X, E):
    return np.maximum(X.astype(np.float64) @ projection_weights(X.shape[1], E, seed=0).double().numpy(), 0)


def published(batches, E, truncation=0.25, rank=10_000):
    """U and σ of ``[U diag(σ), Hᵀ]`` after each batch, and ``Θ = U diag(σ)⁻² Uᵀ Σ HᵀY``."""
    U_sigma, crossed, count = np.zeros((E, 0)), {}, 0
    for X, y in batches:
        H, count = lifted(X, E), count + len(X)
        for name in np.unique(y):
            crossed[name] = crossed.get(name, 0) + H[y == name].sum(0)
        U, sigma, _ = np.linalg.svd(np.concatenate([U_sigma, H.T], axis=1), full_matrices=False)
        kept = min(round(count * (1 - truncation)), rank, round(E * (1 - truncation)))
        U, sigma = U[:, :kept], sigma[:kept]
        U_sigma = U * sigma
    C = np.stack([crossed[name] for name in sorted(crossed)], axis=1)
    return U @ (U.T @ C / sigma[:, None] ** 2)


def grown(model, batches):
    for X, y in batches:
        model.partial_fit(X, y)
    return model


def expected_probabilities(batches, fresh, E, **parameters):
    return softmax(SCORE_SCALE * lifted(fresh, E) @ published(batches, E, **parameters), axis=1)


def in_tasks(X, y, sizes):
    order = np.random.default_rng(3).permutation(np.unique(y))
    return [(X[rows], y[rows]) for part in np.split(order, np.cumsum(sizes)[:-1]) for rows in [np.isin(y, part)]]


@pytest.mark.parametrize("truncation", [0.25, 0.5])
@pytest.mark.parametrize("sizes", [(6,), (2, 2, 2), (1, 4, 1)], ids=str)
@pytest.mark.parametrize("E", [40, 100, 500], ids=["fewer units than samples", "about as many", "more"])
def test_it_is_least_squares_on_truncated_decompositions(E, sizes, truncation):
    X, y, fresh = samples()
    batches = in_tasks(X, y, sizes)
    model = grown(LoRanPAC(projection_dim=E, truncation=truncation), batches)
    expected = expected_probabilities(batches, fresh, E, truncation=truncation)
    # directions are kept in float32; with as many units as samples the least singular values feel it
    np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-3)
    assert (model.predict(fresh) == np.unique(y)[expected.argmax(1)]).all()
    assert 0.4 < np.mean(model.predict(fresh) == y) < 1


def test_classes_that_come_back_and_single_samples_go_the_same_way():
    X, y, fresh = samples(n=8)
    batches = [(X[i::5], y[i::5]) for i in range(5)] + [(X[:1], y[:1])]
    model = grown(LoRanPAC(projection_dim=300), batches)
    np.testing.assert_allclose(model.predict_proba(fresh), expected_probabilities(batches, fresh, 300), atol=1e-4)


def test_the_rank_is_bounded_by_samples_units_and_the_parameter():
    X, y, _ = samples()
    for parameters, expected in (({"projection_dim": 500}, 90), ({"projection_dim": 40}, 30), ({"rank": 17}, 17)):
        model = LoRanPAC(**{"projection_dim": 500, **parameters}).fit(X, y)
        factor = model.learnt_.state.kept.directions.factor
        assert factor.shape == (expected, model.projection_dim)
        assert model.state_bytes() == 4 * (expected * model.projection_dim + expected + 6 * model.projection_dim)


def test_a_small_rank_takes_its_samples_in_parts_whatever_their_order():
    X, y, fresh = samples()
    shuffled = np.random.default_rng(0).permutation(len(y))
    model = LoRanPAC(projection_dim=200, rank=25).fit(X, y)
    assert model.learnt_.state.kept.directions.count == len(y)
    other = LoRanPAC(projection_dim=200, rank=25).fit(X[shuffled], y[shuffled])
    np.testing.assert_array_equal(other.predict_proba(fresh), model.predict_proba(fresh))
    assert np.mean(model.predict(fresh) == y) > 0.5


def test_without_truncation_the_order_does_not_matter():
    X, y, fresh = samples(n=5)
    tables = [
        grown(LoRanPAC(projection_dim=2000, truncation=0.0), in_tasks(X, y, sizes)).predict_proba(fresh)
        for sizes in ((6,), (2, 2, 2), (1,) * 6)
    ]
    np.testing.assert_allclose(tables[1], tables[0], atol=1e-4)
    np.testing.assert_allclose(tables[2], tables[0], atol=1e-4)


def test_odd_classes_are_learnt():
    """As far as three quarters of the directions can hold them, which the law asks too much of."""
    X, y, fresh = samples()
    one = LoRanPAC(projection_dim=64).fit(X[:1], y[:1])
    assert set(one.predict(fresh)) == {y[0]}
    equal = LoRanPAC(projection_dim=64).fit(np.full((4, 12), 0.5), ["a", "a", "b", "b"])
    np.testing.assert_allclose(equal.predict_proba(np.full((2, 12), 0.5)), 0.5)
    zeros = LoRanPAC(projection_dim=64).fit(np.zeros((4, 12)), ["a", "a", "b", "b"])
    np.testing.assert_allclose(zeros.predict_proba(np.ones((2, 12))), 0.5)
    lonely = LoRanPAC(projection_dim=64).fit(X, y).partial_fit([[0.0] * 11 + [50.0]], ["lonely"])
    assert lonely.predict([[0.0] * 11 + [50.0]])[0] == "lonely"


def test_nothing_that_threads_learn_together_is_lost():
    X, y, _ = samples()
    model, at_once = LoRanPAC(projection_dim=64), LoRanPAC(projection_dim=64).fit(X, y).learnt_.state.kept
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda part: model.partial_fit(X[part::8], y[part::8]), range(8)))
    assert model.learnt_.state.kept.directions.count == len(y)
    for name, total in model.learnt_.state.kept.sums.items():
        np.testing.assert_allclose(total, at_once.sums[name], rtol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("truncation", 1.0), ("truncation", -0.1), ("rank", 0), ("rank", 2.5)])
def test_a_bad_parameter_is_refused(name, value):
    with pytest.raises(InputError, match=name):
        LoRanPAC(projection_dim=8, **{name: value}).fit(np.eye(3), [1, 2, 3])
