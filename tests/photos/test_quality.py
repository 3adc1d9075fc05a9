"""Which backbone a new model gets: by quality, and by the sizes of the first photos."""

import hashlib
import random
import shutil

import numpy as np
import pytest
from PIL import Image
from tiny_backbone import Means

from gddsg.backbones import resolve_name
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.data.photo import Photo
from gddsg.errors import BackboneError, InputError
from gddsg.photos import PhotoClassifier, merge_models
from gddsg.photos import model_backbone as module
from gddsg.photos.quality import THUMBNAIL_SIDE, backbones_of, choose_backbone

LITE = "efficientnet-lite0"
SMALL, LARGE = (THUMBNAIL_SIDE // 2,) * 2, (THUMBNAIL_SIDE + 20, THUMBNAIL_SIDE + 50)


def in_memory(*sides):
    return [Photo.of_pixels(np.zeros((*side, 3), np.uint8), "a", f"photo {i}") for i, side in enumerate(sides)]


@pytest.mark.parametrize(
    ("quality", "sides", "name"),
    [
        ("fast", [LARGE], LITE),
        ("fast", [SMALL], LITE),
        ("good", [LARGE], f"{LITE}@288"),
        ("good", [SMALL], LITE),
        ("good", [(THUMBNAIL_SIDE, 900)], f"{LITE}@288"),
        ("good", [(900, THUMBNAIL_SIDE - 1)], LITE),
        ("good", [SMALL, LARGE, LARGE], f"{LITE}@288"),
        ("good", [SMALL, SMALL, LARGE], LITE),
        ("good", [], f"{LITE}@288"),
        ("best", [LARGE], "efficientnet-lite1@320+efficientnet-lite2@340"),
        ("best", [SMALL], "efficientnet-lite1+efficientnet-lite2"),
    ],
)
def test_the_shorter_side_of_most_photos_decides(quality, sides, name):
    assert choose_backbone(quality, in_memory(*sides)) == name
    assert name in backbones_of(quality)


def test_every_quality_stands_for_names_in_full():
    for quality in ("fast", "good", "best"):
        assert all(resolve_name(name) == name for name in backbones_of(quality))


def write_photos(folder, sizes, label="a"):
    (folder / label).mkdir(parents=True, exist_ok=True)
    for i, size in enumerate(sizes):
        pixels = np.random.default_rng([ord(label), i]).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / label / f"{i}.png")
    return folder


def listed(folder):
    return [Photo.of_file(path, path.parent.name) for path in sorted(folder.rglob("*.*"))]


def test_files_that_cannot_be_read_do_not_count(tmp_path):
    write_photos(tmp_path, [SMALL] * 3)
    for i in range(20):
        (tmp_path / "a" / f"broken{i}.jpg").write_bytes(b"nonsense" * i)
    (tmp_path / "a" / "folder.jpg").mkdir()
    photos = [*listed(tmp_path), Photo.of_file(tmp_path / "missing.jpg"), Photo.of_file(tmp_path / "\0.jpg")]
    assert choose_backbone("good", photos) == LITE
    for path in (tmp_path / "a").glob("?.png"):
        path.write_bytes(path.read_bytes()[:10])  # not even the header is whole
    assert choose_backbone("good", listed(tmp_path)) == f"{LITE}@288"


def test_a_photo_that_is_cut_off_has_a_header_all_the_same(tmp_path):
    write_photos(tmp_path, [SMALL])
    path = tmp_path / "a" / "0.png"
    path.write_bytes(path.read_bytes()[:60])
    assert choose_backbone("good", listed(tmp_path)) == LITE


def test_of_many_photos_some_are_looked_at_whatever_their_order_and_wherever_they_are(tmp_path):
    """Of 150 photos nearly half are thumbnails, all at the beginning: whose sizes are read must not depend on that."""

    class Watched(Photo):
        def shorter_side(self):
            looked_at.append(self.path.name)
            return super().shorter_side()

    write_photos(tmp_path / "here", [SMALL] * 74 + [LARGE] * 76)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    seen = []
    for folder in ("here", "there"):
        photos = [Watched.of_file(photo.path, photo.label) for photo in listed(tmp_path / folder)]
        for seed in range(3):
            looked_at = []
            random.Random(seed).shuffle(photos)
            seen.append((choose_backbone("good", photos), tuple(sorted(looked_at))))
    assert len(set(seen)) == 1
    assert 50 < len(seen[0][1]) < 150


# In a model.


