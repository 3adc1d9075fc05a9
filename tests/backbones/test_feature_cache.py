"""The feature cache: never wrong, never in the way."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from textwrap import dedent

import numpy as np
import pytest

from gddsg.backbones.feature_cache import FeatureCache, cache_folder


def key(i):
    return i.to_bytes(32, "big")


def vector(i, dim=8):
    return np.random.default_rng(i).normal(size=dim).astype(np.float32)


def test_what_was_put_comes_back(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(i), vector(i)) for i in range(5)], "a")
        np.testing.assert_array_equal(cache.get(key(3), "a"), vector(3))
        assert cache.get(key(9), "a") is None
        assert cache.get(key(3), "b") is None  # another backbone's features are never given
    with FeatureCache(tmp_path) as cache:
        found = cache.get(key(4), "a")
        np.testing.assert_array_equal(found, vector(4))
        assert found.dtype == np.float32
        found[:] = 0  # the caller may do with it what he likes


def test_many_at_once(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(i), vector(i)) for i in range(5)], "a")
        found = cache.get_many([key(i) for i in (1, 3, 9)], "a")
        assert set(found) == {key(1), key(3)}
        np.testing.assert_array_equal(found[key(3)], vector(3))
        assert cache.get_many([], "a") == {}


def test_sizes_and_clearing(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(i), vector(i)) for i in range(5)], "a")
        cache.put([(key(i), vector(i)) for i in range(2)], "b")
        assert [(size.backbone, size.vectors) for size in cache.sizes()] == [("a", 5), ("b", 2)]
        assert all(size.size > 0 for size in cache.sizes())
        assert cache.clear() == 7
        assert cache.sizes() == []
        assert cache.get(key(0), "a") is None


def test_the_folder_is_the_users_unless_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GDDSG_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    with FeatureCache() as cache:
        assert cache.path.parent == tmp_path / "here"
    monkeypatch.delenv("GDDSG_CACHE")
    assert cache_folder().name == "gddsg"


def test_the_vectors_unused_for_longest_go_first(tmp_path, monkeypatch):
    day = 100
    monkeypatch.setattr("gddsg.backbones.feature_cache._today", lambda: day)
    with FeatureCache(tmp_path, limit_mb=0.5) as cache:
        cache.put([(key(i), vector(i, 1000)) for i in range(50)], "a")
        day = 101
        assert cache.get(key(7), "a") is not None  # used today, hence kept
        day = 102
        for start in range(50, 150, 10):
            cache.put([(key(i), vector(i, 1000)) for i in range(start, start + 10)], "a")
        kept = {i for i in range(150) if cache.get(key(i), "a") is not None}
        assert 40 < len(kept) < 125  # at 4 kB each the limit has room for 125
        assert {7, 149, 140} <= kept
        assert len(kept & set(range(50))) < 10
    assert cache.path.stat().st_size < 0.7e6


def test_several_threads_and_connections(tmp_path):
    caches = [FeatureCache(tmp_path) for _ in range(3)]

    def work(cache, offset):
        for i in range(offset, offset + 40):
            cache.put([(key(i), vector(i))], "a")
            np.testing.assert_array_equal(cache.get(key(i), "a"), vector(i))

    threads = [threading.Thread(target=work, args=(caches[t % 3], 40 * t)) for t in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for cache in caches:
        assert not cache.trouble
        assert cache.sizes()[0].vectors == 240
        cache.close()


def write_many(folder, offset):
    with FeatureCache(folder) as cache:
        for i in range(offset, offset + 100):
            cache.put([(key(i), vector(i))], "a")


def test_several_processes(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_many, args=(tmp_path, 100 * p)) for p in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with FeatureCache(tmp_path) as cache:
        assert cache.sizes()[0].vectors == 200


def test_a_kill_loses_no_confirmed_vector(tmp_path):
    script = dedent(
        """
        import sys
        from pathlib import Path
        import numpy as np
        from gddsg.backbones.feature_cache import FeatureCache
        cache = FeatureCache(Path(sys.argv[1]))
        for i in range(10**6):
            cache.put([(i.to_bytes(32, "big"), np.full(500, i, dtype=np.float32))], "a")
            print(i, flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True)
    last = -1
    for line in process.stdout:
        last = int(line)
        if last == 30:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    with FeatureCache(tmp_path) as cache:
        for i in range(last + 1):
            np.testing.assert_array_equal(cache.get(key(i), "a"), np.full(500, i, dtype=np.float32))


def test_a_cache_that_is_not_used_leaves_no_file(tmp_path):
    with FeatureCache(tmp_path / "folder") as cache:
        assert not cache.trouble
    assert cache.get(key(1), "a") is None  # closed is closed
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("damage", ["nonsense", "truncated", "other database", "other table"])
def test_a_damaged_file_is_started_anew(tmp_path, damage):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(i), vector(i, 500)) for i in range(50)], "a")
    path = cache.path
    if damage == "nonsense":
        path.write_bytes(b"nonsense" * 1000)
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        path.unlink()
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE features(x)" if damage == "other table" else "CREATE TABLE other(x)")
        connection.close()
    with FeatureCache(tmp_path) as cache:
        for i in range(50):
            assert cache.get(key(i), "a") is None or np.array_equal(cache.get(key(i), "a"), vector(i, 500))
        cache.put([(key(99), vector(99))], "a")
        np.testing.assert_array_equal(cache.get(key(99), "a"), vector(99))
        assert not cache.trouble


def test_a_flipped_bit_gives_no_wrong_vector(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(1), vector(1))], "a")
        packed = cache._connection.execute("SELECT vector FROM features").fetchone()[0]
        wrong = bytes([packed[0] ^ 1]) + packed[1:]
        cache._connection.execute("UPDATE features SET vector = ?", (wrong,))
        assert cache.get(key(1), "a") is None


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = FeatureCache(tmp_path / "file")
    cache.put([(key(1), vector(1))], "a")
    assert str(cache.path) in cache.trouble
    assert cache.get(key(1), "a") is None
    assert cache.sizes() == []
    assert cache.clear() == 0
    cache.close()


def test_a_full_disk_ends_the_caching_and_nothing_else(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(1), vector(1))], "a")
        cache._connection.execute("PRAGMA max_page_count = 1")  # SQLite's own way to say that the disk is full
        cache.put([(key(i), vector(i, 5000)) for i in range(2, 50)], "a")
        assert "full" in cache.trouble
        assert cache.get(key(1), "a") is None
    with FeatureCache(tmp_path) as cache:
        np.testing.assert_array_equal(cache.get(key(1), "a"), vector(1))
