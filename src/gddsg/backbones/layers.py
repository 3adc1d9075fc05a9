"""Names that ask for more than the last layer of a network: ``efficientnet-lite0/layers4``."""

from __future__ import annotations

import re

from gddsg.errors import BackboneError

_ASKS_FOR_LAYERS = re.compile(r"(.+)/layers([-+.0-9]+)", re.DOTALL)
_LONGEST_COUNT = 4


def split_layers(name: str) -> tuple[str, int]:
    """The network's own name, and how many of its last layers are wanted: one, unless the name says more.

    A folder that is itself called like that is meant by a slash at its end, ``hf:models/layers4/``.

    Examples
    --------
    >>> split_layers("efficientnet-lite0/layers4"), split_layers("vit-b16")
    (('efficientnet-lite0', 4), ('vit-b16', 1))
    """
    found = _ASKS_FOR_LAYERS.fullmatch(name)
    if found is None:
        return name, 1
    network, count = found.groups()
    if not count.isdecimal() or len(count) > _LONGEST_COUNT or int(count) < 1:
        raise BackboneError(
            f"/layers{count[:20]} was given; expected a whole number from 1, such as /layers4 for the last four layers."
        )
    if _ASKS_FOR_LAYERS.fullmatch(network):
        raise BackboneError(f"The end of the name {name[-40:]!r} asks for layers twice. Leave one of them out.")
    return network, int(count)


def with_layers(network: str, layers: int) -> str:
    """The name of a network of which the last ``layers`` layers are wanted."""
    return network if layers == 1 else f"{network}/layers{layers}"


def layers_mark(layers: int) -> list[bytes]:
    """What the choice of layers adds to a fingerprint: nothing where it is the usual one."""
    return [] if layers == 1 else [f"/layers{layers}".encode()]


def require_layers(network: str, wanted: int, found: int) -> None:
    """Refuse to give more layers than a network has.

    Parameters
    ----------
    network : str
        Its name.
    wanted, found : int
        How many layers were asked for, and how many it can give.
    """
    if wanted > found:
        raise BackboneError(
            f"The last {wanted} layers of {network} were asked for, and it has {found} to give. "
            f"Ask for fewer: {with_layers(network, found)} gives all of them."
        )
