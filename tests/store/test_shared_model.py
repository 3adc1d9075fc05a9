"""The one way to change a model file, whoever else changes it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gddsg.core.model import Model, Settings
from gddsg.core.predictor import Predictor
from gddsg.errors import InputError, ModelFileError
from gddsg.store import SharedModel, read_model, write_model

SETTINGS = Settings(projection_dim=8, rank=4)


def cards_of(label, seed=0):
    features = np.random.default_rng(seed).random((6, 5), dtype=np.float32)
    return Model(SETTINGS).make_cards(torch.from_numpy(features), [label] * 6)


def learnt(*labels):
    model = Model(SETTINGS)
    for seed, label in enumerate(labels):
        model = model.plus(cards_of(label, seed))
    return model


def learn(path, label):
    """What a command does: learn one class on top of what is in the file."""
    SharedModel(path).change(lambda model: (model or Model(SETTINGS)).plus(cards_of(label)))


LEARN = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
from test_shared_model import learn
sys.stdin.readline()
for label in sys.argv[3:]:
    learn(Path(sys.argv[2]), label)
"""


def learn_at_once(labels_by_path):
    """One process a path, all started before the first of them learns."""
    programs = [
        subprocess.Popen([sys.executable, "-c", LEARN, __file__, path, *labels], stdin=subprocess.PIPE)
        for path, labels in labels_by_path.items()
    ]
    for program in programs:
        program.stdin.write(b"go\n")
        program.stdin.close()
    assert [program.wait() for program in programs] == [0] * len(programs)


def test_processes_that_come_by_different_links_lose_nothing(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "m")
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    paths = {
        tmp_path / "elsewhere" / "m": [f"a{n}" for n in range(10)],
        tmp_path / "link": [f"b{n}" for n in range(10)],
        tmp_path / "folder" / "m": [f"c{n}" for n in range(10)],
    }
    learn_at_once(paths)
    labels = [label for group in paths.values() for label in group]
    assert sorted(read_model(tmp_path / "link").labels) == sorted(labels)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["m"]


def test_a_program_that_knows_no_lock_loses_nothing_either(tmp_path):
    """It puts another file in place between reading and writing: the change is made on top of that one."""
    path, asked = tmp_path / "m", []
    write_model(path, learnt("a"))

    def step(model):
        asked.append(model.labels)
        if len(asked) == 1:
            write_model(tmp_path / "restored", learnt("a", "b"))
            (tmp_path / "restored").replace(path)
        return model.plus(cards_of("c", seed=7))

    SharedModel(path).change(step)
    assert asked == [("a",), ("a", "b")]
    assert read_model(path).labels == ("a", "b", "c")


def test_a_file_overwritten_in_place_is_noticed_by_its_content(tmp_path):
    """Same inode, size and time: only what is in it differs."""
    path, other = tmp_path / "m", tmp_path / "other"
    write_model(path, learnt("a"))
    write_model(other, learnt("b"))
    assert path.stat().st_size == other.stat().st_size
    file = SharedModel(path)
    assert file.read().labels == ("a",)
    before = path.stat()
    shutil.copyfile(other, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert file.read().labels == ("b",)


def test_a_model_is_read_again_only_when_the_file_has_changed(tmp_path):
    write_model(tmp_path / "m", learnt("a"))
    file = SharedModel(tmp_path / "m")
    assert file.read() is file.read()
    file.change(lambda model: model.plus(cards_of("b", seed=7)))
    grown = file.read()
    assert grown.labels == ("a", "b")
    assert file.read() is grown


def test_hard_links_are_refused_before_they_part(tmp_path):
    write_model(tmp_path / "m", learnt("a"))
    (tmp_path / "twin").hardlink_to(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"2 names \(hard links\).*Nothing was changed"):
        learn(tmp_path / "m", "b")
    assert read_model(tmp_path / "twin").labels == read_model(tmp_path / "m").labels == ("a",)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "twin"]
    SharedModel(tmp_path / "m").change(lambda model: None)  # nothing to write, nothing to refuse


def test_a_model_that_cannot_predict_is_refused_and_the_old_one_stays(tmp_path, monkeypatch):
    write_model(tmp_path / "m", learnt("a", "b"))

    def fail(self, features):
        raise torch.linalg.LinAlgError("did not converge")

    def lie(self, features):
        return np.full((len(features), len(self.labels)), np.nan)

    for broken, match in ((fail, r"cannot predict \(did not converge\)"), (lie, "cannot predict")):
        with monkeypatch.context() as patch:
            patch.setattr(Predictor, "predict_log_proba", broken)
            with pytest.raises(InputError, match=match):
                learn(tmp_path / "m", "c")
        assert read_model(tmp_path / "m").labels == ("a", "b")
        assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_only_other_cards_are_tried(tmp_path, monkeypatch):
    """Another name changes no answer, and deriving a large model takes seconds."""
    write_model(tmp_path / "m", learnt("a", "b"))
    monkeypatch.setattr(Predictor, "predict_log_proba", lambda *_: pytest.fail("it was asked"))
    SharedModel(tmp_path / "m").change(lambda model: model.renamed("a", "z"))
    assert read_model(tmp_path / "m").labels == ("b", "z")


@pytest.mark.parametrize("path", ["missing/m", "file/m", "nul\0byte", "."])
def test_where_no_file_can_be_the_error_says_so(tmp_path, path):
    (tmp_path / "file").touch()
    for change in (lambda: learn(tmp_path / path, "a"), lambda: write_model(tmp_path / path, learnt("a"))):
        with pytest.raises(ModelFileError, match=r"Cannot (write|read) the model file"):
            change()
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_file_that_cannot_be_read_is_not_replaced(tmp_path):
    (tmp_path / "m").write_bytes(b"a photo")
    with pytest.raises(ModelFileError, match="some other kind of file"):
        learn(tmp_path / "m", "a")
    assert (tmp_path / "m").read_bytes() == b"a photo"
    assert [path.name for path in Path(tmp_path).iterdir()] == ["m"]
