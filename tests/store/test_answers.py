"""What a file keeps for predictions answers like the model, without torch, and never outlives the cards it is of."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from gddsg.core import kept_predictor
from gddsg.core.card_format import pack, unpack
from gddsg.core.model import Model, Settings
from gddsg.errors import ModelFileError
from gddsg.store import SharedModel, read_model, write_model
from gddsg.store.answers import Answers, read_answers
from gddsg.store.row_names import PREDICTOR
from gddsg.store.rows_file import read_rows, write_rows

SETTINGS = Settings(projection_dim=16, rank=4, backbone="net@1")


def samples(n_classes=5, n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.uniform(1, 6, (n_classes, 4)).repeat(n, 0) + rng.normal(0, 1, (n_classes * n, 4)))
    return X.astype(np.float32), [f"class {i}" for i in np.arange(n_classes).repeat(n)]


def learnt(settings=SETTINGS, **how):
    X, y = samples(**how)
    model = Model(settings)
    return model.plus(model.make_cards(torch.from_numpy(X), y, np.arange(len(y), dtype=np.uint64)))


@pytest.fixture
def path(tmp_path):
    write_model(tmp_path / "m.gddsg", learnt())
    return tmp_path / "m.gddsg"


def test_a_file_answers_like_the_model_in_it(path):
    answers, model, (X, _) = read_answers(path), read_model(path), samples(seed=1)
    assert (answers.backbone, answers.feature_dim) == ("net@1", 4)
    assert answers.predictor.predict(X).tolist() == model.predictor.predict(X).tolist()
    found, expected = (predictor.predict_log_proba(X) for predictor in (answers.predictor, model.predictor))
    np.testing.assert_array_equal(found, expected)
    assert answers.label_samples() == model.label_samples()


def test_answers_from_a_file_need_no_torch(path):
    program = f"""
