"""The published method, whose vote includes LightGBM."""

import numpy as np

from gddsg import PaperGDDSG

draw = np.random.default_rng(0)
X, y = draw.normal(size=(120, 8)) + 4 * np.eye(6, 8)[np.arange(120) % 6], np.array(list("abcdef"))[np.arange(120) % 6]
model = PaperGDDSG(projection_dim=64).partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
assert np.mean(model.predict(X) == y) > 0.5