@pytest.fixture
def asked(monkeypatch):
    """Names that were asked for; a tiny backbone stands in for each."""
    names = []

    def load(name, device=None):
        names.append(name)
        backbone = Means()
        backbone.name, backbone.fingerprint = name, hashlib.sha256(name.encode()).hexdigest()[:16]
        return backbone

    monkeypatch.setattr(module, "load_backbone", load)
    return names


@pytest.fixture
def cache(tmp_path):
    with FeatureCache(tmp_path / "cache") as features:
        yield features


@pytest.fixture
def make(tmp_path, cache, asked):
    return lambda name="m.gddsg", **options: PhotoClassifier(
        tmp_path / name, cache=cache, settings={"projection_dim": 32}, **options
    )


@pytest.fixture
def photos(tmp_path):
    for label in "ab":
        write_photos(tmp_path / "photos", [LARGE] * 4, label)
        write_photos(tmp_path / "thumbnails", [SMALL] * 4, label)
    return tmp_path / "photos"


@pytest.fixture
def thumbnails(photos, tmp_path):
    return tmp_path / "thumbnails"


def name_of(classifier):
    return classifier.model.settings.backbone.rpartition("@")[0]


def test_a_model_keeps_the_size_it_began_with(make, photos, thumbnails):
    make().learn(photos)
    assert name_of(make()) == f"{LITE}@288"
    report = make().learn(thumbnails)
    assert sum(report.learnt.values()) == 8
    assert name_of(make()) == f"{LITE}@288"
    make("small.gddsg").learn(thumbnails)
    make("small.gddsg").learn(photos)
    assert name_of(make("small.gddsg")) == LITE


@pytest.mark.parametrize("quality", ["fast", "good", "best"])
def test_a_quality_may_be_named_again(make, photos, quality):
    make(quality=quality).learn(photos)
    assert make(quality=quality).learn(photos).known == 8
    assert make().evaluate(photos).photos == 8


def test_a_first_attempt_that_fails_decides_nothing(make, photos, thumbnails, tmp_path):
    write_photos(tmp_path / "broken", [SMALL])
    path = tmp_path / "broken" / "a" / "0.png"
    path.write_bytes(path.read_bytes()[:60])
    classifier = make()
    with pytest.raises(ValueError, match="No photo could be learnt"):
        classifier.learn(tmp_path / "broken")
    classifier.learn(photos)
    assert name_of(classifier) == f"{LITE}@288"


def test_another_quality_is_refused(make, photos, asked):
    make(quality="fast").learn(photos)
    means = r"efficientnet-lite1@320\+efficientnet-lite2@340"
    message = rf"m\.gddsg was learnt with the backbone {LITE}, and the quality best.*means {means}"
    with pytest.raises(BackboneError, match=message):
        make(quality="best").learn(photos)
    assert make(quality="good").learn(photos).known == 8  # what good means for thumbnails, and has meant before
    assert asked == [LITE]


def test_a_quality_and_a_backbone_are_not_asked_for_together(make):
    with pytest.raises(InputError, match=r"quality best and the backbone vit-b16 were given.*Leave one of them out"):
        make(quality="best", backbone="vit-b16")
    with pytest.raises(InputError, match="quality='better' was given; expected one of fast, good, best"):
        make(quality="better")


def test_before_there_is_a_model_its_backbone_is_that_for_photos(make, thumbnails):
    classifier = make()
    assert classifier.backbone.name == f"{LITE}@288"
    classifier.learn(thumbnails)
    assert classifier.backbone.name == name_of(classifier) == LITE


def test_models_of_two_sizes_do_not_merge_and_the_message_says_what_would(make, photos, thumbnails, tmp_path):
    make("large.gddsg").learn(photos)
    make("small.gddsg").learn(thumbnails)
    with pytest.raises(InputError) as caught:
        merge_models([tmp_path / "large.gddsg", tmp_path / "small.gddsg"], tmp_path / "all.gddsg")
    for part in (f"large.gddsg was learnt with the backbone {LITE}@288, ", f"small.gddsg with {LITE};", "Learn one of"):
        assert part in str(caught.value)
    assert f"--backbone {LITE}@288, or --backbone {LITE}." in str(caught.value)
    assert not (tmp_path / "all.gddsg").exists()
    make("again.gddsg", backbone=f"{LITE}@288").learn(thumbnails)
    merged = merge_models([tmp_path / "large.gddsg", tmp_path / "again.gddsg"], tmp_path / "all.gddsg")
    assert merged.cards["a"].count == 8
