"""Files that are replaced in one step."""

import os
import stat

import pytest

from gddsg.files import replace_file


def test_a_file_is_written_and_replaced(tmp_path):
    for content in (b"old", b"newer"):
        replace_file(tmp_path / "a", content)
        assert (tmp_path / "a").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_others_may_read_it_as_the_user_allows(tmp_path):
    replace_file(tmp_path / "a", b"x")
    (tmp_path / "b").write_bytes(b"x")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"}
    assert len(modes) == 1


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    replace_file(tmp_path / "a", b"old")

    def fail(self, target):
        raise OSError("no")

    monkeypatch.setattr(type(tmp_path), "replace", fail)
    with pytest.raises(OSError, match="no"):
        replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_long_name_is_no_trouble(tmp_path):
    name = "x" * os.pathconf(tmp_path, "PC_NAME_MAX")
    replace_file(tmp_path / name, b"x")
    assert (tmp_path / name).read_bytes() == b"x"
