"""Merging into a new file, which another process may be about to create."""

import contextlib
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.errors import DataError, InputError
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


def test_classes_that_two_places_know_are_merged(tmp_path):
    for seed, name in enumerate(("x", "y")):
        write_model(tmp_path / name, Model(SETTINGS).plus(cards_of("a", seed)).plus(cards_of(name, 5 + seed)))
    merged = merge_models([tmp_path / "x", tmp_path / "y"], tmp_path / "m")
    assert merged.labels == ("a", "x", "y")
    assert merged.cards["a"] == cards_of("a", 0)["a"].merge(cards_of("a", 1)["a"], SETTINGS.rank)
    assert [merged.cards[label].count for label in merged.labels] == [12, 6, 6]


BACKBONE = "net@0123456789abcdef"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"backbone": "net@fedcba9876543210"}, "backbone ('net@0123456789abcdef' here, 'net@fedcba9876543210' there)"),
        ({"backbone": "other@fedcba9876543210"}, "was learnt with the backbone net"),
        ({"seed": 1}, "seed (0 here, 1 there)"),
        ({"rank": 5}, "rank (4 here, 5 there)"),
        ({"projection_dim": 9}, "projection_dim (8 here, 9 there)"),
        ({"projection_dim": 0}, "projection_dim (8 here, 0 there)"),
        ({"feature_transform": "none"}, "feature_transform ('auto' here, 'none' there)"),
    ],
)
def test_places_that_learnt_in_other_ways_are_refused(tmp_path, changes, named):
    here = replace(SETTINGS, backbone=BACKBONE)
    for name, settings in (("x", here), ("y", replace(here, **changes))):
        features = torch.from_numpy(np.random.default_rng(0).random((6, 5), dtype=np.float32))
        write_model(tmp_path / name, Model(settings).plus(Model(settings).make_cards(features, [name] * 6)))
    with pytest.raises(InputError) as refused:
        merge_models([tmp_path / "x", tmp_path / "y"], tmp_path / "m")
    assert named in str(refused.value)
    assert not (tmp_path / "m").exists()


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
