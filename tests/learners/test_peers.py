"""The learners GDDSG is compared with are what they say they are, by formulas written out again here."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from gddsg import ACIL, KLDA, LEARNERS, SLDA, FeCAM, JointLogistic, JointRidge, NearestReservoir, RanPAC, SimpleCIL
from gddsg.checks import yield_checks
from gddsg.checks.laws import separated_classes
from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.held_out_ridge import REGULARISATIONS
from gddsg.core.linear_discriminant import oracle_approximating_shrinkage
from gddsg.core.projection import projection_weights
from gddsg.core.random_fourier import fourier_features
from gddsg.errors import InputError
from gddsg.learners.joint_logistic import PENALTIES
from gddsg.learners.joint_ridge import REGULARISATION_GRID

M = 64
SCORE_SCALE, COSINE_SCALE = 10, 16
ROUNDING = 1e-7


def overlapping_classes(n_classes=6, n=30, dim=12, *, noise=2.0, scale=1.0, seed=0):
    """Classes that are confused now and then, with fresh samples of them."""
    X, y = separated_classes(n_classes, n, dim, seed)
    X, fresh = (np.abs(X + np.random.default_rng(seed + s).normal(0, noise, X.shape)) * scale for s in (1, 2))
    return X.astype(np.float32), y, fresh.astype(np.float32)


def tasks(y, sizes, seed=None):
    """Masks of the rows of each task: classes sorted, or in an order drawn from a seed."""
    order = np.unique(y) if seed is None else np.random.default_rng(seed).permutation(np.unique(y))
    return [np.isin(y, part) for part in np.split(order, np.cumsum(sizes)[:-1])]


def learn(model, X, y, masks):
    for mask in masks:
        model.partial_fit(X[mask], y[mask])
    return model


def relu_projection(X):
    return np.maximum(X.astype(np.float64) @ projection_weights(X.shape[1], M, seed=0).numpy(), 0)


def one_hot(y):
    return (y[:, None] == np.unique(y)).astype(np.float64)


# SimpleCIL.


def test_simplecil_is_the_nearest_class_mean_by_cosine():
    X, y, fresh = overlapping_classes()
    model = learn(SimpleCIL(), X, y, tasks(y, (2, 3, 1), seed=0))
    means = np.stack([X[y == c].astype(np.float64).mean(0) for c in np.unique(y)])
    rows = fresh.astype(np.float64)
    cosines = rows @ means.T / np.linalg.norm(rows, axis=1)[:, None] / np.linalg.norm(means, axis=1)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1
    assert (model.predict(fresh) == np.unique(y)[cosines.argmax(1)]).all()
    np.testing.assert_allclose(model.predict_proba(fresh), softmax(COSINE_SCALE * cosines, axis=1), rtol=1e-9)


def test_simplecil_weighs_every_sample_alike_however_a_class_is_split():
    X, y, fresh = overlapping_classes()
    part = np.random.default_rng(0).choice(3, len(y), p=[0.1, 0.2, 0.7])
    split = learn(SimpleCIL(), X, y, [part == p for p in range(3)])
    np.testing.assert_allclose(split.predict_proba(fresh), SimpleCIL().fit(X, y).predict_proba(fresh), rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_simplecil_has_the_same_bits_whatever_the_order_of_classes(seed):
    X, y, fresh = overlapping_classes()
    expected = SimpleCIL().fit(X, y).predict_proba(fresh)
    for sizes in ((1,) * 6, (4, 2)):
        assert np.array_equal(learn(SimpleCIL(), X, y, tasks(y, sizes, seed)).predict_proba(fresh), expected)


# RanPAC.


@pytest.mark.parametrize("regularisation", [100.0, 1e4, 1e6])
@pytest.mark.parametrize("sizes", [(6,), (2, 2, 2), (1, 4, 1)], ids=str)
def test_ranpac_is_ridge_regression_on_random_projections(sizes, regularisation):
    X, y, fresh = overlapping_classes()
    model = RanPAC(projection_dim=M, regularisation=regularisation)
    for count, mask in enumerate(tasks(y, sizes, seed=3)):
        model.partial_fit(X[mask], y[mask])
        seen = np.isin(y, model.classes_)
        assert len(model.classes_) == sum(sizes[: count + 1])
        ridge = Ridge(regularisation, fit_intercept=False, solver="cholesky")
        scores = ridge.fit(relu_projection(X[seen]), one_hot(y[seen])).predict(relu_projection(fresh))
        scores = scores.reshape(len(fresh), -1)  # a single class comes back without its column
        assert (model.predict(fresh) == model.classes_[scores.argmax(1)]).all()
        expected = softmax(SCORE_SCALE * scores, axis=1)
        np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=ROUNDING)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


def held_out_errors(X, y):
    """Squared error on the held-out rows for each candidate of the grid, row by row and not from sums."""
    held = is_held_out(hash_rows(torch.from_numpy(X))).numpy()
    H, Y = relu_projection(X), one_hot(y)
    errors = []
    for regularisation in REGULARISATIONS:
        gram = H[~held].T @ H[~held] + regularisation * np.eye(M)
        theta = np.linalg.solve(gram, H[~held].T @ Y[~held])
        errors.append(float(((Y[held] - H[held] @ theta) ** 2).sum()))
    return errors


@pytest.mark.parametrize(("noise", "scale"), [(0.5, 1.0), (2.0, 1e-3), (2.0, 1.0), (6.0, 300.0)])
def test_ranpac_chooses_the_best_regularisation_of_the_whole_grid(noise, scale):
    X, y, fresh = overlapping_classes(noise=noise, scale=scale)
    best = int(np.argmin(held_out_errors(X, y)))
    chosen = learn(RanPAC(projection_dim=M), X, y, [y <= "c02", y > "c02"]).predict_proba(fresh)

    def fixed(k):
        model = RanPAC(projection_dim=M, regularisation=REGULARISATIONS[k])
        return learn(model, X, y, [y <= "c02", y > "c02"]).predict_proba(fresh)

    np.testing.assert_allclose(chosen, fixed(best), atol=1e-9)
    neighbours = [k for k in (best - 1, best + 1) if 0 <= k < len(REGULARISATIONS)]
    assert not any(np.allclose(chosen, fixed(k), atol=1e-6) for k in neighbours)


@pytest.mark.parametrize("regularisation", [100.0, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_ranpac_at_a_fixed_regularisation_does_not_depend_on_the_order_of_classes(seed, regularisation):
    X, y, fresh = overlapping_classes()
    expected = RanPAC(projection_dim=M, regularisation=regularisation).fit(X, y)
    for sizes in ((1,) * 6, (4, 2)):
        model = learn(RanPAC(projection_dim=M, regularisation=regularisation), X, y, tasks(y, sizes, seed))
        assert (model.predict(fresh) == expected.predict(fresh)).all()
        difference = np.abs(model.predict_proba(fresh) - expected.predict_proba(fresh)).max()
        assert difference < ROUNDING


# All that learn batch by batch.


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, learner in LEARNERS.items()
        if learner.takes == "features" and "arrival_order_does_not_matter" not in learner.exempt
    ],
)
def test_no_class_is_recognised_better_or_worse_for_the_order_it_came_in(name):
    """The range over orders of each class's accuracy, OPD by class, is exactly zero."""
    X, y, fresh = overlapping_classes()
    parameters = LEARNERS[name].test_params()
    expected = LEARNERS[name](**parameters).fit(X, y).predict(fresh)
    accuracies = []
    for seed, sizes in ((0, (1,) * 6), (1, (2, 2, 2)), (2, (5, 1))):
        labels = learn(LEARNERS[name](**parameters), X, y, tasks(y, sizes, seed)).predict(fresh)
        assert (labels == expected).all()
        accuracies.append([np.mean(labels[y == c] == c) for c in np.unique(y)])
    assert np.ptp(accuracies, axis=0).max() == 0
    assert 0.5 < np.mean(expected == y) < 1  # where all is right or all is wrong, order would not show


