"""What a learner is: it takes labelled features at any time and predicts among all classes it has met."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import column_or_1d, validate_data
from torch import Tensor

from gddsg.core.similarity_graph import Label
from gddsg.errors import GddsgError, InputError, InputTypeError

_LARGEST_FEATURE, _SMALLEST_FEATURE = 1e15, 1e-15  # squares of numbers beyond these leave the range of float32


class NotLearntError(GddsgError, NotFittedError):  # type: ignore[misc]  # scikit-learn ships no types
    """Raised when a prediction is asked of a learner that has learnt no class yet."""


class Learner(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """A classifier that grows. Subclasses say how to learn a batch and how to score inputs.

    All learners take ``projection_dim`` and ``seed``, so that a comparison can build them alike; one without a random
    projection ignores them. ``__init__`` only stores its arguments. A learner sees one batch at a time and bare inputs
    at prediction: never a task id, a test label or the number of classes to come.

    Attributes
    ----------
    classes_ : sorted array of all classes learnt so far.
    n_features_in_ : width of the features.
    exemplar_free : whether no sample is kept.
    incremental : whether learning a batch costs no more for what was learnt before; False for upper bounds that learn
        everything anew.
    exempt : laws of :mod:`gddsg.checks` that do not apply, and why.
    """

    classes_: np.ndarray[Any, Any]
    n_features_in_: int
    fixed_by_learning: ClassVar[tuple[str, ...]] = ("projection_dim", "seed")
    exemplar_free: ClassVar[bool] = True
    incremental: ClassVar[bool] = True
    exempt: ClassVar[Mapping[str, str]] = {}
    projection_dim: int
    seed: int
    device: str

    @abstractmethod
    def _learn(self, features: Tensor, labels: Sequence[Label]) -> None:
        """Take in a valid batch; replace state, never change it in place, so that a failure leaves the old one."""

    @abstractmethod
    def _log_probabilities(self, features: Tensor) -> Tensor:
        """Log-probabilities ``(n, n_classes)`` float64 on the CPU, columns in the order of ``classes_``."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn ``X`` ``(n_samples, n_features)`` with labels ``y`` from nothing, dropping what was learnt before."""
        with self._all_or_nothing():
            for name in [name for name in self.__dict__ if name.endswith("_")]:
                delattr(self, name)
            return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn a batch on top of what is known: new classes, or more samples of known ones.

        Parameters
        ----------
        X : features ``(n_samples, n_features)``: NumPy array, torch tensor, data frame or nested lists.
        y : one label a row, all ``int`` or all ``str``.
        classes : not used; scikit-learn's incremental classifiers want all classes in advance, this one never does.
        """
        return self._take_batch(X, y, self._learn)

    def _take_batch(self, X: Any, y: Any, learn: Callable[[Tensor, Sequence[Label]], None]) -> Self:
        with self._all_or_nothing():
            self._check_parameters()
            features = self._features(X, first=not self.__sklearn_is_fitted__())
            labels = self._labels(y, len(features))
            learn(features, labels)
            self.classes_ = np.array(sorted({*self._known_labels(), *labels}))
            self._fix_settings()
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A change that fails, or is interrupted, leaves the learner as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def predict(self, X: Any) -> Any:
        """Labels of the rows of ``X``; the kind of container that came in goes out."""
        best = self._log_probabilities(self._inputs(X)).argmax(1).numpy()
        return like(self.classes_[best], X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities ``(n_samples, n_classes)``, columns in the order of ``classes_``."""
        return like(self._log_probabilities(self._inputs(X)).exp().numpy(), X)

    def decision_function(self, X: Any) -> Any:
        """Log-probabilities ``(n_samples, n_classes)``; for two classes the log-odds ``(n_samples,)`` of the second."""
        scores = self._log_probabilities(self._inputs(X)).numpy()
        return like(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores, X)

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Cheap settings for the contract checks."""
        return {"projection_dim": 64, "seed": 0}

    def _fix_settings(self) -> None:
        self.settings_ = {name: getattr(self, name) for name in self.fixed_by_learning}

    def _check_settings(self) -> None:
        """Refuse parameters changed since the first batch, which what has been learnt does not fit any more."""
        for name, value in getattr(self, "settings_", {}).items():
            if getattr(self, name) != value:
                raise InputError(
                    f"{name} was {value!r} when this {type(self).__name__} learnt its classes and is now "
                    f"{getattr(self, name)!r}. Set it back, or learn everything again with fit(X, y)."
                )

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense; at learning, since ``__init__`` only stores them."""
        self._check_settings()
        for name, low, high in (("projection_dim", 1, 2**31), ("seed", 0, 2**32)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or not low <= value < high:
                raise InputError(f"{name}={value!r} was given; expected is a whole number from {low} to {high - 1}.")
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, TypeError, AssertionError) as error:
            raise InputError(f"device={self.device!r} cannot be used ({error}). Try device='cpu'.") from error

    def _check_number(self, name: str, low: float, high: float) -> None:
        """Refuse a parameter that is not a number from ``low`` to ``high``."""
        value = getattr(self, name)
        if not isinstance(value, int | float | np.integer | np.floating) or not low <= value <= high:
            raise InputError(f"{name}={value!r} was given; expected is a number from {low:g} to {high:g}.")

    def __sklearn_is_fitted__(self) -> bool:
        return "classes_" in vars(self)

    def _inputs(self, X: Any) -> Tensor:
        self._require_learnt()
        return self._features(X, first=False)

    def _require_learnt(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotLearntError(
                f"This {type(self).__name__} instance is not fitted yet: it has learnt no class. "
                "Call partial_fit(X, y) or fit(X, y) with labelled features first."
            )
        self._check_settings()

    def _features(self, X: Any, *, first: bool) -> Tensor:
        """Float32 features on the learner's device, or an :class:`InputError`."""
        if isinstance(X, Tensor):
            tensor = self._checked_tensor(X, first=first)
        else:
            try:
                array = validate_data(self, X, reset=first, dtype=[np.float64, np.float32])
            except (ValueError, TypeError) as error:
                kind = InputTypeError if isinstance(error, TypeError) else InputError
                raise kind(f"{error}\nExpected are finite, dense features (n_samples, n_features).") from error
            tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        sizes = tensor.abs()
        if bool(sizes.max() > _LARGEST_FEATURE):
            raise InputError(f"A feature exceeds {_LARGEST_FEATURE:g} in size. Rescale the features, then try again.")
        if 0 < float(sizes.max()) < _SMALLEST_FEATURE:
            raise InputError(f"All features are below {_SMALLEST_FEATURE:g} in size. Rescale them, then try again.")
        return tensor.where(sizes >= _SMALLEST_FEATURE, 0).to(self.device, torch.float32)

    def _checked_tensor(self, X: Tensor, *, first: bool) -> Tensor:
        if X.ndim != 2 or 0 in X.shape:
            raise InputError(f"Features of shape {tuple(X.shape)} were given; expected is (n_samples, n_features).")
        if X.is_complex() or not bool(torch.isfinite(X).all()):
            raise InputError("The features contain NaN, infinity or complex numbers. Clean or drop those rows first.")
        if first:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input. Use the backbone the model was learnt with."
            )
        return X.detach()

    def _known_labels(self) -> list[Label]:
        return list(self.classes_.tolist()) if self.__sklearn_is_fitted__() else []

    def _labels(self, y: Any, n: int) -> list[Label]:
        """Python labels, one a row, all of the kind the learner knows, or an :class:`InputError`."""
        if y is None:
            raise InputError("requires y to be passed, but the target y is None. Give one label for every row of X.")
        labels = _python_labels(y)
        if len(labels) != n:
            raise InputError(f"X has inconsistent numbers of samples: {n} rows, but {len(labels)} labels in y.")
        kinds = {type(label) for label in (*labels, *self._known_labels())}
        if len(kinds) > 1:
            names = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise InputError(f"Labels of mixed type were given: {names}. Use only int or only str for one model.")
        return labels


