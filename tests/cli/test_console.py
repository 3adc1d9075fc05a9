"""How text is shown: names are data, whatever is in them."""

import errno
import io
import json
import math
import sys
import unicodedata

import numpy as np
import pytest
from PIL import Image
from tests.photos.tiny_backbone import Means
from typer.testing import CliRunner

from gddsg import GDDSG
from gddsg.cli import app
from gddsg.cli import console as module
from gddsg.cli.console import Screen, end_of, print_csv, print_json, table_width, visible
from gddsg.store import SharedModel

HOSTILE = "w\\[/b]:smile:\x1b]0;t\x07\x9b2J\r\n\u202e[red]"
SHOWN = "w\\[/b]:smile:\\x1b]0;t\\x07\\x9b2J\\r\\n\\u202e[red]"


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def save_model(path, names):
    features = np.random.default_rng(0).random((10 * len(names), 8)).astype(np.float32)
    GDDSG(projection_dim=16).fit(features, np.repeat(np.array(names), 10)).save(path)
    return path


def test_control_characters_are_made_visible():
    assert visible(HOSTILE) == SHOWN
    for number in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0xD800):
        assert visible(chr(number)).isprintable()
    assert visible("\U000e0041") == "\\U000e0041"


@pytest.mark.parametrize(
    "name", ["naïve", "日本語\u3000犬", "👩\u200d👩\u200d👧", "می\u200cخواهم", "[b]", "a\\nb", "\ue000"]
)
def test_what_commands_nothing_is_shown_as_it_is(name):
    assert visible(name) == name


def test_a_screen_shows_all_text_alike():
    screen = Screen()
    with screen.capture() as captured:
        screen.print(HOSTILE)
    assert captured.get() == SHOWN + "\n"


def test_inspect_and_rename(tmp_path):
    path = save_model(tmp_path / "m.gddsg", ["cat", HOSTILE])
    assert SHOWN in run("inspect", path).stdout
    labels = [row["label"] for row in json.loads(run("inspect", path, "--json").stdout)["class_table"]]
    assert labels == ["cat", HOSTILE]
    assert run("rename", path, HOSTILE, "[/]").stdout == f"{SHOWN} is now called [/].\n"
    assert run("forget", path, "[/]").stdout == "Forgot [/].\n"


def test_messages(tmp_path):
    path = save_model(tmp_path / "m.gddsg", ["cat"])
    for arguments, code in [
        (("inspect", tmp_path / HOSTILE), 1),
        (("forget", path, HOSTILE), 1),
        (("predict", tmp_path / HOSTILE, path), 1),
        (("inspect", path, HOSTILE), 2),
        (("inspect", path, "--" + HOSTILE), 2),
        (("inspect", path, "--graph", HOSTILE), 2),
        (("inspect", path, f"--graph={HOSTILE}"), 2),
        ((HOSTILE,), 2),
        (("--" + HOSTILE,), 2),
    ]:
        message = run(*arguments, code=code).stderr
        assert "\\u202e" in message
        assert not {unicodedata.category(one) for one in message.replace("\n", "")} & {"Cc", "Cf", "Cs"}


def test_a_line_feed_in_a_message_begins_no_message():
    with module.err.capture() as captured:
        module._print_error("No photo in x\nError: all is lost\n  y: not an image")
    assert captured.get() == "Error: No photo in x\n  Error: all is lost\n  y: not an image\n"


# Tables.


def test_a_table_is_as_wide_as_its_widest_cells():
    assert table_width(("a", "bc"), [("12345", "1"), ("1", "日本")]) == 5 + 2 + 4
    assert table_width(("label",), []) == 5
    assert table_width(("x",), [("\x1b",)]) == 4  # as it is shown


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("photos/a/1.jpg", "photos/a/1.jpg"),
        ("photos/ab/1.jpg", "photos/ab/1.jpg"),
        ("photos/abc/1.jpg", "…otos/abc/1.jpg"),
        ("日本語日本語日本語", "…語日本語日本語"),  # two columns each
    ],
)
def test_of_a_path_the_end_is_shown(text, end):
    assert end_of(text, 15) == end


def test_however_narrow_something_is_shown():
    assert end_of("0123456789abcdef", -5) == "…56789abcdef"


# Formats for programs.


def test_json_is_valid_and_exact(capsys):
    value = {"names": [HOSTILE, "naïve", "\udcff", "👩\u200d👧", "\U000e0041"], "numbers": (math.nan, -math.inf, 1.5)}
    print_json(value | {"nested": {"x": [math.inf]}})
    text = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\x7f", "\u202e", "\udcff", "\U000e0041"} & set(text)
    assert "naïve" in text
    found = json.loads(text, parse_constant=pytest.fail)
    assert found == {"names": value["names"], "numbers": [None, None, 1.5], "nested": {"x": [None]}}


def test_csv_is_exact_in_a_pipe_and_visible_on_a_terminal(monkeypatch):
    for is_terminal, expected in ((False, '"a\rb\x1b",=1+1\n'), (True, "a\\rb\\x1b,=1+1\n")):
        stream = io.StringIO(newline="")
        stream.isatty = lambda is_terminal=is_terminal: is_terminal
        monkeypatch.setattr(sys, "stdout", stream)
        print_csv([["a\rb\x1b", "=1+1"]])
        assert stream.getvalue() == expected


# Errors.


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "Permission denied", "x\x1b[2J"), OSError(28, "full")])
def test_trouble_with_files_is_one_message(tmp_path, monkeypatch, error):
    def fail(path):
        raise error

    monkeypatch.setattr("gddsg.store.read_model", fail)
    message = run("inspect", tmp_path, code=1).stderr
    named = "x\\x1b[2J: " if error.filename else ""
    assert message.startswith(f"Error: {named}{error.strerror}. Expected a place")
    assert message.count("\n") == 1


def test_a_bug_is_not_hidden(tmp_path, monkeypatch):
    monkeypatch.setattr("gddsg.store.read_model", lambda path: 1 / 0)
    result = CliRunner().invoke(app, ["inspect", str(tmp_path)])
    assert isinstance(result.exception, ZeroDivisionError)


# Sentences.


@pytest.fixture
def photos(tmp_path, monkeypatch, own_cache):
    backbone = Means()
    monkeypatch.setattr("gddsg.photos.model_backbone.load_backbone", lambda *_, **__: backbone)
    for name, colour in (("one", (250, 0, 0)), ("other", (0, 0, 250))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (16, 16), colour).save(tmp_path / "photos" / name / "0.png")
    return tmp_path / "photos"


def test_one_is_not_many(photos, tmp_path):
    model = tmp_path / "m.gddsg"
    run("learn", model, photos, "--projection-dim", 16)
    Image.new("RGB", (16, 16), (250, 9, 9)).save(photos / "other" / "1.png")
    assert "1 photo had been learnt before and was left out." in run("learn", model, photos / "one").stdout
    assert "taken for one: once" in run("evaluate", model, photos).stdout


def test_a_class_may_be_called_unknown_from_before(photos, tmp_path):
    """Its probability was left out, as that of photos which are rejected."""
    model = tmp_path / "m.gddsg"
    run("learn", model, photos, "--projection-dim", 16)
    SharedModel(model).change(lambda before: before.renamed("one", "unknown"))  # as earlier versions did
    _, row = run("predict", model, photos / "one" / "0.png").stdout.splitlines()
    assert row.split("unknown")[1].split()[1] == "%"
