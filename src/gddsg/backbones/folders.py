"""Backbones in folders: what ``hf:FOLDER`` means here, put so that it means the same from anywhere."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from gddsg.backbones.names import PartName, split_name
from gddsg.errors import BackboneError


def means_folder(name: str) -> bool:
    """Whether the name of a backbone, or of a part of it, means a folder here.

    Parameters
    ----------
    name : str
        As for :func:`gddsg.backbones.load_backbone`.
    """
    return any(_folder_of(part.network) is not None for part in split_name(name))


def with_whole_path(name: str) -> str:
    """The name with the whole paths of the folders that it means here; any other name as it is.

    Parameters
    ----------
    name : str
        As for :func:`gddsg.backbones.load_backbone`.
    """
    return "+".join(str(replace(part, network=_placed(part.network))) for part in split_name(name))


def _placed(network: str) -> str:
    folder = _folder_of(network)
    if folder is None:
        return network
    whole = f"hf:{folder}"
    return whole if _is_read_as(whole) else whole + "/"  # else its end would ask for a size, layers or another part


def _is_read_as(network: str) -> bool:
    try:
        return split_name(network) == (PartName(network),)
    except BackboneError:
        return False


def _folder_of(network: str) -> Path | None:
    """The whole path of the folder that a network is in; None where its name means no folder here."""
    source, _, rest = network.partition(":")
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last if there is no home for a tilde
        if source == "hf" and rest and Path(rest).expanduser().is_dir():
            return Path(rest).expanduser().resolve()
    return None
