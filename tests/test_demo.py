"""The demonstration does what it says, here with a dozen classes."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from gddsg import GDDSG, demo
from gddsg.backbones import load_backbone
from gddsg.data.dataset import FeatureDataset
from gddsg.errors import DataError

CLASSES = (
    *("capital O", "capital Q", "digit 0", "small o", "capital I", "digit 1", "small l"),
    *("small b", "small d", "small p", "small q", "Greek small alpha"),
)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def text_of(console):
    return console.file.getvalue()


def accuracies(text, learner):
    (row,) = re.findall(rf"^{learner} +([\d. ]+)$", text, flags=re.MULTILINE)
    return [float(number) for number in row.split()]


def test_the_demonstration_keeps_its_promises(tmp_path, console):
    folder = tmp_path / "some" / "folder"
    demo.run(folder, console, CLASSES)
    text = text_of(console)
    assert "12 classes of glyphs: 192 images to learn, and 96 in other typefaces" in text
    assert "all class cards and all probabilities: equal bit by bit." in text
    for learner in ("simplecil", "ranpac", "gddsg", "gddsg, opposite order"):
        assert len(accuracies(text, learner)) == 6  # one after every task
    assert accuracies(text, "gddsg")[-1] == accuracies(text, "gddsg, opposite order")[-1] > 50
    model = GDDSG.load(folder / "glyphs.gddsg")
    assert model.classes_.tolist() == sorted(CLASSES)  # a copy forgets, the model does not
    assert model.backbone == load_backbone(device="cpu").identity
    taken_for = re.search(r"After forgetting capital O a copy takes its test images for (.*)\.", text)[1]
    assert {name for name, _ in re.findall(r"([\w ]+) \((\d+)\)", taken_for.replace(", ", ","))} < set(CLASSES[1:])
    assert (folder / "look-alikes.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "look-alikes.html").read_text(encoding="utf-8")
    assert all(label in page for label in CLASSES)
    images = sorted((folder / "some-glyphs").iterdir())
    assert {image.stem for image in images} <= set(CLASSES)
    for image in images:
        with Image.open(image) as opened:
            assert opened.size == (96, 96)
    assert len(re.findall(r"^  .*\.png: .* \(\d+ %\), (?:right|wrong)$", text, flags=re.MULTILINE)) == 8


def test_models_that_differ_are_called_different(console, monkeypatch):
    seeds = iter((0, 1))
    monkeypatch.setattr(demo, "GDDSG", lambda **settings: GDDSG(**settings, seed=next(seeds)))
    monkeypatch.setattr(demo, "_M", 32)
    rng, order = np.random.default_rng(0), np.array(list("abcdef"))
    X, y = rng.random((60, 8)).astype(np.float32), np.repeat(order, 10)
    data = FeatureDataset("noise", X, y, X, y, tuple(order))
    demo._compare(data, order, load_backbone(device="cpu"), console)
    assert "all class cards and all probabilities: DIFFERENT." in text_of(console)


def test_a_folder_that_cannot_be_made(tmp_path, console):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="Name another with --folder"):
        demo.run(tmp_path / "file" / "folder", console)
