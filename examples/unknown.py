"""Saying "unknown" to what is unlike every class, at a rate that you choose: the share of known inputs to be kept.

Features of 20 classes are drawn; the model learns 15 of them. The limit follows from the class cards alone: no example
of anything unknown is needed, and none was seen.
"""

import numpy as np

from gddsg import GDDSG

draw = np.random.default_rng(3)
names = np.array([f"class {number:02}" for number in range(20)])
centres = 0.8 * draw.normal(size=(20, 48))


def samples(classes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Some of each class, and their labels."""
    places = classes.repeat(count)
    return centres[places] + draw.normal(size=(len(places), 48)), names[places]


known, strange = np.arange(15), np.arange(15, 20)
model = GDDSG(projection_dim=500)
for task in np.split(known, 5):
    model.partial_fit(*samples(task, 60))

(X_known, y_known), (X_strange, _) = samples(known, 200), samples(strange, 200)
print("to be kept   known kept   of them right   strangers found")
for kept in (0.9, 0.99, 0.999):
    answers, of_strangers = model.predict(X_known, reject=kept), model.predict(X_strange, reject=kept)
    answered = answers != "unknown"
    right, found = np.mean(answers[answered] == y_known[answered]), np.mean(of_strangers == "unknown")
    print(f"{kept:10.1%}   {answered.mean():10.1%}   {right:13.1%}   {found:15.1%}")

print(f"Without reject a stranger is taken for the likeliest class: {model.predict(X_strange[:1])[0]}")
stranger = model.explain(X_strange[0])
print(f"How strange it is: {stranger.novelty:.2f}, where 99 % of known inputs are below {stranger.novelty_limit:.2f}")
