"""A learner that trains a network on images, for a few steps."""

import numpy as np

from gddsg import Finetune

dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
model = Finetune("toy-vit", {"epochs": 5, "augment": False}).partial_fit(images, labels)
assert model.predict(light)[0] == "light"
