"""The whole prediction as one torch network: features in, probabilities out, no state to derive, no branches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gddsg.core.decision import HEAD_WEIGHT, NEVER, PLAUSIBLE_CLASSES, PLAUSIBLE_LOG_ODDS, DecisionMode
from gddsg.core.discriminant import Discriminant, candidate_classes, continue_below
from gddsg.core.transform import View


class PredictionNetwork(nn.Module):
    """What ``predict_proba`` computes, with all classes treated alike, so that it can run elsewhere (ONNX, a GPU).

    Parameters
    ----------
    discriminant : evidence for every class.
    view, projected_view : of the features, for the discriminant and for the heads.
    projection : ``(feature_dim, projection_dim)``.
    columns : classes of every group.
    heads : weights ``(projection_dim, n_group_classes)`` of every group.
    mode : how they are put together, see :class:`gddsg.core.decision.Decision`.
    """

    def __init__(
        self,
        discriminant: Discriminant,
        view: View,
        projected_view: View,
        projection: Tensor,
        columns: Sequence[Sequence[int]],
        heads: Sequence[Tensor],
        mode: DecisionMode,
    ) -> None:
        super().__init__()
        self._view, self._projected_view, self._mode = view, projected_view, mode
        n = len(discriminant.moments)
        members = torch.zeros(n, len(columns), dtype=torch.float64)  # one-hot: the group of every class
        weights = torch.zeros(projection.shape[1], n, dtype=torch.float64)
        for group, (own, head) in enumerate(zip(columns, heads, strict=True)):
            members[list(own), group] = 1
            weights[:, list(own)] = head
        directions, offsets, log_dets = discriminant.own_terms()
        constants = {
            "whitener": discriminant.whitener,
            "means": discriminant.whitened_means,
            "mean_error": discriminant.effective_dim / discriminant.counts,
            "directions": directions.flatten(0, 1),  # (n_classes · rank, dim)
            "offsets": offsets,
            "log_dets": log_dets,
            "members": members,
            "projection": projection.double(),
            "weights": weights,
        }
        for name, value in constants.items():
            self.register_buffer(name, value.contiguous())
        self._temperature = discriminant.temperature

    def forward(self, features: Tensor) -> Tensor:
        """Probabilities ``(n, n_classes)`` float64 of features ``(n, feature_dim)``."""
        if self._mode == "ungated":
            return (HEAD_WEIGHT * self._opinion(features)).log_softmax(1).exp()
        evidence = self._evidence(_seen(features, self._view).double()).log_softmax(1)
        group_evidence = (evidence.exp() @ self._constant("members")).clamp(min=1e-300).log()
        if self._mode == "hard":
            return self._committed(features, group_evidence).exp()
        heard = self._heard(features, evidence)
        within = heard - self._log_total(heard) @ self._constant("members").T
        return (group_evidence @ self._constant("members").T + within).log_softmax(1).exp()

    def _constant(self, name: str) -> Tensor:
        value: Tensor = getattr(self, name)
        return value

    def _evidence(self, vectors: Tensor) -> Tensor:
        whitened, means = vectors @ self._constant("whitener"), self._constant("means")
        squares = whitened.square().sum(1, keepdim=True) + means.square().sum(1)
        distances = (squares - 2 * whitened @ means.T).clamp(min=0)
        linear = -(distances - self._constant("mean_error")) / 2
        candidates = candidate_classes(linear, self._temperature)
        offsets = self._constant("offsets")
        along = (whitened @ self._constant("directions").T).unflatten(1, offsets.shape) - offsets
        scores = torch.where(candidates, linear + (along.square().sum(2) - self._constant("log_dets")) / 2, linear)
        return continue_below(scores, linear, candidates) * self._temperature

    def _opinion(self, features: Tensor) -> Tensor:
        """Scores of the heads ``(n, n_classes)``."""
        projected = (_seen(features.double(), self._projected_view) @ self._constant("projection")).relu()
        return projected @ self._constant("weights")

    def _heard(self, features: Tensor, evidence: Tensor) -> Tensor:
        best = evidence.topk(min(PLAUSIBLE_CLASSES, evidence.shape[1]), dim=1).values
        floor = torch.maximum(best[:, -1:], best[:, :1] - PLAUSIBLE_LOG_ODDS)
        members = self._constant("members")
        contested = ((evidence >= floor).double() @ members > 1).double() @ members.T
        return evidence + HEAD_WEIGHT * self._opinion(features) * contested

    def _log_total(self, scores: Tensor) -> Tensor:
        top = scores.amax(1, keepdim=True)
        return ((scores - top).exp() @ self._constant("members")).clamp(min=1e-300).log() + top

    def _committed(self, features: Tensor, group_evidence: Tensor) -> Tensor:
        members = self._constant("members")
        own = members.T[group_evidence.argmax(1)] > 0
        scores = torch.where(own, HEAD_WEIGHT * self._opinion(features), -torch.inf)
        return torch.where(own, scores.log_softmax(1), torch.full_like(scores, NEVER))


def _seen(features: Tensor, view: View) -> Tensor:
    """As :func:`gddsg.core.transform.apply_view`, in operations that ONNX has."""
    return features.sign() * features.abs().sqrt() if view == "root" else features
