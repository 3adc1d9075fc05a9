"""AnaCP: features are moved towards targets that lie apart, by least squares, and a ridge head learns from draws."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu

from gddsg.core.by_class import rows_by_class
from gddsg.core.content_hash import hash_rows
from gddsg.core.decompositions import symmetric_eigen, symmetric_solve
from gddsg.core.gram import add_gram
from gddsg.core.label import Label
from gddsg.core.linear_discriminant import WithinScatter
from gddsg.core.once import Carried
from gddsg.core.projection import projection_weights
from gddsg.core.transform import View, signed_root, unit
from gddsg.learners.base import Learnt, ProjectionLearner
from gddsg.learners.features import checked_features

_ROWS_AT_ONCE = 2048
_VARIANCE_FLOOR = 1e-4  # the authors' addition to the covariance of features of unit length
_SPANNED = 1e-12  # of the largest squared singular value: the means do not span a direction below it
_SCORE_SCALE = 20.0  # ridge scores regress 0 and 1: unscaled, no probability would exceed e / (e + n_classes - 1)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Running sums over all samples.

    Attributes
    ----------
    within : WithinScatter
        Class means and shared scatter of the features of unit length.
    grams : Tensor
        ``ZᵀZ`` of every head, ``(heads, D, D)`` float64.
    hidden : mapping of Label to Tensor
        Sums of z by class, ``(heads, D)`` float64.
    keys : mapping of Label to int
        Sums of the hashes of a class's samples, modulo 2**64.
    """

    within: WithinScatter
    grams: Tensor
    hidden: Mapping[Label, Tensor]
    keys: Mapping[Label, int]

    @classmethod
    def empty(cls, dim: int, heads: int, M: int) -> _Sums:
        """Of no sample."""
        return cls(WithinScatter.empty(dim), torch.zeros(heads, M, M, dtype=torch.float64), {}, {})

    def key_with(self, label: Label, rows: Tensor) -> int:
        """The key of a class after more samples: a sum, so that neither their order nor their batches show."""
        return (self.keys.get(label, 0) + int(hash_rows(rows).sum(dtype=np.uint64))) % 2**64


@dataclass(frozen=True, eq=False)
class _Solved:
    """What follows from the sums: the heads' weights ``(D, dim)`` each, and the classifier's ``(D, n_classes)``."""

    heads: Sequence[Tensor]
    weights: Tensor


State = Carried[_Sums, _Solved]


def pushed_apart(means: Tensor, whitener: Tensor) -> Tensor:
    """Targets ``(n_classes, dim)`` of unit length: singular values of the whitened centred means, each larger by one.

    ``U (S + 1) Vᵀ`` is the matrix itself plus ``U Vᵀ``, which is found from the smaller of its two Gram matrices.

    Parameters
    ----------
    means : Tensor
        ``(n_classes, dim)`` float64.
    whitener : Tensor
        K, ``(dim, dim)`` symmetric.
    """
    centre = means.mean(0)
    whitened = (means - centre) @ whitener
    wide = len(means) <= means.shape[1]
    values, vectors = symmetric_eigen(whitened @ whitened.T if wide else whitened.T @ whitened)
    spanned = values > _SPANNED * values[-1:].clamp(min=torch.finfo(torch.float64).tiny)
    inverse_root = (vectors[:, spanned] / values[spanned].sqrt()) @ vectors[:, spanned].T
    orthogonal = inverse_root @ whitened if wide else whitened @ inverse_root
    return unit((whitened + orthogonal) @ whitener + centre)


