"""Files of records: one JSON object a line. Only whole lines count, so a kill costs at most the run under way."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gddsg.bench.record import Record, record_from_json, record_to_json
from gddsg.errors import DataError
from gddsg.files import replace_file


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
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"The records {path} cannot be read ({error.strerror}). Make them: gddsg bench run.") from error
    if not _is_whole(lines[-1]):  # empty where the file ends with a whole line
        lines.pop()
    return [_record(line, f"Line {number} of {path}") for number, line in enumerate(lines, start=1) if line.strip()]


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _record(line: bytes, where: str) -> Record:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where} is no JSON ({error}). Restore the file, or delete that line.") from error
    return record_from_json(value, where)


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
        os.fsync(file.fileno())


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
    """Make the folder that the records are to be in.

    Parameters
    ----------
    path : Path
        The file of the records.
    """
    with _written(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """A full disk or a folder one may not write to is said in so many words; whole lines that are there stay."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"The records {path} cannot be written ({error.strerror}). What is in them is kept; make room, or name "
            "another file with --out, and start again."
        ) from error


def _line(record: Record) -> bytes:
    values = record_to_json(record)
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
