"""Photos in, labels out: learning, repeating, contradicting, forgetting."""

import threading
import time
import unicodedata
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image
from tiny_backbone import Means

from gddsg import GDDSG
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.once import Lazy
from gddsg.data.dataset import ImageDataset, PhotoListing
from gddsg.data.photo import Photo
from gddsg.errors import BackboneError, DataError, InputError, ModelFileError, UnknownClassError
from gddsg.photos import PhotoClassifier, embed_dataset, embed_photos, merge_models
from gddsg.photos import model_backbone as module
from gddsg.photos.embedding import Embedder
from gddsg.store import SharedModel, read_model

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200), "grey": (120, 120, 120)}


@pytest.fixture
def means(monkeypatch):
    backbone = Means()
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: backbone)
    return backbone


def pixels(colour, seed):
    noise = np.random.default_rng(seed).integers(-35, 36, (24, 24, 3))
    return (np.array(COLOURS[colour]) + noise).clip(0, 255).astype(np.uint8)


def write_photos(folder, colours=COLOURS, n=8, first=0):
    for colour in colours:
        (folder / colour).mkdir(parents=True, exist_ok=True)
        for i in range(first, first + n):
            Image.fromarray(pixels(colour, 1000 * len(colour) + i)).save(folder / colour / f"{i}.png")
    return folder


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos")


@pytest.fixture
def classifier(tmp_path, means):
    with FeatureCache(tmp_path / "cache") as cache:
        yield PhotoClassifier(tmp_path / "m.gddsg", cache=cache, settings={"projection_dim": 64})


def test_learn_predict_evaluate(classifier, photos, tmp_path):
    report = classifier.learn(photos)
    assert report.learnt == dict.fromkeys(sorted(COLOURS), 8)
    assert report.new_classes == tuple(sorted(COLOURS))
    assert (report.known, report.skipped, report.computed) == (0, (), 32)
    fresh = write_photos(tmp_path / "fresh", n=4, first=100)
    predictions = classifier.predict(fresh / "red", fresh / "blue" / "100.png", top=2)
    assert [one.label for one in predictions] == ["red"] * 4 + ["blue"]
    assert not predictions.skipped
    assert all(len(one.top) == 2 and one.top[0] == (one.label, one.probability) for one in predictions)
    found = classifier.evaluate(fresh)
    assert found.accuracy == found.average_accuracy == 1.0
    assert found.photos == 16
    assert found.confusions == ()


def test_learning_again_changes_nothing(classifier, photos, means):
    classifier.learn(photos)
    before, seen = classifier.path.read_bytes(), means.seen
    report = classifier.learn(photos)
    assert report.learnt == {}
    assert report.known == 32
    assert means.seen == seen  # no photo is embedded twice
    assert classifier.path.read_bytes() == before


def test_known_photos_are_not_embedded_even_if_the_cache_was_cleared(classifier, photos, means, tmp_path):
    classifier.learn(photos)
    classifier.cache.clear()
    write_photos(photos, ["red", "blue"], n=2, first=40)
    before = means.seen
    report = PhotoClassifier(classifier.path, cache=classifier.cache).learn(photos)
    assert report.learnt == {"blue": 2, "red": 2}
    assert report.known == 32
    assert report.new_classes == ()
    assert means.seen - before == report.computed == 4
    assert classifier.model.cards["red"].count == 10


def test_where_nothing_is_new_there_is_neither_backbone_nor_lock(classifier, photos, monkeypatch):
    """Photos that are known, contradict each other or the model, or cannot be read: none of them can be learnt."""
    classifier.learn(photos)
    spoil(photos)
    both = (pixels("green", seed) for seed in (7, 8))
    for name, image in zip(("twice", "again"), both, strict=True):
        for label in ("blue", "grey"):
            Image.fromarray(image).save(photos / label / f"{name}.png")
    (photos / "grey" / "red.png").write_bytes((photos / "red" / "0.png").read_bytes())
    for label in ("green", "grey"):  # damaged files contradict nothing
        (photos / label / "nonsense.png").write_bytes(b"nonsense")
    expected = classifier.learn(photos)
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: pytest.fail("the backbone was loaded"))
    monkeypatch.setattr(SharedModel, "change", lambda *_: pytest.fail("the model was locked"))
    report = PhotoClassifier(classifier.path, cache=classifier.cache).learn(photos)
    assert report == replace(expected, computed=0)
    assert (report.learnt, report.known) == ({}, 32)
    reasons = Counter(one.reason for one in report.skipped)
    assert reasons["already learnt as 'red'"] == 1
    assert reasons["the same photo is also given as 'blue'"] == 2
    assert reasons["not an image of a known format"] == 2
    assert len(report.skipped) == 4 + 1 + 4 + 2
    with pytest.raises(DataError, match="Nothing was learnt, since 11 files cannot be"):
        classifier.learn(photos, strict=True)


