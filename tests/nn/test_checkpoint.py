"""A training that is cut off goes on to the very same end; whatever else lies in the folder is neither used nor run."""

import os
import pickle
import signal
import subprocess
import sys
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.nn.toy_training import Toy, images_and_targets, near, same, trained

from gddsg.checks.samples import samples_for
from gddsg.data import Images
from gddsg.errors import InputError, TrainingError
from gddsg.learners import Finetune
from gddsg.nn.checkpoint import Checkpoint
from gddsg.nn.training import watching

if os.name == "posix":
    import resource

ROOT = Path(__file__).parents[2]


class CutOffError(Exception):
    pass


def cut_off_after(steps):
    """A loss that ends the training in the middle of an epoch; three steps are one."""

    def loss(toy, batch):
        if len(toy.rows) >= steps:
            raise CutOffError
        return toy.loss(batch)

    return loss


def cut_off(folder, steps=7, **how):
    with pytest.raises(CutOffError):
        trained(checkpoint=Checkpoint(folder), loss=cut_off_after(steps), **how)
    (file,) = folder.glob("*.checkpoint")
    return file


def steps_of(folder, **how):
    """The toy, and how many steps were taken."""
    told = []
    with watching(told.append):
        toy = trained(checkpoint=Checkpoint(folder), **how)
    return toy, told


