"""Every law can be broken: for each there is a learner that breaks it, and is caught."""

import time
from itertools import count
from typing import ClassVar

import numpy as np
import pytest
import torch
from tests.toy_learners import MeanColour, NearestMean, nearest, with_rows

from gddsg.checks import check_learner, yield_checks
from gddsg.checks.samples import samples_for
from gddsg.data.images import Images
from gddsg.learners import Learnt

LAWS = {check.__name__: check for check in yield_checks()}


class StoresMore(NearestMean):
    def __init__(self, scale=1.0):
        self.scale = scale
        self.ready = True


class AnswersUnlearnt(NearestMean):
    def predict(self, X):
        return super().predict(X) if hasattr(self, "learnt_") else np.full(len(X), "c00")


class ZeroesItsInput(NearestMean):
    def partial_fit(self, X, y, classes=None):
        super().partial_fit(X, y)
        if isinstance(X, np.ndarray):
            X[:, 0] = 0
        return self


class KnowsTwoMoreClasses(NearestMean):
    def _log_probabilities(self, learnt, inputs):
        scores = super()._log_probabilities(learnt, inputs)
        return torch.cat([scores, torch.full((len(scores), 2), -1e9)], dim=1)


class SumsToTwo(NearestMean):
    def _log_probabilities(self, learnt, inputs):
        return super()._log_probabilities(learnt, inputs) + np.log(2)


class TakesTheFirst(NearestMean):
    def _log_probabilities(self, learnt, inputs):
        scores = torch.zeros(len(inputs), len(learnt.classes), dtype=torch.float64)
        scores[:, 0] = 1
        return scores.log_softmax(1)


class CentresTheBatch(NearestMean):
    def _log_probabilities(self, learnt, inputs):
        return super()._log_probabilities(learnt, inputs - inputs.mean(0))


class PrefersLateArrivals(NearestMean):
    def _next_state(self, state, inputs, labels):
        fading = {label: (n, total * 0.9) for label, (n, total) in (state or {}).items()}
        return super()._next_state(fading, inputs, labels)


class WeighsTheFirstRow(NearestMean):
    def _next_state(self, state, inputs, labels):
        return with_rows(super()._next_state(state, inputs, labels), inputs[:1] * 50, labels[:1])


class ForgetsTheClassThatComesBack(NearestMean):
    def _next_state(self, state, inputs, labels):
        back = set(labels) & set(state or {})
        return {**super()._next_state(state, inputs, labels), **{label: (1, inputs[0] * 0) for label in back}}


class LikesEarlyNames(NearestMean):
    def _log_probabilities(self, learnt, inputs):
        scores = super()._log_probabilities(learnt, inputs)
        return (scores - 40.0 * torch.arange(scores.shape[1])).log_softmax(1)


class LooksAtNamesWhenClassesAreMany(NearestMean):
    """Leaves out the classes whose names come last, once there are hundreds."""

    def _log_probabilities(self, learnt, inputs):
        scores = super()._log_probabilities(learnt, inputs)
        scores[:, 200:] = -1e3
        return scores.log_softmax(1)


class RollsDice(NearestMean):
    def _next_state(self, state, inputs, labels):
        return super()._next_state(state, inputs + 0.1 * torch.randn(inputs.shape), labels)


class LosesItsPrecision(NearestMean):
    def __getstate__(self):
        known = self.learnt_
        state = {label: (n, total.half()) for label, (n, total) in known.state.items()}
        return {**super().__getstate__(), "learnt_": Learnt(known.classes, known.settings, known.columns, state)}


class KeepsSamples(NearestMean):
    def _next_state(self, state, inputs, labels):
        kept = {} if state is None else {None: state[None]}
        sums = super()._next_state({k: v for k, v in (state or {}).items() if k is not None}, inputs, labels)
        return {**sums, None: (0, torch.cat([kept[None][1], inputs]) if kept else inputs)}


class DividesByTheScatter(NearestMean):
    """Nan where all samples are the same."""

    def _next_state(self, state, inputs, labels):
        return super()._next_state(state, inputs * (inputs.std() / inputs.std()), labels)


class GivesArraysAlone(NearestMean):
    def predict(self, X):
        return np.asarray(super().predict(X))


class MindsNoChange(NearestMean):
    def _check_settings(self, learnt):
        pass


class TakesAnyNumber(NearestMean):
    def _read(self, X, before):
        rows = torch.as_tensor(np.asarray(X, dtype=np.float32))
        return torch.nan_to_num(rows), {"n_features_in_": rows.shape[1]}


class LearnsBeforeItLooks(NearestMean):
    def partial_fit(self, X, y, classes=None):
        if hasattr(self, "learnt_") and len(X) > 0 and not isinstance(X, str):
            known = self.learnt_
            sums = {label: (n + 1, total) for label, (n, total) in known.state.items()}
            self.learnt_ = Learnt(known.classes, known.settings, known.columns, sums)
        return super().partial_fit(X, y)


