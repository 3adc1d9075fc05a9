"""Several model files made one."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from gddsg.core.model import Model
from gddsg.errors import DataError
from gddsg.store.model_file import read_model, write_model


def merge_models(paths: Sequence[str | PathLike[str]], into: str | PathLike[str]) -> Model:
    """All that several models have learnt, in one new file.

    Parameters
    ----------
    paths : sequence of str or path-like
        Of the model files, one at least.
    into : str or path-like
        Of the new file.
    """
    if Path(into).exists():
        raise DataError(f"{into} exists. Name a new file for the merged model.")
    merged = read_model(paths[0])
    for path in paths[1:]:
        merged = merged.merged(read_model(path))
    write_model(into, merged)
    return merged
