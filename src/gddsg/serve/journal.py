"""What the service remembers beside the model: changes and their answers, tokens, lessons, undo and thumbnails.

One SQLite file, ``MODEL.studio``, for its owner alone. What was committed survives a power cut; a kill leaves at most a
rollback journal, which the next who opens the file clears away. Deleted content is overwritten.

A *change* is written down twice: before it is carried out, with who wants what, and after it, with what came of it. So
the list of changes is the audit log, and the answers in it are what a client gets who asks again by the same key.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import finalize

from gddsg.errors import ModelFileError
from gddsg.files import locate

KEY_SECONDS = 24 * 3600
"""For which an answer is kept for a client who asks again."""

UNDO_SECONDS = 60
"""For which a class that was forgotten can be brought back."""

CHANGES_KEPT = 100_000
"""Of the audit log; the oldest go first."""

_APPLICATION_ID = 0x67647374  # "gdst"
_VERSION = 1
_WAIT_SECONDS = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS changes(
    id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
    class TEXT NOT NULL, outcome TEXT, key TEXT UNIQUE, digest BLOB, answer TEXT);
CREATE TABLE IF NOT EXISTS tokens(
    name TEXT PRIMARY KEY, digest BLOB NOT NULL, rights TEXT NOT NULL, time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS lessons(id INTEGER PRIMARY KEY AUTOINCREMENT, class TEXT NOT NULL, card BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS forgotten(id TEXT PRIMARY KEY, class TEXT NOT NULL, card BLOB NOT NULL, time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS thumbnails(sample BLOB PRIMARY KEY, jpeg BLOB NOT NULL) WITHOUT ROWID;
"""

_OVERDUE = """
SELECT 1 FROM changes WHERE key IS NOT NULL AND time < ? UNION ALL SELECT 1 FROM forgotten WHERE time <= ? LIMIT 1
"""


@dataclass(frozen=True)
class Wish:
    """A change that somebody wants.

    Attributes
    ----------
    who : str
        Name of the token, or the address that it came from.
    action, name : str
        What is to be done, and to which class.
    key : str or None
        By which the client may ask for it again without having it done twice.
    digest : bytes
        Of the whole request, to tell a repetition from another one with the same key.
    """

    who: str
    action: str
    name: str
    key: str | None = None
    digest: bytes = b""


@dataclass(frozen=True)
class Noted:
    """What the journal knows of a change that somebody wants.

    Attributes
    ----------
    number : int
        Of the change.
    answer : Mapping or None
        What came of it, where it has been carried out.
    again : bool
        Whether it was under way before, in a process that ended meanwhile: it may have been carried out or not.
    same : bool
        Whether the request is the one that the key was first used for.
    """

    number: int
    answer: Mapping[str, Any] | None = None
    again: bool = False
    same: bool = True


@dataclass(frozen=True)
class Change:
    """An entry of the audit log."""

    time: float
    who: str
    action: str
    name: str
    outcome: str | None


@dataclass(frozen=True)
class Forgotten:
    """A class that was forgotten a moment ago."""

    id: str
    name: str
    card: bytes
    time: float


