"""The released recipe: groups and heads as its code makes them, and what its leak is worth."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from gddsg.core.projection import project
from gddsg.data import class_stream, task_sizes
from gddsg.errors import InputError
from gddsg.evaluation.leak_check import overlapping_classes
from gddsg.evaluation.protocol import RELEASED, closing_metrics, evaluate_stream
from gddsg.evaluation.released import RIDGES, ReleasedRecipe, _best_ridge


def learnt(**settings):
    data = overlapping_classes()
    recipe = ReleasedRecipe(projection_dim=64, trials=5, **settings)
    stream = class_stream(data, tuple(range(12)), task_sizes(12, 3))
    for task in stream.tasks():
        recipe.partial_fit(task.inputs, task.labels)
    return recipe, stream, data


def test_every_class_is_in_one_group_that_has_room():
    recipe, *_ = learnt(max_group_size=3)
    assert sorted(label for group in recipe.class_groups_ for label in group) == list(range(12))
    assert max(map(len, recipe.class_groups_)) <= 3


def test_groups_are_identified_by_the_prototypes_of_the_own_task():
    recipe, stream, data = learnt(decision="hard")
    (last,) = evaluate_stream(ReleasedRecipe(64, trials=5, decision="hard"), stream, RELEASED, only_last=True)
    found = closing_metrics(recipe, stream, last, RELEASED)
    group_of = {label: group for group, members in enumerate(recipe.class_groups_) for label in members}
    truth = np.array([group_of[label] for label in data.test_labels.tolist()])
    told_wrongly = [
        recipe.identify_knowing_task(data.test_features[rows], recipe.task_classes_[(task + 1) % 3]) == truth[rows]
        for task, classes in enumerate(recipe.task_classes_)
        for rows in [np.isin(data.test_labels, classes)]
    ]
    assert found["group_accuracy"] > np.concatenate(told_wrongly).mean() + 0.1
    assert "ECE" not in found


def test_the_paper_decides_inside_the_identified_group():
    recipe, _, data = learnt(decision="hard")
    labels = recipe.predict_knowing_task(data.test_features, recipe.task_classes_[0])
    groups = recipe.identify_knowing_task(data.test_features, recipe.task_classes_[0])
    assert all(label in recipe.class_groups_[group] for label, group in zip(labels, groups, strict=True))


def test_the_ridge_is_the_best_on_the_last_fifth():
    rng = np.random.default_rng(0)
    rows, targets = torch.from_numpy(rng.normal(size=(50, 8))), torch.from_numpy(rng.normal(size=(50, 2)))
    errors = [
        np.mean(
            (Ridge(alpha=r, fit_intercept=False).fit(rows[:40], targets[:40]).predict(rows[40:]) - targets[40:].numpy())
            ** 2
        )
        for r in RIDGES[4:]
    ]
    assert _best_ridge(rows, targets) == RIDGES[4 + int(np.argmin(errors))]


def test_scores_are_the_fusion_of_the_released_code():
    recipe, stream, _ = learnt()
    X = stream.test_inputs[:50]
    task = recipe.task_classes_[1]
    labels, groups = recipe.predict_knowing_task(X, task), recipe.identify_knowing_task(X, task)
    h = project(torch.from_numpy(X), 64, 0)
    columns = [label for group in recipe.class_groups_ for label in group]
    for row in range(50):
        scores = {}
        for g, (group, head) in enumerate(zip(recipe.class_groups_, recipe._heads, strict=True)):
            for label, score in zip(group, h[row] @ head, strict=True):
                scores[label] = float(score) * (2.5 if groups[row] == g else 1.0)
        assert labels[row] == max(columns, key=lambda label: scores[label])


def test_unequal_tasks_are_refused():
    recipe, stream, _ = learnt()
    with pytest.raises(InputError, match="one size"):
        recipe.partial_fit(stream.train_inputs[:40], np.full(40, 99))


def test_rows_that_come_class_by_class_are_mixed_before_the_last_fifth_is_taken():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 8)).astype(np.float32), np.repeat(np.arange(4), 50)
    recipe = ReleasedRecipe(projection_dim=32, trials=5).partial_fit(X, y)
    tails = {len(group.classes): set(group.current[1][-(len(group.current[1]) // 5) :]) for group in recipe.groups_}
    assert max(tails) > 1
    assert all(len(classes) == size for size, classes in tails.items())


def test_asking_the_voters_once_more_changes_nothing():
    recipe, stream, _ = learnt()
    X, task = stream.test_inputs[:50], recipe.task_classes_[1]
    before = recipe.predict_knowing_task(X, task)
    recipe.ask_voters()
    assert (recipe.predict_knowing_task(X, task) == before).all()
