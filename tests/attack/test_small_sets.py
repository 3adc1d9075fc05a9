"""Small data sets of simple pictures are learnt and predicted, on any number of threads alike."""

import numpy as np
from tests.attack.small_sets import KINDS, attack_small_sets, small_sets


def test_small_sets_are_learnt_and_predicted():
    counts = attack_small_sets(12, seed=0)
    assert counts.failures == []
    assert counts.tried == 12


def test_a_seed_gives_the_same_sets_again():
    once, again = ([np.stack(one.pictures).tobytes() for one in small_sets(10, seed=3)] for _ in range(2))
    assert once == again
    assert once != [np.stack(one.pictures).tobytes() for one in small_sets(10, seed=4)]


def test_sets_are_small_and_of_all_kinds():
    sets = list(small_sets(50, seed=1))
    assert {one.kind for one in sets} == set(KINDS)
    for one in sets:
        names, counts = np.unique(one.labels, return_counts=True)
        assert 2 <= len(names) <= 5
        assert counts.min() >= 1
        assert counts.max() <= 6
        assert len(one.fresh) == len(names)
