"""Heads of several tasks, compared: rules against their formulas."""

import numpy as np
import pytest
import torch

from gddsg.core.task_heads import among_all, check_rule, energies, fitted_temperature, log_odds
from gddsg.errors import InputError


def scores(n=40, classes=5, size=3.0, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, size, (n, classes)))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_log_odds_are_those_of_the_softmax(temperature):
    p = (scores() / temperature).softmax(1)
    torch.testing.assert_close(log_odds(scores(), temperature), (p / (1 - p)).log(), rtol=1e-7, atol=1e-7)


def test_log_odds_go_on_where_the_softmax_has_become_one():
    certain = torch.tensor([[200.0, 0, 0], [300.0, 0, 0]], dtype=torch.float64)
    assert certain.softmax(1)[:, 0].tolist() == [1, 1]
    found = log_odds(certain, 1.0)[:, 0]
    assert found.tolist() == pytest.approx([200 - np.log(2), 300 - np.log(2)])


def test_a_head_of_one_class_knows_neither_for_nor_against():
    assert log_odds(torch.tensor([[7.0], [-3.0]]), 2.0).tolist() == [[0], [0]]


def test_the_best_class_by_energy_is_that_of_the_head_with_the_least():
    heads = [scores(classes=3, seed=1), scores(classes=4, seed=2), scores(classes=2, seed=3)]
    found = torch.cat([energies(head) for head in heads], dim=1).argmax(1)
    firsts = [0, 3, 7]
    for row, best in enumerate(found.tolist()):
        sums = [float(torch.log(torch.exp(head[row]).sum())) for head in heads]
        head = int(np.argmax(sums))
        assert best == firsts[head] + int(heads[head][row].argmax())


def test_a_class_has_the_best_score_that_any_head_gives_it():
    found = among_all([torch.tensor([[1.0, 5]]), torch.tensor([[4.0, 2]])], [[0, 2], [2, 3]], 5)
    assert found.tolist() == [[1, -np.inf, 5, 2, -np.inf]]


def test_the_temperature_is_found_again():
    rng = np.random.default_rng(0)
    z = scores(4000, size=2.0)
    targets = torch.from_numpy(np.array([rng.choice(5, p=row) for row in (z / 2.5).softmax(1).numpy()]))
    assert fitted_temperature(z, targets) == pytest.approx(2.5, rel=0.1)
    assert fitted_temperature(z[:0], targets[:0]) == 1


def test_what_is_no_rule_is_refused():
    with pytest.raises(InputError, match="confidence, energy"):
        check_rule("max")
