"""Forgetting a class and merging two models, both exactly: nothing is trained again, and nothing is left behind.

The pictures are letters and digits in many typefaces, which come with this library, and so does the network that
turns them into features.
"""

import numpy as np
from PIL import Image

from gddsg import GDDSG
from gddsg.backbones import load_backbone
from gddsg.data.glyphs import glyphs

CLASSES = ["capital A", "capital B", "digit 8", "small g", "small q", "Greek small theta"]

backbone = load_backbone(device="cpu")
train, test = glyphs(n_train=6, n_test=4, classes=CLASSES)


def features(photos):
    """What the network sees in some photos, and their labels."""
    images = np.stack([backbone.preprocess(Image.fromarray(photo.pixels)) for photo in photos])
    return backbone.embed(images), np.array([photo.label for photo in photos])


def model_of(*classes: str) -> GDDSG:
    """A model that knows these classes."""
    wanted = np.isin(y, classes)
    return GDDSG(projection_dim=300, backbone=backbone.identity).fit(X[wanted], y[wanted])


X, y = features(train)
X_test, y_test = features(test)
whole = model_of(*CLASSES)
print(f"{len(CLASSES)} classes: {np.sum(whole.predict(X_test) == y_test)} of {len(y_test)} new glyphs are recognised")

never_learnt = model_of(*(name for name in CLASSES if name != "digit 8"))
whole.forget("digit 8")
same = np.array_equal(whole.predict_proba(X_test), never_learnt.predict_proba(X_test))
print(f"Without the digit 8 it is as if it had never been learnt, bit by bit: {'yes' if same else 'no'}")

monday, tuesday = model_of("capital A", "small g", "digit 8"), model_of("capital B", "small q", "Greek small theta")
week, at_once = monday.merge(tuesday), model_of(*CLASSES)
same = np.array_equal(week.predict_proba(X_test), at_once.predict_proba(X_test))
print(f"Two models of three classes merge into the one that learnt all six at once: {'yes' if same else 'no'}")
print(f"It knows: {', '.join(week.classes_)}")
