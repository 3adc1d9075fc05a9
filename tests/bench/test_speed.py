"""The measurements of speed, with numbers so small that only their form is tested."""

import numpy as np
import pytest
from benchmarks.bench_learn import (
    NEWCOMERS,
    adding_a_class,
    against_released,
    answering,
    class_samples,
    growing,
    grown,
    throughput,
)
from benchmarks.bench_training import some_images, training_speed
from PIL import Image

from gddsg.data import feature_file
from gddsg.nn.networks import load_network


def test_beside_the_released_recipe(root):
    pytest.importorskip("lightgbm")
    data = feature_file(root / "circles_efficientnet-lite0.npz")
    found = against_released(data, 3, 2, projection_dim=32, n_jobs=1)
    assert found["tasks_compared"] == 2
    assert found["released_seconds_votes_once"] > 0
    assert found["repeated_votes_seconds"] > 0
    assert found["times_faster"] > found["times_faster_votes_once"] > 0


def test_throughput():
    found = throughput(n_classes=3, n=20, dim=16)
    assert 0 < found["share"] < 1


def test_answers_beside_another_learner(root):
    found = answering(feature_file(root / "circles_efficientnet-lite0.npz"), singles=2, repeats=1)
    assert set(found["milliseconds"]) == {"gddsg", "ranpac"}
    assert all(ratio > 0 for ratio in found["gddsg_against_ranpac"].values())


def test_adding_a_class():
    found = adding_a_class(n_classes=12, n=10, dim=16)
    assert (found["classes"], found["largest_probability_gap"]) == (12, 0.0)


def test_growing_is_measured_in_fresh_processes():
    found = growing((20, 40), n=5, dim=16, projection_dim=16)
    assert [model["classes"] for model in found["models"]] == [20, 40]
    assert all(0 < model["peak_learning_MiB"] <= model["peak_predicting_MiB"] for model in found["models"])
    assert found["times_longer"] > 0


def test_all_samples_are_never_there_at_once(monkeypatch):
    sizes = []
    batches = "benchmarks.bench_learn.GDDSG.partial_fit"

    def spy(self, X, y):
        sizes.append(len(X))
        return self

    monkeypatch.setattr(batches, spy)
    monkeypatch.setattr("benchmarks.bench_learn.GDDSG.predict_proba", lambda self, X: None)
    grown(25, 4, 8, 0.7, 16, batch=10)
    assert sizes == [40, 40, 20, *[4] * NEWCOMERS]


def test_a_class_is_always_the_same_and_unlike_others():
    a, again, more, b = (
        class_samples(*given) for given in ((3, 4, 8, 0.1), (3, 4, 8, 0.1), (3, 4, 8, 0.1, 1), (4, 4, 8, 0.1))
    )
    assert (a == again).all()
    assert not np.allclose(a, more)
    assert np.linalg.norm(a.mean(0) - more.mean(0)) < np.linalg.norm(a.mean(0) - b.mean(0))


def test_the_training_loop_beside_a_bare_one(tmp_path):
    for place, name in enumerate(("dark", "light")):
        for part in ("train", "test"):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(6):
                Image.fromarray(np.full((9, 9, 3), 200 * place + number, np.uint8)).save(
                    tmp_path / part / name / f"{number}.png"
                )
    images, targets = some_images(tmp_path, 10)
    assert (len(images), sorted(set(targets))) == (10, [0, 1])
    network = load_network("toy-vit", "cpu")
    before = network.embed(images)
    found = training_speed(network, images, targets, batch_size=4, turns=2)
    assert (found["images"], found["turns"], len(found["times_slower_in_each_turn"])) == (10, 2, 2)
    assert min(found["images_per_second"], found["bare_images_per_second"], found["times_slower"]) > 0
    assert found["told_images_per_second"] > 0
    assert np.array_equal(network.embed(images), before)  # it trains copies
