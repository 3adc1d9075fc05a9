"""What a learner is: it takes labelled inputs at any time and predicts among all classes it has met."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from gddsg.core.label import Label
from gddsg.core.transform import View, signed_root
from gddsg.data.images import Images
from gddsg.errors import GddsgError, InputError
from gddsg.learners.features import checked_features
from gddsg.learners.labels import checked_ids, checked_labels

__all__ = [
    "FeatureLearner",
    "ImageLearner",
    "Learner",
    "Learnt",
    "NotLearntError",
    "ProjectionLearner",
    "checked_ids",
    "checked_images",
    "like",
    "pickled_bytes",
]

S = TypeVar("S")

_SWAP = Lock()  # held for an assignment, never while something is learnt: one for all learners is enough


class NotLearntError(GddsgError, NotFittedError):  # type: ignore[misc]  # scikit-learn ships no types
    """Raised when a prediction is asked of a learner that has learnt no class yet."""


@dataclass(frozen=True, eq=False)
class Learnt(Generic[S]):
    """All that a learner has learnt, as one value: a prediction takes the reference once, learning swaps it.

    Attributes
    ----------
    classes : ndarray
        Sorted labels, ``(n_classes,)``.
    settings : mapping of str to object
        The parameters named in ``fixed_by_learning``, as they were.
    columns : mapping of str to object
        What scikit-learn notes about features, ``n_features_in_`` and ``feature_names_in_``; empty for images.
    state : S
        The method's own; never changed in place.
    """

    classes: NDArray[Any]
    settings: Mapping[str, Any]
    columns: Mapping[str, Any]
    state: S

    def __post_init__(self) -> None:
        self.classes.flags.writeable = False  # it is handed out as classes_


class Learner(ClassifierMixin, BaseEstimator, ABC, Generic[S]):  # type: ignore[misc]  # scikit-learn ships no types
    """A classifier that grows. Subclasses say how a batch changes the state and how a state scores inputs.

    ``__init__`` only stores its arguments. A learner sees one batch at a time and bare inputs at prediction: never a
    task id, a test label or the number of classes to come. Threads may predict while others learn: every prediction is
    that of one model, before or after, and nothing that any of them learns is lost.

    Write a learner as a subclass of :class:`FeatureLearner`, :class:`ProjectionLearner` or :class:`ImageLearner`.

    Attributes
    ----------
    takes : {"features", "images"}
        What it wants as inputs.
    fixed_by_learning : tuple of str
        Parameters that cannot be changed once a class has been learnt.
    exemplar_free : bool
        Whether no sample is kept.
    incremental : bool
        Whether learning a batch costs no more for what was learnt before; False for upper bounds that learn everything
        anew.
    calibrated : bool
        Whether its probabilities are the method's own. False where the method only ranks classes and the scale of its
        scores is a constant chosen here: a calibration error would judge that constant, so none is measured.
    exempt : mapping of str to str
        Laws of :mod:`gddsg.checks` that do not apply, and why.
    learnt_ : Learnt
        All that has been learnt; the one attribute that learning sets.
    """

    takes: ClassVar[Literal["features", "images"]]
    fixed_by_learning: ClassVar[tuple[str, ...]] = ()
    exemplar_free: ClassVar[bool] = True
    incremental: ClassVar[bool] = True
    calibrated: ClassVar[bool] = True
    exempt: ClassVar[Mapping[str, str]] = {}
    learnt_: Learnt[S]

    # ---------------------------------------------------------------- what a method says

    @abstractmethod
    def _next_state(self, state: S | None, inputs: Any, labels: Sequence[Label]) -> S:
        """The state after a valid batch. A pure function: ``state`` is left as it is.

        Parameters
        ----------
        state : S or None
            The state before; None where nothing has been learnt.
        inputs : object
            What :meth:`_read` made of the batch.
        labels : sequence of int or str
            One for every input.
        """

    @abstractmethod
    def _log_probabilities(self, learnt: Learnt[S], inputs: Any) -> Tensor:
        """Log-probabilities ``(n, n_classes)`` float64 on the CPU, columns in the order of ``learnt.classes``.

        Parameters
        ----------
        learnt : Learnt
            The one model of this prediction; ``self.learnt_`` may be another by now.
        inputs : object
            What :meth:`_read` made of the inputs.
        """

    @abstractmethod
    def _read(self, X: Any, before: Learnt[S] | None) -> tuple[Any, Mapping[str, Any]]:
        """Inputs, checked and ready for the method, and what is known of their columns; or an :class:`InputError`.

        Parameters
        ----------
        X : object
            As it was handed in.
        before : Learnt or None
            What has been learnt, which new inputs have to go with.
        """

    def _best(self, learnt: Learnt[S], inputs: Any) -> Tensor:
        """Place in ``learnt.classes`` of the likeliest class of each input, ``(n,)``."""
        return self._log_probabilities(learnt, inputs).argmax(1)

    def _classes_of(self, state: S, before: Learnt[S] | None, labels: Sequence[Label]) -> NDArray[Any]:
        """The sorted classes after a batch: those known before and those of its labels."""
        return np.array(sorted({*_known(before), *labels}))

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense; at learning, since ``__init__`` only stores them."""

    def state_bytes(self) -> int:
        """How much is carried from task to task: the size of the state's pickle, which is written nowhere.

        A learner that stands for a published method counts what that method has to keep, in the type its authors keep
        it in, whatever is kept here; a random projection that follows from a seed is not counted.
        """
        learnt = self._current()
        return 0 if learnt is None else pickled_bytes(learnt.state)

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Cheap settings for the contract checks."""
        return {}

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from nothing, dropping what was learnt before.

        Parameters
        ----------
        X : array_like or Images
            Inputs, one a row.
        y : array_like
            One label a row, all ``int`` or all ``str``.
        """
        learnt = self._grown(None, X, y)
        with _SWAP:
            self.learnt_ = learnt
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn a batch on top of what is known: new classes, or more samples of known ones.

        Parameters
        ----------
        X : array_like or Images
            Inputs, one a row; features ``(n_samples, n_features)`` as NumPy array, torch tensor, data frame or nested
            lists.
        y : array_like
            One label a row, all ``int`` or all ``str``.
        classes : object
            Not used; scikit-learn's incremental classifiers want all classes in advance, this one never does.
        """
        return self._change(lambda before: self._grown(before, X, y))

    def _grown(
        self,
        before: Learnt[S] | None,
        X: Any,
        y: Any,
        next_state: Callable[[S | None, Any, Sequence[Label]], S] | None = None,
    ) -> Learnt[S]:
        """What is learnt after a batch on top of ``before``; the learner itself stays as it is.

        Parameters
        ----------
        before : Learnt or None
            What has been learnt; None for nothing.
        X, y : object
            The batch as it was handed in.
        next_state : callable, optional
            In place of :meth:`_next_state`, for learners whose batches carry more than inputs and labels.
        """
        if before is not None:
            self._check_settings(before)
        self._check_parameters()
        inputs, columns = self._read(X, before)
        labels = checked_labels(y, len(inputs), _known(before))
        state = (next_state or self._next_state)(None if before is None else before.state, inputs, labels)
        return Learnt(self._classes_of(state, before, labels), self._settings(), columns, state)

    def _change(self, step: Callable[[Learnt[S] | None], Learnt[S] | None]) -> Self:
        """Replace what is learnt by what ``step`` makes of it, in one go; a failure leaves the learner as it was.

        Where another thread has learnt in the meantime, ``step`` is taken again on top of that: nothing is lost.

        Parameters
        ----------
        step : callable
            From what is learnt to what shall be learnt, without changing anything; None stands for nothing at all.
        """
        while True:
            before = self._current()
            after = step(before)
            with _SWAP:
                if self._current() is before:
                    self._put(after)
                    return self

    def _put(self, learnt: Learnt[S] | None) -> None:
        if learnt is None:
            self.__dict__.pop("learnt_", None)
        else:
            self.learnt_ = learnt

    # ---------------------------------------------------------------- prediction

    def predict(self, X: Any) -> Any:
        """Labels of the rows of ``X``; the kind of container that came in goes out."""
        learnt = self._checked()
        return like(learnt.classes[self._best(learnt, self._inputs(X, learnt)).numpy()], X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities ``(n_samples, n_classes)``, columns in the order of ``classes_``."""
        learnt = self._checked()
        return like(self._log_probabilities(learnt, self._inputs(X, learnt)).exp().numpy(), X)

    def decision_function(self, X: Any) -> Any:
        """Log-probabilities ``(n_samples, n_classes)``; for two classes the log-odds ``(n_samples,)`` of the second."""
        learnt = self._checked()
        scores = self._log_probabilities(learnt, self._inputs(X, learnt)).numpy()
        return like(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores, X)

    def _inputs(self, X: Any, learnt: Learnt[S]) -> Any:
        """Inputs that go with what has been learnt, ready for the method."""
        return self._read(X, learnt)[0]

    # ---------------------------------------------------------------- what has been learnt

    @property
    def classes_(self) -> NDArray[Any]:
        """All classes learnt so far, sorted."""
        learnt = self._current()
        if learnt is None:
            raise self._missing("classes_")
        return learnt.classes

    @property
    def n_features_in_(self) -> int:
        """Width of the features."""
        return int(self._column("n_features_in_"))

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, where the first batch was a data frame."""
        names: NDArray[Any] = self._column("feature_names_in_")
        return names

    def _column(self, name: str) -> Any:
        learnt = self._current()
        if learnt is None or name not in learnt.columns:
            raise self._missing(name)
        return learnt.columns[name]

    def _missing(self, name: str) -> AttributeError:
        return AttributeError(f"This {type(self).__name__} has no {name}: nothing it has learnt has told it so far.")

    def __sklearn_is_fitted__(self) -> bool:
        return self._current() is not None

    def _current(self) -> Learnt[S] | None:
        """What has been learnt by now, or None: looked up once, since the next moment it may be another."""
        return vars(self).get("learnt_")

    def _checked(self) -> Learnt[S]:
        """What has been learnt by now, if it can be used; otherwise an error that says why not."""
        learnt = self._current()
        if learnt is None:
            raise NotLearntError(
                f"This {type(self).__name__} instance is not fitted yet: it has learnt no class. "
                f"Call partial_fit(X, y) or fit(X, y) with labelled {self.takes} first."
            )
        self._check_settings(learnt)
        return learnt

    # ---------------------------------------------------------------- parameters

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.fixed_by_learning}

    def _check_settings(self, learnt: Learnt[S]) -> None:
        """Refuse parameters changed since the first batch, which what has been learnt does not fit any more."""
        for name, value in learnt.settings.items():
            if getattr(self, name) != value:
                raise InputError(
                    f"{name} was {value!r} when this {type(self).__name__} learnt its classes and is now "
                    f"{getattr(self, name)!r}. Set it back, or learn everything again with fit(X, y)."
                )

    def _check_whole(self, name: str, low: int, high: int | None = None) -> None:
        """Refuse a parameter that is not a whole number from ``low`` to ``high``."""
        value = getattr(self, name)
        if not isinstance(value, int | np.integer) or value < low or (high is not None and value > high):
            bounds = f"from {low}" if high is None else f"from {low} to {high}"
            raise InputError(f"{name}={value!r} was given; expected a whole number {bounds}.")

    def _check_number(self, name: str, low: float, high: float) -> None:
        """Refuse a parameter that is not a number from ``low`` to ``high``."""
        value = getattr(self, name)
        if not isinstance(value, int | float | np.integer | np.floating) or not low <= value <= high:
            raise InputError(f"{name}={value!r} was given; expected a number from {low:g} to {high:g}.")


class FeatureLearner(Learner[S]):
    """A learner whose inputs are features ``(n_samples, n_features)``; the method gets them as a float32 tensor.

    Attributes
    ----------
    device : str
        Torch device that the tensor is on, a parameter of learners that compute there; otherwise the CPU.
    view : {"raw", "root"}
        What the method gets, a parameter of learners that can be compared on either: the features as they are, or
        their signed square root, which suits features that are never negative.
    """

    takes: ClassVar[Literal["features", "images"]] = "features"
    device: str = "cpu"
    view: View = "raw"

    def _read(self, X: Any, before: Learnt[S] | None) -> tuple[Tensor, Mapping[str, Any]]:
        known = {} if before is None else before.columns
        features, columns = checked_features(X, known, type(self).__name__, self.device)
        return (signed_root(features) if self.view == "root" else features), columns

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.view not in get_args(View):
            raise InputError(f"view={self.view!r} was given; expected 'raw' or 'root'.")
        try:
            torch.zeros(1, device=self.device).cpu()  # a device without memory makes tensors, and gives nothing back
        except (RuntimeError, TypeError, AssertionError) as error:
            raise InputError(f"device={self.device!r} cannot be used ({error}). Try device='cpu'.") from error


class ProjectionLearner(FeatureLearner[S]):
    """A learner on random projections of features.

    Attributes
    ----------
    projection_dim : int
        Width of the projection.
    seed : int
        What the projection is drawn from.
    """

    fixed_by_learning: ClassVar[tuple[str, ...]] = ("projection_dim", "seed")
    least_projection_dim: ClassVar[int] = 1
    projection_dim: int
    seed: int

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A narrow projection."""
        return {"projection_dim": 64, "seed": 0}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("projection_dim", self.least_projection_dim, 2**31 - 1)
        self._check_whole("seed", 0, 2**32 - 1)