# SLDA.


def test_slda_is_linear_discriminant_analysis():
    """scikit-learn shrinks towards tr(Σ)/p I where the paper takes I: equal once the mean variance is 1."""
    X, y, fresh = overlapping_classes()
    centred = X - np.stack([X[y == c].mean(0, dtype=np.float64) for c in y])
    unit_variance = 1 / np.sqrt(np.square(centred).mean())
    X, fresh = (X * unit_variance).astype(np.float32), (fresh * unit_variance).astype(np.float32)
    shrinkage = 0.05
    model = learn(SLDA(shrinkage=shrinkage), X, y, tasks(y, (2, 3, 1), seed=0))
    # both divide the scatter by the number of samples, not by the degrees of freedom; classes are of equal size here
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X.astype(np.float64), y)
    expected = lda.decision_function(fresh.astype(np.float64))
    assert (model.predict(fresh) == lda.predict(fresh)).all()
    scaled = softmax(3 / np.sqrt(X.shape[1]) * expected, axis=1)  # probabilities are less sure than the likelihoods
    np.testing.assert_allclose(model.predict_proba(fresh), scaled, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_slda_shrinks_relative_to_the_scatter_by_a_number_or_by_a_formula(scale):
    X, y, fresh = overlapping_classes(scale=scale)
    centred = X - np.stack([X[y == c].mean(0, dtype=np.float64) for c in y])
    by_formula = oracle_approximating_shrinkage(torch.from_numpy(centred.T @ centred / len(X)), len(X))
    assert 0.01 < by_formula < 0.9
    for parameters, shrinkage in (
        ({"shrinkage": 0.2, "relative": True}, 0.2),
        ({"shrinkage": "oas"}, by_formula),
        ({}, by_formula),
    ):
        model = learn(SLDA(**parameters), X, y, tasks(y, (2, 3, 1), seed=0))
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X.astype(np.float64), y)
        expected = softmax(3 / np.sqrt(X.shape[1]) * lda.decision_function(fresh.astype(np.float64)), axis=1)
        np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-6)


