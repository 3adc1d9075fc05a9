"""Contract checks: each function's name is the law it holds a learner to."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from gddsg.checks.samples import Samples, equal_samples, lonely_sample, samples_for, separated_classes
from gddsg.errors import InputError
from gddsg.learners.base import Learner, NotLearntError

__all__ = ["Check", "check_learner", "separated_classes", "yield_checks"]

AnyLearner = Learner[Any]
Check = Callable[[AnyLearner], None]

_ROUNDING = 1e-6
_READERS = 4
_MANY_CLASSES = 300


def yield_checks(learner: AnyLearner | type[AnyLearner] | None = None) -> Iterator[Check]:
    """The laws, one function each; call each with an unfitted learner.

    Parameters
    ----------
    learner : Learner, optional
        Leaves out the laws that it is exempt from and those about inputs that it does not take; without it all come.
    """
    for check in _CHECKS:
        about_features = check in _ABOUT_FEATURES
        if learner is None or (
            check.__name__ not in learner.exempt and (learner.takes == "features" or not about_features)
        ):
            yield check


def check_learner(learner: AnyLearner) -> None:
    """Hold a learner to every law it is not exempt from; raises ``AssertionError`` at the first one it breaks."""
    for check in yield_checks(learner):
        check(clone(learner))


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


def init_only_stores_params(learner: AnyLearner) -> None:
    """A new learner holds its parameters and nothing else."""
    _law(vars(learner) == learner.get_params(deep=False), "__init__ must store its arguments and nothing else")


def predicting_before_learning_is_refused(learner: AnyLearner) -> None:
    """Without a class there is nothing to predict."""
    _refuses(NotLearntError, lambda: learner.predict(samples_for(learner).inputs), "Predicting before learning")


def learning_returns_self_and_keeps_inputs_unchanged(learner: AnyLearner) -> None:
    """Learning neither changes nor keeps the caller's arrays; images cannot be changed by anyone."""
    known = samples_for(learner)
    _law(learner.partial_fit(known.inputs, known.labels) is learner, "partial_fit must return the learner")
    if learner.takes == "features":
        X, before = known.inputs, samples_for(learner).inputs
        probabilities = learner.predict_proba(before)
        _law(np.array_equal(X, before), "partial_fit changed its input")
        X[:] = 0
        _law(np.array_equal(probabilities, learner.predict_proba(before)), "the learner keeps a reference to its input")


def classes_grow_and_scores_have_a_column_each(learner: AnyLearner) -> None:
    """Classes are those learnt so far, sorted; nothing about later ones is known."""
    known = samples_for(learner)
    X, y = known.inputs, known.labels
    for seen in (2, 4, 6):
        new = np.isin(y, np.unique(y)[seen - 2 : seen])
        learner.partial_fit(X[new], y[new])
        _law(list(learner.classes_) == list(np.unique(y)[:seen]), "classes_ must list the classes learnt so far")
        _law(learner.predict_proba(X).shape == (len(X), seen), "predict_proba must have one column a class")
        _law(np.isin(learner.predict(X), learner.classes_).all(), "only learnt classes may be predicted")


def probabilities_are_probabilities_and_agree_with_labels(learner: AnyLearner) -> None:
    """Rows sum to one and the likeliest class is the label."""
    known = samples_for(learner)
    table = learner.partial_fit(known.inputs, known.labels).predict_proba(known.inputs)
    _law(np.allclose(table.sum(1), 1) and (table >= 0).all(), "rows of predict_proba must be probabilities")
    labels = learner.predict(known.inputs)
    _law((learner.classes_[table.argmax(1)] == labels).all(), "predict must be the likeliest class")


def separated_classes_are_told_apart(learner: AnyLearner) -> None:
    """Fresh samples of well separated classes are recognised."""
    known = samples_for(learner)
    found = learner.partial_fit(known.inputs, known.labels).predict(known.fresh)
    _law(np.mean(found == known.labels) >= 0.9, "separated classes must be told apart")


def a_row_is_predicted_by_itself(learner: AnyLearner) -> None:
    """The other rows of a batch, their order and their number do not matter: no leak at prediction."""
    known = samples_for(learner, noise=2)
    X = known.inputs
    together = learner.partial_fit(X, known.labels).predict_proba(X)
    shuffled = np.random.default_rng(0).permutation(len(X))
    _law(_near(learner.predict_proba(X[shuffled]), together[shuffled]), "the order of rows matters")
    alone = np.concatenate([learner.predict_proba(X[i : i + 1]) for i in range(0, len(X), 7)])
    _law(_near(alone, together[::7]), "the other rows of the batch matter")


