"""LR-RGDA: a Gaussian a class, whose covariance is its own low-rank scatter, the pooled one and the identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gddsg.core.by_class import rows_by_class
from gddsg.core.decompositions import cholesky
from gddsg.core.label import Label
from gddsg.core.moments import Moments
from gddsg.core.once import Carried
from gddsg.core.transform import View, unit
from gddsg.errors import InputError
from gddsg.learners.base import FeatureLearner, Learnt

_NUMBERS_AT_ONCE = 2**24
_ONE_SAMPLE_VARIANCE = 1e-4  # the authors' covariance of a class of one sample, in each direction


def pooled_covariance(scatters: Sequence[Moments]) -> Tensor:
    """``(dim, dim)``, the mean of the covariances of the classes; all weigh alike, whatever their samples."""
    dim, lonely = scatters[0].dim, sum(own.count == 1 for own in scatters)
    pooled = torch.zeros(dim, dim, dtype=torch.float64)
    for own in scatters:
        rows = _standard_factor(own)
        pooled.addmm_(rows.T, rows)
    pooled.diagonal().add_(lonely * _ONE_SAMPLE_VARIANCE)
    return pooled / len(scatters)


def _standard_factor(scatter: Moments) -> Tensor:
    """F with ``FᵀF = S / (n - 1)``, the longest directions first."""
    return scatter.factor.double().div_(max(scatter.count - 1, 1) ** 0.5)


@dataclass(frozen=True, eq=False)
class LowRankDiscriminant:
    """``score_c = x·w_c - b_c + ½ ‖D_c x - o_c‖²``, the log-likelihood of class c up to what all classes share.

    Attributes
    ----------
    weights, biases : Tensor
        ``B⁻¹ μ_c`` ``(dim, n_classes)``, and ``½ μ_cᵀB⁻¹μ_c + ½ log det M_c`` ``(n_classes,)``.
    directions, offsets : Tensor
        ``M_c^-½ U_cᵀ B⁻¹`` ``(n_classes, rank, dim)`` and the same times μ_c ``(n_classes, rank)``; zeros where a class
        has fewer directions.
    """

    weights: Tensor
    biases: Tensor
    directions: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, scatters: Sequence[Moments], shared: Tensor, alpha1: float, rank: int) -> LowRankDiscriminant:
        """The discriminant of classes with covariance ``α₁ S_c + B``, S_c cut to ``rank`` and B ``shared``."""
        lower, means = cholesky(shared), torch.stack([own.mean for own in scatters])
        weights = torch.cholesky_solve(means.T, lower)
        biases = (means.T * weights).sum(0) / 2
        rank = min(rank, max(len(own.factor) for own in scatters))
        directions = means.new_zeros(len(scatters), rank, means.shape[1])
        for c, own in enumerate(scatters):
            rows = alpha1**0.5 * _standard_factor(own)[:rank]  # U_cᵀ
            solved = torch.cholesky_solve(rows.T, lower).T
            root = cholesky(rows @ solved.T + torch.eye(len(rows), dtype=torch.float64))
            directions[c, : len(rows)] = torch.linalg.solve_triangular(root, solved, upper=False)
            biases[c] += root.diagonal().log().sum()
        return cls(weights, biases, directions, torch.einsum("crd,cd->cr", directions, means))

    def scores(self, vectors: Tensor) -> Tensor:
        """``(n, n_classes)`` of float64 ``vectors`` ``(n, dim)``."""
        n_classes, rank, dim = self.directions.shape
        flat, offsets = self.directions.reshape(n_classes * rank, dim), self.offsets.reshape(n_classes * rank)
        chunks = vectors.split(max(1, _NUMBERS_AT_ONCE // max(n_classes * rank, 1)))
        along = [(chunk @ flat.T - offsets).square_().view(len(chunk), n_classes, rank).sum(2) for chunk in chunks]
        return vectors @ self.weights - self.biases + torch.cat(along) / 2


State = Carried[Mapping[Label, Moments], LowRankDiscriminant]


class LRRGDA(FeatureLearner[State]):
    """Low-rank regularised Gaussian discriminant analysis (Rao et al., 2026) on frozen features.

    Class c is a Gaussian of mean μ_c and covariance ``α₁ S_c + α₂ S + α₃ I``: S_c is the class's own covariance cut to
    its ``rank`` leading directions, S the mean of the uncut covariances of all classes. With ``B = α₂ S + α₃ I`` and
    ``α₁ S_c = U_c U_cᵀ``, Woodbury's identity makes the log-likelihood an affine term refined by a quadratic one of low
    rank, ``x·B⁻¹μ_c - ½ μ_cᵀB⁻¹μ_c - ½ log det + ½ ‖M_c^-½ U_cᵀ B⁻¹ (x - μ_c)‖²`` with ``M_c = I + U_cᵀ B⁻¹ U_c``.
    Classes are equally likely beforehand.

    The identity has a weight of its own, so the scale of features matters. The authors end their network with a layer
    normalisation that has no weights, and their α₃ is meant for its outputs; hence ``layer_norm`` here.

    The authors also correct the statistics of earlier classes for a network that is trained on (HopDC). Features are
    frozen here and nothing drifts, so there is nothing to correct. Nor is their short cut taken, a linear discriminant
    that leaves the 50 likeliest classes to this one: it saves time, and this is what it approximates. Leading
    directions are exact, where the authors' code finds them by random sketches. A class of one sample has no directions
    of its own; for the pooled covariance it counts, as in their code, as a sphere of variance 1e-4.

    Parameters
    ----------
    rank : int
        r, directions kept of a class's own covariance; the authors' 64.
    alpha1, alpha2, alpha3 : float
        Weights of the class's own covariance, the pooled one and the identity; the defaults of the authors' program,
        for all data sets.
    layer_norm : bool
        Whether every sample is first brought to mean 0 and variance 1 over its features.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the arithmetic.

    Examples
    --------
    >>> model = LRRGDA().partial_fit([[1.0, 0.0, 0.0], [0.8, 0.1, 0.0]], ["cat", "cat"])
    >>> model.partial_fit([[0.0, 1.0, 0.0]], ["dog"]).predict([[0.1, 0.7, 0.1]])
    ['dog']

    References
    ----------
    https://arxiv.org/abs/2602.00144
    """

    fixed_by_learning = ("rank", "alpha1", "alpha2", "alpha3", "layer_norm", "view")

    def __init__(
        self,
        rank: int = 64,
        alpha1: float = 0.2,
        alpha2: float = 2.0,
        alpha3: float = 0.5,
        layer_norm: bool = True,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.rank = rank
        self.alpha1 = alpha1
        self.alpha2 = alpha2
        self.alpha3 = alpha3
        self.layer_norm = layer_norm
        self.view = view
        self.device = device

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Features as they are: of two features, which some checks have, a layer norm leaves no more than a sign."""
        return {"rank": 5, "layer_norm": False}

    def state_bytes(self) -> int:
        """Float32 mean and at most ``rank`` directions a class, and the pooled covariance."""
        learnt = self._current()
        scatters = [] if learnt is None else list(learnt.state.kept.values())
        rows = sum(1 + min(len(own.factor), self.rank) for own in scatters)
        return 4 * sum(own.dim * (rows + own.dim) for own in scatters[:1])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("rank", 1)
        for name, low in (("alpha1", 0.0), ("alpha2", 0.0), ("alpha3", 1e-9)):
            self._check_number(name, low, 1e9)
        if not isinstance(self.layer_norm, bool):
            raise InputError(f"layer_norm={self.layer_norm!r} was given; expected True or False.")

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        """The uncut scatter of every class: cut to the rank task by task, it would depend on the order of samples."""
        scatters = {} if state is None else dict(state.kept)
        for label, rows in rows_by_class(self._vectors(inputs), labels):
            own = Moments.of(rows)
            scatters[label] = scatters[label].merge(own) if label in scatters else own
        return Carried(scatters)

    def _vectors(self, features: Tensor) -> Tensor:
        """Float64, and after the layer norm ``(x - mean) / deviation`` over the features of each row."""
        exact = features.double()
        if not self.layer_norm:
            return exact
        return unit(exact - exact.mean(1, keepdim=True)).mul_(exact.shape[1] ** 0.5)

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        discriminant = learnt.state.derived.get(lambda: self._discriminant(learnt))
        return discriminant.scores(self._vectors(inputs.cpu())).log_softmax(1)

    def _discriminant(self, learnt: Learnt[State]) -> LowRankDiscriminant:
        scatters = [learnt.state.kept[label] for label in learnt.classes.tolist()]
        shared = self.alpha2 * pooled_covariance(scatters)
        shared.diagonal().add_(self.alpha3)
        return LowRankDiscriminant.of(scatters, shared, self.alpha1, self.rank)
