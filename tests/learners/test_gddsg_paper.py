"""The published method against computations of its parts that share nothing with it."""

import sys

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from gddsg import GDDSG, PaperGDDSG
from gddsg.checks import yield_checks
from gddsg.checks.laws import separated_classes
from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.projection import projection_weights
from gddsg.errors import InputError, MissingExtraError

M = 48


def overlapping(n_classes=9, n=24, dim=8, seed=0):
    """Classes of which some are similar, and fresh samples of them."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 4, (n_classes, dim))
    drawn = [np.abs(rng.normal(np.repeat(centres, n, axis=0), 1.0)).astype(np.float32) for _ in range(2)]
    return drawn[0], np.repeat([f"c{c}" for c in range(n_classes)], n), drawn[1]


def tasks(y, size=3, seed=1):
    order = np.random.default_rng(seed).permutation(np.unique(y))
    return [np.isin(y, order[start : start + size]) for start in range(0, len(order), size)]


def learnt(X, y, **parameters):
    model = PaperGDDSG(**{"projection_dim": M, "voters": ("forest", "knn"), **parameters})
    for rows in tasks(y):
        model.partial_fit(X[rows], y[rows])
    return model


@pytest.fixture(scope="module")
def grown():
    X, y, fresh = overlapping()
    return learnt(X, y), X, y, fresh


# ---------------------------------------------------------------- groups


def similar(X, y, a, b):
    """Eq. 3 and 4 by loops over samples."""

    def distance(u, v):
        return 1 - u @ v / np.linalg.norm(u) / np.linalg.norm(v)

    rows = {c: X[y == c].astype(np.float64) for c in (a, b)}
    radii = [np.mean([distance(x, own.mean(0)) for x in own]) for own in rows.values()]
    return distance(rows[a].mean(0), rows[b].mean(0)) <= max(radii)


def test_no_two_classes_of_a_group_are_similar_and_every_class_has_one(grown):
    model, X, y, _ = grown
    groups = model.class_groups_
    assert sorted(label for group in groups for label in group) == sorted(set(y))
    assert 1 < len(groups) < 9
    for group in groups:
        assert not any(similar(X, y, a, b) for a in group for b in group if a < b)
    graph = model.similarity_graph_
    for i, a in enumerate(graph.labels):
        for j, b in enumerate(graph.labels):
            assert bool(graph.adjacency[i, j]) == (a != b and similar(X, y, a, b))


def test_old_classes_never_move():
    X, y, _ = overlapping(12)
    model, before = PaperGDDSG(projection_dim=M, voters=("tree",)), ()
    for rows in tasks(y, 2):
        model.partial_fit(X[rows], y[rows])
        after = model.class_groups_
        assert all(set(old) <= set(new) for old, new in zip(before, after, strict=False))
        assert len(after) >= len(before)
        before = after


def test_groups_are_those_of_the_arrival_grouping():
    """GDDSG on exact cards groups alike; which of two groups comes first is a matter of hashes."""
    X, y, _ = overlapping(14)
    ours = GDDSG(projection_dim=8, grouping="arrival", feature_transform="none")
    model = PaperGDDSG(projection_dim=8, voters=("tree",))
    for rows in (y == name for name in np.unique(y)):  # one class a batch: no hash has a say
        ours.partial_fit(X[rows], y[rows])
        model.partial_fit(X[rows], y[rows])
    assert model.class_groups_ == ours.class_groups_


# ---------------------------------------------------------------- heads


def naive_weights(rows, targets, ridge):
    return np.linalg.solve(rows.T @ rows + ridge * np.eye(rows.shape[1]), rows.T @ targets)


def naive_head(X, y, group, width, seed=0):
    """Ridge regression on the dense Gram matrix of a group's samples, λ by squared error on the held-out share."""
    own = np.isin(y, group)
    W = projection_weights(X.shape[1], width, seed).double().numpy()
    rows = np.maximum(X[own].astype(np.float64) @ W, 0)
    targets = (y[own][:, None] == np.array(group)).astype(np.float64)
    held = is_held_out(hash_rows(torch.from_numpy(X[own]))).numpy()
    assert 0 < held.sum() < len(held)
    errors = {
        10.0**k: np.square(targets[held] - rows[held] @ naive_weights(rows[~held], targets[~held], 10.0**k)).sum()
        for k in range(-8, 9)
    }
    chosen = min(errors, key=errors.get)
    return naive_weights(rows, targets, chosen), chosen


