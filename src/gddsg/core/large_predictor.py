"""What answers for a model of very many classes: a first look at all of them, exact scores for those that lead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gddsg.core.coded_rows import CodedRows
from gddsg.core.own_scatter import OwnScatter
from gddsg.core.predictor import Features, Floats, Predictor
from gddsg.core.shortlist import LISTED_CLASSES, Shortlist, pick

LARGE_CLASSES = 8192
"""Models of more classes that have no heads keep cards in their file until somebody asks for one, and answer by this.
Beyond it a look at all classes takes longer than the rest of an answer."""

CLOSE_LOG_ODDS, CLOSE_CLASSES = 6.0, 8
"""As ``CANDIDATE_LOG_ODDS`` and ``MAX_CANDIDATES`` of smaller models, but each of these comes from the disk."""


@dataclass(frozen=True, eq=False)
class LargePredictor(Predictor):
    """Answers without heads, with factors that come from the cards when a class is close.

    Classes are listed by their leading directions; those listed get exact scores, those close to the best of them also
    the term of their own scatter. All others follow the last of the list at their rough distance.

    Attributes
    ----------
    shortlist : Shortlist
        The first look.
    class_means : ndarray
        ``(n_classes, dim)`` float32, whitened.
    class_biases : ndarray
        ``(n_classes,)``.
    inners : tuple of ndarray
        Of every class, see :class:`gddsg.core.class_block.ClassBlock`.
    log_dets : ndarray
        ``(n_classes,)``.
    factor : callable
        Gives the factor of the class in that place.
    """

    shortlist: Shortlist
    class_means: NDArray[np.float32]
    class_biases: Floats
    inners: tuple[NDArray[np.float32], ...]
    log_dets: Floats
    factor: Callable[[int], CodedRows]

    def evidence(self, features: Features) -> Floats:
        """Log-probabilities ``(n, n_classes)`` by the discriminant."""
        whitened = self._whitened(features)
        rough = self.shortlist.rough_scores(whitened)
        listed = pick(rough, LISTED_CLASSES)
        scores = self._close(whitened, listed, self._exact(whitened, listed))
        last = np.take_along_axis(rough, listed, 1).min(1, keepdims=True)
        rough -= last
        table = rough.astype(np.float64)
        table += scores.min(1, keepdims=True)
        np.put_along_axis(table, listed, scores, 1)
        return self._log_softmax(table, self.temperature)

    def _exact(self, whitened: Floats, listed: NDArray[np.intp]) -> Floats:
        """Scores ``(n, n_listed)`` by shared scatter alone, as :meth:`Predictor._linear` has them."""
        scores = np.empty(listed.shape)
        for row, classes in enumerate(listed):  # each row by itself, so that its answer depends on no other
            scores[row] = self.class_means[classes] @ whitened[row] - self.class_biases[classes]
        return scores

    def _close(self, whitened: Floats, listed: NDArray[np.intp], scores: Floats) -> Floats:
        """The same scores with the term of its own scatter for each class that is close to the best."""
        close = self._leading(scores, CLOSE_CLASSES, CLOSE_LOG_ODDS / self.temperature)
        rows, columns = np.nonzero(close)
        if len(rows) == 0:
            return scores
        classes, last = listed[rows, columns], np.where(close, scores, np.inf).min(1)
        # T_0⁻¹ (x - μ) = W (Wᵀ x - Wᵀ μ)
        apart = (whitened[rows] - self.class_means[classes]) @ self.whitener.T
        terms = [self._own_term(c, vector) for c, vector in zip(classes.tolist(), apart, strict=True)]
        scores[rows, columns] += terms
        asked = np.unique(rows)
        shift = np.where(close, scores, np.inf).min(1)[asked] - last[asked]
        scores[asked] = np.where(close[asked], scores[asked], scores[asked] + shift[:, None])
        return scores

    def _own_term(self, c: int, apart: Floats) -> float:
        scatter = OwnScatter(np.empty((0, len(apart))), self.factor(c), self.inners[c], float(self.log_dets[c]))
        return float(scatter.term(apart[None], np.zeros(len(apart)))[0])
