"""A small data set, and learners that misbehave."""

import pytest

from gddsg.data import write_feature_file
from gddsg.evaluation.leak_check import overlapping_classes


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A folder with two data sets of twelve classes."""
    folder = tmp_path_factory.mktemp("data")
    for number, name in enumerate(("circles", "squares")):
        write_feature_file(overlapping_classes(seed=number), folder / f"{name}_efficientnet-lite0.npz")
    return folder
