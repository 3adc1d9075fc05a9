"""APD, APDfix and HALRP: what they promise of earlier tasks, what they are told, and every network they work on."""

import pickle

import numpy as np
import pytest
import torch

from gddsg import APD, HALRP, LEARNERS, APDfix
from gddsg.checks import yield_checks
from gddsg.checks.samples import samples_for, separated_classes
from gddsg.errors import BackboneError, InputError, TrainingError
from gddsg.evaluation.leak_check import leak_check, overlapping_classes
from gddsg.evaluation.protocol import TASK_AWARE
from gddsg.evaluation.task_probe import TaskProbe

ALL = (APD, APDfix, HALRP)
WITHOUT_RETROACTIVE_UPDATES = (APDfix, HALRP)
IMAGES = ("conv", "toy-vit")


def new(kind, **changed):
    return kind(**{**kind.test_params(), **changed})


def tasks(n_tasks=3, size=2, n=20):
    X, y = separated_classes(n_tasks * size, n)
    names = np.unique(y)
    parts = [np.isin(y, names[start : start + size]) for start in range(0, len(names), size)]
    return [(X[rows], y[rows]) for rows in parts]


def learnt(learner, batches):
    for batch in batches:
        learner.partial_fit(*batch)
    return learner


# What is promised of earlier tasks.


@pytest.mark.parametrize("kind", WITHOUT_RETROACTIVE_UPDATES)
def test_without_retroactive_updates_no_answer_of_an_earlier_task_changes_by_a_bit(kind):
    batches = tasks(4)
    learner, asked = new(kind), torch.from_numpy(batches[0][0])
    tables = []
    for batch in batches:
        learner.partial_fit(*batch)
        state = learner.learnt_.state
        tables.append([learner._among(learner.learnt_, asked, [task]).numpy() for task in state.tasks])
    for task in range(3):
        places = np.flatnonzero(np.isfinite(tables[task][task][0]))  # later classes come behind: they are sorted
        for later in tables[task:]:
            assert np.array_equal(later[task][:, places], tables[task][task][:, places])


def test_retroactive_updates_change_earlier_weights_a_little_and_no_mask_bias_or_head():
    first, *others = tasks()
    before = new(APD, consolidate_every=0).partial_fit(*first)
    old, old_state = before.learnt_.state.tasks[0], before.learnt_.state
    state = learnt(before, others).learnt_.state
    now = state.tasks[0]
    assert torch.equal(now.layers["hidden0.weight"].mask, old.layers["hidden0.weight"].mask)
    assert all(torch.equal(now.head[name], old.head[name]) for name in old.head)
    assert torch.equal(now.biases["hidden0.bias"], old.biases["hidden0.bias"])
    assert not torch.equal(state.shared["hidden0.weight"], old_state.shared["hidden0.weight"])
    was, is_now = (one.weights(task)["hidden0.weight"] for one, task in ((old_state, old), (state, now)))
    moved = (state.shared["hidden0.weight"] - old_state.shared["hidden0.weight"]).norm()
    assert 0 < (is_now - was).norm() < moved / 3


def test_drift_holds_earlier_weights_the_more_it_weighs():
    first, *others = tasks()
    moved = []
    for weight in (0.0, 1.0, 100.0):
        learner = new(APD, consolidate_every=0, drift=weight).partial_fit(*first)
        before = learner.learnt_.state.weights(learner.learnt_.state.tasks[0])["hidden0.weight"]
        state = learnt(learner, others).learnt_.state
        moved.append(float((state.weights(state.tasks[0])["hidden0.weight"] - before).norm()))
    assert moved[0] > moved[1] > moved[2]


def test_parts_of_tasks_are_put_together_when_it_is_time():
    states = [learnt(new(APD, consolidate_every=every), tasks()).learnt_.state for every in (0, 3)]
    locals_of = [[task.layers["hidden0.weight"].local for task in state.tasks] for state in states]
    assert locals_of[0] == [None] * 3
    assert all(one is not None for one in locals_of[1])
    assert len({id(one) for one in locals_of[1]}) <= 2
    for apart, together in zip(*(state.tasks for state in states), strict=True):
        change = states[0].weights(apart)["hidden0.weight"] - states[1].weights(together)["hidden0.weight"]
        assert float(change.abs().max()) <= 0.01 / 2 + 1e-6


def test_the_mask_alone_is_a_mask_on_the_shared_part():
    state = learnt(new(APDfix, own=False), tasks()).learnt_.state
    for task in state.tasks:
        layer = task.layers["hidden0.weight"]
        assert layer.own.count == 0
        expected = state.shared["hidden0.weight"] * torch.sigmoid(layer.mask)[:, None]
        assert torch.equal(layer.weight(state.shared["hidden0.weight"]), expected)