@pytest.mark.parametrize("how", [{}, {"optimiser": "adam", "rate": 0.01}, {"augment": True, "schedule": "cosine"}])
def test_what_was_cut_off_goes_on_to_the_same_parameters_bit_for_bit(tmp_path, how):
    expected = trained(**how)
    cut_off(tmp_path, **how)
    toy, told = steps_of(tmp_path, **how)
    assert same(toy, expected)
    assert [(one.epoch, one.step, one.steps) for one in told] == [(3 + i // 3, 7 + i, 12) for i in range(6)]
    assert told[-1].seconds_left == 0
    assert list(tmp_path.iterdir()) == []  # done: nothing is left


def test_it_may_be_cut_off_again_and_again(tmp_path):
    for steps in (2, 4, 5, 3):  # of each attempt
        with pytest.raises(CutOffError):
            trained(checkpoint=Checkpoint(tmp_path), loss=cut_off_after(steps))
    toy, told = steps_of(tmp_path)
    assert len(told) == 12 - 3 * 3
    assert same(toy, trained())


KILLED = """
import sys, time
from pathlib import Path
from tests.nn.toy_training import trained
from gddsg.nn.checkpoint import Checkpoint
from gddsg.nn.training import watching

def wait_in_the_third_epoch(progress):
    if progress.step == 8:
        print("here", flush=True)
        time.sleep(600)

with watching(wait_in_the_third_epoch):
    trained(checkpoint=Checkpoint(sys.argv[1]))
"""


@pytest.mark.posix
def test_a_process_that_is_killed_leaves_what_another_goes_on_with(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout.readline() == "here\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    toy, told = steps_of(tmp_path)
    assert len(told) == 6
    assert same(toy, trained())


def test_a_learner_that_is_cut_off_goes_on(tmp_path):
    parameters = Finetune.test_params()
    known = samples_for(Finetune(), 3, 8)
    expected = Finetune(**parameters).fit(known.inputs, known.labels).predict_proba(known.fresh)
    learner = Finetune(**parameters, checkpoints=str(tmp_path / "kept"))

    def stop(progress):
        if progress.epoch == 5:
            raise CutOffError

    with watching(stop), pytest.raises(CutOffError):
        learner.fit(known.inputs, known.labels)
    told = []
    with watching(told.append):
        learner.fit(known.inputs, known.labels)
    assert told[0].epoch == 5
    assert np.array_equal(learner.predict_proba(known.fresh), expected)
    assert list((tmp_path / "kept").iterdir()) == []


# What is not used.


OTHERS = {
    "seed": {"seed": (1,)},
    "rate": {"rate": 0.04},
    "epochs": {"epochs": 5},
    "batch size": {"batch_size": 7},
    "augmentation": {"augment": True},
    "images": {"data": (images_and_targets(seed=1)[0], images_and_targets()[1])},
    "targets": {"data": (images_and_targets()[0], images_and_targets()[1][::-1])},
}


def beginning_elsewhere():
    toy = Toy()
    with torch.no_grad():
        toy.head.bias += 1e-3
    return toy


@pytest.mark.parametrize("other", [*OTHERS, "beginning", "one pixel"])
def test_a_training_that_differs_in_anything_begins_anew(tmp_path, other):
    how = OTHERS.get(other, {})
    if other == "one pixel":
        images, targets = images_and_targets()
        pixels = images.pixels(8).copy()
        pixels[5, 3, 3, 1] ^= 1
        how = {"data": (Images.of(pixels), targets)}
    begun = beginning_elsewhere if other == "beginning" else Toy
    cut_off(tmp_path)
    toy, told = steps_of(tmp_path, toy=begun(), **how)
    assert (told[0].epoch, told[0].step) == (1, 1)
    assert same(toy, trained(toy=begun(), **how))
    assert len(list(tmp_path.iterdir())) == 1  # that of the training that was cut off is still there


def test_two_trainings_share_a_folder(tmp_path):
    cut_off(tmp_path)
    with pytest.raises(CutOffError):
        trained(checkpoint=Checkpoint(tmp_path), loss=cut_off_after(7), seed=(1,))
    assert len(list(tmp_path.glob("*.checkpoint"))) == 2
    for seed in ((0,), (1,)):
        toy, told = steps_of(tmp_path, seed=seed)
        assert len(told) == 6
        assert same(toy, trained(seed=seed))


class Runs:
    """What a pickle would call if anybody loaded it as one."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def foreign_files(content, evidence):
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    yield "empty", b""
    yield "no more than a beginning", content[:10]
    yield "truncated", content[: len(content) // 2]
    yield "without its last byte", content[:-1]
    yield "with a byte too many", content + b"\0"
    yield "a bit flipped", bytes(flipped)
    yield "text", b"epochs: 3\n"
    yield "a pickle that runs", pickle.dumps({"key": "", "epochs": Runs(evidence)})


def test_damaged_and_foreign_files_are_as_good_as_none_and_never_run(tmp_path):
    expected, evidence = trained(), tmp_path / "it was run"
    kept = tmp_path / "kept"
    file = cut_off(kept)
    for what, content in foreign_files(file.read_bytes(), evidence):
        file.write_bytes(content)
        toy, told = steps_of(kept)
        assert len(told) == 12, what
        assert same(toy, expected), what
    assert not evidence.exists()


def test_a_forged_file_with_a_right_digest_runs_nothing_either(tmp_path):
    evidence, kept = tmp_path / "it was run", tmp_path / "kept"
    file = cut_off(kept)
    forged = BytesIO()
    torch.save({"key": Runs(evidence), "epochs": 3}, forged)
    file.write_bytes(file.read_bytes()[:17] + sha256(forged.getvalue()).digest() + forged.getvalue())
    assert len(steps_of(kept)[1]) == 12
    assert not evidence.exists()
    torch.load(BytesIO(forged.getvalue()), weights_only=False)  # as it would have been
    assert evidence.exists()


def test_the_file_of_another_training_under_our_name_is_not_used(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    file, foreign = cut_off(one), cut_off(other, seed=(1,))
    assert file.name != foreign.name
    foreign.replace(file)
    toy, told = steps_of(one)
    assert len(told) == 12
    assert same(toy, trained())


@pytest.mark.posix
def test_a_folder_or_a_pipe_in_place_of_the_file_does_no_harm(tmp_path):
    file = cut_off(tmp_path)
    for make in (Path.mkdir, os.mkfifo):
        file.unlink()
        make(file)
        with pytest.warns(UserWarning, match="could not be kept"):
            toy, told = steps_of(tmp_path)
        assert len(told) == 12
        assert same(toy, trained())
        file.rmdir() if file.is_dir() else file.unlink(missing_ok=True)
        file.touch()


# Where nothing can be written.


def test_a_folder_that_cannot_be_one_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    toy = Toy()
    with pytest.raises(InputError, match=r"checkpoints=.*file.*nothing can be written"):
        trained(checkpoint=Checkpoint(tmp_path / "file" / "kept"), toy=toy)
    assert toy.rows == []


@pytest.mark.posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_for_reading_only_is_refused_before_the_training(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="nothing can be written"):
        trained(checkpoint=Checkpoint(tmp_path))


@pytest.mark.posix
def test_a_disk_that_is_full_later_on_costs_the_checkpoint_and_not_the_training(tmp_path):
    """A limit on the size of files stands for the disk: it fails in the same place, while the file is written."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.warns(UserWarning, match=r"could not be kept .*File too large.* It goes on"):
            toy, _ = steps_of(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert same(toy, trained())
    assert list(tmp_path.iterdir()) == []


def test_what_has_gone_astray_is_never_kept(tmp_path):
    def astray(toy, batch):
        return toy.loss(batch) * (float("nan") if len(toy.rows) >= 5 else 1)

    with pytest.raises(TrainingError):
        trained(checkpoint=Checkpoint(tmp_path), loss=astray)
    toy, told = steps_of(tmp_path)
    assert told[0].epoch == 2
    assert near(toy, trained())
