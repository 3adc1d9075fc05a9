"""A small part of what `make attack` does."""

import os

import pytest
from tests.attack.kills import attack_by_kills


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, which POSIX alone can do")
def test_kills_lose_and_double_nothing_and_leave_nothing_behind(tmp_path):
    counts = attack_by_kills(12, 0, tmp_path)
    assert counts.failures == []
    assert counts.tried >= 12
