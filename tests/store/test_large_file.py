"""Models of very many classes: cards stay in the file, which is changed in place; answers are those of other models."""

import copy
import gc
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from gddsg import files
from gddsg.core import class_block, derived
from gddsg.core.filed_card import FiledCard, Glance
from gddsg.core.large_predictor import LargePredictor
from gddsg.core.model import Model, Settings
from gddsg.errors import InputError, ModelFileError
from gddsg.export import export_onnx
from gddsg.store import SharedModel, large_file, read_model
from gddsg.store.answers import read_answers
from gddsg.store.rows_file import LARGE_VERSION, file_version, read_rows

DIM, SAMPLES, SETTINGS = 16, 6, Settings(projection_dim=0, rank=8)


@pytest.fixture(autouse=True)
def _large_from_thirty(monkeypatch):
    monkeypatch.setattr(derived, "LARGE_CLASSES", 30)


def samples_of(*places):
    rows = []
    for place in places:
        rng = np.random.default_rng(place)
        rows.append(np.abs(rng.normal(size=DIM) * 3 + rng.normal(size=(SAMPLES, DIM))))
    return np.concatenate(rows).astype(np.float32)


def cards_of(*places, sample_ids=False):
    labels = [f"class {place:03d}" for place in places for _ in range(SAMPLES)]
    ids = np.array([1000 * p + i for p in places for i in range(SAMPLES)], dtype=np.uint64) if sample_ids else None
    return Model(SETTINGS).make_cards(torch.from_numpy(samples_of(*places)), labels, ids)


def teach(path, *places, **options):
    """What a command does: learn some classes on top of what is in the file."""
    SharedModel(path).change(lambda model: (model or Model(SETTINGS)).plus(cards_of(*places, **options)))


@pytest.fixture
def path(tmp_path):
    teach(tmp_path / "m.gddsg", *range(40))
    return tmp_path / "m.gddsg"


def in_memory(*places):
    return Model(SETTINGS).plus(cards_of(*places))


def answers(model, *places):
    return model.predictor.predict_log_proba(samples_of(*places))


# What is in the file.


def test_cards_are_read_when_somebody_asks_for_them(path, monkeypatch):
    asked = []
    read = large_file.LargeFile.read
    monkeypatch.setattr(
        large_file.LargeFile, "read", lambda self, name, digest: asked.append(name) or read(self, name, digest)
    )
    model = read_model(path)
    assert file_version(path) == LARGE_VERSION
    assert isinstance(model.predictor, LargePredictor)
    assert {card.count for card in model.cards.values()} == {SAMPLES}
    before = {name for name in asked if name.startswith("str:")}
    assert len(before) <= 1 + 40  # the first for its width; those of the metric, here all, to compare them with it
    asked.clear()
    model.predictor.predict(samples_of(3)[:1])
    assert sum(name.startswith("str:") for name in asked) <= 8


def test_a_model_from_the_file_answers_as_one_in_memory(path):
    model, whole = read_model(path), in_memory(*range(40))
    np.testing.assert_array_equal(answers(model, *range(40)), answers(whole, *range(40)))
    strange = np.full((1, DIM), 40, dtype=np.float32)
    for one in (model, whole):
        assert one.predictor.predict(strange, reject=0.9).tolist() == ["unknown"]
    np.testing.assert_allclose(
        model.predictor.measure_novelty(samples_of(1)), whole.predictor.measure_novelty(samples_of(1))
    )


def test_a_large_model_answers_as_a_small_one_where_the_list_is_long_enough(path, monkeypatch):
    large = answers(read_model(path), *range(40)).argmax(1)
    monkeypatch.setattr(derived, "LARGE_CLASSES", 10**6)
    assert (answers(in_memory(*range(40)), *range(40)).argmax(1) == large).mean() > 0.99


def test_answers_without_torch_are_not_offered(path):
    assert read_answers(path) is None


def test_a_large_model_is_not_exported(path, tmp_path):
    with pytest.raises(InputError, match="40 classes"):
        export_onnx(read_model(path), tmp_path / "m.onnx")


def test_a_card_is_what_it_looks_like(path):
    whole = in_memory(*range(40))
    for label, card in read_model(path).cards.items():
        assert isinstance(card, FiledCard)
        assert card.glance == Glance.of(whole.cards[label])
        assert card == whole.cards[label]
        assert pickle.loads(pickle.dumps(card)) == copy.deepcopy(card) == whole.cards[label]
        assert card.to_bytes() == whole.cards[label].to_bytes()
        np.testing.assert_array_equal(card.factor("raw").codes, whole.cards[label].raw.factor.codes)


