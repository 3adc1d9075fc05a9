"""The learners, one method a file; :data:`LEARNERS` lists them all."""

from __future__ import annotations

from gddsg.learners.base import Learner, NotLearntError
from gddsg.learners.gddsg import GDDSG
from gddsg.learners.ranpac import RanPAC
from gddsg.learners.simplecil import SimpleCIL

LEARNERS: dict[str, type[Learner]] = {"gddsg": GDDSG, "simplecil": SimpleCIL, "ranpac": RanPAC}
"""Every learner by name; all take ``projection_dim`` and ``seed``."""

__all__ = ["GDDSG", "LEARNERS", "Learner", "NotLearntError", "RanPAC", "SimpleCIL"]
