"""Models come back from their files bit for bit, files of the first version open, and bad ones are clear errors."""

import hashlib
import json
import math
import sqlite3
import struct
from contextlib import closing
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from gddsg.core.card_format import pack, unpack
from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.model import Model, Settings
from gddsg.core.moments import Moments
from gddsg.core.projection import project
from gddsg.core.transform import signed_root, unit
from gddsg.errors import InputError, ModelFileError
from gddsg.store import read_model, write_model
from gddsg.store.row_names import PREDICTOR
from gddsg.store.rows_file import FORMAT_VERSION, read_rows, write_rows

SETTINGS = Settings(projection_dim=24, rank=8)


def samples(n_classes=6, n=40, dim=5, signed=False, seed=0):
    """Features, int labels and fresh features of classes that overlap a little."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(1, 9, (n_classes, dim)).repeat(n, 0)
    X, fresh = (centres + rng.normal(0, 1, centres.shape) - 5 * signed for _ in range(2))
    X, fresh = (part if signed else np.abs(part) for part in (X, fresh))
    return torch.from_numpy(X.astype(np.float32)), np.arange(n_classes).repeat(n).tolist(), fresh.astype(np.float32)


def learnt(settings=SETTINGS, names=None, ids=None, **how):
    X, y, _ = samples(**how)
    model = Model(settings)
    labels = y if names is None else [names[label] for label in y]
    return model.plus(model.make_cards(X, labels, ids))


def answers(model, fresh):
    predictor = model.predictor
    return predictor.predict_log_proba(fresh).tobytes(), predictor.measure_novelty(fresh).tobytes(), model.groups


# Round trip.

NAMES = {
    "numbers": [0, -1, 2**40, -(2**62), 10**6, 7],
    "words": ["", "int:5", "a:b:c", "two\nlines", "naïve 日本 🐦", "str:x"],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("signed", [False, True])
def test_a_model_comes_back_bit_for_bit(tmp_path, names, signed):
    settings = Settings(24, 8, "similar", "tree", "hard", "auto", "euclidean", "net@1", 3)
    ids = np.arange(240, dtype=np.uint64) + np.uint64(2**63)
    model = learnt(settings, names, ids, signed=signed)
    write_model(tmp_path / "m", model)
    back = read_model(tmp_path / "m")
    assert back.settings == settings
    assert back.labels == model.labels == tuple(sorted(names))
    assert dict(back.cards) == dict(model.cards)
    assert back.label_samples() == model.label_samples()
    fresh = samples(signed=signed)[2]
    assert answers(back, fresh) == answers(model, fresh)
    write_model(tmp_path / "again", back)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("grouping", ["arrival", "task"])
def test_groups_of_arrival_come_back(tmp_path, grouping):
    cards = learnt().cards
    model = Model(replace(SETTINGS, grouping=grouping))
    for label in (4, 0, 5, 2, 1, 3):
        model = model.plus({label: cards[label]})
    write_model(tmp_path / "m", model)
    back = read_model(tmp_path / "m")
    assert back.arrival_groups == model.arrival_groups != ()
    assert back.groups == model.groups


def test_plain_features_come_back(tmp_path):
    model = learnt(replace(SETTINGS, feature_transform="none"))
    write_model(tmp_path / "m", model)
    assert dict(read_model(tmp_path / "m").cards) == dict(model.cards)


def test_an_empty_model_comes_back(tmp_path):
    write_model(tmp_path / "m", Model(SETTINGS))
    back = read_model(tmp_path / "m")
    assert (back.settings, back.labels, back.feature_dim) == (SETTINGS, (), None)


def test_the_order_of_arrival_leaves_no_trace_in_the_file(tmp_path):
    cards = learnt().cards
    for name, order in (("forwards", range(6)), ("backwards", range(5, -1, -1))):
        model = Model(SETTINGS)
        for label in order:
            model = model.plus({label: cards[label]})
        write_model(tmp_path / name, model)
    assert (tmp_path / "forwards").read_bytes() == (tmp_path / "backwards").read_bytes()


def test_the_file_says_what_it_always_said(tmp_path):
    write_model(tmp_path / "m", learnt(names=list("abcdef")))
    header, cards = read_rows(tmp_path / "m")
    assert header == {"model": "GDDSG", "parameters": asdict(SETTINGS), "n_features": 5, "arrival_groups": []}
    assert list(cards) == ["gddsg:predictor", *(f"str:{letter}" for letter in "abcdef")]
    with closing(sqlite3.connect(tmp_path / "m")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,) == (4,)


# Files of format version 1, with the bytes as they were written then.


def first_card(features, settings):
    """The bytes of a card of format 1: a JSON index, float32 factors, float64 sums."""
    held_out = is_held_out(hash_rows(features))
    if int(held_out.sum()) < 4:
        held_out[:] = False
    plain, rank = settings.feature_transform == "none", settings.rank
    projected = project(features if plain else signed_root(features), settings.projection_dim, settings.seed)
    moments = {
        "raw": Moments.of(features, rank),
        "projected": Moments.of(projected[~held_out], max(rank // 4, 1)),
        "held_out": Moments.of(projected[held_out], max(rank // 8, 1)),
    }
    if not plain:
        moments["root"] = Moments.of(signed_root(features), rank)
    scalars = {
        "count": len(features),
        "square_sum": float(features.double().square().sum()),
        "signed": bool((features < 0).any()),
    }
    arrays = {
        "feature_sum": features.double().sum(0).numpy(),
        "unit_sum": unit(features.double()).sum(0).numpy(),
        "sample_ids": np.arange(len(features), dtype=np.uint64) + np.uint64(hash_rows(features)[0]) // np.uint64(2),
    }
    for name, part in moments.items():
        scalars |= {f"{name}.count": part.count, f"{name}.residual": part.residual}
        arrays |= {f"{name}.total": part.total.numpy(), f"{name}.factor": part.factor.numpy()}
    index = {"scalars": scalars, "arrays": {k: [str(v.dtype), list(v.shape)] for k, v in arrays.items()}}
    head = json.dumps(index, sort_keys=True).encode()
    return struct.pack("<I", len(head)) + head + b"".join(arrays[name].tobytes() for name in sorted(arrays))


def write_first_version(path, header, cards):
    """An SQLite file as version 1 laid it out, digests and all."""

    def framed(text):
        return len(text.encode()).to_bytes(8, "big") + text.encode()

    rows = {key: json.dumps(header[key], sort_keys=True) for key in sorted(header)}
    digests = {name: hashlib.sha256(framed(name) + cards[name]).digest() for name in sorted(cards)}
    whole = hashlib.sha256(f"gddsg model 1 {len(rows)} ".encode())
    for key, value in rows.items():
        whole.update(framed(key) + framed(value))
    for digest in digests.values():
        whole.update(digest)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA application_id = {0x67647367}")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("CREATE TABLE header(key TEXT PRIMARY KEY, value TEXT)")
        connection.execute("CREATE TABLE cards(name TEXT PRIMARY KEY, body BLOB, digest BLOB)")
        for name in sorted(cards):
            connection.execute("INSERT INTO cards VALUES (?, ?, ?)", (name, cards[name], digests[name]))
        connection.executemany("INSERT INTO header VALUES (?, ?)", (rows | {"gddsg:digest": whole.hexdigest()}).items())
        connection.execute("COMMIT")


def first_version(path, settings, n_features=5, arrival_groups=(), **how):
    X, y, _ = samples(**how)
    cards = {f"int:{c}": first_card(X[torch.tensor(y) == c], settings) for c in range(6)}
    header = {"model": "GDDSG", "parameters": asdict(settings), "n_features": n_features}
    write_first_version(path, header | {"arrival_groups": [list(group) for group in arrival_groups]}, cards)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("transform", ["auto", "none"])
@pytest.mark.parametrize("rank", [8, 64])
def test_a_file_of_version_1_opens_and_predicts_like_a_fresh_model(tmp_path, signed, transform, rank):
    settings = Settings(projection_dim=24, rank=rank, feature_transform=transform)
    first_version(tmp_path / "old", settings, signed=signed)
    old, fresh_model = read_model(tmp_path / "old"), learnt(settings, signed=signed)
    assert (old.settings, old.labels, old.feature_dim) == (settings, fresh_model.labels, 5)
    assert [card.count for card in old.cards.values()] == [40] * 6
    assert len(old.label_samples()) == 240
    assert old.derived.metric.view == fresh_model.derived.metric.view
    fresh = samples(signed=signed)[2]
    ours, theirs = (np.exp(model.predictor.predict_log_proba(fresh)) for model in (old, fresh_model))
    assert np.abs(ours - theirs).max() < 0.05
    assert np.abs(ours - theirs).mean() < 0.003
    assert (ours.argmax(1) == theirs.argmax(1)).mean() > 0.98
    assert (theirs.argmax(1) == np.arange(6).repeat(40)).mean() > 0.8
    np.testing.assert_allclose(
        old.predictor.measure_novelty(fresh), fresh_model.predictor.measure_novelty(fresh), atol=0.1
    )


def test_a_file_of_version_1_is_written_as_the_latest_and_stays_what_it_is(tmp_path):
    first_version(tmp_path / "old", SETTINGS)
    model = read_model(tmp_path / "old")
    write_model(tmp_path / "new", model)
    cards = [
        {name: row for name, row in read_rows(tmp_path / file)[1].items() if name != PREDICTOR}
        for file in ("new", "old")
    ]
    assert sum(map(len, cards[0].values())) < 0.8 * sum(map(len, cards[1].values()))
    fresh = samples()[2]
    assert answers(read_model(tmp_path / "new"), fresh) == answers(model, fresh)
    grown = model.plus(model.make_cards(samples(seed=3)[0][:40], [0] * 40))
    assert grown.cards[0].count == 80
    assert grown.merged(learnt(seed=4)).cards[1].count == 80


def test_a_file_of_version_1_keeps_its_groups_of_arrival(tmp_path):
    groups = ((4, 1), (0, 2, 3), (5,))
    first_version(tmp_path / "old", replace(SETTINGS, grouping="arrival"), arrival_groups=groups)
    assert read_model(tmp_path / "old").groups == groups


def test_a_file_of_version_1_that_was_changed_is_refused(tmp_path):
    first_version(tmp_path / "old", SETTINGS)
    with closing(sqlite3.connect(tmp_path / "old", isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 2")
    assert_unreadable(tmp_path / "old", "checksum mismatch")


# Bad files.


def assert_unreadable(path, message):
    with pytest.raises(ModelFileError, match=message) as caught:
        read_model(path)
    assert path.name in str(caught.value)
    assert len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Header and cards of a sound file."""
    path = tmp_path_factory.mktemp("rows") / "m"
    write_model(path, learnt())
    return read_rows(path)


