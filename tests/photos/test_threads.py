"""Threads share a budget of memory without waiting for ever, and give back what they took."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gddsg.errors import PhotoError
from gddsg.photos import threads as module
from gddsg.photos.threads import Room, map_in_parts


def test_no_more_is_taken_than_there_is():
    room, lock, used, most = Room(100), threading.Lock(), [0], [0]

    def work(wanted):
        with room.taken(wanted):
            with lock:
                used[0] += wanted
                most[0] = max(most[0], used[0])
            time.sleep(0.0005)
            with lock:
                used[0] -= wanted

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [(7 * i) % 101 for i in range(300)]))  # up to 100, all there is
    assert most[0] <= 100
    assert room.take(100, wait=False)  # all was given back


def test_an_error_gives_the_room_back():
    room = Room(10)
    for _ in range(3):
        with pytest.raises(MemoryError), room.taken(10):
            raise MemoryError
    assert room.take(10, wait=False)


def test_more_than_there_is_in_all_is_refused_at_once():
    with pytest.raises(PhotoError, match="11 bytes of memory, and at most 10"):
        Room(10).take(11)


def test_those_who_want_little_do_not_overtake_those_who_want_much():
    room, order = Room(10), []
    room.take(6)

    def work(wanted):
        with room.taken(wanted):
            order.append(wanted)

    large = threading.Thread(target=work, args=(10,))
    large.start()
    while not room._queue:
        time.sleep(0.001)
    assert not room.take(1, wait=False)  # there is room for one, but another came first
    small = threading.Thread(target=work, args=(1,))
    small.start()
    room.give_back(6)
    large.join()
    small.join()
    assert order == [10, 1]


@pytest.mark.parametrize(("weight", "most"), [(0, 16), (1, 16), (10, 5), (1000, 2)])
def test_large_results_do_not_pile_up(weight, most, monkeypatch):
    monkeypatch.setattr(module, "_BYTES_AHEAD", 100)
    made = []

    def work(items):
        made.extend(items)
        return list(items)

    ahead = []
    for item in map_in_parts(work, range(200), 2, 2, weigh=lambda _: weight):
        time.sleep(0.001)  # whoever consumes is slower than those who make
        ahead.append(len(made) - item)
    assert len(made) == 200
    assert max(ahead) <= 2 * most
