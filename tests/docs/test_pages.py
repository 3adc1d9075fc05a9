"""What the pages show can be typed: commands parse, Python compiles and runs, TOML is read, links lead somewhere."""

import ast
import posixpath
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from docs_site.links import OTHER_PAGES, is_elsewhere, targets
from PIL import Image
from pymdownx.slugs import slugify
from tiny_backbone import Means

from gddsg import GDDSG
from gddsg.backbones import FeatureCache
from gddsg.bench import experiment_from
from gddsg.bench.methods import learner_names
from gddsg.cli import app
from gddsg.photos import model_backbone

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "report.md"),
]
REPORT = ROOT / "docs/benchmark/report.md"
NEEDS_MORE = {  # what a block would need, by a word in it; such blocks are compiled, and their imports tried
    "onnxruntime": "an exported model: tests/test_cli.py runs it",
    "FeatureLearner": "a file of its own: tests/bench/test_own_learners_page.py runs it",
    "check_learner": "the file that tests/bench/test_own_learners_page.py makes",
    "vit-b16": "a hub",
    "hybrid-vit": "seconds, to load a transformer",
    "s3://": "a bucket",
}


def blocks(page, *languages):
    """Code blocks of a page in any of the languages."""
    found = re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [code for language, code in found if language in languages]


def named(pages):
    return [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages]


def commands(page, program):
    """Lines of shell blocks that begin with a program, without what comes after a comment sign."""
    for code in blocks(page, "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            for part in line.split(" #")[0].split(" && "):
                words = shlex.split(part)
                if words and words[0].removeprefix(".venv/bin/") == program:
                    yield words[1:]


def parse(command, name, words):
    """Have the command line take words as if they were typed, and carry nothing out."""
    context = command.make_context(name, list(words))
    if hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        inner_name, inner, rest = command.resolve_command(context, rest)
        parse(inner, inner_name, rest)


def test_there_are_pages_and_blocks():
    assert len(PAGES) > 25
    assert sum(len(blocks(page, "python")) for page in PAGES) > 12
    assert sum(1 for page in PAGES for _ in commands(page, "gddsg")) > 50


@pytest.mark.parametrize("page", named(PAGES))
def test_code_blocks_name_their_language(page):
    assert not blocks(page, "", "console", "bash", "shell") or page.name in {"README.md", "CONTRIBUTING.md"}


@pytest.mark.parametrize("page", named(page for page in PAGES if any(commands(page, "gddsg"))))
def test_commands_are_what_the_command_line_takes(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for words in commands(page, "gddsg"):
        parse(typer.main.get_command(app), "gddsg", words)


def test_a_command_that_is_not_there_is_found_out():
    with pytest.raises(Exception, match="teach"):
        parse(typer.main.get_command(app), "gddsg", ["teach", "animals.gddsg"])
    with pytest.raises(Exception, match="bester"):
        parse(typer.main.get_command(app), "gddsg", ["learn", "animals.gddsg", "photos/", "--quality", "bester"])


def test_every_command_is_on_the_page_of_commands():
    shown = {words[0] for words in commands(ROOT / "docs/command-line.md", "gddsg") if words}
    assert set(typer.main.get_command(app).commands) == shown


@pytest.mark.parametrize("page", named(PAGES))
def test_make_targets_and_extras_are_there(page):
    makefile, text = (ROOT / "Makefile").read_text(), page.read_text()
    known = set(re.findall(r"^([a-z][a-z -]*):.*##", makefile, re.MULTILINE))
    told = {target for words in commands(page, "make") for target in words[:1]} | set(
        re.findall(r"`make ([a-z-]+)", text)
    )
    assert told <= known
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for names in re.findall(r"gddsg\[([a-z,]+)\]", text) for extra in names.split(",")} <= set(extras)


@pytest.mark.parametrize("page", named(page for page in PAGES if blocks(page, "toml")))
def test_toml_is_read(page):
    for code in blocks(page, "toml"):
        table = tomllib.loads(code)
        if "project" in table:
            assert set(table["project"]["entry-points"]) == {"gddsg.learners"}
            continue
        methods = [one["method"] for one in table["learners"] if isinstance(one, dict)]
        assert {one for one in methods if ":" not in one} <= set(learner_names())
        known = [one for one in table["learners"] if isinstance(one, str) or ":" not in one["method"]]
        experiment_from("page", {"datasets": ["birds"], **table, "learners": known})


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the pages take for granted: photos in a folder, features, and names that are told in words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model_backbone, "load_backbone", lambda name, device=None: Means())
    monkeypatch.setattr("gddsg.backbones.load_backbone", lambda name, *others: Means())
    generator = np.random.default_rng(0)
    for place, label in enumerate(("fox", "owl")):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for k in range(12):
            pixels = (np.roll([200, 90, 30], place) + generator.integers(-25, 25, (24, 24, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{k}.png")
    Image.fromarray(pixels).save(tmp_path / "garden.jpg")
    X = np.concatenate([generator.normal(centre, 1, (20, 24)) for centre in np.eye(3, 24) * 9]).astype(np.float32)
    y = np.repeat(["dog", "fish", "wolf"], 20)
    other = GDDSG(projection_dim=2_000, rank=64, seed=0).partial_fit(-X[:20], ["cat"] * 20)
    with FeatureCache(tmp_path / "cache") as cache, Image.open("garden.jpg") as image:
        yield {
            **{"X": X, "y": y, "other": other, "image": image, "pixels": pixels, "cache": cache, "backbone": Means()},
            **{"features": X, "labels": y, "classes": ["dog", "fish"]},
        }


@pytest.mark.parametrize("page", named(page for page in PAGES if blocks(page, "python")))
def test_python_runs(page, names):
    import gddsg

    space = {name: getattr(gddsg, name) for name in ("GDDSG", "PaperGDDSG")} | names
    torch.manual_seed(0)
    for code in blocks(page, "python"):
        program = compile(code, page.name, "exec")
        if any(word in code for word in NEEDS_MORE):
            try_imports(code)
        else:
            exec(program, space)


def try_imports(code):
    """Have the names that a block imports from this package."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gddsg"):
            module = import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or import_module(f"{node.module}.{alias.name}")


def anchors(page):
    """Places on a page that a link can name."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [
        re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    ]
    slug = slugify(case="lower")
    return {slug(title, "-") for title in titles} | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", named([*PAGES, REPORT]))
def test_links_lead_to_files_and_places_in_the_repository(page):
    for target in targets(page.read_text()):
        path, _, anchor = target.partition("#")
        if is_elsewhere(target) and path:
            continue
        found = page.parent / path if path else page
        assert found.exists(), target
        assert ROOT in found.resolve().parents or found.resolve() == ROOT, target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), target


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    shown = set(re.findall(r": ([a-z/-]+\.md)$", menu, re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert pages == shown - {*OTHER_PAGES.values(), "reference/index.md"}


def test_the_start_page_leads_there_in_one_click():
    found = {posixpath.normpath(target) for target in targets((ROOT / "docs/index.md").read_text())}
    wanted = {"start.md#install", "start.md#first-model", "own-learners.md", "method.md#what-does-the-work"}
    assert wanted | {"reliability.md#promised"} <= found
