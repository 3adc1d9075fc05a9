"""A small part of what `make attack` does."""

from tests.attack.names import attack_names


def test_names_are_data():
    counts = attack_names(16, seed=1)
    assert counts.failures == []
    assert counts.outcomes["commands"] > 60
