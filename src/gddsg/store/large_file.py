"""Model files of very many cards: one card is read when it is asked for, and changes are written in place.

Such a file has an index, a row with the digests of all others and a glance at every card. Beside the cards it keeps
what answers: the frame, and blocks of classes, each under a name that says of which cards it is. A row that is there
under the right name is never written again, so that a new class costs its own card, its block and the index, in one
transaction of SQLite: after a kill at any moment the file has all of it or nothing.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import WeakSet, WeakValueDictionary, finalize

import numpy as np

from gddsg.core.card_format import MALFORMED, Array, pack, unpack
from gddsg.core.class_block import ClassBlock
from gddsg.core.class_card import ClassCard
from gddsg.core.filed_card import FiledCard, Glance, Row
from gddsg.core.large_classes import Frame, LargeClasses
from gddsg.core.model import Model
from gddsg.errors import ModelFileError
from gddsg.files import locate, open_files_stay
from gddsg.store.row_names import card_name, is_card
from gddsg.store.rows_file import (
    DIGEST_KEY,
    INDEX,
    LARGE_VERSION,
    card_digest,
    check_before_opening,
    check_schema,
    checked_header,
    damaged,
    encode_header,
    file_state,
    file_version,
    insert_card,
    model_digest,
    sqlite_address,
    unwritable,
)

StrPath = str | PathLike[str]

_CACHE_KB = 32_000  # as many pages as say where each card is; SQLite's own 2 MB are read anew for every card
_COLUMNS = ("key", "count", "distinct", "thinned_key", "rooted", "sampled")


class LargeFile:
    """A model file with an index, open for reading, as it was read or last changed from here.

    Parameters
    ----------
    path : str or path-like
        The file.

    Attributes
    ----------
    path : Path
        The file, with links followed.
    header : dict of str to object
        As :func:`gddsg.store.rows_file.read_rows` gives it.
    digests : dict of str to bytes
        Of all rows but the index.
    """

    def __init__(self, path: StrPath) -> None:
        self.path, self._path = locate(path), path
        self._lock, self._closed = threading.Lock(), False
        self._cards: WeakValueDictionary[str, FiledCard] = WeakValueDictionary()
        self._state = file_state(path)
        with _sqlite_trouble(path):
            self._connection = _connect(check_before_opening(path))
            finalize(self, self._connection.close)  # a file that nobody knows of any more can be replaced again
            rows = self._connection.execute("BEGIN").execute("SELECT key, value FROM header").fetchall()
            index = self._fetch(INDEX)
            self._connection.execute("COMMIT")
        self.digests, self._glances = _read_index(path, index)
        everything = {**self.digests, INDEX: card_digest(INDEX, index)}
        self.header = checked_header(path, LARGE_VERSION, dict(rows), everything)
        with _listing:
            _open_files.add(self)

    def is_at(self, path: Path) -> bool:
        """Whether this is the file at a path, and nobody else has changed it."""
        return self._state is not None and file_state(path) == self._state

    def _fetch(self, name: str) -> bytes:
        found = self._connection.execute("SELECT body FROM cards WHERE name = ?", (name,)).fetchone()
        return found[0] if found and isinstance(found[0], bytes) else b""

    def read(self, name: str, digest: bytes) -> bytes:
        """The body of a row, which must have that digest."""
        with self._lock, _sqlite_trouble(self._path):
            body = b"" if self._closed else self._fetch(name)
        if card_digest(name, body) != digest:
            raise ModelFileError(
                f"The row {name!r} of {self._path} is not the one that was there when the file was opened: another "
                "process has changed it, or it is damaged. Read the file again."
            )
        return body

    def cards(self, rank: int) -> dict[str, FiledCard]:
        """All cards by the names of their rows, for a model of that rank."""
        found = {
            name: FiledCard(glance, rank, Row(self, name, self.digests[name])) for name, glance in self._glances.items()
        }
        self._cards.update(found)
        self._glances = {}  # the cards have them
        return found

    def pick_up(self, names: Iterable[str]) -> None:
        """Have cards carried whose rows are about to go: models that were read before answer as they did."""
        for name in names:
            card = self._cards.pop(name, None)
            if card is not None:
                card.pick_up()

    def give_way(self) -> None:
        """Close the file, which is about to be replaced; all its cards are in memory from now on."""
        self.pick_up(list(self._cards))
        self.digests = {}  # nothing is read any more
        with self._lock:
            self._closed = True
            self._connection.close()

    def lay_down(self, digests: Mapping[str, bytes], cards: Mapping[str, ClassCard]) -> None:
        """Know the rows that the file has now, and lay down those cards that were new to it."""
        self.digests, self._state = dict(digests), file_state(self._path)
        for name, card in cards.items():
            if isinstance(card, FiledCard):
                card.lay_down(Row(self, name, digests[name]))
                self._cards[name] = card

    # ---------------------------------------------------------------- what follows from the cards

    def frame(self, sample: tuple[ClassCard, ...], rooted: bool) -> Frame | None:
        """See :class:`gddsg.core.large_classes.Kept`."""
        body = self._derived(frame_name(sample, rooted))
        return None if body is None else Frame.from_bytes(body, sample)

    def block(self, frame: Frame, keys: tuple[int, ...]) -> ClassBlock | None:
        """See :class:`gddsg.core.large_classes.Kept`."""
        body = self._derived(block_name(frame, keys))
        return None if body is None else ClassBlock.from_bytes(body, len(keys), len(frame.metric.whitener))

    def _derived(self, name: str) -> bytes | None:
        digest = self.digests.get(name)
        return None if digest is None else self.read(name, digest)


_open_files: WeakSet[LargeFile] = WeakSet()
_listing = threading.Lock()


def give_way(path: Path) -> None:
    """Close a large file that is about to be replaced, where that takes it to be closed: on Windows.

    Parameters
    ----------
    path : Path
        The file.
    """
    if open_files_stay():
        with _listing:
            found = [one for one in _open_files if one.path == path]
        for file in found:
            file.give_way()


def open_large(path: StrPath) -> LargeFile | None:
    """The file, if it has an index."""
    return LargeFile(path) if file_version(path) == LARGE_VERSION else None


def frame_name(sample: tuple[ClassCard, ...], rooted: bool) -> str:
    """Name of the row that keeps the frame of a sample of cards."""
    return f"gddsg:frame:{_hash([int(rooted), *(card.key for card in sample)])}"


def block_name(frame: Frame, keys: tuple[int, ...]) -> str:
    """Name of the row that keeps the block of the cards with these hashes."""
    metric = frame.metric
    return f"gddsg:block:{_hash([int(metric.rooted), *(card.key for card in metric.sample), *keys])}"


def _hash(numbers: list[int]) -> str:
    return blake2b(np.array(numbers, dtype=np.uint64).tobytes(), digest_size=16).hexdigest()


# Rows of a model.


class LargeRows(Mapping[str, bytes]):
    """All rows of a large model but the index, each made when it is asked for.

    Parameters
    ----------
    model : Model
        The model.
    """

    def __init__(self, model: Model) -> None:
        self.cards = {card_name(label): card for label, card in model.cards.items()}
        large: LargeClasses = model.derived.large_classes
        self._frame = frame_name(large.frame.metric.sample, large.frame.metric.rooted), large.frame
        self._blocks = {block_name(large.frame, keys): block for keys, block in large.blocks.items()}

    def __getitem__(self, name: str) -> bytes:
        if name in self.cards:
            return self.cards[name].to_bytes()
        return self._frame[1].to_bytes() if name == self._frame[0] else self._blocks[name]().to_bytes()

    def __iter__(self) -> Iterator[str]:
        yield from self.cards
        yield self._frame[0]
        yield from self._blocks

    def __len__(self) -> int:
        return len(self.cards) + 1 + len(self._blocks)

    def __contains__(self, name: object) -> bool:
        return name in self.cards or name in self._blocks or name == self._frame[0]

    def index(self, digests: Mapping[str, bytes]) -> bytes:
        """The index of these rows, from their digests."""
        names = sorted(digests)
        glances = [Glance.of(self.cards[name]) for name in names if name in self.cards]
        joined = b"".join(digests[name] for name in names)
        arrays: dict[str, Array] = {"digests": np.frombuffer(joined, dtype=np.uint64).reshape(len(names), -1)}
        arrays |= {column: np.array([getattr(g, column) for g in glances], dtype=np.uint64) for column in _COLUMNS}
        return pack({"names": json.dumps(names)}, arrays)

    def unchanged(self, file: LargeFile, name: str) -> bool:
        """Whether the file has the row already."""
        digest, card = file.digests.get(name), self.cards.get(name)
        if digest is None or card is None:
            return digest is not None  # what is derived has a name that says what it is
        row = _row(card)
        return (row.digest if row and row.name == name else card_digest(name, card.to_bytes())) == digest

    def file_at(self, path: Path) -> LargeFile | None:
        """The file at that path, if cards lie in it and nobody else has changed it; else it has to be read."""
        row = next((row for row in map(_row, self.cards.values()) if row), None)
        return row.source if row and isinstance(row.source, LargeFile) and row.source.is_at(path) else None


def _row(card: ClassCard) -> Row | None:
    """Where the card lies."""
    return card.place if isinstance(card, FiledCard) and isinstance(card.place, Row) else None


def _read_index(path: StrPath, body: bytes) -> tuple[dict[str, bytes], dict[str, Glance]]:
    try:
        scalars, arrays = unpack(body)
        names, digests = json.loads(scalars["names"]), arrays["digests"]
        if digests.shape != (len(names), 4) or not all(isinstance(name, str) for name in names):
            raise ValueError("its digests are not those of its rows")
        flat = digests.tobytes()
        cards = [name for name in names if is_card(name)]
        columns: list[list[Any]] = [arrays[column].tolist() for column in _COLUMNS[:4]]
        columns += [arrays[column].astype(bool).tolist() for column in _COLUMNS[4:]]
        glances = [Glance(*row) for row in zip(*columns, strict=True)]
        found = {name: flat[32 * i : 32 * i + 32] for i, name in enumerate(names)}
        return found, dict(zip(cards, glances, strict=True))
    except MALFORMED as error:
        raise damaged(path, f"its index is none ({error})") from error


# Changing a file in place.


def amend(path: Path, header: Mapping[str, object], rows: LargeRows, last_look: Callable[[], None] | None) -> bool:
    """Make the rows of a large file those of a model, in one transaction; False where there is no such file.

    Parameters
    ----------
    path : Path
        The file.
    header : mapping of str to object
        As for :func:`gddsg.store.rows_file.write_rows`.
    rows : LargeRows
        The rows.
    last_look : callable or None
        Called when nobody else can write any more; where it raises, the file stays as it was.
    """
    file = rows.file_at(path) or open_large(path)
    if file is None:
        return False
    new = [name for name in rows if not rows.unchanged(file, name)]
    gone = [name for name in file.digests if name not in rows]
    file.pick_up((*new, *gone))
    header_rows, address = encode_header(header), sqlite_address(path, "mode=rw")
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None)) as change:
            change.execute("PRAGMA synchronous = FULL")
            change.execute("PRAGMA fullfsync = ON")  # macOS: through the memory of the disk
            change.execute("BEGIN IMMEDIATE")  # from now on nobody else writes, and nothing is written yet
            if last_look is not None:
                last_look()
            change.executemany("DELETE FROM cards WHERE name = ?", [(name,) for name in (*gone, *new, INDEX)])
            digests = {name: digest for name, digest in file.digests.items() if name in rows}
            digests |= {name: insert_card(change, name, rows[name]) for name in new}
            index = insert_card(change, INDEX, rows.index(digests))
            change.execute("DELETE FROM header")
            everything = header_rows | {DIGEST_KEY: model_digest(LARGE_VERSION, header_rows, digests | {INDEX: index})}
            change.executemany("INSERT INTO header VALUES (?, ?)", everything.items())
            change.execute("COMMIT")
    except (OSError, sqlite3.Error) as cause:
        raise unwritable(path, cause) from cause
    file.lay_down(digests, {name: rows.cards[name] for name in new if name in rows.cards})
    return True


# SQLite.


def _connect(source: Path) -> sqlite3.Connection:
    """Open the file for reading; what a kill in the middle of a change left half-written is rolled back first."""
    address = sqlite_address(source, "mode=ro")
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT 1 FROM header").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        with contextlib.closing(sqlite3.connect(sqlite_address(source, "mode=rw"), uri=True)) as writing:
            writing.execute("SELECT 1 FROM header").fetchone()
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        check_schema(source, connection)
    except Exception:
        connection.close()
        raise
    return connection


@contextmanager
def _sqlite_trouble(path: StrPath) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as cause:
        raise damaged(path, f"SQLite reports: {cause}") from cause
