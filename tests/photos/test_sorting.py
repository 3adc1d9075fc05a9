"""Photos sorted by what a model knows of them."""

import numpy as np

from gddsg.data.dataset import Skipped
from gddsg.data.photo import Photo
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.sorting import SortedPhotos, sort_photos


def photo(name):
    return Photo(name, label=name.split("/")[0])


def embedded(with_features, known=(), skipped=()):
    return EmbeddedPhotos(
        photos=tuple(photo(name) for name, _ in with_features),
        samples=tuple(sample for _, sample in with_features),
        features=np.zeros((len(with_features), 2), dtype=np.float32),
        known=tuple((photo(name), sample) for name, sample in known),
        skipped=skipped,
        computed=0,
    )


def test_new_known_and_contradictory():
    found = sort_photos(
        embedded(
            [("fox/1", 1), ("owl/2", 2), ("owl/copy of 2", 2), ("fox/3", 3), ("owl/3", 3), ("fox/4", 4)],
            known=[("fox/5", 5), ("owl/6", 6)],
            skipped=(Skipped("fox/0", "the file is empty"),),
        ),
        {4: "fox", 5: "fox", 6: "fox"},
    )
    assert found == SortedPhotos(
        new=(0, 1),
        without_features=0,
        known=3,
        skipped=(
            Skipped("fox/0", "the file is empty"),
            Skipped("fox/3", "the same photo is also given as 'owl'"),
            Skipped("owl/3", "the same photo is also given as 'fox'"),
            Skipped("owl/6", "already learnt as 'fox'"),
        ),
    )


def test_a_photo_forgotten_since_it_was_known_has_no_features():
    found = sort_photos(embedded([("owl/1", 1)], known=[("fox/2", 2), ("fox/3", 3)]), {3: "fox"})
    assert found == SortedPhotos(new=(0,), without_features=1, known=1, skipped=())


def test_no_photo():
    assert sort_photos(embedded([]), {}) == SortedPhotos((), 0, 0, ())
