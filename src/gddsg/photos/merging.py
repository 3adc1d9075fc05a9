"""Several model files made one."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from gddsg.core.model import Model
from gddsg.errors import DataError
from gddsg.store import SharedModel, read_model


def merge_models(paths: Sequence[str | PathLike[str]], into: str | PathLike[str]) -> Model:
    """All that several models have learnt, in one new file.

    Parameters
    ----------
    paths : sequence of str or path-like
        Of the model files, one at least.
    into : str or path-like
        Of the new file.
    """
    merged = read_model(paths[0])
    for path in paths[1:]:
        merged = merged.merged(read_model(path))

    def put(before: Model | None) -> Model:
        if before is not None:
            raise DataError(f"{into} exists. Name a new file for the merged model.")
        return merged

    SharedModel(into).change(put)
    return merged
