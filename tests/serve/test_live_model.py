"""The model of the moment: published at once, in the file or the journal before it is told."""

import threading
from functools import partial

import numpy as np
import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.errors import DataError, InputError, ModelFileError
from gddsg.serve.faults import RequestError
from gddsg.serve.journal import Journal
from gddsg.serve.live_model import LiveModel, Step
from gddsg.store import SharedModel, read_model, shared_model, write_model


def cards_of(model, label, seed):
    rng = np.random.default_rng(seed)
    features = torch.from_numpy(rng.random((4, 24), dtype=np.float32) + seed)
    return model.make_cards(features, [label] * 4, rng.integers(1, 2**60, 4, dtype=np.uint64))


def learn(label, seed, model):
    model = model or Model(Settings(projection_dim=16))
    cards = cards_of(model, label, seed)
    return Step(model.plus(cards), label, cards)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.gddsg"


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "m.gddsg.studio")
    yield journal
    journal.close()


@pytest.fixture
def make(path, journal):
    made = []

    def make(**options):
        made.append(LiveModel(SharedModel(path), journal, **options))
        return made[-1]

    yield make
    for live in made:
        live.close()


def test_a_change_is_in_the_file_when_it_is_told(make, path):
    live = make()
    assert live.current().model is None
    assert live.change(partial(learn, "fox", 1)) == "fox"
    assert read_model(path).labels == ("fox",) == live.current().model.labels


def test_changes_of_other_processes_are_noticed(make, path):
    live = make()
    live.change(partial(learn, "fox", 1))
    model = read_model(path)
    write_model(path, model.plus(cards_of(model, "owl", 2)))
    assert live.current().model.labels == ("fox", "owl")
    live.change(partial(learn, "elk", 3))
    assert read_model(path).labels == ("elk", "fox", "owl")


def test_revisions_tell_models_apart(make):
    live = make()
    seen = {live.current().revision}
    for seed, name in enumerate(("fox", "owl"), start=1):
        live.change(partial(learn, name, seed))
        seen.add(live.current().revision)
    assert len(seen) == 3


def test_a_change_that_fails_leaves_the_others_of_its_batch_alone(make, path):
    live, inside, go_on = make(), threading.Event(), threading.Event()

    def first(model):
        inside.set()
        assert go_on.wait(30)
        return learn("fox", 1, model)

    def refused(model):
        raise DataError("no")

    found = {}

    def want(name, maker):
        try:
            found[name] = live.change(maker)
        except DataError as error:
            found[name] = str(error)

    threads = [threading.Thread(target=want, args=("first", first))]
    threads[0].start()
    assert inside.wait(30)
    for name, maker in (("owl", partial(learn, "owl", 2)), ("refused", refused), ("elk", partial(learn, "elk", 3))):
        threads.append(threading.Thread(target=want, args=(name, maker)))
        threads[-1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert found == {"first": "fox", "owl": "owl", "refused": "no", "elk": "elk"}
    assert read_model(path).labels == ("elk", "fox", "owl")


def test_a_lesson_of_a_large_model_is_told_before_the_file_is_written(make, path, journal, monkeypatch):
    live = make(large_file=0)
    live.change(partial(learn, "fox", 1))  # there is no file yet, hence no large one
    go_on, written = threading.Event(), threading.Event()
    change = SharedModel.change

    def slow(self, step):
        def waiting(now):
            after = step(now)
            assert go_on.wait(30)
            return after

        found = change(self, waiting)
        written.set()
        return found

    monkeypatch.setattr(SharedModel, "change", slow)
    assert live.change(partial(learn, "owl", 2)) == "owl"
    assert read_model(path).labels == ("fox",)
    assert live.current().model.labels == ("fox", "owl")
    assert [name for _, name, _ in journal.lessons()] == ["owl"]
    go_on.set()
    live.settle()
    assert written.is_set()
    assert read_model(path).labels == ("fox", "owl")
    assert journal.lessons() == []


def test_lessons_are_applied_at_the_next_start(make, path, journal):
    first = make()
    first.change(partial(learn, "fox", 1))
    model = read_model(path)
    card = cards_of(model, "owl", 2)["owl"]
    journal.add_lesson("owl", card.to_bytes())  # and a kill came before the file was written
    live = make()
    assert live.current().model.labels == ("fox", "owl")
    assert read_model(path).cards["owl"].count == 4
    assert journal.lessons() == []
    journal.add_lesson("owl", card.to_bytes())  # and a kill came after it was, before the journal was told
    again = make()
    assert read_model(path).cards["owl"].count == 4
    assert again.current().model.cards["owl"].count == 4
    assert journal.lessons() == []


def test_a_disk_that_fails_loses_no_lesson_and_refuses_other_changes(make, path, journal, monkeypatch):
    live = make(large_file=0)
    live.change(partial(learn, "fox", 1))
    replace, broken = shared_model._refuse_hard_links, True

    def fail(target, state):
        if broken:
            raise ModelFileError("no room")
        replace(target, state)

    monkeypatch.setattr(shared_model, "_refuse_hard_links", fail)
    assert live.change(partial(learn, "owl", 2)) == "owl"
    with pytest.raises(ModelFileError, match="no room"):
        live.change(lambda model: Step(model.without("fox")))
    assert live.current().model.labels == ("fox", "owl")
    broken = False
    live.change(partial(learn, "elk", 3))
    live.settle()
    assert read_model(path).labels == ("elk", "fox", "owl")
    assert journal.lessons() == []


def test_too_many_changes_are_refused(make, monkeypatch):
    monkeypatch.setattr("gddsg.serve.live_model.MOST_WAITING", 1)
    live, inside, go_on = make(), threading.Event(), threading.Event()

    def slow(model):
        inside.set()
        assert go_on.wait(30)
        return learn("fox", 1, model)

    threads = [threading.Thread(target=live.change, args=(slow,))]
    threads[0].start()
    assert inside.wait(30)
    threads.append(threading.Thread(target=live.change, args=(partial(learn, "owl", 2),)))
    threads[1].start()
    while not live._waiting.full():
        pass
    with pytest.raises(RequestError) as refused:
        live.change(Step)
    assert (refused.value.status, refused.value.retry_after) == (503, 2)
    go_on.set()
    for thread in threads:
        thread.join()


def test_a_lesson_that_makes_a_model_unable_to_answer_is_refused_before_it_is_noted(make, path, journal, monkeypatch):
    live = make(large_file=0)
    live.change(partial(learn, "fox", 1))
    with monkeypatch.context() as patch:
        patch.setattr("gddsg.core.novelty.Novelty.measure", lambda self, vectors: np.full(len(vectors), np.nan))
        with pytest.raises(InputError, match="cannot predict"):
            live.change(partial(learn, "owl", 2))
    assert journal.lessons() == []
    live.change(partial(learn, "elk", 3))
    assert live.current().model.labels == ("elk", "fox")
