"""Rows of a model in one file, written and read back whole or not at all.

The file is an SQLite database with two plain tables and nothing else::

    header(key, value)         one row a header entry, the value as JSON, and one row with the digest of the model
    cards(name, body, digest)  one row a card, digest = SHA-256 of name and body

The digest of the model covers every header entry and every card digest, so a lost, changed or exchanged row is found on
reading. It guards against accidents, not against forgery: whoever can write the file can also compute its digests. A
forged file is harmless all the same, since reading compares bytes and parses JSON and never runs anything it finds.

Rows are written in sorted order, hence the same model gives the same bytes (with the same release of SQLite), however
it was put together.
"""

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from gddsg.errors import InputError, ModelFileError
from gddsg.files import UnconfirmedError, locate, replacing

__all__ = ["FORMAT_VERSION", "FileState", "file_state", "read_rows", "unwritable", "write_rows"]

FORMAT_VERSION: Final = 4
"""Of what is written. Version 1, which is still read, had cards with larger factors; version 2, too, no predictor;
version 3 no sketches of samples."""

LARGE_VERSION: Final = 5
"""Of files of very many cards, which have an index, so that a card is read when somebody asks for it; see
:mod:`gddsg.store.large_file`."""

INDEX: Final = "gddsg:index"
"""Name of the row that has the digests of all others."""

Index = Callable[[Mapping[str, bytes]], bytes]
"""Gives the body of the index from the digests of all other rows."""

# "gdsg" in ASCII; SQLite keeps this number in its file header for programs to recognise their own files by.
_APPLICATION_ID: Final = 0x67647367

# Measured with cards of 1.5 MB: writing takes 0.6 times as long as with 4 KB pages; larger ones gain nothing more, but
# an empty model takes five pages.
_PAGE_SIZE: Final = 16384

_CREATE_TABLES: Final = {
    "header": "CREATE TABLE header(key TEXT PRIMARY KEY, value TEXT)",
    "cards": "CREATE TABLE cards(name TEXT PRIMARY KEY, body BLOB, digest BLOB)",
}
DIGEST_KEY: Final = "gddsg:digest"

# SQLite takes rows of up to 10^9 bytes, name and digest included.
_LARGEST_CARD: Final = 999_000_000

_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_SQLITE_HEADER_SIZE: Final = 100

_CHOOSE_FOLDER: Final = "choose a folder you may write to, or have its permissions changed"
_MAKE_ROOM: Final = "free some space, raise the quota or choose another disk, then write again"
_WRITE_REMEDIES: Final = {
    errno.EACCES: _CHOOSE_FOLDER,
    errno.EPERM: _CHOOSE_FOLDER,
    errno.EROFS: _CHOOSE_FOLDER,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EFBIG: _MAKE_ROOM,
    errno.ENOSPC: _MAKE_ROOM,
    errno.EISDIR: "add a file name to the folder",
    errno.ENOENT: "create the folder first",
    errno.ENOTDIR: "a part of the path that should be a folder is a file, so choose another path",
}


def write_rows(
    path: str | os.PathLike[str],
    header: Mapping[str, object],
    cards: Mapping[str, bytes],
    last_look: Callable[[], None] | None = None,
    index: Index | None = None,
) -> None:
    """Write a model to `path`, replacing what was there in one step.

    Whatever happens meanwhile (a full disk, a kill, a power cut), `path` holds the old model or the new one.
    An existing file keeps its permission bits; a symbolic link stays one and the file it points to is replaced.

    Parameters
    ----------
    path : str or path-like
        Where to write; the folder must exist.
    header : mapping of str to object
        What there is to say about the model as a whole. Values are stored as JSON, so tuples come back as lists and
        keys of nested mappings as strings. The key ``gddsg:digest`` is taken.
    cards : mapping of str to bytes
        The cards by name, asked for one at a time, so a mapping may produce them as they are needed.
    last_look : callable or None
        Called when all is written and nothing replaced yet; where it raises, the old file stays.
    index : callable or None
        Gives the index of a file of very many cards.

    Raises
    ------
    InputError
        If the header or the cards are not of these kinds, or a card has more than 999 MB.
    ModelFileError
        If the file cannot be written; the old file is then unchanged and no temporary file is left.
    """
    header_rows = encode_header(header)
    names = _sorted_names(cards)
    try:
        with replacing(Path(path)) as temporary:
            _fill_database(temporary, header_rows, names, cards, index)
            if last_look is not None:
                last_look()
    except UnconfirmedError as cause:
        message = f"Wrote the model file {os.fspath(path)!r}, but the disk did not confirm it ({cause.strerror}). "
        message += "Expected a folder that can be synchronised; check the disk and write the model again."
        raise ModelFileError(message) from cause
    except (OSError, sqlite3.Error) as cause:
        raise unwritable(path, cause) from cause


