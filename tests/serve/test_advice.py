"""Advice comes from the cards."""

import numpy as np
import torch

from gddsg.core.model import Model, Settings
from gddsg.serve.advice import give_advice
from gddsg.serve.snapshot import Snapshot


def model_of(**classes):
    """A model of classes, each given as its centre and its number of samples, at some distance from each other."""
    model, rng = Model(Settings(projection_dim=32)), np.random.default_rng(0)
    centres, cards = 10 * rng.random((9, 200)), {}
    for name, (place, shift, n) in classes.items():
        rows = centres[place] + shift + rng.standard_normal((n, 200))
        ids = rng.integers(1, 2**60, n, dtype=np.uint64)
        cards |= model.make_cards(torch.from_numpy(rows.astype(np.float32)), [name] * n, ids)
    return Snapshot(model.plus(cards))


def test_classes_that_overlap_are_named_with_what_would_help():
    snapshot = model_of(wolf=(0, 0.0, 30), husky=(0, 0.05, 20), owl=(1, 0.0, 30), elk=(2, 0.0, 30))
    overlap = snapshot.overlaps("wolf")[0]
    assert (overlap.name, overlap.error > 0.1) == ("husky", True)
    assert snapshot.overlaps("owl") == []
    told = [one for one in give_advice(snapshot, {}) if one.kind == "overlap"]
    assert [one.classes for one in told] == [("husky", "wolf")]
    assert told[0].text.startswith("husky and wolf overlap: about 1 photo in 3 ")
    assert "of husky above all" in told[0].text


def test_farther_classes_overlap_less():
    errors = []
    for shift in (0.1, 0.3, 1.0):
        found = model_of(a=(0, 0.0, 40), b=(0, shift, 40), c=(1, 0.0, 40)).overlaps("a")
        errors.append(found[0].error if found else 0.0)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01


def test_classes_of_few_photos_are_named():
    told = give_advice(model_of(fox=(0, 0.0, 2), owl=(1, 0.0, 9)), {})
    assert [(one.kind, one.classes) for one in told] == [("few", ("fox",))]
    assert told[0].text == "fox was learnt from 2 photos: 3 more would help."


def test_copies_are_named():
    model, rng = Model(Settings(projection_dim=32)), np.random.default_rng(0)
    rows = np.repeat(rng.random((5, 200)), 4, axis=0) + 1e-4 * rng.random((20, 200))
    cards = model.make_cards(
        torch.from_numpy(rows.astype(np.float32)), ["fox"] * 20, rng.integers(1, 2**60, 20, dtype=np.uint64)
    )
    told = give_advice(Snapshot(model.plus(cards)), {})
    assert [one.kind for one in told] == ["copies"]
    assert told[0].text.startswith("15 of the 20 photos of fox are near copies")


def test_photos_unlike_their_class_come_first():
    told = give_advice(model_of(fox=(0, 0.0, 2), owl=(1, 0.0, 9)), {"owl": ["a.jpg", "b.jpg"], "gone": ["c.jpg"]})
    assert [one.kind for one in told] == ["unlike", "few"]
    assert told[0].text == "2 photos taught as owl look unlike it: a.jpg, b.jpg. Do they belong there?"