def like(values: np.ndarray[Any, Any], X: Any) -> Any:
    """``values`` in the container kind of ``X``: tensor, list or array; labels that are strings stay an array."""
    if isinstance(X, Tensor):
        return torch.from_numpy(values).to(X.device) if values.dtype.kind in "iuf" else values
    return values.tolist() if isinstance(X, list | tuple) else values


def _python_labels(y: Any) -> list[Label]:
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    try:
        if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
            y = np.array(y, dtype=object)  # NumPy would silently turn the numbers into strings
        array = column_or_1d(y, warn=True)
        _refuse_missing(array)
    except (ValueError, TypeError) as error:
        raise InputError(f"{error}\nExpected is one label a row, all int or all str.") from error
    return [_python_label(label) for label in array.tolist()]


def _refuse_missing(array: np.ndarray[Any, Any]) -> None:
    if array.dtype.kind in "fc":
        missing = ~np.isfinite(array)
    else:
        missing = np.array([label is None or label != label for label in array.tolist()], dtype=bool)
    if missing.any():
        raise ValueError(f"{int(missing.sum())} rows have no label (NaN, infinity or None). Label or drop them.")


def _python_label(label: Any) -> Label:
    if isinstance(label, str):
        return label
    if isinstance(label, bool | int | float) and float(label).is_integer():
        return int(label)
    raise InputError(f"Unknown label type: {label!r} is neither a whole number nor a str. Rename the class.")


def checked_ids(sample_ids: Any, n: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Sample ids ``(n,)`` as uint64, or an :class:`InputError`."""
    try:
        ids = [operator.index(sample) for sample in np.asarray(sample_ids, dtype=object).ravel()]
        array = np.array(ids, dtype=np.uint64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"A sample id is no whole number from 0 to 2^64 - 1 ({error}). Hash its name, say.") from error
    if len(array) != n:
        raise InputError(f"{len(array)} sample ids were given for {n} rows. Give one for every row, or none at all.")
    return array
