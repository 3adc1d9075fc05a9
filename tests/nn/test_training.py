"""The one training loop: deterministic, on schedule, every sample once an epoch, nothing kept of what went astray."""

import math
import random
import threading
import time
from itertools import chain

import numpy as np
import pytest
import torch
from PIL import Image
from tests.nn.toy_training import RECIPE, Toy, images_and_targets, near, same, trained

from gddsg.checks.samples import samples_for
from gddsg.data import Images, Photo
from gddsg.errors import InputError, TrainingError
from gddsg.learners import Finetune
from gddsg.nn.checkpoint import Checkpoint
from gddsg.nn.training import Recipe, train, watching
from gddsg.nn.training_data import TrainingData

# Deterministic.


@pytest.mark.parametrize("augment", [False, True])
def test_the_same_seed_gives_the_same_parameters_and_another_others(augment):
    expected = trained(augment=augment)
    assert same(trained(augment=augment), expected)
    assert not near(trained(augment=augment, seed=(1,)), expected)
    assert not near(trained(augment=augment, seed=(0, 1)), expected)


def test_global_generators_are_left_alone():
    for seed in (1, 2):
        random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)  # noqa: NPY002
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
        found = trained(augment=True)
        assert same(found, trained(augment=True))
        after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
        assert after == before


def test_every_sample_is_seen_once_an_epoch_in_another_order_each_time():
    rows = trained(epochs=3).rows
    assert [len(part) for part in rows] == [8, 8, 5] * 3
    epochs = [list(chain(*rows[start : start + 3])) for start in (0, 3, 6)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(21))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


@pytest.mark.parametrize(("least_steps", "epochs"), [(0, 2), (6, 2), (7, 3), (9, 3), (10, 4)])
def test_few_samples_are_seen_in_as_many_more_epochs_as_the_least_steps_take(least_steps, epochs):
    toy = trained(epochs=2, schedule="cosine", least_steps=least_steps)
    assert len(toy.rows) == 3 * epochs
    assert same(toy, trained(epochs=epochs, schedule="cosine"))


# Schedules and steps, against formulas.


def rates(schedule, epochs):
    return [Recipe(epochs, 8, 0.3, schedule=schedule).rate_in(epoch) for epoch in range(epochs)]


def test_rates_follow_their_formulas():
    assert rates("constant", 3) == [0.3] * 3
    assert rates("cosine", 4) == pytest.approx([0.3, 0.15 * (1 + math.sqrt(0.5)), 0.15, 0.15 * (1 - math.sqrt(0.5))])
    assert Recipe(4, 8, 0.3, schedule="cosine").rate_in(4) == pytest.approx(0)
    assert rates("short-cosine", 3) == pytest.approx(
        [0.3, 0.3 * math.cos(0.2475 * math.pi), 0.3 * math.cos(0.495 * math.pi)]
    )
    assert 0 < rates("short-cosine", 20)[-1] < 0.02 * 0.3
    assert rates("short-cosine", 1) == rates("cosine", 1) == [0.3]
    assert rates("exponential", 3) == pytest.approx([0.3, 0.3 * 0.95, 0.3 * 0.95 * 0.95])


def test_the_cosine_is_that_of_torch():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    schedule, found = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 7), []
    for _ in range(7):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert rates("cosine", 7) == pytest.approx(found)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "short-cosine"])
def test_steps_are_those_of_sgd_with_momentum_and_decay_at_the_rate_of_their_epoch(schedule):
    """The loss is linear, so that its gradient g is known: v ← 0.9 v + g + λ w, w ← w - rate v."""
    toy, slope = Toy(), 0.25
    weight = torch.nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    recipe = Recipe(3, 21, 0.1, schedule=schedule, weight_decay=0.01, augment=False)
    train(
        lambda batch: slope * weight.sum(),
        [weight],
        TrainingData(toy.network, *images_and_targets(), False),
        recipe,
        (0,),
    )
    w, v = 2.0, 0.0
    for epoch in range(3):
        v = 0.9 * v + slope + 0.01 * w
        w -= recipe.rate_in(epoch) * v
    assert weight.item() == pytest.approx(w, abs=1e-12)