def test_a_class_forgotten_while_others_are_embedded_is_learnt_again(classifier, photos, tmp_path):
    classifier.learn(photos / "red", photos / "blue")

    def intrude(done, total):
        if done == total and "red" in read_model(classifier.path).labels:
            PhotoClassifier(classifier.path, cache=classifier.cache).forget("red")

    report = classifier.learn(photos, progress=intrude)
    assert report.learnt == {"green": 8, "grey": 8, "red": 8}
    assert report.known == 8
    assert classifier.model.labels == tuple(sorted(COLOURS))


def test_progress_counts_known_photos_too(classifier, photos):
    classifier.learn(photos / "red")
    for computed in (24, 0):
        steps = []
        assert classifier.learn(photos, progress=lambda *step, to=steps: to.append(step)).computed == computed
        assert steps == sorted(steps)
        assert steps[-1] == (32, 32)
        assert len(steps) >= computed


def test_each_photo_is_read_once(classifier, photos, monkeypatch):
    reads, read = Counter(), Photo.read
    monkeypatch.setattr(Photo, "read", lambda photo, at_most: reads.update([photo.name]) or read(photo, at_most))
    spoil(photos)
    (photos / "grey" / "0.png").write_bytes((photos / "red" / "0.png").read_bytes())  # under two labels
    classifier.learn(photos / "red", photos / "blue")
    assert set(reads.values()) == {1}
    for _ in range(2):  # known, contradictory, new and damaged ones, then all of them seen before
        reads.clear()
        classifier.learn(photos)
        assert len(reads) == 34
        assert set(reads.values()) == {1}


def test_damaged_photos_alone_load_no_backbone(classifier, photos, monkeypatch):
    classifier.learn(photos)
    spoil(photos)
    classifier.cache.clear()
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: pytest.fail("the backbone was loaded"))
    report = PhotoClassifier(classifier.path, cache=classifier.cache).learn(photos)
    assert (report.learnt, report.known, len(report.skipped)) == ({}, 32, 4)


def test_a_copy_of_a_photo_is_the_same_photo(classifier, photos):
    (photos / "red" / "copy of 0.png").write_bytes((photos / "red" / "0.png").read_bytes())
    report = classifier.learn(photos)
    assert report.learnt["red"] == 8
    assert report.known == 1


def test_in_several_calls_as_in_one(classifier, photos, tmp_path, means):
    for colour in ("grey", "red", "blue", "green"):
        classifier.learn(photos / colour)
    with FeatureCache(tmp_path / "cache2") as cache:
        other = PhotoClassifier(tmp_path / "other.gddsg", cache=cache, settings={"projection_dim": 64})
        other.learn(photos)
    assert classifier.path.read_bytes() == other.path.read_bytes()


def test_more_photos_of_a_known_class(classifier, photos, tmp_path):
    classifier.learn(photos)
    report = classifier.learn(write_photos(tmp_path / "more", ["red"], n=3, first=50))
    assert report.learnt == {"red": 3}
    assert report.new_classes == ()
    assert classifier.model.cards["red"].count == 11


def test_a_photo_under_two_labels_is_learnt_under_none(classifier, photos):
    (photos / "blue" / "same.png").write_bytes((photos / "red" / "0.png").read_bytes())
    report = classifier.learn(photos)
    assert report.learnt["red"] == 7
    assert report.learnt["blue"] == 8
    assert {(one.name.split("/")[-2], one.reason) for one in report.skipped} == {
        ("red", "the same photo is also given as 'blue'"),
        ("blue", "the same photo is also given as 'red'"),
    }


def test_a_photo_learnt_under_another_label_is_left_out(classifier, photos):
    classifier.learn(photos)
    (photos / "blue" / "same.png").write_bytes((photos / "red" / "0.png").read_bytes())
    report = classifier.learn(photos)
    assert report.learnt == {}
    (skipped,) = report.skipped
    assert skipped.reason == "already learnt as 'red'"
    with pytest.raises(DataError, match=r"(?s)Nothing was learnt.*already learnt as 'red'"):
        classifier.learn(photos, strict=True)