class ImageLearner(Learner[S]):
    """A learner whose inputs are images; the method gets them as :class:`gddsg.data.images.Images`, not yet decoded."""

    takes: ClassVar[Literal["features", "images"]] = "images"

    def _read(self, X: Any, before: Learnt[S] | None) -> tuple[Images, Mapping[str, Any]]:
        return checked_images(X), {}


def checked_images(X: Any) -> Images:
    """At least one image, not yet decoded; see :meth:`gddsg.data.images.Images.of`."""
    images = Images.of(X)
    if not len(images):
        raise InputError("No image was given; expected at least one.")
    return images


def like(values: NDArray[Any], X: Any) -> Any:
    """``values`` in the container kind of ``X``: tensor, list or array; labels that are strings stay an array."""
    if isinstance(X, Tensor):
        return torch.from_numpy(values).to(X.device) if values.dtype.kind in "iuf" else values
    return values.tolist() if isinstance(X, list | tuple) else values


def _known(learnt: Learnt[Any] | None) -> list[Label]:
    return [] if learnt is None else list(learnt.classes.tolist())


def pickled_bytes(value: Any) -> int:
    """Size of a value's pickle, which is written nowhere."""
    counter = _Counter()
    pickle.Pickler(counter, protocol=5).dump(value)
    return counter.size


class _Counter:
    """A file that keeps only its size."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        self.size += memoryview(data).nbytes
        return memoryview(data).nbytes