@pytest.mark.parametrize("size", [0, 1, 50, 5000, -5000, -1])
def test_a_truncated_file_is_refused(tmp_path, size):
    write_model(tmp_path / "m", learnt())
    (tmp_path / "cut").write_bytes((tmp_path / "m").read_bytes()[:size])
    assert_unreadable(tmp_path / "cut", "damaged")


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("no model at all\n" * 100)
    (tmp_path / "folder").mkdir()
    assert_unreadable(tmp_path / "text", "some other kind of file")
    assert_unreadable(tmp_path / "folder", "a folder")
    assert_unreadable(tmp_path / "missing", "no such file")


@pytest.mark.parametrize("name", ["model", "parameters", "n_features", "arrival_groups"])
@pytest.mark.parametrize(
    "value", [None, 3, -1.5, True, "nonsense", "", [], [1, 2], [[1], 2], [["x"]], {}, {"a": 1}, [[[]]]], ids=repr
)
def test_a_header_entry_of_another_kind_is_refused(tmp_path, rows, name, value):
    header, cards = rows
    if (name, value) == ("arrival_groups", []):
        pytest.skip("that is what it holds")
    write_rows(tmp_path / "m", header | {name: value}, cards)
    assert "not a GDDSG model this version can read" in assert_unreadable(tmp_path / "m", "GDDSG")


