"""What all learners that train on images have in common: they grow as classes come, and survive what goes wrong."""

import pickle

import numpy as np
import pytest

from gddsg.checks.samples import samples_for
from gddsg.errors import InputError, TrainingError
from gddsg.learners import LEARNERS, NotLearntError
from gddsg.learners.trained import TrainedLearner

TRAINED = {name: kind for name, kind in LEARNERS.items() if issubclass(kind, TrainedLearner)}
EVERY_BATCH = ("finetune", "ease", "l2p", "dualprompt", "coda_prompt")  # the others train on the first one alone
ARRIVALS = (1, 4, 15, 30)


def learner(name, **training):
    given = TRAINED[name].test_params()
    return TRAINED[name](**{**given, "training": {**given["training"], "epochs": 1, **training}})


def known(n_classes, n=3):
    return samples_for(next(iter(TRAINED.values()))(), n_classes, n)


def rows_of(samples, classes):
    rows = np.isin(samples.labels, classes)
    return samples.inputs[rows], samples.labels[rows]


@pytest.mark.parametrize("name", TRAINED)
def test_one_class_becomes_fifty_without_being_told_how_many(name):
    samples, grown = known(sum(ARRIVALS)), learner(name)
    classes, so_far = np.unique(samples.labels), 0
    for count in ARRIVALS:
        grown.partial_fit(*rows_of(samples, classes[so_far : so_far + count]))
        so_far += count
        assert grown.classes_.tolist() == classes[:so_far].tolist()
        assert grown.predict_proba(samples.inputs[:2]).shape == (2, so_far)
    restored = pickle.loads(pickle.dumps(grown))
    assert np.array_equal(restored.predict_proba(samples.inputs), grown.predict_proba(samples.inputs))


@pytest.mark.parametrize("name", TRAINED)
def test_a_class_of_one_image_is_learnt_beside_others(name):
    samples = known(4)
    classes = np.unique(samples.labels)
    one = np.flatnonzero(samples.labels == classes[3])[:1]
    rows = np.concatenate([np.flatnonzero(samples.labels != classes[3]), one])
    found = learner(name).partial_fit(samples.inputs[rows], samples.labels[rows])
    assert found.classes_.tolist() == classes.tolist()
    assert np.isfinite(found.predict_proba(samples.inputs)).all()


@pytest.mark.parametrize("name", TRAINED)
def test_a_training_that_goes_astray_is_told_and_learns_nothing(name):
    samples, wild = known(3), learner(name, rate=1e30, epochs=3)
    with pytest.raises(TrainingError, match=r"Lower the learning rate \(1e\+30\)"):
        wild.partial_fit(samples.inputs, samples.labels)
    with pytest.raises(NotLearntError):
        wild.predict(samples.inputs)


@pytest.mark.parametrize("name", EVERY_BATCH)
def test_a_training_that_goes_astray_leaves_what_was_known(name):
    samples, found = known(6), learner(name)
    first, second = np.split(np.unique(samples.labels), 2)
    answers = found.partial_fit(*rows_of(samples, first)).predict_proba(samples.inputs)
    with pytest.raises(TrainingError, match="what was known before is as it was"):
        found.set_params(training={**found.training, "rate": 1e30, "epochs": 3}).partial_fit(*rows_of(samples, second))
    assert found.classes_.tolist() == first.tolist()
    assert np.array_equal(found.predict_proba(samples.inputs), answers)


@pytest.mark.parametrize("name", TRAINED)
def test_an_empty_task_is_refused_and_nothing_is_lost(name):
    samples = known(3)
    found = learner(name).partial_fit(samples.inputs, samples.labels)
    answers = found.predict_proba(samples.inputs)
    with pytest.raises(InputError, match="No image was given; expected at least one"):
        found.partial_fit(samples.inputs[:0], samples.labels[:0])
    assert np.array_equal(found.predict_proba(samples.inputs), answers)
