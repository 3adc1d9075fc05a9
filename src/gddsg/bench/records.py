"""Records: one JSON object a line. Only whole lines count, so a kill costs at most the run that was under way."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gddsg.errors import DataError

Record = dict[str, Any]


def read_records(path: Path) -> list[Record]:
    """All records of a file; a last line that a kill has cut off is left out."""
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"The records {path} cannot be read ({error.strerror}). Make them: gddsg bench run.") from error
    unfinished = lines.pop()  # empty where the file ends with a whole line
    records = [_record(line, path, number) for number, line in enumerate(lines, start=1) if line.strip()]
    return records if not unfinished or not _is_whole(unfinished) else [*records, json.loads(unfinished)]


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _record(line: bytes, path: Path, number: int) -> Record:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise DataError(
            f"Line {number} of {path} is no JSON ({error}). Restore the file, or delete that line."
        ) from error
    if not isinstance(record, dict) or "run" not in record:
        raise DataError(f"Line {number} of {path} is no record of a run. Expected is what `gddsg bench run` wrote.")
    return record


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Add a line, and have it on the disk before going on."""
    with _written(path), Path(path).open("ab") as file:
        file.write(_line(record))
        file.flush()
        os.fsync(file.fileno())


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file in one step."""
    temporary = Path(path).with_name(f".{Path(path).name}.tmp")
    with _written(path):
        with temporary.open("wb") as file:
            file.writelines(_line(record) for record in records)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def make_folder(path: Path) -> None:
    """The folder that the records are to be in."""
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


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