@pytest.mark.parametrize("name", ["model", "parameters", "n_features", "arrival_groups"])
def test_a_missing_header_entry_is_named(tmp_path, rows, name):
    header, cards = rows
    write_rows(tmp_path / "m", {k: v for k, v in header.items() if k != name}, cards)
    assert_unreadable(tmp_path / "m", name)


@pytest.mark.parametrize("name", asdict(SETTINGS))
@pytest.mark.parametrize(
    "value", [-1, 2.5, True, "nonsense", [], {}, ["soft"], {"a": 1}, 10**30, math.inf, math.nan], ids=repr
)
def test_a_setting_of_another_kind_is_refused(tmp_path, rows, name, value):
    header, cards = rows
    if (name, value) == ("backbone", "nonsense"):
        pytest.skip("a backbone may be called anything")
    write_rows(tmp_path / "m", header | {"parameters": header["parameters"] | {name: value}}, cards)
    assert_unreadable(tmp_path / "m", name)


def test_a_setting_too_many_is_refused(tmp_path, rows):
    header, cards = rows
    write_rows(tmp_path / "m", header | {"parameters": header["parameters"] | {"zeal": 1}}, cards)
    assert_unreadable(tmp_path / "m", "zeal")


def test_a_model_of_another_learner_is_refused(tmp_path, rows):
    header, cards = rows
    write_rows(tmp_path / "m", header | {"model": "RanPAC"}, cards)
    assert_unreadable(tmp_path / "m", "holds a RanPAC model")


