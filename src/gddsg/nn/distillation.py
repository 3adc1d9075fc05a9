"""Pre-training of a compact hybrid ViT without a hub: the network that its stem is a part of teaches it.

The knowledge comes from the teacher's probabilities and features, as in G. Hinton, O. Vinyals and J. Dean, *Distilling
the Knowledge in a Neural Network*, 2015 (https://arxiv.org/abs/1503.02531). The stem is frozen and a map is all that a
student sees of a photo, so maps are computed once and nothing but the transformer is run again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.backbones import cache_folder
from gddsg.backbones.efficientnet_lite_network import CLASSES
from gddsg.backbones.efficientnet_lite_shape import FEATURE_DIM
from gddsg.backbones.huggingface import quiet_transformers
from gddsg.backbones.hybrid_vit import STEM_FILE, class_token, is_hybrid, write_hybrid
from gddsg.backbones.stem import MAP_CHANNELS, MAP_SIDE, Stem
from gddsg.data.dataset import Skipped
from gddsg.data.photo import Photo
from gddsg.errors import DataError, InputError
from gddsg.files import LockedError, locked
from gddsg.nn.checkpoint import Checkpoint
from gddsg.nn.lessons import TARGETS, Lessons, MapSamples
from gddsg.nn.model_card import Origin, model_card
from gddsg.nn.training import Recipe, train
from gddsg.nn.training_data import Batch
from gddsg.wording import counted

__all__ = ["LEAST_PHOTOS", "Plan", "Pretrained", "Student", "new_vit", "pretrain"]

LEAST_PHOTOS = 32
"""With fewer there is nothing to learn."""

_HEAD_WIDTH = 64
_FEATURES_WEIGHT, _LABELS_WEIGHT = 3.0, 0.5
_JUDGED, _AT_ONCE = 1024, 64


@dataclass(frozen=True)
class Plan:
    """What is trained, and how.

    Attributes
    ----------
    epochs, batch_size : int
        How often all photos are seen, and how many at a time.
    blocks, width : int
        Of the transformer; a head is 64 wide, and the MLP four times as wide as a token.
    rate, weight_decay, clip : float
        Of AdamW, with a warm-up and a cosine; the largest length of a gradient.
    seed : int
        Of weights, order and mirroring.
    """

    epochs: int = 12
    batch_size: int = 64
    blocks: int = 6
    width: int = 192
    rate: float = 1e-3
    weight_decay: float = 0.05
    clip: float = 1.0
    seed: int = 0

    @property
    def heads(self) -> int:
        """Attention heads of a block."""
        return self.width // _HEAD_WIDTH

    @property
    def recipe(self) -> Recipe:
        """For the training loop."""
        return Recipe(
            self.epochs,
            self.batch_size,
            self.rate,
            optimiser="adamw",
            schedule="warm-cosine",
            weight_decay=self.weight_decay,
            augment=False,
            clip=self.clip,
        )


@dataclass(frozen=True)
class Pretrained:
    """What came of a pre-training.

    Attributes
    ----------
    folder : Path
        Where the transformer is; ``hf:FOLDER`` is the name of the backbone.
    origin : Origin
        How it was made.
    skipped : tuple of Skipped
        Photos that could not be read.
    """

    folder: Path
    origin: Origin
    skipped: tuple[Skipped, ...]


class Student(nn.Module):
    """The transformer, and the linear maps by which it is compared with its teacher.

    Parameters
    ----------
    vit : ViTModel
        That takes maps of the stem.
    classes : int
        Of the photos; with one there are no labels to learn.
    """

    def __init__(self, vit: Any, classes: int) -> None:
        super().__init__()
        self.vit = vit
        width = int(vit.config.hidden_size)
        self.to_logits = nn.Linear(width, CLASSES)
        self.to_roots = nn.Linear(width, FEATURE_DIM)
        self.to_labels = nn.Linear(width, classes) if classes > 1 else None

    def loss(self, batch: Batch) -> Tensor:
        """``KL(teacher ‖ student) + 3 · MSE(square-root features) + 0.5 · CE(labels)``, the mean over the samples."""
        token = class_token(self.vit, batch.inputs)
        logits, roots, labels = batch.targets.split(TARGETS, dim=1)
        ours, theirs = F.log_softmax(self.to_logits(token), dim=1), F.log_softmax(logits, dim=1)
        found = F.kl_div(ours, theirs, log_target=True, reduction="batchmean")
        found = found + _FEATURES_WEIGHT * F.mse_loss(self.to_roots(token), roots)
        if self.to_labels is None:
            return found
        return found + _LABELS_WEIGHT * F.cross_entropy(self.to_labels(token), labels[:, 0].long())


def new_vit(blocks: int, width: int) -> Any:
    """A ``ViTModel`` of Hugging Face for maps of the stem, with weights drawn at random.

    Parameters
    ----------
    blocks, width : int
        How many blocks, and the width of a token, a multiple of 64.
    """
    if blocks < 1 or width < _HEAD_WIDTH or width % _HEAD_WIDTH:
        raise InputError(
            f"{counted(blocks, 'block')} of width {width} were asked for; expected at least one block, and a width "
            "of 64, 128, 192 or any other multiple of 64."
        )
    with quiet_transformers() as transformers:
        config = transformers.ViTConfig(
            image_size=MAP_SIDE,
            patch_size=1,
            num_channels=MAP_CHANNELS,
            hidden_size=width,
            num_hidden_layers=blocks,
            num_attention_heads=width // _HEAD_WIDTH,
            intermediate_size=4 * width,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        return transformers.ViTModel(config, add_pooling_layer=False)


def pretrain(
    photos: Sequence[Photo],
    out: Path,
    plan: Plan | None = None,
    *,
    about: str = "",
    overwrite: bool = False,
    strict: bool = False,
    device: str = "cpu",
    tell: Callable[[int, int], None] | None = None,
) -> Pretrained:
    """Train a hybrid ViT and write it to a folder, in one step. A call that was killed goes on where it was.

    Meanwhile maps and a checkpoint are in a folder beside it, ``OUT.training``, 36 kB a photo.
    :func:`gddsg.nn.training.watching` tells of the steps.

    Parameters
    ----------
    photos : sequence of Photo
        What it looks at; their labels are learnt, too, where there are two classes or more.
    out : Path
        A folder that is not there yet.
    plan : Plan or None
        What is trained, and how.
    about : str
        What the photos are, for the model card.
    overwrite : bool
        Whether a hybrid ViT that is in ``out`` already is replaced; nothing else ever is.
    strict : bool
        Whether a photo that cannot be read is an error; it is left out otherwise.
    device : str
        Torch device.
    tell : callable or None
        Called with the number of photos whose maps are computed, and that of all.

    Raises
    ------
    DataError
        If there are too few photos that can be read.
    InputError
        If there is something in ``out``, or a part of the plan makes no sense.
    TrainingError
        If the loss is no number any more.
    """
    plan = plan or Plan()
    plan.recipe.check()
    _require_room(out, overwrite)
    _require_enough(len(photos), 0)
    with torch.random.fork_rng(devices=[]):  # nobody else's generator is touched
        torch.manual_seed(plan.seed)
        vit = new_vit(plan.blocks, plan.width)  # before anything takes long
        with _own_folder(out) as work:
            stem = Stem(device, cache_folder())
            lessons = Lessons(work, photos, stem)
            lessons.fill(tell)
            skipped = lessons.skipped()
            _require_readable(skipped, len(photos), strict)
            samples = lessons.samples(device)
            student = Student(vit, samples.classes).to(device).train()
            train(student.loss, list(student.parameters()), samples, plan.recipe, [plan.seed], _checkpoint(work))
            origin = _origin(plan, samples, student.eval(), about)
            finished = work / "finished"
            shutil.rmtree(finished, ignore_errors=True)
            finished.mkdir()
            write_hybrid(finished, student.vit.cpu(), model_card(origin), cache_folder())
            _put_in_place(finished, out, work / "before")
            del lessons, samples  # they have files open, which Windows would keep
            shutil.rmtree(work, ignore_errors=True)
    return Pretrained(out, origin, tuple(skipped))


def _checkpoint(work: Path) -> Checkpoint:
    return Checkpoint(work / "checkpoint")


@contextlib.contextmanager
def _own_folder(out: Path) -> Iterator[Path]:
    """The folder for what is on its way to ``out``, which no other process works in."""
    work = out.with_name(out.name + ".training")
    try:
        with locked(work, wait=False):
            work.mkdir(exist_ok=True)
            yield work
    except LockedError as error:
        raise InputError(
            f"Another process is training for {out} already. Wait for it, or name another folder."
        ) from error


def _require_room(out: Path, overwrite: bool) -> None:
    if not out.parent.is_dir():
        raise InputError(f"{out} was given to write to, but there is no folder {out.parent}. Make it first.")
    if not out.exists() and not out.is_symlink():
        return
    if overwrite and is_hybrid(str(out)):
        return
    remedy = (
        f"what is replaced has to be a hybrid ViT, with a file {STEM_FILE}. Name another folder."
        if overwrite
        else "name another, or say --overwrite if it holds a hybrid ViT that is of no use any more."
    )
    raise InputError(f"{out} exists; expected a folder that is not there yet: {remedy}")


def _require_enough(readable: int, skipped: int) -> None:
    if readable < LEAST_PHOTOS:
        left_out = f" ({counted(skipped, 'photo')} could not be read)" if skipped else ""
        raise DataError(
            f"There {'is' if readable == 1 else 'are'} {counted(readable, 'photo')} to learn from{left_out}; expected "
            f"{LEAST_PHOTOS} at least, and thousands for a network that is of any use."
        )


def _require_readable(skipped: Sequence[Skipped], photos: int, strict: bool) -> None:
    if strict and skipped:
        raise DataError(
            f"{counted(len(skipped), 'photo')} cannot be read, the first of them {skipped[0].name}: "
            f"{skipped[0].reason}. Mend or remove them, or leave --strict out."
        )
    _require_enough(photos - len(skipped), len(skipped))


def _origin(plan: Plan, samples: MapSamples, student: Student, about: str) -> Origin:
    return Origin(
        photos=len(samples),
        classes=samples.classes,
        about=f" ({about})" if about else "",
        blocks=plan.blocks,
        width=plan.width,
        heads=plan.heads,
        parameters=sum(one.numel() for one in student.vit.parameters()),
        epochs=plan.epochs,
        batch_size=plan.batch_size,
        rate=plan.rate,
        weight_decay=plan.weight_decay,
        clip=plan.clip,
        seed=plan.seed,
        agreement=_agreement(samples, student),
    )


def _agreement(samples: MapSamples, student: Student) -> float:
    """Share of some samples that student and teacher take for the same class of ImageNet."""
    some = np.unique(np.linspace(0, len(samples) - 1, _JUDGED).round().astype(np.intp))
    agreed = 0
    with torch.inference_mode():
        for start in range(0, len(some), _AT_ONCE):
            rows = some[start : start + _AT_ONCE]
            found = student.to_logits(class_token(student.vit, samples.maps(rows).to(samples.device)))
            agreed += int((found.argmax(dim=1).cpu().numpy() == samples.predicted(rows)).sum())
    return agreed / len(some)


def _put_in_place(finished: Path, out: Path, before: Path) -> None:
    if out.exists():
        shutil.rmtree(before, ignore_errors=True)
        out.rename(before)
    finished.rename(out)
