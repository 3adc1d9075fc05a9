"""A larger embedded backbone looks at a picture."""

import numpy as np
from PIL import Image

from gddsg.backbones import load_backbone

backbone = load_backbone("efficientnet-lite1", device="cpu")
features = backbone.embed(backbone.preprocess(Image.new("RGB", (300, 200), "red"))[None])
assert features.shape == (1, backbone.feature_dim)
assert np.isfinite(features).all()