class ChangesOneThingAfterAnother(NearestMean):
    """As learners often do: the state first, then the classes that it is of."""

    def partial_fit(self, X, y, classes=None):
        if hasattr(self, "learnt_"):
            known, after = self.learnt_, self._grown(self.learnt_, X, y)
            self.learnt_ = Learnt(known.classes, known.settings, known.columns, after.state)
            time.sleep(0.02)
            self.learnt_ = after
            return self
        return super().partial_fit(X, y)


BREAKERS = {
    "init_only_stores_params": StoresMore,
    "predicting_before_learning_is_refused": AnswersUnlearnt,
    "learning_returns_self_and_keeps_inputs_unchanged": ZeroesItsInput,
    "classes_grow_and_scores_have_a_column_each": KnowsTwoMoreClasses,
    "probabilities_are_probabilities_and_agree_with_labels": SumsToTwo,
    "separated_classes_are_told_apart": TakesTheFirst,
    "a_row_is_predicted_by_itself": CentresTheBatch,
    "arrival_order_does_not_matter": PrefersLateArrivals,
    "sample_order_does_not_matter": WeighsTheFirstRow,
    "classes_may_come_back": ForgetsTheClassThatComesBack,
    "renaming_classes_renames_predictions": LikesEarlyNames,
    "names_stay_names_among_hundreds_of_classes": LooksAtNamesWhenClassesAreMany,
    "same_seed_same_predictions_and_global_seeds_untouched": RollsDice,
    "pickling_keeps_predictions": LosesItsPrecision,
    "state_does_not_grow_with_samples": KeepsSamples,
    "odd_classes_are_learnt": DividesByTheScatter,
    "tensors_and_lists_come_back_as_they_went_in": GivesArraysAlone,
    "parameters_changed_after_learning_are_refused": MindsNoChange,
    "bad_features_are_refused_and_nothing_is_lost": TakesAnyNumber,
    "bad_batches_are_refused_and_nothing_is_lost": LearnsBeforeItLooks,
    "predicting_while_learning_is_one_model_or_another": ChangesOneThingAfterAnother,
}


def test_every_law_has_a_learner_that_breaks_it():
    assert set(BREAKERS) == set(LAWS)


@pytest.mark.parametrize("law", BREAKERS)
def test_a_learner_that_breaks_the_law_is_caught(law):
    with pytest.raises(AssertionError):
        LAWS[law](BREAKERS[law]())


@pytest.mark.parametrize("law", ["renaming_classes_renames_predictions", "separated_classes_are_told_apart"])
def test_few_classes_do_not_show_what_many_would(law):
    LAWS[law](LooksAtNamesWhenClassesAreMany())


@pytest.mark.parametrize("learner", [NearestMean(), MeanColour()], ids=["features", "images"])
def test_an_honest_learner_breaks_no_law(learner):
    check_learner(learner)


def test_laws_about_features_are_for_those_who_take_features():
    of_images = {check.__name__ for check in yield_checks(MeanColour)}
    assert set(LAWS) - of_images == {
        "tensors_and_lists_come_back_as_they_went_in",
        "bad_features_are_refused_and_nothing_is_lost",
    }


class MeanColourOfTheBatch(MeanColour):
    """Brightens each image by what the others lack."""

    def _log_probabilities(self, learnt, inputs):
        rows = torch.from_numpy(inputs.pixels(8).astype(np.float64).mean((1, 2)) / 16)
        return nearest(learnt.state, learnt.classes.tolist(), rows - rows.mean(0))


class MeanColourByName(MeanColour):
    def _log_probabilities(self, learnt, inputs):
        scores = super()._log_probabilities(learnt, inputs)
        return (scores - 40.0 * torch.arange(scores.shape[1])).log_softmax(1)


class MeanColourOfAugmented(MeanColour):
    """Augments by a generator that goes on from learner to learner."""

    draws: ClassVar = count()

    def _next_state(self, state, inputs, labels):
        random = np.random.default_rng(next(self.draws))
        seen = inputs.augmented(8, random, scale=(0.05, 0.1))
        return with_rows(state or {}, torch.from_numpy(seen.astype(np.float64).mean((1, 2)) / 16), labels)


@pytest.mark.parametrize(
    ("law", "learner"),
    [
        ("a_row_is_predicted_by_itself", MeanColourOfTheBatch),
        ("renaming_classes_renames_predictions", MeanColourByName),
        ("same_seed_same_predictions_and_global_seeds_untouched", MeanColourOfAugmented),
    ],
)
def test_learners_of_images_are_caught_too(law, learner):
    with pytest.raises(AssertionError):
        LAWS[law](learner())


def test_exempt_laws_are_left_out():
    class Excused(TakesTheFirst):
        exempt: ClassVar = {"separated_classes_are_told_apart": "it always answers alike"}

    assert "separated_classes_are_told_apart" not in {check.__name__ for check in yield_checks(Excused())}


@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize("learner", [NearestMean(), MeanColour()], ids=["features", "images"])
def test_samples_are_as_easy_as_they_say(learner, noise):
    known = samples_for(learner, noise=noise)
    accuracy = np.mean(learner.fit(known.inputs, known.labels).predict(known.fresh) == known.labels)
    assert accuracy == 1 if noise == 0 else 0.6 < accuracy < 1
    assert isinstance(known.inputs, Images if learner.takes == "images" else np.ndarray)