# How it changes.


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda model: model.plus(cards_of(77)), [*range(40), 77]),
        (lambda model: model.without("class 007"), [place for place in range(40) if place != 7]),
        (lambda model: model.plus(cards_of(*range(50, 60))).without("class 055"), [*range(40), 50, 51, 52, 53, 54]),
    ],
)
def test_a_change_gives_what_learning_afresh_gives(path, step, expected):
    SharedModel(path).change(step)
    expected = [*expected, 56, 57, 58, 59] if 50 in expected else expected
    found, afresh = read_model(path), in_memory(*expected)
    assert found.labels == afresh.labels
    np.testing.assert_array_equal(answers(found, *range(40)), answers(afresh, *range(40)))


@pytest.mark.parametrize("fresh", [True, False])
def test_a_change_costs_its_own_class_alone(tmp_path, monkeypatch, fresh):
    """In the same frame, whether the model was just read or has been changed before."""
    monkeypatch.setattr("gddsg.core.metric.ALL_CLASSES", 10)
    monkeypatch.setattr("gddsg.core.metric.SAMPLED_CLASSES", 10)
    file, computed = SharedModel(tmp_path / "m.gddsg"), []
    file.change(lambda _: in_memory(*range(60), 200))
    file = SharedModel(tmp_path / "m.gddsg") if fresh else file
    newcomer = cards_of(333)["class 333"]
    sample = {card.key for card in file.read().derived.metric.sample}
    assert len(sample) < 40
    assert newcomer.key > max(sample)  # else the frame moves, and all is derived again
    compute = class_block._compute
    monkeypatch.setattr(class_block, "_compute", lambda *given: computed.append(given) or compute(*given))
    file.change(lambda model: model.plus({"class 333": newcomer}))
    assert len(computed) == 1
    file.change(lambda model: model.without("class 333"))
    assert len(computed) == 1


def test_more_samples_of_a_class_and_another_name(path):
    more = Model(SETTINGS).make_cards(torch.from_numpy(samples_of(99)), ["class 003"] * SAMPLES)
    SharedModel(path).change(lambda model: model.plus(more).renamed("class 004", "zebra"))
    found = read_model(path)
    assert found.cards["class 003"].count == 2 * SAMPLES
    assert found.cards["zebra"] == in_memory(4).cards["class 004"]
    assert "class 004" not in found.cards


def test_a_model_stays_what_it_was_when_its_file_changes(path):
    file = SharedModel(path)
    before = file.read()
    expected, card = answers(before, *range(40)), in_memory(3).cards["class 003"]
    file.change(lambda model: model.without("class 003"))
    np.testing.assert_array_equal(answers(before, *range(40)), expected)
    assert before.cards["class 003"] == card


def test_another_process_that_changed_a_card_is_noticed(path):
    before = read_model(path)
    teach(path, 88)  # has nothing to do with the cards that were read
    assert before.cards["class 003"].whole().count == SAMPLES
    SharedModel(path).change(lambda model: model.without("class 003"))
    with pytest.raises(ModelFileError, match="Read the file again"):
        before.cards["class 003"].whole()


def test_what_is_there_is_not_written_again(path):
    written = {name: digest for name, digest in large_file.open_large(path).digests.items()}
    with sqlite3.connect(path) as connection:
        places = dict(connection.execute("SELECT name, rowid FROM cards"))
    connection.close()
    teach(path, 77)
    with sqlite3.connect(path) as connection:
        after = dict(connection.execute("SELECT name, rowid FROM cards"))
    connection.close()
    cards = [name for name in written if name.startswith("str:")]
    assert [after[name] for name in cards] == [places[name] for name in cards]


def test_a_model_that_shrinks_is_an_ordinary_file_again(path):
    SharedModel(path).change(lambda model: model if model is None else in_memory(*range(20)))
    assert file_version(path) == 4
    assert read_model(path).labels == in_memory(*range(20)).labels


def test_samples_are_known_again(tmp_path):
    teach(tmp_path / "m.gddsg", *range(40), sample_ids=True)
    model = read_model(tmp_path / "m.gddsg")
    assert len(model.label_samples()) == 40 * SAMPLES
    assert model.make_cards(torch.from_numpy(samples_of(3)), ["class 003"] * SAMPLES, ids_of(3)) == {}


