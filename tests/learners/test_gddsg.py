"""GDDSG beyond the contract: order, forgetting, merging, files, rejection, explanation, groups."""

import gc
import os
import pickle
import sqlite3
import subprocess
import sys
import weakref
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from textwrap import dedent

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gddsg
from gddsg import GDDSG, ClassCard, SimpleCIL
from gddsg.core.model import Model
from gddsg.core.projection import exact_projection_weights
from gddsg.core.ridge import ridge_head
from gddsg.core.transform import apply_view
from gddsg.errors import InputError, MissingExtraError, ModelFileError, UnknownClassError
from gddsg.learners.base import NotLearntError
from gddsg.store.rows_file import read_rows, write_rows

SMALL = {"projection_dim": 128}
PAPER = {
    "projection_dim": 128,
    "grouping": "arrival",
    "identification": "vote",
    "decision": "hard",
    "feature_transform": "none",
}


@lru_cache
def families(offset=1.0, noise=2.0, dim=24, n=30, n_families=4, siblings=4):
    """Features, labels and fresh features of classes that come in families of similar ones."""
    rng = np.random.default_rng(0)
    parents = rng.uniform(1, 8, (n_families, dim))
    centres = [parents[i % n_families] + rng.normal(0, offset, dim) for i in range(n_families * siblings)]
    X, fresh = (np.abs(np.concatenate([rng.normal(c, noise, (n, dim)) for c in centres])) for _ in range(2))
    return X.astype(np.float32), np.repeat([f"c{i:02d}" for i in range(len(centres))], n), fresh.astype(np.float32)


