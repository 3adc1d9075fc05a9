"""Commands as people type them, where they once misled; with a tiny network in a folder for a backbone."""

import csv
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import zlib
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from gddsg import GDDSG
from gddsg.cli import app
from gddsg.store import SharedModel, read_model

if os.name == "posix":
    import pty
    import resource

transformers = pytest.importorskip("transformers")

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def error(*arguments):
    """The one line that a command fails with."""
    text = run(*arguments, code=1).stderr
    assert text.startswith("Error: ")
    assert text.count("\n") == 1
    return text


def write_network(folder, seed):
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    settings = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def write_photos(folder, colours=COLOURS, n=4):
    for number, colour in enumerate(colours):
        (folder / colour).mkdir(parents=True)
        for i in range(n):
            noise = np.random.default_rng([number, i, n]).integers(-35, 36, (40, 40, 3))
            pixels = (np.array(COLOURS.get(colour, (90, 90, 90))) + noise).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / colour / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    write_network(folder / "net", seed=0)
    write_network(folder / "other", seed=1)
    return folder


@pytest.fixture
def home(networks, tmp_path, monkeypatch, own_cache):
    """Where a user is: a network, photos to learn and others, and a model of the former."""
    shutil.copytree(networks, tmp_path / "home", dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path / "home")
    write_photos(tmp_path / "home" / "photos")
    write_photos(tmp_path / "home" / "fresh", n=3)
    run("learn", "m.gddsg", "photos", "--backbone", "hf:net", "--projection-dim", 32)
    return tmp_path / "home"


