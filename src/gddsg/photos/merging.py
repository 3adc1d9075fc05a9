"""Several model files made one."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from gddsg.core.backbone_identity import same_backbone
from gddsg.core.model import Model
from gddsg.errors import DataError, InputError
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
        other = read_model(path)
        _require_same_backbone(paths[0], merged.settings.backbone, path, other.settings.backbone)
        merged = merged.merged(other)

    def put(before: Model | None) -> Model:
        if before is not None:
            raise DataError(f"{into} exists. Name a new file for the merged model.")
        return merged

    SharedModel(into).change(put)
    return merged


def _require_same_backbone(
    path: str | PathLike[str], backbone: str | None, other_path: str | PathLike[str], other: str | None
) -> None:
    """Refuse models of two backbones and say how to learn models that can be merged."""
    name, other_name = ((one or "").rpartition("@")[0] for one in (backbone, other))
    if name and other_name and name != other_name and not same_backbone(backbone, other):
        raise InputError(
            f"{path} was learnt with the backbone {name}, {other_path} with {other_name}; models can be merged only if "
            f"they have the same one. Learn one of them again, into a new file, with the other's: --backbone {name}, "
            f"or --backbone {other_name}."
        )
