"""Parquet files: images, or vectors of features, in one column, and labels in another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fsspec
import numpy as np

from gddsg.data.dataset import clean_label
from gddsg.data.photo import Photo
from gddsg.errors import DataError, MissingExtraError
from gddsg.scale.sources.pieces import DistantPhoto, FeatureRows, PhotoPiece, Rows, distant, file_key

IMAGE_COLUMNS = ("image", "img", "photo", "bytes", "jpg", "png")
FEATURE_COLUMNS = ("features", "feature", "embedding", "embeddings", "vector")
LABEL_COLUMNS = ("label", "labels", "class", "cls", "category", "fine_label")
"""Names that columns have, unless others are named."""


@dataclass(frozen=True)
class ParquetRows:
    """A range of a row group.

    Attributes
    ----------
    url, state : str
        The file, and how it is known again.
    group : int
        Number of the row group.
    start, stop : int
        Rows of it.
    column, label_column : str
        Where images or features are, and labels.
    """

    url: str
    state: str
    group: int
    start: int
    stop: int
    column: str
    label_column: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.url}, row group {self.group}, rows {self.start} to {self.stop - 1}"

    @property
    def key(self) -> str:
        """By which it is known again."""
        return f"parquet {self.state} {self.group} {self.start} {self.stop} {self.column} {self.label_column}"

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.stop - self.start

    def photos(self) -> Sequence[Photo]:
        """The photos, in memory."""
        values, labels = self._columns()
        contents = [one.get("bytes") if isinstance(one, dict) else one for one in values.to_pylist()]
        return [
            DistantPhoto(f"{self.url}#{self.group}.{row}", clean_label(label), content=content or b"")
            for row, (content, label) in enumerate(zip(contents, labels, strict=True), self.start)
        ]

    def listed(self, photos: Sequence[Photo]) -> PhotoPiece:
        """The piece itself, for photos in memory are no message."""
        return self

    def some(self, rows: Rows) -> tuple[PhotoPiece, Rows | None]:
        """The piece itself."""
        return self, rows

    def read(self) -> FeatureRows:
        """The features, and a label a row."""
        values, labels = self._columns()
        if values.null_count:
            raise DataError(f"{self.name}: {values.null_count} rows have no features. Drop them.")
        lengths = {len(one) for one in values.to_pylist()} if len(values) else set()
        if len(lengths) > 1:
            raise DataError(f"{self.name}: features of different widths, {sorted(lengths)[:5]}. Expected one width.")
        flat = values.combine_chunks().flatten()
        features = np.asarray(flat.to_numpy(zero_copy_only=False)).astype(np.float32)
        return features.reshape(len(labels), -1), labels

    def _columns(self) -> tuple[Any, list[str]]:
        values, labels = _row_group(self.url, self.state, self.group, self.column, self.label_column)
        wanted = labels[self.start : self.stop]
        if None in wanted:
            raise DataError(f"{self.name}: a row has no label in {self.label_column!r}. Label or drop such rows.")
        return values.slice(self.start, self.stop - self.start), [str(label) for label in wanted]


@lru_cache(maxsize=1)  # the ranges of a row group are most often asked for one after the other
def _row_group(url: str, state: str, group: int, column: str, label_column: str) -> tuple[Any, list[Any]]:
    with _opened(url) as file:
        table = file.read_row_group(group, columns=[column, label_column], use_threads=False)
        names, labels = _class_names(file.schema_arrow, label_column), table[label_column].to_pylist()
    if names is not None:
        labels = [label if label is None else names[label] for label in labels]
    return table[column], labels


def parquet_pieces(
    url: str, column: str | None, label_column: str | None, size: Callable[[bool], int]
) -> Iterator[tuple[bool, ParquetRows]]:
    """The ranges of a file, and whether they hold photos.

    Parameters
    ----------
    url : str
        The file.
    column, label_column : str or None
        Names of columns, where they are none of the usual ones.
    size : callable
        Rows of a range, given whether it holds photos.
    """
    state = file_key(url)
    with _opened(url) as file:
        schema = file.schema_arrow
        values = _column(
            url, schema.names, column, (*IMAGE_COLUMNS, *FEATURE_COLUMNS), "images or features", "--column"
        )
        labels = _column(url, schema.names, label_column, LABEL_COLUMNS, "labels", "--label-column")
        kind, rows = (
            _kind(url, schema.field(values)),
            [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)],
        )
    for group, n in enumerate(rows):
        for start in range(0, n, size(kind == "photos")):
            stop = min(start + size(kind == "photos"), n)
            yield kind == "photos", ParquetRows(url, state, group, start, stop, values, labels)


def _column(url: str, there: list[str], wanted: str | None, usual: tuple[str, ...], what: str, option: str) -> str:
    found = [name for name in ([wanted] if wanted is not None else usual) if name in there]
    if not found:
        asked = f"a column {wanted!r}" if wanted is not None else f"a column for {what} such as {', '.join(usual[:3])}"
        raise DataError(f"{url} has the columns {', '.join(map(repr, there))}; expected {asked}. Name it by {option}.")
    return found[0]


def _kind(url: str, field: Any) -> str:
    import pyarrow.types as types

    kind = field.type
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "photos"
    if types.is_struct(kind) and "bytes" in [kind.field(i).name for i in range(kind.num_fields)]:
        return "photos"
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)):
        return "features"
    raise DataError(
        f"{url} has {field.name!r} of type {kind}; expected bytes of images, or lists of numbers. Name another column "
        "by --column."
    )


def _class_names(schema: Any, label_column: str) -> list[str] | None:
    """The names that the library datasets keeps of whole numbers, if it wrote the file."""
    try:
        kept = json.loads((schema.metadata or {})[b"huggingface"])
        names = kept["info"]["features"][label_column]["names"]
    except (KeyError, ValueError, TypeError):
        return None
    return [str(name) for name in names]


@contextmanager
def _opened(url: str) -> Iterator[Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow. Install it with: pip install 'gddsg[ray]'") from error
    with distant(url):
        try:
            with fsspec.open(url, "rb") as file, pyarrow.parquet.ParquetFile(file) as opened:
                yield opened
        except pyarrow.ArrowException as error:
            raise DataError(f"{url} is damaged or no Parquet file ({error}). Copy or write it again.") from error
