"""A small part of what `make attack` does."""

import pytest
from tests.attack.images import attack_feature_files, attack_images


@pytest.mark.parametrize("attack", [attack_images, attack_feature_files])
def test_mutated_files_are_read_or_refused(attack):
    counts = attack(600, seed=0)
    assert counts.failures == []
    assert min(counts.outcomes["read"], counts.outcomes["refused"]) > 20
