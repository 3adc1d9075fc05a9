"""Model files: one SQLite file a model, one row a card, no pickles."""

from gddsg.store.model_file import FORMAT_VERSION, read_model, write_model

__all__ = ["FORMAT_VERSION", "read_model", "write_model"]
