"""Contract checks: each function's name is the law it holds a learner to."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from gddsg.errors import InputError
from gddsg.learners.base import Learner, NotLearntError

Check = Callable[[Learner], None]
Features = NDArray[np.float32]
Labels = NDArray[Any]


def yield_checks(learner: Learner | type[Learner] | None = None) -> Iterator[Check]:
    """All laws, one function each, or those that ``learner`` is not exempt from; call each with an unfitted learner."""
    exempt = {} if learner is None else learner.exempt
    yield from (check for check in _CHECKS if check.__name__ not in exempt)


def check_learner(learner: Learner) -> None:
    """Hold a learner to every law it is not exempt from; raises ``AssertionError`` at the first one it breaks."""
    for check in yield_checks(learner):
        check(clone(learner))


def separated_classes(n_classes: int = 6, n: int = 30, dim: int = 12, seed: int = 0) -> tuple[Features, Labels]:
    """Well separated classes of non-negative features, labelled ``c00``, ``c01`` and so on."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 8, (n_classes, dim))
    X = np.concatenate([np.abs(rng.normal(centre, 0.5, (n, dim))) for centre in centres])
    return X.astype(np.float32), np.repeat([f"c{c:02d}" for c in range(n_classes)], n)


def _law(holds: Any, message: str) -> None:
    if not bool(holds):
        raise AssertionError(message)


