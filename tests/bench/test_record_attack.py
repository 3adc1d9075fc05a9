"""Damaged records and experiments are read, or refused in words; tests/attack/records.py tries more of them."""

from tests.attack.records import attack_experiments, attack_records


def test_damaged_records_give_no_foreign_exceptions():
    found = attack_records(60, seed=1)
    assert found["foreign"] == 0, found
    assert min(found["fine"], found["refused"]) > 5


def test_damaged_experiments_give_no_foreign_exceptions():
    found = attack_experiments(60, seed=1)
    assert found["foreign"] == 0, found
    assert min(found["fine"], found["refused"]) > 5
