"""A few hostile names, in every test run."""

from tests.attack.names import attack_names


def test_names_are_data():
    counts = attack_names(16, seed=1)
    assert counts.pop("commands") > 60
    assert counts == dict.fromkeys(counts, 0)
    assert len(counts) == 4
