"""A few kills of the service; ``python -m tests.serve.kills --rounds 100`` makes more."""

import pytest
from tests.serve.kills import attack


@pytest.mark.parametrize("large", [2**60, 0], ids=["answered by the file", "answered by the journal"])
def test_what_was_told_survives_kills(tmp_path, large):
    found = attack(2, 0, tmp_path, large)
    assert found["faults"] == []
    assert found["counts"]["teach"] >= 1
