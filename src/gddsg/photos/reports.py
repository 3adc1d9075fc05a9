"""What came of learning, predicting and evaluating photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gddsg.data.dataset import Skipped
from gddsg.errors import DataError
from gddsg.wording import counted

_LISTED = 20


@dataclass(frozen=True)
class LearnReport:
    """What one call of learning did.

    Attributes
    ----------
    learnt : dict of str to int
        Number of new photos by class.
    new_classes : tuple of str
        Those the model did not know before.
    known : int
        Photos left out because the model had learnt them already.
    skipped : tuple of Skipped
        Files left out, and why.
    computed : int
        Photos embedded now; the features of the others were in the cache.
    """

    learnt: dict[str, int]
    new_classes: tuple[str, ...]
    known: int
    skipped: tuple[Skipped, ...]
    computed: int


@dataclass(frozen=True)
class PhotoPrediction:
    """What the model takes a photo for.

    Attributes
    ----------
    name : str
        Of the photo.
    label : str
        The class, or the word for unknown where the photo is unlike every class.
    probability : float
        Of the likeliest class.
    top : tuple of pair of str and float
        The likeliest classes and their probabilities, best first.
    novelty : float
        How unlike every class the photo is; the higher, the stranger.
    """

    name: str
    label: str
    probability: float
    top: tuple[tuple[str, float], ...]
    novelty: float


@dataclass(frozen=True)
class ClassResult:
    """How photos of one class fared.

    Attributes
    ----------
    label : str
        The class.
    photos, correct, rejected : int
        How many there were, how many were taken for what they are, and how many for unknown.
    """

    label: str
    photos: int
    correct: int
    rejected: int

    @property
    def accuracy(self) -> float:
        """Share of right answers, from 0 to 1."""
        return self.correct / self.photos


@dataclass(frozen=True)
class PhotoEvaluation:
    """Accuracy on labelled photos.

    Attributes
    ----------
    classes : tuple of ClassResult
        By class, in the order of the labels.
    confusions : tuple of tuple of str, str and int
        Class, what it was taken for, how often; most frequent first.
    skipped : tuple of Skipped
        Files left out, and why.
    unlearnt : tuple of str
        Classes of the photos that the model does not know; their photos count as wrong.
    calibration_error : float
        Expected calibration error of the probabilities, 15 bins.
    """

    classes: tuple[ClassResult, ...]
    confusions: tuple[tuple[str, str, int], ...]
    skipped: tuple[Skipped, ...]
    unlearnt: tuple[str, ...]
    calibration_error: float

    @property
    def photos(self) -> int:
        """Number of photos."""
        return sum(result.photos for result in self.classes)

    @property
    def accuracy(self) -> float:
        """Share of photos with the right answer, from 0 to 1."""
        return sum(result.correct for result in self.classes) / self.photos

    @property
    def average_accuracy(self) -> float:
        """A_N: mean over classes of the accuracy on each, from 0 to 1."""
        return sum(result.accuracy for result in self.classes) / len(self.classes)


def refuse_skipped(skipped: Sequence[Skipped], message: str) -> None:
    """Raise a :class:`gddsg.errors.DataError` that lists what would be left out, if anything.

    Parameters
    ----------
    skipped : sequence of Skipped
        Files left out, and why.
    message : str
        What follows from that, with ``{}`` for such as ``2 files``.
    """
    if skipped:
        raise DataError(f"{message.format(counted(len(skipped), 'file'))}:\n{list_skipped(skipped)}")


def list_skipped(skipped: Sequence[Skipped]) -> str:
    """One line a file, for messages; of very many only the first.

    Parameters
    ----------
    skipped : sequence of Skipped
        Files left out, and why.
    """
    lines = [f"  {one.name}: {one.reason}" for one in skipped[:_LISTED]]
    rest = len(skipped) - len(lines)
    return "\n".join([*lines, *([f"  … and {rest} more"] if rest else [])])