def test_slda_expects_no_class_more_than_another():
    X, y, fresh = overlapping_classes()
    few = np.concatenate([np.flatnonzero(y == c)[: 5 if c == "c00" else 30] for c in np.unique(y)])
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-6).fit(X[few].astype(np.float64), y[few])
    without_priors = lda.decision_function(fresh.astype(np.float64)) - np.log(lda.priors_)
    assert (SLDA(shrinkage=1e-6).fit(X[few], y[few]).predict(fresh) == lda.classes_[without_priors.argmax(1)]).all()
    assert (lda.predict(fresh) != lda.classes_[without_priors.argmax(1)]).any()


# KLDA.


def test_klda_is_linear_discriminant_analysis_on_random_fourier_features():
    X, y, fresh = overlapping_classes()
    model = learn(KLDA(projection_dim=M, shrinkage=0.1), X, y, tasks(y, (2, 3, 1), seed=0))

    def fourier(rows):
        rows = torch.from_numpy(rows.astype(np.float64))
        return fourier_features(rows / rows.norm(dim=1, keepdim=True), M, 0.1, 0).numpy()

    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(fourier(X), y)
    expected = lda.decision_function(fourier(fresh))
    np.testing.assert_allclose(model.predict_proba(fresh), softmax(3 / np.sqrt(M) * expected, axis=1), atol=1e-9)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


def test_an_ensemble_of_klda_averages_the_probabilities_of_its_models():
    X, y, fresh = overlapping_classes()
    model = learn(KLDA(projection_dim=M, ensemble=3, seed=2**32 - 2), X, y, tasks(y, (2, 3, 1), seed=0))
    seeds = (2**32 - 2, 1_000_001, 2_000_004)  # far apart: five ensembles in a row have no model in common
    single = [KLDA(projection_dim=M, seed=seed).fit(X, y).predict_proba(fresh) for seed in seeds]
    np.testing.assert_allclose(model.predict_proba(fresh), np.mean(single, axis=0), atol=1e-9)
    assert np.abs(single[0] - single[1]).max() > 0.01


