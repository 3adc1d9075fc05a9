"""Which backbones from outside the user has agreed to.

A model file names the backbone it was learnt with, and the file may come from a stranger. What it names is not asked
for at a hub, nor opened in a folder, before the user has agreed to that name, once. The list of names is in the cache
folder: losing it means being asked again.
"""

from __future__ import annotations

import contextlib
import json

from gddsg.backbones.folders import with_whole_path
from gddsg.backbones.names import split_name
from gddsg.backbones.private_folder import cache_folder, read_private, write_private

_FILE = "trusted-backbones.json"
_FOLDER = "folder "  # before names that were agreed to as those of a folder


def is_trusted(name: str) -> bool:
    """Whether the user has agreed to the backbone, or need not: what is embedded has no source outside.

    Who agrees to a network agrees to it at every size and whichever of its layers are asked for. Of several side by
    side he must have agreed to each.

    Parameters
    ----------
    name : str
        In full, see :func:`gddsg.backbones.resolve_name`.
    """
    networks = _from_outside(name)
    known = _read() if networks else set()
    # the place is looked at only when the name is known: looking may mean to ask another machine
    return all(
        (network in known or _FOLDER + network in known) and with_whole_path(network) in known for network in networks
    )


def trust(name: str) -> None:
    """Remember that the user has agreed to a backbone; where nothing can be written he will be asked again.

    Parameters
    ----------
    name : str
        In full, see :func:`gddsg.backbones.resolve_name`.
    """
    if is_trusted(name):
        return
    names = _read()
    for network in _from_outside(name):
        place = with_whole_path(network)
        # elsewhere, the name of a folder may mean another one, or the hub, to which nobody has agreed
        names |= {place, network if place == network else _FOLDER + network}
    with contextlib.suppress(OSError):
        write_private(cache_folder() / _FILE, json.dumps(sorted(names), indent=1).encode())


def _from_outside(name: str) -> list[str]:
    return [part.network for part in split_name(name) if part.source]


def _read() -> set[str]:
    """A list that is damaged, or that others may have written, is no list."""
    try:
        names = json.loads(read_private(cache_folder() / _FILE))
    except (OSError, ValueError, RecursionError):
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
