"""Model files: one SQLite file a model, one row a card, no pickles.

:func:`read_model` is imported when it is first used, since it brings torch along, which takes seconds; answers from a
file, :mod:`gddsg.store.answers`, need none of it.
"""

from typing import TYPE_CHECKING

from gddsg.lazy import lazy_names
from gddsg.store.shared_model import SharedModel, write_model

if TYPE_CHECKING:
    from gddsg.store.model_file import read_model

__all__ = ["SharedModel", "read_model", "write_model"]

__getattr__ = lazy_names(__name__, {"read_model": "gddsg.store.model_file"})
