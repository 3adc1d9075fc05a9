"""A predictor comes back from its bytes with the same answers, and bytes that are none are clear errors."""

import numpy as np
import pytest
import torch

from gddsg.core import kept_predictor
from gddsg.core.card_format import pack, unpack
from gddsg.core.kept_predictor import pack_predictor, unpack_predictor
from gddsg.core.model import Model, Settings
from gddsg.errors import InputError

WIDTH, SEED = 24, 3


def learnt(n_classes=7, n=30, dim=6, signed=False, **settings):
    """A model of classes that overlap, and fresh samples of them."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(1, 6, (n_classes, dim)).repeat(n, 0)
    known, fresh = (centres + rng.normal(0, 1.5, centres.shape) - 4 * signed for _ in range(2))
    known, fresh = (part if signed else np.abs(part) for part in (known, fresh))
    model = Model(Settings(projection_dim=WIDTH, rank=4, seed=SEED, **settings))
    labels = [f"class {i}" for i in np.arange(n_classes).repeat(n)]
    return model.plus(model.make_cards(torch.from_numpy(known).float(), labels)), fresh.astype(np.float32)


def factor_of(model):
    def factor(view, place):
        card = model.cards[model.labels[place]]
        return (card.root if view == "root" else card.raw).factor

    return factor


def unpacked(data, model):
    return unpack_predictor(data, np.array(model.labels), factor_of(model), WIDTH, SEED)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("decision", ["soft", "hard", "ungated", "evidence"])
def test_it_answers_like_the_model(decision, signed):
    model, fresh = learnt(decision=decision, signed=signed)
    own, kept = model.predictor, unpacked(pack_predictor(model.predictor), model)
    np.testing.assert_array_equal(kept.predict_log_proba(fresh), own.predict_log_proba(fresh))
    assert kept.predict(fresh, reject=0.9).tolist() == own.predict(fresh, reject=0.9).tolist()
    assert kept.predict_group(fresh).tolist() == own.predict_group(fresh).tolist()
    np.testing.assert_array_equal(kept.measure_novelty(fresh), own.measure_novelty(fresh))
    assert kept.novelty_limit(0.95) == own.novelty_limit(0.95)


def test_classes_of_one_sample_and_a_single_class():
    for n_classes, n in ((1, 1), (3, 1), (1, 9)):
        model, fresh = learnt(n_classes, n)
        kept = unpacked(pack_predictor(model.predictor), model)
        assert kept.predict(fresh).tolist() == model.predictor.predict(fresh).tolist()


def test_what_another_version_derived_is_dropped(monkeypatch):
    model, _ = learnt()
    data = pack_predictor(model.predictor)
    monkeypatch.setattr(kept_predictor, "DERIVATION", kept_predictor.DERIVATION + 1)
    assert unpacked(data, model) is None


def test_a_vote_is_not_kept():
    model, _ = learnt(identification="tree")
    with pytest.raises(InputError, match="vote"):
        pack_predictor(model.predictor)


FORGERIES = {
    "an array is missing": lambda scalars, arrays: arrays.pop("heads"),
    "a scalar is missing": lambda scalars, arrays: scalars.pop("reach"),
    "a mean is no number": lambda scalars, arrays: arrays["means"].__setitem__((0, 0), np.nan),
    "a weight is negative": lambda scalars, arrays: arrays["own_weights"].__setitem__(0, -1.0),
    "a triangle is cut": lambda scalars, arrays: arrays.update(whitener=arrays["whitener"][:-1]),
    "a class is named twice": lambda scalars, arrays: arrays["members"].__setitem__(0, arrays["members"][1]),
    "groups do not add up": lambda scalars, arrays: arrays["group_sizes"].__setitem__(0, 2**40),
    "a column is beyond the last": lambda scalars, arrays: arrays["columns"].__setitem__(0, 99),
    "heads are of another width": lambda scalars, arrays: arrays.update(heads=arrays["heads"][:-1]),
    "there are no novelties": lambda scalars, arrays: arrays.update({"novelty.known": np.empty(0)}),
    "the view is unheard of": lambda scalars, arrays: scalars.update(view="upside down"),
    "the mode is a list": lambda scalars, arrays: scalars.update(mode=[]),
    "the temperature is zero": lambda scalars, arrays: scalars.update(temperature=0.0),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_bytes_are_refused(forge):
    model, _ = learnt()
    scalars, arrays = unpack(pack_predictor(model.predictor))
    arrays = {name: array.copy() for name, array in arrays.items()}
    forge(scalars, arrays)
    with pytest.raises(InputError, match="kept for predictions is damaged"):
        unpacked(pack(scalars, arrays), model)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\xff" * 99])
def test_other_bytes_are_refused(data):
    model, _ = learnt()
    with pytest.raises(InputError, match="kept for predictions is damaged"):
        unpacked(data, model)
