"""A thousand damaged image files: no crash, and nothing learnt under a label that is not its own."""

import io
import random
from collections import Counter

import numpy as np
from PIL import Image
from tiny_backbone import Means

from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.photo import content_key, identify_sample
from gddsg.photos import PhotoClassifier
from gddsg.photos import model_backbone as module

KINDS = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP", "tif": "TIFF"}


def original(kind, seed):
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)).resize((30, 24))
    buffer = io.BytesIO()
    small.save(buffer, kind)
    return buffer.getvalue()


def mutated(content, rng):
    """Flip bits, cut, repeat, insert or swap: what disks, networks and mail programs do to files."""
    data = bytearray(content)
    place = rng.randrange(len(data))
    how = rng.randrange(6)
    if how == 0:
        for _ in range(rng.randrange(1, 20)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == 1:
        del data[place:]
    elif how == 2:
        del data[place : place + rng.randrange(1, 50)]
    elif how == 3:
        data[place:place] = rng.randbytes(rng.randrange(1, 50))
    elif how == 4:
        data[place : place + 4] = rng.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"])
    else:
        other = rng.randrange(len(data))
        data[place : place + 30], data[other : other + 30] = data[other : other + 30], data[place : place + 30]
    return bytes(data)


def test_a_thousand_mutated_files(tmp_path, monkeypatch):
    backbone, rng = Means(), random.Random(0)
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: backbone)
    label_of, files = {}, 0
    for i in range(1000):
        label, (ending, kind) = f"class {i % 7}", rng.choice(list(KINDS.items()))
        content = mutated(original(kind, i), rng)
        if label_of.setdefault(content_key(content), label) != label:
            continue  # two mutations came out equal, an empty file say
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / label / f"{i}.{ending}").write_bytes(content)
        files += 1
    with FeatureCache(tmp_path / "cache") as cache:
        classifier = PhotoClassifier(tmp_path / "m.gddsg", cache=cache, settings={"projection_dim": 32})
        report = classifier.learn(tmp_path / "photos")
        predictions, skipped = classifier.predict(tmp_path / "photos")
    learnt = classifier.model.label_samples()
    right = {identify_sample(key): label for key, label in label_of.items()}
    assert all(right[sample] == label for sample, label in learnt.items())
    assert Counter(learnt.values()) == report.learnt
    assert sum(report.learnt.values()) + report.known + len(report.skipped) == files
    assert len(predictions) + len(skipped) == files
    assert {one.name for one in skipped} == {one.name for one in report.skipped}
    assert len(learnt) > 100  # some mutations leave a file readable, some do not
    assert len(report.skipped) > 100
