"""The learners, one method a file; :data:`LEARNERS` lists them all."""

from __future__ import annotations

from typing import Any

from gddsg.learners.acil import ACIL
from gddsg.learners.adam import ADAM
from gddsg.learners.anacp import AnaCP
from gddsg.learners.apd import APD
from gddsg.learners.apd_fix import APDfix
from gddsg.learners.base import FeatureLearner, ImageLearner, Learner, Learnt, NotLearntError, ProjectionLearner
from gddsg.learners.coda_prompt import CODAPrompt
from gddsg.learners.discriminant import Discriminant
from gddsg.learners.dualprompt import DualPrompt
from gddsg.learners.ease import EASE
from gddsg.learners.fecam import FeCAM
from gddsg.learners.finetune import Finetune
from gddsg.learners.gacl import GACL
from gddsg.learners.gddsg import GDDSG
from gddsg.learners.gddsg_paper import PaperGDDSG
from gddsg.learners.gddsg_tuned import TunedGDDSG
from gddsg.learners.halrp import HALRP
from gddsg.learners.joint_logistic import JointLogistic
from gddsg.learners.joint_ridge import JointRidge
from gddsg.learners.klda import KLDA
from gddsg.learners.l2p import L2P
from gddsg.learners.layup import LayUP
from gddsg.learners.loranpac import LoRanPAC
from gddsg.learners.lr_rgda import LRRGDA
from gddsg.learners.nearest_reservoir import NearestReservoir
from gddsg.learners.randumb import RanDumb
from gddsg.learners.ranpac import RanPAC
from gddsg.learners.ranpac_tuned import TunedRanPAC
from gddsg.learners.simplecil import SimpleCIL
from gddsg.learners.slda import SLDA

LEARNERS: dict[str, type[Learner[Any]]] = {
    "gddsg": GDDSG,
    "discriminant": Discriminant,
    "gddsg_paper": PaperGDDSG,
    "simplecil": SimpleCIL,
    "ranpac": RanPAC,
    "slda": SLDA,
    "fecam": FeCAM,
    "klda": KLDA,
    "layup": LayUP,
    "acil": ACIL,
    "lr_rgda": LRRGDA,
    "anacp": AnaCP,
    "gacl": GACL,
    "loranpac": LoRanPAC,
    "randumb": RanDumb,
    "nearest_reservoir": NearestReservoir,
    "joint_ridge": JointRidge,
    "joint_logistic": JointLogistic,
    "finetune": Finetune,
    "adam": ADAM,
    "ease": EASE,
    "ranpac_tuned": TunedRanPAC,
    "gddsg_tuned": TunedGDDSG,
    "l2p": L2P,
    "dualprompt": DualPrompt,
    "coda_prompt": CODAPrompt,
    "apd": APD,
    "apd_fix": APDfix,
    "halrp": HALRP,
}
"""Every learner by name."""

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
    "Discriminant",
    "DualPrompt",
    "FeCAM",
    "FeatureLearner",
    "Finetune",
    "ImageLearner",
    "JointLogistic",
    "JointRidge",
    "LayUP",
    "Learner",
    "Learnt",
    "LoRanPAC",
    "NearestReservoir",
    "NotLearntError",
    "PaperGDDSG",
    "ProjectionLearner",
    "RanDumb",
    "RanPAC",
    "SimpleCIL",
    "TunedGDDSG",
    "TunedRanPAC",
]
