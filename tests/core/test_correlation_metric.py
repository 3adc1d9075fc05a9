"""The exact scatter of a class in principal directions, and FeCAM's metric made of it."""

import numpy as np
import pytest
import torch

from gddsg.core.correlation_metric import CorrelationMetric, correlation_distances, shrunk_spectrum
from gddsg.core.moments import Moments, principal_factor


def vectors(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(1, np.linspace(0.2, 2, dim), (n, dim)))


def scatter_of(X):
    centred = X.numpy() - X.numpy().mean(0)
    return centred.T @ centred


@pytest.mark.parametrize(("n", "dim"), [(1, 4), (2, 4), (5, 12), (12, 12), (40, 6)])
def test_nothing_of_the_scatter_is_lost(n, dim):
    X = vectors(n, dim)
    thin = Moments.of(X)
    assert thin.count == n
    assert len(thin.factor) == min(n - 1, dim)
    np.testing.assert_allclose(thin.factor.double().T @ thin.factor.double(), scatter_of(X), atol=1e-5)
    np.testing.assert_allclose(thin.mean, X.mean(0))


@pytest.mark.parametrize("parts", [(3, 9), (1, 1), (20, 1, 7)], ids=str)
def test_merged_parts_are_the_whole(parts):
    X = vectors(sum(parts), 8)
    first, *others = torch.split(X, list(parts))
    thin = Moments.of(first)
    for other in others:
        thin = thin.merge(Moments.of(other))
    np.testing.assert_allclose(thin.factor.double().T @ thin.factor.double(), scatter_of(X), atol=1e-5)
    assert len(thin.factor) <= min(len(X) - 1, 8)


def test_many_samples_are_merged_chunk_by_chunk(monkeypatch):
    X = vectors(50, 5)
    monkeypatch.setattr("gddsg.core.moments._CHUNK_ROWS", 8)
    thin = Moments.of(X)
    np.testing.assert_allclose(thin.factor.double().T @ thin.factor.double(), scatter_of(X), atol=1e-4)


def test_rows_are_orthogonal_and_none_is_a_sample():
    X = vectors(6, 20)
    rows, _ = principal_factor(X - X.mean(0), None)
    gram = rows @ rows.T
    assert torch.allclose(gram, torch.diag(gram.diagonal()), atol=1e-10)
    cosines = torch.nn.functional.normalize(rows) @ torch.nn.functional.normalize(X - X.mean(0)).T
    assert float(cosines.abs().max()) < 0.99


def explicit_covariance(X, alpha1, alpha2):
    """``Σ + α₁ V₁ I + α₂ V₂ (1 1ᵀ - I)`` as the paper writes it."""
    covariance, dim = np.cov(X.numpy().T), X.shape[1]
    off = ~np.eye(dim, dtype=bool)
    shrunk = covariance + alpha1 * np.diagonal(covariance).mean() * np.eye(dim)
    return shrunk + alpha2 * covariance[off].mean() * off


def explicit_distances(X, x, alpha1, alpha2):
    shrunk = explicit_covariance(X, alpha1, alpha2)
    deviations = np.sqrt(np.diagonal(shrunk))
    inverse = np.linalg.inv(shrunk / np.outer(deviations, deviations))
    gaps = x.numpy() - X.numpy().mean(0)
    return np.einsum("nd,de,ne->n", gaps, inverse, gaps)


@pytest.mark.parametrize(("alpha1", "alpha2"), [(1.0, 0.0), (1.0, 1.0), (10.0, 3.0), (0.1, 0.0)])
@pytest.mark.parametrize(("n", "dim"), [(2, 6), (5, 20), (40, 8), (9, 8)])
def test_distances_are_mahalanobis_with_the_inverse_written_out(n, dim, alpha1, alpha2):
    X, x = vectors(n, dim), vectors(15, dim, seed=1)
    metric = CorrelationMetric.of(Moments.of(X), alpha1, alpha2)
    expected = explicit_distances(X, x, alpha1, alpha2)
    np.testing.assert_allclose(correlation_distances([metric], x)[:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize(("alpha1", "alpha2"), [(1.0, 0.0), (2.0, 2.0)])
def test_the_spectrum_is_that_of_the_shrunk_covariance(alpha1, alpha2):
    X = vectors(6, 10)
    directions, values, level = shrunk_spectrum(Moments.of(X), alpha1, alpha2)
    rebuilt = (directions.T * values) @ directions + level * torch.eye(10)
    np.testing.assert_allclose(rebuilt, explicit_covariance(X, alpha1, alpha2), atol=1e-6)


def test_a_class_without_scatter_has_the_euclidean_distance():
    x = vectors(4, 3)
    for X in (x[:1], x[:1].repeat(5, 1)):
        metric = CorrelationMetric.of(Moments.of(X), 1.0, 0.0)
        np.testing.assert_allclose(correlation_distances([metric], x)[:, 0], (x - x[0]).square().sum(1), atol=1e-12)


def test_a_mean_can_be_given_and_the_scale_of_the_scatter_does_not_matter():
    X, x = vectors(9, 6), vectors(5, 6, seed=1)
    given = torch.arange(6, dtype=torch.float64)
    expected = correlation_distances([CorrelationMetric.of(Moments.of(X), 3.0, 3.0, given)], x)
    for scale in (1e-30, 1e15):
        metric = CorrelationMetric.of(Moments.of(X * scale), 3.0, 3.0, given)
        np.testing.assert_allclose(correlation_distances([metric], x), expected, rtol=1e-4)
    moved = CorrelationMetric.of(Moments.of(X), 3.0, 3.0)
    np.testing.assert_allclose(correlation_distances([moved], x - given + moved.mean), expected, rtol=1e-9)
