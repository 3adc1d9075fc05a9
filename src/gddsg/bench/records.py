"""Files of records: one JSON object a line. Only whole lines count, so a kill costs at most the run under way."""

from __future__ import annotations

import errno
import json
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gddsg.bench.json_values import short
from gddsg.bench.record import Record, record_from_json, record_to_json
from gddsg.errors import DataError
from gddsg.files import replace_file, synchronise

_LONGEST_LINE = 2**28


def read_records(path: Path) -> list[Record]:
    """All records of a file; a last line that a kill has cut off is left out.

    Parameters
    ----------
    path : Path
        A file that ``gddsg bench run`` has written, of this version or an older one.

    Returns
    -------
    list of Record
        In the order of the lines.

    Raises
    ------
    DataError
        If the file cannot be read, or a line of it is no record.
    """
    try:
        lines = list(_lines(Path(path)))
    except (OSError, ValueError) as error:  # a ValueError: no file can be called that
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"The records {path} cannot be read ({reason}). Make them: gddsg bench run.") from error
    if lines and _is_cut_off(lines[-1]):
        lines.pop()
    return [_record(line, f"Line {number} of {path}") for number, line in enumerate(lines, start=1) if line.strip()]


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE + 1):
            if len(line) > _LONGEST_LINE:
                raise ValueError(f"a line of it is longer than {_LONGEST_LINE} bytes")
            yield line


def _is_cut_off(line: bytes) -> bool:
    """Whether a last line is what a kill or a power cut leaves of a record: its beginning, or zeros in place of it."""
    begins_like_one = line[:2] in (b"{", b'{"') or not line.strip(b"\0")
    if line.endswith(b"\n") or not begins_like_one:
        return False
    try:
        json.loads(line)
    except RecursionError:
        return False
    except ValueError:
        return True
    return False


def _record(line: bytes, where: str) -> Record:
    try:
        value: Any = json.loads(line.decode(), object_pairs_hook=_object)
    except RecursionError:  # its own trace would fill pages
        raise DataError(f"{where} is nested too deeply. Restore the file, or delete that line.") from None
    except ValueError as error:
        raise DataError(f"{where} is no JSON ({error}). Restore the file, or delete that line.") from error
    return record_from_json(value, where)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{short(twice)} is in one object more than once")
    return found


def append_record(path: Path, record: Record) -> None:
    """Add a line, and have it on the disk before going on.

    Parameters
    ----------
    path : Path
        The file.
    record : Record
        What to add.
    """
    with _written(path), Path(path).open("ab") as file:
        file.write(_line(record))
        file.flush()
        synchronise(file.fileno())


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace the file in one step.

    Parameters
    ----------
    path : Path
        The file.
    records : Iterable of Record
        All it is to hold.
    """
    with _written(path):
        replace_file(Path(path), b"".join(map(_line, records)))


def make_folder(path: Path) -> None:
    """Make the folder that the records are to be in, and see that they can be: better now than after hours of runs.

    Parameters
    ----------
    path : Path
        The file of the records.

    Raises
    ------
    DataError
        If the folder cannot be made or written to, or there is something else than a file.
    """
    path = Path(path)
    with _written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                raise OSError(errno.EINVAL, "it is a folder, device or pipe, not a plain file")
        with tempfile.TemporaryFile(dir=path.parent):
            pass


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """A full disk or a folder one may not write to is said in so many words; whole lines that are there stay."""
    try:
        yield
    except (OSError, ValueError) as error:  # a ValueError: no file can be called that
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"The records {path} cannot be written ({reason}). What is in them is kept; make room, or name "
            "another file with --out, and start again."
        ) from error


def _line(record: Record) -> bytes:
    values = record_to_json(record)
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
