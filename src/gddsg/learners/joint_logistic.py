"""JointLogistic: logistic regression on all samples at once, an upper bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.kept_samples import KeptSamples
from gddsg.core.label import Label
from gddsg.core.logistic import PrincipalRows, fit_logistic, scores
from gddsg.core.once import Carried
from gddsg.core.standardised import StandardisedRoot
from gddsg.learners.base import FeatureLearner, Learnt

PENALTIES = (1e-2, 3e-3, 1e-3)
"""Candidates for the L2 penalty, the strongest first: each starts where the one before ended."""

_ROWS_AT_ONCE = 4096
_STEPS = 25


State = Carried[KeptSamples, tuple[StandardisedRoot, Tensor]]  # samples; and how to scale, weights and intercepts


class JointLogistic(FeatureLearner[State]):
    """Multinomial logistic regression on standardised root features, with all samples of all batches at hand.

    Not incremental: it keeps every sample and trains anew whenever it is asked after a batch, starting from nothing. It
    stands for what a linear classifier on these features can do at best. The penalty is the one of :data:`PENALTIES`
    with the least cross-entropy on a fifth of the samples, held out by a hash of their content; then all samples train.

    Parameters
    ----------
    device : str
        Torch device for the training.

    Examples
    --------
    >>> model = JointLogistic().partial_fit([[1.0, 0.0], [0.8, 0.1]], ["cat", "cat"])
    >>> model.partial_fit([[0.0, 1.0]], ["dog"]).predict([[0.1, 0.7]])
    ['dog']

    References
    ----------
    Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.
    https://doi.org/10.1007/BF01589116
    """

    exemplar_free: ClassVar[bool] = False
    incremental: ClassVar[bool] = False
    exempt: ClassVar[Mapping[str, str]] = {"state_does_not_grow_with_samples": "an upper bound keeps every sample"}

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def state_bytes(self) -> int:
        """All samples in float32."""
        learnt = self._current()
        return 0 if learnt is None else learnt.state.kept.nbytes

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = KeptSamples() if state is None else state.kept
        return Carried(known.plus(inputs, labels))

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        standardised, W = learnt.state.derived.get(lambda: self._fitted(learnt))
        chunks = inputs.cpu().double().split(_ROWS_AT_ONCE)
        return torch.cat([(standardised(chunk) @ W[:-1] + W[-1]).log_softmax(1) for chunk in chunks])

    def _fitted(self, learnt: Learnt[State]) -> tuple[StandardisedRoot, Tensor]:
        samples, labels = learnt.state.kept, learnt.classes.tolist()
        features, classes = samples.joined(labels)
        standardised, held = StandardisedRoot.of(features), held_out(samples, labels, classes)
        design, classes = PrincipalRows.of(standardised(features).to(self.device)), classes.to(self.device)
        penalty, W = choose_penalty(design, classes, held.to(self.device))
        W = fit_logistic(design, classes, penalty, W, _STEPS)
        return standardised, torch.cat([design.basis @ W[:-1], W[-1:]]).double().cpu()


def held_out(samples: KeptSamples, labels: Sequence[Label], classes: Tensor) -> Tensor:
    """Which rows are held out, ``(n,)`` bool; none of a class that would have no other row.

    Parameters
    ----------
    samples : KeptSamples
        All samples.
    labels : sequence of int or str
        The classes, in the order in which their rows are joined.
    classes : Tensor
        ``(n,)``, index in ``labels`` of every row.
    """
    held = torch.cat([is_held_out(hash_rows(samples.rows[label])) for label in labels])
    learning = torch.bincount(classes[~held], minlength=len(labels))
    return held & (learning > 0)[classes]


def choose_penalty(design: PrincipalRows, classes: Tensor, held: Tensor) -> tuple[float, Tensor]:
    """The penalty with the least cross-entropy on the rows ``held`` out, and its weights without them.

    The middle one, and weights of zero, where no row is held out.
    """
    W = design.rows.new_zeros(design.rows.shape[1] + 1, int(classes.max()) + 1)
    if not bool(held.any()):
        return PENALTIES[len(PENALTIES) // 2], W
    best = (float("inf"), PENALTIES[0], W)
    learning, own = design.among(~held), classes[~held]
    for penalty in PENALTIES:
        W = fit_logistic(learning, own, penalty, W, _STEPS)
        error = float(cross_entropy(scores(design.rows[held], W), classes[held]))
        best = min(best, (error, penalty, W), key=lambda candidate: candidate[0])
    return best[1], best[2]
