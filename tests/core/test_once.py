"""What is computed once: by whom, when, and what is let go of."""

import gc
import pickle
import threading
import time
import weakref

import pytest

from gddsg.core.once import Carried, Lazy, Once, Part


def in_threads(n, work):
    """What ``work`` gives in each of n threads that start together."""
    found, start = [], threading.Barrier(n)

    def run():
        start.wait()
        found.append(work())

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class Counter:
    """A computation that takes its time and counts its runs."""

    def __init__(self, failures=0):
        self.runs, self.failures = 0, failures

    def __call__(self, *_):
        self.runs += 1
        time.sleep(0.02)
        if self.runs <= self.failures:
            raise RuntimeError("not yet")
        return object()


@pytest.mark.parametrize("kind", ["once", "lazy", "part"])
def test_all_who_ask_at_a_time_get_the_one_value(kind):
    count = Counter()
    cell = {"once": Once(), "lazy": Lazy(count), "part": Part(count, None)}[kind]
    found = in_threads(8, (lambda: cell.get(count)) if kind == "once" else cell)
    assert count.runs == 1
    assert len(found) == 8
    assert all(value is found[0] for value in found)
    assert cell.peek() is found[0]


@pytest.mark.parametrize("kind", ["once", "lazy", "part"])
def test_a_failure_is_tried_again(kind):
    count = Counter(failures=1)
    cell = {"once": Once(), "lazy": Lazy(count), "part": Part(count, None)}[kind]
    ask = (lambda: cell.get(count)) if kind == "once" else cell
    with pytest.raises(RuntimeError, match="not yet"):
        ask()
    assert cell.peek() is None
    assert ask() is ask()
    assert count.runs == 2


def test_one_who_fails_does_not_stop_those_who_wait():
    count, failed = Counter(failures=3), []
    cell = Lazy(count)

    def ask():
        try:
            return cell()
        except RuntimeError:
            failed.append(1)
            return None

    found = {id(value) for value in in_threads(8, ask) if value is not None}
    assert (len(failed), len(found), count.runs) == (3, 1, 4)


def test_looking_does_not_wait():
    begun, go_on = threading.Event(), threading.Event()
    cell = Lazy(lambda: (begun.set(), go_on.wait(), "late")[-1])
    thread = threading.Thread(target=cell)
    thread.start()
    begun.wait()
    assert cell.peek() is None
    go_on.set()
    thread.join()
    assert cell.peek() == "late"


@pytest.mark.parametrize("value", [None, 0, "", False])
def test_a_value_that_counts_as_false_is_a_value(value):
    runs = []
    cell = Once()
    for _ in range(3):
        assert cell.get(lambda: runs.append(1) or value) is value
    assert len(runs) == 1


def test_a_cell_pickles_as_an_empty_one():
    cell = Once()
    cell.get(lambda: 7)
    again = pickle.loads(pickle.dumps(cell))
    assert again.peek() is None
    assert again.get(lambda: 8) == 8
    carried = Carried({"a": 1})
    carried.derived.get(lambda: threading.Lock())  # what could not be pickled itself
    copy = pickle.loads(pickle.dumps(carried))
    assert copy.kept == {"a": 1}
    assert copy.derived.peek() is None


class Thing:
    """Something that can be told to be gone."""


def test_a_computation_is_let_go_once_it_has_given_its_value():
    thing = Thing()
    gone = weakref.ref(thing)
    cell = Lazy(lambda held=thing: len([held]))
    del thing
    gc.collect()
    assert gone() is not None
    assert cell() == 1
    gc.collect()
    assert gone() is None


# Parts of successors.


def grown(first, step):
    return Part(lambda earlier: [*(earlier or []), step], first)


def test_a_part_starts_from_the_latest_that_was_there():
    first = grown(None, 1)
    assert first() == [1]
    second = grown(first, 2)
    third = grown(second, 3)  # nobody has asked for the second
    assert third() == [1, 3]
    assert second() == [1, 2]
    assert grown(third, 4)() == [1, 3, 4]
    assert first() == [1]


def test_what_a_predecessor_computes_later_is_none_of_the_successors_business():
    first = grown(None, 1)
    second = grown(first, 2)
    assert first() == [1]
    assert second() == [2]


def test_a_long_line_of_successors_holds_only_the_latest_value():
    values = []

    class Value:
        pass

    def make(_earlier):
        value = Value()
        values.append(weakref.ref(value))
        return value

    part = Part(make, None)
    for step in range(50):
        if step % 2:
            part()
        part = Part(make, part)
    part()
    gc.collect()
    assert len(values) == 26
    assert [value() is None for value in values] == [True] * 25 + [False]