class FileState(NamedTuple):
    """What changes whenever a file does: a file may be replaced, or be overwritten within one tick of the clock."""

    inode: int
    modified: int
    changed: int
    size: int
    names: int
    digest: str


def file_state(path: str | os.PathLike[str]) -> FileState | None:
    """What tells a model file from another in the same place, in a millisecond; None where there is no file.

    Parameters
    ----------
    path : str or path-like
        The file. Whether it can be read at all, :func:`read_rows` says.
    """
    try:
        now = Path(path).stat()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as cause:
        raise _unopenable(path, cause) from cause
    return FileState(now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_nlink, _noted_digest(path))


def _noted_digest(path: str | os.PathLike[str]) -> str:
    """The digest of the model as the file has it, not compared with anything; empty where there is none."""
    try:
        with contextlib.closing(open_read_only(check_before_opening(path))) as connection:
            found = connection.execute("SELECT value FROM header WHERE key = ?", (DIGEST_KEY,)).fetchone()
    except (sqlite3.Error, UnicodeDecodeError, ModelFileError):
        return ""
    return str(found[0]) if found else ""


def file_version(path: str | os.PathLike[str]) -> int:
    """Format version of a model file; 0 where there is no file that SQLite could be asked about.

    Parameters
    ----------
    path : str or path-like
        The file.
    """
    try:
        with Path(path).open("rb") as file:
            start = file.read(_SQLITE_HEADER_SIZE)
    except OSError:
        return 0
    return int.from_bytes(start[60:64], "big") if start.startswith(_SQLITE_MAGIC) else 0


