"""A small part of what `make attack` does."""

from tests.attack.model_files import attack_damaged_models, attack_forged_models


def test_damaged_model_files(tmp_path):
    counts = attack_damaged_models(60, 0, tmp_path)
    assert counts.failures == []
    assert counts.outcomes["refused"] > 10


def test_forged_model_files(tmp_path):
    counts = attack_forged_models(120, 0, tmp_path)
    assert counts.failures == []
    assert min(counts.outcomes["refused"], counts.outcomes["usable"]) > 10