def arrival_order_does_not_matter(learner: AnyLearner) -> None:
    """Whatever the order of classes and the size of tasks, the same model comes out."""
    known = samples_for(learner, 7, noise=2)
    X, y = known.inputs, known.labels
    expected = clone(learner).partial_fit(X, y).predict_proba(X)
    for seed, size in ((0, 1), (1, 2), (2, 3)):
        model = clone(learner)
        order = np.random.default_rng(seed).permutation(np.unique(y))
        for start in range(0, len(order), size):
            rows = np.isin(y, order[start : start + size])
            model.partial_fit(X[rows], y[rows])
            model.predict(X[:3])  # looking at a half-grown model must not change what it grows into
        _law(_near(model.predict_proba(X), expected), f"tasks of {size} in order {seed} differ")


def sample_order_does_not_matter(learner: AnyLearner) -> None:
    """Shuffling the samples of a batch changes nothing."""
    known = samples_for(learner, noise=2)
    X, y = known.inputs, known.labels
    shuffled = np.random.default_rng(0).permutation(len(X))
    expected = clone(learner).partial_fit(X, y).predict_proba(X)
    _law(_near(learner.partial_fit(X[shuffled], y[shuffled]).predict_proba(X), expected), "it matters")


def classes_may_come_back(learner: AnyLearner) -> None:
    """More samples of a known class add to it; nothing is replaced."""
    known = samples_for(learner)
    X, y = known.inputs, known.labels
    first = np.arange(len(X)) % 2 == 0
    learner.partial_fit(X[first], y[first]).partial_fit(X[~first], y[~first])
    _law(list(learner.classes_) == list(np.unique(y)), "a class that came back was counted twice")
    _law(np.mean(learner.predict(X) == y) >= 0.9, "a class that came back was damaged")


def renaming_classes_renames_predictions(learner: AnyLearner) -> None:
    """Class names are names: numbers, strings and their order carry no meaning."""
    known = samples_for(learner)
    names = np.unique(known.labels)
    renamed = {name: f"x{len(names) - i}" for i, name in enumerate(names)}
    before = clone(learner).partial_fit(known.inputs, known.labels).predict(known.inputs)
    after = learner.partial_fit(known.inputs, _renamed(known.labels, renamed)).predict(known.inputs)
    _law((after == _renamed(before, renamed)).all(), "renaming changed predictions")


def names_stay_names_among_hundreds_of_classes(learner: AnyLearner) -> None:
    """What a model does to save work when classes are many must not look at their names either."""
    known = samples_for(learner, _MANY_CLASSES, 5, noise=1)
    names = np.unique(known.labels)
    places = np.random.default_rng(0).permutation(len(names))
    renamed = {name: f"n{place:03d}" for name, place in zip(names, places, strict=True)}
    before = clone(learner).partial_fit(known.inputs, known.labels)
    after = learner.partial_fit(known.inputs, _renamed(known.labels, renamed))
    expected = before.predict_proba(known.fresh)
    found = after.predict_proba(known.fresh)[:, np.searchsorted(after.classes_, _renamed(before.classes_, renamed))]
    _law(np.allclose(found, expected, atol=1e-3), "renaming changed probabilities")
    best = np.sort(expected, axis=1)
    clear = best[:, -1] - best[:, -2] > 2e-3  # where two classes are level, rounding may decide
    labels = _renamed(before.predict(known.fresh), renamed)
    _law((after.predict(known.fresh) == labels)[clear].all(), "renaming changed predictions")


def _renamed(labels: NDArray[Any], names: dict[Any, str]) -> NDArray[Any]:
    return np.array([names[label] for label in labels])


def same_seed_same_predictions_and_global_seeds_untouched(learner: AnyLearner) -> None:
    """All randomness comes from the learner's parameters; nobody else's generator is touched."""
    known = samples_for(learner)
    X, y = known.inputs, known.labels
    numpy_state, torch_state = _numpy_state(), torch.get_rng_state()
    first = clone(learner).partial_fit(X, y).predict_proba(X)
    _law(_numpy_state() == numpy_state, "NumPy's global seed was touched")
    _law(torch.equal(torch.get_rng_state(), torch_state), "torch's global seed was touched")
    _law(np.array_equal(learner.partial_fit(X, y).predict_proba(X), first), "the same seed gave another model")


def _numpy_state() -> str:
    return str(np.random.get_state(legacy=False))  # noqa: NPY002