class AnaCP(ProjectionLearner[State]):
    """Analytic contrastive projection (Momeni et al., NeurIPS 2025) on frozen features.

    Features x of unit length pass three layers, each solved in closed form:

    1. ``z = gelu(x W)`` with random W.
    2. The contrastive projection ``p = z (ZᵀZ + λ I)⁻¹ ZᵀT``, brought to unit length. It regresses every sample onto
       the target of its class, so that samples of a class come together. Targets t_c are class means pushed apart: with
       K the inverse root of the covariance that all classes share and m the mean of the class means, the rows
       ``(μ_c - m) K`` get singular values larger by one, and what comes out times K, plus m, brought to unit length, is
       t_c. Several such projections with weights W of their own are averaged, ``heads`` of them.
    3. A ridge head on ``gelu(p W')``, again with random weights. Samples of earlier classes are gone when the
       projection changes; it learns from draws of each class instead, from a Gaussian of the class's mean and the
       shared covariance.

    The steps are those of the authors' program, where the second factor is K, too, rather than its inverse. Three
    things depend on the order there, which need not. The shared covariance is that of all samples about the means of
    their classes, not a running average whose weights count new samples twice. Draws of a class follow from ``seed``
    and from a hash of the class's samples. And the direction that the centred means do not span keeps its singular
    value of zero: rounding alone would pick it. The first task is not used to adapt the network.

    Parameters
    ----------
    projection_dim : int
        D, width of the random layers; the authors' 5000.
    heads : int
        Contrastive projections that are averaged; the authors' 3.
    regularisation : float
        λ of both regressions; the authors' 100.
    draws : int
        Pseudo-samples a class; the authors' 100.
    seed : int
        Of the random layers and of the draws.
    view : {"raw", "root"}
        Features as they are, or their signed square root.
    device : str
        Torch device for the sums.

    Examples
    --------
    >>> AnaCP(projection_dim=32).fit([[1.0, 0.0], [0.0, 1.0]], [7, 8]).predict([[0.2, 0.9]])
    [8]

    References
    ----------
    https://arxiv.org/abs/2511.13880
    """

    fixed_by_learning = ("projection_dim", "seed", "heads", "regularisation", "draws", "view")
    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        projection_dim: int = 5_000,
        heads: int = 3,
        regularisation: float = 100.0,
        draws: int = 100,
        seed: int = 0,
        view: View = "raw",
        device: str = "cpu",
    ) -> None:
        self.projection_dim = projection_dim
        self.heads = heads
        self.regularisation = regularisation
        self.draws = draws
        self.seed = seed
        self.view = view
        self.device = device

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Narrow layers, and a λ that is as much smaller."""
        return {**super().test_params(), "heads": 2, "regularisation": 1.0, "draws": 20}

    def state_bytes(self) -> int:
        """Float32 Gram matrix and class sums of every head, class means and the shared covariance."""
        learnt = self._current()
        if learnt is None:
            return 0
        n_classes, dim = len(learnt.classes), len(learnt.state.kept.within.scatter)
        return 4 * (self.heads * self.projection_dim * (self.projection_dim + n_classes) + dim * (n_classes + dim))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("heads", 1, 1000)
        self._check_whole("draws", 1, 2**31 - 1)
        self._check_number("regularisation", 1e-9, 1e12)

    def _read(self, X: Any, before: Learnt[State] | None) -> tuple[Tensor, Mapping[str, Any]]:
        """Features as they came: samples are hashed, and a root may have other last bits on another machine."""
        return checked_features(X, {} if before is None else before.columns, type(self).__name__, self.device)

    def _vectors(self, features: Tensor) -> Tensor:
        """The view of the features at unit length, float64."""
        exact = features.double()
        return unit(signed_root(exact) if self.view == "root" else exact)

    def _next_state(self, state: State | None, inputs: Tensor, labels: Sequence[Label]) -> State:
        known = _Sums.empty(inputs.shape[1], self.heads, self.projection_dim) if state is None else state.kept
        names, grams = sorted(set(labels)), known.grams.to(inputs.device, copy=True)
        places = torch.tensor([bisect_left(names, label) for label in labels], device=inputs.device)
        new = grams.new_zeros(self.heads, len(names), self.projection_dim)
        for rows, own in zip(inputs.split(_ROWS_AT_ONCE), places.split(_ROWS_AT_ONCE), strict=True):
            for h in range(self.heads):
                z = self._layer(self._vectors(rows), h)
                add_gram(grams[h], z)
                new[h].index_add_(0, own, z)
        hidden = {name: known.hidden.get(name, 0) + new[:, i].cpu() for i, name in enumerate(names)}
        within = known.within.plus(inputs, labels, self._vectors)
        keys = {**known.keys, **{label: known.key_with(label, rows) for label, rows in rows_by_class(inputs, labels)}}
        return Carried(_Sums(within, grams.cpu(), {**known.hidden, **hidden}, keys))

    def _layer(self, vectors: Tensor, place: int) -> Tensor:
        """``gelu(v W)`` with the weights of a head, or behind the last head those of the classifier, float64."""
        M = self.projection_dim
        weights = projection_weights(vectors.shape[1], (self.heads + 1) * M, self.seed)
        return gelu(vectors @ weights[:, place * M : (place + 1) * M].to(vectors))

    def _log_probabilities(self, learnt: Learnt[State], inputs: Tensor) -> Tensor:
        solved = learnt.state.derived.get(lambda: self._solve(learnt))
        chunks = self._vectors(inputs.cpu()).split(_ROWS_AT_ONCE)
        scores = [self._layer(self._projected(chunk, solved.heads), self.heads) @ solved.weights for chunk in chunks]
        return (_SCORE_SCALE * torch.cat(scores)).log_softmax(1)

    def _projected(self, vectors: Tensor, heads: Sequence[Tensor]) -> Tensor:
        """The mean of the projections, ``(n, dim)``."""
        outputs = [unit(self._layer(vectors, h) @ weights) for h, weights in enumerate(heads)]
        return torch.stack(outputs).mean(0)

    def _solve(self, learnt: Learnt[State]) -> _Solved:
        known, labels = learnt.state.kept, learnt.classes.tolist()
        means, covariance = known.within.means(labels), known.within.covariance
        covariance.diagonal().add_(_VARIANCE_FLOOR)
        values, vectors = symmetric_eigen(covariance)
        spread = values.clamp(min=_VARIANCE_FLOOR).sqrt()
        targets = pushed_apart(means, (vectors / spread) @ vectors.T)
        sums = torch.stack([known.hidden[label] for label in labels], dim=2)  # (heads, D, n_classes)
        heads = [self._ridge(gram, own @ targets) for gram, own in zip(known.grams, sums, strict=True)]
        keys, root = [known.keys[label] for label in labels], (vectors * spread) @ vectors.T
        return _Solved(heads, self._classifier(heads, means, root, keys))

    def _classifier(self, heads: Sequence[Tensor], means: Tensor, root: Tensor, keys: Sequence[int]) -> Tensor:
        """``(HᵀH + λ I)⁻¹ HᵀY`` of the draws, ``(D, n_classes)``; ``root root`` is the shared covariance."""
        M = self.projection_dim
        gram, cross = means.new_zeros(M, M), means.new_zeros(M, len(means))
        at_once = max(1, _ROWS_AT_ONCE // self.draws)
        for some in torch.arange(len(means)).split(at_once):
            drawn = torch.stack([means[c] + self._noise(keys[c], means.shape[1]) @ root for c in some.tolist()])
            hidden = self._layer(self._projected(drawn.flatten(0, 1), heads), self.heads)
            add_gram(gram, hidden)
            cross[:, some] = hidden.view(len(some), self.draws, M).sum(1).T
        return self._ridge(gram, cross)

    def _noise(self, key: int, dim: int) -> Tensor:
        """``(draws, dim)`` standard normal, of the class with this hash; its stream is frozen by NumPy."""
        generator = np.random.RandomState([self.seed, key >> 32, key & 0xFFFFFFFF])
        return torch.from_numpy(generator.standard_normal((self.draws, dim)))

    def _ridge(self, gram: Tensor, cross: Tensor) -> Tensor:
        """``(Gram + λ I)⁻¹ C``."""
        regularised = gram.clone()
        regularised.diagonal().add_(self.regularisation)
        return symmetric_solve(regularised, cross)