def _refuses(error: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except error as raised:
        _law(len(str(raised)) > 20, f"{what} was refused with too short a message: {raised}")
        return
    raise AssertionError(f"{what} was not refused with {error.__name__}.")


def init_only_stores_params(learner: Learner) -> None:
    """A new learner holds its parameters and nothing else."""
    _law(vars(learner) == learner.get_params(deep=False), "__init__ must store its arguments and nothing else")


def predicting_before_learning_is_refused(learner: Learner) -> None:
    """Without a class there is nothing to predict."""
    _refuses(NotLearntError, lambda: learner.predict(separated_classes()[0]), "Predicting before learning")


def learning_returns_self_and_keeps_inputs_unchanged(learner: Learner) -> None:
    """Learning neither changes nor keeps the caller's arrays."""
    X, y = separated_classes()
    before = X.copy()
    _law(learner.partial_fit(X, y) is learner, "partial_fit must return the learner")
    probabilities = learner.predict_proba(before)
    _law(np.array_equal(X, before), "partial_fit changed its input")
    X[:] = 0
    _law(np.array_equal(probabilities, learner.predict_proba(before)), "the learner keeps a reference to its input")


def classes_grow_and_scores_have_a_column_each(learner: Learner) -> None:
    """Classes are those learnt so far, sorted; nothing about later ones is known."""
    X, y = separated_classes()
    for seen in (2, 4, 6):
        new = np.isin(y, np.unique(y)[seen - 2 : seen])
        learner.partial_fit(X[new], y[new])
        _law(list(learner.classes_) == list(np.unique(y)[:seen]), "classes_ must list the classes learnt so far")
        _law(learner.predict_proba(X).shape == (len(X), seen), "predict_proba must have one column a class")
        _law(np.isin(learner.predict(X), learner.classes_).all(), "only learnt classes may be predicted")


def probabilities_are_probabilities_and_agree_with_labels(learner: Learner) -> None:
    """Rows sum to one and the likeliest class is the label."""
    X, y = separated_classes()
    table = learner.partial_fit(X, y).predict_proba(X)
    _law(np.allclose(table.sum(1), 1) and (table >= 0).all(), "rows of predict_proba must be probabilities")
    _law((learner.classes_[table.argmax(1)] == learner.predict(X)).all(), "predict must be the likeliest class")


def separated_classes_are_told_apart(learner: Learner) -> None:
    """Fresh samples of well separated classes are recognised."""
    X, y = separated_classes()
    rng = np.random.default_rng(1)
    fresh = np.abs(X + rng.normal(0, 0.3, X.shape)).astype(np.float32)
    _law(np.mean(learner.partial_fit(X, y).predict(fresh) == y) >= 0.9, "separated classes must be told apart")


def a_row_is_predicted_by_itself(learner: Learner) -> None:
    """The other rows of a batch, their order and their number do not matter: no leak at prediction."""
    X, y = separated_classes()
    X = X + np.random.default_rng(2).normal(0, 2, X.shape).astype(np.float32)
    together = learner.partial_fit(X, y).predict_proba(X)
    shuffled = np.random.default_rng(0).permutation(len(X))
    _law(np.allclose(learner.predict_proba(X[shuffled]), together[shuffled], atol=1e-6), "the order of rows matters")
    alone = np.concatenate([learner.predict_proba(X[i : i + 1]) for i in range(0, len(X), 7)])
    _law(np.allclose(alone, together[::7], atol=1e-6), "the other rows of the batch matter")


def arrival_order_does_not_matter(learner: Learner) -> None:
    """Whatever the order of classes and the size of tasks, the same model comes out."""
    X, y = separated_classes(7)
    X = X + np.random.default_rng(3).normal(0, 2, X.shape).astype(np.float32)
    expected = clone(learner).partial_fit(X, y).predict_proba(X)
    names = np.unique(y)
    for seed, size in ((0, 1), (1, 2), (2, 3)):
        model = clone(learner)
        order = np.random.default_rng(seed).permutation(names)
        for start in range(0, len(order), size):
            rows = np.isin(y, order[start : start + size])
            model.partial_fit(X[rows], y[rows])
            model.predict(X[:3])  # looking at a half-grown model must not change what it grows into
        _law(np.allclose(model.predict_proba(X), expected, atol=1e-6), f"tasks of {size} in order {seed} differ")


def sample_order_does_not_matter(learner: Learner) -> None:
    """Shuffling the samples of a batch changes nothing."""
    X, y = separated_classes()
    X = X + np.random.default_rng(4).normal(0, 2, X.shape).astype(np.float32)
    shuffled = np.random.default_rng(0).permutation(len(X))
    expected = clone(learner).partial_fit(X, y).predict_proba(X)
    _law(np.allclose(learner.partial_fit(X[shuffled], y[shuffled]).predict_proba(X), expected, atol=1e-6), "it matters")


def classes_may_come_back(learner: Learner) -> None:
    """More samples of a known class add to it; nothing is replaced."""
    X, y = separated_classes()
    first = np.arange(len(X)) % 2 == 0
    learner.partial_fit(X[first], y[first]).partial_fit(X[~first], y[~first])
    _law(list(learner.classes_) == list(np.unique(y)), "a class that came back was counted twice")
    _law(np.mean(learner.predict(X) == y) >= 0.9, "a class that came back was damaged")


def renaming_classes_renames_predictions(learner: Learner) -> None:
    """Class names are names: numbers, strings and their order carry no meaning."""
    X, y = separated_classes()
    names = np.unique(y)
    renamed = {name: f"x{len(names) - i}" for i, name in enumerate(names)}
    before = clone(learner).partial_fit(X, y).predict(X)
    after = learner.partial_fit(X, np.array([renamed[label] for label in y])).predict(X)
    _law((after == np.array([renamed[label] for label in before])).all(), "renaming changed predictions")


def same_seed_same_predictions_and_global_seeds_untouched(learner: Learner) -> None:
    """All randomness comes from ``seed``; nobody else's generator is touched."""
    X, y = separated_classes()
    numpy_state, torch_state = _numpy_state(), torch.get_rng_state()
    first = clone(learner).partial_fit(X, y).predict_proba(X)
    _law(_numpy_state() == numpy_state, "NumPy's global seed was touched")
    _law(torch.equal(torch.get_rng_state(), torch_state), "torch's global seed was touched")
    _law(np.array_equal(learner.partial_fit(X, y).predict_proba(X), first), "the same seed gave another model")


def _numpy_state() -> str:
    return str(np.random.get_state(legacy=False))  # noqa: NPY002


def pickling_keeps_predictions(learner: Learner) -> None:
    """A pickled learner comes back as it was."""
    X, y = separated_classes()
    learner.partial_fit(X, y)
    copy = pickle.loads(pickle.dumps(learner))
    _law(np.array_equal(copy.predict_proba(X), learner.predict_proba(X)), "a pickle came back different")


def state_does_not_grow_with_samples(learner: Learner) -> None:
    """No sample is kept: five times the samples take the same room."""
    sizes = []
    for n in (120, 600):
        X, y = separated_classes(3, n)
        sizes.append(len(pickle.dumps(clone(learner).partial_fit(X, y))))
    _law(sizes[1] <= sizes[0] * 1.05, f"state grew from {sizes[0]} to {sizes[1]} bytes")


def odd_classes_are_learnt(learner: Learner) -> None:
    """One class, one sample and constant features are data like any other."""
    X, y = separated_classes()
    _law((clone(learner).partial_fit(X[:1], y[:1]).predict(X[:3]) == y[0]).all(), "one sample of one class")
    singles = clone(learner).partial_fit(X[::30], y[::30])
    _law((singles.predict(X[::30]) == y[::30]).all(), "classes of one sample each")
    constant = clone(learner).partial_fit(np.ones((4, 3)), ["a", "a", "b", "b"])
    _law(np.isfinite(constant.predict_proba(np.ones((2, 3)))).all(), "constant features")
    mixed = clone(learner).partial_fit(X, y).partial_fit(X[:1] + 30, ["lonely"])
    _law(mixed.predict(X[:1] + 30)[0] == "lonely", "a class of one sample beside larger ones")


def tensors_and_lists_come_back_as_they_went_in(learner: Learner) -> None:
    """The kind of container that comes in goes out."""
    X, y = separated_classes()
    numbers = np.unique(y, return_inverse=True)[1]
    learner.partial_fit(torch.from_numpy(X), torch.from_numpy(numbers))
    _law(isinstance(learner.predict(torch.from_numpy(X)), torch.Tensor), "a tensor must give a tensor")
    _law(isinstance(learner.predict_proba(X[:2].tolist()), list), "nested lists must give lists")
    _law(isinstance(learner.predict(X), np.ndarray), "an array must give an array")


def parameters_changed_after_learning_are_refused(learner: Learner) -> None:
    """What was learnt with one projection cannot be mixed with another; ``fit`` starts anew."""
    X, y = separated_classes()
    learner.partial_fit(X, y).set_params(seed=learner.seed + 1)
    _refuses(InputError, lambda: learner.partial_fit(X, y), "Learning with another seed")
    _refuses(InputError, lambda: learner.predict(X), "Predicting with another seed")
    _law(np.mean(learner.fit(X, y).predict(X) == y) >= 0.9, "fit must start anew with the new parameters")


def bad_input_is_refused_and_nothing_is_lost(learner: Learner) -> None:
    """Bad batches raise an :class:`InputError` and leave the learner as it was."""
    X, y = separated_classes()
    learner.partial_fit(X, y)
    before = learner.predict_proba(X)
    bad = X.copy()
    bad[3, 4] = np.nan
    batches: dict[str, tuple[Any, Any]] = {
        "NaN": (bad, y),
        "infinity": (np.where(np.isnan(bad), np.inf, bad), y),
        "a NaN tensor": (torch.from_numpy(bad), y),
        "too wide a batch": (np.hstack([X, X]), y),
        "too wide a tensor": (torch.from_numpy(np.hstack([X, X])), y),
        "an empty batch": (X[:0], y[:0]),
        "an empty tensor": (torch.empty(0, X.shape[1]), y[:0]),
        "one vector": (X[0], y[:1]),
        "too few labels": (X, y[:-1]),
        "labels of another type": (X, np.arange(len(X))),
        "labels of mixed type": (X[:2], ["c00", 1]),
        "rows without label": (X[:2], ["c00", None]),
        "NaN labels": (X[:2], [1.0, float("nan")]),
        "no labels": (X, None),
        "huge numbers": (X * 1e20, y),
    }
    for what, (features, labels) in batches.items():
        _refuses(InputError, lambda f=features, t=labels: learner.partial_fit(f, t), what)  # type: ignore[misc]
        _law(np.array_equal(learner.predict_proba(X), before), f"{what} changed the learner")
    _refuses(InputError, lambda: learner.predict(bad), "Predicting NaN")
    _refuses(InputError, lambda: learner.predict(X[:, :3]), "Predicting other features")


_CHECKS: tuple[Check, ...] = (
    init_only_stores_params,
    predicting_before_learning_is_refused,
    learning_returns_self_and_keeps_inputs_unchanged,
    classes_grow_and_scores_have_a_column_each,
    probabilities_are_probabilities_and_agree_with_labels,
    separated_classes_are_told_apart,
    a_row_is_predicted_by_itself,
    arrival_order_does_not_matter,
    sample_order_does_not_matter,
    classes_may_come_back,
    renaming_classes_renames_predictions,
    same_seed_same_predictions_and_global_seeds_untouched,
    pickling_keeps_predictions,
    state_does_not_grow_with_samples,
    odd_classes_are_learnt,
    tensors_and_lists_come_back_as_they_went_in,
    parameters_changed_after_learning_are_refused,
    bad_input_is_refused_and_nothing_is_lost,
)