def pickling_keeps_predictions(learner: AnyLearner) -> None:
    """A pickled learner comes back as it was."""
    known = samples_for(learner)
    learner.partial_fit(known.inputs, known.labels)
    copy = pickle.loads(pickle.dumps(learner))
    same = np.array_equal(copy.predict_proba(known.inputs), learner.predict_proba(known.inputs))
    _law(same, "a pickle came back different")


def state_does_not_grow_with_samples(learner: AnyLearner) -> None:
    """No sample is kept: five times the samples take the same room, by the pickle and by what the learner says."""
    sizes = []
    for n in (120, 600):
        known = samples_for(learner, 3, n)
        model = clone(learner).partial_fit(known.inputs, known.labels)
        sizes.append((model.state_bytes(), len(pickle.dumps(model))))
    for what, before, after in zip(("state_bytes", "the pickle"), *sizes, strict=True):
        _law(after <= before * 1.05, f"{what} grew from {before} to {after} bytes")


def odd_classes_are_learnt(learner: AnyLearner) -> None:
    """One class, one sample and samples that are all the same are data like any other."""
    known = samples_for(learner)
    X, y = known.inputs, known.labels
    _law((clone(learner).partial_fit(X[:1], y[:1]).predict(X[:3]) == y[0]).all(), "one sample of one class")
    singles = clone(learner).partial_fit(X[::30], y[::30])
    _law((singles.predict(X[::30]) == y[::30]).all(), "classes of one sample each")
    constant = clone(learner).partial_fit(equal_samples(learner, 4), ["a", "a", "b", "b"])
    _law(np.isfinite(constant.predict_proba(equal_samples(learner, 2))).all(), "samples that are all the same")
    mixed = clone(learner).partial_fit(X, y).partial_fit(lonely_sample(learner), ["lonely"])
    _law(mixed.predict(lonely_sample(learner))[0] == "lonely", "a class of one sample beside larger ones")


def tensors_and_lists_come_back_as_they_went_in(learner: AnyLearner) -> None:
    """The kind of container that comes in goes out."""
    X, y = separated_classes()
    numbers = np.unique(y, return_inverse=True)[1]
    learner.partial_fit(torch.from_numpy(X), torch.from_numpy(numbers))
    _law(isinstance(learner.predict(torch.from_numpy(X)), torch.Tensor), "a tensor must give a tensor")
    _law(isinstance(learner.predict_proba(X[:2].tolist()), list), "nested lists must give lists")
    _law(isinstance(learner.predict(X), np.ndarray), "an array must give an array")


def parameters_changed_after_learning_are_refused(learner: AnyLearner) -> None:
    """What was learnt with one projection, say, cannot be mixed with another; ``fit`` starts anew.

    Tried with each parameter in ``fixed_by_learning`` that is a number, if there is one.
    """
    known = samples_for(learner)
    X, y = known.inputs, known.labels
    for name, value in _other_values(learner).items():
        model = clone(learner).partial_fit(X, y).set_params(**{name: value})
        _refuses(InputError, lambda model=model: model.partial_fit(X, y), f"Learning with another {name}")  # type: ignore[misc]
        _refuses(InputError, lambda model=model: model.predict(X), f"Predicting with another {name}")  # type: ignore[misc]
        _law(np.mean(model.fit(X, y).predict(X) == y) >= 0.9, "fit must start anew with the new parameters")


def _other_values(learner: AnyLearner) -> dict[str, float]:
    """Numbers near those that the learner has: a whole one more, or half of a fraction."""
    values = {name: getattr(learner, name) for name in learner.fixed_by_learning}
    numbers = {name: value for name, value in values.items() if type(value) is int or (type(value) is float and value)}
    return {name: value + 1 if isinstance(value, int) else value / 2 for name, value in numbers.items()}


def bad_features_are_refused_and_nothing_is_lost(learner: AnyLearner) -> None:
    """Features that cannot be used raise an :class:`InputError` and leave the learner as it was."""
    X, y = separated_classes()
    bad = X.copy()
    bad[3, 4] = np.nan
    _loses_nothing(
        learner,
        {
            "NaN": (bad, y),
            "infinity": (np.where(np.isnan(bad), np.inf, bad), y),
            "a NaN tensor": (torch.from_numpy(bad), y),
            "too wide a batch": (np.hstack([X, X]), y),
            "too wide a tensor": (torch.from_numpy(np.hstack([X, X])), y),
            "an empty tensor": (torch.empty(0, X.shape[1]), y[:0]),
            "one vector": (X[0], y[:1]),
            "huge numbers": (X * 1e20, y),
            "a sparse tensor": (torch.from_numpy(X).to_sparse(), y),
            "a tensor without numbers": (torch.empty(X.shape, device="meta"), y),
        },
    )
    _refuses(InputError, lambda: learner.predict(bad), "Predicting NaN")
    _refuses(InputError, lambda: learner.predict(X[:, :3]), "Predicting other features")