def test_klda_as_published_takes_features_as_they_are_and_the_pseudo_inverse_of_the_scatter():
    X, y, fresh = overlapping_classes()
    parameters = {"projection_dim": M, "gamma": 0.01, "unit_length": False, "shrinkage": 0.0}
    model = learn(KLDA(**parameters), X, y, tasks(y, (2, 3, 1), seed=0))
    Z, z = (fourier_features(torch.from_numpy(rows), M, 0.01, 0).numpy() for rows in (X, fresh))
    means = np.stack([Z[y == c].mean(0) for c in np.unique(y)])
    inverse = np.linalg.pinv(sum(np.cov(Z[y == c].T, bias=True) * (y == c).sum() for c in np.unique(y)))
    gaps = z[:, None] - means
    distances = np.einsum("ncd,de,nce->nc", gaps, inverse, gaps)
    assert (model.predict(fresh) == np.unique(y)[distances.argmin(1)]).all()
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


@pytest.mark.parametrize("gamma", [0.25, 2.0])
def test_klda_approximates_the_discriminant_of_the_explicit_kernel(gamma):
    X, y, fresh = overlapping_classes()
    model = KLDA(projection_dim=4000, gamma=gamma, shrinkage=0.3).fit(X, y)
    expected = kernel_discriminant(X, y, fresh, gamma, shrinkage=0.3, dim=4000)
    assert np.mean(model.predict(fresh) == np.unique(y)[expected.argmax(1)]) > 0.95
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


def kernel_discriminant(X, y, fresh, gamma, shrinkage, dim):
    """``φ·Λμ_c - ½ μ_cᵀΛμ_c`` from inner products alone: φ itself, of no finite dimension, is never computed.

    With samples Φ, class means Φᵀ share and centred samples ``Φᵀ J``, ``Σ = (1-ρ) Φᵀ J Jᵀ Φ / n + level I`` and, by
    Woodbury, ``a Λ b = (a·b - aΦᵀJ (n level / (1-ρ) I + JᵀK J)⁻¹ JᵀΦ b) / level``.
    """
    X, fresh = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, fresh))
    K, k, n = rbf_kernel(X, gamma=gamma), rbf_kernel(fresh, X, gamma=gamma), len(X)
    share = one_hot(y) / one_hot(y).sum(0)
    J = np.eye(n) - share @ one_hot(y).T
    scatter = J.T @ K @ J
    level = shrinkage * np.trace(scatter) / n / dim
    outside = J @ np.linalg.inv(n * level / (1 - shrinkage) * np.eye(n) + scatter) @ J.T
    products, norms = ((rows - rows @ outside @ K) @ share / level for rows in (k, share.T @ K))
    return products - np.diagonal(norms) / 2


def test_klda_does_well_where_samples_are_as_many_as_fourier_features():
    X, y, fresh = overlapping_classes(n_classes=8, n=32, dim=24, noise=2.5)
    at_the_peak = KLDA(projection_dim=256).fit(X, y)
    unshrunk = KLDA(projection_dim=256, shrinkage=1e-9).fit(X, y)
    accuracies = [np.mean(model.predict(fresh) == y) for model in (at_the_peak, unshrunk)]
    assert accuracies[0] > accuracies[1] + 0.1


# FeCAM.


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"tukey": 1.0, "alpha1": 1.0, "alpha2": 0.0},
        {"alpha1": 0.3, "alpha2": 0.1},
        {"alpha1": 3.0, "alpha2": 3.0, "recipe": "resnet"},
        {"alpha1": 100.0, "alpha2": 100.0, "recipe": "resnet"},
    ],
    ids=str,
)
def test_fecam_is_the_mahalanobis_distance_with_a_covariance_a_class(parameters):
    X, y, fresh = overlapping_classes()
    model = FeCAM(**parameters)
    for mask in tasks(y, (2, 3, 1), seed=0):
        for half in (0, 1):  # every class in two batches
            rows = mask & (np.arange(len(y)) % 2 == half)
            model.partial_fit(X[rows], y[rows])
    expected = np.stack([fecam_distances(X[y == c], fresh, model) for c in np.unique(y)], axis=1)
    assert (model.predict(fresh) == np.unique(y)[expected.argmin(1)]).all()
    np.testing.assert_allclose(model.predict_proba(fresh), softmax(-30 * expected, axis=1), atol=1e-5)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


