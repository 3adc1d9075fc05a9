"""A model of timm, with weights that nobody has trained, is a backbone."""

import sys

sys.path.pop(0)  # this file would be taken for the package of the same name

from PIL import Image

from gddsg.backbones.timm_models import TimmBackbone

backbone = TimmBackbone("resnet10t", "cpu", pretrained=False)
assert backbone.embed(backbone.preprocess(Image.new("RGB", (300, 200)))[None]).shape == (1, backbone.feature_dim)
