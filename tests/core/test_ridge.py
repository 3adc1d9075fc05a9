"""Ridge heads from cards are those of the samples."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from gddsg.core.class_card import MIN_HELD_OUT, ClassCard
from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.projection import project
from gddsg.core.ridge import REGULARISATION_GRID, ridge_head

UNCUT = 10_000
CODED = 5e-3  # how far factors in a byte an entry may take weights off, as a share of the largest


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes_of(sizes, dim, seed=0, separation=1.0):
    """Samples ``(n, dim)`` of every class."""
    centres = separation * normal(len(sizes), dim, seed=seed)
    return [
        centre + normal(n, dim, seed=seed + 10 + i) for i, (n, centre) in enumerate(zip(sizes, centres, strict=True))
    ]


def cards_of(samples, rank=UNCUT, scale=1.0):
    return [ClassCard.of(features, lambda x: scale * x, rank) for features in samples]


def explicit(samples):
    """All samples ``(n, dim)`` and their one-hot labels, float64."""
    labels = torch.arange(len(samples)).repeat_interleave(torch.tensor([len(features) for features in samples]))
    return torch.cat(samples).double(), torch.eye(len(samples), dtype=torch.float64)[labels]


def solve(H, Y, regularisation):
    """Θ = (HᵀH + λ I)⁻¹ HᵀY."""
    return torch.linalg.solve(H.T @ H + regularisation * torch.eye(H.shape[1], dtype=torch.float64), H.T @ Y)


PROBLEMS = {
    "primal": ((40, 70, 90), 6),
    "dual": ((30, 25, 40), 300),
    "dual, small classes": ((1, 2, 3, 40), 80),
    "one class": ((50,), 10),
    "one sample": ((1,), 10),
}


@pytest.mark.parametrize(("sizes", "dim"), PROBLEMS.values(), ids=PROBLEMS)
def test_weights_are_those_of_ridge_regression_on_all_samples(sizes, dim):
    samples = classes_of(sizes, dim)
    head = ridge_head(cards_of(samples))
    H, Y = explicit(samples)
    expected = Ridge(alpha=head.regularisation, fit_intercept=False, solver="cholesky").fit(H.numpy(), Y.numpy())
    assert head.weights.shape == (dim, len(sizes))
    np.testing.assert_allclose(
        head.weights.numpy(),
        expected.coef_.reshape(len(sizes), dim).T,
        rtol=0,
        atol=CODED * np.abs(expected.coef_).max(),
    )


def second_moment(parts):
    """Sum of h hᵀ over the samples that the moments stand for."""
    factors = [part.factor.decoded().double() for part in parts]
    return sum(f.T @ f + part.count * torch.outer(part.mean, part.mean) for f, part in zip(factors, parts, strict=True))


@pytest.mark.parametrize(("sizes", "dim"), PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("rank", [UNCUT, 16])
def test_weights_solve_the_equations_of_the_cards_exactly(sizes, dim, rank):
    cards = cards_of(classes_of(sizes, dim), rank)
    head = ridge_head(cards)
    gram = second_moment([part for card in cards for part in (card.projected, card.held_out)])
    gram += head.regularisation * torch.eye(dim, dtype=torch.float64)
    cross = torch.stack([card.projected.total.double() + card.held_out.total.double() for card in cards], dim=1)
    expected = torch.linalg.solve(gram, cross)
    torch.testing.assert_close(head.weights, expected, rtol=0, atol=1e-8 * float(expected.abs().max()))


def test_weights_are_those_of_the_projected_samples():
    samples = classes_of((30, 40), 5)
    head = ridge_head([ClassCard.of(features, lambda x: project(x, 64, seed=3), UNCUT) for features in samples])
    H, Y = explicit([project(features, 64, seed=3) for features in samples])
    expected = solve(H, Y, head.regularisation)
    torch.testing.assert_close(head.weights, expected, rtol=0, atol=3 * CODED * float(expected.abs().max()))


def held_out_errors(samples):
    """Every λ of the grid and its squared error on the held-out samples, after learning the others."""
    H, Y = explicit(samples)
    choices = [is_held_out(hash_rows(features)) for features in samples]
    held_out = torch.cat([rows & (rows.sum() >= MIN_HELD_OUT) for rows in choices])
    learnt = H[~held_out]
    scale = float(learnt.square().sum()) / H.shape[1]
    thetas = {scale * relative: solve(learnt, Y[~held_out], scale * relative) for relative in REGULARISATION_GRID}
    return {value: float((Y[held_out] - H[held_out] @ theta).square().sum()) for value, theta in thetas.items()}


# Problems of different difficulty, and the place in the grid of the λ they ask for.
@pytest.mark.parametrize(
    ("dim", "separation", "place"), [(8, 0.05, 7), (8, 1.0, 6), (30, 0.05, 12), (30, 0.3, 8), (150, 0.05, 10)]
)
def test_regularisation_is_the_best_on_the_held_out_samples(dim, separation, place):
    samples = classes_of((40, 60, 50), dim, separation=separation)
    errors = held_out_errors(samples)
    best = min(errors, key=errors.get)
    assert list(errors).index(best) == place
    assert ridge_head(cards_of(samples)).regularisation == pytest.approx(best, rel=CODED)


@pytest.mark.parametrize("dim", [8, 60])
def test_energy_lost_by_held_out_factors_counts_as_isotropic(dim):
    """A card of rank 16 keeps two directions of the learning share and one of the held-out share."""
    cards = cards_of(classes_of((60, 80), dim, separation=0.4), rank=16)
    assert all(card.held_out.residual > 0 for card in cards)

    learnt, held_out = [card.projected for card in cards], [card.held_out for card in cards]
    gram, cross = second_moment(learnt), torch.stack([part.total.double() for part in learnt], dim=1)
    lost = sum(part.residual for part in held_out) / dim
    quadratic = second_moment(held_out)
    linear = torch.stack([part.total.double() for part in held_out], dim=1)
    errors = {}
    for relative in REGULARISATION_GRID:
        value = relative * float(gram.trace()) / dim
        theta = torch.linalg.solve(gram + value * torch.eye(dim, dtype=torch.float64), cross)
        errors[value] = float((theta * (quadratic @ theta + lost * theta - 2 * linear)).sum())
    assert ridge_head(cards).regularisation == pytest.approx(min(errors, key=errors.get), rel=1e-6)


def test_without_held_out_samples_the_middle_of_the_range_is_taken():
    samples = classes_of((3, 2), 5)
    cards = cards_of(samples)
    assert sum(card.held_out.count for card in cards) == 0
    mean_eigenvalue = float(torch.cat(samples).double().square().sum()) / 5
    assert ridge_head(cards).regularisation == pytest.approx(0.1 * mean_eigenvalue, rel=CODED)


def test_the_scale_of_the_features_does_not_matter():
    samples = classes_of((40, 60), 12)
    head, scaled = ridge_head(cards_of(samples)), ridge_head(cards_of(samples, scale=256.0))
    assert scaled.regularisation == pytest.approx(256**2 * head.regularisation, rel=1e-5)
    torch.testing.assert_close(256 * scaled.weights, head.weights, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("n", [1, 40])
def test_features_without_information_give_a_head_without_opinion(n):
    zero = ridge_head(cards_of([torch.zeros(n, 4), torch.zeros(n, 4)]))
    assert torch.equal(zero.weights, torch.zeros(4, 2, dtype=torch.float64))
    constant = ridge_head(cards_of([torch.ones(n, 4), torch.ones(n, 4)]))
    assert bool(torch.isfinite(constant.weights).all())
    torch.testing.assert_close(constant.weights[:, 0], constant.weights[:, 1])
    assert float(constant.weights.min()) > 0