def test_adam_takes_steps_of_the_rate():
    toy = Toy()
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    recipe = Recipe(5, 21, 0.1, optimiser="adam", augment=False)
    train(
        lambda batch: 7 * weight.sum(), [weight], TrainingData(toy.network, *images_and_targets(), False), recipe, (0,)
    )
    assert weight.item() == pytest.approx(2 - 5 * 0.1, abs=1e-4)


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 100])
def test_a_batch_in_parts_gives_what_the_whole_gives(parts, augment):
    whole, cut = trained(augment=augment, epochs=2), trained(augment=augment, epochs=2, accumulate=parts)
    assert near(cut, whole)
    assert len(cut.rows) > len(whole.rows)


def test_the_loss_falls_and_what_can_be_told_apart_is():
    losses, images_targets = [], images_and_targets(3, 12)
    with watching(lambda progress: losses.append(progress.loss)):
        toy = trained(data=images_targets, epochs=12)
    images, targets = images_targets
    assert np.mean(losses[-5:]) < 0.3 * np.mean(losses[:5])
    scores = toy.head(toy.network.embed(images, toy.prompts))
    assert (scores.argmax(1) == torch.tensor(targets)).float().mean() > 0.95


def test_a_class_of_one_image_and_a_single_image_can_be_trained_on():
    images, targets = images_and_targets(2, 6)
    assert not near(trained(data=(images[:7], targets[:7])), Toy())
    assert not near(trained(data=(images[:1], targets[:1])), Toy())


# What goes astray.


def nan_after(steps, value=math.nan):
    def loss(toy, batch):
        found = toy.loss(batch)
        return found * value if len(toy.rows) > steps else found

    return loss


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_an_error(value):
    toy = Toy()
    with pytest.raises(TrainingError, match=r"NaN or infinite.*Lower the learning rate \(0\.05\)"):
        trained(loss=nan_after(4, value), toy=toy)
    assert all(one.isfinite().all() for one in toy.values())  # no step was taken by it


def test_a_last_step_that_goes_astray_is_found_though_its_loss_was_a_number():
    weight = torch.nn.Parameter(torch.zeros(1))
    data = TrainingData(Toy().network, *images_and_targets(), False)
    with pytest.raises(TrainingError, match="What is trained became NaN"):  # √0 has no slope
        train(lambda batch: weight.sum().abs().sqrt(), [weight], data, Recipe(1, 21, 0.1), (0,))


def test_a_learner_whose_training_goes_astray_keeps_what_it_knew():
    learner = Finetune(**Finetune.test_params())
    known = samples_for(learner, 4, 10)
    first = known.labels < "c02"
    learner.partial_fit(known.inputs[first], known.labels[first])
    before, table = learner.learnt_, learner.predict_proba(known.fresh)
    learner.set_params(training={**learner.training, "rate": 1e20})
    with pytest.raises(TrainingError, match="what was known before is as it was"):
        learner.partial_fit(known.inputs[~first], known.labels[~first])
    assert learner.learnt_ is before
    assert np.array_equal(learner.predict_proba(known.fresh), table)
    learner.set_params(training=Finetune.test_params()["training"])
    assert learner.partial_fit(known.inputs[~first], known.labels[~first]).classes_.tolist() == [
        "c00",
        "c01",
        "c02",
        "c03",
    ]


# What is refused.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", 2.5),
        ("epochs", True),
        ("epochs", "5"),
        ("batch_size", 0),
        ("batch_size", None),
        ("accumulate", -1),
        ("rate", 0),
        ("rate", -0.1),
        ("rate", math.nan),
        ("rate", math.inf),
        ("rate", "0.1"),
        ("weight_decay", -1e-4),
        ("weight_decay", math.nan),
        ("clip", 0),
        ("clip", float("nan")),
        ("least_steps", -1),
        ("least_steps", 1.5),
        ("weight_decay", "none"),
        ("optimiser", "adams"),
        ("optimiser", ["sgd"]),
        ("schedule", "cosin"),
        ("schedule", None),
        ("augment", 1),
        ("augment", "no"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused_by_loop_and_learner(name, value):
    with pytest.raises(InputError, match=rf"{name}=.*was given; expected"):
        trained(**{name: value})
    with pytest.raises(InputError, match=rf"{name}=.*was given; expected"):
        Finetune("toy-vit", {name: value}).fit(np.zeros((2, 8, 8, 3), np.uint8), ["a", "b"])


@pytest.mark.parametrize(("training", "words"), [({"epoch": 3}, "'epoch' is no part"), ([3], r"training=\[3\]")])
def test_what_is_no_recipe_at_all_is_refused(training, words):
    with pytest.raises(InputError, match=words):
        Finetune("toy-vit", training).fit(np.zeros((2, 8, 8, 3), np.uint8), ["a", "b"])


def test_no_images_or_other_targets_are_refused():
    images, targets = images_and_targets()
    with pytest.raises(InputError, match="No image"):
        trained(data=(images[:0], []))
    with pytest.raises(InputError, match="21 images and 20 targets"):
        trained(data=(images, targets[:-1]))


# Progress.


def test_progress_counts_steps_and_epochs_and_tells_rate_and_time_left():
    told, times = [], []

    def watch(progress):
        told.append(progress)
        times.append(time.perf_counter())

    def slow(toy, batch):
        time.sleep(0.01)
        return toy.loss(batch)

    with watching(watch):
        trained(epochs=2, loss=slow)
    assert [(one.epoch, one.step) for one in told] == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)]
    assert {(one.epochs, one.steps) for one in told} == {(2, 6)}
    assert told[-1].seconds_left == 0
    for one, seen in zip(told, [8, 16, 21, 29, 37, 42], strict=True):
        assert 0 < one.samples_per_second < seen / 0.01
        assert one.seconds_left == pytest.approx((42 - seen) / one.samples_per_second)
    # what was said to be left in the middle is what it took, within what a busy machine does to clocks
    assert 0.2 < told[2].seconds_left / (times[-1] - times[2]) < 5


