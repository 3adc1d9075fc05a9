"""The published method, whose vote includes LightGBM."""

import numpy as np

from gddsg import PaperGDDSG

draw, numbers = np.random.default_rng(0), np.arange(120) % 6
# pairs of classes look alike, or there would be one group and nothing to vote on
X, y = draw.normal(size=(120, 8)) + 2 * np.eye(3, 8)[numbers % 3], np.array(list("abcdef"))[numbers]
model = PaperGDDSG(projection_dim=64).partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
assert np.mean(model.predict(X) == y) > 0.2
