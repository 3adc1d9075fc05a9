"""A short round of the attack on networks and caches."""

from tests.attack.networks import attack_networks_and_caches


def test_mutated_networks_and_caches_give_no_wrong_answer():
    counts = attack_networks_and_caches(60, seed=1)
    assert counts["foreign"] == counts["wrong"] == 0
    assert counts["anew"] > 20  # nearly every mutation of a network shows
    assert counts["none"] > 10  # and many of a cache
