"""A small part of what `make attack` does."""

from tests.attack.inputs import attack_learners


def test_hostile_inputs_are_refused_and_change_nothing():
    counts = attack_learners(200, 0)
    assert counts.failures == []
    assert min(counts.outcomes["refused"], counts.outcomes["learnt"]) > 20
