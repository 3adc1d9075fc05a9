"""Features of your own: learn classes as they come, ask for labels, probabilities and reasons, keep the model.

The features are drawn here: 12 classes, 40 samples each, 32 numbers a sample. Yours come from any network.
"""

import tempfile
from pathlib import Path

import numpy as np

from gddsg import GDDSG

CLASSES = ["ant", "bee", "cat", "cow", "dog", "elk", "fox", "hen", "jay", "owl", "pig", "rat"]

draw = np.random.default_rng(0)
centres = {name: draw.normal(size=32) for name in CLASSES}
centres["rat"] = centres["cat"] + draw.normal(size=32) / 2  # two that look alike
train = {name: centres[name] + draw.normal(size=(40, 32)) for name in CLASSES}
test = {name: centres[name] + draw.normal(size=(20, 32)) for name in CLASSES}


def learnt(order: list[str]) -> GDDSG:
    """A model that was shown the classes in this order, three at a time."""
    model = GDDSG(projection_dim=500)
    for start in range(0, len(order), 3):
        some = order[start : start + 3]
        model.partial_fit(np.concatenate([train[name] for name in some]), np.repeat(some, 40))
    return model


forwards, backwards = learnt(CLASSES), learnt(CLASSES[::-1])
inputs, truth = np.concatenate(list(test.values())), np.repeat(CLASSES, 20)
print(f"Right: {np.mean(forwards.predict(inputs) == truth):.0%} of {len(truth)} test samples of {len(CLASSES)} classes")
same = np.array_equal(forwards.predict_proba(inputs), backwards.predict_proba(inputs))
print(f"Classes in the opposite order give the same probabilities, bit by bit: {'yes' if same else 'no'}")
print(f"Look-alikes: {', '.join(' and '.join(pair) for pair in forwards.similarity_graph_.to_networkx().edges)}")
print(f"What speaks for a cat, and what against:\n{forwards.explain(test['cat'][3])}")

with tempfile.TemporaryDirectory() as folder:
    forwards.save(Path(folder) / "animals.gddsg")
    again = GDDSG.load(Path(folder) / "animals.gddsg")
print(f"After saving and loading it says of the first owl: {again.predict(test['owl'][:1])[0]}")
