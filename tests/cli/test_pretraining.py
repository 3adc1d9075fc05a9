"""``gddsg pretrain-vit``, as typed, with the real stem."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from gddsg.backbones import load_backbone
from gddsg.cli import app

TINY = ("--epochs", 2, "--blocks", 1, "--width", 64, "--batch-size", 16)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def message(*arguments, code=1):
    text = " ".join(run(*arguments, code=code).stderr.split())
    assert "Traceback" not in text
    return text


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for label, colour in (("a", 60), ("b", 190)):
        (folder / label).mkdir()
        for i in range(20):
            noise = np.random.default_rng(colour + i).integers(-60, 60, (12, 12, 3))
            Image.fromarray((colour + noise).clip(0, 255).astype(np.uint8)).save(folder / label / f"{i}.png")
    (folder / "b" / "broken.jpg").write_bytes(b"no photo")
    return folder


def test_from_photos_to_a_backbone(photos, tmp_path):
    out = tmp_path / "vit"
    result = run("pretrain-vit", photos, "--out", out, *TINY, "--about", "squares")
    assert "of 1 block, trained on 40 photos" in result.stdout
    assert f"hf:{out}" in result.stdout
    assert "Skipped 1 file" in result.stderr
    assert "broken.jpg" in result.stderr
    assert "epoch 2 of 2, step 6 of 6: loss " in result.stderr
    assert "photos/s" in result.stderr
    assert "photo 41 of 41" in result.stderr
    assert load_backbone(f"hf:{out}", "cpu").feature_dim == 64
    assert "name another, or say --overwrite" in message("pretrain-vit", photos, "--out", out, *TINY)
    again = run("pretrain-vit", photos, "--out", out, *TINY, "--overwrite", "--json")
    found = json.loads(again.stdout)
    assert (found["photos"], found["classes"], found["blocks"]) == (40, 2, 1)
    assert found["skipped"][0]["name"].endswith("broken.jpg")


def test_errors(photos, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "No photo was found" in message("pretrain-vit", empty, "--out", tmp_path / "vit")
    few = message("pretrain-vit", photos / "a", "--out", tmp_path / "vit")
    assert "20 photos to learn from; expected 32 at least" in few
    strict = message("pretrain-vit", photos, "--out", tmp_path / "vit", *TINY, "--strict")
    assert "1 photo cannot be read, the first of them" in strict
    assert "multiple of 64" in message("pretrain-vit", photos, "--out", tmp_path / "vit", "--width", 100)
    assert "torch finds no such device" in message(
        "pretrain-vit", photos, "--out", tmp_path / "vit", "--device", "moon"
    )
