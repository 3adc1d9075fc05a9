"""What came of learning, predicting and evaluating photos."""

from __future__ import annotations

from dataclasses import dataclass

from gddsg.data.dataset import Skipped


@dataclass(frozen=True)
class LearnReport:
    """What one call of learning did.

    Attributes
    ----------
    learnt : number of new photos by class.
    new_classes : those the model did not know before.
    known : photos left out because the model had learnt them already.
    skipped : files left out, and why.
    computed : photos embedded now; the others were in the feature cache.
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
    name : of the photo.
    label : the class, or the word for unknown where the photo is unlike every class.
    probability : of the likeliest class.
    top : the likeliest classes and their probabilities, best first.
    novelty : how unlike every class the photo is; the higher, the stranger.
    """

    name: str
    label: str
    probability: float
    top: tuple[tuple[str, float], ...]
    novelty: float


@dataclass(frozen=True)
class ClassResult:
    """How photos of one class fared."""

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
    classes : by class, in the order of the labels.
    confusions : (class, taken for, how often), most frequent first.
    skipped : files left out, and why.
    unlearnt : classes of the photos that the model does not know; their photos count as wrong.
    calibration_error : expected calibration error of the probabilities, 15 bins.
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
