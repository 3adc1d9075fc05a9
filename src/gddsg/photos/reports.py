"""What came of learning, predicting and evaluating photos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from gddsg.data.dataset import Skipped
from gddsg.errors import DataError
from gddsg.wording import counted

_LISTED = 20
_LONGEST_NAME = 40  # letters of a name in a printed table


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
    near_copies : dict of str to int
        Of the classes learnt now, how many photos are near copies of others of the class, which add no weight; classes
        without any are left out.
    """

    learnt: dict[str, int]
    new_classes: tuple[str, ...]
    known: int
    skipped: tuple[Skipped, ...]
    computed: int
    near_copies: dict[str, int]


@dataclass(frozen=True)
class CorrectionReport:
    """What came of moving a photo to another class.

    Attributes
    ----------
    photo : str
        Its path.
    old, new : str
        The class it was in, and the one it is in now; the same where there was nothing to do.
    relearnt : int
        Photos that the old class was learnt again from; none where it is gone, for it had no other.
    new_class : bool
        Whether the model did not know the new class before.
    """

    photo: str
    old: str
    new: str
    relearnt: int
    new_class: bool


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

    @property
    def rejected(self) -> bool:
        """Whether the photo was called unknown rather than what it is likest to."""
        return self.label != self.top[0][0]


@dataclass(frozen=True, repr=False)
class PhotoPredictions(Sequence[PhotoPrediction]):
    """What the model takes photos for, one prediction a photo; printed, it is a table.

    Attributes
    ----------
    predictions : tuple of PhotoPrediction
        In the order in which the photos were given; those of a folder by their names.
    skipped : tuple of Skipped
        Files left out, and why.

    Examples
    --------
    >>> fox = PhotoPrediction("garden.jpg", "fox", 0.93, (("fox", 0.93), ("wolf", 0.05)), 1.2)
    >>> found = PhotoPredictions((fox,), (Skipped("notes.jpg", "not an image"),))
    >>> found
    garden.jpg  fox  93.0 %  (wolf 5.0 %)
    1 file was left out:
      notes.jpg: not an image
    >>> found.labels, found[0].probability, len(found)
    (('fox',), 0.93, 1)
    """

    predictions: tuple[PhotoPrediction, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each photo."""
        return tuple(one.label for one in self.predictions)

    def __iter__(self) -> Iterator[PhotoPrediction]:
        return iter(self.predictions)

    def __len__(self) -> int:
        return len(self.predictions)

    @overload
    def __getitem__(self, place: int) -> PhotoPrediction: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[PhotoPrediction, ...]: ...

    def __getitem__(self, place: int | slice) -> PhotoPrediction | tuple[PhotoPrediction, ...]:
        return self.predictions[place]

    def __repr__(self) -> str:
        rows = [_table_cells(one) for one in self.predictions[:_LISTED]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if len(self) > _LISTED:
            lines.append(f"… and {len(self) - _LISTED} more")
        if self.skipped:
            files = "1 file was" if len(self.skipped) == 1 else f"{len(self.skipped)} files were"
            lines += [f"{files} left out:", list_skipped(self.skipped)]
        return "\n".join(lines) or "no photo"


def _table_cells(one: PhotoPrediction) -> tuple[str, str, str, str]:
    """Photo, label, probability, and what else it might be."""
    name = printable(one.name)
    shown = name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"
    others = ", ".join(f"{printable(label)} {100 * p:.1f} %" for label, p in one.top[0 if one.rejected else 1 :])
    probability = "" if one.rejected else f"{100 * one.probability:.1f} %"
    return shown, printable(one.label), probability, others and f"({others})"


def printable(text: str) -> str:
    """Names come from strangers: they stay on their line and command no terminal.

    Parameters
    ----------
    text : str
        A name, or a sentence with one in it.
    """
    return text if text.isprintable() else repr(text)[1:-1]


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
class WrongPhoto:
    """A photo that was not taken for what its label says; perhaps the label is wrong.

    Attributes
    ----------
    name : str
        Of the photo; its path, where it is in a file.
    label, taken_for : str
        What it should be, and what the model says.
    probability : float
        Of the likeliest class.
    learnt : bool
        Whether the model has learnt this very photo.
    """

    name: str
    label: str
    taken_for: str
    probability: float
    learnt: bool


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
    learnt_photos, learnt_correct : int
        How many of the photos the model has learnt, themselves or near copies of them, and how many of these were
        right: too easy a test.
    wrong : tuple of WrongPhoto
        The photos that were not right, those first of which the model is surest.
    """

    classes: tuple[ClassResult, ...]
    confusions: tuple[tuple[str, str, int], ...]
    skipped: tuple[Skipped, ...]
    unlearnt: tuple[str, ...]
    calibration_error: float
    learnt_photos: int
    learnt_correct: int
    wrong: tuple[WrongPhoto, ...]

    @property
    def unseen_photos(self) -> int:
        """Number of photos that the model has not learnt."""
        return self.photos - self.learnt_photos

    @property
    def unseen_accuracy(self) -> float:
        """Accuracy on photos that the model has not learnt, from 0 to 1; NaN where it has learnt them all."""
        correct = sum(result.correct for result in self.classes) - self.learnt_correct
        return correct / self.unseen_photos if self.unseen_photos else float("nan")

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
    lines = [f"  {printable(one.name)}: {printable(one.reason)}" for one in skipped[:_LISTED]]
    rest = len(skipped) - len(lines)
    return "\n".join([*lines, *([f"  … and {rest} more"] if rest else [])])
