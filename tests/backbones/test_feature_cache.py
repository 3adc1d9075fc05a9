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

from gddsg.backbones import FeatureCache, cache_folder
from gddsg.backbones.feature_cache import CacheSize
from gddsg.errors import GddsgError


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


def test_by_what_keys_begin_with(tmp_path):
    keys = [bytes([i]) * 32 for i in (1, 2, 255)]
    twins = [b"\x07" * 8 + bytes([i]) * 24 for i in (1, 2)]
    with FeatureCache(tmp_path) as cache:
        cache.put([(one, vector(i)) for i, one in enumerate([*keys, *twins])], "a")
        starts = [one[:8] for one in [*keys, twins[0], b"\x03" * 32]]
        found = cache.get_by_starts(starts, "a")
        assert set(found) == {one[:8] for one in keys}  # of two that begin alike neither is given
        np.testing.assert_array_equal(found[keys[2][:8]], vector(2))
        assert cache.get_by_starts(starts, "b") == {}
        assert cache.get_by_starts(starts, "a", 9) == {}


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


@pytest.mark.posix
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


def test_a_vector_is_given_only_for_its_own_photo_and_backbone(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(1), vector(1)), (key(2), vector(2))], "a")
        first, second = (row[0] for row in cache._connection.execute("SELECT vector FROM features ORDER BY key"))
        cache._connection.execute("UPDATE features SET vector = ? WHERE key = ?", (second, key(1)))
        cache._connection.execute("UPDATE features SET backbone = 'b' WHERE key = ?", (key(2),))
        assert cache.get(key(1), "a") is None
        assert cache.get(key(2), "b") is None
        cache._connection.execute("UPDATE features SET vector = ? WHERE key = ?", (first, key(1)))
        np.testing.assert_array_equal(cache.get(key(1), "a"), vector(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_no_learner_can_use_are_not_kept(tmp_path, bad):
    wrong = vector(1)
    wrong[3] = bad
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(1), wrong), (key(2), vector(2)), (key(3), vector(0, 0))], "a")
        assert set(cache.get_many([key(1), key(2), key(3)], "a")) == {key(2)}
        assert cache.sizes()[0].vectors == 1


def test_vectors_of_another_width_are_not_given(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(1), vector(1, 8)), (key(2), vector(2, 9))], "a")
        assert set(cache.get_many([key(1), key(2)], "a", width=9)) == {key(2)}


def test_files_of_version_0_1_are_removed_and_not_read(tmp_path):
    """Networks that nobody verified may have filled them."""
    old = tmp_path / "features.sqlite"
    with sqlite3.connect(old) as connection:
        connection.execute("CREATE TABLE features(key BLOB, backbone TEXT, vector BLOB, used INTEGER)")
    connection.close()
    with FeatureCache(tmp_path) as cache:
        assert cache.get(key(1), "a") is None
        assert not cache.trouble
    assert not old.exists()


def modes(folder):
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
def test_the_cache_is_for_the_user_alone(tmp_path):
    folder = tmp_path / "cache"
    for _ in range(2):
        with FeatureCache(folder) as cache:
            cache.put([(key(1), vector(1))], "a")
            assert folder.stat().st_mode & 0o777 == 0o700
            assert set(modes(folder).values()) == {0o600}, modes(folder)
        cache.path.chmod(0o644)  # as a copy of it may be


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
def test_a_folder_that_everybody_may_write_to_is_not_used(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    with FeatureCache(folder) as cache:
        cache.put([(key(1), vector(1))], "a")
        assert "everybody may write to it; name a folder of your own" in cache.trouble
    assert list(folder.iterdir()) == []


def test_odd_rows_are_counted_and_do_no_harm(tmp_path):
    with FeatureCache(tmp_path) as cache:
        cache.put([(key(1), vector(1))], "a")
        connection = cache._connection
        connection.execute("CREATE TABLE odd(key, backbone, vector, used)")
        connection.execute("DROP TABLE features")
        connection.execute("ALTER TABLE odd RENAME TO features")
        rows = [(None, None, None, None), ("x", 7, 3.5, "y"), (key(1), "a", "text", b"blob"), (7, "a", b"x" * 24, 1)]
        connection.executemany("INSERT INTO features VALUES (?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO features VALUES (1, CAST(x'ff41' AS TEXT), x'00', 1)")
        sizes = cache.sizes()
        assert sum(size.vectors for size in sizes) == 5
        assert all(CacheSize(str(s.backbone), int(s.vectors), int(s.size)) == s for s in sizes)
        assert cache.get_many([key(1)], "a") == {}
        assert cache.clear() == 5


@pytest.mark.parametrize("limit", ["-1", "nan", "inf", "4 GB", " ", "1e999"])
def test_a_limit_that_is_none_is_explained(tmp_path, monkeypatch, limit):
    monkeypatch.setenv("GDDSG_CACHE_MB", limit)
    with pytest.raises(GddsgError, match=r"GDDSG_CACHE_MB is '.*', expected a number of megabytes such as 4096"):
        FeatureCache(tmp_path)


def test_an_empty_limit_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("GDDSG_CACHE_MB", "")
    assert FeatureCache(tmp_path)._limit == 4096e6


def test_a_folder_in_the_place_of_the_file(tmp_path):
    (tmp_path / "features-2.sqlite").mkdir()
    with FeatureCache(tmp_path) as cache:
        assert cache.sizes() == []
        assert str(cache.path) in cache.trouble


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = FeatureCache(tmp_path / "file")
    cache.put([(key(1), vector(1))], "a")
    assert str(cache.path) in cache.trouble
    assert "a file is where the folder should be; name a folder of your own" in cache.trouble
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
