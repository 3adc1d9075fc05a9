"""What answers for a model of very many classes: a first look at all of them, exact scores for those that lead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gddsg.core.class_block import ClassBlock
from gddsg.core.coded_rows import CodedRows
from gddsg.core.predictor import Features, Floats, Predictor, first_best
from gddsg.core.shortlist import LISTED_CLASSES, Shortlist, pick

LARGE_CLASSES = 8192
"""Models of more classes that have no heads keep cards in their file until somebody asks for one, and answer by this.
Beyond it a look at all classes takes longer than the rest of an answer."""

CLOSE_LOG_ODDS, CLOSE_CLASSES = 6.0, 8
"""As ``CANDIDATE_LOG_ODDS`` and ``MAX_CANDIDATES`` of smaller models, but each of these comes from the disk."""


class _Close(NamedTuple):
    """The classes close to the best of a row."""

    row: int
    columns: NDArray[np.intp]
    classes: NDArray[np.intp]
    means: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LargePredictor(Predictor):
    """Answers without heads, with factors that come from the cards when a class is close.

    Classes are listed by their leading directions; those listed get exact scores, those close to the best of them also
    the term of their own scatter. All others follow the last of the list at their rough distance.

    Attributes
    ----------
    shortlist : Shortlist
        The first look.
    blocks : tuple of ClassBlock
        All classes, in canonical order.
    starts : ndarray
        ``(n_blocks + 1,)``, the place of the first class of each block, and their number.
    factor : callable
        Gives the factor of the class in that place.
    """

    shortlist: Shortlist
    blocks: tuple[ClassBlock, ...]
    starts: NDArray[np.intp]
    factor: Callable[[int], CodedRows]

    def evidence(self, features: Features) -> Floats:
        """Log-probabilities ``(n, n_classes)`` by the discriminant."""
        whitened = self._whitened(features)
        rough = self.shortlist.rough_scores(whitened)
        listed, scores = self._listed(whitened, rough)
        rough -= np.take_along_axis(rough, listed, 1).min(1, keepdims=True)
        table = rough.astype(np.float64)
        table += scores.min(1, keepdims=True)
        np.put_along_axis(table, listed, scores, 1)
        return self._log_softmax(table, self.temperature)

    def _best(self, features: Features) -> NDArray[np.intp]:
        """See :meth:`Predictor._best`: the best class is listed, and nobody needs the probabilities of all others."""
        whitened = self._whitened(features)
        listed, scores = self._listed(whitened, self.shortlist.rough_scores(whitened))
        scores *= self.temperature
        return np.take_along_axis(listed, first_best(scores)[:, None], 1)[:, 0]

    def _listed(self, whitened: Floats, rough: NDArray[np.float32]) -> tuple[NDArray[np.intp], Floats]:
        """Places and scores ``(n, n_listed)`` of the classes that deserve a closer look."""
        listed = pick(rough, LISTED_CLASSES)
        scores, quick, close = np.empty(listed.shape), whitened.astype(np.float32), []
        for row, classes in enumerate(listed):  # each row by itself, so that its answer depends on no other
            means, biases = self._gather(classes)
            scores[row] = means @ quick[row] - biases
            (leading,) = self._leading(scores[row, None], CLOSE_CLASSES, CLOSE_LOG_ODDS / self.temperature)
            few = np.flatnonzero(leading)
            scores[row, few] = means[few] @ whitened[row] - biases[few]  # float32 will do for those that lie behind
            close.append(_Close(row, few, classes[few], means[few]))
        self._add_own_scatter(whitened, scores, [one for one in close if len(one.columns)])
        return listed, scores

    def _add_own_scatter(self, whitened: Floats, scores: Floats, close: list[_Close]) -> None:
        """Add the term of its own scatter to every close class of each row; what lies behind stays behind."""
        if not close:
            return
        # T_0⁻¹ (x - μ) = W (Wᵀ x - Wᵀ μ)
        apart = np.concatenate([whitened[one.row] - one.means for one in close]) @ self.whitener.T
        vectors = iter(apart)
        for row, columns, classes, _ in close:
            behind = np.ones(scores.shape[1], dtype=bool)
            behind[columns] = False
            last = scores[row, columns].min()
            scores[row, columns] += [self._own_term(c, next(vectors)) for c in classes.tolist()]
            scores[row, behind] += scores[row, columns].min() - last

    def _gather(self, classes: NDArray[np.intp]) -> tuple[NDArray[np.float32], Floats]:
        """Means ``(n_listed, dim)`` and biases ``(n_listed,)`` of classes in ascending order."""
        means, biases = np.empty((len(classes), self.feature_dim), dtype=np.float32), np.empty(len(classes))
        ends = np.searchsorted(classes, self.starts).tolist()
        for block, first, start, end in zip(self.blocks, self.starts.tolist(), ends[:-1], ends[1:], strict=False):
            if start < end:
                own = classes[start:end] - first
                block.means.take(own, axis=0, out=means[start:end])
                biases[start:end] = block.biases[own]
        return means, biases

    def _own_term(self, c: int, apart: Floats) -> float:
        block = int(np.searchsorted(self.starts, c, side="right")) - 1
        scatter = self.blocks[block].own_scatter(c - int(self.starts[block]), self.factor(c))
        return float(scatter.term(apart[None], np.zeros(len(apart)))[0])
