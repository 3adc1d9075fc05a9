"""The journal: what is kept, for how long, and what a kill leaves."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from gddsg.errors import ModelFileError
from gddsg.serve.journal import KEY_SECONDS, UNDO_SECONDS, Forgotten, Journal, Wish, journal_path


@pytest.fixture
def journal(tmp_path, clock):
    journal = Journal(tmp_path / "m.gddsg.studio", clock)
    yield journal
    journal.close()


def test_a_change_is_noted_before_and_after_it(journal):
    noted = journal.begin(Wish("anna", "teach", "fox"))
    assert [(one.who, one.action, one.name, one.outcome) for one in journal.changes()] == [
        ("anna", "teach", "fox", None)
    ]
    journal.finish(noted.number, {"learnt": 3})
    other = journal.begin(Wish("bert", "forget", "owl"))
    journal.fail(other.number, "there is no owl")
    assert [one.outcome for one in journal.changes()] == ["refused: there is no owl", "done"]
    assert len(journal.changes(1)) == 1


def test_the_same_key_gives_the_same_answer(journal):
    wish = Wish("anna", "teach", "fox", "k", b"1")
    first = journal.begin(wish)
    assert (first.answer, first.again, first.same) == (None, False, True)
    under_way = journal.begin(wish)
    assert (under_way.number, under_way.again) == (first.number, True)
    journal.finish(first.number, {"learnt": 3})
    assert journal.begin(wish).answer == {"learnt": 3}
    assert not journal.begin(Wish("anna", "teach", "owl", "k", b"2")).same


def test_a_refused_key_may_be_used_again(journal):
    wish = Wish("anna", "teach", "fox", "k", b"1")
    journal.fail(journal.begin(wish).number, "no")
    assert not journal.begin(wish).again


def test_keys_are_kept_for_a_day_and_undo_for_a_minute(journal, clock):
    wish = Wish("anna", "teach", "fox", "k", b"1")
    journal.finish(journal.begin(wish).number, {})
    journal.keep_forgotten(Forgotten("a", "fox", b"what a card says", clock()))
    clock.now += UNDO_SECONDS - 1
    journal.purge(None)
    assert [one.name for one in journal.forgotten(clock())] == ["fox"]
    clock.now += 1
    assert journal.forgotten(clock()) == []
    journal.purge(None)
    assert b"what a card says" not in journal.path.read_bytes()
    assert journal.begin(wish).answer == {}
    clock.now += KEY_SECONDS
    journal.purge(None)
    assert journal.begin(wish).answer is None
    assert len(journal.changes()) == 2


def test_thumbnails_of_no_class_go(journal):
    journal.add_thumbnails({2**64 - 1: b"a", 7: b"b"})
    assert journal.thumbnail(2**64 - 1) == b"a"
    journal.purge({7})
    assert journal.thumbnail_samples() == {7}
    journal.purge(None)
    assert journal.thumbnail(7) is None


def test_lessons_stay_in_order_until_they_are_dropped(journal):
    numbers = [journal.add_lesson(name, name.encode()) for name in ("b", "a")]
    assert journal.lessons() == [(numbers[0], "b", b"b"), (numbers[1], "a", b"a")]
    journal.drop_lessons(numbers[:1])
    assert [name for _, name, _ in journal.lessons()] == ["a"]


def test_the_file_is_for_its_owner_alone_and_stands_alone(journal):
    journal.begin(Wish("anna", "teach", "fox"))
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert [path.name for path in journal.path.parent.iterdir()] == ["m.gddsg.studio"]


def test_a_kill_within_a_transaction_leaves_nothing(tmp_path):
    path = tmp_path / "j.studio"
    code = (
        "import os, sys; from pathlib import Path; from gddsg.serve.journal import Journal, Wish\n"
        "j = Journal(Path(sys.argv[1])); j.begin(Wish('a', 'teach', 'kept'))\n"
        "with j._transaction() as db:\n"
        "    db.execute('PRAGMA cache_size = 1')\n"
        "    db.execute('PRAGMA cache_spill = ON')\n"
        "    for i in range(300): db.execute(\"INSERT INTO lessons(class, card) VALUES ('x', zeroblob(9000))\")\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    assert (tmp_path / "j.studio-journal").exists()
    journal = Journal(path)
    assert (len(journal.changes()), journal.lessons()) == (1, [])
    journal.close()
    assert [one.name for one in tmp_path.iterdir()] == ["j.studio"]


@pytest.mark.parametrize("left", [b"", bytes(512)])
def test_a_rollback_journal_with_nothing_in_it_goes(tmp_path, left):
    Journal(tmp_path / "j.studio").close()
    (tmp_path / "j.studio-journal").write_bytes(left)
    journal = Journal(tmp_path / "j.studio")
    assert [one.name for one in tmp_path.iterdir()] == ["j.studio"]
    journal.close()


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "other"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t(x)")
    with pytest.raises(ModelFileError, match="another program"):
        Journal(path)
    (tmp_path / "text").write_text("no database at all, but some words that are long enough to be read" * 20)
    with pytest.raises(ModelFileError, match="restore it from a backup"):
        Journal(tmp_path / "text")


def test_the_journal_is_beside_the_file_that_a_link_leads_to(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "link.gddsg").symlink_to(tmp_path / "a" / "real.gddsg")
    assert journal_path(tmp_path / "link.gddsg") == tmp_path / "a" / "real.gddsg.studio"
