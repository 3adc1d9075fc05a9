"""Cross-validation: no photo is asked of a model that has learnt it, and the estimate is about right."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.data.photo import Photo
from gddsg.errors import DataError, InputError
from gddsg.photos.cross_validation import cross_validate, find_scenes, part_samples
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.evaluation import evaluate_photos

SETTINGS = Settings(projection_dim=32, rank=8)


def embedded(labels, features, samples=None):
    samples = np.random.default_rng(9).integers(2**63, size=len(labels)).tolist() if samples is None else samples
    photos = tuple(Photo(f"{label}/{i}", label) for i, label in enumerate(labels))
    return EmbeddedPhotos(photos, tuple(samples), np.asarray(features, np.float32), (), (), 0)


def clouds(n, spread, seed=0, classes=5):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(100).random((classes, 12))
    labels = [f"class {i % classes}" for i in range(n)]
    return labels, np.abs(centres[np.arange(n) % classes] + spread * rng.standard_normal((n, 12)))


def test_each_class_falls_into_all_parts_alike():
    labels = np.array(["a"] * 11 + ["b"] * 3 + ["c"] * 5)
    samples = np.random.default_rng(0).integers(2**63, size=19).astype(np.uint64)
    fold_of = part_samples(labels, samples, 5)
    for label, most in (("a", 3), ("b", 1), ("c", 1)):
        counts = Counter(fold_of[labels == label].tolist())
        assert max(counts.values()) == most
        assert len(counts) == min(5, (labels == label).sum())


def test_parts_follow_from_contents_alone():
    labels, samples = np.array(["a"] * 9 + ["b"] * 9), np.random.default_rng(1).permutation(18).astype(np.uint64)
    order = np.random.default_rng(2).permutation(18)
    expected = part_samples(labels, samples, 5)
    assert (part_samples(labels[order], samples[order], 5) == expected[order]).all()
    renamed = np.where(labels == "a", "z", "y")
    assert (part_samples(renamed, samples, 5) == expected).all()


def test_no_photo_is_asked_of_a_model_that_learnt_it():
    """Labels are drawn by lot, so that only who has seen a photo could know its label."""
    rng = np.random.default_rng(3)
    labels, features = rng.choice(["a", "b"], 120).tolist(), rng.random((120, 12))
    found = cross_validate(SETTINGS, embedded(labels, features), 5, None)
    assert 0.3 < found.accuracy < 0.7
    assert found.photos == 120
    assert found.learnt_photos == 0


def test_near_copies_are_not_asked_of_a_model_that_learnt_one_of_them():
    """Labels are drawn by lot, so that only who has seen a copy of a photo could know its label."""
    rng = np.random.default_rng(4)
    labels, features = rng.choice(["a", "b"], 60).tolist(), rng.random((60, 256))
    copies = np.concatenate([features, np.abs(features + 0.01 * rng.standard_normal(features.shape))])
    found = cross_validate(SETTINGS, embedded(labels * 2, copies), 5, None)
    assert 0.25 < found.accuracy < 0.75
    assert found.photos == 120


def test_a_scene_is_called_after_its_lowest_sample():
    features = np.random.default_rng(5).random((6, 256)).astype(np.float32)
    chain = np.concatenate([features, features[:2] + 0.001])
    samples = np.array([9, 3, 5, 7, 8, 6, 4, 2], dtype=np.uint64)
    assert find_scenes(chain, samples).tolist() == [4, 2, 5, 7, 8, 6, 4, 2]
    assert find_scenes(chain[:, :12], samples).tolist() == samples.tolist()


def test_scenes_of_many_photos_take_no_table_of_all_pairs():
    """Frames of films, 40 each, far apart in the list: a film is one scene, and no two films are."""
    features = np.random.default_rng(7).random((100, 256)).astype(np.float32)
    films = np.tile(np.arange(100), 40)
    frames = features[films] + 0.002 * np.random.default_rng(8).random((4000, 256), dtype=np.float32)
    samples = np.random.default_rng(9).permutation(4000).astype(np.uint64)
    tracemalloc.start()
    scenes = find_scenes(frames, samples)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert scenes.tolist() == [samples[films == film].min() for film in films]
    assert peak < 27e6  # features in float64, three times over; distances and nearness of all pairs take 32e6


def test_a_class_of_nothing_but_copies_of_a_photo_is_left_out():
    rng = np.random.default_rng(6)
    photos, same = rng.random((10, 256)), rng.random((1, 256)).repeat(3, 0)
    found = cross_validate(SETTINGS, embedded(["a", "b"] * 5 + ["copies"] * 3, np.concatenate([photos, same])), 5, None)
    assert (found.photos, len(found.skipped)) == (10, 3)


def test_the_estimate_is_about_what_new_photos_give():
    labels, features = clouds(300, 0.28)
    estimate = cross_validate(SETTINGS, embedded(labels, features), 5, None).accuracy
    begun = Model(SETTINGS)
    model = begun.plus(begun.make_cards(torch.from_numpy(features.astype(np.float32)), labels))
    truth = evaluate_photos(model.predictor, embedded(*clouds(3000, 0.28, seed=7)), None).accuracy
    assert 0.5 < truth < 0.95  # neither trivial nor hopeless
    assert abs(estimate - truth) < 0.06


def test_copies_contradictions_and_single_photos():
    labels, features = clouds(25, 0.05)
    samples = list(range(25))
    labels += ["class 0", "class 1", "lonely"]
    samples += [0, 2, 99]  # a copy of a photo, a photo under another label, and one that is alone
    found = cross_validate(SETTINGS, embedded(labels, np.vstack([features, features[:3]]), samples), 5, None)
    assert found.photos == 24
    reasons = Counter(one.reason for one in found.skipped)
    assert reasons == {
        "the same photo is also given as 'class 1'": 1,
        "the same photo is also given as 'class 2'": 1,
        "the only photo of its class, near copies aside: it cannot be both learnt and asked about": 1,
    }
    assert "lonely" not in {one.label for one in found.classes}


def test_two_photos_a_class_are_enough_and_one_is_not():
    labels, features = clouds(4, 0.01, classes=2)
    assert cross_validate(SETTINGS, embedded(labels, features), 5, None).accuracy == 1.0
    with pytest.raises(DataError, match="No class has two different photos"):
        cross_validate(SETTINGS, embedded(labels[:2], features[:2]), 5, None)
    with pytest.raises(InputError, match="folds=1"):
        cross_validate(SETTINGS, embedded(labels, features), 1, None)


def test_rejecting_counts_as_wrong():
    labels, features = clouds(60, 0.1)
    found = cross_validate(SETTINGS, embedded(labels, features), 5, 0.5)
    assert sum(one.rejected for one in found.classes) > 5
    assert found.accuracy < cross_validate(SETTINGS, embedded(labels, features), 5, None).accuracy