def bad_batches_are_refused_and_nothing_is_lost(learner: AnyLearner) -> None:
    """Batches without inputs or with labels that cannot be used raise an :class:`InputError` and change nothing."""
    known = samples_for(learner)
    X, y = known.inputs, known.labels
    _loses_nothing(
        learner,
        {
            "an empty batch": (X[:0], y[:0]),
            "inputs of another kind": ("inputs", y[:1]),
            "too few labels": (X, y[:-1]),
            "labels of another type": (X, np.arange(len(X))),
            "labels of mixed type": (X[:2], ["c00", 1]),
            "rows without label": (X[:2], ["c00", None]),
            "NaN labels": (X[:2], [1.0, float("nan")]),
            "no labels": (X, None),
            "labels with a NUL character": (X[:2], ["a", "a\0"]),
        },
    )


def _loses_nothing(learner: AnyLearner, batches: dict[str, tuple[Any, Any]]) -> None:
    known = samples_for(learner)
    learner.partial_fit(known.inputs, known.labels)
    before = learner.predict_proba(known.inputs)
    for what, (inputs, labels) in batches.items():
        _refuses(InputError, lambda X=inputs, y=labels: learner.partial_fit(X, y), what)  # type: ignore[misc]
        _law(np.array_equal(learner.predict_proba(known.inputs), before), f"{what} changed the learner")


def predicting_while_learning_is_one_model_or_another(learner: AnyLearner) -> None:
    """Threads that predict while another learns get the answer of a model that there was, never of a half-grown one."""
    known = samples_for(learner, 10, 6, noise=1)
    asked = known.fresh[::12]
    batches = _backwards(known)
    models = _grown_step_by_step(clone(learner), batches)
    labels = [model.predict(asked) for model in models]
    tables = [model.predict_proba(asked) for model in models]
    learner.partial_fit(*batches[0])
    with _quick_switching(), ThreadPoolExecutor(_READERS) as pool:
        done = Event()
        readers = [pool.submit(_ask_until, done, learner, asked) for _ in range(_READERS)]
        try:
            for batch in batches[1:]:
                learner.partial_fit(*batch)
        finally:
            done.set()
        answers = [answer for reader in readers for answer in reader.result()]
    for found, table in answers:
        _law(any(np.array_equal(found, one) for one in labels), f"{found} is what no model answers")
        _law(any(_near(table, one) for one in tables), "probabilities are what no model answers")
    _law(_near(learner.predict_proba(asked), tables[-1]), "something learnt was lost")


def _backwards(known: Samples) -> list[tuple[Any, NDArray[Any]]]:
    """A new class a batch, the last first, so that new columns come before the old; and more of the class before."""
    X, y = known.inputs, known.labels
    half, names = np.arange(len(y)) % 2 == 0, np.unique(y)[::-1]
    new = [(y == name) & half for name in names] + [np.zeros(len(y), dtype=bool)]
    more = [np.zeros(len(y), dtype=bool)] + [(y == name) & ~half for name in names]
    return [(X[a | b], y[a | b]) for a, b in zip(new, more, strict=True)]


def _grown_step_by_step(learner: AnyLearner, batches: Sequence[tuple[Any, NDArray[Any]]]) -> list[AnyLearner]:
    return [pickle.loads(pickle.dumps(learner.partial_fit(*batch))) for batch in batches]


def _ask_until(done: Event, learner: AnyLearner, asked: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    answers = [(learner.predict(asked), learner.predict_proba(asked))]
    while not done.is_set():
        answers.append((learner.predict(asked), learner.predict_proba(asked)))
    return answers


@contextmanager
def _quick_switching() -> Iterator[None]:
    """Let threads take turns as often as they can: what happens once a week must happen now."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _near(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    return found.shape == expected.shape and bool(np.allclose(found, expected, atol=_ROUNDING))


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
    names_stay_names_among_hundreds_of_classes,
    same_seed_same_predictions_and_global_seeds_untouched,
    pickling_keeps_predictions,
    state_does_not_grow_with_samples,
    odd_classes_are_learnt,
    tensors_and_lists_come_back_as_they_went_in,
    parameters_changed_after_learning_are_refused,
    bad_features_are_refused_and_nothing_is_lost,
    bad_batches_are_refused_and_nothing_is_lost,
    predicting_while_learning_is_one_model_or_another,
)

_ABOUT_FEATURES = (tensors_and_lists_come_back_as_they_went_in, bad_features_are_refused_and_nothing_is_lost)