def test_own_parts_are_sparser_the_more_they_cost():
    counts = []
    for sparsity in (0.0, 1e-3, 1e-1):
        state = learnt(new(APDfix, sparsity=sparsity), tasks()).learnt_.state
        counts.append(sum(task.layers["hidden0.weight"].own.count for task in state.tasks))
    assert counts[0] > counts[1] > counts[2]


@pytest.mark.parametrize("growth", [0.0, 0.02, 0.3, 1.0])
def test_growth_stays_within_its_bound(growth):
    state = learnt(new(HALRP, growth=growth, hidden=(16, 8)), tasks(4)).learnt_.state
    base = sum(tensor.numel() for tensor in state.shared.values())
    extra = [sum(layer.extra for layer in task.layers.values()) for task in state.tasks]
    assert extra[0] == 0
    assert all(one <= growth * base for one in extra)
    assert sum(extra) <= growth * base * 3
    assert growth == 0 or sum(extra) > 0


def test_pruned_entries_stay_out_while_the_rest_is_refined():
    kept = []
    for epochs in (0, 3):
        state = learnt(new(HALRP, growth=0.2, refinement_epochs=epochs), tasks(2)).learnt_.state
        kept.append(state.tasks[1].layers["hidden0.weight"])
    assert np.array_equal(kept[0].left.places, kept[1].left.places)
    assert np.array_equal(kept[0].right.places, kept[1].right.places)
    assert not torch.equal(kept[0].right.values, kept[1].right.values) or not torch.equal(kept[0].rows, kept[1].rows)


# What is told, and how heads are compared.


@pytest.mark.parametrize("kind", ALL)
def test_told_its_task_a_sample_is_compared_with_no_other_class(kind):
    batches = tasks()
    learner = learnt(new(kind), batches)
    for X, y in batches:
        found = learner.predict_in_task(X, np.unique(y).tolist())
        assert np.mean(found == y) >= 0.95
        strangers = learner.predict_in_task(X, np.unique(batches[0][1]).tolist())
        assert set(strangers) <= set(batches[0][1])
    with pytest.raises(InputError, match="expected some of those learnt"):
        learner.predict_in_task(batches[0][0], ["nobody"])
    with pytest.raises(InputError, match="expected some of those learnt"):
        learner.predict_in_task(batches[0][0], [])


def test_the_task_aware_protocol_leaks_and_the_rules_do_not():
    data = overlapping_classes(6, 12)
    assert leak_check(new(APDfix), data, n_tasks=3, protocol=TASK_AWARE).changed["test labels"] > 0
    assert not leak_check(new(APDfix, rule="energy"), data, n_tasks=3).leaks


@pytest.mark.parametrize("kind", ALL)
def test_the_rule_decides_at_prediction_alone(kind):
    X, y = overlapping_classes(6, 20).train_features, overlapping_classes(6, 20).train_labels
    learner = learnt(new(kind), [(X[y < 3], y[y < 3]), (X[y >= 3], y[y >= 3])])
    tables = {}
    for rule in ("confidence", "energy"):
        tables[rule] = learner.set_params(rule=rule).predict_proba(X)
        np.testing.assert_allclose(tables[rule].sum(1), 1)
        assert np.array_equal(learner.classes_[tables[rule].argmax(1)], learner.predict(X))
    assert not np.allclose(tables["confidence"], tables["energy"])
    with pytest.raises(InputError, match="rule='none'"):
        learner.set_params(rule="none").predict(X)


def test_samples_are_held_back_for_the_temperature_alone():
    temperatures = [
        [task.temperature for task in learnt(new(APDfix, held_out=share), tasks()).learnt_.state.tasks]
        for share in (0.0, 0.2)
    ]
    assert temperatures[0] == [1, 1, 1]
    assert 1 not in temperatures[1]


@pytest.mark.parametrize("kind", ALL)
def test_classes_that_come_back_are_part_of_one_more_task(kind):
    (X, y), (Z, z), _ = tasks()
    learner = learnt(new(kind), [(X, y), (Z, z), (np.concatenate([X, Z]), np.concatenate([y, z]))])
    assert learner.learnt_.state.batches == 3
    assert np.mean(learner.predict(np.concatenate([X, Z])) == np.concatenate([y, z])) > 0.9


# What may go wrong.


@pytest.mark.parametrize("kind", ALL)
def test_tasks_of_one_class_and_classes_of_one_sample_are_learnt(kind):
    X, y = separated_classes(4, 5)
    learner = learnt(new(kind), [(X[y == "c00"], y[y == "c00"]), (X[5:7], y[5:7]), (X[10::5], y[10::5])])
    assert learner.classes_.tolist() == ["c00", "c01", "c02", "c03"]
    assert np.isfinite(learner.predict_proba(X)).all()
    copy = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(copy.predict_proba(X), learner.predict_proba(X))


