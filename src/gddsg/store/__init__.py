"""Model files: one SQLite file a model, one row a card, no pickles."""

from gddsg.store.model_file import read_model
from gddsg.store.shared_model import SharedModel, write_model

__all__ = ["SharedModel", "read_model", "write_model"]