@pytest.fixture
def hub(monkeypatch):
    """A hub that hangs up on every command in a process of its own; what comes is the list of those who called."""
    calls = []

    def hang_up():
        with suppress(OSError):  # that is how it ends
            while True:
                caller, _ = server.accept()
                calls.append(caller)
                caller.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        yield calls
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def typed(*arguments, **options):
    """A command in a process of its own."""
    command = [sys.executable, "-m", "gddsg", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def predictions(*arguments):
    return json.loads(run("predict", *arguments, "--json").stdout)["predictions"]


# A backbone in a folder.


def test_a_model_of_a_folder_opens_from_anywhere(home, tmp_path, monkeypatch):
    here = predictions("m.gddsg", "fresh/red/0.png")
    assert read_model("m.gddsg").settings.backbone.startswith(f"hf:{home / 'net'}@")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run("cache", "--clear")
    there = predictions("../home/m.gddsg", "../home/fresh/red/0.png")
    assert [one["top"] for one in there] == [one["top"] for one in here]
    run("learn", "../home/m.gddsg", "../home/fresh", "--backbone", "hf:../home/net")  # by whatever path


def test_a_folder_that_moved_is_named(home):
    before = predictions("m.gddsg", "fresh")
    (home / "net").rename(home / "moved")
    run("cache", "--clear")
    message = error("predict", "m.gddsg", "fresh")
    assert f"hf:{home / 'net'} could not be loaded: there is no such folder" in message
    assert "--backbone hf:FOLDER" in message
    assert predictions("m.gddsg", "fresh", "--backbone", "hf:moved") == before
    run("cache", "--clear")
    assert "Accuracy 100.0 %" in run("evaluate", "m.gddsg", "fresh", "--backbone", "hf:moved").stdout
    run("learn", "m.gddsg", "fresh", "--backbone", "hf:moved")  # which the model remembers
    run("cache", "--clear")
    assert len(predictions("m.gddsg", "fresh")) == 9


def test_a_folder_of_another_network_is_refused_though_all_features_are_in_the_cache(home):
    predictions("m.gddsg", "fresh")
    for command in ("predict", "evaluate", "learn"):
        message = error(command, "m.gddsg", "fresh", "--backbone", "hf:other")
        assert "other weights or preprocessing" in message
        assert f"hf:{home / 'other'} has" in message
    assert "hf:nowhere was asked for, which is no folder here" in error(
        "predict", "m.gddsg", "fresh", "--backbone", "hf:nowhere"
    )


def test_a_model_of_a_folder_by_its_name_alone_stays_of_use(home, tmp_path, monkeypatch):
    """Earlier versions kept the name as it was typed."""
    expected = predictions("m.gddsg", home / "fresh")

    def as_it_was(model):
        return model.of_backbone(f"hf:net@{model.settings.backbone.rpartition('@')[2]}")

    SharedModel("m.gddsg").change(as_it_was)
    assert predictions("m.gddsg", home / "fresh") == expected
    monkeypatch.chdir(tmp_path)
    run("cache", "--clear")
    refusal = error("predict", "home/m.gddsg", home / "fresh")  # here it may be a name on the hub
    assert "it has not been looked for" in refusal
    assert "name that: --backbone hf:FOLDER" in refusal
    assert predictions("home/m.gddsg", home / "fresh", "--backbone", "hf:home/net") == expected


def test_models_of_one_network_in_two_folders_merge(home):
    shutil.copytree("net", "copy")
    write_photos(home / "more", {"grey": (90, 90, 90)})
    run("learn", "2.gddsg", "more", "--backbone", "hf:copy", "--projection-dim", 32)
    assert "knows 4 classes" in run("merge", "m.gddsg", "2.gddsg", "--into", "all.gddsg").stdout
    run("learn", "3.gddsg", "fresh/red", "--backbone", "hf:other", "--projection-dim", 32)
    assert "only if they have the same one" in error("merge", "m.gddsg", "3.gddsg", "--into", "none.gddsg")


def test_a_folder_called_layers_is_a_folder(home):
    shutil.copytree("net", "layers2")
    run("learn", "2.gddsg", "photos", "--backbone", "hf:layers2/", "--projection-dim", 32)
    assert len(predictions("2.gddsg", "fresh")) == 9


@pytest.mark.skipif(os.name != "posix", reason="such names are those of POSIX")
def test_a_folder_that_no_model_can_name_is_refused_before_anything_is_learnt(home):
    shutil.copytree("net", "line\nfeed")
    os.chdir("line\nfeed")
    assert "which no model can keep" in error("learn", "2.gddsg", "../photos", "--backbone", "hf:.")
    assert not os.path.lexists("2.gddsg")


def test_the_hub_is_not_asked_for_a_folder(home, hub):
    run("cache", "--clear")
    done = typed("predict", "m.gddsg", "fresh")
    assert (done.returncode, done.stderr) == (0, "")  # nor is there any bar of a library
    (home / "net").rename(home / "moved")
    run("cache", "--clear")
    done = typed("predict", "m.gddsg", "fresh")
    assert done.returncode == 1
    assert "there is no such folder" in done.stderr
    assert hub == []


def test_a_hub_out_of_reach_is_one_line_after_one_try(home, hub):
    done = typed("learn", "new.gddsg", "photos", "--backbone", "vit-b16")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The backbone hf:google/vit-base-patch16-224-in21k could not be loaded (http")
    assert "cannot be reached" in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(hub) == 1


# What cannot be had.


@pytest.mark.parametrize("device", ["cuda:99", "nonsense", ""])
def test_a_device_that_is_not_there(home, device):
    for arguments in (("predict", "m.gddsg", "fresh"), ("evaluate", "m.gddsg", "fresh"), ("learn", "m.gddsg", "fresh")):
        message = error(*arguments, "--device", device)
        assert f"The device {device!r} was asked for, but torch finds no such device here" in message
        assert "name another: cpu" in message


def test_settings_of_an_existing_model(home):
    before = (home / "m.gddsg").read_bytes()
    message = error("learn", "m.gddsg", "fresh", "--projection-dim", 500)
    assert "m.gddsg was made with projection_dim=32, and projection_dim=500 was asked for" in message
    assert (home / "m.gddsg").read_bytes() == before
    run("learn", "m.gddsg", "fresh", "--projection-dim", 32)


def test_csv_and_json_at_once(home):
    result = run("predict", "m.gddsg", "fresh", "--csv", "--json", code=2)
    assert result.stdout == ""
    assert "--json and --csv exclude each other" in " ".join(result.stderr.split())


# Names of classes.


def test_a_folder_called_unknown(home):
    before = (home / "m.gddsg").read_bytes()
    (home / "fresh" / "red").rename(home / "fresh" / "unknown")
    message = error("learn", "m.gddsg", "fresh")
    assert "the name 'unknown', which is kept for photos that are like no class. Rename its folder" in message
    assert (home / "m.gddsg").read_bytes() == before
    run("evaluate", "m.gddsg", "fresh", "--reject", 0.9)  # strangers to be told from the others


@pytest.mark.parametrize(("label", "fault"), [("unknown", "the name 'unknown'"), (" ", "line 2: the label is empty")])
def test_a_list_with_a_name_that_no_class_can_have(home, label, fault):
    (home / "list.csv").write_text(f"path,label\nfresh/red/0.png,{label}\n")
    assert fault in error("learn", "m.gddsg", "list.csv")
    assert fault in error("learn", "new.gddsg", "list.csv", "--backbone", "hf:net")
    assert not (home / "new.gddsg").exists()


def test_a_folder_without_a_name(home):
    (home / "fresh" / "red").rename(home / "fresh" / " ")
    result = run("learn", "m.gddsg", "fresh")
    assert "a class needs a name; rename the folder" in result.stderr


@pytest.mark.parametrize("name", ["", "  ", "unknown"])
def test_renaming_to_what_no_class_can_be_called(home, name):
    message = error("rename", "m.gddsg", "red", name)
    assert "The class 'red' cannot be given" in message
    assert "Choose another name" in message
    assert list(read_model("m.gddsg").labels) == ["blue", "green", "red"]


@pytest.mark.parametrize("name", ["", "unknown"])
def test_a_model_that_has_such_a_class_stays_of_use(home, name):
    SharedModel("m.gddsg").change(lambda model: model.renamed("red", name))  # as earlier versions did
    assert {one["label"] for one in predictions("m.gddsg", "fresh/red")} == {name}
    (home / "fresh" / "red").rename(home / "fresh" / (name or "blank"))
    if name:
        run("learn", "m.gddsg", "fresh")  # more photos make it no worse
    run("rename", "m.gddsg", name, "red")
    assert list(read_model("m.gddsg").labels) == ["blue", "green", "red"]


def test_the_class_that_was_meant(home):
    for arguments in (("forget", "m.gddsg", "grene"), ("rename", "m.gddsg", "Green", "x")):
        message = error(*arguments)
        assert f"The class {arguments[2]!r} is not in this model. Did you mean 'green'?" in message
        assert "It has 3 classes: 'blue', 'green', 'red'." in message
    assert "Did you mean" not in error("forget", "m.gddsg", "wombat")


def test_of_many_classes_ten_are_listed(tmp_path):
    features = np.random.default_rng(0).random((80, 8)).astype(np.float32)
    GDDSG(projection_dim=8).fit(features, [f"c{n:02}" for n in range(40)] * 2).save(tmp_path / "m.gddsg")
    message = error("forget", tmp_path / "m.gddsg", "wombat")
    assert "It has 40 classes: 'c00', 'c01'" in message
    assert "'c09' and 30 more." in message


def test_of_many_confusions_ten_are_listed(home, tmp_path):
    names = [f"class {number:02}" for number in range(12)]
    write_photos(tmp_path / "many", names, n=1)
    result = run("evaluate", "m.gddsg", tmp_path / "many")
    assert "… and 2 more pairs (--json lists all)" in result.stdout


# The cache.


def test_a_cache_that_cannot_be_used_is_a_warning(home, monkeypatch):
    (home / "in-the-way").touch()
    monkeypatch.setenv("GDDSG_CACHE", str(home / "in-the-way"))
    for arguments in (("predict", "m.gddsg", "fresh"), ("evaluate", "m.gddsg", "fresh"), ("learn", "m.gddsg", "fresh")):
        result = run(*arguments, "--backbone", "hf:net")  # what was agreed to is in the cache, too
        assert result.stderr.startswith("Features are not kept: ")
        assert "GDDSG_CACHE" in result.stderr
        assert result.stdout
    for arguments in (("cache",), ("cache", "--json"), ("cache", "--clear")):  # where it is all that is wanted
        assert "The cache does not work" in error(*arguments)


@pytest.mark.posix
def test_a_full_cache_is_a_warning(home, tmp_path):
    """The system's limit on the size of files stands in for a full disk."""
    environment = {**os.environ, "GDDSG_CACHE": str(tmp_path / "full")}
    done = typed(
        *("predict", "m.gddsg", "fresh", "--csv", "--backbone", "hf:net"),
        env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Features are not kept: ")
    assert len(done.stdout.splitlines()) == 10


def test_help_names_the_folder_of_the_cache():
    assert "GDDSG_CACHE" in run("--help").stdout
    assert {"GDDSG_CACHE", "GDDSG_CACHE_MB"} <= set(run("cache", "--help").stdout.replace(",", " ").split())


# Files that cannot be read.


@pytest.fixture
def broken(home):
    (home / "broken.png").write_bytes(b"nonsense")
    return "broken.png"


def test_json_lists_what_was_skipped(home, broken):
    found = json.loads(run("predict", "m.gddsg", "fresh/red/0.png", broken, "--json").stdout)
    assert [one["name"] for one in found["predictions"]] == [os.path.join("fresh", "red", "0.png")]  # noqa: PTH118
    assert found["skipped"] == [{"name": broken, "reason": "not an image of a known format"}]


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)])
def test_a_single_photo_that_cannot_be_read_is_a_failure(home, broken, form):
    result = run("predict", "m.gddsg", broken, *form, code=1)
    assert "Skipped 1 file:\n  broken.png: not an image of a known format" in result.stderr
    if form == ("--json",):
        assert json.loads(result.stdout)["predictions"] == []
    elif form == ("--csv",):
        assert len(list(csv.reader(io.StringIO(result.stdout)))) == 1
    else:
        assert result.stdout == ""
    run("predict", "m.gddsg", broken, "fresh/red/0.png", *form)