@pytest.mark.parametrize("width", [16, 300])  # fewer features than samples of a group, and more: primal and dual
def test_a_head_is_ridge_regression_on_all_samples_of_its_group(width):
    X, y, _ = overlapping()
    model = learnt(X, y, projection_dim=width)
    heads = model._answers(model.learnt_).heads()
    assert len(heads) == len(model.class_groups_)
    for group, head in zip(model.class_groups_, heads, strict=True):
        weights, ridge = naive_head(X, y, group, width)
        assert head.regularisation == ridge
        np.testing.assert_allclose(head.weights.numpy(), weights, atol=1e-6 * np.abs(weights).max())


def test_the_best_class_of_the_identified_group_wins(grown):
    model, X, y, fresh = grown
    W = projection_weights(X.shape[1], M, 0).double().numpy()
    found, table = model.predict_group(fresh), model.predict_proba(fresh)
    assert len(np.unique(found)) == len(model.class_groups_)
    for group, members in enumerate(model.class_groups_):
        scores = np.maximum(fresh[found == group].astype(np.float64) @ W, 0) @ naive_head(X, y, members, M)[0]
        expected = np.array(members)[scores.argmax(1)]
        assert (model.predict(fresh)[found == group] == expected).all()
        assert (model.predict_in_group(fresh, np.full(len(fresh), group))[found == group] == expected).all()
        outsiders = ~np.isin(model.classes_, members)
        assert table[found == group][:, outsiders].max() < 1e-100


def test_groups_that_there_are_not_are_refused(grown):
    model, _, _, fresh = grown
    with pytest.raises(InputError, match="this model has 0 to"):
        model.predict_in_group(fresh, np.full(len(fresh), 99))


# ---------------------------------------------------------------- the vote


def naive_distances(X, model, samples, y):
    prototypes = np.stack([samples[y == label].astype(np.float64).mean(0) for label in model.similarity_graph_.labels])
    return np.stack([np.linalg.norm(X.astype(np.float64) - p, axis=1) for p in prototypes], axis=1)


def test_the_vote_is_the_mean_of_classifiers_on_distances_to_all_prototypes(grown):
    model, X, y, fresh = grown
    group_of = {label: group for group, members in enumerate(model.class_groups_) for label in members}
    groups = np.array([group_of[label] for label in y])
    rho, asked = naive_distances(X, model, X, y), naive_distances(fresh, model, X, y)
    forest = RandomForestClassifier(200, bootstrap=False, random_state=0)
    nearest = KNeighborsClassifier(3, weights="distance").fit(rho, groups)
    vote, scale = model._answers(model.learnt_).vote()
    found = vote.probabilities(fresh.astype(np.float64) / scale)
    # a forest draws by the order of its rows too, so that its own one is asked
    (own_forest, own_nearest), n_fitted = vote._voters, len(y)
    assert own_forest.get_params()["bootstrap"] is forest.bootstrap
    assert own_forest.n_estimators == 200
    np.testing.assert_allclose(own_nearest.predict_proba(asked / scale), nearest.predict_proba(asked), atol=1e-9)
    assert own_nearest.n_samples_fit_ == n_fitted
    assert own_nearest.n_features_in_ == len(set(y))
    mean = (own_forest.predict_proba(asked / scale) + nearest.predict_proba(asked)) / 2
    np.testing.assert_allclose(found, mean, atol=1e-6)
    assert (model.predict_group(fresh) == found.argmax(1)).mean() > 0.99  # rounding may decide a tie
    forest.fit(rho, groups)
    assert (forest.predict(asked) == own_forest.predict(asked / scale)).mean() > 0.9