def gaussians(n_classes=8, n=100, dim=32, spread=3.0, shift=0.0, seed=0):
    """Features, int labels and fresh features of Gaussian classes; signed unless shifted."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(shift, spread, (n_classes, dim))
    X, fresh = (np.concatenate([rng.normal(c, 1, (n, dim)) for c in centres]) for _ in range(2))
    return X, np.repeat(np.arange(n_classes), n), fresh


@lru_cache
def learnt_families():
    """A model of all families, shared by tests that only look at it."""
    X, y, _ = families()
    return GDDSG(**SMALL).fit(X, y)


def learn(model, X, y, tasks, look_at=None):
    """Learn the classes task by task; ``look_at`` is predicted after each."""
    for task in tasks:
        rows = np.isin(y, task)
        model.partial_fit(X[rows], y[rows])
        if look_at is not None:
            model.predict(look_at)
    return model


def learn_rows(model, X, y, parts):
    """Learn rows part by part, so that classes are split over batches."""
    for part in np.unique(parts):
        model.partial_fit(X[parts == part], y[parts == part])
    return model


def in_tasks_of(length, order):
    return [order[start : start + length] for start in range(0, len(order), length)]


def cards(model):
    return {label: card.to_bytes() for label, card in model.cards_.items()}


def state(model):
    """All that a user can see of what a model has learnt."""
    parameters = repr(model.get_params())
    if not hasattr(model, "classes_"):
        return parameters
    learnt = model.classes_.tolist(), model.n_features_in_, model.class_groups_, model.model_.settings
    return parameters, repr(learnt), cards(model)


# Order.


@pytest.mark.parametrize("length", [1, 7, 16])
@pytest.mark.parametrize("seed", range(10))
def test_neither_order_nor_task_length_nor_looking_leaves_a_trace(seed, length):
    X, y, fresh = families()
    expected = learnt_families()
    rng = np.random.default_rng(seed)
    tasks, shuffled = in_tasks_of(length, rng.permutation(np.unique(y))), rng.permutation(len(y))
    X, y = X[shuffled], y[shuffled]
    model = learn(GDDSG(**SMALL), X, y, tasks, look_at=fresh[::40])
    assert cards(model) == cards(expected)
    assert (model.predict(fresh) == expected.predict(fresh)).all()
    assert model.class_groups_ == expected.class_groups_
    assert np.array_equal(model.predict_proba(fresh), expected.predict_proba(fresh))
    blind = learn(GDDSG(**SMALL), X, y, tasks)
    assert np.array_equal(blind.predict_proba(fresh), expected.predict_proba(fresh))


def test_several_threads_leave_no_trace_of_the_order_either():
    X, y, _ = families()
    torch.set_num_threads(2)
    try:
        expected = cards(GDDSG(**SMALL).fit(X, y))
        assert cards(learn(GDDSG(**SMALL), X, y, in_tasks_of(3, np.unique(y)[::-1]))) == expected
    finally:
        torch.set_num_threads(1)


def test_the_families_are_worth_testing_with():
    _, y, fresh = families()
    model = learnt_families()
    model.predict(fresh)
    assert 0.6 < np.mean(model.predict(fresh) == y) < 0.95
    assert len(model.class_groups_) > 2
    assert any(
        head.peek() is not None for head in model.model_.predictor.heads
    )  # the heads were asked, so that the tests above and below see them too


@pytest.mark.parametrize("batches", [2, 3, 5])
def test_splitting_classes_over_batches_keeps_labels_while_the_rank_suffices(batches):
    X, y, fresh = families()
    parts = np.random.default_rng(batches).integers(0, batches, len(y))
    whole = GDDSG(**SMALL, rank=512).fit(X, y)
    split = learn_rows(GDDSG(**SMALL, rank=512), X, y, parts)
    assert (split.predict(fresh) == whole.predict(fresh)).all()
    for label, card in whole.cards_.items():
        other = split.cards_[label]
        assert other.count == card.count == 30
        np.testing.assert_allclose(other.raw.total, card.raw.total, rtol=1e-6)
        scatter, expected = (c.root.factor.decoded().T @ c.root.factor.decoded() for c in (other, card))
        np.testing.assert_allclose(scatter, expected, atol=0.015 * float(expected.abs().max()))


def test_the_order_of_the_batches_of_a_class_keeps_labels():
    X, y, fresh = families()
    parts = np.random.default_rng(0).integers(0, 3, len(y))
    forwards, backwards = (learn_rows(GDDSG(**SMALL), X, y, p) for p in (parts, 2 - parts))
    assert (forwards.predict(fresh) == backwards.predict(fresh)).all()


# Forgetting.


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("label", ["c00", "c06", "c15"])
def test_a_forgotten_class_was_never_learnt(label, looked):
    X, y, fresh = families()
    model = GDDSG(**SMALL).fit(X, y)
    if looked:
        model.predict(fresh)
    assert model.forget(label) is model
    never = GDDSG(**SMALL).fit(X[y != label], y[y != label])
    assert cards(model) == cards(never)
    assert list(model.classes_) == list(never.classes_)
    assert model.class_groups_ == never.class_groups_
    assert np.array_equal(model.predict_proba(fresh), never.predict_proba(fresh))


def test_a_forgotten_class_can_be_learnt_again():
    X, y, fresh = families()
    model = GDDSG(**SMALL).fit(X, y).forget("c03")
    model.partial_fit(X[y == "c03"], y[y == "c03"])
    assert cards(model) == cards(learnt_families())
    assert (model.predict(fresh) == learnt_families().predict(fresh)).all()


def test_forgetting_the_last_class_unlearns_the_model():
    X, y, fresh = families()
    model = GDDSG(**SMALL).fit(X[:60], y[:60])
    model.predict(fresh)
    model.forget("c01").forget("c00")
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(NotLearntError):
        model.predict(fresh)
    with pytest.raises(NotLearntError):
        _ = model.class_groups_
    narrow, numbers = X[:, :7], np.unique(y, return_inverse=True)[1]
    expected = GDDSG(**SMALL).fit(narrow, numbers)
    assert cards(model.partial_fit(narrow, numbers)) == cards(expected)
    assert np.array_equal(model.predict_proba(fresh[:, :7]), expected.predict_proba(fresh[:, :7]))


@pytest.mark.parametrize("label", ["c99", "C00", 0])
def test_forgetting_an_unknown_class_is_refused_and_changes_nothing(label):
    X, y, fresh = families()
    model = GDDSG(**SMALL).fit(X, y)
    before, probabilities = state(model), model.predict_proba(fresh)
    with pytest.raises(UnknownClassError, match=repr(label)):
        model.forget(label)
    assert state(model) == before
    assert np.array_equal(model.predict_proba(fresh), probabilities)


def test_an_unlearnt_model_has_nothing_to_forget():
    with pytest.raises(UnknownClassError, match="no classes yet"):
        GDDSG().forget("c00")


def test_nothing_of_a_forgotten_class_stays_in_memory():
    X, y, fresh = families()
    model = GDDSG(**SMALL, decision="hard").fit(X, y)
    model.predict(fresh)
    card = model.cards_["c05"]
    remains = [weakref.ref(part) for part in (card, card.root, card.projected)]
    del card
    model.forget("c05")
    gc.collect()
    assert [part() for part in remains] == [None] * 3


# Merging.


def test_merged_models_equal_one_that_learnt_all():
    X, y, fresh = families()

    def part(odd):
        rows = (np.unique(y, return_inverse=True)[1] % 2 == 1) == odd
        return GDDSG(**SMALL).fit(X[rows], y[rows])

    there, back = part(False).merge(part(True)), part(True).merge(part(False))
    assert cards(there) == cards(back) == cards(learnt_families())
    assert list(there.classes_) == list(back.classes_) == list(learnt_families().classes_)
    assert there.class_groups_ == back.class_groups_ == learnt_families().class_groups_
    assert np.array_equal(there.predict_proba(fresh), back.predict_proba(fresh))
    assert np.array_equal(there.predict_proba(fresh), learnt_families().predict_proba(fresh))


def test_merging_models_that_share_classes_adds_their_samples_up():
    X, y, fresh = families()
    early = np.arange(len(y)) % 3 == 0

    def part(rows):
        return GDDSG(**SMALL).fit(X[rows], y[rows])

    there, back = part(early).merge(part(~early)), part(~early).merge(part(early))
    assert cards(there) == cards(back) == cards(part(early).partial_fit(X[~early], y[~early]))
    assert {card.count for card in there.cards_.values()} == {30}
    assert np.array_equal(there.predict_proba(fresh), back.predict_proba(fresh))


def test_merging_with_an_unlearnt_model():
    X, y, _ = families()
    model = GDDSG(**SMALL).fit(X, y)
    assert cards(GDDSG(**SMALL).merge(model)) == cards(learnt_families())
    assert GDDSG(**SMALL).merge(model).n_features_in_ == X.shape[1]
    before = state(model)
    assert model.merge(GDDSG(**SMALL)) is model
    assert state(model) == before


def test_merging_leaves_the_other_model_its_own():
    X, y, _ = families()
    a, b = GDDSG(**SMALL).fit(X[:60], y[:60]), GDDSG(**SMALL).fit(X[60:120], y[60:120])
    before = state(b)
    a.merge(b).forget("c02").partial_fit(X[90:93], y[90:93])
    assert state(b) == before


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"rank": 32}, "rank"),
        ({"projection_dim": 64}, "projection_dim"),
        ({"feature_transform": "none"}, "feature_transform"),
    ],
    ids=str,
)
def test_models_of_other_parameters_cannot_be_merged(parameters, named):
    X, y, _ = families()
    assert_not_mergeable(GDDSG(**SMALL | parameters).fit(X[60:120], y[60:120]), named)


def test_models_of_other_data_cannot_be_merged():
    X, y, _ = families()
    assert_not_mergeable(GDDSG(**SMALL).fit(X[60:120, :7], y[60:120]), "number of features")
    assert_not_mergeable(GDDSG(**SMALL).fit(X[60:120], np.repeat([2, 3], 30)), "labels")


@pytest.mark.parametrize("other", [SimpleCIL(), None, "model", {}], ids=repr)
def test_only_models_can_be_merged(other):
    assert_not_mergeable(other, "expected another GDDSG model")


def assert_not_mergeable(other, named):
    X, y, _ = families()
    model = GDDSG(**SMALL).fit(X[:60], y[:60])
    pairs = [(model, other), (other, model)] if isinstance(other, GDDSG) else [(model, other)]
    for here, there in pairs:
        before = [state(m) if isinstance(m, GDDSG) else repr(m) for m in (here, there)]
        with pytest.raises(InputError, match=named):
            here.merge(there)
        assert [state(m) if isinstance(m, GDDSG) else repr(m) for m in (here, there)] == before


# Failures in the middle of learning.


@pytest.fixture(params=[RuntimeError, MemoryError, KeyboardInterrupt])
def failing_third_card(request, monkeypatch):
    """Making the third card from now on fails with the error that is returned; ``undo`` repairs it."""
    calls, make = [], ClassCard.of

    def of(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise request.param("in the middle")
        return make(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ClassCard, "of", of)
        yield request.param
    assert len(calls) >= 3


@pytest.mark.parametrize("method", ["partial_fit", "fit"])
@pytest.mark.parametrize("grouping", ["canonical", "arrival"])
def test_a_failure_leaves_a_learnt_model_as_it_was(failing_third_card, method, grouping):
    X, y, fresh = families()
    model = GDDSG(**SMALL, grouping=grouping).fit(X[:60], y[:60])  # the first two cards
    probabilities, before, seen = model.predict_proba(fresh), dict(vars(model)), state(model)
    with pytest.raises(failing_third_card, match="in the middle"):
        getattr(model, method)(X[30:], y[30:])
    assert vars(model).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(model).items())
    assert state(model) == seen
    assert np.array_equal(model.predict_proba(fresh), probabilities)
    expected = GDDSG(**SMALL, grouping=grouping).fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert cards(model.partial_fit(X[60:], y[60:])) == cards(expected)
    assert model.class_groups_ == expected.class_groups_


def test_a_failure_leaves_an_unlearnt_model_unlearnt(failing_third_card):
    X, y, fresh = families()
    model = GDDSG(**SMALL)
    with pytest.raises(failing_third_card, match="in the middle"):
        model.partial_fit(X, y)
    assert vars(model) == model.get_params()
    with pytest.raises(NotLearntError):
        model.predict(fresh)
    assert model.partial_fit(X[:, :5], y).n_features_in_ == 5


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("place", [(ClassCard, "merge"), (GDDSG, "_learnt")], ids=["early", "late"])
def test_a_failure_while_merging_changes_neither_model(monkeypatch, place, error):
    X, y, _ = families()
    a, b = (GDDSG(**SMALL, grouping="arrival").fit(X[rows], y[rows]) for rows in (slice(60), slice(30, 90)))
    before = state(a), state(b)

    def fail(*_):
        raise error("in the middle")

    monkeypatch.setattr(*place, fail)
    with pytest.raises(error, match="in the middle"):
        a.merge(b)
    assert (state(a), state(b)) == before


# Model files.

ODD_NAMES = ["", " ", "a:b:c", "int:5", "str:x", "two\nlines", "tab\t", "naïve", "日本", "🐦", 'c\'est "la" vie', "0"]
ODD_NUMBERS = [0, 1, -1, 7, 10**6, -(10**6), 2**40, -(2**62)]


@pytest.mark.parametrize("names", [ODD_NAMES, ODD_NUMBERS], ids=["str", "int"])
def test_a_model_file_gives_the_same_model_back(tmp_path, names):
    X, y, fresh = families()
    numbers = np.unique(y, return_inverse=True)[1] % len(names)
    labels = [names[i] for i in numbers]
    model = GDDSG(**SMALL, rank=np.int64(16), distance="euclidean", seed=3).fit(X, labels)
    model.save(tmp_path / "model")
    loaded = GDDSG.load(tmp_path / "model")
    assert type(loaded) is GDDSG
    assert loaded.get_params() == model.get_params()
    assert loaded.n_features_in_ == model.n_features_in_
    assert list(loaded.cards_) == list(model.cards_) == sorted(names)
    assert cards(loaded) == cards(model)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(fresh).tolist() == model.predict(fresh).tolist()
    assert np.array_equal(loaded.predict_proba(fresh), model.predict_proba(fresh))
    assert loaded.class_groups_ == model.class_groups_
    loaded.partial_fit(X[:9] + 1, labels[:9])
    assert cards(loaded) == cards(model.partial_fit(X[:9] + 1, labels[:9]))


def test_a_loaded_model_goes_on_with_its_arrival_groups(tmp_path):
    X, y, fresh = families()
    order = np.random.default_rng(1).permutation(np.unique(y))
    model = learn(GDDSG(**SMALL, grouping="arrival"), X, y, in_tasks_of(3, order[:9]))
    assert model.class_groups_ != GDDSG(**SMALL).merge(model).class_groups_  # the order has left its trace
    model.save(tmp_path / "model")
    loaded = GDDSG.load(tmp_path / "model")
    assert loaded.class_groups_ == model.class_groups_
    assert np.array_equal(loaded.predict_proba(fresh), model.predict_proba(fresh))
    for each in (loaded, model):
        learn(each, X, y, in_tasks_of(3, order[9:]))
    assert loaded.class_groups_ == model.class_groups_
    assert np.array_equal(loaded.predict_proba(fresh), model.predict_proba(fresh))


def test_the_same_model_gives_the_same_file(tmp_path):
    X, y, _ = families()
    learnt_families().save(tmp_path / "a")
    learn(GDDSG(**SMALL), X, y, in_tasks_of(5, np.unique(y)[::-1])).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("size", [0, 1, 50, 5000, -5000, -1])
def test_a_truncated_file_is_refused(tmp_path, size):
    learnt_families().save(tmp_path / "model")
    (tmp_path / "cut").write_bytes((tmp_path / "model").read_bytes()[:size])
    assert_unreadable(tmp_path / "cut")


@pytest.mark.parametrize("name", ["c00", "c07", "c15"])
def test_a_file_with_a_flipped_bit_is_refused(tmp_path, name):
    learnt_families().save(tmp_path / "model")
    data = bytearray((tmp_path / "model").read_bytes())
    place = data.find(learnt_families().cards_[name].unit_sum.numpy().tobytes()[:40])
    assert place > 0
    data[place + 20] ^= 4
    (tmp_path / "model").write_bytes(data)
    assert_unreadable(tmp_path / "model")


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("no model at all\n" * 100)
    (tmp_path / "pickle").write_bytes(pickle.dumps(learnt_families()))
    (tmp_path / "folder").mkdir()
    with closing(sqlite3.connect(tmp_path / "database")) as connection:
        connection.execute("CREATE TABLE cards(name TEXT PRIMARY KEY, body BLOB, digest BLOB)")
        connection.commit()
    for name in ("text", "pickle", "folder", "database", "missing"):
        assert_unreadable(tmp_path / name)


def test_files_with_another_content_are_refused(tmp_path):
    learnt_families().save(tmp_path / "model")
    header, bodies = read_rows(tmp_path / "model")
    strange = {
        "of another learner": (header | {"model": "RanPAC"}, bodies),
        "without a kind": ({k: v for k, v in header.items() if k != "model"}, bodies),
        "without parameters": ({k: v for k, v in header.items() if k != "parameters"}, bodies),
        "with a parameter too many": (header | {"parameters": header["parameters"] | {"zeal": 1}}, bodies),
        "with parameters of another kind": (header | {"parameters": 3}, bodies),
        "with a broken card": (header, bodies | {"str:c00": bodies["str:c00"][:-3]}),
        "with a card that is none": (header, bodies | {"str:c00": b"\x02\0\0\0{}"}),
    }
    for what, (head, body) in strange.items():
        write_rows(tmp_path / what, head, body)
        assert_unreadable(tmp_path / what)


def assert_unreadable(path):
    with pytest.raises(ModelFileError, match=path.name):
        GDDSG.load(path)


def test_an_unlearnt_model_is_not_saved(tmp_path):
    with pytest.raises(NotLearntError):
        GDDSG().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_saving_into_a_missing_folder_leaves_nothing(tmp_path):
    with pytest.raises(ModelFileError, match="folder"):
        learnt_families().save(tmp_path / "missing" / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_killed_save_leaves_the_old_model_or_the_new_one(tmp_path):
    script = """
        import os, random, signal, sys, time
        import numpy as np
        from gddsg import GDDSG

        path, rng, moments = sys.argv[1], np.random.default_rng(0), random.Random(0)
        X, y = rng.uniform(0, 9, (200, 64)), np.repeat(np.arange(20), 10)
        models = [GDDSG(projection_dim=128).fit(X[:n], y[:n]) for n in (150, 200)]
        expected = [{label: card.to_bytes() for label, card in model.cards_.items()} for model in models]
        for kill in range(10):
            ready, saved = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    while True:
                        for model in models:
                            model.save(path)
                            os.write(saved, b".")
                finally:
                    os._exit(1)
            os.read(ready, 1)
            time.sleep(moments.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
            found = {label: card.to_bytes() for label, card in GDDSG.load(path).cards_.items()}
            print(expected.index(found))
    """
    environment = os.environ | {"PYTHONPATH": str(Path(gddsg.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", dedent(script), tmp_path / "model"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 10


# Rejection.


@pytest.mark.parametrize("shift", [0.0, 12.0], ids=["signed", "non-negative"])
@pytest.mark.parametrize("kept", [0.9, 0.95, 0.99])
def test_the_asked_share_of_known_inputs_is_kept(kept, shift):
    X, y, fresh = gaussians(n=400, shift=shift, spread=2.0)
    assert (X.min() < 0) == (fresh.min() < 0) == (shift == 0)
    labels = GDDSG(**SMALL).fit(X, y).predict(fresh, reject=kept)
    share = np.mean(labels != "unknown")
    assert kept - 0.04 <= share <= kept + 0.04
    assert (labels[labels != "unknown"] == y[labels != "unknown"]).mean() > 0.99


def test_the_share_kept_grows_with_what_is_asked():
    X, y, fresh = gaussians()
    model = GDDSG(**SMALL).fit(X, y)
    shares = [np.mean(model.predict(fresh, reject=kept) != "unknown") for kept in (0.3, 0.6, 0.9, 1.0)]
    assert shares == sorted(set(shares))
    assert shares[-1] > 0.99


@pytest.mark.parametrize("distance", [20, 100, 10_000])
def test_far_away_inputs_are_unknown(distance):
    X, y, _ = gaussians()
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(200, X.shape[1]))
    far = distance * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    model = GDDSG(**SMALL).fit(X, y)
    assert (model.predict(far, reject=0.99) == "unknown").all()
    assert (model.predict(X[:200] + distance, reject=0.99) == "unknown").all()
    assert model.novelty(far).min() > np.quantile(model.novelty(X), 0.99)


@pytest.mark.parametrize("distance", [100, 10_000])
def test_far_away_inputs_are_unknown_to_close_classes_too(distance):
    X, y, fresh = gaussians(shift=6.0, spread=1.0)
    model = GDDSG(**SMALL).fit(np.abs(X), y)
    assert np.mean(model.predict(np.abs(fresh)) == y) > 0.99
    assert np.mean(model.predict(np.abs(fresh) + distance, reject=0.99) == "unknown") > 0.99


def test_the_label_of_the_unknown_is_the_users_to_choose():
    X, y, _ = gaussians()
    both = np.concatenate([X[:1] + 500, X[y == 3][:1]])
    numbers = GDDSG(**SMALL).fit(X, y)
    rejected = numbers.predict(both, reject=0.999, unknown=-1)
    assert rejected.dtype == y.dtype
    assert rejected.tolist() == [-1, 3]
    tensor = numbers.predict(torch.from_numpy(both), reject=0.999, unknown=-1)
    assert isinstance(tensor, torch.Tensor)
    assert tensor.tolist() == [-1, 3]
    assert numbers.predict(both.tolist(), reject=0.999) == ["unknown", 3]
    words = GDDSG(**SMALL).fit(X, [f"c{label}" for label in y])
    assert words.predict(both, reject=0.999).tolist() == ["unknown", "c3"]
    assert words.predict(both, reject=0.999, unknown="a much longer label").tolist() == ["a much longer label", "c3"]
    assert words.predict(both, reject=0.999, unknown=-1).tolist() == [-1, "c3"]
    assert words.predict(both).tolist()[1] == "c3"
    assert "unknown" not in words.predict(both)


@pytest.mark.parametrize("reject", [0, 0.0, -0.1, 1.01, 99, float("nan"), float("inf")])
def test_a_share_to_keep_that_is_none_is_refused(reject):
    _, _, fresh = families()
    with pytest.raises(InputError, match="reject"):
        learnt_families().predict(fresh, reject=reject)


# Explanation.


@pytest.mark.parametrize("parameters", [{}, {"decision": "hard"}], ids=str)
@pytest.mark.parametrize("row", [0, 33, 100, 479])
def test_an_explanation_says_what_the_model_does(row, parameters):
    X, y, fresh = families()
    model = GDDSG(**SMALL, **parameters).fit(X, y)
    table, labels = model.predict_proba(fresh[row : row + 1])[0], model.classes_.tolist()
    why = model.explain(fresh[row])
    assert why.label == model.predict(fresh[row : row + 1])[0]
    assert why.probability == pytest.approx(table.max(), abs=1e-9)
    assert why.label in why.group_members
    assert why.group_members == model.class_groups_[why.group]
    assert sum(why.group_probabilities.values()) == pytest.approx(1)
    for group, members in enumerate(model.class_groups_):
        expected = sum(table[labels.index(member)] for member in members)
        assert why.group_probabilities[group] == pytest.approx(expected, abs=1e-9)
    assert len(why.rivals) == 5
    assert [r.probability for r in why.rivals] == sorted((r.probability for r in why.rivals), reverse=True)
    graph = model.similarity_graph_.to_networkx()
    for rival in why.rivals:
        assert rival.label != why.label
        assert rival.probability == pytest.approx(table[labels.index(rival.label)], abs=1e-9)
        assert rival.label in model.class_groups_[rival.group]
        assert rival.similar == graph.has_edge(rival.label, why.label)
        assert rival.label in str(why)
    assert str(why).startswith(why.label)
    assert why.novelty == pytest.approx(model.novelty(fresh[row : row + 1])[0])


def test_an_explanation_says_when_an_input_is_unlike_every_class():
    X, y, _ = gaussians()
    model = GDDSG(**SMALL).fit(X, y)
    far, near = model.explain(X[0] + 500), model.explain(X[y == 2].mean(0))
    assert far.unlike_every_class
    assert "unlike every known class" in str(far)
    assert not near.unlike_every_class
    assert "unlike" not in str(near)
    assert near.label == 2
    assert str(near).startswith("2: probability")


def test_explain_takes_one_input_of_any_kind():
    _, _, fresh = families()
    expected = learnt_families().explain(fresh[0])
    for x in (fresh[:1], fresh[0].tolist(), torch.from_numpy(fresh[0]), torch.from_numpy(fresh[:1])):
        assert learnt_families().explain(x) == expected


def test_explain_refuses_several_inputs_and_unlearnt_models():
    _, _, fresh = families()
    with pytest.raises(InputError, match="2 rows"):
        learnt_families().explain(fresh[:2])
    with pytest.raises(NotLearntError):
        GDDSG().explain(fresh[0])


def test_the_only_class_is_explained_without_rivals():
    X, y, _ = families()
    why = GDDSG(**SMALL).fit(X[:30], y[:30]).explain(X[0])
    assert why.rivals == ()
    assert why.group_probabilities == {0: pytest.approx(1)}


# Parameters.


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, "nonsense") for name in ("grouping", "identification", "decision", "feature_transform", "distance")]
    + [("grouping", None), ("decision", ["soft"]), ("distance", "Cosine")]
    + [(name, value) for name in ("projection_dim", "rank") for value in (-3, 2.5, "64", None)]
    + [("rank", 0)]
    + [("seed", value) for value in (-1, 1.5, "x", None, 2**40)],
)
def test_a_bad_parameter_is_refused_when_learning(name, value):
    X, y, fresh = families()
    model = GDDSG(**SMALL | {name: value})
    with pytest.raises(InputError, match=name):
        model.partial_fit(X, y)
    with pytest.raises(NotLearntError):
        model.predict(fresh)
    model.set_params(**{name: getattr(GDDSG(**SMALL), name)})
    assert cards(model.partial_fit(X[:60], y[:60])).keys() == {"c00", "c01"}


# Groups.


@pytest.mark.parametrize("grouping", ["canonical", "arrival"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_groups_are_a_partition_into_dissimilar_classes(grouping, distance):
    X, y, _ = families()
    order = np.random.default_rng(2).permutation(np.unique(y))
    model = GDDSG(**SMALL, grouping=grouping, distance=distance)
    for task in in_tasks_of(4, order):
        learn(model, X, y, [task])
        groups, graph = model.class_groups_, model.similarity_graph_
        assert sorted(label for group in groups for label in group) == model.classes_.tolist()
        drawn = graph.to_networkx()
        assert list(drawn) == model.classes_.tolist()
        for group in groups:
            assert nx.is_empty(drawn.subgraph(group))
    assert 1 < len(groups) < len(order)
    assert np.array_equal(nx.to_numpy_array(drawn, weight=None) == 1, graph.adjacency.numpy())
    for i, a in enumerate(graph.labels):
        assert drawn.nodes[a]["radius"] == pytest.approx(float(graph.radii[i]))
        for j, b in enumerate(graph.labels):
            if drawn.has_edge(a, b):
                assert drawn.edges[a, b]["distance"] == pytest.approx(float(graph.distances[i, j]))


@pytest.mark.parametrize("seed", range(3))
def test_on_arrival_old_classes_never_move(seed):
    X, y, _ = families()
    model = GDDSG(**SMALL, grouping="arrival")
    old = ()
    for task in in_tasks_of(3, np.random.default_rng(seed).permutation(np.unique(y))):
        learn(model, X, y, [task])
        groups = model.class_groups_
        assert [group[: len(before)] for before, group in zip(old, groups, strict=False)] == list(old)
        old = groups
    model.partial_fit(X[::7] * 1.5, y[::7])
    assert model.class_groups_ == old
    model.forget("c04")
    assert [set(group) for group in model.class_groups_] == [s for g in old if (s := set(g) - {"c04"})]


GROUPINGS = ["canonical", "arrival", "one", "random", "similar", "task"]


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_grouping_is_a_partition_and_goes_through_a_file(tmp_path, grouping):
    X, y, fresh = families()
    model = learn(GDDSG(**SMALL, grouping=grouping, decision="hard"), X, y, in_tasks_of(6, np.unique(y)[::-1]))
    groups = model.class_groups_
    assert sorted(label for group in groups for label in group) == model.classes_.tolist()
    model.save(tmp_path / "model")
    loaded = GDDSG.load(tmp_path / "model")
    assert loaded.grouping == grouping
    assert loaded.class_groups_ == groups
    assert np.array_equal(loaded.predict_proba(fresh), model.predict_proba(fresh))
    loaded.forget("c04").rename("c05", "renamed")
    left = {"renamed", *model.classes_.tolist()} - {"c04", "c05"}
    assert {label for group in loaded.class_groups_ for label in group} == left
    assert all(loaded.class_groups_)


def test_groupings_for_comparison_are_what_they_say():
    X, y, _ = families()
    tasks = in_tasks_of(6, np.random.default_rng(0).permutation(np.unique(y)))
    groups = {g: learn(GDDSG(**SMALL, grouping=g), X, y, tasks).class_groups_ for g in GROUPINGS}
    graph = learnt_families().similarity_graph_.to_networkx()

    def joined(grouping):
        return sum(graph.subgraph(group).number_of_edges() for group in groups[grouping])

    assert len(groups["one"]) == 1
    assert [set(group) for group in groups["task"]] == [set(task.tolist()) for task in tasks]
    assert len(groups["similar"]) == len(groups["canonical"]) >= len(groups["random"])
    assert joined("canonical") == joined("arrival") == 0
    assert joined("similar") > joined("random") > 0
    other_order = learn(GDDSG(**SMALL, grouping="random"), X, y, in_tasks_of(1, np.unique(y)[::-1]))
    assert other_order.class_groups_ == groups["random"]
    assert GDDSG(**SMALL, grouping="random", seed=1).fit(X, y).class_groups_ != groups["random"]


def test_samples_that_come_back_found_no_new_task():
    X, y, _ = families()
    model = learn(GDDSG(**SMALL, grouping="task"), X, y, in_tasks_of(8, np.unique(y)))
    before = model.class_groups_
    assert model.partial_fit(X[::7], y[::7]).class_groups_ == before
    assert model.partial_fit(X[:9] + 40, ["new"] * 9).class_groups_ == (*before, ("new",))


def test_files_name_the_settings_they_always_named(tmp_path):
    """New settings have to come with a default, lest files of before could no longer be opened."""
    learnt_families().save(tmp_path / "model")
    first = {"projection_dim", "rank", "grouping", "identification", "decision", "feature_transform", "distance"}
    assert set(read_rows(tmp_path / "model")[0]["parameters"]) == first | {"backbone", "seed"}


@pytest.mark.parametrize("name", ["grouping", "identification", "decision"])
def test_a_file_with_an_unknown_setting_is_refused(tmp_path, name):
    learnt_families().save(tmp_path / "model")
    header, bodies = read_rows(tmp_path / "model")
    header["parameters"][name] = "nonsense"
    write_rows(tmp_path / "other", header, bodies)
    with pytest.raises(ModelFileError, match="nonsense"):
        GDDSG.load(tmp_path / "other")


# Identified and given groups.


def true_groups(model, y):
    group_of = {label: g for g, group in enumerate(model.class_groups_) for label in group}
    return np.array([group_of[label] for label in y])


def projected_by(model, X):
    """h(x) of the heads."""
    weights = exact_projection_weights(X.shape[1], model.projection_dim, model.seed)
    view = "raw" if model.feature_transform == "none" else "root"
    return np.maximum(apply_view(X.astype(np.float64), view) @ weights, 0)


def heads(model, X):
    """Scores of the heads of all groups, columns in the order of ``classes_``."""
    projected = projected_by(model, X)
    scores = np.empty((len(X), len(model.classes_)))
    for group in model.class_groups_:
        opinion = projected @ ridge_head([model.cards_[label] for label in group]).weights.numpy()
        scores[:, np.searchsorted(model.classes_, group)] = opinion
    return scores


@pytest.mark.parametrize("identification", ["evidence", "forest", "knn", "lightgbm", "tree", "mlp"])
def test_a_hard_decision_is_the_identified_group_and_its_head(identification):
    X, y, fresh = families(offset=0.25, noise=0.5, dim=48)
    fresh, y_fresh = fresh[::5], y[::5]
    model = GDDSG(**SMALL, identification=identification, decision="hard").fit(X, y)
    groups = model.predict_group(fresh)
    assert groups.shape == (len(fresh),)
    assert groups.dtype.kind == "i"
    assert (model.predict_in_group(fresh, groups) == model.predict(fresh)).all()
    assert len(model.class_groups_) > 2
    assert np.mean(groups == true_groups(model, y_fresh)) > 0.55
    given = model.predict_in_group(fresh, true_groups(model, y_fresh))
    assert np.mean(given == y_fresh) >= np.mean(model.predict(fresh) == y_fresh)


def test_given_groups_are_obeyed_even_where_they_are_wrong():
    X, y, fresh = families()
    model = learnt_families()
    scores = heads(model, fresh)
    for group, members in enumerate(model.class_groups_):
        labels = model.predict_in_group(fresh, np.full(len(fresh), group))
        columns = np.searchsorted(model.classes_, members)
        assert (labels == model.classes_[columns[scores[:, columns].argmax(1)]]).all()
    right = model.predict_in_group(fresh, true_groups(model, y))
    assert np.mean(right == y) > np.mean(model.predict(fresh) == y)
    assert len(X) == len(fresh)


def test_without_a_gate_the_heads_of_all_groups_compete():
    X, y, fresh = families()
    model = GDDSG(**SMALL, decision="ungated").fit(X, y)
    scores = heads(model, fresh)
    np.testing.assert_allclose(model.predict_proba(fresh), softmax(2 * scores, axis=1), atol=1e-9)
    assert (model.predict(fresh) == model.classes_[scores.argmax(1)]).all()
    assert np.mean(model.predict(fresh) == y) < np.mean(learnt_families().predict(fresh) == y)


def test_one_group_decided_hard_is_one_head_for_all_classes():
    X, y, fresh = families()
    one = GDDSG(**SMALL, grouping="one", decision="hard").fit(X, y)
    assert set(one.predict_group(fresh).tolist()) == {0}
    ungated = GDDSG(**SMALL, grouping="one", decision="ungated").fit(X, y)
    np.testing.assert_allclose(one.predict_proba(fresh), ungated.predict_proba(fresh), atol=1e-12)


@pytest.mark.parametrize(
    "groups", [[0], np.zeros((480, 1), dtype=int), np.zeros(480), ["a"] * 480, [99] * 480, [-1] * 480, None]
)
def test_groups_that_are_none_are_refused(groups):
    _, _, fresh = families()
    assert len(fresh) == 480
    with pytest.raises(InputError, match="were given"):
        learnt_families().predict_in_group(fresh, groups)


def test_groups_come_in_any_container_and_go_out_as_the_inputs_came():
    _, y, fresh = families()
    model, groups = learnt_families(), true_groups(learnt_families(), y)
    expected = model.predict_in_group(fresh, groups)
    for given in (groups.tolist(), torch.from_numpy(groups), groups.astype(np.uint8)):
        assert (model.predict_in_group(fresh, given) == expected).all()
    assert isinstance(model.predict_group(torch.from_numpy(fresh)), torch.Tensor)
    assert isinstance(model.predict_group(fresh.tolist()), list)
    with pytest.raises(NotLearntError):
        GDDSG().predict_group(fresh)
    with pytest.raises(NotLearntError):
        GDDSG().predict_in_group(fresh, groups)


# The configuration of the paper.


@pytest.fixture(scope="module")
def paper_model():
    X, y, fresh = families(offset=0.25, noise=0.5, dim=48)
    tasks = in_tasks_of(6, np.random.default_rng(0).permutation(np.unique(y)))
    assert len(tasks) == 3
    return learn(GDDSG(**PAPER), X, y, tasks), y, fresh


def test_the_configuration_of_the_paper_learns(paper_model):
    model, y, fresh = paper_model
    assert len(model.class_groups_) > 1
    assert np.mean(model.predict(fresh) == y) >= 0.85


def test_a_hard_decision_stays_in_the_group_the_vote_identified(paper_model):
    model, _, fresh = paper_model
    predictor = model.model_.predictor
    assert predictor.view == "raw"
    votes = predictor.vote(fresh.astype(np.float64))
    np.testing.assert_allclose(votes.sum(1), 1)
    assert_decided_inside(model, fresh, votes)


def test_a_hard_decision_stays_in_the_group_the_evidence_identified():
    X, y, fresh = families()
    model = GDDSG(**SMALL, decision="hard").fit(X, y)
    predictor = model.model_.predictor
    evidence = np.exp(predictor.evidence(fresh))
    assert_decided_inside(model, fresh, np.stack([evidence[:, group].sum(1) for group in predictor.groups], axis=1))


def assert_decided_inside(model, fresh, group_evidence):
    """The predicted class is the one that the head of the likeliest group prefers."""
    labels, table = model.predict(fresh), model.predict_proba(fresh)
    identified = group_evidence.argmax(1).tolist()
    assert len(set(identified)) > 1
    projected = projected_by(model, fresh)
    opinions = [
        projected @ ridge_head([model.cards_[c] for c in group]).weights.numpy() for group in model.class_groups_
    ]
    for row, group in enumerate(identified):
        members = model.class_groups_[group]
        assert labels[row] == members[int(opinions[group][row].argmax())]
        assert table[row][np.isin(model.classes_, members)].sum() == pytest.approx(1)


def test_the_vote_without_lightgbm_says_what_to_install(monkeypatch):
    X, y, fresh = families()
    model = GDDSG(**SMALL, identification="vote").fit(X, y)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "lightgbm", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'gddsg\[vote\]'"):
            model.predict(fresh)
    assert len(model.predict(fresh[:3])) == 3


# Work is done again only where something changed.


@pytest.fixture
def solved(monkeypatch):
    """Cards of every head that is solved since the last clear."""
    heads = []

    def solve(cards):
        heads.append(set(cards))
        return ridge_head(cards)

    monkeypatch.setattr("gddsg.core.derived.ridge_head", solve)
    return heads


def test_a_new_class_costs_the_head_of_its_own_group_only(solved):
    X, y, fresh = families()
    model = GDDSG(**SMALL, decision="hard").fit(X, y)
    model.predict(fresh)
    assert len(solved) == len(model.class_groups_) > 2
    for again in range(2):
        solved.clear()
        model.predict(fresh)
        assert not solved, again
    lonely = np.abs(np.random.default_rng(0).normal(0, 0.01, (20, X.shape[1])))
    lonely[:, 0] += 50
    model.partial_fit(lonely, ["lonely"] * 20)
    model.predict(np.concatenate([fresh, lonely]))
    (home,) = (group for group in model.class_groups_ if "lonely" in group)
    assert solved == [{model.cards_[label] for label in home}]


def test_more_samples_cost_the_head_of_their_group_only(solved):
    X, y, fresh = families()
    model = GDDSG(**SMALL, decision="hard").fit(X, y)
    model.predict(fresh)
    groups = model.class_groups_
    solved.clear()
    model.partial_fit(fresh[y == "c09"][:3], ["c09"] * 3).predict(fresh)
    assert {frozenset(group) for group in model.class_groups_} == {frozenset(group) for group in groups}
    (home,) = (group for group in groups if "c09" in group)
    assert {model.cards_[label] for label in home} in solved
    assert len(solved) <= 2  # another order of the classes by content may be the order of another group


@pytest.mark.parametrize("scale", [0.25, 0.5, 1, 2, 4])  # at one of them both fits round their factors alike
def test_a_new_fit_may_have_other_classes_and_another_width(scale):
    rng = np.random.default_rng(0)
    small, large = np.abs(rng.normal(size=(20, 5))), scale * np.abs(rng.normal(size=(100, 8)))
    model = GDDSG(**SMALL, feature_transform="none").fit(small, np.arange(2).repeat(10))
    model.predict(small)
    y = np.arange(10, 20).repeat(10)
    expected = GDDSG(**SMALL, feature_transform="none").fit(large, y).predict_proba(large)
    np.testing.assert_array_equal(model.fit(large, y).predict_proba(large), expected)


# The view of the features.


@pytest.mark.parametrize(
    ("transform", "view"),
    [(lambda z: z, "raw"), (lambda z: (z + 6).clip(0) ** 2, "root")],
    ids=["signed", "squares"],
)
def test_features_take_the_view_their_cards_ask_for(transform, view):
    X, y, fresh = (transform(part) if part.ndim == 2 else part for part in gaussians(n=60, spread=1.0))
    model = GDDSG(**SMALL).fit(X, y)
    assert model.model_.derived.metric.view == view
    plain = GDDSG(**SMALL, feature_transform="none").fit(X, y)
    assert plain.model_.derived.metric.view == "raw"
    assert np.mean(model.predict(fresh) == y) >= np.mean(plain.predict(fresh) == y) > 0.5
    parts = np.random.default_rng(0).permutation(8)
    assert learn(GDDSG(**SMALL), X, y, in_tasks_of(3, parts)).model_.derived.metric.view == view


def test_signed_and_non_negative_classes_get_along_in_any_order():
    X, y, fresh = gaussians(n_classes=4, n=60, spread=1.0)
    y_all = np.concatenate([y, y[y < 2] + 4])
    X_all, fresh_all = (np.concatenate([Z, np.abs(Z[y < 2]) + 2]) for Z in (X, fresh))
    expected = GDDSG(**SMALL).fit(X_all, y_all)
    assert [card.root is None for card in expected.cards_.values()] == [True] * 4 + [False] * 2
    assert np.mean(expected.predict(fresh_all) == y_all) > 0.97
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(6)
        model = learn(GDDSG(**SMALL), X_all, y_all, in_tasks_of(1 + seed % 2, order), look_at=fresh_all[:5])
        assert cards(model) == cards(expected)
        assert np.array_equal(model.predict(fresh_all), expected.predict(fresh_all))
        assert np.array_equal(model.predict_proba(fresh_all), expected.predict_proba(fresh_all))


def test_one_signed_class_makes_a_model_signed_until_it_is_forgotten():
    X, y, _ = gaussians(n_classes=4, n=60, spread=0.6)
    model = GDDSG(**SMALL).fit((X - X.min()) ** 2, y)
    assert model.model_.derived.metric.view == "root"
    model.partial_fit(X[:60] - 9, [9] * 60)
    assert model.model_.derived.metric.view == "raw"
    assert model.forget(9).model_.derived.metric.view == "root"


def test_a_model_of_cards_without_a_view_uses_the_one_that_all_have():
    X, y, fresh = gaussians(n_classes=4, n=60, spread=0.6)
    X, fresh = ((part - min(X.min(), fresh.min())) ** 2 for part in (X, fresh))
    model = GDDSG(**SMALL).fit(X, y)
    assert model.model_.derived.metric.view == "root"
    some = {k: replace(card, root=None) if k == 2 else card for k, card in model.cards_.items()}
    mixed = GDDSG.of(Model(model.model_.settings, some))
    assert mixed.model_.derived.metric.view == "raw"
    assert np.mean(mixed.predict(fresh) == y) > 0.9


# Company.


def test_it_works_in_pipelines_and_cross_validation():
    X, y, fresh = gaussians(n=30, spread=1.0)
    pipeline = make_pipeline(StandardScaler(), GDDSG(**SMALL))
    scores = cross_val_score(pipeline, X, y, cv=3)
    assert len(scores) == 3
    assert scores.min() > 0.9
    pipeline.fit(X, y)
    assert pipeline.score(fresh, y) > 0.9
    scaled = StandardScaler().fit(X)
    direct = GDDSG(**SMALL).fit(scaled.transform(X), y)
    assert np.array_equal(pipeline.predict_proba(fresh), direct.predict_proba(scaled.transform(fresh)))


def test_a_clone_has_the_parameters_and_has_learnt_nothing():
    X, y, _ = families()
    model = GDDSG(**PAPER, seed=5, rank=7).fit(X, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params() == GDDSG().get_params() | PAPER | {"seed": 5, "rank": 7}
    assert vars(copy) == copy.get_params()


def test_data_frames_are_features_too():
    pandas = pytest.importorskip("pandas")
    X, y, fresh = families()
    columns = [f"f{i}" for i in range(X.shape[1])]
    frame, fresh_frame = (pandas.DataFrame(Z, columns=columns) for Z in (X, fresh))
    model = GDDSG(**SMALL).partial_fit(frame[:240], pandas.Series(y[:240])).partial_fit(frame[240:], y[240:])
    assert cards(model) == cards(learnt_families())
    assert (model.predict(fresh_frame) == learnt_families().predict(fresh)).all()
    with pytest.raises(InputError, match="feature names"):
        model.predict(fresh_frame[columns[::-1]])


def test_rare_and_common_classes_are_both_recognised():
    sizes, rng = [5, 500, 5, 500], np.random.default_rng(0)
    centres = rng.normal(5, 1, (4, 32))
    X = np.abs(np.concatenate([rng.normal(c, 1, (n, 32)) for c, n in zip(centres, sizes, strict=True)]))
    fresh = np.abs(np.concatenate([rng.normal(c, 1, (100, 32)) for c in centres]))
    labels = GDDSG(**SMALL).fit(X, np.repeat(np.arange(4), sizes)).predict(fresh).reshape(4, 100)
    shares = [np.mean(labels[c] == c) for c in range(4)]
    assert min(shares) > 0.9
