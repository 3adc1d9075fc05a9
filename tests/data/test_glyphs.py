"""The glyphs are the same on every run, really drawn, and hard but possible to tell apart."""

import itertools
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.ft2font import FT2Font
from PIL import Image

from gddsg.data import glyphs as module
from gddsg.data.glyphs import (
    GLYPHS,
    TEST_TYPEFACES,
    TRAIN_TYPEFACES,
    clean_glyph,
    glyphs,
    render_glyph,
    write_glyphs,
)
from gddsg.errors import DataError, InputError, MissingExtraError

TYPEFACES = TRAIN_TYPEFACES + TEST_TYPEFACES
LOOK_ALIKES = ["capital O", "digit 0", "small o", "small l", "digit 1", "capital I"]


@pytest.fixture(scope="module")
def clean():
    """Every class in every typeface, ``(n_classes, n_typefaces, 48, 48)``."""
    return np.array([[clean_glyph(label, typeface, 48) for typeface in TYPEFACES] for label in GLYPHS])


def pixels_of(photos):
    return {photo.name: photo.pixels for photo in photos}


def test_the_same_call_gives_the_same_photos():
    first, second = (glyphs(2, 1, seed=5, classes=LOOK_ALIKES) for _ in range(2))
    for one, other in zip(itertools.chain(*first), itertools.chain(*second), strict=True):
        assert (one.name, one.label) == (other.name, other.label)
        np.testing.assert_array_equal(one.pixels, other.pixels)


def test_a_photo_depends_on_its_class_number_split_and_seed_alone():
    many = [pixels_of(split) for split in glyphs(3, 2, classes=LOOK_ALIKES)]
    few = [pixels_of(split) for split in glyphs(1, 2, classes=["small l", "capital O"])]
    for all_photos, some_photos in zip(many, few, strict=True):
        for name, pixels in some_photos.items():
            np.testing.assert_array_equal(pixels, all_photos[name])


def test_photos_differ_between_numbers_splits_and_seeds():
    photos = [photo for seed in (0, 1) for split in glyphs(2, 2, seed, ["small g"]) for photo in split]
    assert len({photo.pixels.tobytes() for photo in photos}) == 8


def test_photos_have_the_form_that_was_asked_for():
    train, test = glyphs(3, 2, classes=LOOK_ALIKES)
    assert [photo.label for photo in train] == [label for label in LOOK_ALIKES for _ in range(3)]
    assert [photo.label for photo in test] == [label for label in LOOK_ALIKES for _ in range(2)]
    assert {photo.pixels.shape for photo in train + test} == {(96, 96, 3)}
    assert {photo.pixels.dtype for photo in train + test} == {np.dtype(np.uint8)}
    assert len({photo.name for photo in train + test}) == 30


def test_all_classes_come_unasked():
    train, test = glyphs(1, 0)
    assert [photo.label for photo in train] == list(GLYPHS)
    assert test == ()


def test_train_and_test_share_families_but_no_typeface():
    families = ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif", "STIXGeneral")
    assert not set(TRAIN_TYPEFACES) & set(TEST_TYPEFACES)
    for side in (TRAIN_TYPEFACES, TEST_TYPEFACES):
        assert {family for family in families for name in side if name.startswith(family)} == set(families)


def test_typefaces_come_in_turn(monkeypatch):
    used = []
    real = module.render_glyph
    monkeypatch.setattr(module, "render_glyph", lambda *args: (used.append(args[1]), real(*args))[1])
    glyphs(len(TRAIN_TYPEFACES), len(TEST_TYPEFACES), classes=["digit 7"])
    assert set(used[: len(TRAIN_TYPEFACES)]) == set(TRAIN_TYPEFACES)
    assert set(used[len(TRAIN_TYPEFACES) :]) == set(TEST_TYPEFACES)


def test_there_are_about_a_hundred_classes_with_look_alikes():
    assert len(GLYPHS) >= 100
    assert set(LOOK_ALIKES) <= set(GLYPHS)
    assert len(set(GLYPHS.values())) == len(GLYPHS)


def test_labels_differ_on_file_systems_that_ignore_case():
    assert len({label.casefold() for label in GLYPHS}) == len(GLYPHS)
    assert all(label == label.strip() and label.replace(" ", "").isalnum() and label.isascii() for label in GLYPHS)


@pytest.mark.parametrize("typeface", TYPEFACES)
def test_every_character_has_a_glyph_of_its_own(typeface):
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{typeface}.ttf"
    indices = [FT2Font(str(path)).get_char_index(ord(character)) for character in GLYPHS.values()]
    assert 0 not in indices  # the box that stands for a missing character
    assert len(set(indices)) == len(GLYPHS)


