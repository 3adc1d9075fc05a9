"""Order-robust class-incremental learning on frozen features.

::

    features, labels ─▶ class cards ─▶ similarity graph ─▶ colouring ─▶ class groups ─▶ one ridge head a group
    features ─▶ evidence per class ─▶ group probabilities ─▶ the group's head ─▶ label, probability, "unknown"
"""

from gddsg.core.class_card import ClassCard
from gddsg.learners import GDDSG, LEARNERS, RanPAC, SimpleCIL

__version__ = "0.1.0"
__all__ = ["GDDSG", "LEARNERS", "ClassCard", "RanPAC", "SimpleCIL", "__version__"]
