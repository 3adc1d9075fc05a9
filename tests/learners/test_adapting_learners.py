"""ADAM, EASE, RanPAC and GDDSG on adapted networks, each against what it is made of."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from gddsg import LEARNERS
from gddsg.checks.samples import samples_for
from gddsg.core.class_means import COSINE_SCALE, ClassMeans, cosines, synthesised_means
from gddsg.errors import BackboneError, InputError, TrainingError
from gddsg.learners import ADAM, EASE, GDDSG, RanPAC, SimpleCIL, TunedGDDSG, TunedRanPAC
from gddsg.learners.ease import all_prototypes, weighted
from gddsg.nn.networks import load_network

KINDS = ("finetune", "vpt-shallow", "vpt-deep", "ssf", "adapter")
NAMES = ("adam", "ease", "ranpac_tuned", "gddsg_tuned")
FIRST_BATCH = ("adam", "ranpac_tuned", "gddsg_tuned")
TRAINING = {"epochs": 4, "batch_size": 32, "rate": 0.05, "augment": False}


def new(name, **parameters):
    return LEARNERS[name](**{**LEARNERS[name].test_params(), "training": TRAINING, **parameters})


def batches(sizes=(3, 2, 2), n=10, noise=1.0):
    """Batches of so many new classes each, and fresh samples of all classes."""
    known = samples_for(new("adam"), sum(sizes), n, noise=noise)
    names, found, start = np.unique(known.labels), [], 0
    for size in sizes:
        rows = np.isin(known.labels, names[start : start + size])
        found.append((known.inputs[rows], known.labels[rows]))
        start += size
    return found, known.fresh


def learnt(learner, stream):
    for inputs, labels in stream:
        learner.partial_fit(inputs, labels)
    return learner


def features_of(learner, images, used="both"):
    network = load_network("toy-vit")
    after = learner.learnt_.state.adaptation.embed(network, images)
    return (torch.cat([network.embed(images), after], dim=1) if used == "both" else after).numpy()


# ---------------------------------------------------------------- made of parts that are known


@pytest.mark.parametrize("kind", KINDS)
def test_adam_is_simplecil_on_features_of_both_networks(kind):
    stream, fresh = batches()
    model, expected = learnt(new("adam", adaptation=kind), stream), SimpleCIL()
    for inputs, labels in stream:
        expected.partial_fit(features_of(model, inputs), labels)
    assert_allclose(model.predict_proba(fresh), expected.predict_proba(features_of(model, fresh)), atol=1e-12)
    plain = load_network("toy-vit").embed(fresh).numpy()
    assert np.abs(features_of(model, fresh)[:, plain.shape[1] :] - plain).max() > 1e-3  # it was adapted indeed


def test_adam_untrained_is_simplecil_on_doubled_features_and_so_on_plain_ones():
    """A first batch of a single class trains nothing, and a new adapter changes nothing."""
    stream, fresh = batches((1, 3, 3))
    model, network = learnt(new("adam"), stream), load_network("toy-vit")
    doubled, plain = SimpleCIL(), SimpleCIL()
    for inputs, labels in stream:
        rows = network.embed(inputs).numpy()
        doubled.partial_fit(np.hstack([rows, rows]), labels)
        plain.partial_fit(rows, labels)
    asked = network.embed(fresh).numpy()
    assert_allclose(model.predict_proba(fresh), doubled.predict_proba(np.hstack([asked, asked])), atol=1e-12)
    assert_allclose(model.predict_proba(fresh), plain.predict_proba(asked), atol=1e-9)


@pytest.mark.parametrize("regularisation", [None, 10.0])
def test_phase_two_of_ranpac_is_ranpac_on_adapted_features(regularisation):
    stream, fresh = batches()
    model = learnt(new("ranpac_tuned", regularisation=regularisation, seed=3), stream)
    expected = RanPAC(projection_dim=model.projection_dim, regularisation=regularisation, seed=3)
    for inputs, labels in stream:
        expected.partial_fit(features_of(model, inputs, "adapted"), labels)
    asked = features_of(model, fresh, "adapted")
    assert_allclose(model.predict_proba(fresh), expected.predict_proba(asked), atol=1e-12)


@pytest.mark.parametrize("used", ["both", "adapted"])
@pytest.mark.parametrize("decision", ["soft", "hard"])
def test_tuned_gddsg_is_gddsg_on_the_same_features(used, decision):
    stream, fresh = batches()
    settings = {"projection_dim": 64, "rank": 8, "decision": decision, "seed": 3}
    model, expected = learnt(new("gddsg_tuned", features=used, **settings), stream), GDDSG(**settings)
    for inputs, labels in stream:
        expected.partial_fit(features_of(model, inputs, used), labels)
    asked = features_of(model, fresh, used)
    assert_allclose(model.predict_proba(fresh), expected.predict_proba(asked), atol=1e-12)
    assert model.learnt_.state.model.feature_dim == (64 if used == "both" else 32)


# ---------------------------------------------------------------- EASE


def ease_with_classes_that_came_back():
    """Three spaces; c00 comes back with the second batch, c03 in one without new classes, c01 never."""
    stream, fresh = batches((3, 2, 2))
    (one, one_labels), (two, two_labels), three = stream
    again, back = one_labels == "c00", two_labels == "c03"
    mixed = type(one).of(np.concatenate([two.source[two.rows], one.source[one.rows[again]]]))
    model = new("ease")
    first = (one, one_labels)
    second = (mixed, np.concatenate([two_labels, one_labels[again]]))
    third = (two[back], two_labels[back])
    return learnt(model, [first, second, third, three]), [first, second, third, three], fresh


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_prototypes_are_means_of_samples_where_there_are_some_and_synthesised_where_not():
    model, stream, _ = ease_with_classes_that_came_back()
    spaces, network = model.learnt_.state.spaces, load_network("toy-vit")
    assert [space.own for space in spaces] == [("c00", "c01", "c02"), ("c03", "c04"), ("c05", "c06")]
    since = (0, 1, 3)  # the batches that brought the spaces
    home = {name: i for i, space in enumerate(spaces) for name in space.own}

    def mean(name, j):
        """By all samples since there is the space; None without any."""
        rows = [
            row
            for inputs, labels in stream[since[j] :]
            for row, label in zip(spaces[j].adaptation.embed(network, inputs), labels, strict=True)
            if label == name
        ]
        return torch.stack(rows).double().mean(0).numpy() if rows else None

    def prototype(name, j):
        found = mean(name, j)
        if found is not None:
            return found
        i = home[name]
        alike = np.exp([cosine(mean(name, i), mean(other, i)) for other in spaces[j].own])
        return sum(a / alike.sum() * mean(other, j) for a, other in zip(alike, spaces[j].own, strict=True))

    expected = np.array([[prototype(name, j) for name in home] for j in range(3)])
    assert_allclose(all_prototypes(spaces).numpy(), expected, atol=1e-6)
    met = [sorted(space.means.counts) for space in spaces]
    assert met == [sorted(home), ["c00", "c03", "c04", "c05", "c06"], ["c05", "c06"]]
    assert (spaces[0].means.counts["c00"], spaces[1].means.counts["c00"]) == (20, 10)
    assert [space.means.counts["c03"] for space in spaces[:2]] == [20, 20]


def test_scores_weigh_the_own_space_and_the_mean_of_the_others():
    model, _, fresh = ease_with_classes_that_came_back()
    model.set_params(alpha=0.7)
    state, network = model.learnt_.state, load_network("toy-vit")
    table = all_prototypes(state.spaces).numpy()
    rows = [space.adaptation.embed(network, fresh).double().numpy() for space in state.spaces]
    home = [i for i, space in enumerate(state.spaces) for _ in space.own]
    scores = np.zeros((len(fresh), len(home)))
    for n in range(len(fresh)):
        for c, i in enumerate(home):
            for j in range(3):
                scores[n, c] += (1 if i == j else 0.7 / 2) * cosine(rows[j][n], table[j, c])
    expected = np.exp(COSINE_SCALE * scores)
    assert_allclose(model.predict_proba(fresh), expected / expected.sum(1, keepdims=True), atol=1e-6)


def test_weights_of_spaces_by_hand():
    found = torch.tensor([[[1.0, 2.0]], [[10.0, 20.0]], [[100.0, 200.0]]])
    assert_allclose(weighted(found, torch.tensor([0, 2]), 0.1), [[1 + 0.05 * 110, 200 + 0.05 * 22]])
    assert_allclose(weighted(found[:1], torch.tensor([0, 0]), 0.1), [[1, 2]])


def test_a_synthesised_mean_by_hand():
    old, new_ones = torch.tensor([[1.0, 0.0]]), torch.tensor([[5.0, 0.0], [0.0, 3.0]])
    there = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 9.0]])
    share = np.e / (np.e + 1)  # cosines of 1 and 0
    assert_allclose(synthesised_means(old, new_ones, there), [[share, share, 9 * (1 - share)]])


def test_a_batch_without_new_classes_trains_nothing_and_is_learnt_from():
    stream, fresh = batches((3, 2))
    model = learnt(new("ease"), stream)
    before, answers = model.learnt_.state, model.predict_proba(fresh)
    inputs, labels = stream[0]
    model.partial_fit(inputs[:15], labels[:15])
    after = model.learnt_.state
    pairs = list(zip(before.spaces, after.spaces, strict=True))
    assert len(pairs) == 2
    assert all(old.adaptation is still.adaptation for old, still in pairs)
    assert np.abs(model.predict_proba(fresh) - answers).max() > 1e-6


def test_failed_training_of_a_later_batch_keeps_the_last_good_state():
    stream, fresh = batches((3, 2))
    model = learnt(new("ease"), stream[:1])
    before, answers = model.learnt_, model.predict_proba(fresh)
    model.set_params(training={**TRAINING, "rate": 1e30})
    with pytest.raises(TrainingError):
        model.partial_fit(*stream[1])
    assert model.learnt_ is before
    assert_array_equal(model.predict_proba(fresh), answers)
    model.set_params(training=TRAINING).partial_fit(*stream[1])
    assert len(model.classes_) == 5


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FIRST_BATCH)
def test_every_kind_learns_and_its_pickle_answers_the_same(name, kind):
    stream, fresh = batches(noise=0.0)
    labels = np.concatenate([labels for _, labels in stream])
    model = learnt(new(name, adaptation=kind), stream)
    assert np.mean(model.predict(fresh) == labels) > 0.9
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict_proba(fresh), model.predict_proba(fresh))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FIRST_BATCH)
def test_later_batches_leave_the_adaptation_as_it_is_bit_for_bit(name, kind):
    stream, _ = batches()
    model = learnt(new(name, adaptation=kind), stream[:1])
    before = {key: one.clone() for key, one in model.learnt_.state.adaptation.tensors.items()}
    learnt(model, [*stream[1:], stream[0]])
    after = model.learnt_.state.adaptation.tensors
    assert list(after) == list(before)
    assert all(torch.equal(after[key], one) for key, one in before.items())


@pytest.mark.parametrize("name", FIRST_BATCH)
def test_batches_after_the_first_may_come_in_any_order(name):
    stream, fresh = batches()
    straight, crossed = learnt(new(name), stream), learnt(new(name), [stream[0], stream[2], stream[1]])
    assert_allclose(crossed.predict_proba(fresh), straight.predict_proba(fresh), atol=1e-6)
    other = learnt(new(name), stream[::-1])
    assert np.abs(other.predict_proba(fresh) - straight.predict_proba(fresh)).max() > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_from_one_class_to_fifty(name):
    stream, fresh = batches((1, 1, 10, 38), n=4, noise=0.0)
    model = new(name)
    for size, (inputs, labels) in zip((1, 2, 12, 50), stream, strict=True):
        model.partial_fit(inputs, labels)
        assert model.predict_proba(fresh[:3]).shape == (3, size)
    labels = np.concatenate([labels for _, labels in stream])
    assert np.mean(model.predict(fresh) == labels) > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_trained_with_checkpoints_it_is_the_same_and_leaves_none(name, tmp_path):
    stream, fresh = batches((3, 2))
    kept = learnt(new(name, checkpoints=str(tmp_path)), stream)
    assert_array_equal(kept.predict_proba(fresh), learnt(new(name), stream).predict_proba(fresh))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("learner", [ADAM, TunedRanPAC, TunedGDDSG])
def test_unknown_kinds_are_refused(learner):
    with pytest.raises(InputError, match="adaptation='lora' was given; expected one of"):
        learner(adaptation="lora", backbone="toy-vit").partial_fit(*batches()[0][0])


def test_unknown_features_are_refused():
    with pytest.raises(InputError, match="expected 'both' or 'adapted'"):
        new("gddsg_tuned", features="plain").partial_fit(*batches()[0][0])


def test_what_is_carried_is_counted_as_the_methods_keep_it():
    stream, _ = batches()
    adam, ease, ranpac = (learnt(new(name), stream) for name in ("adam", "ease", "ranpac_tuned"))
    adapters = 2 * 4 * (64 * 32 + 64 + 32 * 64 + 32)  # two blocks
    assert adam.state_bytes() == adapters + 7 * 64 * 4
    assert ease.state_bytes() == 3 * (adapters + 7 * 32 * 4)
    assert ranpac.state_bytes() == adapters + 4 * 64 * (64 + 7)
    assert all(new(name).state_bytes() == 0 for name in NAMES)


def test_class_means_add_up_batch_by_batch():
    rows = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    labels = list("abcabcabc")
    means = ClassMeans().plus(rows[:5], labels[:5]).plus(rows[5:], labels[5:])
    assert means.counts == {"a": 3, "b": 3, "c": 3}
    assert_allclose(means.of(["c", "a"]), torch.stack([rows[2::3], rows[::3]]).double().mean(1))
    assert_allclose(cosines(rows[:1], rows[1:2])[0, 0], cosine(rows[0].double().numpy(), rows[1].double().numpy()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["finetune", "ssf"])
@pytest.mark.parametrize("learner", [ADAM, TunedRanPAC])
def test_convolutional_networks_work_where_they_can(learner, kind):
    pixels = np.repeat(np.array([[220, 40, 40], [40, 220, 40], [40, 40, 220]], np.uint8), 2, axis=0)
    images = np.broadcast_to(pixels[:, None, None], (6, 224, 224, 3)).copy()
    images[1::2, :50] = 128
    training = {"epochs": 1, "batch_size": 4, "augment": False}
    model = learner(adaptation=kind, backbone="efficientnet-lite0", training=training)
    if learner is TunedRanPAC:
        model.set_params(projection_dim=128)
    model.partial_fit(images[:4], ["red", "red", "green", "green"]).partial_fit(images[4:], ["blue", "blue"])
    assert list(model.predict(images)) == ["red", "red", "green", "green", "blue", "blue"]


@pytest.mark.slow
def test_a_convolutional_network_is_refused_by_what_needs_blocks():
    images = np.zeros((2, 224, 224, 3), np.uint8)
    for model in (ADAM(backbone="efficientnet-lite0"), EASE(backbone="efficientnet-lite0")):
        with pytest.raises(BackboneError, match="blocks of a ViT"):
            model.partial_fit(images, ["a", "b"])
