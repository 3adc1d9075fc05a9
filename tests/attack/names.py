"""Hostile names of classes and files, through every command that prints them."""

import csv
import io
import json
import os
import random
import tempfile
import unicodedata
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image
from tests.attack.counts import Counts
from tests.photos.tiny_backbone import Means
from typer.testing import CliRunner

from gddsg.cli import app
from gddsg.core.label import LONGEST_LABEL

_BATCH = 8  # classes a model
_PHOTOS = 2  # a class
_LONGEST = 255  # bytes of a file name
_PIECES = (
    *("w\\[/b]", "[/]", "[bold red]x[/bold red]", "[link=file:///etc/passwd]x[/link]", "\\[", "]", "[", "{task.id}"),
    *("\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]8;;http://a.b\x1b\\", "\x9b31m", "\x9d0;x\x9c", "\x1bc", "\x7f"),
    *("\rError: gone", "\nLearnt 9 photos", "\t", "\b\b\b", "\x0b\x0c", "\x85", "\x01\x02\x1f"),
    *("\u202ednuor", "\u2066x\u2069", "\u200f", "\u200bx", "\ufeff", "\u2028", "\u2029", "\u00ad", "\U000e0041"),
    *(
        ":smile:",
        ":boom:x:",
        "😀",
        "👩\u200d👩\u200d👧",
        "می\u200cخواهم",
        "日本語",
        "Z\u0351\u036b\u0343a\u0321",
        "ﷺ",
        "\ue000",
    ),
    *("-x", "--help", "--", "x..", "..x", "~", "$HOME", "`id`", "$(id)", "%s%n", "{}", "{0}", "*", "?", "|", "&", ";"),
    *(
        "'",
        '"',
        '"""',
        "a,b",
        "=1+1",
        "@x",
        "#",
        "\\",
        "\\n",
        "\\u202e",
        "\xa0",
        "null",
        "NaN",
        "unknown",
        "é",
        "e\u0301",
    ),
)
_TAME = "abc XYZ019"


def attack_names(n: int, seed: int) -> Counts:
    """Learn, inspect, predict, evaluate, rename and forget ``n`` classes with hostile names, as tables and as JSON.

    Failures are exceptions and exit codes other than ours, raw control characters in tables, JSON and messages, and
    names that did not come back exactly from ``--json`` or ``--csv``.
    """
    rng = random.Random(seed)
    names = [file_name(rng, str(number)) for number in range(n)]
    counts = Counts(tried=n)
    backbone = Means()
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, {"GDDSG_CACHE": str(Path(folder) / "cache")}),
        patch("gddsg.photos.model_backbone.load_backbone", lambda *_, **__: backbone),
    ):
        for start in range(0, n, _BATCH):
            _Batch(Path(folder) / str(start), names[start : start + _BATCH], rng, counts).run()
    return counts


def hostile_name(rng: random.Random) -> str:
    """A name that a class may have; no two are alike."""
    pieces = [rng.choice(_PIECES) if rng.random() < 0.8 else rng.choice(_TAME) for _ in range(rng.randint(1, 4))]
    tail = f"{rng.getrandbits(40):x}"
    return "".join(pieces * (40 if rng.random() < 0.15 else 1))[: LONGEST_LABEL - len(tail)] + tail


def file_name(rng: random.Random, ending: str) -> str:
    """A name that a folder or file may have, too; other endings give other names, in whatever case."""
    room = _LONGEST - len(ending.encode())
    name = hostile_name(rng).replace("/", "\u2215").encode()[:room].decode(errors="ignore")
    return ("_" + name[1:] if name.startswith(".") else name) + ending  # a point in front would hide it


class _Batch:
    """One model, from its first class to its last."""

    def __init__(self, folder: Path, names: list[str], rng: random.Random, counts: Counts) -> None:
        self.model, self.photos = folder / "m.gddsg", folder / "photos"
        self.names, self.rng, self.counts = names, rng, counts
        self.labels = {unicodedata.normalize("NFC", name).strip() for name in names}
        self.files = {str(file) for name in names for file in self._write_class(self.photos / name)}

    def run(self) -> None:
        self.call("learn", self.model, self.photos, "--projection-dim", 16)
        self.same(self.json("learn", self.model, self.photos)["known"], len(self.files))
        self.call("inspect", self.model)
        self.same(self.known_labels(), self.labels)
        self.predict()
        self.call("evaluate", self.model, self.photos)
        found = self.json("evaluate", self.model, self.photos)
        self.same({one["label"] for one in found["classes"]}, self.labels)
        for label in sorted(self.labels):
            self.rename(label)
        self.fail()
        *forgotten, _ = sorted(self.labels)
        for label in forgotten:
            self.call("forget", "--", self.model, label)
        self.same(self.known_labels(), self.labels - set(forgotten))

    def predict(self) -> None:
        self.call("predict", self.model, self.photos)
        found = self.json("predict", self.model, self.photos)["predictions"]
        self.same({one["name"] for one in found}, self.files)
        self.same({label for one in found for label, _ in one["top"]} - self.labels, set())
        text = self.call("predict", self.model, self.photos, "--csv", exact=True)
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        self.same([(row["photo"], row["label"]) for row in rows], [(one["name"], one["label"]) for one in found])

    def rename(self, label: str) -> None:
        new = hostile_name(self.rng)
        self.call("rename", "--", self.model, label, new)
        self.labels = {*self.labels - {label}, new}
        self.same(self.known_labels(), self.labels)

    def fail(self) -> None:
        """What is repeated in messages is printed no less carefully."""
        name = hostile_name(self.rng)
        self.call("forget", "--", self.model, name, code=1)
        self.call("predict", "--", self.model, self.photos / name, code=1)
        self.call("inspect", "--", self.photos / name, code=1)
        self.call("inspect", "--", self.model, name, code=2)
        self.call("inspect", self.model, "--graph", f"{name}.pdf", code=2)
        self.call("inspect", self.model, f"--{name}", code=2)
        self.call(name.strip("-"), code=2)

    def known_labels(self) -> set[str]:
        return {row["label"] for row in self.json("inspect", self.model)["class_table"]}

    def json(self, *arguments: object) -> object:
        return json.loads(self.call(*arguments, "--json"))

    def call(self, *arguments: object, code: int = 0, exact: bool = False) -> str:
        """What a command prints; whether as it should be is counted."""
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        self.counts.outcomes["commands"] += 1
        if result.exit_code != code or not isinstance(result.exception, SystemExit | None):
            self.counts.failures.append(f"{arguments[0]!r} ended with {result.exit_code}, {result.exception!r}")
        texts = [result.stderr_bytes.decode(), "" if exact else result.stdout_bytes.decode()]
        if any(_commands_a_terminal(one) for text in texts for one in text):
            self.counts.failures.append(f"{arguments[0]!r} printed control characters")
        return result.stdout_bytes.decode()

    def same(self, found: object, expected: object) -> None:
        if found != expected:
            self.counts.failures.append(f"{found!r} in place of {expected!r}")

    def _write_class(self, folder: Path) -> list[Path]:
        folder.mkdir(parents=True)
        centre = [self.rng.randrange(40, 216) for _ in range(3)]
        files = []
        for number in range(_PHOTOS):
            noise = np.random.default_rng(self.rng.getrandbits(32)).integers(-35, 36, (16, 16, 3))
            files.append(folder / file_name(self.rng, f"{number}.png"))
            Image.fromarray((np.array(centre) + noise).clip(0, 255).astype(np.uint8)).save(files[-1], format="png")
        return files


def _commands_a_terminal(character: str) -> bool:
    return character not in "\n\u200c\u200d" and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