def test_whoever_watches_watches_this_thread_and_no_other():
    told = {"here": 0, "there": 0}

    def count(place):
        return lambda progress: told.update({place: told[place] + 1})

    def elsewhere():
        trained(epochs=1)  # nobody watches here
        with watching(count("there")):
            trained(epochs=2)

    with watching(count("here")):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        trained(epochs=1)
        thread.join()
    trained(epochs=1)  # nor after that
    assert told == {"here": 3, "there": 6}


# Images are decoded as often as need be.


def photos_on_disk(folder, monkeypatch):
    """Photos and what they are, and a list that grows with every one that is decoded."""
    images, targets = images_and_targets(2, 5)
    photos, decoded = [], []
    for place, pixels in enumerate(images.pixels(8)):
        Image.fromarray(pixels).save(folder / f"{place}.png")
        photos.append(Photo.of_file(folder / f"{place}.png"))
    decode = Photo.image
    monkeypatch.setattr(Photo, "image", lambda self, *rest: decoded.append(self.path.name) or decode(self, *rest))
    return (Images.of(photos), targets), decoded


@pytest.mark.parametrize("checkpoint", [False, True])
def test_without_augmentation_every_image_is_decoded_once_and_with_it_anew_each_time(tmp_path, monkeypatch, checkpoint):
    data, decoded = photos_on_disk(tmp_path, monkeypatch)
    kept = Checkpoint(tmp_path / "kept") if checkpoint else None
    trained(data=data, checkpoint=kept)
    assert sorted(decoded) == [f"{place}.png" for place in range(10)]
    decoded.clear()
    trained(data=data, checkpoint=kept, augment=True)
    assert sorted(decoded) == sorted(f"{place}.png" for place in range(10) for _ in range(RECIPE.epochs))


def test_augmentation_is_another_in_every_epoch():
    toy, seen = Toy(), []

    def look(toy, batch):
        seen.append(batch.inputs[np.argsort(batch.rows)])
        return toy.loss(batch)

    trained(toy=toy, loss=look, augment=True, batch_size=21, epochs=2)
    assert (seen[0] != seen[1]).flatten(1).any(1).all()


def test_what_takes_too_much_memory_is_prepared_batch_by_batch_with_the_same_result(monkeypatch):
    expected = trained()
    monkeypatch.setattr("gddsg.nn.kept_inputs._MOST_BYTES", 20 * 4 * 3 * 8 * 8)
    assert same(trained(), expected)
    assert TrainingData(Toy().network, *images_and_targets(), False)._prepared is None


# Shares of several processes.


def test_a_share_of_a_batch_is_augmented_as_it_is_in_the_whole():
    data = TrainingData(Toy().network, *images_and_targets(), augment=True)
    rows, one, other = np.arange(20), np.random.default_rng(3), np.random.default_rng(3)
    whole, part = data.batch(rows, one), data.batch(rows, other, slice(7, 13))
    assert torch.equal(part.inputs, whole.inputs[7:13])
    assert torch.equal(part.targets, whole.targets[7:13])
    assert part.rows.tolist() == rows[7:13].tolist()
    assert one.random() == other.random()
