"""Features of photos that were embedded before, on disk, so that no photo is embedded twice.

One SQLite file: it takes several processes at once, and a kill at any moment leaves it whole. The cache holds nothing
that cannot be computed again, hence no trouble with it ever stops the work: a damaged file is started anew, and where
nothing can be written, features are simply not kept.

Nor does it ever give a wrong vector: a digest covers each vector together with what it belongs to, and the file is for
the user alone. Files of version 0.1 are removed, since networks that nobody verified may have filled them.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import finalize

import numpy as np

from gddsg.backbones.base import Array
from gddsg.backbones.private_folder import REMEDY, cache_folder, touch_private
from gddsg.errors import InputError

_TABLE = """
CREATE TABLE IF NOT EXISTS features(
    key BLOB, backbone TEXT, vector BLOB, used INTEGER, PRIMARY KEY (key, backbone)
) WITHOUT ROWID
"""
_DEFAULT_LIMIT_MB = 4096
_KEPT_WHEN_FULL = 0.9
_SECONDS_A_DAY = 86_400
_DIGEST_BYTES = 16
_NAME = "features-2.sqlite"
_UNVERIFIED_NAME = "features.sqlite"
_COMPANIONS = ("", "-wal", "-shm")


@dataclass(frozen=True)
class CacheSize:
    """Vectors of one backbone and the bytes they take."""

    backbone: str
    vectors: int
    size: int


class FeatureCache:
    """Feature vectors by content hash of the photo and fingerprint of the backbone; safe for threads and processes.

    The file is opened when it is first needed.

    Parameters
    ----------
    folder : Path or None
        Where the file is, ``cache_folder()`` unless named.
    limit_mb : float or None
        Largest size of the file; the vectors unused for longest go first. ``GDDSG_CACHE_MB`` or 4096.

    Attributes
    ----------
    trouble : str
        Why the cache does not work, empty while it does.
    """

    def __init__(self, folder: Path | None = None, limit_mb: float | None = None) -> None:
        self.path = (folder or cache_folder()) / _NAME
        self.trouble = ""
        self._limit = 1e6 * (_limit_mb() if limit_mb is None else limit_mb)
        self._lock = threading.Lock()
        self._used: set[tuple[bytes, str]] = set()
        self._connection: sqlite3.Connection | None = None
        self._opened = False

    def get(self, key: bytes, backbone: str) -> Array | None:
        """The vector, or None where it is not known."""
        return self.get_many([key], backbone).get(key)

    def get_many(self, keys: Sequence[bytes], backbone: str, width: int | None = None) -> dict[bytes, Array]:
        """The vectors that are known, by key; where ``width`` is given, only those of that length."""
        places = ", ".join("?" * len(keys))
        sql = f"SELECT key, vector, used FROM features WHERE backbone = ? AND key IN ({places})"
        found, today = {}, _today()
        for key, packed, used in self._ask(sql, (backbone, *keys)):
            vector = _unpacked(packed, key, backbone)
            if vector is not None and width in (None, len(vector)):
                found[key] = vector
                if used != today:
                    self._used.add((key, backbone))
        return found

    def get_by_starts(self, starts: Sequence[bytes], backbone: str, width: int | None = None) -> dict[bytes, Array]:
        """The vectors of keys that begin so, by their beginnings; where two keys begin alike, neither is given."""
        sql = "SELECT key FROM features WHERE key >= ? AND key < ? AND backbone = ? LIMIT 2"
        found = {}
        for start in starts:
            keys = [key for (key,) in self._ask(sql, (start, start + b"\xff" * 32, backbone))]
            vectors = self.get_many(keys, backbone, width)
            if len(keys) == 1 and vectors:
                found[start] = vectors[keys[0]]
        return found

    def put(self, vectors: Iterable[tuple[bytes, Array]], backbone: str) -> None:
        """Keep vectors by key, all of them in one transaction; those with NaN or infinite values are left out."""
        today = _today()
        rows = [(key, backbone, _packed(vector, key, backbone), today) for key, vector in vectors if _is_vector(vector)]
        self._try(lambda db: self._write(db, rows))

    def sizes(self) -> list[CacheSize]:
        """What is in the cache, by backbone."""
        # a file that something else has written to may hold anything under any name
        sql = "SELECT CAST(backbone AS TEXT), COUNT(*), SUM(LENGTH(vector)) FROM features GROUP BY 1 ORDER BY 1"
        return [CacheSize(name or "unknown", vectors, size or 0) for name, vectors, size in self._ask(sql)]

    def clear(self) -> int:
        """Delete all vectors; how many there were."""
        count = sum(size.vectors for size in self.sizes())
        self._try(lambda db: db.execute("DELETE FROM features"))
        return count

    def close(self) -> None:
        """Note which vectors were used, and close the file."""
        if self._used:
            self._try(lambda db: self._write(db, []))
        with self._lock:
            self._disconnect()
            self._opened = True  # and not to be opened again

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> None:
        self._opened = True
        touch_private(self.path)
        with contextlib.suppress(OSError):
            _remove(self.path.with_name(_UNVERIFIED_NAME))
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.text_factory = lambda text: text.decode(errors="replace")  # text that is none must not stop us
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA auto_vacuum = FULL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose vectors, never the file
            connection.execute(_TABLE)
            columns = [row[1] for row in connection.execute("PRAGMA table_info(features)")]
            if columns != ["key", "backbone", "vector", "used"]:
                raise sqlite3.DatabaseError(f"its columns are {columns}")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        finalize(self, connection.close)

    def _ask(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        found: list[Any] = []
        self._try(lambda db: found.extend(db.execute(sql, values)))
        return found

    def _write(self, db: sqlite3.Connection, rows: list[tuple[bytes, str, bytes, int]]) -> None:
        today = _today()
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)", rows)
            used = [(today, *name) for name in list(self._used)]  # other threads may add to it
            db.executemany("UPDATE features SET used = ? WHERE key = ? AND backbone = ?", used)
            self._make_room(db)
            db.execute("COMMIT")
            self._used.clear()
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise

    def _make_room(self, db: sqlite3.Connection) -> None:
        """Delete the vectors unused for longest until the rest takes nine tenths of the limit."""
        pages, free, page = (db.execute(f"PRAGMA {p}").fetchone()[0] for p in _SIZE_PRAGMAS)
        size = (pages - free) * page
        if size <= self._limit:
            return
        count = db.execute("SELECT COUNT(*) FROM features").fetchone()[0]
        surplus = int(count * (1 - _KEPT_WHEN_FULL * self._limit / size)) + 1
        oldest = "SELECT key, backbone FROM features ORDER BY used, key LIMIT ?"
        db.execute(f"DELETE FROM features WHERE (key, backbone) IN ({oldest})", (surplus,))

    def _try(self, action: Callable[[sqlite3.Connection], object]) -> None:
        with self._lock:
            if not self._opened:
                self._try_or_start_anew(self._open)
            connection = self._connection
            if connection is not None:
                self._try_or_start_anew(lambda: action(connection))

    def _try_or_start_anew(self, action: Callable[[], object]) -> None:
        """A file that is damaged goes, with its contents; other trouble (no room, no permission) ends the caching."""
        try:
            action()
        except (sqlite3.OperationalError, OSError) as error:
            self._give_up(error)
        except sqlite3.DatabaseError:
            self._start_anew()

    def _start_anew(self) -> None:
        self._disconnect()
        try:
            _remove(self.path)
            self._open()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        reason = str((isinstance(error, OSError) and error.strerror) or error)
        self.trouble = f"{self.path}: {reason}" + ("" if REMEDY in reason else f"; {REMEDY}")
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


_SIZE_PRAGMAS = ("page_count", "freelist_count", "page_size")


def _today() -> int:
    return int(time.time()) // _SECONDS_A_DAY


def _limit_mb() -> float:
    named = os.environ.get("GDDSG_CACHE_MB")
    if not named:
        return _DEFAULT_LIMIT_MB
    try:
        limit = float(named)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise InputError(
            f"GDDSG_CACHE_MB is {named!r}, expected a number of megabytes such as {_DEFAULT_LIMIT_MB}. "
            "Correct the environment variable or remove it."
        )
    return limit


def _remove(path: Path) -> None:
    for suffix in _COMPANIONS:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _is_vector(vector: Array) -> bool:
    return vector.ndim == 1 and len(vector) > 0 and bool(np.isfinite(vector).all())


def _packed(vector: Array, key: bytes, backbone: str) -> bytes:
    content = np.ascontiguousarray(vector, dtype="<f4").tobytes()
    return content + _digest(content, key, backbone)


def _unpacked(packed: Any, key: Any, backbone: str) -> Array | None:
    """The vector that was packed with this key for this backbone, None if it is anything else."""
    if not isinstance(packed, bytes) or not isinstance(key, bytes) or (len(packed) - _DIGEST_BYTES) % 4:
        return None
    content = packed[:-_DIGEST_BYTES]
    if packed[-_DIGEST_BYTES:] != _digest(content, key, backbone):
        return None
    vector = np.frombuffer(content, dtype="<f4").astype(np.float32)
    return vector if _is_vector(vector) else None


def _digest(content: bytes, key: bytes, backbone: str) -> bytes:
    """Of a vector and what it belongs to; lengths keep the parts apart."""
    head = f"{len(key)} {len(content)} {backbone}\0".encode()
    return hashlib.blake2b(head + key + content, digest_size=_DIGEST_BYTES).digest()