class Journal:
    """The journal of the service in one file; safe for threads, and for the commands that change tokens meanwhile.

    Parameters
    ----------
    path : Path
        Of the file, made unless it is there.
    clock : callable
        Seconds since the epoch.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        try:
            self._db = _opened(path)
            finalize(self, self._db.close)
        except (sqlite3.Error, OSError) as error:
            raise _trouble(path, error) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    # ---------------------------------------------------------------- changes

    def begin(self, wish: Wish) -> Noted:
        """Note that a change is wanted, or find out what came of it when it was wanted before.

        Parameters
        ----------
        wish : Wish
            The change.
        """
        with self._transaction() as db:
            if wish.key is not None:
                sql = "SELECT id, digest, outcome, answer FROM changes WHERE key = ?"
                found = db.execute(sql, (wish.key,)).fetchone()
                if found is not None:
                    number, digest, outcome, answer = found
                    done = outcome == "done"
                    return Noted(number, json.loads(answer) if done else None, not done, digest == wish.digest)
            row = (self._clock(), wish.who, wish.action, wish.name, wish.key, wish.digest)
            sql = "INSERT INTO changes(time, who, action, class, key, digest) VALUES (?, ?, ?, ?, ?, ?)"
            return Noted(int(db.execute(sql, row).lastrowid or 0))

    def finish(self, number: int, answer: Mapping[str, Any]) -> None:
        """Note that a change was carried out.

        Parameters
        ----------
        number : int
            Of the change.
        answer : mapping
            What the client is told; kept only where there is a key to ask by.
        """
        with self._transaction() as db:
            sql = "UPDATE changes SET outcome = 'done', answer = iif(key IS NULL, NULL, ?) WHERE id = ?"
            db.execute(sql, (json.dumps(answer), number))

    def fail(self, number: int, reason: str) -> None:
        """Note that a change was refused; its key may be used again.

        Parameters
        ----------
        number : int
            Of the change.
        reason : str
            What the client is told.
        """
        with self._transaction() as db:
            sql = "UPDATE changes SET outcome = ?, key = NULL, answer = NULL WHERE id = ?"
            db.execute(sql, (f"refused: {reason[:500]}", number))

    def changes(self, most: int = 100) -> list[Change]:
        """The last changes, newest first.

        Parameters
        ----------
        most : int
            How many.
        """
        sql = "SELECT time, who, action, class, outcome FROM changes ORDER BY id DESC LIMIT ?"
        return [Change(*row) for row in self._ask(sql, (most,))]

    # ---------------------------------------------------------------- lessons: cards that are not in the model file yet

    def add_lesson(self, name: str, card: bytes) -> int:
        """Keep what was learnt until the model file has it; its number."""
        with self._transaction() as db:
            return int(db.execute("INSERT INTO lessons(class, card) VALUES (?, ?)", (name, card)).lastrowid or 0)

    def lessons(self) -> list[tuple[int, str, bytes]]:
        """Number, class and card of all that the model file may lack, in the order in which they were learnt."""
        return self._ask("SELECT id, class, card FROM lessons ORDER BY id")

    def drop_lessons(self, numbers: Collection[int]) -> None:
        """Forget lessons that are in the model file."""
        if numbers:
            with self._transaction() as db:
                db.executemany("DELETE FROM lessons WHERE id = ?", [(number,) for number in numbers])

    # ---------------------------------------------------------------- undo

    def keep_forgotten(self, one: Forgotten) -> None:
        """Keep the card of a class for as long as its forgetting can be undone."""
        with self._transaction() as db:
            row = (one.id, one.name, one.card, one.time)
            db.execute("INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?, ?)", row)

    def forgotten(self, now: float) -> list[Forgotten]:
        """Classes whose forgetting can still be undone, the latest first."""
        sql = "SELECT id, class, card, time FROM forgotten WHERE time > ? ORDER BY time DESC"
        return [Forgotten(*row) for row in self._ask(sql, (now - UNDO_SECONDS,))]

    # ---------------------------------------------------------------- thumbnails

    def add_thumbnails(self, thumbnails: Mapping[int, bytes]) -> None:
        """Keep small pictures of photos, by sample id."""
        with self._transaction() as db:
            rows = [(_blob(sample), jpeg) for sample, jpeg in thumbnails.items()]
            db.executemany("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", rows)

    def thumbnail(self, sample: int) -> bytes | None:
        """The small picture of a photo; None where there is none."""
        found = self._ask("SELECT jpeg FROM thumbnails WHERE sample = ?", (_blob(sample),))
        return found[0][0] if found else None

    def thumbnail_samples(self) -> frozenset[int]:
        """Sample ids of all photos that have a small picture."""
        return frozenset(int.from_bytes(sample, "big") for (sample,) in self._ask("SELECT sample FROM thumbnails"))

    # ---------------------------------------------------------------- tokens

    def set_token(self, name: str, digest: bytes, rights: str) -> bool:
        """Keep the digest of a token; False where there is one of that name."""
        with self._transaction() as db:
            row = (name, digest, rights, self._clock())
            return db.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?, ?, ?)", row).rowcount == 1

    def remove_token(self, name: str) -> bool:
        """Whether there was such a token, which is no longer accepted."""
        with self._transaction() as db:
            return db.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount == 1

    def tokens(self) -> list[tuple[str, bytes, str, float]]:
        """Name, digest, rights and time of all tokens, by name."""
        return self._ask("SELECT name, digest, rights, time FROM tokens ORDER BY name")

    # ---------------------------------------------------------------- housekeeping

    def purge(self, samples: Collection[int] | None) -> None:
        """Delete what has had its time, and thumbnails of photos that no class has.

        Parameters
        ----------
        samples : collection of int or None
            Sample ids of the photos whose thumbnails stay; None where none may.
        """
        now = self._clock()
        kept = frozenset() if samples is None else samples
        stray = [(_blob(sample),) for sample in self.thumbnail_samples() if sample not in kept]
        old_key, old_undo = now - KEY_SECONDS, now - UNDO_SECONDS
        if not (stray or self._ask(_OVERDUE, (old_key, old_undo))):
            return  # nobody else has to wait
        with self._transaction() as db:
            db.execute("UPDATE changes SET key = NULL, answer = NULL WHERE key IS NOT NULL AND time < ?", (old_key,))
            db.execute("DELETE FROM changes WHERE id <= (SELECT max(id) FROM changes) - ?", (CHANGES_KEPT,))
            db.execute("DELETE FROM forgotten WHERE time <= ?", (old_undo,))
            db.executemany("DELETE FROM thumbnails WHERE sample = ?", stray)

    def copy_to(self, path: Path) -> None:
        """A consistent copy in another file, whoever writes meanwhile.

        Parameters
        ----------
        path : Path
            Of the copy.
        """
        try:
            target = _opened(path)
            try:
                with self._lock:
                    self._db.backup(target)
            finally:
                target.close()
        except (sqlite3.Error, OSError) as error:
            raise _trouble(path, error) from error

    def _ask(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            with self._lock:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _trouble(self.path, error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; on the disk when the block has ended."""
        try:
            with self._lock:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise _trouble(self.path, error) from error


