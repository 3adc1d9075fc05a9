"""Fetch archives from their official addresses, resuming where a connection broke, and unpack them safely."""

from __future__ import annotations

import hashlib
import lzma
import re
import tarfile
import tempfile
import time
import urllib.parse
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gddsg.errors import DataError

if TYPE_CHECKING:  # what speaks to servers is imported by those who do: every command would have to wait for it
    import urllib.error

__all__ = ["Progress", "download", "extract"]

Progress = Callable[[int, int | None], None]
"""Told the bytes that are there and, if the server says so, the bytes there will be."""

_CHUNK = 1 << 20
_TIMEOUT = 30.0  # seconds of silence
_IDLE_ATTEMPTS = 3  # attempts in a row that bring nothing new; as long as something comes, it goes on
_PAUSE = 1.0  # seconds after the first idle attempt, twice as many after the second


class _CutError(Exception):
    """The transfer ended early or was refused for a moment; another attempt may help."""


class _StalePartError(Exception):
    """What is there cannot be continued; start from the beginning."""


def download(url: str, target: Path, md5: str | None = None, progress: Progress | None = None) -> Path:
    """Fetch ``url`` into the file ``target``, which appears only when it is complete and its checksum is right.

    Until then the bytes are in ``target.part``, and another call, even another day, continues there. A target that is
    there already is kept, unless its checksum is wrong.

    Parameters
    ----------
    url : str
        An address with http or https.
    target : Path
        The file to write; folders are made as needed.
    md5 : str or None
        The published checksum as hexadecimal digits, or None where none is published.
    progress : Progress or None
        Called after every piece.

    Raises
    ------
    DataError
        If the address cannot be reached, the checksum is wrong or the file cannot be written.
    """
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        raise DataError(f"The address {url!r} was given; expected one that begins with http:// or https://.")
    transfer = _Transfer(url, target, progress)
    try:
        if target.is_file() and _has_md5(target, md5):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        resumed = transfer.part.is_file()
        transfer.run()
        if resumed and not _has_md5(transfer.part, md5):  # the part was of another file: once more without it
            transfer.part.unlink()
            transfer.run()
        _refuse_wrong_md5(transfer, md5)
        transfer.part.replace(target)
    except OSError as error:
        raise DataError(
            f"{str(target)!r} cannot be written ({error.strerror or error}). Expected a folder you may write to, "
            "with room for the file; make room or choose another folder, then try again."
        ) from error
    return target


def extract(archive: Path, folder: Path) -> None:
    """Unpack a tar archive into a folder, all of it or nothing.

    Members that would land outside of the folder, devices and links that point outside are refused.
    """
    if not hasattr(tarfile, "data_filter"):
        raise DataError("Unpacking safely needs Python 3.11.4 or newer. Update Python, or unpack the archive by hand.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as temporary:
            with tarfile.open(archive, "r:*") as tar:
                tar.extractall(temporary, filter="data")
            _move(Path(temporary), folder)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise DataError(
            f"The archive {str(archive)!r} cannot be unpacked into {str(folder)!r} ({error}). Expected a complete "
            "tar archive and a folder with room; delete the archive and fetch it again if it is damaged."
        ) from error


@dataclass
class _Transfer:
    url: str
    target: Path
    progress: Progress | None

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    def run(self) -> None:
        """Fetch until the part is complete, or raise a :class:`DataError` when nothing new comes any more."""
        idle, most = 0, self._size()
        while True:
            try:
                return self._attempt()
            except _StalePartError:
                self.part.unlink()
                continue
            except _CutError as error:
                idle = 0 if self._size() > most else idle + 1
                most = max(most, self._size())
                if idle >= _IDLE_ATTEMPTS:
                    raise self.failure(str(error)) from error
                time.sleep(_PAUSE * idle)

    def failure(self, reason: str) -> DataError:
        """The error that says how to get the file by hand."""
        kept = f" {self._size()} bytes are kept; calling again continues there." if self._size() else ""
        return DataError(
            f"{self.url} could not be fetched ({reason}).{kept} Check the connection and try again, or fetch the "
            f"address by hand, for example with a browser, and put the file at {str(self.target)!r}."
        )

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _attempt(self) -> None:
        import http.client
        import urllib.error
        import urllib.request

        start = self._size()
        headers = {"User-Agent": "gddsg", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            answer = urllib.request.urlopen(urllib.request.Request(self.url, headers=headers), timeout=_TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            self._refused(error, start)
        except (OSError, http.client.HTTPException) as error:
            raise _cut(error) from error
        else:
            with answer:
                self._receive(answer, start)

    def _refused(self, error: urllib.error.HTTPError, start: int) -> None:
        """Judge a refusal; returning means that the part is complete."""
        if error.code == 416 and start:
            if error.headers.get("Content-Range", "").strip() == f"bytes */{start}":
                return
            raise _StalePartError from error
        reason = f"the server answers {error.code} {error.reason}"
        if error.code in {408, 429} or error.code >= 500:
            raise _CutError(reason) from error
        raise self.failure(reason) from error

    def _receive(self, answer: Any, start: int) -> None:
        """Write the body of an answer to the part."""
        total = _total(answer, start)
        done = start if answer.status == 206 else 0  # any other answer holds the whole file
        with self.part.open("ab" if done else "wb") as file:
            while piece := _piece(answer):
                file.write(piece)
                done += len(piece)
                if self.progress is not None:
                    self.progress(done, total)
        if total is not None and done != total:
            raise _CutError(f"the connection ended after {done} of {total} bytes")


def _piece(answer: Any) -> bytes:
    """The next bytes of an answer; a broken connection must not be taken for a disk that cannot be written."""
    import http.client

    try:
        return bytes(answer.read(_CHUNK))
    except (OSError, http.client.HTTPException) as error:
        raise _cut(error) from error


def _cut(error: Exception) -> _CutError:
    return _CutError(str(getattr(error, "reason", "") or error) or type(error).__name__)


def _total(answer: Any, start: int) -> int | None:
    """Size of the whole file, if the server says so."""
    if answer.status != 206:
        length = answer.headers.get("Content-Length", "")
        return int(length) if length.isdecimal() else None
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "").strip())
    if span is None or int(span[1]) != start:
        raise _StalePartError if start else _CutError("the server sends another part of the file than was asked for")
    return None if span[2] == "*" else int(span[2])


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _has_md5(path: Path, md5: str | None) -> bool:
    return md5 is None or _md5(path) == md5


def _refuse_wrong_md5(transfer: _Transfer, md5: str | None) -> None:
    if _has_md5(transfer.part, md5):
        return
    found = _md5(transfer.part)
    transfer.part.unlink()
    raise transfer.failure(f"its checksum is {found}, expected {md5}; what came was deleted")


def _move(source: Path, target: Path) -> None:
    """Move what is in one folder into another, file over file; folders that are on both sides are joined."""
    for child in source.iterdir():
        place = target / child.name
        if child.is_dir() and not child.is_symlink() and place.is_dir():
            _move(child, place)
        else:
            child.replace(place)
