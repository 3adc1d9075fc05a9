"""Measurements beside accuracy on a stream: invariance to order, classes in several batches, trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from gddsg.bench.findings import InvarianceFindings, Measurement, SplitFindings, TrustFindings
from gddsg.data import FeatureDataset, Stream
from gddsg.errors import InputError
from gddsg.evaluation.metrics import average_accuracy, expected_calibration_error

_QUERIES = 1000
_KEPT = (0.9, 0.95, 0.99)

Rows = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Setting:
    """What a measurement is made with.

    Attributes
    ----------
    new_learner : callable
        Gives an unfitted learner.
    whole : callable
        Gives the learner of all training samples at once. Measurements share it, so none may change it.
    data : FeatureDataset
        All samples.
    stream : Stream
        The same as tasks.
    parts : int
        Number of batches that every class comes in.
    seed : int
        Of what is drawn.
    """

    new_learner: Callable[[], Any]
    whole: Callable[[], Any]
    data: FeatureDataset
    stream: Stream
    parts: int
    seed: int

    def learnt(self, rows: Rows) -> Any:
        """A learner of some training samples, all at once.

        Parameters
        ----------
        rows : array of bool
            ``(n_samples,)``, which of them.

        Returns
        -------
        Any
            The learner.
        """
        return self.new_learner().partial_fit(self.data.train_features[rows], self.data.train_labels[rows])

    def learnt_by_task(self) -> Any:
        """A learner of the stream, task by task.

        Returns
        -------
        Any
            The learner.
        """
        return learn_stream(self.new_learner(), self.stream)


def learn_stream(learner: Any, stream: Stream) -> Any:
    """Learn task by task, without tests in between.

    Parameters
    ----------
    learner : Any
        Unfitted.
    stream : Stream
        The tasks.

    Returns
    -------
    Any
        The same learner.
    """
    for task in stream.tasks():
        learner.partial_fit(task.inputs, task.labels)
    return learner


def require(learner: Any, kind: str, *names: str) -> None:
    """Refuse a learner that lacks what a measurement asks of it.

    Parameters
    ----------
    learner : Any
        The learner; attributes that end in an underscore need it to have learnt.
    kind : str
        The measurement.
    *names : str
        What it asks of the learner.

    Raises
    ------
    InputError
        If one is missing.
    """
    missing = [name for name in names if not hasattr(learner, name)]
    if missing:
        raise InputError(
            f"The measurement {kind!r} was given a {type(learner).__name__}, which has no {missing[0]}; expected a "
            f"learner with {', '.join(names)}. Use gddsg."
        )


def measure_invariance(setting: Setting) -> InvarianceFindings:
    """Compare a model learnt task by task with one of all classes at once; then forget a class, and merge halves.

    Parameters
    ----------
    setting : Setting
        Its learner has cards, and can forget and merge.

    Returns
    -------
    InvarianceFindings
        All zero for a learner that does not depend on the order of classes.
    """
    require(setting.whole(), "invariance", "cards_", "predict_proba", "forget", "merge")
    data, order = setting.data, setting.stream.order
    queries = data.test_features[:: max(len(data.test_features) // _QUERIES, 1)]
    expected, grown = setting.whole(), setting.learnt_by_task()
    cards, labels, gap = _difference(grown, expected, queries)
    first_half = np.isin(data.train_labels, list(order[: len(order) // 2]))
    merged = setting.learnt(first_half).merge(setting.learnt(~first_half))
    merge_cards, _, merge_gap = _difference(merged, expected, queries)
    del merged
    never = setting.learnt(data.train_labels != order[0])
    forget_cards, _, forget_gap = _difference(grown.forget(order[0]), never, queries)
    return InvarianceFindings(
        classes=len(order),
        tasks=len(setting.stream.sizes),
        queries=len(queries),
        cards_that_differ=cards,
        labels_that_differ=labels,
        probability_gap=gap,
        forget_cards_that_differ=forget_cards,
        forget_probability_gap=forget_gap,
        merge_cards_that_differ=merge_cards,
        merge_probability_gap=merge_gap,
    )


def _difference(model: Any, expected: Any, queries: NDArray[np.float32]) -> tuple[int, int, float]:
    """Cards that are not the same bytes, labels that differ, largest difference of a probability."""
    ours, theirs = (_card_bytes(one) for one in (model, expected))
    cards = sum(ours.get(label) != theirs.get(label) for label in {*ours, *theirs})
    p, q = (np.asarray(one.predict_proba(queries)) for one in (model, expected))
    if p.shape != q.shape:
        return cards, len(queries), 1.0  # not even the classes are the same
    return cards, int((p.argmax(1) != q.argmax(1)).sum()), float(np.minimum(np.abs(p - q).max(), 1.0))


def _card_bytes(model: Any) -> Mapping[Any, bytes]:
    return {label: card.to_bytes() for label, card in model.cards_.items()}


def measure_split(setting: Setting) -> SplitFindings:
    """A_N when every class comes in several batches, as equal as can be, instead of one.

    Parameters
    ----------
    setting : Setting
        A class with fewer samples than there are parts is in as many batches as it has samples.

    Returns
    -------
    SplitFindings
        Accuracy both ways.
    """
    data, learner = setting.data, setting.new_learner()
    part_of = _dealt(data.train_labels, setting.parts, setting.seed)
    for part in range(setting.parts):
        rows = part_of == part
        if rows.any():
            learner.partial_fit(data.train_features[rows], data.train_labels[rows])
    whole, split = (
        round(100 * average_accuracy(data.test_labels, one.predict(data.test_features)), 3)
        for one in (setting.whole(), learner)
    )
    return SplitFindings(setting.parts, whole, split)


def _dealt(labels: NDArray[Any], parts: int, seed: int) -> NDArray[np.int64]:
    """Part of each sample ``(n_samples,)``: the samples of every class, shuffled, are dealt out in turn."""
    random, part_of = np.random.default_rng(seed), np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        part_of[rows] = np.arange(len(rows)) % parts
    return part_of


def measure_trust(setting: Setting) -> TrustFindings:
    """Calibration and rejection after the last task; known against unknown with the first half of the classes learnt.

    Parameters
    ----------
    setting : Setting
        Its learner has a novelty, and can reject.

    Returns
    -------
    TrustFindings
        Shares and areas.
    """
    data, order = setting.data, setting.stream.order
    if len(order) < 2:
        raise InputError("The measurement 'trust' was given a single class; expected two or more: half stay unseen.")
    learner = setting.learnt_by_task()
    require(learner, "trust", "predict_proba", "novelty", "classes_")
    ece = None
    if getattr(learner, "calibrated", True):
        ece = expected_calibration_error(learner.predict_proba(data.test_features), data.test_labels, learner.classes_)
    kept = _kept(learner, data.test_features)
    seen = list(order[: len(order) // 2])
    known = np.isin(data.test_labels, seen)
    half = setting.learnt(np.isin(data.train_labels, seen))
    return TrustFindings(
        ece=None if ece is None else round(float(ece), 5),
        auroc_unknown=round(float(roc_auc_score(~known, half.novelty(data.test_features))), 5),
        kept=kept,
        kept_half=_kept(half, data.test_features[known]),
    )


def _kept(learner: Any, inputs: NDArray[np.float32]) -> dict[str, float]:
    """Share of inputs that is not rejected, by the share that was asked for."""
    certain = np.asarray(learner.predict(inputs))
    nobody = "\0unknown" if certain.dtype.kind in "UO" else np.iinfo(np.int64).min  # no class is called that
    answers = {asked: np.asarray(learner.predict(inputs, reject=asked, unknown=nobody)) for asked in _KEPT}
    return {str(asked): round(float(np.mean(labels != nobody)), 5) for asked, labels in answers.items()}


MEASUREMENTS: dict[str, Callable[[Setting], Measurement]] = {
    "invariance": measure_invariance,
    "split": measure_split,
    "trust": measure_trust,
}
"""Measurements that are made in the process of the run, by kind."""