def read_rows(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read the model that `write_rows` wrote to `path` and check every bit of it.

    Nothing in the file is ever run, so opening a file from a stranger is safe.

    Parameters
    ----------
    path : str or path-like
        The file to read; it is opened read-only and nothing is created beside it.

    Returns
    -------
    header : dict of str to object
        What was written, sorted by key.
    cards : dict of str to bytes
        The cards, sorted by name.

    Raises
    ------
    ModelFileError
        If there is no such file, it is not a model file, it is damaged, or a newer gddsg wrote it.
    """
    source = check_before_opening(path)
    try:
        # sqlite3's own context manager ends a transaction but leaves the connection open.
        with contextlib.closing(open_read_only(source)) as connection:
            check_schema(path, connection)
            header_rows = dict(connection.execute("SELECT key, value FROM header"))
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            cards, card_digests = _checked_cards(path, connection)
    except (sqlite3.Error, UnicodeDecodeError) as cause:
        # Some messages of SQLite quote the damaged place, and then the message itself cannot be decoded.
        raise damaged(path, f"SQLite reports: {cause}") from cause
    return checked_header(path, version, header_rows, card_digests), dict(sorted(cards.items()))


# Content and its digests.


def encode_header(header: Mapping[str, object]) -> dict[str, str]:
    """Header entries as rows of text, sorted by key."""
    rows = {}
    for key in _sorted_names(header):
        if key == DIGEST_KEY:
            raise InputError(f"The header has the key {key!r}, which the file format keeps to itself; rename the key.")
        try:
            rows[key] = json.dumps(header[key], sort_keys=True)
        except (TypeError, ValueError, RecursionError) as cause:
            message = f"The header entry {key!r} cannot be stored as JSON ({cause}). Expected numbers, strings, "
            message += "booleans, None, or lists and dicts of these; convert the value first."
            raise InputError(message) from cause
    return rows


def _sorted_names(mapping: Mapping[str, object]) -> list[str]:
    """Keys in the order they are written, once all of them are known to be proper text."""
    for name in mapping:
        if not isinstance(name, str):
            raise InputError(f"Got the name {name!r} of type {type(name).__name__}, expected str; pass str(name).")
        try:
            name.encode()
        except UnicodeEncodeError as cause:
            raise InputError(f"The name {name!r} is not valid Unicode ({cause.reason}); choose another.") from cause
    return sorted(mapping)


def _framed(text: str) -> bytes:
    """Text preceded by its length, so that no two sequences of texts join to the same bytes."""
    encoded = text.encode()
    return len(encoded).to_bytes(8, "big") + encoded


def card_digest(name: str, body: bytes) -> bytes:
    """SHA-256 of the framed name and the body."""
    digest = hashlib.sha256(_framed(name))
    digest.update(body)
    return digest.digest()


def model_digest(version: int, header_rows: Mapping[str, str], card_digests: Mapping[str, bytes]) -> str:
    """SHA-256 of format version, number of header rows, header rows by key and card digests by name."""
    digest = hashlib.sha256(f"gddsg model {version} {len(header_rows)} ".encode())
    for key in sorted(header_rows):
        digest.update(_framed(key))
        digest.update(_framed(header_rows[key]))
    for name in sorted(card_digests):
        digest.update(card_digests[name])
    return digest.hexdigest()


# Writing.


def _fill_database(
    path: Path, header_rows: dict[str, str], names: list[str], cards: Mapping[str, bytes], index: Index | None
) -> None:
    """Write all rows in a single transaction."""
    # Nobody else knows the file, and the lock that shows us to be alive must not be in SQLite's way.
    address = sqlite_address(path, "nolock=1")
    with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
        # Safety comes from renaming a finished file; a journal would only double the work.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        version = FORMAT_VERSION if index is None else LARGE_VERSION
        connection.execute(f"PRAGMA user_version = {version}")
        for statement in _CREATE_TABLES.values():
            connection.execute(statement)
        card_digests = {name: insert_card(connection, name, cards[name]) for name in names}
        if index is not None:
            card_digests[INDEX] = insert_card(connection, INDEX, index(card_digests))
        rows = header_rows | {DIGEST_KEY: model_digest(version, header_rows, card_digests)}
        connection.executemany("INSERT INTO header VALUES (?, ?)", rows.items())
        connection.execute("COMMIT")


def insert_card(connection: sqlite3.Connection, name: str, body: bytes) -> bytes:
    if not isinstance(body, bytes):
        raise InputError(f"The card {name!r} is of type {type(body).__name__}, expected bytes; encode it first.")
    if len(body) > _LARGEST_CARD:
        raise InputError(f"The card {name!r} has {len(body)} bytes, expected at most {_LARGEST_CARD}; divide it.")
    digest = card_digest(name, body)
    connection.execute("INSERT INTO cards VALUES (?, ?, ?)", (name, body, digest))
    return digest


def unwritable(path: str | os.PathLike[str], cause: Exception) -> ModelFileError:
    """Say why the file cannot be written and what would help."""
    if isinstance(cause, OSError):
        reason = cause.strerror or str(cause)
        remedy = _WRITE_REMEDIES.get(cause.errno or 0, "choose another path")
    else:
        # SQLite says "database or disk is full" or "disk I/O error" and keeps the number of the error to itself.
        reason = str(cause)
        remedy = _MAKE_ROOM
    return ModelFileError(
        f"Cannot write the model file {os.fspath(path)!r}: {reason}. "
        f"Expected a file name in an existing, writable folder with room for the model; {remedy}. "
        "What was there before is unchanged."
    )


# Reading.


def check_before_opening(path: str | os.PathLike[str]) -> Path:
    """Absolute path of a file that has the outside of a model file; SQLite is not to meet any other."""
    try:
        source = locate(Path(path))
        mode = source.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
            raise _unreadable(path, f"it is {kind}", "give the path of the file itself")
        with source.open("rb") as file:
            start = file.read(_SQLITE_HEADER_SIZE)
            size = os.fstat(file.fileno()).st_size
    except ModelFileError:
        raise
    except OSError as cause:
        raise _unopenable(path, cause) from cause
    _check_start(path, start, size)
    return source


def _check_start(path: str | os.PathLike[str], start: bytes, size: int) -> None:
    """Check magic, size, owner and version from the first bytes of the file (offsets: sqlite.org/fileformat.html)."""
    if not start:
        raise damaged(path, "the file is empty")
    if not _SQLITE_MAGIC.startswith(start[: len(_SQLITE_MAGIC)]):
        raise _unreadable(path, f"it is some other kind of file, starting with {start[:8]!r}", "check the path")
    if len(start) < _SQLITE_HEADER_SIZE:
        raise damaged(path, f"cut short after {size} bytes")
    if int.from_bytes(start[68:72], "big") != _APPLICATION_ID:
        raise _unreadable(path, "it is an SQLite database of another program", "check the path")
    _check_version(path, int.from_bytes(start[60:64], "big"))
    promised = int.from_bytes(start[16:18], "big") * int.from_bytes(start[28:32], "big")
    # a file of very many cards grows in place, and what is missing SQLite finds
    if size < promised and int.from_bytes(start[60:64], "big") != LARGE_VERSION:
        raise damaged(path, f"cut short, {size} bytes of {promised}")


def _check_version(path: str | os.PathLike[str], version: int) -> None:
    if version > LARGE_VERSION:
        found = f"it has format version {version} and was written by a newer gddsg"
        raise _unreadable(path, found, f"upgrade gddsg, which here reads up to version {LARGE_VERSION}")
    if version < 1:
        raise damaged(path, f"format version {version} does not exist")


def sqlite_address(path: PurePath, options: str) -> str:
    """A file as SQLite is told of it; a folder of another Windows machine is no host to it, but part of the path."""
    # `as_uri` quotes what has a meaning in a URI: blanks, ?, #, % and letters beyond ASCII.
    host, _, rest = path.as_uri().removeprefix("file://").partition("/")
    return f"file://{f'//{host}' if host else ''}/{rest}?{options}"


def open_read_only(source: Path) -> sqlite3.Connection:
    """Open the database so that neither the file nor its folder is touched, and trust nothing in it."""
    address = sqlite_address(source, "mode=ro&immutable=1")
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        # With memory mapping, a disk that fails would end the process instead of raising an error.
        connection.execute("PRAGMA mmap_size = 0")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def check_schema(path: str | os.PathLike[str], connection: sqlite3.Connection) -> None:
    """Make sure there are our two tables, letter for letter, with the indexes of their keys and nothing else."""
    expected: set[tuple[object, ...]] = set()
    for table, statement in _CREATE_TABLES.items():
        expected.add(("table", table, table, statement))
        expected.add(("index", f"sqlite_autoindex_{table}_1", table, None))
    found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    if len(found) != len(expected) or set(found) != expected:
        raise damaged(path, "its tables are not those of a model")


def _checked_cards(
    path: str | os.PathLike[str], connection: sqlite3.Connection
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Bodies and digests of the cards by name, each body compared with its digest."""
    cards: dict[str, bytes] = {}
    card_digests: dict[str, bytes] = {}
    for name, body, digest in connection.execute("SELECT name, body, digest FROM cards"):
        # In SQLite a damaged row may hold values of any type.
        if not (isinstance(name, str) and isinstance(body, bytes)) or card_digest(name, body) != digest:
            raise damaged(path, f"checksum mismatch in the card {name!r}")
        cards[name] = body
        card_digests[name] = digest
    return cards, card_digests


def checked_header(
    path: str | os.PathLike[str], version: int, rows: dict[Any, Any], card_digests: Mapping[str, bytes]
) -> dict[str, Any]:
    """Header entries by key, once the digest of the whole model is right."""
    expected = rows.pop(DIGEST_KEY, None)
    if not all(isinstance(text, str) for row in rows.items() for text in row):
        raise damaged(path, "checksum mismatch in the header")
    if model_digest(version, rows, card_digests) != expected:
        raise damaged(path, "checksum mismatch in the model as a whole, a row is missing or changed")
    try:
        return {key: json.loads(rows[key]) for key in sorted(rows)}
    except (ValueError, RecursionError) as cause:
        # Only a forged file gets here, for damage would have shown in the digest.
        raise damaged(path, f"the header is not JSON ({cause})") from cause


def _unreadable(path: str | os.PathLike[str], found: str, remedy: str) -> ModelFileError:
    return ModelFileError(
        f"Cannot read the model file {os.fspath(path)!r}: {found}. Expected a file written by gddsg; {remedy}."
    )


def damaged(path: str | os.PathLike[str], found: str) -> ModelFileError:
    return _unreadable(path, f"it is damaged: {found}", "take a fresh copy or save the model again")


def _unopenable(path: str | os.PathLike[str], cause: OSError | ValueError) -> ModelFileError:
    if isinstance(cause, FileNotFoundError):
        return _unreadable(path, "there is no such file", "check the path")
    if isinstance(cause, PermissionError):
        return _unreadable(path, "you may not read it", "have its permissions changed")
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return _unreadable(path, reason, "check the path and the disk")