def test_one_file_is_not_files(home, broken):
    (home / broken).rename(home / "fresh" / "red" / broken)
    assert "Error: 1 file cannot be used:" in run("predict", "m.gddsg", "fresh", "--strict", code=1).stderr
    assert "since 1 file cannot be:" in run("learn", "m.gddsg", "fresh", "--strict", code=1).stderr
    (home / "fresh" / "blue" / broken).write_bytes(b"nonsense, too")
    assert "Error: 2 files cannot be used:" in run("evaluate", "m.gddsg", "fresh", "--strict", code=1).stderr


def test_a_photo_of_too_many_pixels_is_called_that(home):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 0, 0, 0, 0))
    (home / "large.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0")))
    message = run("predict", "m.gddsg", "large.png", code=1).stderr
    assert "large.png: too many pixels (400,000,000), at most 178,956,970 are decoded; make a smaller copy" in message


# What is left behind, and what is shown.


def test_no_command_leaves_a_lock_file(home):
    photos, other = {path.name for path in home.iterdir()}, home / "2.gddsg"
    write_photos(home / "more", {"grey": (90, 90, 90)})
    run("learn", "m.gddsg", "fresh")
    run("learn", other, "more", "--backbone", "hf:net", "--projection-dim", 32)
    run("merge", "m.gddsg", other, "--into", "all.gddsg")
    run("rename", "m.gddsg", "red", "rouge")
    run("forget", "m.gddsg", "rouge")
    error("forget", "m.gddsg", "nobody")
    run("export", "m.gddsg", "--onnx", "m.onnx")
    run("inspect", "m.gddsg", "--graph", "m.html")
    assert {path.name for path in home.iterdir()} == photos | {"more", "2.gddsg", "all.gddsg", "m.onnx", "m.html"}