def journal_path(model: Path) -> Path:
    """The journal beside a model file, wherever a link to that leads.

    Parameters
    ----------
    model : Path
        The model file, which need not exist.
    """
    target = locate(model)
    return target.with_name(f"{target.name}.studio")


def _opened(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
    db = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA journal_mode = DELETE")  # nothing beside the file once a transaction has ended
        db.execute("PRAGMA synchronous = EXTRA")  # the end of a transaction is on the disk, too
        db.execute("PRAGMA fullfsync = ON")  # macOS: not only in the memory of the disk
        found, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if found == 0 and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {_APPLICATION_ID}; "
                f"PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        elif found != _APPLICATION_ID:
            raise sqlite3.DatabaseError("it is a file of another program")
        elif version > _VERSION:
            raise sqlite3.DatabaseError("a newer gddsg wrote it; upgrade gddsg")
        # A kill may leave a rollback journal with nothing in it, which no reader minds: a writer takes it away.
        db.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def _blob(sample: int) -> bytes:
    return sample.to_bytes(8, "big")


def _trouble(path: Path, error: Exception) -> ModelFileError:
    reason = (isinstance(error, OSError) and error.strerror) or error
    return ModelFileError(
        f"The journal {path} cannot be used: {reason}. Expected a file of the service, in a folder with room that can "
        "be written to; restore it from a backup, or move it away to begin a new one (its tokens are then gone)."
    )
