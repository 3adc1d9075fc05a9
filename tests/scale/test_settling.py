import random
from itertools import pairwise

import numpy as np
import pytest

from gddsg.data.photo import Photo
from gddsg.photos.embedding import EmbeddedPhotos
from gddsg.photos.sorting import sort_photos
from gddsg.scale.settling import Surveyed, settle


def surveyed(samples, labels):
    names = tuple(sorted(set(labels)))
    codes = np.array([names.index(label) for label in labels], dtype=np.intp)
    return Surveyed(np.arange(len(samples)), np.array(samples, dtype=np.uint64), names, codes)


@pytest.mark.parametrize("seed", range(30))
def test_settles_what_the_local_engine_sorts(seed):
    draw = random.Random(seed)
    n = draw.randrange(1, 40)
    samples, labels = [draw.randrange(20) for _ in range(n)], [draw.choice("abc") for _ in range(n)]
    if seed % 2:  # most samples under one label
        labels = [
            "abc"[sample % 3] if draw.random() < 0.9 else label for sample, label in zip(samples, labels, strict=True)
        ]
    known = {label: sorted({draw.randrange(20) for _ in range(draw.randrange(4))}) for label in "abd"}
    label_of = {sample: label for label, ids in known.items() for sample in ids}
    known = {label: np.array([s for s in ids if label_of[s] == label], np.uint64) for label, ids in known.items()}
    photos = tuple(Photo(f"{i}", label) for i, label in enumerate(labels))
    expected = sort_photos(EmbeddedPhotos(photos, tuple(samples), np.zeros((n, 1), np.float32), (), (), 0), label_of)
    cuts = sorted(draw.sample(range(n + 1), 2)) if n > 1 else [0, 0]
    edges = [0, *cuts, n]
    pieces = [surveyed(samples[a:b], labels[a:b]) for a, b in pairwise(edges)]
    found = settle(pieces, known)
    new = [edges[piece] + int(row) for piece, rows in enumerate(found.wanted) for row in rows]
    assert (tuple(new), found.known) == (expected.new, expected.known)
    reasons = [(str(edges[piece] + row), reason) for piece, row, reason in found.contradictory]
    assert reasons == [(one.name, one.reason) for one in expected.skipped]