def fecam_distances(X, x, model):
    """Mahalanobis distances with every matrix written out and inverted, in the order of the authors' programs."""

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    powers, x = X.astype(np.float64) ** model.tukey, unit(x.astype(np.float64) ** model.tukey)
    mean = unit(powers).mean(0)
    if model.recipe == "resnet":
        mean = unit(X.astype(np.float64).mean(0) ** model.tukey)
    shrunk = np.cov((powers if model.recipe == "resnet" else unit(powers)).T)
    if (model.alpha1, model.alpha2, model.recipe) == (3, 3, "resnet"):
        shrunk = fecam_shrunk(fecam_shrunk(shrunk, 1, 1), 1, 1)
    else:
        shrunk = fecam_shrunk(shrunk, model.alpha1, model.alpha2)
    deviations = np.sqrt(np.diagonal(shrunk))
    inverse = np.linalg.inv(shrunk / np.outer(deviations, deviations))
    gaps = x - mean
    return np.einsum("nd,de,ne->n", gaps, inverse, gaps)


def fecam_shrunk(covariance, alpha1, alpha2):
    diagonal = np.eye(len(covariance), dtype=bool)
    along, off = covariance[diagonal].mean(), covariance[~diagonal].mean()
    return covariance + alpha1 * along * diagonal + alpha2 * off * ~diagonal


def test_fecam_tells_twins_apart_that_single_precision_takes_for_one():
    X, y, fresh = overlapping_classes(n=200)
    twins = X[y == y[0]] * np.random.default_rng(0).normal(1, 1e-6, X[y == y[0]].shape)
    model = FeCAM().fit(np.concatenate([X, twins]), np.concatenate([y, np.full(len(twins), "twin")]))
    labels, log_probabilities = model.predict(fresh), model.decision_function(fresh)
    assert (labels == model.classes_[log_probabilities.argmax(1)]).all()
    assert {y[0], "twin"} <= set(labels.tolist())
    gaps = np.abs(log_probabilities[:, 0] - log_probabilities[:, -1])
    assert np.quantile(gaps, 0.5) < 1e-5


def test_fecam_keeps_no_more_rows_than_a_class_spans():
    X, y, _ = overlapping_classes(dim=100, n=10)
    model = FeCAM().fit(X, y)
    assert {len(own.scatter.factor) for own in model.learnt_.state.values()} == {9}


# ACIL.


@pytest.mark.parametrize("regularisation", [0.1, 10.0])
@pytest.mark.parametrize("sizes", [(6,), (2, 2, 2), (1, 4, 1)], ids=str)
def test_acil_is_ridge_regression_on_all_samples_at_once(sizes, regularisation):
    X, y, fresh = overlapping_classes()
    model = learn(ACIL(projection_dim=M, regularisation=regularisation), X, y, tasks(y, sizes, seed=3))
    scale = np.sqrt(3 * X.shape[1])
    ridge = Ridge(regularisation, fit_intercept=False, solver="cholesky")
    scores = ridge.fit(relu_projection(X) / scale, one_hot(y)).predict(relu_projection(fresh) / scale)
    np.testing.assert_allclose(model.predict_proba(fresh), softmax(20 * scores, axis=1), atol=1e-8)
    assert 0.5 < np.mean(model.predict(fresh) == y) < 1


def test_acil_sample_by_sample_is_acil_at_once():
    X, y, fresh = overlapping_classes(n=12)
    one_by_one = ACIL(projection_dim=M)
    for i in np.random.default_rng(0).permutation(len(X)):
        one_by_one.partial_fit(X[i : i + 1], y[i : i + 1])
    at_once = ACIL(projection_dim=M).fit(X, y)
    np.testing.assert_allclose(one_by_one.predict_proba(fresh), at_once.predict_proba(fresh), atol=1e-8)


# NearestReservoir.


def test_a_reservoir_that_holds_everything_is_nearest_neighbours():
    X, y, fresh = overlapping_classes()
    model = learn(NearestReservoir(budget=1000), X, y, tasks(y, (2, 3, 1), seed=0))
    neighbours = KNeighborsClassifier(5, weights="distance", metric="cosine", algorithm="brute")
    expected = neighbours.fit(X.astype(np.float64), y).predict_proba(fresh.astype(np.float64))
    np.testing.assert_allclose(model.predict_proba(fresh), expected, atol=1e-6)


