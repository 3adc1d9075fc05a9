"""A small part of what `make attack` does."""

from tests.attack.networks import attack_networks_and_caches


def test_mutated_networks_and_caches_give_no_wrong_answer():
    counts = attack_networks_and_caches(60, seed=1)
    assert counts.failures == []
    assert counts.outcomes["exported anew"] > 20  # nearly every mutation of a network shows
    assert counts.outcomes["some vectors computed anew"] > 10  # and many of a cache