def ids_of(place):
    return np.array([1000 * place + i for i in range(SAMPLES)], dtype=np.uint64)


# Damage, and death.


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are found as Linux shows them")
def test_no_file_is_replaced_while_it_is_open_where_that_fails(path, monkeypatch):
    """As on Windows: a file that somebody has open cannot be replaced, and so it is closed before."""
    replace = Path.replace

    def replace_unless_open(self, target):
        opened = {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}
        if str(target) in opened:
            raise PermissionError(13, "Access is denied")
        return replace(self, target)

    monkeypatch.setattr(files, "open_files_stay", lambda: True)
    monkeypatch.setattr(large_file, "open_files_stay", lambda: True)
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    monkeypatch.setattr(Path, "replace", replace_unless_open)
    shared = SharedModel(path)
    before = shared.read()
    expected = answers(before, *range(40))
    one_more = before.plus(cards_of(88))
    shared.change(lambda model: in_memory(*range(5)))
    assert file_version(path) != LARGE_VERSION
    assert set(read_model(path).labels) == set(in_memory(*range(5)).labels)
    np.testing.assert_array_equal(answers(before, *range(40)), expected)
    np.testing.assert_array_equal(answers(one_more, *range(5)), answers(in_memory(*range(40), 88), *range(5)))


def test_a_file_is_closed_when_nobody_has_a_model_of_it_any_more(path):
    model = read_model(path)
    connection = next(iter(model.cards.values())).place.source._connection
    del model
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_every_damaged_row_is_found(path):
    names = [name for name in read_rows(path)[1] if not name.startswith("gddsg:block")]
    for name in [*random.Random(0).sample(names, 8), "gddsg:index"]:
        with sqlite3.connect(path) as connection:
            (body,) = connection.execute("SELECT body FROM cards WHERE name = ?", (name,)).fetchone()
            middle = len(body) // 2
            damaged = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
            connection.execute("UPDATE cards SET body = ? WHERE name = ?", (damaged, name))
        with pytest.raises(ModelFileError):  # noqa: PT012  # when it is read, or when the row is asked for
            model = read_model(path)
            answers(model, *range(40))
            for card in model.cards.values():
                card.whole()
        connection.execute("UPDATE cards SET body = ? WHERE name = ?", (body, name))
        connection.commit()
        connection.close()


def test_a_full_disk_leaves_the_model_as_it_was(path, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    before = answers(read_model(path), *range(40))
    monkeypatch.setattr(large_file, "insert_card", full)
    with pytest.raises(ModelFileError, match="disk is full"):
        teach(path, 77)
    np.testing.assert_array_equal(answers(read_model(path), *range(40)), before)


TEACH = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
from gddsg.core import derived
derived.LARGE_CLASSES = 30
from test_large_file import teach
for place in range(int(sys.argv[3]), int(sys.argv[3]) + 100):
    print(place, flush=True)
    teach(Path(sys.argv[2]), place)
"""


@pytest.mark.posix
def test_a_kill_at_any_moment_loses_nothing_that_was_confirmed(path):
    moments, there = random.Random(1), set(read_model(path).labels)
    for first in (100, 200, 300):
        command = [sys.executable, "-c", TEACH, __file__, str(path), str(first)]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        program.stdout.readline()
        time.sleep(moments.uniform(0.1, 1.0))
        program.send_signal(signal.SIGKILL)
        begun = [first, *map(int, program.stdout.read().split())]
        program.stdout.close()
        program.wait()
        model, before = read_model(path), there
        there = set(model.labels)
        assert before | {f"class {place:03d}" for place in begun[:-1]} <= there
        assert there <= before | {f"class {place:03d}" for place in begun}
        places = [int(label[-3:]) for label in model.labels]
        np.testing.assert_array_equal(answers(model, *range(9)), answers(in_memory(*places), *range(9)))
        assert {card.whole().count for card in model.cards.values()} == {SAMPLES}


@pytest.mark.posix
def test_what_a_kill_left_half_written_is_rolled_back(path):
    before = answers(read_model(path), *range(40))
    pid = os.fork()
    if pid == 0:  # dies in the middle of a transaction that has reached the file
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM cards WHERE name LIKE 'str:class 01%'")
        connection.execute("INSERT INTO cards VALUES ('x', zeroblob(3000000), x'00')")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert Path(f"{path}-journal").stat().st_size > 0
    np.testing.assert_array_equal(answers(read_model(path), *range(40)), before)