def test_the_voters_are_the_papers_three_with_the_released_settings():
    pytest.importorskip("lightgbm")
    X, y, fresh = overlapping(9, 12)
    model = learnt(X, y, voters=PaperGDDSG().voters)
    vote, scale = model._answers(model.learnt_).vote()
    forest, nearest, boosted = vote._voters
    assert (forest.n_estimators, forest.bootstrap) == (200, False)
    assert (nearest.n_neighbors, nearest.weights) == (3, "distance")
    settings = boosted.get_params()
    assert {name: settings[name] for name in ("n_estimators", "num_leaves", "learning_rate")} == {
        "n_estimators": 200,
        "num_leaves": 100,
        "learning_rate": 0.1,
    }
    assert (settings["colsample_bytree"], settings["subsample"]) == (0.8, 0.8)
    asked = naive_distances(fresh, model, X, y) / scale
    single = [voter.predict_proba(asked) for voter in vote._voters]
    np.testing.assert_allclose(vote.probabilities(fresh.astype(np.float64) / scale), sum(single) / 3, atol=1e-6)


def test_without_lightgbm_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    X, y, fresh = overlapping(9, 12)
    model = learnt(X, y, voters=("knn", "lightgbm"))
    with pytest.raises(MissingExtraError, match=r"gddsg\[vote\]"):
        model.predict(fresh)
    assert len(model.predict_in_group(fresh, np.zeros(len(fresh), dtype=int))) == len(fresh)  # heads need no voter


@pytest.mark.parametrize("per_class", [None, 5, 100])
@pytest.mark.parametrize("rows", ["kept", "pseudo"])
def test_so_many_rows_of_a_class_teach_the_vote(rows, per_class):
    X, y, _ = overlapping()
    X, y = X[7:], y[7:]  # one class is smaller
    model = learnt(X, y, rows=rows, rows_per_class=per_class, voters=("knn",))
    vote, scale = model._answers(model.learnt_).vote()
    (nearest,) = vote._voters
    counts = [int((y == label).sum()) for label in sorted(set(y))]
    wanted = [n if per_class is None else min(n, per_class) if rows == "kept" else per_class for n in counts]
    assert nearest.n_samples_fit_ == sum(wanted)
    kept = {row.tobytes() for row in np.round(naive_distances(X, model, X, y) / scale, 6)}
    taught = {row.tobytes() for row in np.round(nearest._fit_X, 6)}
    assert (taught <= kept) == (rows == "kept")
    assert not (rows == "pseudo" and taught & kept)


def test_pseudo_rows_lie_where_their_classes_do():
    X, y = separated_classes()
    fresh = np.abs(X + np.random.default_rng(1).normal(0, 0.3, X.shape)).astype(np.float32)
    model = learnt(X, y, rows="pseudo")
    assert (model.predict(fresh) == y).mean() > 0.9


# ---------------------------------------------------------------- what it keeps, and its parameters


def test_what_is_kept_is_counted_as_the_paper_has_it():
    X, y, _ = overlapping()
    n_classes, dim = len(set(y)), X.shape[1]

    def expected(model, n_rows):
        return 4 * (len(model.class_groups_) * M**2 + n_classes * (M + dim + 1) + n_rows * dim)

    assert PaperGDDSG().state_bytes() == 0
    for parameters, n_rows in (
        ({}, len(y)),
        ({"rows_per_class": 5}, 5 * n_classes),
        ({"rows": "pseudo"}, len(y) - n_classes),
        ({"rows": "pseudo", "rows_per_class": 5}, len(y) - n_classes),
    ):
        model = learnt(X, y, **parameters)
        assert model.state_bytes() == expected(model, n_rows)


def test_directions_of_scatter_do_not_grow_with_samples():
    sizes = []
    for n in (120, 600):
        X, y = separated_classes(3, n)
        sizes.append(PaperGDDSG(projection_dim=M, rows="pseudo").fit(X, y).state_bytes())
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    "parameters",
    [
        {"rows": "all"},
        {"rows_per_class": 0},
        {"rows_per_class": 1.5},
        {"voters": ()},
        {"voters": "knn"},
        {"voters": ("knn", "vote")},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(parameters):
    with pytest.raises(InputError, match=next(iter(parameters))):
        PaperGDDSG(projection_dim=8, **parameters).fit(np.eye(4), ["a", "a", "b", "b"])


@pytest.mark.parametrize("check", list(yield_checks(PaperGDDSG)), ids=lambda check: check.__name__)
def test_law_with_pseudo_rows(check):
    check(PaperGDDSG(**PaperGDDSG.test_params(), rows="pseudo"))
