"""Merging into a new file, which another process may be about to create."""

import contextlib
import threading

import numpy as np
import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.errors import DataError
from gddsg.photos import merge_models
from gddsg.store import SharedModel, read_model, write_model

SETTINGS = Settings(projection_dim=8, rank=4)


def cards_of(label, seed):
    features = np.random.default_rng(seed).random((6, 5), dtype=np.float32)
    return Model(SETTINGS).make_cards(torch.from_numpy(features), [label] * 6)


@pytest.fixture
def parts(tmp_path):
    paths = []
    for seed, label in enumerate("ab"):
        paths.append(tmp_path / label)
        write_model(paths[-1], Model(SETTINGS).plus(cards_of(label, seed)))
    return paths


def test_all_classes_are_in_one_new_file(tmp_path, parts):
    assert merge_models(parts, tmp_path / "m").labels == ("a", "b")
    assert read_model(tmp_path / "m").labels == ("a", "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "m"]


def test_a_file_that_exists_is_not_replaced(tmp_path, parts):
    with pytest.raises(DataError, match="Name a new file"):
        merge_models(parts, parts[0])
    assert read_model(parts[0]).labels == ("a",)


def test_what_another_writer_learns_into_the_same_new_file_is_not_lost(tmp_path, parts):
    """Either the merged model comes first and learns the class too, or merging finds that the file exists."""
    for attempt in range(30):
        path, start, merged = tmp_path / f"m{attempt}", threading.Barrier(2), []

        def learn(path=path, start=start):
            start.wait()
            SharedModel(path).change(lambda model: (model or Model(SETTINGS)).plus(cards_of("c", 7)))

        def merge(path=path, start=start, merged=merged):
            start.wait()
            with contextlib.suppress(DataError):
                merged.append(merge_models(parts, path))

        threads = [threading.Thread(target=work) for work in (learn, merge)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert read_model(path).labels == (("a", "b", "c") if merged else ("c",))
