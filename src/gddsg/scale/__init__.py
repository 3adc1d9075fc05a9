"""Learning on Ray: any number of workers, on one machine or many, and the same cards whatever their number.

::

    sources ─▶ survey (read, hash) ─▶ settling ─▶ units ─▶ workers: embed ─▶ partials ─▶ merged by number ─▶ store

:mod:`~gddsg.scale.engine` puts the steps together. What a unit of work holds is a matter of the sources alone, and
partials are merged in a tree over the numbers of their units; who did the work, and when, leaves no trace in the model.
"""

from typing import TYPE_CHECKING

from gddsg.lazy import lazy_names
from gddsg.scale.sizes import Sizes

if TYPE_CHECKING:
    from gddsg.scale.engine import learn

__all__ = ["Sizes", "learn"]

__getattr__ = lazy_names(__name__, {"learn": "gddsg.scale.engine"})
