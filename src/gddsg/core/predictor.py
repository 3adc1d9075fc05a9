"""What answers: plain arrays and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gddsg.core.decision import HEAD_WEIGHT, NEVER, Decision, DecisionMode
from gddsg.core.label import Label
from gddsg.core.novelty import Novelty
from gddsg.core.once import Lazy
from gddsg.core.own_scatter import OwnScatter
from gddsg.core.transform import View, apply_view
from gddsg.errors import InputError

Features = NDArray[np.float32]
Floats = NDArray[np.float64]

_SCORES_AT_ONCE, _SCORES_IN_CACHE, _LEAST_ROWS = 2**22, 2**16, 64
_TINY, _COLUMNS_AT_ONCE = 1e-300, 160
_TIE = 1e-9  # in log-probability: far beyond rounding, which must not decide, and far below what anybody can see


@dataclass(frozen=True, eq=False)
class Predictor(Decision):
    """All that a prediction takes, as arrays; what few predictions need is computed when one does.

    Classes are in canonical order inside, and in the order of ``labels`` in every answer.

    Attributes
    ----------
    labels : ndarray
        ``(n_classes,)``, sorted.
    columns : ndarray
        ``(n_classes,)``, place of every label's class in canonical order.
    view, projected_view : {"root", "raw"}
        Of the features: for the discriminant, and for the heads.
    whitener : ndarray
        ``(dim, dim)``.
    means : tuple of ndarray
        Whitened class means, some hundreds together.
    biases : ndarray
        ``(n_classes,)``, see :class:`gddsg.core.discriminant.BlockMeans`.
    ready : bool
        Whether directions of own scatter are ready for use, see :class:`gddsg.core.own_scatter.OwnScatter`.
    centres : tuple of ndarray
        Of every class the whitened mean, or ``T_0⁻¹ μ`` where directions are not ready, ``(dim,)`` each.
    own : tuple of Lazy of OwnScatter
        Of every class.
    own_weights : ndarray
        ``(n_classes,)``, what own scatter weighs, see :class:`gddsg.core.own_scatter.OwnScatter`.
    groups : tuple of ndarray
        Classes of every group.
    group_of : ndarray
        ``(n_classes,)``, the group of every class.
    heads : tuple of Lazy of ndarray
        Weights ``(projection_dim, n_group_classes)`` of every group.
    projection : callable
        Gives the projection weights ``(feature_dim, projection_dim)``, which only heads need.
    vote : callable or None
        Group probabilities ``(n, n_groups)`` of vectors, where a vote identifies the group; else the evidence does.
    novelty : Lazy of Novelty
        How unlike every class an input is.
    """

    labels: NDArray[Any]
    columns: NDArray[np.intp]
    view: View
    projected_view: View
    mode: DecisionMode
    temperature: float
    whitener: Floats
    means: tuple[Floats, ...]
    biases: Floats
    ready: bool
    centres: tuple[Floats, ...]
    own: tuple[Lazy[OwnScatter], ...]
    own_weights: Floats
    groups: tuple[NDArray[np.intp], ...]
    group_of: NDArray[np.intp]
    heads: tuple[Lazy[Floats], ...]
    projection: Callable[[], Floats]
    vote: Callable[[Floats], Floats] | None
    novelty: Lazy[Novelty]

    @property
    def feature_dim(self) -> int:
        """Width of the features."""
        return len(self.whitener)

    # ---------------------------------------------------------------- answers

    def predict_log_proba(self, features: Features) -> Floats:
        """Log-probabilities ``(n, n_classes)`` of features ``(n, feature_dim)``, columns in the order of ``labels``."""
        parts = [self.log_probabilities(part)[:, self.columns] for part in self._chunks(features)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def predict(self, features: Features, reject: float | None = None, unknown: Label = "unknown") -> NDArray[Any]:
        """Labels ``(n,)``; ``unknown`` for inputs stranger than a share ``reject`` of known ones is."""
        best = np.concatenate([self._best(part) for part in self._chunks(features)])
        labels: NDArray[Any] = self._names[best]
        if reject is None:
            return labels
        strange = self.measure_novelty(features) > self.novelty_limit(reject)
        mixed = isinstance(unknown, str) != (labels.dtype.kind == "U")
        word = np.array(unknown, dtype=object if mixed else None)
        return np.where(strange, word, labels.astype(object) if mixed else labels)

    def best_columns(self, table: Floats) -> NDArray[np.intp]:
        """Column ``(n,)`` of the class that :meth:`predict` names, of a table of :meth:`predict_log_proba`."""
        canonical = np.argsort(self.columns)
        best: NDArray[np.intp] = canonical[first_best(table[:, canonical])]
        return best

    def predict_group(self, features: Features) -> NDArray[np.intp]:
        """Index of the group that each row is identified with, ``(n,)``."""
        found = [self.group_evidence(part, self.evidence(part)).argmax(1) for part in self._chunks(features)]
        return np.concatenate(found)

    def predict_in_group(self, features: Features, chosen: NDArray[np.intp]) -> NDArray[Any]:
        """Labels ``(n,)`` by the heads of the chosen groups ``(n,)`` alone."""
        parts = zip(self._chunks(features), self._chunks(chosen), strict=True)
        best = np.concatenate([self.inside(rows, own).argmax(1) for rows, own in parts])
        labels: NDArray[Any] = self._names[best]
        return labels

    def _best(self, features: Features) -> NDArray[np.intp]:
        """Place ``(n,)`` in canonical order of the class that each row gets."""
        return first_best(self.log_probabilities(features))

    @cached_property
    def _names(self) -> NDArray[Any]:
        """Labels in canonical order."""
        names = np.empty_like(self.labels)
        names[self.columns] = self.labels
        return names

    def measure_novelty(self, features: Features) -> Floats:
        """How unlike every known class each row is, ``(n,)``; higher is stranger."""
        return self.novelty().measure(apply_view(features, self.view).astype(np.float64))

    def novelty_limit(self, kept: float) -> float:
        """The novelty that a share ``kept`` of known inputs stays below."""
        if not isinstance(kept, int | float | np.number) or not 0 < kept <= 1:
            raise InputError(f"reject={kept!r} was given; expected the share of known inputs to keep, in (0, 1].")
        return self.novelty().limit(kept)

    # ---------------------------------------------------------------- parts of the decision

    def _whitened(self, features: Features) -> Floats:
        seen, out = apply_view(features, self.view).astype(np.float64), np.empty((len(features), len(self.whitener)))
        for start in range(0, len(self.whitener), _COLUMNS_AT_ONCE):  # the whitener is zero below its diagonal
            stop = start + _COLUMNS_AT_ONCE
            np.matmul(seen[:, :stop], self.whitener[:stop, start:stop], out=out[:, start:stop])
        return out

    def _linear(self, whitened: Floats) -> Floats:
        # -½ (‖z - m‖² - error) = z·m - ½ (‖m‖² - error), up to what all classes share
        scores = np.empty((len(whitened), len(self.labels)))
        stop = np.cumsum([len(block) for block in self.means])
        for block, end in zip(self.means, stop.tolist(), strict=True):
            np.matmul(whitened, block.T, out=scores[:, end - len(block) : end])
        scores -= self.biases
        return scores

    def _leading(self, values: Floats, most: int, margin: float) -> NDArray[np.bool_]:
        leading: NDArray[np.bool_] = values >= values.max(1, keepdims=True) - margin
        counts = leading.sum(1)
        for row in np.flatnonzero(counts > most).tolist():
            leading[row] &= values[row] >= np.partition(values[row], -most)[-most]
        leading[counts == 1] = False
        return leading

    def _quadratic(self, whitened: Floats, linear: Floats, candidates: NDArray[np.bool_]) -> Floats:
        rows = np.flatnonzero(candidates.any(1))
        if len(rows) == 0:
            return linear
        scores, few = linear[rows], candidates[rows]
        # all of these first: torch and NumPy in turns would keep their threads waiting for each other
        own_scatters = {c: self.own[c]() for c in np.flatnonzero(few.any(0)).tolist()}
        last = np.where(few, scores, np.inf).min(1)
        inputs = whitened[rows] if self.ready else whitened[rows] @ self.whitener.T  # T_0⁻¹ x
        term = OwnScatter.term_ready if self.ready else OwnScatter.term
        for c, scatter in own_scatters.items():
            asking = np.flatnonzero(few[:, c])
            scores[asking, c] += term(scatter, inputs[asking], self.centres[c])
        shift = np.where(few, scores, np.inf).min(1) - last
        linear[rows] = np.where(few, scores, linear[rows] + shift[:, None])
        return linear

    def group_evidence(self, features: Features, evidence: Floats) -> Floats:
        """Log-probabilities ``(n, n_groups)``, by the vote if there is one, else by the evidence for their classes."""
        if self.vote is None:
            return self._group_logs(evidence)
        votes: Floats = np.log(self.vote(apply_view(features, self.view).astype(np.float64)).clip(min=1e-12))
        return votes

    def _group_logs(self, evidence: Floats) -> Floats:
        members = np.concatenate(self.groups)
        starts = np.cumsum([0, *map(len, self.groups[:-1])])
        sums: Floats = np.add.reduceat(np.exp(evidence)[:, members], starts, axis=1)
        logs: Floats = np.log(sums.clip(min=_TINY))
        return logs

    def _weigh_groups(self, features: Features, scores: Floats) -> Floats:
        if self.vote is None:
            return scores
        weights = self.group_evidence(features, scores) - self._group_logs(scores)
        return self._log_softmax(scores + weights[:, self.group_of], 1.0)

    def _log_softmax(self, scores: Floats, scale: float) -> Floats:
        # in place, and as few rows at a time as fit in a processor's cache: else most of the time goes to memory
        size = max(_SCORES_IN_CACHE // scores.shape[1], 1)
        for start in range(0, len(scores), size):
            rows = scores[start : start + size]
            rows *= scale
            rows -= rows.max(1, keepdims=True)
            rows -= np.log(np.exp(rows).sum(1, keepdims=True))
        return scores

    def _hear_heads(self, features: Features, evidence: Floats, plausible: NDArray[np.bool_]) -> Floats:
        rows, classes = np.nonzero(plausible)
        pairs, times = np.unique(np.stack([self.group_of[classes], rows]), axis=1, return_counts=True)
        groups, rows = pairs[:, times > 1]
        for group, asking, opinion in self._opinions(features, groups, rows):
            place = np.ix_(asking, self.groups[group])
            before = evidence[place]
            heard = before + HEAD_WEIGHT * opinion
            evidence[place] = heard - _log_sum(heard) + _log_sum(before)
        return evidence

    def inside(self, features: Features, chosen: NDArray[np.intp]) -> Floats:
        """The paper's decision: log-probabilities by the head of the ``chosen`` group ``(n,)`` of each row alone."""
        out = np.full((len(features), len(self.labels)), NEVER)
        for group, asking, opinion in self._opinions(features, chosen, np.arange(len(features))):
            out[np.ix_(asking, self.groups[group])] = self._log_softmax(opinion, HEAD_WEIGHT)
        return out

    def _all_opinions(self, features: Features) -> Floats:
        out, n = np.empty((len(features), len(self.labels))), len(self.groups)
        everybody = np.arange(n).repeat(len(features)), np.tile(np.arange(len(features)), n)
        for group, asking, opinion in self._opinions(features, *everybody):
            out[np.ix_(asking, self.groups[group])] = opinion
        return out

    def _chunks(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Some rows at a time: a table of all rows and classes might fill the memory."""
        size = max(_SCORES_AT_ONCE // len(self.labels), _LEAST_ROWS)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def _opinions(
        self, features: Features, groups: NDArray[np.intp], rows: NDArray[np.intp]
    ) -> Iterator[tuple[int, NDArray[np.intp], Floats]]:
        """For pairs of a group and a row: each group, its rows, and what its head says of them, ``(n, n_members)``."""
        needed, place = np.unique(rows, return_inverse=True)
        if len(needed) == 0:
            return
        heads = {group: self.heads[group]() for group in np.unique(groups).tolist()}  # first, see _quadratic
        # in float64, so that a row's score is its own whatever the batch it comes in
        seen = apply_view(features[needed].astype(np.float64), self.projected_view)
        projected = np.maximum(seen @ self.projection(), 0)
        for group, weights in heads.items():
            own = groups == group
            yield group, rows[own], projected[place[own]] @ weights


def first_best(scores: Floats) -> NDArray[np.intp]:
    """Place ``(n,)`` of the best log-probability of each row; of several that differ by rounding alone, the first."""
    first: NDArray[np.intp] = (scores >= scores.max(1, keepdims=True) - _TIE).argmax(1)
    return first


def _log_sum(scores: Floats) -> Floats:
    top = scores.max(1, keepdims=True)
    total: Floats = np.log(np.exp(scores - top).sum(1, keepdims=True)) + top
    return total