def spoil(photos):
    (photos / "red" / "broken.png").write_bytes((photos / "red" / "0.png").read_bytes()[:80])
    (photos / "red" / "empty.jpg").write_bytes(b"")
    (photos / "blue" / "notes.txt").write_text("no photo")
    (photos / "lonely").mkdir()


def test_what_cannot_be_read_is_skipped_and_listed(classifier, photos):
    spoil(photos)
    report = classifier.learn(photos)
    assert sum(report.learnt.values()) == 32
    assert "lonely" not in classifier.model.labels
    reasons = {one.name.split("/")[-1]: one.reason for one in report.skipped}
    assert set(reasons) == {"broken.png", "empty.jpg", "notes.txt", "lonely"}
    assert "damaged" in reasons["broken.png"]
    assert "empty" in reasons["empty.jpg"]


def test_strict_learns_nothing_if_anything_has_to_be_skipped(classifier, photos):
    spoil(photos)
    with pytest.raises(DataError, match="Nothing was learnt, since 4 files cannot be"):
        classifier.learn(photos, strict=True)
    assert not classifier.path.exists()
    classifier.learn(photos)
    for use in (classifier.predict, classifier.evaluate):
        with pytest.raises(DataError, match="cannot be used"):
            use(photos, strict=True)


def test_nothing_but_broken_photos(classifier, tmp_path):
    (tmp_path / "photos" / "red").mkdir(parents=True)
    (tmp_path / "photos" / "red" / "a.png").write_bytes(b"x")
    with pytest.raises(DataError, match="No photo could be learnt"):
        classifier.learn(tmp_path / "photos")
    assert not classifier.path.exists()


def test_case_twins_of_known_classes_are_refused(classifier, photos, tmp_path):
    classifier.learn(photos)
    (photos / "red").rename(tmp_path / "Red")
    with pytest.raises(DataError, match="'red' and 'Red' differ only in upper and lower case"):
        classifier.learn(tmp_path / "Red")
    write_photos(tmp_path / "new", ["red"], n=2, first=70)
    (tmp_path / "new" / "red").rename(tmp_path / "new" / "RED")
    assert classifier.learn(tmp_path / "new", case_sensitive=True).new_classes == ("RED",)


def test_unicode_names(classifier, photos):
    name = unicodedata.normalize("NFD", "été 日本")
    (photos / "red").rename(photos / name)
    classifier.learn(photos)
    assert unicodedata.normalize("NFC", name) in classifier.model.labels


def test_unknown_photos_are_rejected(classifier, photos, tmp_path):
    classifier.learn(photos)
    (tmp_path / "odd").mkdir()
    chess = (np.indices((24, 24)).sum(0) % 2 * 255).astype(np.uint8)
    Image.fromarray(np.stack([chess] * 3, axis=2)).save(tmp_path / "odd" / "chess.png")
    predictions = classifier.predict(tmp_path / "odd", photos / "red", reject=0.99)
    assert [one.label for one in predictions[:1]] == ["unknown"]
    assert sum(one.label == "red" for one in predictions) >= 7
    assert predictions[0].novelty > max(one.novelty for one in predictions[1:])


def test_evaluation_counts_classes_never_learnt_as_wrong(classifier, photos):
    classifier.learn(photos / "red", photos / "blue")
    found = classifier.evaluate(photos)
    assert found.unlearnt == ("green", "grey")
    assert found.accuracy == pytest.approx(0.5)
    assert {label for label, _, _ in found.confusions} == {"green", "grey"}
    assert found.confusions[0][2] >= found.confusions[-1][2]


def test_evaluation_counts_photos_that_were_learnt_apart(classifier, photos, tmp_path):
    classifier.learn(photos)
    fresh = write_photos(tmp_path / "fresh", n=2, first=300)
    (fresh / "red" / "green.png").write_bytes((photos / "green" / "0.png").read_bytes())  # learnt, and labelled wrong
    found = classifier.evaluate(fresh, photos / "blue")
    assert (found.photos, found.learnt_photos, found.learnt_correct) == (17, 9, 8)
    assert found.unseen_photos == 8
    assert found.unseen_accuracy == 1.0
    (wrong,) = found.wrong
    assert (wrong.label, wrong.taken_for, wrong.learnt) == ("red", "green", True)
    assert np.isnan(classifier.evaluate(photos).unseen_accuracy)


