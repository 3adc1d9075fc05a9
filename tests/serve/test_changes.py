"""Changes are carried out once, however often they are asked for."""

import threading

import pytest

from gddsg.errors import DataError
from gddsg.serve.changes import Changes
from gddsg.serve.faults import RequestError
from gddsg.serve.journal import Journal, Wish


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "j.studio")
    yield journal
    journal.close()


WISH = Wish("anna", "teach", "fox", "anna\0k", b"1")


def test_a_repeated_wish_gets_the_answer_of_the_first(journal):
    calls = []
    work = lambda again: calls.append(again) or {"n": len(calls)}  # noqa: E731
    assert [Changes(journal).carry_out(WISH, work) for _ in range(3)] == [{"n": 1}] * 3
    assert calls == [False]


def test_without_a_key_every_wish_is_carried_out(journal):
    calls = []
    for _ in range(2):
        Changes(journal).carry_out(Wish("anna", "teach", "fox"), lambda again: calls.append(again) or {})
    assert calls == [False, False]


def test_another_request_with_the_same_key_is_refused(journal):
    changes = Changes(journal)
    changes.carry_out(WISH, lambda again: {})
    with pytest.raises(RequestError) as refused:
        changes.carry_out(Wish("anna", "teach", "owl", "anna\0k", b"2"), lambda again: {})
    assert (refused.value.status, refused.value.code) == (422, "key_reused")


def test_what_was_under_way_at_a_kill_is_carried_out_again(journal):
    journal.begin(WISH)  # and the process ended
    assert Changes(journal).carry_out(WISH, lambda again: {"again": again}) == {"again": True}
    assert len(journal.changes()) == 1


def test_a_wish_that_failed_may_be_repeated(journal):
    changes = Changes(journal)

    def fail(again):
        raise DataError("no photo")

    with pytest.raises(DataError):
        changes.carry_out(WISH, fail)
    assert changes.carry_out(WISH, lambda again: {"again": again}) == {"again": False}
    assert [one.outcome for one in journal.changes()] == ["done", "refused: no photo"]


def test_two_at_the_same_time_are_not_carried_out_twice(journal):
    changes, inside, go_on = Changes(journal), threading.Event(), threading.Event()

    def slow(again):
        inside.set()
        assert go_on.wait(30)
        return {"n": 1}

    thread = threading.Thread(target=changes.carry_out, args=(WISH, slow))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(RequestError) as refused:
        changes.carry_out(WISH, lambda again: {"n": 2})
    assert (refused.value.status, refused.value.retry_after) == (409, 1)
    go_on.set()
    thread.join()
    assert changes.carry_out(WISH, lambda again: {"n": 3}) == {"n": 1}
