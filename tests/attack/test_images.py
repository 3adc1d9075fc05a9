"""A few of the mutations on every run; thousands by ``attack_images(10_000, seed)``."""

from tests.attack.images import attack_feature_files, attack_images


def test_mutated_images_are_decoded_or_refused():
    found = attack_images(600, seed=0)
    assert not found["faults"]
    assert found["foreign"] == found["wrong"] == 0
    assert found["decoded"] + found["refused"] == 600
    assert min(found["decoded"], found["refused"]) > 50  # some mutations leave a file readable, some do not
    assert found["peak_bytes"] < 1_200_000_000


def test_mutated_feature_files_are_read_or_refused():
    found = attack_feature_files(600, seed=0)
    assert not found["faults"]
    assert found["foreign"] == found["wrong"] == 0
    assert found["right"] + found["refused"] == 600
    assert min(found["right"], found["refused"]) > 20
    assert found["peak_bytes"] < 200_000_000
