"""Exported networks in the cache folder, and the self-test of what was loaded."""

import os

import numpy as np
import pytest
import torch

from gddsg.backbones import load_backbone
from gddsg.backbones.kept_network import kept_session
from gddsg.backbones.self_test import built_in_picture, reference_features, require_right_features
from gddsg.errors import BackboneError
from gddsg.onnx_runtime import onnx_bytes

PROBE = np.linspace(-1, 1, 6, dtype=np.float32)[None]


class Tiny(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.layer = torch.nn.Linear(6, 4)

    def forward(self, images):
        return self.layer(images).relu() + 1


def exported(seed):
    return onnx_bytes(Tiny(seed), torch.zeros(1, 6), ("images", "features"), batches=False)


@pytest.fixture(scope="module")
def content():
    return exported(0)


def run(session):
    return session.run(None, {"images": PROBE})[0]


def no_check(session):
    pass


class Exporter:
    def __init__(self, content):
        self.content, self.times = content, 0

    def __call__(self):
        self.times += 1
        return self.content


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def kept_file(folder):
    (path,) = folder.iterdir()
    return path


def test_a_network_is_exported_once_and_kept_for_the_user_alone(folder, content):
    export = Exporter(content)
    first, second = (run(kept_session(folder, "tiny", export, no_check)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert export.times == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    assert kept_file(folder).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", [0, 31, 32, 200, -1])
def test_one_flipped_bit_is_noticed_and_the_network_exported_anew(folder, content, place):
    export = Exporter(content)
    expected = run(kept_session(folder, "tiny", export, no_check))
    whole = kept_file(folder).read_bytes()
    damaged = bytearray(whole)
    damaged[place] ^= 1
    kept_file(folder).write_bytes(damaged)
    np.testing.assert_array_equal(run(kept_session(folder, "tiny", export, no_check)), expected)
    assert export.times == 2
    assert kept_file(folder).read_bytes() == whole


@pytest.mark.parametrize("damaged", [b"", b"short", bytes(100_000)])
def test_what_is_no_network_is_exported_anew(folder, content, damaged):
    folder.mkdir()
    (folder / "tiny.network").write_bytes(damaged)
    export = Exporter(content)
    kept_session(folder, "tiny", export, no_check)
    assert export.times == 1


def test_a_file_under_another_name_is_not_taken(folder, content):
    kept_session(folder, "other", Exporter(exported(1)), no_check)
    kept_file(folder).rename(folder / "tiny.network")
    export = Exporter(content)
    kept_session(folder, "tiny", export, no_check)
    assert export.times == 1


def test_a_kept_network_that_fails_its_test_is_exported_anew(folder, content):
    kept_session(folder, "tiny", Exporter(exported(1)), no_check)  # whole, but wrong: as from a broken library
    right = run(kept_session(folder / "elsewhere", "tiny", Exporter(content), no_check))

    def check(session):
        if not np.array_equal(run(session), right):
            raise BackboneError("not the right one")

    np.testing.assert_array_equal(run(kept_session(folder, "tiny", Exporter(content), check)), right)
    with pytest.raises(BackboneError, match="not the right one"):
        kept_session(folder / "anew", "tiny", Exporter(exported(2)), check)
    assert not (folder / "anew").exists()  # what failed is not kept


def test_files_of_earlier_versions_are_removed(folder, content):
    folder.mkdir()
    old = [folder / f"efficientnet-lite{i}-0123456789abcdef.onnx" for i in range(2)]
    own = folder / "mine.onnx"
    for path in (*old, own):
        path.write_bytes(b"x")
    kept_session(folder, "tiny", Exporter(content), no_check)
    assert not any(path.exists() for path in old)
    assert own.exists()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files")
@pytest.mark.parametrize("fault", ["world-writable folder", "world-writable file", "somebody else's", "file"])
def test_nothing_is_taken_from_where_others_may_write(folder, content, fault):
    kept_session(folder, "tiny", Exporter(exported(1)), no_check)
    if fault == "world-writable folder":
        folder.chmod(0o777)
    elif fault == "world-writable file":
        kept_file(folder).chmod(0o666)
    elif fault == "file":
        kept_file(folder).unlink()
        folder.rmdir()
        folder.write_bytes(b"in the way")
    elif os.getuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        pytest.skip("only root can give a folder away")
    export = Exporter(content)
    expected = run(kept_session(folder.parent / "good", "tiny", Exporter(content), no_check))
    np.testing.assert_array_equal(run(kept_session(folder, "tiny", export, no_check)), expected)
    assert export.times == 1


def test_the_picture_and_its_features_are_what_they_were():
    picture = np.asarray(built_in_picture())
    assert picture.shape == (320, 320, 3)
    assert picture.sum(dtype=np.int64) == 30833824
    for name, size in [(f"efficientnet-lite{n}", size) for n, size in enumerate((224, 240, 260))] + [
        ("efficientnet-lite0", 288)
    ]:
        assert reference_features(name, size).shape == (1280,)
        assert (reference_features(name, size) >= 0).all()


@pytest.mark.parametrize("wrong", ["one weight", "nan", "shape"])
def test_a_backbone_that_computes_something_else_is_refused(wrong, tmp_path):
    backbone = load_backbone("efficientnet-lite0", device="cpu:0", folder=tmp_path)
    require_right_features(backbone, backbone._expected)
    module = backbone._module
    if wrong == "one weight":
        weight = module._blocks[3]._project_conv.weight.data.view(-1)
        weight[7] = -weight[7] * 2.0**20  # an exponent with a flipped bit
    elif wrong == "nan":
        module._bn1.bias.data[3] = float("nan")
    else:
        backbone._module = lambda images: module(images)[:, :7]
    with pytest.raises(BackboneError, match=r"does not work on this machine.*another --device"):
        require_right_features(backbone, backbone._expected)


def test_a_flipped_bit_in_the_real_network_changes_no_feature(own_cache):
    """As it was, this network loaded, and the accuracy fell from 100 % to 10 % without a word."""
    before = load_backbone("efficientnet-lite0", device="cpu")
    (path,) = own_cache.glob(f"*{before.fingerprint}.network")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3 | 3] ^= 0x40  # an exponent
    path.unlink()
    path.write_bytes(damaged)
    image = before.preprocess(built_in_picture())[None]
    after = load_backbone("efficientnet-lite0", device="cpu")
    np.testing.assert_array_equal(after.embed(image), before.embed(image))
    assert path.read_bytes() != damaged
