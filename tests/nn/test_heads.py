"""Heads grow by rows, and losses among some classes leave the others alone."""

import math

import pytest
import torch

from gddsg.nn.heads import CosineHead, LinearHead
from gddsg.nn.losses import cross_entropy_among


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_linear_head_is_a_linear_map_with_rows_drawn_within_torchs_bounds():
    head, features = LinearHead(16, 500, drawn()), torch.randn(3, 16, generator=drawn(1))
    torch.testing.assert_close(head(features), features @ head.weight.T + head.bias)
    for values in (head.weight, head.bias):
        assert 0.95 / 4 < values.abs().max() <= 1 / 4
        assert abs(values.mean()) < 0.02


def test_a_head_that_grows_keeps_its_rows_and_draws_the_others():
    head = LinearHead(4, 2, drawn())
    grown = head.grown(5, drawn(1))
    assert torch.equal(grown.weight[:2], head.weight)
    assert torch.equal(grown.bias[:2], head.bias)
    assert len(grown.weight) == len(grown.bias) == 5
    assert torch.equal(grown.weight, head.grown(5, drawn(1)).weight)
    assert not torch.equal(grown.weight[2:], head.grown(5, drawn(2)).weight[2:])
    with torch.no_grad():
        grown.weight += 1
    assert not torch.equal(grown.weight[:2], head.weight)  # it is another, not a view
    assert all(one.requires_grad and one.is_leaf for one in grown.parameters())


def test_a_head_grows_from_no_class_and_from_one_to_fifty():
    head = LinearHead(4, 0, drawn())
    for n in range(1, 51):
        before, head = head, head.grown(n, drawn(n))
        assert torch.equal(head.weight[: n - 1], before.weight)
    assert head(torch.ones(2, 4)).shape == (2, 50)


def test_heads_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    LinearHead(4, 3, drawn()).grown(6, drawn())
    CosineHead(4, 3, drawn())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_cosine_head_gives_scaled_cosines_whatever_the_lengths():
    head, features = CosineHead(8, 3, drawn()), torch.randn(5, 8, generator=drawn(1))
    with torch.no_grad():
        head.scale.fill_(7.0)
    cosines = torch.nn.functional.cosine_similarity(features[:, None], head.weight[None], dim=2)
    torch.testing.assert_close(head(features), 7 * cosines)
    torch.testing.assert_close(head(1000 * features), head(features))
    head(features).sum().backward()
    assert head.scale.grad is not None


def test_cross_entropy_among_classes_is_that_of_a_table_of_their_columns_alone():
    scores = torch.randn(6, 5, generator=drawn(), dtype=torch.float64, requires_grad=True)
    targets, classes = torch.tensor([1, 3, 3, 1, 4, 4]), [1, 3, 4]
    loss = cross_entropy_among(classes, scores, targets)
    chosen = scores.detach().numpy()[:, classes]
    expected = 0.0
    for row, target in zip(chosen.tolist(), targets.tolist(), strict=True):
        expected += math.log(sum(math.exp(one) for one in row)) - row[classes.index(target)]
    assert loss.item() == pytest.approx(expected / 6)
    loss.backward()
    assert (scores.grad[:, [0, 2]] == 0).all()
    assert (scores.grad[:, classes] != 0).all()


def test_a_target_that_takes_no_part_is_no_finite_loss():
    assert cross_entropy_among([0, 1], torch.zeros(1, 3), torch.tensor([2])).isinf()