@pytest.mark.parametrize("body", [b"", b"\x02\0\0\0{}", b"\xff" * 50, b"\x04\0\0\0null", b"\x02\0\0\0[]"], ids=repr)
def test_a_card_that_is_none_is_refused(tmp_path, rows, body):
    header, cards = rows
    for bad in (body, cards["int:0"] + body + b"x", cards["int:0"][: -1 - len(body)]):
        write_rows(tmp_path / "m", header, cards | {"int:0": bad})
        assert_unreadable(tmp_path / "m", "not a class card")


@pytest.mark.parametrize("name", ["int:", "int:x", "int:1.5", "float:1", "nonsense", "", "str:a"])
def test_a_card_of_another_name_is_refused(tmp_path, rows, name):
    header, cards = rows
    write_rows(tmp_path / "m", header, cards | {name: cards["int:0"]})
    assert_unreadable(tmp_path / "m", "GDDSG model")


@pytest.mark.parametrize("how", [{"dim": 4}, {"settings": replace(SETTINGS, projection_dim=23)}], ids=str)
def test_cards_that_do_not_go_together_are_refused(tmp_path, rows, how):
    header, cards = rows
    write_rows(tmp_path / "m", header, cards | {"int:0": learnt(**how).cards[0].to_bytes()})
    assert_unreadable(tmp_path / "m", "do not go together")


@pytest.mark.parametrize(
    "groups",
    [[[0, 1, 2, 3, 4]], [[0, 1, 2], [2, 3, 4, 5]], [[0, 1, 2, 3, 4, 5, 6]], [[]], [], [["0", 1, 2, 3, 4, 5]]],
    ids=["one missing", "one twice", "one too many", "empty", "none", "a word"],
)
@pytest.mark.parametrize("grouping", ["arrival", "task"])
def test_groups_that_are_not_those_of_the_cards_are_refused(tmp_path, rows, groups, grouping):
    header, cards = rows
    header = header | {"parameters": header["parameters"] | {"grouping": grouping}, "arrival_groups": groups}
    write_rows(tmp_path / "m", header, cards)
    assert_unreadable(tmp_path / "m", "groups")


