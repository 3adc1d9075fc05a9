"""Learn handwritten digits two classes at a time, in two opposite orders, without keeping a single sample."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from gddsg import GDDSG, LEARNERS
from gddsg.evaluation import average_accuracy


def grow(model, X, y, order, X_test, y_test):  # noqa: ANN001, ANN201, D103
    line = []
    for start in range(0, len(order), 2):
        rows = np.isin(y, order[start : start + 2])
        model.partial_fit(X[rows], y[rows])
        seen = np.isin(y_test, order[: start + 2])
        line.append(100 * average_accuracy(y_test[seen], model.predict(X_test[seen])))
    return line


def main() -> None:  # noqa: D103
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    print(f"Digits: {len(X)} images of 10 classes to learn, {len(X_test)} to be tested on, features are the pixels.")
    print("Two new classes a task; after every task: mean accuracy (%) over all classes seen so far.\n")
    print(f"{'learner':<12}{'class order':<14}" + "".join(f"{'task ' + str(t):>8}" for t in range(1, 6)))
    finals = {}
    for name, learner in LEARNERS.items():
        for order_name, order in (("0 to 9", np.arange(10)), ("9 to 0", np.arange(10)[::-1])):
            model = learner(projection_dim=500, seed=0)
            line = grow(model, X, y, order, X_test, y_test)
            finals[name, order_name] = model
            print(f"{name:<12}{order_name:<14}" + "".join(f"{value:8.1f}" for value in line))

    model, other = finals["gddsg", "0 to 9"], finals["gddsg", "9 to 0"]
    same = all(model.cards_[label] == other.cards_[label] for label in model.classes_.tolist())
    print(f"\nBoth orders end in the same gddsg model, bit by bit: {same}")
    groups = " ".join("{" + " ".join(map(str, group)) + "}" for group in model.class_groups_)
    print(f"Class groups (digits that look alike are kept apart): {groups}")

    print("\nWhy is this image what the model says it is?")
    unsure = np.argsort(model.predict_proba(X_test).max(1))[0]
    print(f"{model.explain(X_test[unsure])}\n(It is a {y_test[unsure]}.)")

    noise = np.random.default_rng(0).uniform(0, 16, (200, 64))
    kept = np.mean(model.predict(X_test, reject=0.99, unknown=-1) != -1)
    refused = np.mean(model.predict(noise, reject=0.99, unknown=-1) == -1)
    print("\nAsked to keep 99 % of known inputs", end=" ")
    print(f"it keeps {100 * kept:.1f} % of the digits and refuses {100 * refused:.1f} % of pure noise.")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.gddsg"
        model.save(path)
        again = GDDSG.load(path)
        equal = np.array_equal(again.predict_proba(X_test), model.predict_proba(X_test))
        print(f"Saved in {path.stat().st_size / 1e6:.1f} MB, loaded, and predicts the same: {equal}")
    again.forget(8)
    print(f"After forgetting 8 it knows {again.classes_.tolist()}, and takes an 8 for", end=" ")
    print(f"{np.bincount(again.predict(X_test[y_test == 8])).argmax()} most often.")


if __name__ == "__main__":
    main()
