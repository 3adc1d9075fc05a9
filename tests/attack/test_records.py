"""A small part of what `make attack` does."""

import pytest
from tests.attack.records import attack_experiments, attack_records


@pytest.mark.parametrize("attack", [attack_records, attack_experiments])
def test_damaged_records_and_experiments_are_used_or_refused_in_words(attack):
    counts = attack(60, seed=1)
    assert counts.failures == []
    assert min(counts.outcomes["accepted"], counts.outcomes["refused"]) > 5
