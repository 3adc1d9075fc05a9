"""Ridge heads on random projections (paper, eq. 6 to 10), solved from the cards of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gddsg.core.class_card import ClassCard
from gddsg.core.decompositions import cholesky_or_none, symmetric_eigen
from gddsg.core.moments import CodedMoments

REGULARISATION_GRID = tuple(10 ** (k / 2) for k in range(-8, 5))
"""Candidates for λ, relative to the mean eigenvalue tr(Gram) / M, so that the scale of the features is no matter."""

_WITHOUT_HELD_OUT = 0.1  # the middle of the range in which the best λ lay on real features


@dataclass(frozen=True, eq=False)
class RidgeHead:
    """The head of one class group: ``scores = h(x) weights``.

    Attributes
    ----------
    weights : Tensor
        ``(projection_dim, n_group_classes)`` float64, Θ of the paper.
    regularisation : float
        The chosen λ.
    """

    weights: Tensor
    regularisation: float


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """``Gram = basis diag(values) basisᵀ``, and the cross-correlation in that basis."""

    values: Tensor  # (q,)
    basis: Tensor  # (projection_dim, q)
    cross: Tensor  # (q, n_classes)

    def weights(self, regularisation: float) -> Tensor:
        """Θ = (Gram + λ I)⁻¹ C in the basis, ``(q, n_classes)`` (eq. 7)."""
        return self.cross / (self.values + regularisation)[:, None]


def ridge_head(cards: Sequence[ClassCard]) -> RidgeHead:
    """Choose λ on the held-out sums, then solve on all samples of the group's cards."""
    learnt, held_out = [[card.projected] for card in cards], [card.held_out for card in cards]
    regularisation = choose_regularisation(_spectrum(_rows(learnt), _cross_correlation(learnt)), held_out)
    return RidgeHead(_solved([[card.projected, card.held_out] for card in cards], regularisation), regularisation)


def ridge_head_of_samples(rows: Tensor, targets: Tensor, held_out: Tensor, candidates: Sequence[float]) -> RidgeHead:
    """The head of samples that are at hand: λ chosen on those held out, then solved on all; no sum is cut.

    Parameters
    ----------
    rows : Tensor
        Projected features ``(n, projection_dim)`` float64.
    targets : Tensor
        ``(n, n_classes)`` float64, one-hot.
    held_out : Tensor
        ``(n,)`` bool, who judges the candidates.
    candidates : sequence of float
        For λ, as they are.
    """
    learnt = _spectrum(rows[~held_out], rows[~held_out].T @ targets[~held_out])
    if not bool(held_out.any()) or len(learnt.values) == 0:
        regularisation = _WITHOUT_HELD_OUT * _mean_eigenvalue(learnt)
    else:
        sums, judges = targets[held_out].T @ rows[held_out] @ learnt.basis, rows[held_out] @ learnt.basis
        regularisation = _least_error(learnt, judges.T @ judges, sums, candidates)
    spectrum = _spectrum(rows, rows.T @ targets)
    return RidgeHead(spectrum.basis @ spectrum.weights(regularisation), regularisation)


def choose_regularisation(spectrum: _Spectrum, held_out: Sequence[CodedMoments]) -> float:
    """The λ with the least squared error on the held-out samples, known by their sums only (eq. 11)."""
    scale = _mean_eigenvalue(spectrum)
    if sum(moments.count for moments in held_out) == 0 or len(spectrum.values) == 0:
        return _WITHOUT_HELD_OUT * scale
    sums = torch.stack([moments.total.double() for moments in held_out]) @ spectrum.basis
    rows = _second_moment_rows(held_out) @ spectrum.basis
    gram = rows.T @ rows  # of the held-out samples; the energy their factors lost counts as isotropic
    gram.diagonal().add_(sum(moments.residual for moments in held_out) / len(spectrum.basis))
    return _least_error(spectrum, gram, sums, [scale * relative for relative in REGULARISATION_GRID])


def _mean_eigenvalue(spectrum: _Spectrum) -> float:
    return float(spectrum.values.sum()) / len(spectrum.basis) or 1.0


def _least_error(spectrum: _Spectrum, gram: Tensor, sums: Tensor, candidates: Sequence[float]) -> float:
    """The candidate with the least squared error on samples of which the Gram matrix and class sums are known."""
    # with Θ = D C, D = diag(1 / (values + λ)), both terms of the error need C only once, whatever the λ
    quadratic, linear = gram * (spectrum.cross @ spectrum.cross.T), (sums.T * spectrum.cross).sum(1)

    def held_out_error(regularisation: float) -> float:
        # Σ ‖y - Θᵀh‖² = n - 2 tr(Θᵀ HᵀY) + tr(Θᵀ HᵀH Θ)
        inverse = 1 / (spectrum.values + regularisation)
        return float(inverse @ quadratic @ inverse - 2 * linear @ inverse)

    return min(candidates, key=held_out_error)


def _spectrum(rows: Tensor, cross: Tensor) -> _Spectrum:
    """Spectrum of the Gram matrix ``rowsᵀ rows``, primal (M × M) or dual (rows × rows), whichever is smaller."""
    if len(rows) < rows.shape[1]:
        values, vectors = symmetric_eigen(rows @ rows.T)
        keep = values > values[-1:].clamp(min=1e-300) * 1e-12
        basis = rows.T @ (vectors[:, keep] / values[keep].sqrt())
    else:
        values, vectors = symmetric_eigen(rows.T @ rows)
        keep = values > values[-1:].clamp(min=1e-300) * 1e-12
        basis = vectors[:, keep]
    return _Spectrum(values[keep], basis, basis.T @ cross)


def _solved(shares: Sequence[Sequence[CodedMoments]], regularisation: float) -> Tensor:
    """Θ = (Gram + λ I)⁻¹ C (eq. 7), primal or dual, whichever is smaller."""
    rows, cross = _rows(shares), _cross_correlation(shares)
    dual = len(rows) < rows.shape[1]
    gram = rows @ rows.T if dual else rows.T @ rows
    gram.diagonal().add_(regularisation)
    factor = cholesky_or_none(gram)
    if factor is None:  # samples without any spread and a λ that is lost in rounding: their spectrum tells what counts
        spectrum = _spectrum(rows, cross)
        return spectrum.basis @ spectrum.weights(regularisation)
    if not dual:
        return torch.cholesky_solve(cross, factor)
    # (RᵀR + λ I)⁻¹ C = (C - Rᵀ (R Rᵀ + λ I)⁻¹ R C) / λ
    return (cross - rows.T @ torch.cholesky_solve(rows @ cross, factor)) / regularisation


def _cross_correlation(shares: Sequence[Sequence[CodedMoments]]) -> Tensor:
    return torch.stack([torch.stack([m.total.double() for m in share]).sum(0) for share in shares], dim=1)


def _rows(shares: Sequence[Sequence[CodedMoments]]) -> Tensor:
    return torch.cat([_second_moment_rows(share) for share in shares])


def _second_moment_rows(share: Sequence[CodedMoments]) -> Tensor:
    """Rows whose ``rowsᵀ rows`` is the sum of h hᵀ over all samples: the scatter factors and √n times the means."""
    parts = [moments.factor.decoded().double() for moments in share]
    means = [(moments.mean * moments.count**0.5)[None] for moments in share]
    return torch.cat(parts + means)