def test_a_reservoir_keeps_its_budget_in_equal_shares_and_forgets_the_rest():
    X, y, fresh = overlapping_classes()
    model = NearestReservoir(budget=25)
    for seen, mask in enumerate(tasks(y, (1,) * 6, seed=0), start=1):
        model.partial_fit(X[mask], y[mask])
        assert {len(rows) for rows in model.learnt_.state.rows.values()} == {25 // seen}
    kept, _ = model.learnt_.state.joined(model.classes_.tolist())
    assert {tuple(row) for row in kept.tolist()} <= {tuple(row) for row in X.tolist()}
    assert np.mean(model.predict(fresh) == y) > 0.4


def test_equally_near_neighbours_all_vote():
    model = NearestReservoir(n_neighbours=1).fit([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], ["a", "b", "c"])
    np.testing.assert_allclose(model.predict_proba([[3.0, 0.0]])[0], [0.5, 0.5, 0], atol=1e-6)


# JointRidge and JointLogistic.


def standardised(X, fresh):
    scaler = StandardScaler().fit(np.sqrt(X.astype(np.float64)))
    return scaler.transform(np.sqrt(X.astype(np.float64))), scaler.transform(np.sqrt(fresh.astype(np.float64)))


def test_joint_ridge_is_ridge_with_the_penalty_of_generalised_cross_validation():
    X, y, fresh = overlapping_classes()
    model = learn(JointRidge(), X, y, tasks(y, (2, 3, 1), seed=0))
    Z, z = standardised(X, fresh)
    mean_eigenvalue, n = np.trace(Z.T @ Z) / Z.shape[1], len(Z)
    errors, tables = [], []
    for relative in REGULARISATION_GRID:
        ridge = Ridge(relative * mean_eigenvalue).fit(Z, one_hot(y))
        hat = Z @ np.linalg.solve(Z.T @ Z + relative * mean_eigenvalue * np.eye(Z.shape[1]), Z.T)
        residual = one_hot(y) - ridge.predict(Z)
        errors.append(np.square(residual).sum() / (n - 1 - np.trace(hat)) ** 2)
        tables.append(softmax(20 * ridge.predict(z), axis=1))
    best = int(np.argmin(errors))
    assert 0 < best < len(errors) - 1
    np.testing.assert_allclose(model.predict_proba(fresh), tables[best], atol=1e-6)
    assert np.abs(tables[best] - tables[best + 1]).max() > 1e-3


def test_joint_logistic_is_logistic_regression_with_a_penalty_from_held_out_samples():
    X, y, fresh = overlapping_classes(n=60, noise=1.5)
    model = learn(JointLogistic(), X, y, tasks(y, (2, 3, 1), seed=0))
    Z, z = standardised(X, fresh)
    held = is_held_out(hash_rows(torch.from_numpy(X))).numpy()
    assert 0.1 < held.mean() < 0.3

    def fitted(penalty, rows):
        return LogisticRegression(C=1 / (penalty * rows.sum()), tol=1e-9, max_iter=10_000).fit(Z[rows], y[rows])

    losses = [-np.log(fitted(p, ~held).predict_proba(Z[held])[one_hot(y)[held] == 1]).mean() for p in PENALTIES]
    chosen = fitted(PENALTIES[int(np.argmin(losses))], np.ones(len(y), dtype=bool))
    np.testing.assert_allclose(model.predict_proba(fresh), chosen.predict_proba(z), atol=0.02)
    assert np.mean(model.predict(fresh) == chosen.predict(z)) > 0.99


@pytest.mark.parametrize("learner", [JointRidge, JointLogistic])
def test_joint_learners_do_nothing_until_they_are_asked(learner):
    X, y, fresh = overlapping_classes()
    model = learn(learner(), X, y, tasks(y, (2, 3, 1), seed=0))
    assert model.learnt_.state.derived.peek() is None
    model.predict(fresh)
    assert model.learnt_.state.derived.peek() is not None
    assert not learner.incremental
    assert not learner.exemplar_free


# What they keep, and whether their probabilities are their own.


@pytest.mark.parametrize(
    ("learner", "numbers"),
    [
        (SimpleCIL(), 6 * 12),
        (RanPAC(projection_dim=M), M * M + M * 6),
        (ACIL(projection_dim=M), 2 * (M * M + M * 6)),  # in double precision, as its authors keep them
        (SLDA(), 12 * 12 + 12 * 6),
        (KLDA(projection_dim=M, ensemble=2), 2 * (M * M + M * 6)),
        (FeCAM(), 6 * (12 + 12 * 13 // 2)),
        (NearestReservoir(budget=60), 60 * 12),
        (JointRidge(), 180 * 12),
        (JointLogistic(), 180 * 12),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_peer_counts_what_its_method_has_to_keep_in_numbers_of_four_bytes(learner, numbers):
    X, y, _ = overlapping_classes()
    assert learner.state_bytes() == 0
    assert learn(learner, X, y, tasks(y, (2, 3, 1), seed=0)).state_bytes() == 4 * numbers


def test_fecam_counts_the_directions_of_a_class_where_they_are_fewer_than_its_dimensions():
    X, y, _ = overlapping_classes(dim=100, n=10)
    assert FeCAM().fit(X, y).state_bytes() == 4 * 6 * (100 + 9 * 100)


def test_peers_whose_score_scale_is_a_constant_of_ours_are_not_called_calibrated():
    own = {name for name, learner in LEARNERS.items() if learner.calibrated}
    assert {"gddsg", "joint_logistic", "nearest_reservoir"} <= own
    assert not own & {"simplecil", "ranpac", "slda", "fecam", "klda", "acil", "joint_ridge"}


# Other settings that were published.


@pytest.mark.parametrize("law", [check.__name__ for check in yield_checks()])
@pytest.mark.parametrize(
    ("learner", "parameters"),
    [
        (SLDA, {"shrinkage": 1e-4}),
        (SLDA, {"shrinkage": 0.1, "relative": True}),
        (KLDA, {"projection_dim": 64, "ensemble": 3}),
        (FeCAM, {"alpha1": 3.0, "alpha2": 3.0, "recipe": "resnet"}),
        (FeCAM, {"alpha1": 100.0, "alpha2": 100.0, "recipe": "resnet"}),
    ],
    ids=str,
)
def test_other_settings_obey_the_laws_too(learner, parameters, law):
    next(check for check in yield_checks() if check.__name__ == law)(learner(**parameters))


# Parameters.


@pytest.mark.parametrize(
    ("learner", "name", "value"),
    [
        (SLDA, "shrinkage", 0.0),
        (SLDA, "shrinkage", "much"),
        (KLDA, "gamma", 0),
        (KLDA, "shrinkage", 1.5),
        (FeCAM, "tukey", 0.0),
        (FeCAM, "alpha1", -1.0),
        (FeCAM, "alpha2", 20.0),
        (FeCAM, "recipe", "resnext"),
        (KLDA, "ensemble", 0),
        (ACIL, "regularisation", float("nan")),
        (NearestReservoir, "budget", 0),
        (NearestReservoir, "n_neighbours", 2.5),
    ],
)
def test_a_bad_parameter_is_refused_when_learning(learner, name, value):
    X, y, _ = overlapping_classes()
    with pytest.raises(InputError, match=name):
        learner(**{name: value}).fit(X, y)


@pytest.mark.parametrize(
    ("learner", "name", "value"),
    [
        (partial(RanPAC, M), "regularisation", 1.0),
        (SLDA, "shrinkage", 0.1),
        (partial(KLDA, M), "gamma", 1.0),
        (FeCAM, "tukey", 1.0),
        (partial(ACIL, M), "regularisation", 1.0),
        (NearestReservoir, "budget", 5),
    ],
)
def test_what_learning_fixed_cannot_be_changed_afterwards(learner, name, value):
    X, y, fresh = overlapping_classes()
    model = learner().fit(X, y).set_params(**{name: value})
    with pytest.raises(InputError, match=name):
        model.predict(fresh)
