"""More than the last layer of a network: ``efficientnet-lite0/layers4``."""

from __future__ import annotations

from dataclasses import replace

from gddsg.backbones.names import PartName
from gddsg.errors import BackboneError


def layers_mark(layers: int) -> list[bytes]:
    """What the choice of layers adds to a fingerprint: nothing where it is the usual one."""
    return [] if layers == 1 else [f"/layers{layers}".encode()]


def require_layers(part: PartName, found: int) -> None:
    """Refuse to give more layers than a network has.

    Parameters
    ----------
    part : PartName
        What was asked for.
    found : int
        How many layers the network can give.
    """
    if part.layers > found:
        raise BackboneError(
            f"The last {part.layers} layers of {replace(part, layers=1)} were asked for, and it has {found} to give. "
            f"Ask for fewer: {replace(part, layers=found)} gives all of them."
        )
