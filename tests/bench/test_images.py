"""The benchmark gives every learner the data in the form it takes."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from tests.toy_learners import MeanColour, mean_colours

from gddsg.bench import experiment_from, read_records, run_experiment
from gddsg.bench.methods import METHODS
from gddsg.cli.bench import training_line
from gddsg.data import FeatureDataset, load_dataset, write_feature_file
from gddsg.nn.training import TrainingProgress

if os.name == "posix":
    import pty

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "grey": (120, 120, 120)}


@pytest.fixture
def paints(tmp_path):
    """A folder with photos of four classes and a file of their features, whose labels are numbers."""
    random, folder = np.random.default_rng(0), tmp_path / "data"
    for part, n in (("train", 6), ("test", 3)):
        for name, colour in COLOURS.items():
            (folder / "paints" / part / name).mkdir(parents=True)
            for number in range(n):
                pixels = np.clip(random.normal(colour, 20, (12, 10, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / "paints" / part / name / f"{number}.png")
    photos = load_dataset(folder / "paints")
    features = [mean_colours(part).float().numpy() for part in (photos.train_inputs, photos.test_inputs)]
    labels = [np.searchsorted(photos.classes, part) for part in (photos.train_labels, photos.test_labels)]
    data = FeatureDataset("paints", features[0], labels[0], features[1], labels[1], photos.classes)
    write_feature_file(data, folder / "paints_efficientnet-lite0.npz")
    return folder


def run(root, **changes):
    table = {"datasets": ["paints"], "learners": ["mean-colour", "simplecil"], "tasks": 2, **changes}
    run_experiment(experiment_from("paints", table), root / "records.jsonl", root, workers=0)
    return read_records(root / "records.jsonl")


@pytest.fixture(autouse=True)
def mean_colour(monkeypatch):
    monkeypatch.setitem(METHODS, "mean-colour", MeanColour)


@pytest.mark.parametrize("order", [1993, "similar together", "hardest", "searched"])
def test_learners_of_images_and_of_features_run_side_by_side(paints, order):
    images, features = run(paints, orders=[order], search_steps=2)
    assert images.found.metrics["A_N"] == 100
    assert features.found.metrics["A_N"] == 100
    assert sorted(images.found.class_order) == sorted(COLOURS)
    if order != "searched":  # which is the worst for the learner itself
        assert images.found.class_order == features.found.class_order
    assert images.found.metrics["state_MB"] > 0


def test_a_file_of_features_is_not_enough_for_a_learner_of_images(paints):
    images, features = run(paints, datasets=["paints_efficientnet-lite0.npz"])
    assert "takes images" in images.error
    assert "Name a data set of photos" in images.error
    assert not features.error


def test_photos_that_are_missing_are_asked_for(paints):
    (paints / "paints").rename(paints / "elsewhere")
    images, features = run(paints)
    assert "there are features only and no photos of 'paints'" in images.error
    assert not features.error


TRAINED = """
datasets = ["paints"]
tasks = 2

[[learners]]
name = "trained"
method = "finetune"
parameters = { backbone = "toy-vit", training = { epochs = 60, batch_size = 8, rate = 0.05, augment = false } }
"""


@pytest.mark.posix
def test_a_trained_learner_is_run_and_a_terminal_sees_how_it_gets_on(paints):
    experiment = paints / "paints.toml"
    experiment.write_text(TRAINED)
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "gddsg", "bench", "run", experiment, "--data", paints, "--workers", "0"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=follower, stderr=follower, stdin=follower, env=environment) as process:
        os.close(follower)
        output = everything_on(leader)
    assert process.returncode == 0, output
    shown = re.findall(r"Running paints: epoch (\d+) of 60, loss ([\d.e-]+), [\d.e+]+ images/s, \d+:\d\d left", output)
    assert shown
    assert all(1 <= int(epoch) <= 60 and float(loss) >= 0 for epoch, loss in shown)
    (record,) = read_records(paints / "records" / "paints.jsonl")
    assert not record.error
    assert record.head.parameters["training"]["epochs"] == 60
    assert np.mean(record.found.class_accuracies[0]) > 90  # of the first task, before there is anything to forget


def everything_on(terminal):
    """What was printed on a terminal until the last program that holds it has ended."""
    parts = []
    try:
        while part := os.read(terminal, 4096):
            parts.append(part)
    except OSError:  # this is how a terminal says that it is over
        pass
    finally:
        os.close(terminal)
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    ("loss", "rate", "left", "line"),
    [
        (0.12345, 812.4, 42.4, "epoch 3 of 20, loss 0.123, 812 images/s, 0:42 left"),
        (12.0, 3.14159, 3661.0, "epoch 3 of 20, loss 12, 3.14 images/s, 61:01 left"),
        (2.5e-7, 1234567.0, 0.0, "epoch 3 of 20, loss 2.5e-07, 1.23e+06 images/s, 0:00 left"),
    ],
)
def test_a_line_tells_loss_rate_and_time_left(loss, rate, left, line):
    assert training_line(TrainingProgress(3, 20, 5, 100, loss, rate, left)) == line
