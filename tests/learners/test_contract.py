"""Every learner obeys every law, and scikit-learn's own checks."""

from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import gddsg.learners
from gddsg import GDDSG, LEARNERS
from gddsg.checks import yield_checks
from gddsg.learners.task_heads import TaskHeads
from gddsg.learners.trained import TrainedLearner

LAWS = {check.__name__: check for check in yield_checks()}
ABOUT_FEATURES = {"tensors_and_lists_come_back_as_they_went_in", "bad_features_are_refused_and_nothing_is_lost"}
LAWS_OF_LEARNERS = [(name, check.__name__) for name, learner in LEARNERS.items() for check in yield_checks(learner)]


@pytest.mark.parametrize(("name", "law"), LAWS_OF_LEARNERS)
def test_law(name, law):
    learner = LEARNERS[name]
    LAWS[law](learner(**learner.test_params()))


@pytest.mark.parametrize("name", LEARNERS)
def test_exemptions_name_laws_and_give_reasons(name):
    learner = LEARNERS[name]
    assert set(learner.exempt) <= set(LAWS)
    assert all(len(reason) > 10 for reason in learner.exempt.values())
    about_others = set() if learner.takes == "features" else ABOUT_FEATURES
    assert set(LAWS) - set(learner.exempt) - about_others == {check.__name__ for check in yield_checks(learner)}


def test_only_upper_bounds_what_truncates_and_the_published_method_are_exempt_from_anything():
    exempt = {name for name, learner in LEARNERS.items() if learner.exempt}
    trained = {name for name, learner in LEARNERS.items() if issubclass(learner, TrainedLearner | TaskHeads)}
    assert exempt == {"joint_ridge", "joint_logistic", "loranpac", "gddsg_paper", *trained}


def test_an_exempt_law_is_broken_indeed():
    for learner in LEARNERS.values():
        for law in learner.exempt:
            with pytest.raises(AssertionError):
                LAWS[law](learner(**learner.test_params()))


CONFIGURATIONS = [
    {"decision": "hard"},
    {"decision": "ungated"},
    {"feature_transform": "none"},
    {"distance": "euclidean"},
    {"grouping": "one", "decision": "hard"},
    {"grouping": "random", "decision": "hard"},
    {"grouping": "similar", "decision": "hard"},
    {"grouping": "arrival"},
    {"grouping": "task"},
    {"identification": "vote", "decision": "hard"},
    {"identification": "tree", "decision": "hard"},
]
SKIPS = {
    "vote": {
        "separated_classes_are_told_apart": "covered by the accuracy test of the vote, on more classes than here",
        "names_stay_names_among_hundreds_of_classes": "boosting takes minutes for hundreds of groups; a tree is below",
    },
    "arrival": {"arrival_order_does_not_matter": "groups by arrival are what this setting is for"},
    "task": {"arrival_order_does_not_matter": "groups by arrival are what this setting is for"},
}


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("check", list(yield_checks()), ids=lambda check: check.__name__)
def test_law_of_configuration(parameters, check):
    for value in parameters.values():
        if check.__name__ in SKIPS.get(value, {}):
            pytest.skip(SKIPS[value][check.__name__])
    check(GDDSG(projection_dim=64, **parameters))


def test_every_learner_file_is_listed():
    files = {path.stem for path in Path(gddsg.learners.__file__).parent.glob("*.py")} - {
        "__init__",
        "adapting",
        "base",
        "features",
        "labels",
        "prompted",
        "ridge",
        "task_heads",
        "trained",
    }
    assert files == set(LEARNERS)


SKLEARN_CHECKS = [
    pytest.param(estimator, check, id=f"{name}-{getattr(check, 'func', check).__name__}-{i}")
    for name, learner in LEARNERS.items()
    if learner.takes == "features"  # scikit-learn's estimators know nothing else
    for i, (estimator, check) in enumerate(estimator_checks_generator(learner(**learner.test_params())))
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(("estimator", "check"), SKLEARN_CHECKS)
def test_scikit_learn(estimator, check):
    check(estimator)
