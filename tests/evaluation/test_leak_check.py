"""The leak check passes what is honest and finds what is not."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests import cheating_learners as cheating
from tests.toy_learners import MeanColour, NearestMean

from gddsg import GDDSG, LEARNERS
from gddsg.checks.samples import samples_for
from gddsg.data import ImageDataset, Images, InputDataset, Photo, class_stream, stream
from gddsg.errors import InputError
from gddsg.evaluation import protocol
from gddsg.evaluation.leak_check import leak_check, overlapping_classes
from gddsg.evaluation.protocol import ORACLE_GROUP, RELEASED, evaluate_stream, shuffled_pool
from gddsg.evaluation.released import ReleasedRecipe

ABOUT_TESTS = ["test order", "single samples", "task by task", "test labels"]
ABOUT_TELLING = ["repetition", "label values", "parameters", "future classes", "future samples", "earlier copies"]
SIZES = (3, 3, 3, 3)  # of four tasks of the twelve classes


@pytest.fixture
def data():
    return overlapping_classes()


@pytest.fixture
def named(data):
    """The same with names for labels; those to come are longer."""
    names = np.array([f"class {'x' * c}" for c in range(12)])
    return dataclasses.replace(data, train_labels=names[data.train_labels], test_labels=names[data.test_labels])


@pytest.fixture
def images():
    """Twelve classes of images that overlap."""
    known = samples_for(MeanColour(), 12, 20, noise=1)
    names = tuple(np.unique(known.labels).tolist())
    return InputDataset("colours", known.inputs, known.labels, known.fresh, known.labels, names)


# Honest learners.


@pytest.mark.parametrize("name", LEARNERS)
def test_no_learner_leaks(name, data, images):
    make = LEARNERS[name]
    report = leak_check(make(**make.test_params()), images if make.takes == "images" else data)
    assert not report.leaks, str(report)
    assert list(report.changed) == ABOUT_TESTS + ABOUT_TELLING


def test_an_honest_learner_passes_whatever_the_labels(data, named, images):
    assert not leak_check(cheating.Honest(), data).leaks
    assert not leak_check(cheating.Honest(), named).leaks
    assert not leak_check(MeanColour(), images).leaks
    assert not leak_check(cheating.Honest(), data, n_tasks=2, seed=5).leaks
    assert not leak_check(cheating.Honest(), data, n_tasks=12).leaks


def test_classes_of_few_samples_are_no_problem():
    few = overlapping_classes(n_classes=5, n=1)
    assert not leak_check(cheating.Honest(), few, n_tasks=3).leaks


def test_a_parameter_that_happens_to_be_such_a_number_may_stay_if_it_is_the_default(data):
    """What a constructor says by itself nobody set with the data set in view."""
    assert not leak_check(cheating.ToldTheNumberOfClasses(), overlapping_classes(100, 5)).leaks


def test_something_must_be_yet_to_come(data):
    with pytest.raises(InputError, match="at least 2"):
        leak_check(cheating.Honest(), data, n_tasks=1)


# Protocols that tell.


def test_the_released_protocol_leaks():
    report = leak_check(ReleasedRecipe(projection_dim=32, trials=2), overlapping_classes(8, 20), protocol=RELEASED)
    assert report.changed["test labels"] > 0
    assert "test labels" in str(report)


def test_an_oracle_of_groups_leaks(data):
    report = leak_check(GDDSG(projection_dim=64), data, protocol=ORACLE_GROUP)
    assert report.changed["test labels"] > 0


# Learners that know too much.


@pytest.mark.parametrize(
    ("learner", "found"),
    [
        (cheating.CentresTheBatch(), ["single samples", "task by task"]),
        (cheating.VotesByBatch(), ["test order", "single samples"]),
        (cheating.ToldTheNumberOfClasses(12), ["parameters"]),
        (cheating.ToldTheNumberOfTasks(4), ["parameters"]),
        (cheating.ToldTheClasses(tuple(range(12))), ["parameters"]),
        (cheating.ToldTheClasses([f"c{c:02d}" for c in range(12)]), ["parameters"]),
        (cheating.ToldTheClasses(np.arange(12)), ["parameters"]),
        (cheating.ToldTheClasses(SIZES), ["parameters"]),
        (cheating.CountsLabelsUp(), ["label values"]),
        (cheating.ReadsTheCaller(), ["future classes", "future samples"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, cheating.Honest) else "",
)
def test_cheating_learners_are_found(learner, found, data):
    """The first tasks of two streams are the same whatever comes later, so that comparing them alone finds few."""
    report = leak_check(learner, data)
    assert [what for what in ABOUT_TELLING if report.changed[what]] == [one for one in found if one in ABOUT_TELLING]
    assert all(report.changed[what] > 0 for what in found)
    assert all(what in str(report) for what in found)


def test_chance_is_told_from_a_leak(data):
    class Dices(cheating.Honest):
        def predict(self, X):
            return np.random.default_rng().permutation(super().predict(X))

    assert leak_check(Dices(), data).changed["repetition"] > 0


def test_a_hint_too_small_to_change_a_label_is_found_by_probabilities(data):
    class Hinted(NearestMean):
        def __init__(self, n_classes=2):
            self.scale, self.n_classes = 1.0, n_classes

        def _log_probabilities(self, learnt, inputs):
            return super()._log_probabilities(learnt, inputs * (1 + 1e-4 * self.n_classes))

    assert leak_check(Hinted(12), data).changed["parameters"] > 50
    assert not leak_check(Hinted(), data).leaks


@pytest.mark.parametrize("before", [False, True], ids=["in a new process", "after a run on the same data"])
def test_what_other_copies_have_seen_is_found(before, data, monkeypatch):
    """A copy that knows the future lives before one that must not, and knows more than any run before the check."""
    monkeypatch.setattr(cheating.RemembersOtherCopies, "most", 0)
    learner = cheating.RemembersOtherCopies()
    if before:
        list(evaluate_stream(learner, class_stream(data, range(12), SIZES)))
    found = leak_check(cheating.RemembersOtherCopies(), data).changed
    assert found["earlier copies"] > 0
    assert found["repetition"] == 0


def test_what_copies_gather_is_found(data, monkeypatch):
    monkeypatch.setattr(cheating.GathersFromCopies, "shown", [])
    assert leak_check(cheating.GathersFromCopies(), data).changed["earlier copies"] > 0


@pytest.mark.parametrize("before", [False, True], ids=["no file", "files of a run on the same data"])
def test_what_is_kept_in_files_is_found(before, data, tmp_path):
    """The tasks of a check are a new selection of samples: no file can be about them yet."""
    learner = cheating.KeepsFiles(str(tmp_path))
    if before:
        list(evaluate_stream(cheating.KeepsFiles(str(tmp_path)), class_stream(data, range(12), SIZES)))
    assert leak_check(learner, data).changed["earlier copies"] > 0
    assert leak_check(learner, data, seed=1).changed["earlier copies"] > 0  # the second check is as good as the first


# Ways that are closed: with them open the check finds what comes through, and with them closed nothing does.


def test_nobody_hands_over_all_classes(data):
    report = leak_check(cheating.WantsAllClasses(), data)
    assert not report.leaks
    learner = cheating.WantsAllClasses()
    list(evaluate_stream(learner, class_stream(data, range(12), SIZES)))
    assert learner.handed_ == 0


def test_an_array_leads_nowhere(data, monkeypatch):
    assert not leak_check(cheating.FollowsTheView(), data).leaks

    def view(inputs, rows):
        others = np.setdiff1d(np.arange(len(inputs)), rows)
        return inputs[np.concatenate([rows, others])][: len(rows)]

    monkeypatch.setattr(stream, "own_rows", view)
    assert leak_check(cheating.FollowsTheView(), data).changed["future classes"] > 0


def test_images_lead_nowhere(images, monkeypatch):
    closed = leak_check(cheating.FollowsTheImages(), images).changed
    assert [what for what in ABOUT_TELLING if closed[what]] == []
    monkeypatch.setattr(protocol, "own_rows", lambda inputs, rows: inputs[rows])
    assert leak_check(cheating.FollowsTheImages(), images).changed["future classes"] > 0


def test_the_type_of_labels_tells_of_no_name_to_come(named, monkeypatch):
    closed = leak_check(cheating.MeasuresNames(), named).changed
    assert [what for what in ABOUT_TELLING if closed[what]] == [
        "label values"
    ]  # of names that were seen it still tells
    monkeypatch.setattr(stream, "own_labels", lambda labels, rows: labels[rows])
    assert leak_check(cheating.MeasuresNames(), named).changed["future classes"] > 0


def test_photos_tell_neither_label_nor_name_nor_place(tmp_path):
    photos = []
    for label in ("ant", "bee"):
        for number in range(3):
            path = tmp_path / f"{label}{number}.png"
            Image.fromarray(np.full((9, 9, 3), 40 * number, dtype=np.uint8)).save(path)
            photos.append(Photo.of_file(path, label))
    known = class_stream(ImageDataset("insects", tuple(photos), tuple(photos)), ("ant", "bee"), (1, 1))
    for inputs in (*(task.inputs for task in known.tasks()), shuffled_pool(known, 1, 0).inputs):
        assert isinstance(inputs, Images)
        assert len(inputs.source) == len(inputs)
        assert inputs.rows.tolist() == list(range(len(inputs)))
        told = " ".join(f"{photo.name} {photo.label} {photo.path} {photo!r}" for photo in inputs.source)
        assert not re.search(f"ant|bee|{re.escape(str(Path(tmp_path)))}", told)
        assert len(inputs.pixels(4)) == len(inputs)
