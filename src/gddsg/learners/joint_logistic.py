"""JointLogistic: logistic regression on all samples at once, an upper bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gddsg.core.class_card import content_hash, held_out_rows
from gddsg.core.kept_samples import KeptSamples
from gddsg.core.logistic import PrincipalRows, fit_logistic, scores
from gddsg.core.similarity_graph import Label
from gddsg.core.standardised import StandardisedRoot
from gddsg.learners.base import Learner

PENALTIES = (1e-2, 3e-3, 1e-3)
"""Candidates for the L2 penalty, the strongest first: each starts where the one before ended."""

_ROWS_AT_ONCE = 4096
_STEPS = 25


class JointLogistic(Learner):
    """Multinomial logistic regression on standardised root features, with all samples of all batches at hand.

    Not incremental: it keeps every sample and trains anew whenever it is asked after a batch, starting from nothing. It
    stands for what a linear classifier on these features can do at best. The penalty is the one of :data:`PENALTIES`
    with the least cross-entropy on a fifth of the samples, held out by a hash of their content; then all samples train.

    Parameters
    ----------
    projection_dim, seed : not used; here so that all learners are built alike.
    device : torch device for the training.

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
    samples_: KeptSamples

    def __init__(self, projection_dim: int = 2_000, seed: int = 0, device: str = "cpu") -> None:
        self.projection_dim = projection_dim
        self.seed = seed
        self.device = device

    def _learn(self, features: Tensor, labels: Sequence[Label]) -> None:
        known = getattr(self, "samples_", None) or KeptSamples()
        self.samples_ = known.plus(features, labels)
        self._memo: dict[str, tuple[StandardisedRoot, Tensor]] = {}

    def _log_probabilities(self, features: Tensor) -> Tensor:
        if "fit" not in self._memo:
            self._memo["fit"] = self._fit()
        standardised, W = self._memo["fit"]
        chunks = features.cpu().double().split(_ROWS_AT_ONCE)
        return torch.cat([(standardised(chunk) @ W[:-1] + W[-1]).log_softmax(1) for chunk in chunks])

    def _fit(self) -> tuple[StandardisedRoot, Tensor]:
        features, classes = self.samples_.joined(self.classes_.tolist())
        standardised, held = StandardisedRoot.of(features), self._held_out(classes)
        design, classes = PrincipalRows.of(standardised(features).to(self.device)), classes.to(self.device)
        penalty, W = choose_penalty(design, classes, held.to(self.device))
        W = fit_logistic(design, classes, penalty, W, _STEPS)
        return standardised, torch.cat([design.basis @ W[:-1], W[-1:]]).double().cpu()

    def _held_out(self, classes: Tensor) -> Tensor:
        """Which rows are held out; none of a class that would have no other row."""
        hashes = [content_hash(self.samples_.rows[label]) for label in self.classes_.tolist()]
        held = torch.cat([held_out_rows(own) for own in hashes])
        learning = torch.bincount(classes[~held], minlength=len(hashes))
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
