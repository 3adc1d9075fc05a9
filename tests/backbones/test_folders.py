"""What a name means as a folder."""

import pytest

from gddsg.backbones import load_backbone
from gddsg.backbones.folders import means_folder, with_whole_path
from gddsg.errors import BackboneError


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in ("net", "layers2", "home/net", "net@288", "a+hf:b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("net")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path.resolve()


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("hf:net", "net"),
        ("hf:./net/", "net"),
        ("hf:link", "net"),  # what it leads to is what was fingerprinted
        ("hf:~/net", "home/net"),
        ("hf:net/layers3", "net/layers3"),
        ("hf:layers2/", "layers2/"),
        ("hf:layers2//layers3", "layers2//layers3"),
        ("hf:net@288", "net@288"),  # of the folder net the size, not the folder net@288
        ("hf:net@288/", "net@288/"),
        ("hf:net@288//layers2", "net@288//layers2"),
    ],
)
def test_folders_get_their_whole_path(here, name, whole):
    assert with_whole_path(name) == f"hf:{here}/{whole}"
    assert with_whole_path(with_whole_path(name)) == with_whole_path(name)


@pytest.mark.parametrize(
    "name", ["hf:google/vit", "hf:file", "hf:", "timm:net", "net", "efficientnet-lite0", "hf:~nobody/x", "hf:nul\0byte"]
)
def test_other_names_stay_as_they_are(here, name):
    assert not means_folder(name)
    assert with_whole_path(name) == name


def test_a_path_that_no_model_can_keep_is_refused(here, monkeypatch):
    deep = here.joinpath(*["x" * 200] * 5)
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    with pytest.raises(BackboneError, match=r"which no model can keep.*1000 at most: rename the folder"):
        load_backbone("hf:.", device="cpu")