def test_evaluation_prefers_the_test_part(classifier, photos, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    photos.rename(whole / "train")
    write_photos(whole / "test", n=2, first=200)
    assert sum(classifier.learn(whole).learnt.values()) == 32
    assert classifier.evaluate(whole).photos == 8


def test_lists_and_folders_together(classifier, photos, tmp_path):
    rows = [f"photos/{colour}/{i}.png,{colour}" for colour in ("red", "blue") for i in range(8)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows, "photos/none.png,red"]))
    report = classifier.learn(tmp_path / "list.csv", photos / "green")
    assert report.learnt == {"blue": 8, "green": 8, "red": 8}
    assert [one.name.split("/")[-1] for one in report.skipped] == ["none.png"]
    (tmp_path / "twin.csv").write_text("path,label\nphotos/grey/0.png,Green\n")
    with pytest.raises(DataError, match="case"):
        classifier.learn(tmp_path / "twin.csv", photos / "green")
    assert classifier.evaluate(tmp_path / "list.csv").photos == 16


# Other changes.


def test_forget_and_rename(classifier, photos):
    classifier.learn(photos)
    classifier.forget("red", "grey")
    assert classifier.model.labels == ("blue", "green")
    classifier.rename("blue", "azure")
    assert classifier.model.labels == ("azure", "green")
    report = classifier.learn(photos / "red")
    assert report.learnt == {"red": 8}  # a forgotten class can be learnt anew


def test_changes_are_all_or_nothing(classifier, photos):
    classifier.learn(photos)
    before = classifier.path.read_bytes()
    with pytest.raises(UnknownClassError):
        classifier.forget("red", "purple")
    with pytest.raises(DataError, match="no class at all"):
        classifier.forget(*COLOURS)
    with pytest.raises(InputError, match="already"):
        classifier.rename("red", "blue")
    assert classifier.path.read_bytes() == before
    assert len(classifier.model.labels) == 4


def test_merging_models(tmp_path, means, photos):
    paths = []
    with FeatureCache(tmp_path / "cache") as cache:
        for colours in (("red", "blue"), ("green", "grey")):
            paths.append(tmp_path / f"{colours[0]}.gddsg")
            part = PhotoClassifier(paths[-1], cache=cache, settings={"projection_dim": 64})
            part.learn(*(photos / colour for colour in colours))
        merged = merge_models(paths, tmp_path / "all.gddsg")
        assert merged.labels == tuple(sorted(COLOURS))
        whole = PhotoClassifier(tmp_path / "whole.gddsg", cache=cache, settings={"projection_dim": 64})
        whole.learn(photos)
    assert (tmp_path / "all.gddsg").read_bytes() == (tmp_path / "whole.gddsg").read_bytes()
    with pytest.raises(DataError, match="exists"):
        merge_models(paths, tmp_path / "all.gddsg")
    with pytest.raises(InputError, match="16 samples were learnt by both"):
        merge_models([paths[0], tmp_path / "whole.gddsg"], tmp_path / "twice.gddsg")


# Backbones.


def test_a_model_is_tied_to_its_backbone(classifier, photos, means, monkeypatch, tmp_path):
    classifier.learn(photos)
    assert classifier.model.settings.backbone == "means@0123456789abcdef"
    with pytest.raises(BackboneError, match="learnt with the backbone means, and vit-b16 was asked for"):
        PhotoClassifier(classifier.path, backbone="vit-b16").learn(photos)
    monkeypatch.setattr(means, "fingerprint", "fedcba9876543210")
    more = write_photos(tmp_path / "more", n=1, first=60)
    with pytest.raises(BackboneError, match="other weights or preprocessing"):
        PhotoClassifier(classifier.path, cache=classifier.cache).learn(more)
    with pytest.raises(BackboneError, match="other weights or preprocessing"):
        PhotoClassifier(classifier.path, cache=classifier.cache).evaluate(more)


