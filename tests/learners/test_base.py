"""What has been learnt is one value: it is swapped as a whole, or not at all."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.toy_learners import NearestMean

from gddsg.errors import InputError
from gddsg.learners import LEARNERS, Learner, Learnt, SimpleCIL


def two():
    return np.eye(2, 3), ["a", "b"]


def test_learning_sets_one_attribute_and_the_rest_are_views_of_it():
    learner = NearestMean().fit(*two())
    assert set(vars(learner)) == {"scale", "learnt_"}
    assert learner.classes_ is learner.learnt_.classes
    assert learner.n_features_in_ == 3
    assert learner.learnt_.settings == {"scale": 1.0}
    for name in ("classes_", "n_features_in_", "feature_names_in_"):
        with pytest.raises(AttributeError):
            setattr(learner, name, 1)
        assert not hasattr(NearestMean(), name)
    with pytest.raises(ValueError, match="read-only"):
        learner.classes_[0] = "z"


def test_a_batch_that_another_has_overtaken_is_learnt_on_top_of_it():
    class Overtaken(NearestMean):
        def _next_state(self, state, inputs, labels):
            if labels == ["c"] and len(self.learnt_.classes) == 2:  # the first try
                super().partial_fit([[0.0, 0.0, 1.0]], ["d"])
            return super()._next_state(state, inputs, labels)

    learner = Overtaken().fit(*two())
    learner.partial_fit([[1.0, 1.0, 0.0]], ["c"])
    assert learner.classes_.tolist() == ["a", "b", "c", "d"]
    assert learner.predict([[0.0, 0.0, 1.0]]) == ["d"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_what_fails_or_is_interrupted_changes_nothing(method, failure):
    class Interrupted(NearestMean):
        def _next_state(self, state, inputs, labels):
            if "c" in labels:
                raise failure
            return super()._next_state(state, inputs, labels)

    learner = Interrupted().fit(*two())
    before = learner.learnt_
    with pytest.raises(failure):
        getattr(learner, method)(np.ones((1, 3)), ["c"])
    assert learner.learnt_ is before
    assert learner.predict(np.eye(2, 3)).tolist() == ["a", "b"]


def test_a_step_may_leave_nothing_at_all():
    learner = NearestMean().fit(*two())
    assert learner._change(lambda before: None) is learner
    assert vars(learner) == {"scale": 1.0}
    assert learner.state_bytes() == 0
    learner._change(lambda before: before)  # from nothing to nothing


def test_an_earlier_value_stays_as_it_was():
    learner = NearestMean().fit(*two())
    before, table = learner.learnt_, learner.predict_proba(np.eye(2, 3))
    learner.partial_fit(np.eye(3) + 1, ["a", "b", "c"])
    other = clone(learner)
    other.learnt_ = before
    np.testing.assert_array_equal(other.predict_proba(np.eye(2, 3)), table)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_learner_has_a_parameter_that_it_shares_for_show(name):
    names = set(LEARNERS[name]._get_param_names())
    projects = {"gddsg", "gddsg_paper", "ranpac", "klda", "acil", "anacp", "gacl", "loranpac", "randumb"}
    projects |= {"ranpac_tuned", "gddsg_tuned"}
    assert ({"projection_dim", "seed"} <= names) == (name in projects)
    assert set(LEARNERS[name].fixed_by_learning) <= names


def test_the_state_is_measured_without_what_follows_from_it():
    for name in ("slda", "ranpac", "joint_ridge"):
        learner = LEARNERS[name](**LEARNERS[name].test_params()).fit(*two())
        before = learner.state_bytes()
        learner.predict(np.eye(2, 3))
        assert learner.state_bytes() == before > 0


def test_names_of_columns_are_kept_from_the_first_batch():
    pandas = pytest.importorskip("pandas")
    X, y = two()
    learner = SimpleCIL().fit(pandas.DataFrame(X, columns=["u", "v", "w"]), y)
    assert learner.feature_names_in_.tolist() == ["u", "v", "w"]
    with pytest.raises(InputError, match="feature names"):
        learner.predict(pandas.DataFrame(X, columns=["u", "w", "v"]))
    learner.partial_fit(pandas.DataFrame(X, columns=["u", "v", "w"]), ["c", "d"])
    assert learner.feature_names_in_.tolist() == ["u", "v", "w"]


def test_a_learner_needs_no_more_than_two_methods():
    assert Learner.__abstractmethods__ == {"_next_state", "_log_probabilities", "_read"}
    assert not NearestMean.__abstractmethods__
    assert Learnt(np.array(["a"]), {}, {}, None).classes.tolist() == ["a"]
