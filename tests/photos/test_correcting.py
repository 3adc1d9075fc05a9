"""A photo moves to another class: all or nothing, and as if it had been learnt there."""

import numpy as np
import pytest
from PIL import Image
from tiny_backbone import Means

from gddsg import GDDSG
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.errors import DataError, InputError, PhotoError
from gddsg.photos import CorrectionReport, PhotoClassifier
from gddsg.photos import model_backbone as module

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


@pytest.fixture
def means(monkeypatch):
    backbone = Means()
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: backbone)
    return backbone


@pytest.fixture
def photos(tmp_path):
    """Eight photos a class; ``red/wrong.png`` is blue."""
    for colour, mean in COLOURS.items():
        (tmp_path / "photos" / colour).mkdir(parents=True)
        for i in range(8):
            write(tmp_path / "photos" / colour / f"{i}.png", mean, 100 * len(colour) + i)
    write(tmp_path / "photos" / "red" / "wrong.png", COLOURS["blue"], 7)
    return tmp_path / "photos"


def write(path, mean, seed):
    noise = np.random.default_rng(seed).integers(-35, 36, (24, 24, 3))
    Image.fromarray((np.array(mean) + noise).clip(0, 255).astype(np.uint8)).save(path)


@pytest.fixture
def make(tmp_path, means):
    """Makes a classifier of a model file of its own, all with one cache."""
    with FeatureCache(tmp_path / "cache") as cache:
        yield lambda name: PhotoClassifier(tmp_path / name, cache=cache, settings={"projection_dim": 64})


@pytest.fixture
def classifier(make, photos):
    classifier = make("m.gddsg")
    classifier.learn(photos)
    return classifier


def test_the_model_is_that_of_the_right_labels(classifier, make, photos, means):
    seen, wrong = means.seen, photos / "red" / "wrong.png"
    assert classifier.correct(wrong, "blue") == CorrectionReport(str(wrong), "red", "blue", 8, False)
    assert means.seen == seen  # all from the cache
    aside = wrong.rename(photos.parent / "wrong.png")
    right = make("right.gddsg")
    right.learn(photos)
    aside.rename(photos / "blue" / "wrong.png")
    right.learn(photos)  # in two calls, since the photo comes to a class that is there
    assert classifier.path.read_bytes() == right.path.read_bytes()
    assert classifier.learn(photos).known == 25


def test_repeating_changes_nothing(classifier, photos):
    wrong = photos / "red" / "wrong.png"
    classifier.correct(wrong, "blue")
    before = classifier.path.read_bytes()
    assert classifier.correct(wrong, "blue") == CorrectionReport(str(wrong), "blue", "blue", 0, False)
    assert classifier.path.read_bytes() == before


def test_photos_that_are_not_in_the_cache_come_from_folders(classifier, photos, means, tmp_path):
    before, wrong = classifier.path.read_bytes(), photos / "red" / "wrong.png"
    expected = classifier.model.cards["red"]
    classifier.cache.clear()
    with pytest.raises(DataError, match=r"its other photos \(8\), and 8 cannot be found in the feature cache"):
        classifier.correct(wrong, "blue")
    (photos / "red" / "3.png").rename(tmp_path / "3.png")
    with pytest.raises(DataError, match=r"and 1 cannot be found in the feature cache and 2 folders.*--photos"):
        classifier.correct(wrong, "blue", photos=[photos / "red", photos / "green"])
    assert classifier.path.read_bytes() == before
    seen = means.seen
    report = classifier.correct(wrong, "blue", photos=[tmp_path])
    assert report.relearnt == 8
    assert means.seen - seen == 1  # the others were embedded for the call before
    assert classifier.model.cards["red"].count == expected.count - 1


def test_a_new_class_and_a_class_that_is_gone(classifier, photos, tmp_path):
    report = classifier.correct(photos / "red" / "wrong.png", " navy ")
    assert (report.new, report.new_class) == ("navy", True)
    assert classifier.model.cards["navy"].count == 1
    back = classifier.correct(photos / "red" / "wrong.png", "red")
    assert (back.old, back.relearnt, back.new_class) == ("navy", 0, False)
    assert classifier.model.labels == tuple(sorted(COLOURS))
    assert classifier.model.cards["red"].count == 9


def test_what_cannot_be_corrected(classifier, photos, tmp_path):
    before = classifier.path.read_bytes()
    write(tmp_path / "stranger.png", COLOURS["red"], 99)
    with pytest.raises(DataError, match=r"has not learnt .*stranger\.png"):
        classifier.correct(tmp_path / "stranger.png", "blue")
    with pytest.raises(PhotoError, match="cannot be read"):
        classifier.correct(tmp_path / "missing.png", "blue")
    with pytest.raises(DataError, match="differ only in upper and lower case"):
        classifier.correct(photos / "red" / "wrong.png", "Blue")
    with pytest.raises(InputError, match="NUL"):
        classifier.correct(photos / "red" / "wrong.png", "a\0b")
    assert classifier.path.read_bytes() == before


def test_a_class_with_samples_of_bare_features_cannot_be_learnt_again(classifier, photos):
    bare = GDDSG.load(classifier.path)
    bare.partial_fit(np.random.default_rng(0).random((4, 24)), ["red"] * 4)
    bare.save(classifier.path)
    with pytest.raises(DataError, match="Of the 13 samples of 'red', 4 were learnt from bare features"):
        classifier.correct(photos / "red" / "wrong.png", "blue")


@pytest.mark.parametrize("meanwhile", ["more", "forgotten", "corrected"])
def test_another_process_changes_the_class_meanwhile(classifier, photos, tmp_path, meanwhile, monkeypatch):
    wrong = photos / "red" / "wrong.png"
    (tmp_path / "more" / "red").mkdir(parents=True)
    write(tmp_path / "more" / "red" / "new.png", COLOURS["red"], 55)
    other = PhotoClassifier(classifier.path, cache=classifier.cache)
    intrude = {
        "more": lambda: other.learn(tmp_path / "more"),
        "forgotten": lambda: other.forget("red"),
        "corrected": lambda: other.correct(wrong, "blue"),
    }[meanwhile]
    change, done = classifier._file.change, []

    def late(step):
        if not done:
            done.append(intrude())
        return change(step)

    monkeypatch.setattr(classifier._file, "change", late)
    if meanwhile == "forgotten":
        with pytest.raises(DataError, match="has not learnt"):
            classifier.correct(wrong, "blue")
        assert classifier.model.labels == ("blue", "green")
        return
    report = classifier.correct(wrong, "blue")
    assert report.old == ("blue" if meanwhile == "corrected" else "red")
    counts = {label: card.count for label, card in classifier.model.cards.items()}
    assert counts == {"blue": 9, "green": 8, "red": 9 if meanwhile == "more" else 8}


def test_groups_in_order_of_arrival_stay(make, photos):
    classifier = make("arrival.gddsg")
    classifier._settings["grouping"] = "arrival"
    for colour in ("green", "red", "blue"):
        classifier.learn(photos / colour)
    before = classifier.model.arrival_groups
    classifier.correct(photos / "red" / "wrong.png", "blue")
    assert classifier.model.arrival_groups == before