def test_a_preset_is_the_backbone_it_stands_for(classifier, photos, means, monkeypatch):
    monkeypatch.setattr(means, "name", "hf:google/vit-base-patch16-224-in21k")
    wanted = PhotoClassifier(classifier.path, "vit-b16", cache=classifier.cache, settings={"projection_dim": 64})
    wanted.learn(photos)
    assert wanted.learn(photos).known == 32
    assert PhotoClassifier(classifier.path, "vit-b16", cache=classifier.cache).learn(photos).known == 32


def test_photos_in_the_cache_need_no_backbone(classifier, photos, means, monkeypatch):
    classifier.learn(photos / "red", photos / "blue")
    expected = classifier.evaluate(photos)
    monkeypatch.setattr(module, "load_backbone", lambda name, device=None: pytest.fail("the backbone was loaded"))
    later = PhotoClassifier(classifier.path, cache=classifier.cache)
    assert later.evaluate(photos) == expected
    assert later.learn(photos).learnt == {"green": 8, "grey": 8}


def test_features_of_two_backbones_never_meet_even_in_a_race(classifier, photos, means, tmp_path):
    """Another process creates the file, with another backbone of the same width, while photos are being embedded."""

    def intrude(done, total):
        if not classifier.path.exists():
            X = np.random.default_rng(0).random((8, 24))
            GDDSG(projection_dim=64, backbone="other@1").fit(X, ["a"] * 4 + ["b"] * 4).save(classifier.path)

    assert classifier.backbone is means
    with pytest.raises(BackboneError, match="is now a model of the backbone other@1"):
        classifier.learn(photos, progress=intrude)
    assert read_model(classifier.path).labels == ("a", "b")
    for use in (classifier.predict, classifier.evaluate):
        with pytest.raises(BackboneError, match="learnt with the backbone other of fingerprint 1"):
            use(photos)


def test_changing_no_model_leaves_nothing_behind(classifier):
    with pytest.raises(ModelFileError):
        classifier.forget("red")
    assert not list(classifier.path.parent.glob("*.lock"))


def test_a_model_of_bare_features_takes_no_photos(tmp_path, photos):
    GDDSG(projection_dim=8).fit(np.eye(4), [0, 0, 1, 1]).save(tmp_path / "bare.gddsg")
    with pytest.raises(BackboneError, match="unknown backbone"):
        PhotoClassifier(tmp_path / "bare.gddsg").learn(photos)


def test_a_model_whose_classes_are_numbers_predicts_but_takes_no_names(classifier, photos):
    model = GDDSG(projection_dim=64, backbone=Means().identity)
    model.fit(np.random.default_rng(0).random((8, 24)), [3] * 4 + [5] * 4).save(classifier.path)
    with pytest.raises(InputError, match="mixed type"):
        classifier.learn(photos)
    predictions = classifier.predict(photos)
    assert {one.label for one in predictions} <= {"3", "5"}
    assert classifier.evaluate(photos).unlearnt == tuple(sorted(COLOURS))


def test_features_that_no_learner_can_use_are_refused(classifier, photos, means, monkeypatch):
    monkeypatch.setattr(means, "embed", lambda images: np.full((len(images), 24), np.nan, dtype=np.float32))
    with pytest.raises(InputError, match="NaN"):
        classifier.learn(photos)
    assert not classifier.path.exists()


def test_settings_that_make_no_sense_are_refused_before_the_work(means, photos, tmp_path):
    classifier = PhotoClassifier(tmp_path / "m.gddsg", settings={"rank": 0})
    with pytest.raises(InputError, match="rank=0 was given; expected a whole number"):
        classifier.learn(photos)
    assert means.seen == 0


def test_there_must_be_a_model_to_predict(classifier, photos):
    with pytest.raises(ModelFileError, match="gddsg learn MODEL FOLDER"):
        classifier.predict(photos)


def test_a_folder_that_cannot_be_written_to(means, photos, tmp_path):
    with pytest.raises(ModelFileError, match="create the folder first"):
        PhotoClassifier(tmp_path / "no" / "such" / "folder" / "m.gddsg").learn(photos)
    assert not (tmp_path / "no").exists()


# Embedding.


def test_batches_give_what_single_photos_give(photos):
    listing = [Photo.of_file(path, path.parent.name) for path in sorted(photos.rglob("*.png"))]
    (photos / "red" / "3.png").write_bytes(b"broken")
    one, many = (embed_photos(listing, Means(batch_size)) for batch_size in (1, 5))
    np.testing.assert_allclose(one.features, many.features, atol=1e-6)
    assert one.photos == many.photos
    assert one.samples == many.samples
    assert [s.name for s in one.skipped] == [s.name for s in many.skipped] == [str(photos / "red" / "3.png")]
    assert one.computed == many.computed == 31


