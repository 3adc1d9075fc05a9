"""Copies made while the service runs, and what comes of them."""

import shutil
import threading

import pytest
from tests.serve.samples import photos

from gddsg.errors import DataError, ModelFileError
from gddsg.serve.backup import back_up
from gddsg.serve.journal import Journal, Wish
from gddsg.serve.tokens import Tokens, add_token
from gddsg.store import read_model


def test_a_restored_backup_goes_on_where_it_was(make_studio, tmp_path):
    studio = make_studio()
    studio.teach("red", photos("red"))
    token = add_token(studio.journal, "anna", "teach")
    noted = studio.journal.begin(Wish("anna", "teach", "red", "k", b"1"))
    studio.journal.finish(noted.number, {"n": 1})
    copies = back_up(tmp_path / "m.gddsg", tmp_path / "copy.gddsg")
    assert [path.name for path in copies] == ["copy.gddsg.studio", "copy.gddsg"]
    studio.teach("green", photos("green"))
    studio.close()
    shutil.copy(tmp_path / "copy.gddsg", tmp_path / "m.gddsg")
    shutil.copy(tmp_path / "copy.gddsg.studio", tmp_path / "m.gddsg.studio")
    restored = make_studio()
    assert [one["name"] for one in restored.classes()["classes"]] == ["red"]
    assert Tokens(restored.journal).find(token).name == "anna"
    assert restored.journal.begin(Wish("anna", "teach", "red", "k", b"1")).answer == {"n": 1}
    assert restored.teach("green", photos("green"))["learnt"] == 6


def test_every_copy_made_under_changes_is_of_one_moment(make_studio, tmp_path):
    studio = make_studio(large_file=0)  # so that lessons pass through the journal
    studio.teach("red", photos("red", 2))
    taught, stop = [], threading.Event()

    def teach():
        for i in range(100):
            if stop.is_set():
                return
            studio.teach("red", photos("red", 1, 100 + i))
            taught.append(i)

    thread = threading.Thread(target=teach)
    thread.start()
    for number in range(3):
        before = len(taught)
        target = tmp_path / f"copy-{number}.gddsg"
        back_up(tmp_path / "m.gddsg", target)
        journal = Journal(tmp_path / f"copy-{number}.gddsg.studio")
        lessons = len(journal.lessons())
        journal.close()
        assert read_model(target).cards["red"].count + lessons >= 2 + before
    stop.set()
    thread.join()


def test_a_model_without_a_service_is_copied_alone(make_studio, tmp_path):
    studio = make_studio()
    studio.teach("red", photos("red"))
    studio.close()
    (tmp_path / "m.gddsg.studio").unlink()
    assert back_up(tmp_path / "m.gddsg", tmp_path / "copy.gddsg") == [tmp_path / "copy.gddsg"]


def test_what_cannot_be_copied_is_refused(make_studio, tmp_path):
    with pytest.raises(ModelFileError, match="no model file"):
        back_up(tmp_path / "none.gddsg", tmp_path / "copy.gddsg")
    studio = make_studio()
    studio.teach("red", photos("red"))
    with pytest.raises(DataError, match="the model file itself"):
        back_up(tmp_path / "m.gddsg", tmp_path / "m.gddsg")
    with pytest.raises(ModelFileError):
        back_up(tmp_path / "m.gddsg", tmp_path / "none" / "copy.gddsg")
    content = bytearray((tmp_path / "m.gddsg").read_bytes())
    place = content.find(read_model(tmp_path / "m.gddsg").cards["red"].to_bytes()[:64])
    content[place + 50] ^= 1
    (tmp_path / "damaged.gddsg").write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        back_up(tmp_path / "damaged.gddsg", tmp_path / "copy.gddsg")
    assert not (tmp_path / "copy.gddsg").exists()