@pytest.mark.parametrize("kind", ALL)
def test_a_training_that_goes_astray_leaves_what_was_known(kind):
    first, second, _ = tasks()
    learner = new(kind).partial_fit(*first)
    before = learner.predict_proba(first[0])
    with pytest.raises(TrainingError, match="what was known before is as it was"):
        learner.set_params(training={**learner.training, "rate": 1e30}).partial_fit(*second)
    assert np.array_equal(learner.predict_proba(first[0]), before)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hidden": ()}, "widths of hidden layers"),
        ({"hidden": 16}, "widths of hidden layers"),
        ({"held_out": 1.0}, "held_out=1.0"),
        ({"training": {"epoch": 3}}, "'epoch' is no part of a training recipe"),
        ({"training": {"augment": True}}, "expected the name of a ViT"),
        ({"rule": "best"}, "rule='best'"),
        ({"sparsity": -1.0}, "sparsity=-1.0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(changed, message):
    for kind in ALL:
        with pytest.raises(InputError, match=message):
            new(kind, **changed).partial_fit(*tasks()[0])


# Other networks.

A_FEW = ("separated_classes_are_told_apart", "bad_batches_are_refused_and_nothing_is_lost")


def of_images(kind, network):
    steps = {"epochs": 2, "least_steps": 20, "batch_size": 32, "rate": 0.005}
    return kind(network=network, hidden=(16,), training=steps)


@pytest.mark.parametrize("network", IMAGES)
def test_a_learner_takes_what_its_network_does(network):
    assert (APD.takes, APD().takes, APD(network=network).takes) == ("features", "features", "images")


@pytest.mark.parametrize("law", A_FEW)
def test_laws_hold_on_images(law):
    learner = of_images(APDfix, "toy-vit")
    (check,) = (check for check in yield_checks(learner) if check.__name__ == law)
    check(learner)


@pytest.mark.parametrize("network", IMAGES)
@pytest.mark.parametrize("kind", ALL)
def test_tasks_of_images_are_learnt_and_earlier_ones_kept(kind, network):
    learner = of_images(kind, network)
    known = samples_for(learner, 4, 12)
    halves = np.isin(known.labels, ["c00", "c01"])
    learner.partial_fit(known.inputs[halves], known.labels[halves])
    before = learner.predict_in_task(known.fresh[halves], ["c00", "c01"])
    learner.partial_fit(known.inputs[~halves], known.labels[~halves])
    assert np.mean(learner.predict_in_task(known.fresh[halves], ["c00", "c01"]) == known.labels[halves]) >= 0.9
    assert np.mean(learner.predict_in_task(known.fresh[~halves], ["c02", "c03"]) == known.labels[~halves]) >= 0.9
    if kind in WITHOUT_RETROACTIVE_UPDATES:
        assert np.array_equal(learner.predict_in_task(known.fresh[halves], ["c00", "c01"]), before)


def test_of_a_vit_the_attention_output_and_the_mlp_are_changed_and_nothing_else():
    learner = of_images(HALRP, "toy-vit")
    known = samples_for(learner, 2, 6)
    layers = learner.partial_fit(known.inputs, known.labels).learnt_.state.shared
    expected = [
        f"layers.{block}.{part}.weight" for block in (0, 1) for part in ("attention.o_proj", "mlp.fc1", "mlp.fc2")
    ]
    assert sorted(layers) == sorted(expected)


def test_a_network_that_is_no_vit_is_refused(monkeypatch):
    class Other:
        identity = "other"

    monkeypatch.setattr("gddsg.nn.task_networks.load_network", lambda *_: Other())
    known = samples_for(APD(network="other"), 2, 3)
    with pytest.raises(BackboneError, match="other"):
        APD(network="other").partial_fit(known.inputs, known.labels)


# The reference that the task-aware evaluation is held against.


def test_one_linear_probe_a_task_is_asked_with_the_task_alone():
    batches = tasks()
    probe = learnt(TaskProbe(), batches)
    for X, y in batches:
        assert np.mean(probe.predict_in_task(X, np.unique(y).tolist()) == y) >= 0.95
    assert not hasattr(probe, "predict")
    assert probe.state_bytes() > 0
    with pytest.raises(InputError, match="No task with the classes"):
        probe.predict_in_task(batches[0][0], ["c00"])


def test_all_three_are_learners():
    assert [LEARNERS[name] for name in ("apd", "apd_fix", "halrp")] == list(ALL)
