"""The list of backbones that the user has agreed to."""

import pytest

from gddsg.backbones.trust import is_trusted, trust

NAME = "hf:somebody/network"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GDDSG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_embedded_needs_no_list(folder):
    assert is_trusted("efficientnet-lite0")
    trust("efficientnet-lite0")
    assert not folder.exists()


def test_a_name_is_remembered_and_no_other(folder):
    assert not is_trusted(NAME)
    trust(NAME)
    trust("timm:resnet18")
    assert is_trusted(NAME)
    assert is_trusted("timm:resnet18")
    assert not is_trusted(NAME + "2")
    assert not is_trusted("timm:somebody/network")
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [b"", b"\xff", b"{}", b'"hf:somebody/network"', b"[" * 100_000, b"[1, null]"])
def test_a_damaged_list_is_empty(folder, damage):
    trust(NAME)
    (path,) = folder.iterdir()
    path.write_bytes(damage)
    assert not is_trusted(NAME)
    trust(NAME)
    assert is_trusted(NAME)


@pytest.mark.posix
def test_a_list_that_others_may_write_is_not_read(folder):
    trust(NAME)
    folder.chmod(0o777)
    assert not is_trusted(NAME)
    trust(NAME)  # nowhere to remember it
    assert not is_trusted(NAME)


def test_a_folder_elsewhere_of_the_same_name_is_another_one(tmp_path, monkeypatch):
    for place in ("here", "there"):
        (tmp_path / place / "net").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    trust("hf:net")
    assert is_trusted("hf:net")
    monkeypatch.chdir(tmp_path / "there")
    assert not is_trusted("hf:net")


def test_who_agrees_to_a_folder_does_not_agree_to_what_the_hub_has_under_its_name(tmp_path, monkeypatch):
    (tmp_path / "net").mkdir()
    monkeypatch.chdir(tmp_path)
    trust("hf:net")
    (tmp_path / "net").rename(tmp_path / "moved")
    assert not is_trusted("hf:net")
    trust("hf:net")
    assert is_trusted("hf:net")


def test_a_folder_does_not_pass_for_a_trusted_name_on_the_hub(tmp_path, monkeypatch):
    trust(NAME)
    (tmp_path / "somebody" / "network").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert not is_trusted(NAME)


def test_a_name_that_is_not_trusted_is_not_looked_for(monkeypatch):
    monkeypatch.setattr("gddsg.backbones.folders.Path.is_dir", lambda path: pytest.fail("looked"))
    assert not is_trusted(r"hf:\\host\share")
