"""The model is a value: successors leave it alone, and what follows from it is a matter of the set of cards."""

import gc
import pickle
import weakref
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

from gddsg.core import metric
from gddsg.core.canonical_order import BLOCK_SIZE, by_content
from gddsg.core.metric import SAMPLED_CLASSES
from gddsg.core.model import Model, Settings, same_backbone
from gddsg.errors import InputError, UnknownClassError

DIM, SETTINGS = 6, Settings(projection_dim=16, rank=8)


def samples_of(n_classes, n=8, dim=DIM, seed=0):
    """Features ``(n_classes · n, dim)`` and int labels of classes that overlap."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(1, 9, (n_classes, dim))
    X = np.abs(centres.repeat(n, 0) + rng.normal(0, 1, (n_classes * n, dim))).astype(np.float32)
    return torch.from_numpy(X), np.arange(n_classes).repeat(n).tolist()


def cards_of(n_classes, settings=SETTINGS, **how):
    return Model(settings).make_cards(*samples_of(n_classes, **how))


def model_of(cards, settings=SETTINGS):
    return Model(settings).plus(cards)


QUERIES = samples_of(12, n=5, seed=1)[0].numpy()


def answers(model, queries=QUERIES):
    """All that a model answers, bit for bit."""
    predictor = model.predictor
    return {
        "labels": model.labels,
        "probabilities": predictor.predict_log_proba(queries).tobytes(),
        "predictions": predictor.predict(queries).tolist(),
        "groups": [tuple(model.groups[g]) for g in predictor.predict_group(queries)],
        "novelty": predictor.measure_novelty(queries).tobytes(),
        "limit": predictor.novelty_limit(0.99),
        "all groups": model.groups,
    }


def renamed_answers(found, name):
    """What the answers would be if every class were called ``name[label]``; columns in their new order."""
    labels = [name[label] for label in found["labels"]]
    order = np.argsort(labels)
    table = np.frombuffer(found["probabilities"]).reshape(-1, len(labels))[:, order]
    return {
        **found,
        "labels": tuple(labels[i] for i in order),
        "probabilities": table.tobytes(),
        "predictions": [name[label] for label in found["predictions"]],
        "groups": [tuple(name[label] for label in group) for group in found["groups"]],
        "all groups": tuple(tuple(name[label] for label in group) for group in found["all groups"]),
    }


# Successors.

STEPS = {
    "plus a class": lambda m: m.plus({99: cards_of(1, seed=5)[0]}),
    "plus samples": lambda m: m.plus({3: cards_of(1, seed=5)[0]}),
    "without": lambda m: m.without(4),
    "renamed": lambda m: m.renamed(4, 77),
    "merged": lambda m: m.merged(model_of({99: cards_of(1, seed=5)[0]}, m.settings)),
    "configured": lambda m: m.configured("evidence", "hard"),
}


@pytest.mark.parametrize("grouping", ["canonical", "arrival"])
@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_successor_leaves_its_predecessor_as_it_was(step, looked, grouping):
    settings = replace(SETTINGS, grouping=grouping)
    cards = cards_of(12, settings)
    expected = answers(model_of(cards, settings))
    model = model_of(cards, settings)
    if looked:
        answers(model)
    kept, arrived = dict(model.cards), model.arrival_groups
    successor = step(model)
    assert successor is not model
    answers(successor)
    assert list(model.cards) == list(kept)
    assert all(model.cards[label] is card for label, card in kept.items())
    assert (model.settings, model.arrival_groups) == (settings, arrived)
    assert answers(model) == expected
    again = step(model)
    assert answers(again) == answers(successor)


def test_a_model_cannot_be_changed():
    model = model_of(cards_of(3))
    with pytest.raises(TypeError):
        model.cards[1] = model.cards[0]
    with pytest.raises(FrozenInstanceError):
        model.cards = {}
    with pytest.raises(FrozenInstanceError):
        model.settings.rank = 3
    with pytest.raises(FrozenInstanceError):
        model.cards[0].root = None


def test_the_mapping_that_was_given_may_change_afterwards():
    cards = cards_of(3)
    model = model_of(cards)
    cards.clear()
    assert model.labels == (0, 1, 2)


def test_cards_are_sorted_by_label():
    cards = cards_of(12)
    assert Model(SETTINGS, dict(reversed(cards.items()))).labels == tuple(range(12))


@pytest.mark.parametrize("grouping", ["canonical", "arrival", "one", "random", "similar", "task"])
def test_the_empty_model(grouping):
    model = Model(replace(SETTINGS, grouping=grouping))
    assert (model.labels, model.feature_dim, model.groups, model.label_samples()) == ((), None, (), {})
    assert model.plus({}).labels == ()
    assert model.merged(model_of(cards_of(3))).labels == (0, 1, 2)
    assert model_of(cards_of(3)).merged(model).labels == (0, 1, 2)


def test_plus_merges_cards_of_a_known_class():
    cards, more = cards_of(3), cards_of(2, seed=5)
    grown = model_of(cards).plus(more)
    assert [grown.cards[k].count for k in grown.labels] == [16, 16, 8]
    assert grown.cards[1] == cards[1].merge(more[1], SETTINGS.rank)
    assert grown.cards[2] is cards[2]


def test_merging_is_symmetric():
    cards = cards_of(12)
    even, odd = (model_of({k: card for k, card in cards.items() if k % 2 == r}) for r in (0, 1))
    both = model_of(cards_of(6, seed=5)).merged(model_of(cards))
    assert answers(even.merged(odd)) == answers(odd.merged(even)) == answers(model_of(cards))
    assert answers(model_of(cards).merged(model_of(cards_of(6, seed=5)))) == answers(both)


@pytest.mark.parametrize(
    ("name", "value"),
    [("projection_dim", 8), ("rank", 4), ("seed", 1), ("feature_transform", "none"), ("backbone", "b")],
)
def test_models_that_differ_do_not_merge(name, value):
    settings = replace(SETTINGS, **{name: value})
    with pytest.raises(InputError, match=name):
        model_of(cards_of(3)).merged(model_of(cards_of(3, settings), settings))


def test_models_of_other_data_do_not_merge():
    with pytest.raises(InputError, match="number of features"):
        model_of(cards_of(3)).merged(model_of(cards_of(3, dim=4)))
    with pytest.raises(InputError, match="type of labels"):
        model_of(cards_of(3)).merged(model_of({"a": cards_of(1)[0]}))


def test_what_may_differ_between_models_that_merge():
    cards = cards_of(12)
    other = Settings(projection_dim=16, rank=8, grouping="one", identification="tree", decision="hard")
    half = {k: cards[k] for k in range(6)}, {k: cards[k] for k in range(6, 12)}
    assert answers(model_of(half[0]).merged(model_of(half[1], other))) == answers(model_of(cards))


@pytest.mark.parametrize("label", [12, "3", None, [3]], ids=repr)
def test_a_class_that_is_not_there(label):
    model = model_of(cards_of(12))
    for step in (model.without, lambda old: model.renamed(old, 50)):
        with pytest.raises(UnknownClassError, match=r"12 classes: 0, 1, 2"):
            step(label)


def test_names_that_cannot_be_given():
    model = model_of(cards_of(3))
    with pytest.raises(InputError, match="already"):
        model.renamed(0, 1)
    with pytest.raises(InputError, match="one type"):
        model.renamed(0, "zero")


# Sample ids.


def test_samples_with_ids_are_learnt_once():
    X, y = samples_of(3)
    ids = np.arange(24, dtype=np.uint64) + 2**63
    model = Model(SETTINGS)
    model = model.plus(model.make_cards(X, y, ids))
    assert model.label_samples() == dict(zip(ids.tolist(), y, strict=True))
    assert model.make_cards(X, y, ids) == {}
    again = model.make_cards(X, y, np.where(np.arange(24) < 20, ids, ids + 100))
    assert {label: card.count for label, card in again.items()} == {2: 4}
    with pytest.raises(InputError, match="was learnt as 0"):
        model.make_cards(X[:1], [1], ids[:1])
    with pytest.raises(InputError, match="learnt by both"):
        model.merged(model)


# Pickles.


@pytest.mark.parametrize("grouping", ["canonical", "arrival"])
def test_a_pickle_holds_the_cards_and_nothing_that_follows_from_them(grouping):
    settings = replace(SETTINGS, grouping=grouping)
    model = model_of(cards_of(12, settings), settings)
    before = pickle.dumps(model)
    expected = answers(model)
    assert len(pickle.dumps(model)) == len(before)
    back = pickle.loads(pickle.dumps(model))
    assert (back.settings, back.arrival_groups) == (model.settings, model.arrival_groups)
    assert dict(back.cards) == dict(model.cards)
    assert answers(back) == expected
    assert answers(back.without(3)) == answers(model.without(3))


# The same cards in another light.


def test_configured_shares_all_that_follows_from_the_cards():
    model = model_of(cards_of(12))
    hard = model.configured("evidence", "hard")
    assert hard.derived is model.derived
    assert hard.settings == replace(SETTINGS, decision="hard")
    assert model.configured("evidence", "soft") is model
    assert hard.configured("evidence", "soft").settings == SETTINGS
    fresh = model_of(model.cards, replace(SETTINGS, decision="hard"))
    assert answers(hard) == answers(fresh)
    assert answers(hard)["probabilities"] != answers(model)["probabilities"]


def test_configured_with_a_vote():
    model = model_of(cards_of(12))
    expected = answers(model_of(model.cards, replace(SETTINGS, identification="tree", decision="hard")))
    assert answers(model.configured("tree", "hard")) == expected


# Order and forgetting, with so few classes that all make the metric, and with so many that few do.

FEW, MANY = 40, SAMPLED_CLASSES + BLOCK_SIZE


@pytest.fixture(scope="module")
def crowds():
    """Cards and a model of them by the number of classes; three features, so that many classes are quick."""
    cards = {n: cards_of(n, n=6, dim=3) for n in (FEW, MANY)}
    return {n: (some, model_of(some)) for n, some in cards.items()}


CROWD_QUERIES = samples_of(60, n=2, dim=3, seed=1)[0].numpy()


def crowd_answers(model):
    return answers(model, CROWD_QUERIES)


def test_blocks_and_the_sample_come_into_play(crowds):
    cards, model = crowds[MANY]
    assert len(model.derived.metric.sample) == SAMPLED_CLASSES < MANY
    assert model.derived.metric.sample == tuple(by_content(cards).values())[:SAMPLED_CLASSES]
    assert len(model.derived._groups()) > 1
    assert len(crowds[FEW][1].derived.metric.sample) == FEW
    predicted = model.predictor.predict(CROWD_QUERIES)
    assert len(set(predicted.tolist())) > 40
    assert any(head.peek() is not None for head in model.predictor.heads)


@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("looked", [True, False])
def test_the_order_of_arrival_leaves_no_trace(crowds, n, looked):
    cards, whole = crowds[n]
    order = np.random.default_rng(looked).permutation(n)
    model = Model(SETTINGS)
    for task in np.array_split(order, 7):
        model = model.plus({int(label): cards[label] for label in task})
        if looked:
            model.predictor.predict(CROWD_QUERIES[:30])
    assert crowd_answers(model) == crowd_answers(whole)


@pytest.mark.parametrize("n", [FEW, MANY])
def test_a_forgotten_class_was_never_learnt(crowds, n):
    cards, whole = crowds[n]
    crowd_answers(whole)
    inside, outside = whole.derived.metric.sample[3], list(by_content(cards).values())[-1]
    for card in (inside, outside):
        (label,) = (k for k, one in cards.items() if one is card)
        never = model_of({k: one for k, one in cards.items() if k != label})
        assert crowd_answers(whole.without(label)) == crowd_answers(never)
        assert crowd_answers(never.plus({label: card})) == crowd_answers(whole)


@pytest.mark.parametrize("n", [FEW, 600, MANY])
def test_a_label_is_only_a_name(crowds, n):
    cards = {k: card for k, card in crowds[MANY][0].items() if k < n}
    expected = crowd_answers(model_of(cards))
    names = np.random.default_rng(n).permutation(n).tolist()
    renamed = model_of({names[label]: card for label, card in cards.items()})
    assert crowd_answers(renamed) == renamed_answers(expected, names)
    words = {label: f"class {names[label]:04d}" for label in cards}
    assert crowd_answers(model_of({words[k]: card for k, card in cards.items()})) == renamed_answers(expected, words)


@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("looked", [True, False])
def test_renaming_one_class_changes_nothing_else(crowds, n, looked):
    cards, whole = crowds[n]
    expected = crowd_answers(whole)
    model = whole if looked else model_of(cards)
    for old, new in ((0, n + 5), (n // 2, -1), (n - 1, n + 1)):
        name = {label: new if label == old else label for label in cards}
        assert crowd_answers(model.renamed(old, new)) == renamed_answers(expected, name)


@pytest.mark.parametrize("grouping", ["one", "random", "similar"])
def test_a_label_is_only_a_name_in_other_groupings_too(grouping):
    settings = replace(SETTINGS, grouping=grouping)
    cards = cards_of(12, settings)
    names = np.random.default_rng(0).permutation(12).tolist()
    expected = renamed_answers(answers(model_of(cards, settings)), names)
    found = answers(model_of({names[label]: card for label, card in cards.items()}, settings))
    for some in (expected, found):
        some["all groups"] = sorted(map(sorted, some["all groups"]))
    assert found == expected


# Handing over.


def newcomer_outside(model, inside=False):
    """A card that is, or is not, among those that make the metric once it has come."""
    limit = max(card.key for card in model.derived.metric.sample)
    for seed in range(100, 1000):
        card = cards_of(1, n=6, dim=3, seed=seed)[0]
        if (card.key < limit) == inside:
            return card
    raise AssertionError("no such card")


def test_a_newcomer_outside_the_sample_leaves_the_metric_alone(crowds):
    cards, model = crowds[MANY]
    crowd_answers(model)
    card = newcomer_outside(model)
    grown, scratch = model.plus({MANY: card}), model_of({**cards, MANY: card})
    assert grown.derived.metric is model.derived.metric
    assert scratch.derived.metric is not model.derived.metric
    assert crowd_answers(grown) == crowd_answers(scratch)
    gap = np.abs(
        np.exp(grown.predictor.predict_log_proba(CROWD_QUERIES))
        - np.exp(scratch.predictor.predict_log_proba(CROWD_QUERIES))
    )
    assert gap.max() == 0.0


def test_a_newcomer_in_the_sample_makes_another_metric(crowds):
    cards, model = crowds[MANY]
    crowd_answers(model)
    card = newcomer_outside(model, inside=True)
    grown = model.plus({MANY: card})
    assert grown.derived.metric is not model.derived.metric
    assert card in grown.derived.metric.sample
    assert len(grown.derived.metric.sample) == SAMPLED_CLASSES
    assert crowd_answers(grown) == crowd_answers(model_of({**cards, MANY: card}))


def test_more_samples_of_a_class_in_the_sample_make_another_metric(crowds):
    cards, model = crowds[MANY]
    crowd_answers(model)
    (label,) = (k for k, one in cards.items() if one is model.derived.metric.sample[0])
    more = cards_of(1, n=6, dim=3, seed=7)[0]
    grown = model.plus({label: more})
    assert grown.derived.metric is not model.derived.metric
    assert crowd_answers(grown) == crowd_answers(model_of({**cards, label: cards[label].merge(more, SETTINGS.rank)}))


def test_work_is_done_again_only_where_something_changed(crowds, monkeypatch):
    _, model = crowds[MANY]
    crowd_answers(model)
    solved, real = [], metric.shared_metric
    monkeypatch.setattr("gddsg.core.derived.shared_metric", lambda *of: solved.append("metric") or real(*of))
    grown = model.plus({MANY: newcomer_outside(model)})
    crowd_answers(grown)
    assert solved == []
    before, after = model.derived, grown.derived
    heads, known = dict(after._heads()), dict(before._heads())
    kept = [group for group in heads if group in known]
    assert all(heads[group] is known[group] for group in kept)
    assert len(kept) > 0.5 * len(known)
    assert all(
        after._discriminant().own[card.key] is before._discriminant().own[card.key] for card in model.cards.values()
    )
    same = [block for block in after._discriminant().means if block in before._discriminant().means]
    assert len(same) == len(before._discriminant().means) - 1
    assert all(after._discriminant().means[block] is before._discriminant().means[block] for block in same)


def test_a_negative_feature_counts_also_in_a_class_that_the_metric_is_not_made_of():
    X, y = samples_of(MANY, n=6, dim=3)
    model = Model(SETTINGS).plus(Model(SETTINGS).make_cards(X.square(), y))
    outside = next(label for label, card in model.cards.items() if card not in model.derived.metric.sample)
    signed = Model(SETTINGS).make_cards(torch.tensor([[-1.0, 2.0, 3.0], [1.0, 2.5, 3.0]]), [outside] * 2)
    grown = model.plus(signed)
    assert (model.derived.metric.view, grown.derived.metric.view) == ("root", "raw")
    assert crowd_answers(grown) == crowd_answers(model_of(grown.cards))
    assert crowd_answers(grown.without(outside)) == crowd_answers(model.without(outside))


def test_nobody_has_to_look_at_the_models_in_between(crowds):
    """A model that was never asked hands over what it was given itself."""
    _, model = crowds[MANY]
    crowd_answers(model)
    card = newcomer_outside(model)
    later = model.plus({MANY: card}).plus({MANY + 1: card}).plus({MANY + 2: card})
    assert later.derived.metric is model.derived.metric


def test_a_renamed_model_takes_over_everything_but_names(crowds):
    _, model = crowds[FEW]
    crowd_answers(model)
    renamed, key = model.renamed(3, 500), model.cards[3].key
    assert renamed.derived.metric is model.derived.metric
    assert renamed.derived._discriminant().own[key] is model.derived._discriminant().own[key]
    heads = dict(renamed.derived._heads())
    assert all(heads[group] is head for group, head in model.derived._heads())


def test_a_forgotten_class_is_nowhere_in_what_follows():
    model = model_of(cards_of(12))
    answers(model)
    successor = model.without(4)
    answers(successor)
    card = weakref.ref(model.cards[4])
    del model
    gc.collect()
    assert card() is None
    assert len(successor.labels) == 11


def test_predecessors_are_let_go_of():
    model = model_of(cards_of(12))
    gone = []
    for label in range(50, 80):
        answers(model)
        gone.append(weakref.ref(model.derived))
        model = model.plus({label: cards_of(1, seed=label)[0]})
    answers(model)
    gc.collect()
    assert [derived() for derived in gone] == [None] * 30


# Settings.


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, "nonsense") for name in ("grouping", "identification", "decision", "feature_transform", "distance")]
    + [(name, value) for name in ("projection_dim", "rank", "seed") for value in (-1, 2.5, "64", None, True, 2**40)]
    + [("backbone", 3), ("rank", 0), ("decision", ["soft"])],
)
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(InputError, match=name):
        replace(SETTINGS, **{name: value}).check()


def test_settings_that_make_sense_are_not():
    SETTINGS.check()
    Settings(seed=2**32 - 1, backbone="a@1", grouping="task", identification="vote", decision="ungated").check()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (None, None, True),
        ("mine", "mine", True),
        ("mine", None, False),
        ("hf:/a@0123456789abcdef", "hf:/b@0123456789abcdef", True),
        ("hf:/a@0123456789abcdef", "hf:/a@0123456789abcdee", False),
        ("mine@224", "yours@224", False),  # that is no fingerprint
    ],
)
def test_backbones_are_told_apart_by_their_fingerprints(first, second, same):
    assert same_backbone(first, second) == same


@pytest.mark.parametrize("ask", [lambda model: model.predictor, lambda model: model.graph], ids=["predictor", "graph"])
def test_a_model_without_classes_says_so(ask):
    """The studio lets people forget the last class; the file is then still a model."""
    model = Model(Settings(projection_dim=8))
    with pytest.raises(InputError, match="learnt no class yet"):
        ask(model.plus(model.make_cards(torch.eye(4), ["cat"] * 4)).without("cat"))


def test_cards_do_not_show_how_many_threads_made_them():
    rng = np.random.default_rng(0)
    features = torch.from_numpy(np.abs(rng.normal(size=(90, 50))).astype(np.float32))
    labels = [f"c{i % 10}" for i in range(90)]
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        cards = Model(Settings(projection_dim=50)).make_cards(features, labels)
        merged = Model(Settings(projection_dim=50)).plus(cards).plus(cards).cards
        found.append([card.to_bytes() for some in (cards, merged) for card in some.values()])
        assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    assert found[0] == found[1] == found[2]
