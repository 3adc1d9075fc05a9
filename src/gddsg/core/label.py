"""What a class is called."""

from __future__ import annotations

Label = int | str
"""The labels of one model are all ``int`` or all ``str``."""
