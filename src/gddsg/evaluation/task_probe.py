"""One linear probe a task: what methods with a head for every task are held against when the task is told.

It is no class-incremental learner: without being told the task it cannot answer, hence there is no ``predict``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from gddsg.core.label import Label
from gddsg.errors import InputError
from gddsg.learners.base import pickled_bytes
from gddsg.learners.joint_logistic import JointLogistic

__all__ = ["TaskProbe"]


@dataclass(frozen=True, eq=False)
class _Probe:
    """Logistic regression on the classes of a task; of a single class there is nothing to fit."""

    classes: tuple[Label, ...]
    model: JointLogistic


class TaskProbe(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Logistic regression for every task by itself, see :class:`gddsg.learners.joint_logistic.JointLogistic`.

    Its penalty is chosen on a part of the task's training samples. Only the protocol ``task-aware`` can ask it.

    Examples
    --------
    >>> probe = TaskProbe().partial_fit([[5.0, 0], [4, 1], [0, 5], [1, 4]], ["cat", "cat", "dog", "dog"])
    >>> probe.predict_in_task([[6.0, 0]], ["cat", "dog"]).tolist()
    ['cat']
    """

    exemplar_free = False
    probes_: tuple[_Probe, ...]

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Fit one more probe.

        Parameters
        ----------
        X : array_like
            Features ``(n_samples, n_features)`` of the task.
        y : array_like
            One label a row.
        """
        model = JointLogistic().fit(X, y)
        self.probes_ = (*vars(self).get("probes_", ()), _Probe(tuple(model.classes_.tolist()), model))
        return self

    def predict_in_task(self, X: Any, classes: Sequence[Label]) -> NDArray[Any]:
        """Labels by the last probe that was fitted on these very classes.

        Parameters
        ----------
        X : array_like
            Features ``(n_samples, n_features)``.
        classes : sequence of int or str
            Those of a task.
        """
        for probe in reversed(self.probes_):
            if set(probe.classes) == set(classes):
                return np.asarray(probe.model.predict(X))
        raise InputError(f"No task with the classes {list(classes)!r} has been learnt; expected those of one of them.")

    def state_bytes(self) -> int:
        """All probes, which keep their samples."""
        return pickled_bytes(self.probes_)
