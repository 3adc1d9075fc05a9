"""Questions that come together are answered together, and no one waits for nobody."""

import threading

import pytest

from gddsg.serve.batching import Batcher
from gddsg.serve.faults import RequestError


class Teller:
    """Answers with the batch that a question was in; waits until it is let go."""

    def __init__(self):
        self.go_on, self.begun, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, questions):
        self.begun.set()
        assert self.go_on.wait(30)
        if any(question < 0 for question in questions):
            raise ValueError("a question below zero")
        self.batches.append(list(questions))
        return [2 * question for question in questions]


@pytest.fixture
def teller():
    return Teller()


@pytest.fixture
def make(teller):
    made = []

    def make(**options):
        made.append(Batcher(teller, lambda question: 1, **{"size": 4, "workers": 1, **options}))
        return made[-1]

    yield make
    teller.go_on.set()
    for batcher in made:
        batcher.close()


def test_what_comes_while_the_worker_is_busy_is_one_batch(make, teller):
    batcher = make()
    first = batcher.ask(0)
    assert teller.begun.wait(30)
    others = [batcher.ask(n) for n in range(1, 7)]
    assert batcher.waiting == 6
    teller.go_on.set()
    assert [one.result(30) for one in (first, *others)] == [0, 2, 4, 6, 8, 10, 12]
    assert teller.batches == [[0], [1, 2, 3, 4], [5, 6]]


def test_a_large_question_is_a_batch_by_itself(teller):
    batcher = Batcher(teller, lambda question: question, size=4, workers=1)
    first = batcher.ask(1)
    assert teller.begun.wait(30)
    futures = [batcher.ask(n) for n in (2, 1, 9, 1)]
    teller.go_on.set()
    assert [one.result(30) for one in (first, *futures)] == [2, 4, 2, 18, 2]
    assert teller.batches == [[1], [2, 1], [9], [1]]
    batcher.close()


def test_one_that_cannot_be_answered_fails_alone(make, teller):
    batcher = make()
    first = batcher.ask(0)
    assert teller.begun.wait(30)
    good, bad, other = (batcher.ask(n) for n in (1, -1, 2))
    teller.go_on.set()
    assert (first.result(30), good.result(30), other.result(30)) == (0, 2, 4)
    with pytest.raises(ValueError, match="below zero"):
        bad.result(30)


def test_a_client_that_has_gone_is_not_answered(make, teller):
    batcher = make()
    batcher.ask(0)
    assert teller.begun.wait(30)
    gone, here = batcher.ask(1), batcher.ask(2)
    assert gone.cancel()
    teller.go_on.set()
    assert here.result(30) == 4
    assert teller.batches == [[0], [2]]


def test_too_many_that_wait_are_refused(make, teller):
    batcher = make(most_waiting=2)
    batcher.ask(0)
    assert teller.begun.wait(30)
    batcher.ask(1)
    batcher.ask(2)
    with pytest.raises(RequestError) as refused:
        batcher.ask(3)
    assert (refused.value.status, refused.value.retry_after) == (503, 1)


def test_few_are_shared_out_among_the_workers(teller):
    met = threading.Barrier(2, timeout=30)

    def answer(questions):
        met.wait()  # passes only if both workers have got one
        return questions

    batcher = Batcher(answer, lambda question: 1, size=8, workers=2)
    assert [one.result(30) for one in (batcher.ask(1), batcher.ask(2))] == [1, 2]
    batcher.close()


def test_all_that_waits_is_answered_before_the_end(make, teller):
    batcher = make()
    futures = [batcher.ask(n) for n in range(9)]
    teller.go_on.set()
    batcher.close()
    assert [one.result(0) for one in futures] == [2 * n for n in range(9)]
    with pytest.raises(RequestError):
        batcher.ask(1)