def on_a_terminal(columns, *arguments):
    """What a command shows on a terminal of so many columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS=str(columns), NO_COLOR="1", TERM="dumb")
        os.execv(sys.executable, [sys.executable, "-m", "gddsg", *map(str, arguments)])
    shown = b""
    with open(terminal, "rb", buffering=0) as screen, suppress(OSError):  # noqa: PTH123  # a descriptor
        while more := screen.read(1000):
            shown += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    return shown.decode().replace("\r", "").splitlines()


@pytest.mark.skipif(os.name != "posix", reason="a terminal is made as POSIX has it")
def test_predictions_on_80_columns(home):
    """Long names are whole, paths begin with a sign that they do not, and no cell is broken into lines."""
    for colour in COLOURS:
        run("rename", "m.gddsg", colour, f"{colour} from a very long list of colours")
    folder = home / "fresh" / "a-folder-with-a-long-name" / "in-another-one"
    folder.mkdir(parents=True)
    shutil.copy("fresh/red/0.png", folder / "photo.png")
    shown = on_a_terminal(80, "predict", "m.gddsg", folder)
    heading = next(k for k, line in enumerate(shown) if line.split() == ["photo", "label", "probability"])
    first, *others = shown[heading + 1 : heading + 4]
    assert all(len(line) <= 80 for line in shown[heading:])
    assert first.startswith("…")
    assert "/photo.png  red from a very long list of colours" in first
    assert {line.strip().rpartition("  ")[0].strip() for line in others} == {
        "green from a very long list of colours",
        "blue from a very long list of colours",
    }
    heading, row = run("predict", "m.gddsg", folder).stdout.splitlines()  # in a pipe there is room for all
    assert heading.split() == ["photo", "label", "probability", "others"]
    assert row.startswith(str(folder / "photo.png"))


def test_the_bar_says_what_comes_before_and_after_embedding(home, monkeypatch):
    told = []

    @contextmanager
    def bar(what):
        told.append((what, None))
        yield lambda done, total, now: told.append((now, total))

    monkeypatch.setattr("gddsg.cli.common.progress_bar", bar)
    write_photos(home / "more", {"yellow": ()}, n=2)
    run("learn", "m.gddsg", "more")
    run("predict", "m.gddsg", "fresh/red/0.png")
    before, after = ("Looking at the photos", None), [("Learning", None), ("Predicting", None)]
    assert told == [before, ("Embedding", 2), after[0], before, after[1]]


def test_a_photo_that_was_seen_before_needs_neither_torch_nor_a_network(home):
    run("predict", "m.gddsg", "fresh/red/0.png")
    program = """
import sys
from gddsg.cli import app
try:
    app(["predict", "m.gddsg", "fresh/red/0.png", "--csv"])
finally:
    print(sorted({"torch", "sklearn", "scipy", "transformers"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=home, check=False)
    _heading, row, imported = done.stdout.splitlines()
    assert row.startswith("fresh/red/0.png,red,")
    assert imported == "[]"