import sys
import numpy as np
from gddsg.store import SharedModel
answers = SharedModel({str(path)!r}).answering()
answers.predictor.predict_log_proba(np.ones((1, 4), dtype=np.float32))
answers.predictor.measure_novelty(np.ones((1, 4), dtype=np.float32))
print({{"torch", "sklearn", "scipy"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_cards_that_change_change_the_answers(path):
    shared = SharedModel(path)
    before = shared.answering()
    assert isinstance(before, Answers)
    assert shared.answering() is before  # read once
    SharedModel(path).change(lambda model: model.without("class 0"))
    after = shared.answering()
    assert after.predictor.labels.tolist() == ["class 1", "class 2", "class 3", "class 4"]
    expected = learnt().without("class 0").predictor.predict_log_proba(samples()[0])
    np.testing.assert_array_equal(after.predictor.predict_log_proba(samples()[0]), expected)


def test_a_model_that_has_been_read_answers_itself(path):
    shared = SharedModel(path)
    model = shared.read()
    assert shared.answering() is model


def test_where_nothing_is_kept_the_model_answers(tmp_path, monkeypatch):
    assert SharedModel(tmp_path / "none.gddsg").answering() is None
    votes = learnt(Settings(projection_dim=16, rank=4, identification="tree"))
    write_model(tmp_path / "votes.gddsg", votes)
    assert read_answers(tmp_path / "votes.gddsg") is None
    assert isinstance(SharedModel(tmp_path / "votes.gddsg").answering(), Model)
    write_model(tmp_path / "m.gddsg", learnt())
    monkeypatch.setattr(kept_predictor, "DERIVATION", kept_predictor.DERIVATION + 1)  # a later version looks at it
    assert isinstance(SharedModel(tmp_path / "m.gddsg").answering(), Model)


def test_damage_anywhere_is_found_before_an_answer(path):
    rows = read_rows(path)[1]
    assert PREDICTOR in rows
    content, body = bytearray(path.read_bytes()), rows["str:class 3"]
    content[content.index(body[-64:]) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        read_answers(path)


FORGERIES = {
    "no card is left": lambda header, rows: {PREDICTOR: rows[PREDICTOR]},
    "one card is gone": lambda header, rows: {name: row for name, row in rows.items() if name != "str:class 0"},
    "it is a card": lambda header, rows: rows | {PREDICTOR: rows["str:class 0"]},
    "it is empty": lambda header, rows: rows | {PREDICTOR: b""},
    "the width is another": lambda header, rows: header["parameters"].update(projection_dim=17) or rows,
    "the seed is a word": lambda header, rows: header["parameters"].update(seed="x") or rows,
    "the backbone is a number": lambda header, rows: header["parameters"].update(backbone=7) or rows,
    "there are no parameters": lambda header, rows: header.pop("parameters") and rows,
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_files_are_refused(path, forge):
    header, rows = read_rows(path)
    write_rows(path, header, forge(header, dict(rows)))
    with pytest.raises(ModelFileError, match="not a GDDSG model this version can read"):
        read_answers(path)


def test_a_forged_card_is_refused_when_it_is_asked(path):
    header, rows = read_rows(path)
    write_rows(path, header, rows | {"str:class 0": b"no card", "str:class 1": rows["str:class 1"][:-1]})
    answers = read_answers(path)
    with pytest.raises(ModelFileError, match="damaged"):
        answers.predictor.predict_log_proba(np.concatenate([samples()[0], samples(seed=5)[0]]))


def test_a_file_that_asks_for_too_much_memory_is_refused(path, monkeypatch):
    monkeypatch.setattr("gddsg.core.memory_limit.LARGEST_PREDICTOR", 1000)
    with pytest.raises(ModelFileError, match="a model may take up to"):
        read_answers(path)


def test_what_could_not_be_read_again_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("gddsg.store.model_file.pack_predictor", lambda predictor: b"nonsense")
    write_model(tmp_path / "m.gddsg", learnt())
    assert PREDICTOR not in read_rows(tmp_path / "m.gddsg")[1]
    assert isinstance(SharedModel(tmp_path / "m.gddsg").answering(), Model)


def test_a_file_with_near_copies_answers_like_the_model_in_it(tmp_path):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(20, 200)) + 1).repeat(4, 0).astype(np.float32)
    y = [f"class {i}" for i in np.arange(4).repeat(20)]
    model = Model(SETTINGS)
    grown = model.plus(model.make_cards(torch.from_numpy(X), y, np.arange(len(y), dtype=np.uint64)))
    assert [card.distinct for card in grown.cards.values()] == [5] * 4
    write_model(tmp_path / "m", grown)
    answers, read, tests = (
        read_answers(tmp_path / "m"),
        read_model(tmp_path / "m"),
        np.abs(X + rng.normal(size=X.shape)),
    )
    found = [one.predictor.predict_log_proba(tests.astype(np.float32)) for one in (answers, read, grown)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[1], found[2])
    kept, derived = answers.label_sketches(), grown.label_sketches()
    assert kept.keys() == derived.keys()
    assert all(np.array_equal(kept[label], derived[label]) for label in kept)


@pytest.mark.parametrize(
    "forge",
    [
        lambda scalars, arrays: scalars.update({"raw.count": "many"}),
        lambda scalars, arrays: scalars.update({"raw.count": 0}),
        lambda scalars, arrays: arrays.update(sketches=np.zeros(4, dtype=np.uint64)),
        lambda scalars, arrays: arrays.update(sketches=np.zeros((1, 2))),
        lambda scalars, arrays: arrays.update(sketches=np.zeros((999, 2), dtype=np.uint64)),
    ],
)
def test_forged_sketches_are_refused_when_they_are_asked(path, forge):
    header, rows = read_rows(path)
    for name in rows.keys() - {PREDICTOR}:
        scalars, arrays = unpack(rows[name])
        forge(scalars, arrays)
        rows[name] = pack(scalars, arrays)
    write_rows(path, header, rows)
    answers = read_answers(path)
    with pytest.raises(ModelFileError, match="damaged"):
        answers.label_sketches()
    with pytest.raises(ModelFileError, match="damaged"):
        answers.predictor.predict_log_proba(np.concatenate([samples()[0], samples(seed=5)[0]]))
