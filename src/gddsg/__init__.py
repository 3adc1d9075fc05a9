"""Order-robust class-incremental learning on frozen backbones.

::

    image ─▶ backbone ─▶ features
    features, labels ─▶ class cards ─▶ similarity graph ─▶ colouring ─▶ class groups ─▶ one ridge head a group
    features ─▶ evidence per class ─▶ group probabilities ─▶ the group's head ─▶ label, probability, "unknown"
"""

from typing import TYPE_CHECKING

from gddsg.lazy import lazy_names

if TYPE_CHECKING:
    from gddsg.core.class_card import ClassCard
    from gddsg.learners import (
        ACIL,
        ADAM,
        APD,
        EASE,
        GACL,
        GDDSG,
        HALRP,
        KLDA,
        L2P,
        LEARNERS,
        LRRGDA,
        SLDA,
        AnaCP,
        APDfix,
        CODAPrompt,
        Discriminant,
        DualPrompt,
        FeCAM,
        Finetune,
        JointLogistic,
        JointRidge,
        LayUP,
        LoRanPAC,
        NearestReservoir,
        PaperGDDSG,
        RanDumb,
        RanPAC,
        SimpleCIL,
        TunedGDDSG,
        TunedRanPAC,
    )
    from gddsg.photos import PhotoClassifier

__version__ = "0.1.0"
__all__ = [
    "ACIL",
    "ADAM",
    "APD",
    "EASE",
    "GACL",
    "GDDSG",
    "HALRP",
    "KLDA",
    "L2P",
    "LEARNERS",
    "LRRGDA",
    "SLDA",
    "APDfix",
    "AnaCP",
    "CODAPrompt",
    "ClassCard",
    "Discriminant",
    "DualPrompt",
    "FeCAM",
    "Finetune",
    "JointLogistic",
    "JointRidge",
    "LayUP",
    "LoRanPAC",
    "NearestReservoir",
    "PaperGDDSG",
    "PhotoClassifier",
    "RanDumb",
    "RanPAC",
    "SimpleCIL",
    "TunedGDDSG",
    "TunedRanPAC",
    "__version__",
]

_HOMES = {
    "ACIL": "gddsg.learners",
    "ADAM": "gddsg.learners",
    "AnaCP": "gddsg.learners",
    "APD": "gddsg.learners",
    "APDfix": "gddsg.learners",
    "ClassCard": "gddsg.core.class_card",
    "CODAPrompt": "gddsg.learners",
    "Discriminant": "gddsg.learners",
    "DualPrompt": "gddsg.learners",
    "EASE": "gddsg.learners",
    "FeCAM": "gddsg.learners",
    "Finetune": "gddsg.learners",
    "GACL": "gddsg.learners",
    "GDDSG": "gddsg.learners",
    "HALRP": "gddsg.learners",
    "JointLogistic": "gddsg.learners",
    "JointRidge": "gddsg.learners",
    "KLDA": "gddsg.learners",
    "L2P": "gddsg.learners",
    "LayUP": "gddsg.learners",
    "LEARNERS": "gddsg.learners",
    "LoRanPAC": "gddsg.learners",
    "LRRGDA": "gddsg.learners",
    "NearestReservoir": "gddsg.learners",
    "PaperGDDSG": "gddsg.learners",
    "PhotoClassifier": "gddsg.photos",
    "RanDumb": "gddsg.learners",
    "RanPAC": "gddsg.learners",
    "SimpleCIL": "gddsg.learners",
    "SLDA": "gddsg.learners",
    "TunedGDDSG": "gddsg.learners",
    "TunedRanPAC": "gddsg.learners",
}


__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
