"""Model files: one SQLite file a model, one row a card, no pickles.

:func:`read_model` is imported when it is first used, since it brings torch along, which takes seconds; answers from a
file, :mod:`gddsg.store.answers`, need none of it.
"""

from typing import TYPE_CHECKING, Any

from gddsg.store.shared_model import SharedModel, write_model

if TYPE_CHECKING:
    from gddsg.store.model_file import read_model

__all__ = ["SharedModel", "read_model", "write_model"]


def __getattr__(name: str) -> Any:
    if name != "read_model":
        raise AttributeError(f"module 'gddsg.store' has no attribute {name!r}")
    from gddsg.store.model_file import read_model

    return read_model
