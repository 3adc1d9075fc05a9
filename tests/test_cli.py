"""The command line, as a person at a terminal meets it; with the real backbone."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image, ImageEnhance
from typer.testing import CliRunner

from gddsg import GDDSG
from gddsg.backbones import load_backbone
from gddsg.cli import app
from gddsg.data.glyphs import write_glyphs

if os.name == "posix":
    import resource

CLASSES = ("digit 0", "digit 7", "capital A", "small w")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def glyph_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glyphs")
    write_glyphs(folder, n_train=16, n_test=3, classes=CLASSES)
    return folder


@pytest.fixture(scope="module")
def learnt(glyph_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.gddsg"
    run("learn", path, glyph_folder, "--projection-dim", 200)
    return path


@pytest.fixture
def model(learnt, tmp_path):
    path = tmp_path / "copy.gddsg"
    path.write_bytes(learnt.read_bytes())
    return path


def light(*arguments, cache=None):
    """A command where torch and the packages that come for learning are not installed."""
    program = """
import sys
from gddsg.cli.console import _LEFT_OUT
sys.modules.update(dict.fromkeys(_LEFT_OUT))
from gddsg.cli import app
app(sys.argv[1:])
"""
    environment = os.environ | ({} if cache is None else {"GDDSG_CACHE": str(cache)})
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_light_installation_predicts_and_says_what_it_lacks(learnt, glyph_folder, tmp_path):
    photo = tmp_path / "new.png"
    Image.new("RGB", (40, 40), "white").save(photo)
    answered = light("predict", learnt, photo, "--json")
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout)["predictions"][0]["name"].endswith("new.png"), answered.stderr
    sorted_photos = light("sort", learnt, tmp_path, "--into", tmp_path / "sorted")
    assert "Copied 1 photo" in sorted_photos.stdout, sorted_photos.stderr
    for command in (
        ("learn", tmp_path / "m.gddsg", glyph_folder),
        ("inspect", learnt),
        ("evaluate", learnt, glyph_folder),
    ):
        refused = light(*command)
        assert refused.returncode == 1
        assert re.match(r"Error: This needs \w+, which is not installed: .* pip install gddsg\n$", refused.stderr)
    (tmp_path / "empty").mkdir(mode=0o700)
    refused = light("predict", learnt, photo, cache=tmp_path / "empty")
    assert "has to be exported once, which takes torch" in refused.stderr
    assert "Copy the .network files" in refused.stderr


def test_near_copies_are_told_of_and_shown(glyph_folder, tmp_path):
    photos, path = tmp_path / "photos", tmp_path / "m.gddsg"
    for photo in (glyph_folder / "train").rglob("*.png"):
        image, folder = Image.open(photo).convert("RGB"), photos / photo.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / photo.name)
        for brightness in (0.94, 0.96, 0.98) if photo.parent.name == "digit 7" else ():
            ImageEnhance.Brightness(image).enhance(brightness).save(folder / f"{photo.stem} {brightness}.bmp")
    text = run("learn", path, photos, "--projection-dim", 200).output.replace("\n", " ")
    told = re.search(r"Near copies of other photos, .* weigh no more than one photo: .*digit 7 \((\d+)\)", text)
    copies = int(told[1])
    assert 40 <= copies <= 52
    shown = {row["label"]: row for row in json.loads(run("inspect", path, "--json").stdout)["class_table"]}
    assert (shown["digit 7"]["samples"], shown["digit 7"]["distinct"]) == (64, 64 - copies)
    assert all(shown[label]["distinct"] >= 12 for label in CLASSES)
    assert f"64 ({copies} near copies)" in run("inspect", path).output
    brighter = tmp_path / "brighter" / "digit 7"
    brighter.mkdir(parents=True)
    for photo in sorted((photos / "digit 7").glob("*.png"))[:8]:
        ImageEnhance.Brightness(Image.open(photo).convert("RGB")).enhance(0.97).save(brighter / photo.name)
    warning = run("evaluate", path, brighter.parent).stderr
    assert "The model has learnt all of these photos" in warning or "or near copies of them" in warning
    # in parts, the copies first
    parts = tmp_path / "parts.gddsg"
    for kind in ("*.bmp", "*.png"):
        for photo in sorted(photos.rglob(kind)):
            (tmp_path / kind[2:] / photo.parent.name).mkdir(parents=True, exist_ok=True)
            photo.rename(tmp_path / kind[2:] / photo.parent.name / photo.name)
        run("learn", parts, tmp_path / kind[2:], "--projection-dim", 200)
    again = {row["label"]: row for row in json.loads(run("inspect", parts, "--json").stdout)["class_table"]}
    assert {label: row["distinct"] for label, row in again.items()} == {k: row["distinct"] for k, row in shown.items()}


def test_help_names_every_command_and_shows_examples():
    text = run("--help").output
    commands = "learn predict sort evaluate inspect forget rename correct merge export features demo cache"
    for command in commands.split():
        assert command in text
        assert command == "cache" or len(run(command, "--help").output) > 100
    assert "Example" in text


@pytest.mark.parametrize("command", [["serve"], ["pretrain-vit"], ["bench", "run"]])
def test_help_names_the_extra_that_a_command_needs(command):
    assert re.search(r"install 'gddsg\[[a-z]+]'", " ".join(run(*command, "--help").output.replace("│", " ").split()))


def test_help_comes_without_loading_torch():
    script = "import sys, gddsg.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_version():
    assert run("--version").output.startswith("gddsg ")


def test_learn_says_what_it_did(glyph_folder, tmp_path):
    path = tmp_path / "m.gddsg"
    first = run("learn", path, glyph_folder / "train" / "digit 0", glyph_folder / "train" / "digit 7")
    assert first.output.splitlines() == [
        "Learnt 32 photos of 2 classes, 2 of them new.",
        "  New: digit 0 (16), digit 7 (16)",
    ]
    again = run("learn", path, glyph_folder, "--json")
    report = json.loads(again.stdout)
    assert report["learnt"] == {"capital A": 16, "small w": 16}
    assert report["known"] == 32
    assert "64 photos had been learnt before" in run("learn", path, glyph_folder).output


def test_learn_names_at_most_ten_classes_and_tells_new_ones_from_old_ones(glyph_folder, tmp_path):
    path, photos = tmp_path / "m.gddsg", sorted((glyph_folder / "train").rglob("*.png"))
    for i, photo in enumerate(photos[:26]):
        folder = tmp_path / ("first" if i < 13 else "second") / f"class {i % 13 + 10 * (i == 25)}"
        folder.mkdir(parents=True)
        (folder / photo.name).write_bytes(photo.read_bytes())
    first = run("learn", path, tmp_path / "first", "--projection-dim", 100).output
    assert "  New: class 0 (1), class 1 (1), class 10 (1), " in first
    assert first.endswith("class 6 (1) and 3 more\n")
    (tmp_path / "second" / "notes.txt").write_text("no photo")
    again = run("learn", path, tmp_path / "second")
    assert "Learnt 13 photos of 13 classes, 1 of them new." in again.stdout
    assert "  New: class 22 (1)\n  More of: class 0 (1)" in again.stdout
    assert "notes.txt: not an image file" in again.stderr


def test_learn_refuses_a_folder_one_level_too_high_and_names_the_right_one(glyph_folder, tmp_path):
    path = tmp_path / "m.gddsg"
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "glyphs").symlink_to(glyph_folder)
    message = run("learn", path, tmp_path / "outer", code=1).stderr
    assert f"'{tmp_path / 'outer'}' seems to be one level too high: it would make 'glyphs' a class" in message
    assert f"name '{tmp_path / 'outer' / 'glyphs'}' instead" in message
    assert not path.exists()


def test_predict_table_json_csv(learnt, glyph_folder):
    photo = glyph_folder / "test" / "small w" / "00000.png"
    assert "small w" in run("predict", learnt, photo).output
    (found,) = json.loads(run("predict", learnt, photo, "--json", "--top", 2).stdout)["predictions"]
    assert found["label"] == "small w"
    assert len(found["top"]) == 2
    rows = list(csv.reader(io.StringIO(run("predict", learnt, glyph_folder / "test", "--csv").stdout)))
    assert rows[0] == ["photo", "label", "probability", "novelty"]
    assert len(rows) == 13


def draw_rings(path):
    """A picture that is like no glyph."""
    distance = np.hypot(*np.mgrid[-48:48, -48:48])
    rings = np.stack([127 + 127 * np.sin(distance / width) for width in (2, 3, 5)], axis=2).astype(np.uint8)
    Image.fromarray(rings).save(path)


def test_predict_rejects_the_unknown(learnt, tmp_path, glyph_folder):
    draw_rings(tmp_path / "rings.png")
    (found,) = json.loads(run("predict", learnt, tmp_path / "rings.png", "--json", "--reject", 0.99).stdout)[
        "predictions"
    ]
    assert found["label"] == "unknown"
    assert "unknown" in run("predict", learnt, tmp_path / "rings.png", "--reject", 0.99).output
    known = json.loads(run("predict", learnt, glyph_folder / "train", "--json", "--reject", 0.99).stdout)["predictions"]
    assert sum(one["label"] != "unknown" for one in known) >= 60
    assert "expected the share" in run("predict", learnt, tmp_path / "rings.png", "--reject", 7, code=1).stderr


def test_sort_copies_photos_into_a_folder_a_class_and_may_be_repeated(learnt, glyph_folder, tmp_path):
    inbox, into = tmp_path / "inbox", tmp_path / "sorted"
    inbox.mkdir()
    for name in CLASSES:
        (inbox / f"{name}.png").write_bytes((glyph_folder / "train" / name / "00000.png").read_bytes())
    (inbox / "broken.png").write_bytes(b"broken")
    found = run("sort", learnt, inbox, "--into", into)
    assert "Copied 4 photos into" in found.stdout
    assert "broken.png: not an image of a known format" in found.stderr
    predicted = json.loads(run("predict", learnt, inbox, "--json").stdout)["predictions"]
    expected = {(one["label"], one["name"].rpartition("/")[2]) for one in predicted}
    assert {(path.parent.name, path.name) for path in into.rglob("*") if path.is_file()} == expected
    assert len(list(inbox.iterdir())) == 5
    assert "Copied 0 photos" in run("sort", learnt, inbox, "--into", into).stdout
    again = json.loads(run("sort", learnt, inbox, "--into", into, "--move", "--json").stdout)
    assert [one["there_before"] for one in again["photos"]] == [True] * 4
    assert [path.name for path in inbox.iterdir()] == ["broken.png"]
    assert len(list(into.rglob("*.png"))) == 4
    (inbox / "broken.png").unlink()
    assert "Moved 0 photos" in run("sort", learnt, inbox, "--into", into, "--move").stdout


def test_sort_puts_the_unknown_apart_and_no_name_of_a_class_leads_out(model, glyph_folder, tmp_path):
    run("rename", model, "small w", "../../x")
    inbox, into = tmp_path / "inbox", tmp_path / "sorted"
    inbox.mkdir()
    (inbox / "w.png").write_bytes((glyph_folder / "train" / "small w" / "00001.png").read_bytes())
    draw_rings(inbox / "rings.png")
    run("sort", model, inbox, "--into", into, "--reject", 0.99, "--move")
    assert (into / "unknown" / "rings.png").exists()
    (other,) = (folder for folder in into.iterdir() if folder.name != "unknown")
    assert [path.name for path in other.iterdir()] == ["w.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.gddsg", "inbox", "sorted"]
    message = run("sort", model, inbox, "--into", tmp_path / "copy.gddsg", code=1).stderr
    assert "cannot be made a folder for photos" in message


def test_evaluate(learnt, glyph_folder):
    text = run("evaluate", learnt, glyph_folder).output
    assert "Accuracy" in text
    found = json.loads(run("evaluate", learnt, glyph_folder, "--json").stdout)
    assert found["photos"] == 12
    assert found["accuracy"] == pytest.approx(np.mean([c["correct"] / c["photos"] for c in found["classes"]]))
    assert found["accuracy"] > 0.7


def test_evaluate_tells_photos_that_were_learnt_from_others(learnt, glyph_folder, tmp_path):
    assert "learnt" not in run("evaluate", learnt, glyph_folder).stderr
    everything = run("evaluate", learnt, glyph_folder / "train").stderr
    assert "The model has learnt all of these photos, so this says little about new ones." in everything
    both = tmp_path / "photos"
    for part in ("train", "test"):
        for photo in (glyph_folder / part).rglob("0000[01].png"):
            (both / photo.parent.name).mkdir(parents=True, exist_ok=True)
            (both / photo.parent.name / f"{part}-{photo.name}").write_bytes(photo.read_bytes())
    assert (
        "The model has learnt 8 of these photos, or near copies of them, which makes them too easy; on the other 8:"
        in run("evaluate", learnt, both).stderr
    )
    found = json.loads(run("evaluate", learnt, both, "--json").stdout)
    assert (found["photos"], found["learnt_photos"]) == (16, 8)
    correct = sum(one["correct"] for one in found["classes"])
    assert found["unseen_accuracy"] == pytest.approx((correct - found["learnt_correct"]) / 8)


def test_evaluate_cross_needs_no_test_photos_and_leaves_the_model_alone(learnt, glyph_folder, tmp_path):
    before = learnt.read_bytes(), learnt.stat().st_mtime_ns
    found = run("evaluate", learnt, "--cross", glyph_folder)
    assert "of 64 photos" in found.stdout  # those of train/
    assert "This is an estimate: five models" in found.stdout
    assert "four fifths of the photos" in found.stdout
    assert "were no possible answers" not in found.stdout
    assert "learnt all" not in found.stderr
    assert (learnt.read_bytes(), learnt.stat().st_mtime_ns) == before
    numbers = json.loads(run("evaluate", learnt, "--cross", glyph_folder, "--json").stdout)
    assert numbers["cross"] is True
    assert 0.6 < numbers["accuracy"] <= 1
    two = [glyph_folder / "train" / name for name in CLASSES[:2]]
    assert "2 classes of the model have no photos there" in run("evaluate", learnt, "--cross", *two).stdout
    for i, folder in enumerate(two):
        (tmp_path / "lonely" / folder.name).mkdir(parents=True)
        (tmp_path / "lonely" / folder.name / "1.png").write_bytes((folder / f"0000{i}.png").read_bytes())
    assert "No class has two different" in run("evaluate", learnt, "--cross", tmp_path / "lonely", code=1).stderr


def test_evaluate_html_shows_the_photos_that_are_wrong(learnt, glyph_folder, tmp_path):
    mixed, page = tmp_path / "mixed", tmp_path / "page.html"
    for truth, named in (("digit 0", "<b>digit 7"), ("small w", "small w")):
        (mixed / named).mkdir(parents=True)
        photo = glyph_folder / "train" / truth / "00000.png"
        (mixed / named / "1.png").write_bytes(photo.read_bytes())
    said = run("evaluate", learnt, mixed, "--html", page).stdout
    assert f"Photos to look at are in {page}" in said
    text = page.read_text()
    assert text.count("data:image/jpeg;base64,") == 1
    assert "&lt;b&gt;digit 7" in text
    assert "<b>digit 7" not in text
    assert "ends in .html" in run("evaluate", learnt, mixed, "--html", tmp_path / "x.png", code=1).stderr


def test_inspect(learnt, tmp_path):
    text = run("inspect", learnt).output
    assert "4 classes in" in text
    assert "efficientnet-lite0@" in text
    found = json.loads(run("inspect", learnt, "--json").stdout)
    assert [row["label"] for row in found["class_table"]] == sorted(CLASSES)
    assert all(row["samples"] == 16 for row in found["class_table"])
    for name, start in (("g.png", b"\x89PNG"), ("g.html", b"<!doctype html>")):
        run("inspect", learnt, "--graph", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert "neither" in run("inspect", learnt, "--graph", tmp_path / "g.pdf", code=2).stderr


def test_forget_rename_merge(model, glyph_folder, tmp_path):
    run("forget", model, "digit 0")
    run("rename", model, "small w", "double u [bold]")
    assert GDDSG.load(model).classes_.tolist() == ["capital A", "digit 7", "double u [bold]"]
    assert "double u [bold]" in run("inspect", model).output  # brackets in a name are no markup
    other = tmp_path / "other.gddsg"
    run("learn", other, glyph_folder / "train" / "digit 0", "--projection-dim", 200)
    merged = run("merge", model, other, "--into", tmp_path / "all.gddsg").output
    assert "knows 4 classes" in merged.replace("\n", "")
    assert "is not in this model" in run("forget", model, "wolf", code=1).stderr


def test_correct_moves_a_photo_to_another_class(model, glyph_folder, own_cache):
    photo, before = glyph_folder / "train" / "small w" / "00003.png", model.read_bytes()
    message = run("correct", model, photo, "digit 7", code=1).stderr
    assert "its other photos (15), and 15 cannot be found in the feature cache" in message
    assert "--photos FOLDER" in message
    assert model.read_bytes() == before
    said = run("correct", model, photo, "digit 7", "--photos", glyph_folder).output
    assert said == f"{photo} belongs to digit 7 now; small w was learnt again from 15 photos.\n"
    counts = {row["label"]: row["samples"] for row in json.loads(run("inspect", model, "--json").stdout)["class_table"]}
    assert counts == {"capital A": 16, "digit 0": 16, "digit 7": 17, "small w": 15}
    assert "already; nothing was changed" in run("correct", model, photo, "digit 7").output
    found = json.loads(run("correct", model, photo, "slash", "--photos", glyph_folder, "--json").stdout)
    assert found["new_class"] is True
    unknown = run("correct", model, glyph_folder / "test" / "small w" / "00000.png", "digit 7", code=1).stderr
    assert "has not learnt" in unknown


def test_export_runs_in_onnx_runtime_alone(learnt, glyph_folder, tmp_path):
    path = tmp_path / "m.onnx"
    assert "largest difference" in run("export", learnt, "--onnx", path).output
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    backbone = load_backbone(device="cpu")
    images = [Image.open(p).convert("RGB") for p in sorted((glyph_folder / "test").rglob("*.png"))]
    features = backbone.embed(np.stack([backbone.preprocess(image) for image in images]))
    found = session.run(None, {"features": features})[0]
    model = GDDSG.load(learnt)
    np.testing.assert_allclose(found, model.predict_proba(features), atol=1e-5)
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert [classes[i] for i in found.argmax(1)] == model.predict(features).tolist()


def test_export_of_photos_as_the_page_on_python_uses_it(learnt, glyph_folder, tmp_path, monkeypatch, capsys):
    """Its example names a photo, as large ones as cameras take; nothing of this package is imported by it."""
    said = run("export", learnt, "--onnx", tmp_path / "animals.onnx", "--photos").output
    assert "photos of 288 × 288 pixels to probabilities; largest difference" in said
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "onnxruntime" in code]
    assert "gddsg" not in example
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(CLASSES):
        glyph = Image.open(glyph_folder / "test" / name / "00001.png").convert("RGB").resize((400, 300 + 50 * i))
        glyph.save("garden.jpg", quality=95)
        exec(compile(example, "python.md", "exec"), {})
        label, probability = capsys.readouterr().out.split("\n")[0].rsplit(" ", 1)
        (found,) = json.loads(run("predict", learnt, "garden.jpg", "--json").stdout)["predictions"]
        assert label == found["label"]
        assert float(probability) == pytest.approx(found["probability"], abs=2e-3)


def test_export_of_photos_refuses_other_backbones_before_it_looks_for_them(tmp_path):
    features = np.random.default_rng(0).random((8, 12))
    for backbone, named in (("hf:nobody/nothing@0123456789abcdef", "hf:nobody/nothing"), (None, "unknown")):
        GDDSG(projection_dim=8, backbone=backbone).fit(features, [0, 1] * 4).save(tmp_path / "m.gddsg")
        message = run("export", tmp_path / "m.gddsg", "--onnx", tmp_path / "m.onnx", "--photos", code=1).stderr
        assert f"The backbone {named} cannot be exported together with the model" in message
        assert not (tmp_path / "m.onnx").exists()
        run("export", tmp_path / "m.gddsg", "--onnx", tmp_path / "m.onnx")
        (tmp_path / "m.onnx").unlink()


def test_a_model_of_several_layers(glyph_folder, tmp_path):
    model, photos = tmp_path / "m.gddsg", glyph_folder / "train"
    run("learn", model, photos, "--backbone", "efficientnet-lite0/layers2", "--projection-dim", 100)
    assert "efficientnet-lite0/layers2@" in run("inspect", model).output.replace("\n", "")
    assert json.loads(run("evaluate", model, glyph_folder, "--json").stdout)["accuracy"] > 0.7
    message = run("learn", model, photos, "--backbone", "efficientnet-lite0", code=1).stderr.replace("\n", " ")
    assert "was learnt with the backbone efficientnet-lite0/layers2, and efficientnet-lite0 was asked for" in message


def test_features_of_photos_are_what_the_benchmark_reads(glyph_folder, tmp_path):
    path = tmp_path / "glyphs.npz"
    said = run("features", glyph_folder, "--out", path).output
    assert "1280 features of each of 76 photos (64 for training, 12 for the test) of 4 classes" in said
    with np.load(path) as arrays:  # as a program of one's own reads it
        train, labels = arrays["train_features"], arrays["train_labels"]
        assert arrays["test_features"].shape == (12, 1280)
        assert arrays["classes"].tolist() == sorted(CLASSES)
    assert sorted(set(labels.tolist())) == sorted(CLASSES)
    assert GDDSG(projection_dim=100).fit(train, labels).score(train, labels) > 0.9
    records = tmp_path / "records.jsonl"
    arguments = ("--learner", "simplecil", "--tasks", 2, "--out", records, "--workers", 0)
    assert "simplecil" in run("bench", "run", "--features", path, *arguments).output
    found = json.loads(run("features", glyph_folder / "train", "--out", path, "--json").stdout)
    assert found["train"] + found["test"] == 64
    assert found["backbone"].startswith("efficientnet-lite0@")


def test_features_that_cannot_be_written_are_refused_before_the_work(glyph_folder, tmp_path):
    assert "add .npz" in run("features", glyph_folder, "--out", tmp_path / "x.csv", code=1).stderr
    assert "There is no folder" in run("features", glyph_folder, "--out", tmp_path / "no" / "x.npz", code=1).stderr
    lonely = tmp_path / "photos" / "capital A"
    lonely.mkdir(parents=True)
    photo = glyph_folder / "train" / "capital A" / "00000.png"
    (lonely / "1.png").write_bytes(photo.read_bytes())
    (lonely / "2.png").write_bytes(b"broken")
    message = run("features", lonely.parent, "--out", tmp_path / "x.npz", code=1).stderr
    assert "expected some of both" in message
    assert "2.png: not an image of a known format" in message
    assert not (tmp_path / "x.npz").exists()


def test_cache(own_cache, glyph_folder, tmp_path):
    run("learn", tmp_path / "m.gddsg", glyph_folder / "train" / "digit 0", "--projection-dim", 100)
    assert "16 vectors" in run("cache").output
    (size,) = json.loads(run("cache", "--json").stdout)["backbones"]
    assert size["vectors"] == 16
    assert "Deleted 16 vectors" in run("cache", "--clear").output
    assert "0 vectors" in run("cache").output


# What goes wrong.


def test_errors_are_one_message_and_exit_code_1(tmp_path, glyph_folder, learnt):
    for arguments, message in [
        (("predict", tmp_path / "none.gddsg", glyph_folder), "There is no model file"),
        (("learn", tmp_path / "m.gddsg", tmp_path / "nowhere"), "nowhere"),
        (("learn", learnt, glyph_folder, "--backbone", "vit-b16"), "vit-b16 was asked for"),
        (("learn", tmp_path / "m.gddsg", glyph_folder, "--backbone", "resnet9000"), "There is no backbone"),
        (("inspect", __file__), "some other kind of file"),
    ]:
        result = run(*arguments, code=1)
        assert result.stderr.startswith("Error: "), result.stderr
        assert message in result.stderr.replace("\n", " ")
        assert "Traceback" not in result.output


def test_skipped_files_are_counted_and_named(glyph_folder, tmp_path):
    folder = tmp_path / "photos"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
    for i, path in enumerate(sorted((glyph_folder / "train").rglob("*.png"))[:6]):
        (folder / "ab"[i % 2] / path.name).write_bytes(path.read_bytes())
    (folder / "a" / "broken.png").write_bytes(b"broken")
    result = run("learn", tmp_path / "m.gddsg", folder, "--projection-dim", 100)
    assert "Skipped 1 file" in result.stderr
    assert "broken.png: not an image" in result.stderr
    assert "Skipped" not in result.stdout
    strict = run("learn", tmp_path / "strict.gddsg", folder, "--strict", code=1)
    assert "broken.png" in strict.stderr
    assert not (tmp_path / "strict.gddsg").exists()


def test_heic_photos_say_how_they_can_be_read(learnt, tmp_path):
    """As typed where pillow-heif is not installed: Python finds a package of that name that cannot be imported."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "IMG_0001.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    (tmp_path / "hidden" / "pillow_heif").mkdir(parents=True)
    (tmp_path / "hidden" / "pillow_heif" / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path / "hidden"), *sys.path])
    command = [sys.executable, "-m", "gddsg", "predict", learnt, tmp_path / "inbox"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 1
    assert "IMG_0001.HEIC: HEIC images take another package: pip install 'gddsg[heif]'" in done.stderr


def test_piped_output_has_no_control_characters(learnt, glyph_folder):
    command = [sys.executable, "-m", "gddsg", "predict", learnt, glyph_folder / "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.posix
def test_an_interruption_changes_nothing(model, tmp_path, own_cache):
    folder = tmp_path / "many"
    write_glyphs(folder, n_train=40, n_test=0, classes=["digit 1", "digit 2", "digit 3", "digit 4", "digit 5"])
    before = model.read_bytes()
    command = [sys.executable, "-m", "gddsg", "learn", model, folder / "train"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )
    features = own_cache / "features-2.sqlite"
    deadline = time.monotonic() + 60
    while not features.exists() and time.monotonic() < deadline:  # from here on it is embedding, for a while
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Interrupted" in err
    assert "Traceback" not in err
    assert model.read_bytes() == before


@pytest.mark.posix
def test_a_disk_that_fills_leaves_the_old_model(model, glyph_folder, tmp_path, own_cache):
    """The system's limit on the size of files stands in for a full disk: writing fails in the middle."""
    folder = tmp_path / "new"
    write_glyphs(folder, n_train=4, n_test=0, classes=["digit 1"])
    before = model.read_bytes()
    command = [sys.executable, "-m", "gddsg", "learn", model, folder / "train"]
    limit = len(before) // 2
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1, done.stderr
    assert "Cannot write the model file" in done.stderr
    assert "unchanged" in done.stderr
    assert "Traceback" not in done.stderr
    assert model.read_bytes() == before
    assert not [path for path in model.parent.iterdir() if path.name.endswith(".tmp")]
