"""Model files: one SQLite file a model, one row a card, no pickles."""

from gddsg.store.model_file import read_model, write_model

__all__ = ["read_model", "write_model"]
