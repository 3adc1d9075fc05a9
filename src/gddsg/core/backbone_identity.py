"""What a model remembers of its backbone: ``name@fingerprint``."""

from __future__ import annotations

import re

_FINGERPRINT = re.compile(r".*@([0-9a-f]{16})", re.DOTALL)


def same_backbone(first: str | None, second: str | None) -> bool:
    """Whether features of two backbones go together: their fingerprints are equal, or else their whole names.

    Parameters
    ----------
    first, second : str or None
        As :class:`gddsg.core.model.Settings` keeps them. A name may be the place of a folder, which is another one on
        another machine.

    Examples
    --------
    >>> same_backbone("hf:/a/net@0123456789abcdef", "hf:/b/net@0123456789abcdef"), same_backbone("a@1", "b@1")
    (True, False)
    """
    prints = [found[1] for name in (first, second) if (found := _FINGERPRINT.fullmatch(name or ""))]
    return first == second or (len(prints) == 2 and prints[0] == prints[1])