def test_an_interruption_keeps_what_is_done(photos, tmp_path):
    listing = [Photo.of_file(path) for path in sorted(photos.rglob("*.png"))]

    def interrupt(done, total):
        assert total == 32
        if done == 10:
            raise KeyboardInterrupt

    with FeatureCache(tmp_path / "cache") as cache:
        with pytest.raises(KeyboardInterrupt):
            embed_photos(listing, Means(), cache, interrupt)
        assert cache.sizes()[0].vectors == 10


@pytest.mark.parametrize("cached", [[0, 1, 2], [5, 30], range(32)])
def test_features_are_the_same_from_the_cache_and_anew(photos, tmp_path, cached):
    listing = [Photo.of_file(path) for path in sorted(photos.rglob("*.png"))]
    expected, steps, loaded = embed_photos(listing, Means()), [], []
    with FeatureCache(tmp_path / "cache") as cache:
        embed_photos([listing[i] for i in cached], Means(), cache)
        backbone = Lazy(lambda: loaded.append(Means()) or loaded[0])
        found = Embedder(Means.fingerprint, backbone, cache).embed(listing, progress=lambda *s: steps.append(s))
    np.testing.assert_array_equal(found.features, expected.features)
    assert (found.photos, found.samples) == (expected.photos, expected.samples)
    assert found.computed == sum(backbone.seen for backbone in loaded) == 32 - len(cached)
    assert len(loaded) == (found.computed > 0)
    assert steps == sorted(steps)
    assert steps[-1] == (32, 32)


def test_an_image_data_set_becomes_a_feature_data_set(photos):
    listing = tuple(Photo.of_file(path, path.parent.name) for path in sorted(photos.rglob("*.png")))
    steps = []
    data = embed_dataset(ImageDataset("colours", listing[:20], listing[20:]), Means(), None, lambda *s: steps.append(s))
    assert data.train_features.shape == (20, 24)
    assert data.test_labels.tolist() == [photo.label for photo in listing[20:]]
    assert steps == [(i, 32) for i in range(1, 33)]


def test_no_photo_at_all():
    assert embed_photos([], Means()).features.shape == (0, 24)


def test_a_listing_of_pixels_can_be_learnt(classifier):
    listing = [
        Photo.of_pixels(pixels(colour, i), colour, f"{colour}/{i}") for colour in ("red", "blue") for i in range(5)
    ]
    assert classifier.learn_photos(PhotoListing(tuple(listing))).learnt == {"blue": 5, "red": 5}


# Several processes and threads.


def test_a_second_process_waits(classifier, photos, tmp_path):
    waited = []
    other = PhotoClassifier(
        classifier.path, cache=classifier.cache, settings={"projection_dim": 64}, on_wait=lambda: waited.append(1)
    )
    held = threading.Event()

    def hold():
        with FileLock(classifier.path.with_name(f".{classifier.path.name}.lock")):
            held.set()
            time.sleep(1)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    other.learn(photos)
    thread.join()
    assert waited == [1]


def test_concurrent_learners_lose_nothing(photos, tmp_path, means):
    def learn(colour):
        with FeatureCache(tmp_path / "cache") as cache:
            PhotoClassifier(tmp_path / "m.gddsg", cache=cache, settings={"projection_dim": 64}).learn(photos / colour)

    threads = [threading.Thread(target=learn, args=(colour,)) for colour in COLOURS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_model(tmp_path / "m.gddsg").labels == tuple(sorted(COLOURS))


def test_threads_predict_by_one_model_while_another_learns_and_forgets(classifier, photos, tmp_path):
    fresh = write_photos(tmp_path / "fresh", n=3, first=500)
    classifier.learn(photos / "red", photos / "blue")
    few = classifier.predict(fresh, reject=0.99)
    classifier.learn(photos / "green")
    more = classifier.predict(fresh, reject=0.99)
    assert few != more
    answers, errors, done = [], [], threading.Event()

    def ask():
        try:
            while not done.is_set():
                answers.append(classifier.predict(fresh, reject=0.99))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            classifier.forget("green")
            classifier.learn(photos / "green")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert all(answer in (few, more) for answer in answers)
    assert few in answers
    assert more in answers
