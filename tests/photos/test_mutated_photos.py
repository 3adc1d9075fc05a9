"""A thousand damaged image files: no crash, and nothing learnt under a label that is not its own."""

import random
from collections import Counter

from tests.attack.images import mutated_image, valid_images
from tiny_backbone import Means

from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.photo import content_key, identify_sample
from gddsg.photos import PhotoClassifier
from gddsg.photos import model_backbone as module


def test_a_thousand_mutated_files(tmp_path, monkeypatch):
    backbone, rng = Means(), random.Random(0)
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: backbone)
    originals, label_of, files = valid_images(), {}, 0
    for i in range(1000):
        label, content = f"class {i % 7}", mutated_image(originals, rng)
        if label_of.setdefault(content_key(content), label) != label:
            continue  # two mutations came out equal, an empty file say
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / label / f"{i}.png").write_bytes(content)
        files += 1
    with FeatureCache(tmp_path / "cache") as cache:
        classifier = PhotoClassifier(tmp_path / "m.gddsg", cache=cache, settings={"projection_dim": 32})
        report = classifier.learn(tmp_path / "photos")
        predictions = classifier.predict(tmp_path / "photos")
    learnt = classifier.model.label_samples()
    right = {identify_sample(key): label for key, label in label_of.items()}
    assert all(right[sample] == label for sample, label in learnt.items())
    assert Counter(learnt.values()) == report.learnt
    assert sum(report.learnt.values()) + report.known + len(report.skipped) == files
    assert len(predictions) + len(predictions.skipped) == files
    assert {one.name for one in predictions.skipped} == {one.name for one in report.skipped}
    assert len(learnt) > 100  # some mutations leave a file readable, some do not
    assert len(report.skipped) > 100
