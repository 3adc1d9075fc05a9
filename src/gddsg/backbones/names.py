"""Names of backbones, read and written here alone.

::

    name    = part {"+" part}                      features of all parts, side by side
    part    = network ["@" pixels] ["/layers" n]   height and width of its input; how many of its last layers
    network = "efficientnet-lite0", … | "hybrid-vit" | preset | "hf:" name or folder | "timm:" name

A network at its own size is written without it. A plus divides a name only where the name of a backbone begins behind
it, so that a folder may have one in its path; and a folder that ends like a size, layers or another part is meant by a
slash at its end, ``hf:models/net@288/``. A model remembers ``name@fingerprint``: the last @ is the one before the
fingerprint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gddsg.errors import BackboneError

EMBEDDED = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
"""Those whose weights this package knows byte for byte, and their own sizes; all others are whatever is found under
their name."""

HYBRID = "hybrid-vit"
"""A compact transformer on top of the first of them, whose weights come with this package."""

PRESETS = {
    "vit-b16": "hf:google/vit-base-patch16-224-in21k",
    "resnet50": "hf:microsoft/resnet-50",
    "resnet18": "hf:microsoft/resnet-18",
}
"""The paper's three backbones under short names."""

SOURCES = ("hf", "timm")
"""What comes before the colon in names of backbones from outside."""

LEAST_SIZE, LARGEST_SIZE = 32, 1024
"""Pixels: below, networks have no map left to look at; above, an image takes gigabytes on its way through them."""

LONGEST_NAME = 1000
"""Characters of a whole name."""

_OWN_SIZES = EMBEDDED | {HYBRID: EMBEDDED["efficientnet-lite0"]}
_MOST_PARTS = 8
_LONGEST_NUMBER = 4
_SHORT_NAMES = "|".join(map(re.escape, (*_OWN_SIZES, *PRESETS)))
_BETWEEN_PARTS = re.compile(
    rf"\+(?=(?:{'|'.join(SOURCES)}):|(?:{_SHORT_NAMES})(?:@[0-9]+)?(?:/layers[-.0-9]+)?(?:\+|\Z))"
)
_ASKS_FOR_LAYERS = re.compile(r"(.+)/layers([-+.0-9]+)", re.DOTALL)
_ASKS_FOR_SIZE = re.compile(r"(.+)@([0-9]+)", re.DOTALL)


@dataclass(frozen=True)
class PartName:
    """What a name asks for of one network.

    Attributes
    ----------
    network : str
        Its name, presets spelt out.
    size : int or None
        Height and width of its input in pixels; None for its own.
    layers : int
        How many of its last layers.
    """

    network: str
    size: int | None = None
    layers: int = 1

    def __str__(self) -> str:
        """The part in the one way it is written."""
        size = "" if self.size is None else f"@{self.size}"
        return f"{self.network}{size}" + ("" if self.layers == 1 else f"/layers{self.layers}")

    @property
    def source(self) -> str:
        """Of :data:`SOURCES` the one it comes from; empty for what is embedded."""
        source = self.network.partition(":")[0]
        return source if source in SOURCES else ""

    @property
    def pixels(self) -> int | None:
        """Height and width of its input, None where only the network itself could tell."""
        return _OWN_SIZES.get(self.network) if self.size is None else self.size


def split_name(name: str) -> tuple[PartName, ...]:
    """The parts of a name, whether or not there is such a backbone.

    Parameters
    ----------
    name : str
        As for :func:`gddsg.backbones.load_backbone`.

    Examples
    --------
    >>> [str(part) for part in split_name("efficientnet-lite0@224/layers04+resnet18@288")]
    ['efficientnet-lite0/layers4', 'hf:microsoft/resnet-18@288']
    >>> split_name("hf:my+folder@288")
    (PartName(network='hf:my+folder', size=288, layers=1),)
    """
    return tuple(_part(text) for text in _BETWEEN_PARTS.split(name))


def spell_out(name: str) -> str:
    """The name in the one way it is written, presets spelt out, whether or not there is such a backbone.

    Parameters
    ----------
    name : str
        As for :func:`gddsg.backbones.load_backbone`.

    Examples
    --------
    >>> spell_out("resnet18/layers03"), spell_out("efficientnet-lite0@224/layers1")
    ('hf:microsoft/resnet-18/layers3', 'efficientnet-lite0')
    """
    return "+".join(map(str, split_name(name)))


def resolve_name(name: str) -> str:
    """The name in full: presets spelt out; what cannot be the name of a backbone is an error. Nothing is looked up.

    Parameters
    ----------
    name : str
        As for :func:`gddsg.backbones.load_backbone`.
    """
    parts = split_name(name)
    full = "+".join(map(str, parts))
    if not all(_can_be(part) for part in parts) or not can_be_kept(full):
        known = ", ".join([*_OWN_SIZES, *PRESETS])
        raise BackboneError(
            f"There is no backbone {name[:LONGEST_NAME]!r}. Choose one of {known}, or hf:NAME, hf:FOLDER, timm:NAME. "
            "For an input of 288 pixels, say, put @288 behind its name; for its last four layers put /layers4 behind "
            "its name; for two side by side put + between their names."
        )
    if len(set(parts)) < len(parts):
        raise BackboneError(f"{name!r} asks for one backbone twice, which tells nothing new. Leave one of them out.")
    if len(parts) > _MOST_PARTS:
        raise BackboneError(f"{name!r} has {len(parts)} parts; expected {_MOST_PARTS} at most.")
    return full


def can_be_kept(name: str) -> bool:
    """Whether a model file may hold that name.

    Parameters
    ----------
    name : str
        Any text.
    """
    return name.isprintable() and len(name) <= LONGEST_NAME


def _can_be(part: PartName) -> bool:
    return part.network in _OWN_SIZES or (part.source != "" and len(part.network) > len(part.source) + 1)


def _part(text: str) -> PartName:
    network, layers = _split_layers(text)
    network, size = _split_size(network)
    if _ASKS_FOR_LAYERS.fullmatch(network) or _ASKS_FOR_SIZE.fullmatch(network):
        raise BackboneError(
            f"The end of the name {text[-40:]!r} asks for layers or a size twice, or for layers before the size. Write "
            "each once, and the size first, as in efficientnet-lite0@288/layers4."
        )
    network = PRESETS.get(network, network)
    return PartName(network, None if size == _OWN_SIZES.get(network) else size, layers)


def _split_layers(text: str) -> tuple[str, int]:
    found = _ASKS_FOR_LAYERS.fullmatch(text)
    if found is None:
        return text, 1
    network, count = found.groups()
    if not count.isdecimal() or len(count) > _LONGEST_NUMBER or int(count) < 1:
        raise BackboneError(
            f"/layers{count[:20]} was given; expected a whole number from 1, such as /layers4 for the last four layers."
        )
    return network, int(count)


def _split_size(text: str) -> tuple[str, int | None]:
    found = _ASKS_FOR_SIZE.fullmatch(text)
    if found is None:
        return text, None
    network, pixels = found.groups()
    if len(pixels) > _LONGEST_NUMBER or not LEAST_SIZE <= int(pixels) <= LARGEST_SIZE:
        folder = " A folder of that name is meant by a slash at its end." if network.startswith("hf:") else ""
        raise BackboneError(
            f"@{pixels[:20]} was given; expected an input size from {LEAST_SIZE} to {LARGEST_SIZE} pixels, such as "
            f"@288.{folder}"
        )
    return network, int(pixels)
