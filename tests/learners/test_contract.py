"""Every learner obeys every law, and scikit-learn's own checks."""

from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import gddsg.learners
from gddsg import GDDSG, LEARNERS
from gddsg.checks import yield_checks


@pytest.mark.parametrize("check", list(yield_checks()), ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", LEARNERS)
def test_law(name, check):
    learner = LEARNERS[name]
    check(learner(**learner.test_params()))


@pytest.mark.parametrize(
    "parameters",
    [
        {"decision": "hard"},
        {"feature_transform": "none"},
        {"distance": "euclidean"},
        {"identification": "vote", "decision": "hard"},
    ],
    ids=str,
)
@pytest.mark.parametrize("check", list(yield_checks()), ids=lambda check: check.__name__)
def test_law_of_configuration(parameters, check):
    if "vote" in parameters.values() and check.__name__ in VOTE_SKIPS:
        pytest.skip(VOTE_SKIPS[check.__name__])
    check(GDDSG(projection_dim=64, **parameters))


VOTE_SKIPS = {
    "renaming_classes_renames_predictions": "trees break ties between columns by their order, which follows the names",
    "separated_classes_are_told_apart": "covered by the accuracy test of the vote, on more classes than here",
}


def test_every_learner_file_is_listed():
    files = {path.stem for path in Path(gddsg.learners.__file__).parent.glob("*.py")} - {"__init__", "base"}
    assert files == set(LEARNERS)


SKLEARN_CHECKS = [
    pytest.param(estimator, check, id=f"{name}-{getattr(check, 'func', check).__name__}-{i}")
    for name, learner in LEARNERS.items()
    for i, (estimator, check) in enumerate(estimator_checks_generator(learner(**learner.test_params())))
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(("estimator", "check"), SKLEARN_CHECKS)
def test_scikit_learn(estimator, check):
    check(estimator)
