"""Backbones in folders: what ``hf:FOLDER`` means here, put so that it means the same from anywhere."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gddsg.backbones.layers import split_layers, with_layers


def folder_of(name: str) -> Path | None:
    """The whole path of the folder that the name of a backbone means here; None where it means no folder.

    Parameters
    ----------
    name : str
        As for :func:`gddsg.backbones.load_backbone`.
    """
    source, _, rest = split_layers(name)[0].partition(":")
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last if there is no home for a tilde
        if source == "hf" and rest and Path(rest).expanduser().is_dir():
            return Path(rest).expanduser().resolve()
    return None


def with_whole_path(name: str) -> str:
    """The name with the whole path of the folder that it means here; any other name as it is.

    Parameters
    ----------
    name : str
        As for :func:`gddsg.backbones.load_backbone`.
    """
    folder = folder_of(name)
    if folder is None:
        return name
    end = "/" if folder.name.startswith("layers") else ""  # so that it does not ask for layers of the folder above
    return with_layers(f"hf:{folder}{end}", split_layers(name)[1])
