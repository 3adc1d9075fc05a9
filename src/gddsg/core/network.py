"""The whole prediction as one torch network: features in, probabilities out, no state to derive, no branches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gddsg.core.decision import HEAD_WEIGHT, NEVER, Decision
from gddsg.core.predictor import Predictor
from gddsg.core.transform import View

_TINY = 1e-300


class PredictionNetwork(nn.Module, Decision):
    """What a predictor computes, with all classes treated alike, so that it can run elsewhere (ONNX, a GPU).

    Parameters
    ----------
    predictor : Predictor
        One that identifies groups by evidence.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.mode, self.temperature = predictor.mode, predictor.temperature
        self._view, self._projected_view = predictor.view, predictor.projected_view
        own = [scatter() for scatter in predictor.own]
        rank = max((len(scatter.inner) for scatter in own), default=0)
        n, dim = len(own), len(predictor.whitener)
        directions = torch.zeros(n, rank, dim, dtype=torch.float64)
        members = torch.zeros(n, len(predictor.groups), dtype=torch.float64)  # one-hot: the group of every class
        projection = torch.from_numpy(predictor.projection())
        weights = torch.zeros(projection.shape[1], n, dtype=torch.float64)
        whitener = torch.from_numpy(predictor.whitener)
        for c, scatter in enumerate(own):
            inner = torch.from_numpy(scatter.inner).double()
            directions[c, : len(inner)] = inner @ scatter.factor.decoded().double() @ whitener
        means = torch.cat([torch.from_numpy(block) for block in predictor.means])
        offsets = (directions @ means[:, :, None])[..., 0]
        for group, (classes, head) in enumerate(zip(predictor.groups, predictor.heads, strict=True)):
            members[classes, group] = 1
            weights[:, classes] = torch.from_numpy(head())
        constants = {
            "whitener": whitener,
            "means": means,
            "biases": torch.from_numpy(predictor.biases),
            "directions": directions.flatten(0, 1),  # (n_classes · rank, dim)
            "offsets": offsets,
            "log_dets": torch.tensor([scatter.log_det for scatter in own], dtype=torch.float64),
            "members": members,
            "projection": projection,
            "weights": weights,
            "columns": torch.from_numpy(predictor.columns),
        }
        for name, value in constants.items():
            self.register_buffer(name, value.contiguous())

    def forward(self, features: Tensor) -> Tensor:
        """Probabilities ``(n, n_classes)`` float64 of features ``(n, feature_dim)``."""
        probabilities: Tensor = self.log_probabilities(features).exp()
        return probabilities[:, self._constant("columns")]

    def _constant(self, name: str) -> Tensor:
        value: Tensor = getattr(self, name)
        return value

    def _whitened(self, features: Tensor) -> Tensor:
        # torch rounds a float32 root otherwise than NumPy does: it is taken in float64 and rounded then
        return _seen(features.double(), self._view).float().double() @ self._constant("whitener")

    def _linear(self, whitened: Tensor) -> Tensor:
        return whitened @ self._constant("means").T - self._constant("biases")

    def _leading(self, values: Tensor, most: int, margin: float) -> Tensor:
        best = values.topk(min(most, values.shape[1]), dim=1).values
        leading = values >= torch.maximum(best[:, -1:], best[:, :1] - margin)
        return leading & (leading.double().sum(1, keepdim=True) > 1)

    def _quadratic(self, whitened: Tensor, linear: Tensor, candidates: Tensor) -> Tensor:
        offsets = self._constant("offsets")
        along = (whitened @ self._constant("directions").T).unflatten(1, offsets.shape) - offsets
        scores = linear + (along.square().sum(2) - self._constant("log_dets")) / 2
        last = torch.where(candidates, linear, torch.inf).amin(1, keepdim=True)
        shift = torch.where(candidates, scores, torch.inf).amin(1, keepdim=True) - last
        return torch.where(candidates, scores, linear + torch.where(last < torch.inf, shift, 0.0))

    def _log_softmax(self, scores: Tensor, scale: float) -> Tensor:
        return (scores * scale).log_softmax(1)

    def group_evidence(self, features: Tensor, evidence: Tensor) -> Tensor:
        """Log-probabilities ``(n, n_groups)``: a group is as probable as its classes together."""
        return self._by_group(evidence.exp()).clamp(min=_TINY).log()

    def _by_group(self, values: Tensor) -> Tensor:
        """Sums over the classes of each group, ``(n, n_classes)`` to ``(n, n_groups)``."""
        return values @ self._constant("members")

    def _hear_heads(self, features: Tensor, evidence: Tensor, plausible: Tensor) -> Tensor:
        members = self._constant("members")
        contested = (plausible.double() @ members > 1).double() @ members.T
        heard = evidence + HEAD_WEIGHT * self._all_opinions(features)
        anew = heard - self._log_sums(heard) + self._log_sums(evidence)
        return torch.where(contested > 0, anew, evidence)

    def _log_sums(self, scores: Tensor) -> Tensor:
        """To every class the log of the sum of exponentials over its group."""
        top = scores.amax(1, keepdim=True)
        return (self._by_group((scores - top).exp()).clamp(min=_TINY).log() + top) @ self._constant("members").T

    def inside(self, features: Tensor, chosen: Tensor) -> Tensor:
        """The paper's decision: log-probabilities by the head of the ``chosen`` group ``(n,)`` of each row alone."""
        own = self._constant("members").T[chosen] > 0
        scores = torch.where(own, HEAD_WEIGHT * self._all_opinions(features), -torch.inf)
        return torch.where(own, scores.log_softmax(1), torch.full_like(scores, NEVER))

    def _all_opinions(self, features: Tensor) -> Tensor:
        projected = (_seen(features.double(), self._projected_view) @ self._constant("projection")).relu()
        return projected @ self._constant("weights")


def _seen(features: Tensor, view: View) -> Tensor:
    """As :func:`gddsg.core.transform.apply_view`, in operations that ONNX has."""
    return features.sign() * features.abs().sqrt() if view == "root" else features
