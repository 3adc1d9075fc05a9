"""Files are read up to a limit that no file gets around."""

import os

import pytest

from gddsg.data import reading
from gddsg.data.reading import open_plain, plain_size, read_plain


def test_a_file_that_grows_is_read_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "growing"
    path.write_bytes(b"a" * 100)
    as_it_was = path.stat()
    path.write_bytes(b"a" * 200_000)
    monkeypatch.setattr(os, "fstat", lambda _: as_it_was)
    assert len(read_plain(path, 300_000)) == 200_000
    with pytest.raises(OSError, match="grew beyond 150,000 bytes"):
        read_plain(path, 150_000)


def test_what_no_file_can_be_called_is_an_error_like_any_other(tmp_path):
    for ask in (plain_size, read_plain, open_plain):
        for name in ("a\0b", "x" * 5000, "missing"):
            with pytest.raises(OSError, match=r".") as error:
                ask(tmp_path / name, 10)
            assert error.value.strerror


def test_the_pieces_are_those_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_PIECE", 7)
    path = tmp_path / "file"
    for size in (0, 1, 6, 7, 8, 100):
        path.write_bytes(os.urandom(size))
        assert read_plain(path, 100) == path.read_bytes()


def test_an_open_file_is_a_plain_one_within_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    with open_plain(path, 5) as file:
        assert file.read(2) == b"12"
    for wrong, limit in ((path, 4), (tmp_path, 5)):
        with pytest.raises(OSError, match=r"at most 4|directory"):
            open_plain(wrong, limit)
