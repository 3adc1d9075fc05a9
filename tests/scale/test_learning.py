"""Learning on Ray gives what learning in this program gives."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.scale import tiny
from tests.scale.samples import SETTINGS, features, local_model, npz, parquet_photos, photo_folder, png, tar_shard

from gddsg import scale
from gddsg.core.model import Model, Settings
from gddsg.errors import BackboneError, DataError, InputError
from gddsg.scale import Sizes
from gddsg.store import SharedModel

pytestmark = pytest.mark.usefixtures("running_ray")

SIZES = Sizes(photos=4, rows=40, units=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photo_folder(tmp_path_factory.mktemp("photos") / "p")


@pytest.fixture(scope="module")
def expected(folder, tmp_path_factory):
    return cards(local_model(tmp_path_factory.mktemp("local") / "m.gddsg", folder)[0])


def learn(path, *sources, load=tiny.load, **options):
    usual = {"backbone": tiny.NAME, "settings": SETTINGS, "sizes": SIZES, "workers": 1}
    return scale.learn(path, *sources, load=load, **usual | options)


def cards(model):
    return {label: card.to_bytes() for label, card in model.cards.items()}


def learnt(path):
    return SharedModel(path).read()


def left(path):
    return sorted(one.name for one in path.parent.iterdir())


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_bits_of_one_batch(workers, folder, expected, tmp_path):
    told = []
    report = learn(tmp_path / "m.gddsg", folder, workers=workers, progress=lambda *done: told.append(done))
    assert cards(learnt(tmp_path / "m.gddsg")) == expected
    assert (report.learnt, report.computed) == ({"red": 9, "green": 9, "blue": 9}, 27)
    assert told[-1] == (27, 27)
    assert told == sorted(told)
    assert left(tmp_path / "m.gddsg") == ["m.gddsg"]


@pytest.mark.parametrize("kind", ["tar", "parquet", "file", "csv"])
def test_every_kind_of_source_gives_the_same(kind, folder, expected, tmp_path):
    (tmp_path / "sources").mkdir()
    source = tmp_path / "sources" / f"a.{kind}"
    if kind == "file":
        source = f"file://{folder}"
    elif kind == "csv":
        lines = [f"{photo},{photo.parent.name}" for photo in sorted(folder.glob("*/*.png"))]
        source.write_text("\n".join(["path,label", *lines]))
    else:
        (tar_shard if kind == "tar" else parquet_photos)(source, folder)
    learn(tmp_path / "m.gddsg", source)
    assert cards(learnt(tmp_path / "m.gddsg")) == expected


def test_features_of_large_classes_agree_in_predictions(tmp_path):
    rows, labels = features(900)
    path = npz(tmp_path / "f.npz", rows, labels)
    for workers in (1, 2):
        report = learn(tmp_path / f"{workers}.gddsg", path, workers=workers, backbone=None)
    assert report.learnt == {"elk": 300, "fox": 300, "owl": 300}
    one, two = learnt(tmp_path / "1.gddsg"), learnt(tmp_path / "2.gddsg")
    assert cards(one) == cards(two)
    import torch

    whole = Model(Settings(**SETTINGS))
    whole = whole.plus(whole.make_cards(torch.from_numpy(rows), labels.tolist()))
    asked, _ = features(300, seed=1)
    found, exact = (np.exp(model.predictor.predict_log_proba(asked)) for model in (one, whole))
    assert (found.argmax(1) == exact.argmax(1)).all()
    assert np.abs(found - exact).max() < 0.02
    again = learn(tmp_path / "1.gddsg", path, backbone=None)  # nobody can know that these are the same
    assert again.new_classes == ()
    assert learnt(tmp_path / "1.gddsg").cards["elk"].count == 600


def test_what_is_known_doubled_contradictory_or_damaged(folder, tmp_path):
    photos = photo_folder(tmp_path / "p", 6)
    (photos / "red" / "twin.png").write_bytes((photos / "red" / "000.png").read_bytes())
    (photos / "red" / "both.png").write_bytes(png(77, 1))
    (photos / "blue" / "both.png").write_bytes(png(77, 1))
    (photos / "blue" / "broken.png").write_bytes(png(78, 1)[:50])
    (photos / "notes.txt").write_text("in no class")
    path, other = tmp_path / "m.gddsg", tmp_path / "local.gddsg"
    with pytest.raises(DataError, match="Nothing was learnt"):
        learn(path, photos, strict=True)
    assert not path.exists()
    for _ in range(2):
        report, (model, local) = learn(path, photos), local_model(other, photos)
        assert (report.learnt, report.known, report.new_classes) == (local.learnt, local.known, local.new_classes)
        assert set(report.skipped) == set(local.skipped)
        assert cards(learnt(path)) == cards(model)
    assert report.learnt == {}


def test_more_photos_of_known_classes(folder, expected, tmp_path):
    first = photo_folder(tmp_path / "p", 4)
    learn(tmp_path / "m.gddsg", first)
    report = learn(tmp_path / "m.gddsg", folder)
    assert (report.learnt, report.known) == ({"blue": 5, "green": 5, "red": 5}, 12)
    local_model(tmp_path / "local.gddsg", first)
    model, _ = local_model(tmp_path / "local.gddsg", folder)
    assert cards(learnt(tmp_path / "m.gddsg")) == cards(model)


def test_a_model_that_changes_meanwhile_is_taken_as_it_is_then(folder, tmp_path):
    path = tmp_path / "m.gddsg"
    learn(path, folder / "red")
    told = []

    def forget_red(done, total):
        if not told:
            SharedModel(path).change(lambda model: model.plus({"kept": model.cards["red"]}).without("red"))
        told.append(done)

    report = learn(path, folder, progress=forget_red)
    # all photos of red have the label kept by now
    assert set(learnt(path).cards) == {"blue", "green", "kept"}
    assert [one.reason for one in report.skipped] == ["already learnt as 'kept'"] * 9


@pytest.mark.posix
def test_workers_that_are_killed_are_replaced(folder, expected, tmp_path):
    killed = []

    def kill_one(done, total):
        if len(killed) < 2 and done >= 8 * (len(killed) + 1):
            killed.append(_pid_of_a_worker())
            os.kill(killed[-1], signal.SIGKILL)

    report = learn(tmp_path / "m.gddsg", folder, workers=2, progress=kill_one, load=tiny.load_slow)
    assert len(killed) == 2
    assert cards(learnt(tmp_path / "m.gddsg")) == expected
    assert report.learnt == {"blue": 9, "green": 9, "red": 9}


def _pid_of_a_worker():
    pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _is_worker(one)]
    return max(pids)


def _is_worker(process):
    try:
        return (process / "cmdline").read_bytes().startswith(b"ray::_Actor") and _descends(process)
    except OSError:
        return False


def _descends(process):
    """From the Ray of these tests: others on the machine may have workers too."""
    while process.name not in ("0", "1"):
        parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
        if parent == str(os.getpid()):
            return True
        process = process.parent / parent
    return False


def test_checkpoints_of_other_sources_are_not_used(folder, tmp_path):
    kept = tmp_path / "kept"

    def interrupt(done, total):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "m.gddsg", folder, checkpoints=kept, progress=interrupt)
    assert list(kept.glob("*.part"))
    other = photo_folder(tmp_path / "p", 3)
    for photo in other.glob("*/*.png"):
        photo.write_bytes(png(5000 + int(photo.stem) + 10 * len(photo.parent.name), 1))
    report = learn(tmp_path / "other.gddsg", other, checkpoints=kept)
    assert report.computed == 9
    assert not kept.exists()


def test_an_interrupted_run_goes_on_from_what_is_stored(folder, expected, tmp_path):
    def interrupt(done, total):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "m.gddsg", folder, progress=interrupt)
    (kept,) = tmp_path.glob(".m.gddsg.checkpoints")
    stored = sorted(kept.glob("*.part"))
    assert stored
    stored[0].write_bytes(stored[0].read_bytes()[:-1])  # damaged, and hence done again
    report = learn(tmp_path / "m.gddsg", folder)
    assert 0 < report.computed <= 27 - 8 * (len(stored) - 1)
    assert cards(learnt(tmp_path / "m.gddsg")) == expected
    assert left(tmp_path / "m.gddsg") == ["m.gddsg"]


def test_what_cannot_be_learnt_is_refused(folder, tmp_path):
    rows, labels = features(90)
    model = tmp_path / "photos.gddsg"
    learn(model, folder)
    before = model.read_bytes()
    broken = rows.copy()
    broken[50, 3] = np.nan
    for path, source, kind, message in (
        (model, npz(tmp_path / "f.npz", rows, labels), BackboneError, "was learnt from photos"),
        (tmp_path / "x.gddsg", _bare(tmp_path / "n.npz", broken, labels), DataError, "rows 40 to 79: .*NaN"),
        (tmp_path / "no" / "x.gddsg", folder, InputError, "no folder"),
        (model, _renamed(tmp_path / "case", folder), DataError, "only in upper and lower case"),
    ):
        with pytest.raises(kind, match=message):
            learn(path, source, backbone=tiny.NAME if source != tmp_path / "f.npz" else None)
    assert model.read_bytes() == before
    learn(tmp_path / "f.gddsg", tmp_path / "f.npz", backbone=None)
    with pytest.raises(DataError, match="knows features of 12 numbers"):
        learn(tmp_path / "f.gddsg", npz(tmp_path / "w.npz", *features(30, dim=5)), backbone=None)
    with pytest.raises(InputError, match="workers=0"):
        learn(tmp_path / "f.gddsg", tmp_path / "f.npz", workers=0)
    with pytest.raises(BackboneError, match="features of an unknown backbone"):
        learn(tmp_path / "f.gddsg", folder)


def _bare(path, rows, labels):
    np.savez(path, train_features=rows, train_labels=labels)
    return path


def _renamed(path, folder):
    (path / "RED").mkdir(parents=True)
    (path / "RED" / "0.png").write_bytes(png(4000, 0))
    return path
