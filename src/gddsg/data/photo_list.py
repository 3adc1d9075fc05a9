"""Lists of photos in CSV files: a path, a label and, if wanted, the part (training or test) on every line."""

from __future__ import annotations

import csv
import io
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gddsg.data.dataset import (
    ImageDataset,
    PhotoListing,
    Skipped,
    clean_label,
    of_known_classes,
    refuse_case_twins,
    stratified_split,
)
from gddsg.data.photo import Photo
from gddsg.data.reading import is_file, read_plain
from gddsg.errors import DataError
from gddsg.wording import counted

__all__ = ["listed_photos", "photo_list"]

_MAX_LIST_BYTES = 250_000_000
_DELIMITERS = (",", ";", "\t")
_FORMAT = "a header with the columns path and label, optionally split (train or test), separated by comma, ';' or tab"

StrPath = str | os.PathLike[str]
Part = Literal["train", "test"]


@dataclass(frozen=True)
class _Row:
    line: int
    path: Path
    label: str
    split: str

    def photo(self) -> Photo:
        return Photo.of_file(self.path, self.label)


def photo_list(path: StrPath, test_share: float = 0.2, seed: int = 0, *, case_sensitive: bool = False) -> ImageDataset:
    """The photos of a CSV file as a data set: parted by its column ``split``, else by a seeded hash.

    Parameters
    ----------
    path : path-like
        A CSV file in UTF-8 with the columns ``path`` and ``label``; paths are relative to the folder of the file.
    test_share, seed : float or int
        See :func:`~gddsg.data.dataset.stratified_split`; a list with a column ``split`` keeps it.
    case_sensitive : bool
        Allow classes whose names differ only in upper and lower case.

    Raises
    ------
    DataError
        If the file cannot be read, with the number of the line that is wrong. Photos that are missing are skipped.
    """
    source = Path(path)
    rows, skipped = _present(source, _rows(source, case_sensitive))
    if rows[0].split:
        train, test = (tuple(row.photo() for row in rows if row.split == part) for part in ("train", "test"))
        if not train or not test:
            raise DataError(f"{source}: expected photos for train and for test; one of the two has none.")
        test, strangers = of_known_classes(train, test)
        skipped += strangers
    else:
        train, test = stratified_split([row.photo() for row in rows], test_share, seed)
    return ImageDataset(source.stem, train, test, skipped)


def listed_photos(path: StrPath, part: Part = "train", *, case_sensitive: bool = False) -> PhotoListing:
    """The photos of one part of a CSV file, as :func:`photo_list` reads it; all of them if it has no ``split``."""
    source = Path(path)
    rows = _rows(source, case_sensitive)
    wanted = [row for row in rows if row.split in {part, ""}]
    if not wanted:
        raise DataError(f"{source}: no line has split={part}. Add such lines, or leave out the column split.")
    present, skipped = _present(source, wanted)
    return PhotoListing(tuple(row.photo() for row in present), skipped)


def _present(source: Path, rows: list[_Row]) -> tuple[list[_Row], tuple[Skipped, ...]]:
    present = [row for row in rows if is_file(row.path)]
    kept = set(present)
    skipped = tuple(Skipped(str(row.path), f"no such file (line {row.line})") for row in rows if row not in kept)
    if not present:
        raise DataError(
            f"{source}: it names {counted(len(rows), 'photo')}, and none exists; the first is expected at "
            f"{str(rows[0].path)!r}. "
            "Paths must be absolute or relative to the folder of the list."
        )
    return present, skipped


def _rows(source: Path, case_sensitive: bool) -> list[_Row]:
    """All rows of the list, each photo once."""
    (line, header), *lines = _lines(source)
    names = [name.strip().casefold() for name in header]
    for name in ("path", "label", "split"):
        if names.count(name) > 1:
            raise _bad(source, line, f"the column {name} appears twice; expected {_FORMAT}")
    rows: dict[Path, _Row] = {}
    for line, values in lines:
        row = _row(source, line, names, values)
        _refuse_contradiction(source, rows.setdefault(row.path, row), row)
    if not rows:
        raise DataError(f"{source}: the list has a header but no photo. Add a line with path and label for each photo.")
    refuse_case_twins((row.label for row in rows.values()), case_sensitive)
    return list(rows.values())


def _row(source: Path, line: int, names: list[str], values: list[str]) -> _Row:
    if len(values) != len(names):
        fault = f"{counted(len(values), 'value')}, but the header has {counted(len(names), 'column')}"
        raise _bad(source, line, f'{fault}; put values that contain the separator in "double quotes"')
    cells = dict(zip(names, values, strict=True))
    path, label = cells["path"].strip(), clean_label(cells["label"])
    if not path or not label:
        raise _bad(source, line, f"the {'label' if path else 'path'} is empty; fill it in or delete the line")
    split = cells.get("split", "").strip().casefold()
    if "split" in cells and split not in {"train", "test"}:
        raise _bad(source, line, f"split is {cells['split']!r}; expected train or test")
    return _Row(line, _locate(source.parent, path), label, split)


def _locate(folder: Path, name: str) -> Path:
    path = folder / name
    if "\\" in name and not is_file(path):  # a list written on Windows
        return folder / name.replace("\\", "/")
    return path


def _refuse_contradiction(source: Path, first: _Row, row: _Row) -> None:
    if (first.label, first.split) != (row.label, row.split):
        here, there = (f"{one.label!r} {one.split}".strip() for one in (row, first))
        fault = f"{row.path.name!r} is {here}, but line {first.line} says {there}"
        raise _bad(source, row.line, f"{fault}; keep one of the two lines")


def _lines(source: Path) -> list[tuple[int, list[str]]]:
    """Line numbers and values, header first, without blank lines."""
    text = _text(source)
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(source, first), strict=True)
    try:
        return [(reader.line_num, values) for values in reader if any(value.strip() for value in values)]
    except csv.Error as error:
        raise _bad(source, reader.line_num, f"not a line of a CSV file ({error}); check its quotes") from error


def _delimiter(source: Path, header: str) -> str:
    for delimiter in _DELIMITERS:
        with suppress(csv.Error):  # a cell longer than any path
            names = next(csv.reader([header], delimiter=delimiter))
            if {"path", "label"} <= {name.strip().casefold() for name in names}:
                return delimiter
    raise DataError(f"{source}: the list begins with {header[:80]!r}; expected {_FORMAT}. Add such a first line.")


def _text(source: Path) -> str:
    try:
        content = read_plain(source, _MAX_LIST_BYTES)
    except OSError as error:
        raise DataError(
            f"The list {str(source)!r} cannot be read ({error.strerror or error}). Check the path."
        ) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _bad(source, line, "not UTF-8 text; save the list again as 'CSV UTF-8'") from error


def _bad(source: Path, line: int, fault: str) -> DataError:
    return DataError(f"{source}, line {line}: {fault}.")
