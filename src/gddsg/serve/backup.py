"""A copy of a model and its journal, made while the service runs."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gddsg.errors import DataError, ModelFileError
from gddsg.files import locate, locked, replacing
from gddsg.photos.model_backbone import no_model
from gddsg.serve.journal import Journal, journal_path
from gddsg.store.rows_file import read_rows, unwritable


def back_up(path: Path, target: Path, on_wait: Callable[[], None] | None = None) -> list[Path]:
    """Copy a model file, and the journal beside it if there is one, as they are at one moment; the copies made.

    Nothing is changed meanwhile: writers wait. To restore, end the service and copy both files back.

    Parameters
    ----------
    path : Path
        Of the model file.
    target : Path
        Of its copy; that of the journal has the same name with ``.studio`` at its end.
    on_wait : callable or None
        Called when another process has to be waited for.
    """
    if locate(path) == locate(target):
        raise DataError(f"{target} is the model file itself. Name another file for the copy: --to FILE.")
    if not path.exists():
        raise no_model(path)
    try:
        with locked(path, on_wait) as source:
            copies = [_copy_journal(source, target), _copy_model(source, target)]
    except ModelFileError:
        raise
    except OSError as error:
        raise unwritable(target, error) from error
    return [copy for copy in copies if copy is not None]


def _copy_model(source: Path, target: Path) -> Path:
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)
        read_rows(temporary)  # every bit is compared with its digest, before the copy gets its name
    return target


def _copy_journal(source: Path, target: Path) -> Path | None:
    if not journal_path(source).exists():
        return None
    journal, copy = Journal(journal_path(source)), journal_path(target)
    try:
        with replacing(copy) as temporary:
            journal.copy_to(temporary)
            temporary.chmod(0o600)
            _verify(temporary)
    finally:
        journal.close()
    return copy


def _verify(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("PRAGMA integrity_check").fetchone()[0]
    if found != "ok":
        raise ModelFileError(f"The copy of the journal, {path}, is damaged ({found}). Check the disk and try again.")