@pytest.mark.parametrize("typeface", TYPEFACES)
def test_no_character_is_drawn_as_the_box_for_missing_ones(typeface, monkeypatch):
    monkeypatch.setitem(GLYPHS, "unassigned", "\U0010fffe")
    box = clean_glyph("unassigned", typeface, 48)
    drawn = [clean_glyph(label, typeface, 48) for label in GLYPHS if label != "unassigned"]
    assert not any(np.array_equal(glyph, box) for glyph in drawn)


def test_every_glyph_has_ink_and_touches_no_edge(clean):
    assert (clean.reshape(*clean.shape[:2], -1) > 128).sum(2).min() > 20
    for edge in (clean[:, :, 0], clean[:, :, -1], clean[:, :, :, 0], clean[:, :, :, -1]):
        assert not edge.any()


def test_no_two_classes_look_the_same_in_most_typefaces(clean):
    ink = clean.astype(np.int64)
    for one, other in itertools.combinations(range(len(GLYPHS)), 2):
        overlap = np.minimum(ink[one], ink[other]).sum((1, 2)) / np.maximum(ink[one], ink[other]).sum((1, 2))
        same = (overlap > 0.97).mean()
        assert same < 0.5, (list(GLYPHS)[one], list(GLYPHS)[other])


def test_capitals_are_taller_than_their_small_letters_in_every_typeface(clean):
    labels = list(GLYPHS)
    tall = {letter: clean[labels.index(f"capital {letter.upper()}")].any(2).sum(1) for letter in "cosvwxz"}
    for letter, height in tall.items():
        assert height.min() > 1.15 * clean[labels.index(f"small {letter}")].any(2).sum(1).max()


@pytest.mark.parametrize("size", [16, 64, 200])
def test_any_size_can_be_rendered(size):
    pixels = render_glyph("capital W", "DejaVuSans-Bold", 3, size)
    assert pixels.shape == (size, size, 3)
    assert pixels.dtype == np.uint8


def test_ink_stands_out_from_the_paper():
    for seed in range(40):
        pixels = render_glyph("capital M", "STIXGeneral", seed).mean(2)
        assert abs(np.percentile(pixels, 2) - np.percentile(pixels, 98)) > 40


def test_files_hold_the_pixels(tmp_path):
    write_glyphs(tmp_path / "new", 2, 1, 7, LOOK_ALIKES)
    train, test = glyphs(2, 1, 7, LOOK_ALIKES)
    files = sorted((tmp_path / "new").rglob("*.png"))
    assert len(files) == len(train) + len(test)
    for photo in train + test:
        _, split, label, number = photo.name.split("/")
        with Image.open(tmp_path / "new" / split / label / f"{int(number):05d}.png") as image:
            np.testing.assert_array_equal(np.asarray(image), photo.pixels)


def test_old_photos_are_not_mixed_with_new_ones(tmp_path):
    write_glyphs(tmp_path, 1, 0, classes=["digit 1"])
    with pytest.raises(DataError, match="delete it or choose another"):
        write_glyphs(tmp_path, 1, 1, classes=["digit 2"])
    assert not (tmp_path / "train" / "digit 2").exists()
    assert not (tmp_path / "test").exists()


def test_a_file_in_place_of_the_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(DataError, match="cannot be written there"):
        write_glyphs(tmp_path / "file", 1, 1, classes=["digit 2"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: glyphs(classes=["O"]), "'capital O'"),
        (lambda: glyphs(classes=["digit 1", "digit 1"]), "twice"),
        (lambda: glyphs(n_train=-1), "n_train=-1"),
        (lambda: render_glyph("digit 1", "Comic Sans", 0), "DejaVuSerif"),
        (lambda: render_glyph("digit 1", "DejaVuSerif", -4), "seed=-4"),
        (lambda: render_glyph("digit 1", "DejaVuSerif", 0, size=3), "at least 16"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_help(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.fixture
def no_cached_fonts():
    """Fonts loaded earlier would hide that their files are gone."""
    module._font.cache_clear()
    module._em_of_capital.cache_clear()


@pytest.mark.usefixtures("no_cached_fonts")
def test_missing_typefaces_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path))
    with pytest.raises(DataError, match="reinstall"):
        render_glyph("digit 1", "DejaVuSerif", 0)


@pytest.mark.usefixtures("no_cached_fonts")
def test_missing_matplotlib_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="pip install matplotlib"):
        render_glyph("digit 1", "DejaVuSerif", 0)
