"""The commit of the code: of this project's own repository, and of no other that it happens to be in."""

import shutil
import subprocess

import pytest

from gddsg.bench.revision import code_revision

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def git(folder, *arguments):
    settings = (
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "init.defaultBranch=main",
    )
    found = subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def repository(folder):
    """A repository with one commit; its short name."""
    (folder / "src" / "gddsg" / "core").mkdir(parents=True)
    (folder / "src" / "gddsg" / "__init__.py").write_text("")
    (folder / "src" / "gddsg" / "core" / "model.py").write_text("")
    (folder / "README").write_text("")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "First")
    return git(folder, "rev-parse", "--short=12", "HEAD")


@pytest.fixture(autouse=True)
def no_variables_of_git(monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_a_checkout_has_its_commit(tmp_path):
    head = repository(tmp_path)
    assert code_revision(tmp_path / "src" / "gddsg") == head
    (tmp_path / "README").write_text("other words")
    assert code_revision(tmp_path / "src" / "gddsg") == head


@pytest.mark.parametrize("change", ["core/model.py", "new.py"])
def test_a_change_anywhere_in_the_package_is_marked(tmp_path, change):
    head = repository(tmp_path)
    (tmp_path / "src" / "gddsg" / change).write_text("x = 1")
    assert code_revision(tmp_path / "src" / "gddsg") == f"{head}+changes"


@pytest.mark.parametrize("place", ["env/lib/site-packages/gddsg", "lib/src/gddsg"])
def test_another_project_s_repository_is_not_ours(tmp_path, place):
    repository(tmp_path)
    installed = tmp_path / place
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert code_revision(installed) == ""


def test_a_copy_that_the_repository_does_not_hold_is_not_ours(tmp_path):
    repository(tmp_path)
    git(tmp_path, "rm", "-r", "--cached", "src")
    git(tmp_path, "commit", "-m", "Without it")
    assert code_revision(tmp_path / "src" / "gddsg") == ""


def test_variables_of_git_do_not_mislead(tmp_path, monkeypatch):
    (tmp_path / "ours").mkdir()
    (tmp_path / "other").mkdir()
    head = repository(tmp_path / "ours")
    git(tmp_path / "other", "init")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert code_revision(tmp_path / "ours" / "src" / "gddsg") == head


def test_a_command_that_a_repository_names_is_not_run(tmp_path):
    head = repository(tmp_path)
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path / 'obeyed'};")
    assert code_revision(tmp_path / "src" / "gddsg") == head
    assert not (tmp_path / "obeyed").exists()


def test_without_git_there_is_no_revision(tmp_path, monkeypatch):
    repository(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_revision(tmp_path / "src" / "gddsg") == ""
    assert code_revision(tmp_path / "nowhere") == ""