def test_an_unwritable_place_is_a_clear_error(tmp_path):
    with pytest.raises(ModelFileError, match="create the folder"):
        write_model(tmp_path / "missing" / "m", learnt())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="not valid Unicode"):
        write_model(tmp_path / "m", learnt(names=["a", "b", "c", "d", "e", "\ud800"]))


@pytest.mark.parametrize(("widths", "asked"), [((1000, 10**6), "11.2"), ((20_000, 24), "23.8")])
def test_a_model_that_would_fill_the_memory_is_refused_before_anything_is_allocated(tmp_path, rows, widths, asked):
    header, cards = rows
    scalars, arrays = unpack(cards["int:0"])
    card = pack(scalars, {key: resized(key, array, widths) for key, array in arrays.items()})
    settings = header["parameters"] | {"projection_dim": widths[1]}
    write_rows(tmp_path / "m", header | {"n_features": widths[0], "parameters": settings}, {"int:0": card})
    assert_unreadable(tmp_path / "m", f"take {asked} GiB to predict")


def resized(key, array, widths):
    part, _, what = key.partition(".")
    width = widths[1] if part in ("projected", "held_out") else widths[0]
    if what in ("", "total") and part != "sample_ids":
        return np.zeros(width, array.dtype)
    return array[:0] if what == "scales" else np.zeros((0, width), array.dtype) if what == "codes" else array


def test_a_model_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    model = learnt()
    monkeypatch.setattr("gddsg.core.memory_limit.LARGEST_PREDICTOR", 1000)
    with pytest.raises(InputError, match="GiB to predict"):
        write_model(tmp_path / "m", model)
    assert not list(tmp_path.iterdir())


def test_a_model_that_would_fill_the_memory_is_not_even_learnt():
    model = Model(Settings(projection_dim=10**9))
    with pytest.raises(InputError, match=r"4 features and a projection of 1000000000 take 44.7 GiB"):
        model.make_cards(torch.eye(4), list("aabb"))


@pytest.mark.parametrize("name", ["int:1_0", "int: 3", "int:٣", "int:-0", f"int:{2**63}"])
def test_a_name_that_is_not_written_as_names_are_is_refused(tmp_path, rows, name):
    """Else two rows of a forged file could be one class, and one of them would be lost without a word."""
    header, cards = rows
    cards = {key: body for key, body in cards.items() if key != "int:0"}
    write_rows(tmp_path / "m", header, cards | {name: rows[1]["int:0"]})
    assert_unreadable(tmp_path / "m", "not that of a card|expected a whole number from")


def test_a_sample_in_two_classes_is_refused(tmp_path):
    model = Model(SETTINGS)
    cards = model.make_cards(samples()[0][:20], [0] * 20, np.arange(20, dtype=np.uint64))
    write_model(tmp_path / "m", model.plus(cards))
    header, rows = read_rows(tmp_path / "m")
    write_rows(tmp_path / "m", header, rows | {"int:1": rows["int:0"]})
    assert_unreadable(tmp_path / "m", "a sample is in two of its classes")


@pytest.mark.parametrize("label", ["a\0", "x" * 1001, 2**63, -(2**63) - 1], ids=["NUL", "long", "large", "small"])
def test_a_label_that_no_file_could_keep_is_refused_when_it_is_learnt(label):
    model = learnt(names=list("abcdef")) if isinstance(label, str) else learnt()
    card = next(iter(model.cards.values()))
    for learn in (lambda: model.plus({label: card}), lambda: model.renamed(model.labels[0], label)):
        with pytest.raises(InputError, match="Rename the class"):
            learn()
