"""What belongs to the project besides its code: versions, workflows, templates, and what an import brings along."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.install import links, release

import gddsg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HEAVY = {"torch", "onnxruntime", "onnx", "sklearn", "scipy", "matplotlib", "numpy", "PIL", "networkx", "transformers"}


def test_an_import_brings_nothing_heavy_along():
    code = "import sys, gddsg; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_the_version_stands_in_one_place():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert release.code_version() == release.cited_version() == gddsg.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", gddsg.__version__)


def test_a_tag_of_another_version_is_not_released():
    assert any("The tag is v9.9.9" in line for line in release.trouble("v9.9.9"))


def test_a_version_without_its_section_in_the_changelog_is_not_released(monkeypatch):
    monkeypatch.setattr(release, "_text", {
        "CHANGELOG.md": "## [Unreleased]\n",
        "CITATION.cff": "version: 1.0.0\n",
        "src/gddsg/__init__.py": '__version__ = "1.0.0"\n',
    }.__getitem__)  # fmt: skip
    (only,) = release.trouble("v1.0.0")
    assert "no section" in only
    monkeypatch.setattr(release, "released_versions", lambda: ["1.0.0"])
    assert not release.trouble("v1.0.0")


def test_links_of_the_readme_lead_to_the_repository_on_pypi():
    page = links.absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), "https://host/o/n", "v1")
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert targets
    assert all(re.match(r"https?://", target) for target in targets), targets
    assert "](https://host/o/n/raw/v1/docs/look-alikes.png)" in page
    assert "](https://host/o/n/blob/v1/CONTRIBUTING.md)" in page


@pytest.mark.parametrize("link", ["[a](https://x/y)", "[a](#here)", "[a](mailto:nobody)", "`[tool](x y`", "[a][b]"])
def test_other_links_stay(link):
    assert links.absolute_links(link, "https://host/o/n", "v1") == link


def test_every_python_that_is_tested_is_claimed_and_the_other_way_round():
    text = next(path for path in WORKFLOWS if path.stem == "tests").read_text(encoding="utf-8")
    tested = re.findall(r'"(3\.\d+)"', re.findall(r"python: \[(.*)\]", text)[0])
    claimed = [one.rsplit(" ", 1)[1] for one in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert tested == claimed
    assert PROJECT["project"]["requires-python"] == f">={claimed[0]}"


def test_every_extra_has_one_use():
    uses = {path.stem for path in (ROOT / "tests" / "install" / "uses").glob("*.py")}
    assert uses == set(PROJECT["project"]["optional-dependencies"]) - {"dev", "docs"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_do_little_and_name_versions_of_what_they_use(path):
    yaml = pytest.importorskip("yaml")
    flow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert flow["permissions"] == {"contents": "read"}
    assert "concurrency" in flow
    for job in flow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        assert set(job.get("permissions", {})) <= {"pages", "id-token"}
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"]), step["uses"]
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_hooks_are_the_linters_of_make():
    yaml = pytest.importorskip("yaml")
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    called = {" ".join(hook["entry"].removeprefix(".venv/bin/").split()[:2]).strip() for hook in hooks}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[0]
    wanted = {line.strip().removeprefix("$(BIN)/").removesuffix(" .") for line in recipe.splitlines()}
    assert {one.replace(" --check", "") for one in wanted} == called


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_templates_of_issues_can_be_read(path):
    yaml = pytest.importorskip("yaml")
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem != "config":
        assert {"name", "description", "body"} <= set(form)
        ids = [part["id"] for part in form["body"] if "id" in part]
        assert len(ids) == len(set(ids))
