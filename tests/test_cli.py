"""The command line, as a person at a terminal meets it; with the real backbone."""

import csv
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from typer.testing import CliRunner

from gddsg import GDDSG
from gddsg.backbones import load_backbone
from gddsg.cli import app
from gddsg.data.glyphs import write_glyphs

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


def test_help_names_every_command_and_shows_examples():
    text = run("--help").output
    for command in ("learn", "predict", "evaluate", "inspect", "forget", "rename", "merge", "export", "demo", "cache"):
        assert command in text
        assert command == "cache" or len(run(command, "--help").output) > 100
    assert "Example" in text


def test_help_comes_without_loading_torch():
    script = "import sys, gddsg.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_version():
    assert run("--version").output.startswith("gddsg ")


def test_learn_says_what_it_did(glyph_folder, tmp_path):
    path = tmp_path / "m.gddsg"
    first = run("learn", path, glyph_folder / "train" / "digit 0", glyph_folder / "train" / "digit 7")
    assert "Learnt 32 photos of 2 classes, 2 of them new." in first.output
    again = run("learn", path, glyph_folder, "--json")
    report = json.loads(again.stdout)
    assert report["learnt"] == {"capital A": 16, "small w": 16}
    assert report["known"] == 32
    assert "64 photos had been learnt before" in run("learn", path, glyph_folder).output


def test_predict_table_json_csv(learnt, glyph_folder):
    photo = glyph_folder / "test" / "small w" / "00000.png"
    assert "small w" in run("predict", learnt, photo).output
    (found,) = json.loads(run("predict", learnt, photo, "--json", "--top", 2).stdout)["predictions"]
    assert found["label"] == "small w"
    assert len(found["top"]) == 2
    rows = list(csv.reader(io.StringIO(run("predict", learnt, glyph_folder / "test", "--csv").stdout)))
    assert rows[0] == ["photo", "label", "probability", "novelty"]
    assert len(rows) == 13


def test_predict_rejects_the_unknown(learnt, tmp_path, glyph_folder):
    distance = np.hypot(*np.mgrid[-48:48, -48:48])
    rings = np.stack([127 + 127 * np.sin(distance / width) for width in (2, 3, 5)], axis=2).astype(np.uint8)
    Image.fromarray(rings).save(tmp_path / "rings.png")
    (found,) = json.loads(run("predict", learnt, tmp_path / "rings.png", "--json", "--reject", 0.99).stdout)[
        "predictions"
    ]
    assert found["label"] == "unknown"
    assert "unknown" in run("predict", learnt, tmp_path / "rings.png", "--reject", 0.99).output
    known = json.loads(run("predict", learnt, glyph_folder / "train", "--json", "--reject", 0.99).stdout)["predictions"]
    assert sum(one["label"] != "unknown" for one in known) >= 60
    assert "expected the share" in run("predict", learnt, tmp_path / "rings.png", "--reject", 7, code=1).stderr


def test_evaluate(learnt, glyph_folder):
    text = run("evaluate", learnt, glyph_folder).output
    assert "Accuracy" in text
    found = json.loads(run("evaluate", learnt, glyph_folder, "--json").stdout)
    assert found["photos"] == 12
    assert found["accuracy"] == pytest.approx(np.mean([c["correct"] / c["photos"] for c in found["classes"]]))
    assert found["accuracy"] > 0.7


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


def test_a_model_of_several_layers(glyph_folder, tmp_path):
    model, photos = tmp_path / "m.gddsg", glyph_folder / "train"
    run("learn", model, photos, "--backbone", "efficientnet-lite0/layers2", "--projection-dim", 100)
    assert "efficientnet-lite0/layers2@" in run("inspect", model).output.replace("\n", "")
    assert json.loads(run("evaluate", model, glyph_folder, "--json").stdout)["accuracy"] > 0.7
    message = run("learn", model, photos, "--backbone", "efficientnet-lite0", code=1).stderr.replace("\n", " ")
    assert "was learnt with the backbone efficientnet-lite0/layers2, and efficientnet-lite0 was asked for" in message


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


def test_piped_output_has_no_control_characters(learnt, glyph_folder):
    command = [sys.executable, "-m", "gddsg", "predict", learnt, glyph_folder / "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


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
