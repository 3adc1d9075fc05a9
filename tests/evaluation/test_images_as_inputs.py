"""A learner of images goes the whole road that learners of features go: stream, protocol, leak check."""

import numpy as np
import pytest
import torch
from PIL import Image
from tests.toy_learners import MeanColour, nearest

from gddsg.checks.samples import samples_for
from gddsg.data import ImageDataset, Images, InputDataset, Photo, class_stream, task_sizes
from gddsg.errors import InputError, InputTypeError
from gddsg.evaluation.leak_check import leak_check
from gddsg.evaluation.protocol import closing_metrics, evaluate_stream
from gddsg.learners import NotLearntError


@pytest.fixture
def colours():
    """Twelve classes of images that overlap."""
    known = samples_for(MeanColour(), 12, 20, noise=1)
    return InputDataset(
        "colours", known.inputs, known.labels, known.fresh, known.labels, tuple(np.unique(known.labels))
    )


@pytest.fixture
def photos(tmp_path):
    """Photos in files: three classes, four for training and two for test."""
    random, parts = np.random.default_rng(0), ([], [])
    for label, colour in {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}.items():
        for number in range(6):
            pixels = np.clip(random.normal(colour, 20, (20, 30, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{label}{number}.png")
            parts[number >= 4].append(Photo.of_file(tmp_path / f"{label}{number}.png", label))
    return ImageDataset("paints", *map(tuple, parts))


def test_images_go_through_stream_and_protocol(colours):
    order = tuple(np.random.default_rng(0).permutation(np.unique(colours.train_labels)).tolist())
    stream = class_stream(colours, order, task_sizes(12, 4), blur=0.2, imbalance=2)
    learner = MeanColour()
    steps = list(evaluate_stream(learner, stream))
    assert [len(step.accuracies) for step in steps] == [3, 6, 9, 12]
    assert 0.4 < np.mean(steps[-1].accuracies) < 1
    assert steps[-1].state_bytes == learner.state_bytes() > 0
    assert closing_metrics(learner, stream, steps[-1])["ECE"] < 0.5
    assert not hasattr(learner, "n_features_in_")


def test_photos_in_files_are_decoded_only_by_the_learner(photos):
    stream = class_stream(photos, ("blue", "red", "green"), (1, 2))
    for task in stream.tasks():
        assert isinstance(task.inputs, Images)
        assert len(task.inputs) == len(task.labels)
    *_, last = evaluate_stream(MeanColour(), stream)
    assert last.accuracies.tolist() == [1, 1, 1]


class BrightensByTheOthers(MeanColour):
    def _log_probabilities(self, learnt, inputs):
        rows = torch.from_numpy(inputs.pixels(8).astype(np.float64).mean((1, 2)) / 16)
        return nearest(learnt.state, learnt.classes.tolist(), rows - rows.mean(0) + 8)


def test_the_leak_check_takes_images(colours):
    assert not leak_check(MeanColour(), colours).leaks
    assert leak_check(BrightensByTheOthers(), colours).changed["single samples"] > 0


def test_a_learner_of_images_says_what_it_wants(photos):
    learner = MeanColour()
    with pytest.raises(NotLearntError, match="labelled images"):
        learner.predict(photos.test_inputs)
    with pytest.raises(InputTypeError, match="expected images"):
        learner.partial_fit([[1.0, 2.0]], ["a"])
    with pytest.raises(InputError, match="uint8"):
        learner.partial_fit(np.eye(3), ["a", "b", "c"])
    with pytest.raises(InputError, match="at least one"):
        learner.partial_fit(photos.train_inputs[:0], [])
    learner.fit(list(photos.train), photos.train_labels)  # photos as they are
    assert learner.predict(list(photos.test)) == photos.test_labels.tolist()
    assert learner.predict(np.full((1, 5, 5, 3), (250, 0, 0), dtype=np.uint8)).tolist() == ["red"]
