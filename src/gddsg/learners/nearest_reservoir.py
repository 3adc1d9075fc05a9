"""Nearest neighbours among a few kept samples: what a learner that may keep some would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from gddsg.core.kept_samples import KeptSamples
from gddsg.core.label import Label
from gddsg.core.transform import unit
from gddsg.learners.base import FeatureLearner, Learnt

_ROWS_AT_ONCE = 2048
_AS_NEAR = 1e-9  # neighbours that differ by less than this count as equally near: rounding must not choose among them
_NEAREST = 1e-6  # distance below which a neighbour weighs no more
_NO_VOTE = 1e-9


class NearestReservoir(FeatureLearner[KeptSamples]):
    """The k nearest of the kept samples by cosine, each weighing in with the inverse of its distance.

    A reference, not an exemplar-free method: it shows what keeping ``budget`` samples is worth. Every class keeps as
    many as the others, those whose content hashes lowest, so that neither order nor batches have a say in it.

    Parameters
    ----------
    budget : int
        Samples kept of all classes together; a class keeps at least one, though.
    n_neighbours : int
        k. Samples as near as the k-th all count.

    Examples
    --------
    >>> NearestReservoir(budget=2).fit([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["cat", "cat", "dog"]).predict(
    ...     [[0.2, 0.8]]
    ... )
    ['dog']

    References
    ----------
    Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", 2019, for the reservoirs of classes of equal
    size. https://arxiv.org/abs/1902.10486
    """

    exemplar_free: ClassVar[bool] = False
    fixed_by_learning = ("budget",)

    def __init__(self, budget: int = 2_000, n_neighbours: int = 5) -> None:
        self.budget = budget
        self.n_neighbours = n_neighbours

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A reservoir that the samples of the checks fill."""
        return {"budget": 60}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("budget", 1)
        self._check_whole("n_neighbours", 1)

    def state_bytes(self) -> int:
        """The kept samples in float32."""
        learnt = self._current()
        return 0 if learnt is None else learnt.state.nbytes

    def _next_state(self, state: KeptSamples | None, inputs: Tensor, labels: Sequence[Label]) -> KeptSamples:
        return (state or KeptSamples()).plus(inputs, labels).cut(self.budget)

    def _log_probabilities(self, learnt: Learnt[KeptSamples], inputs: Tensor) -> Tensor:
        kept, classes = learnt.state.joined(learnt.classes.tolist())
        directions, members = unit(kept.double()), torch.nn.functional.one_hot(classes).double()
        chunks = inputs.cpu().double().split(_ROWS_AT_ONCE)
        votes = torch.cat([self._votes(unit(chunk) @ directions.T) @ members for chunk in chunks])
        return votes.clamp(min=_NO_VOTE).log().log_softmax(1)

    def _votes(self, cosines: Tensor) -> Tensor:
        """Share of the vote ``(n, n_kept)`` of every kept sample: ``1 / (1 - cos)`` for the nearest, else 0."""
        last = cosines.topk(min(self.n_neighbours, cosines.shape[1]), dim=1).values[:, -1:]
        weights = (1 / (1 - cosines).clamp(min=_NEAREST)).where(cosines >= last - _AS_NEAR, 0.0)
        return weights / weights.sum(1, keepdim=True)
