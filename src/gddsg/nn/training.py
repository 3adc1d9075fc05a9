"""The one training loop."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gddsg.errors import InputError, TrainingError
from gddsg.nn.checkpoint import Checkpoint, Kept
from gddsg.nn.processes import Processes, processes
from gddsg.nn.training_data import Batch, Samples

__all__ = ["Recipe", "TrainingProgress", "train", "watching"]

Schedule = Literal["constant", "cosine", "short-cosine", "warm-cosine", "exponential"]

_OPTIMISERS = ("sgd", "adam", "adamw")
_WARM_UP = 0.05  # of all steps
_DECAY = 0.95  # of an epoch


@dataclass(frozen=True)
class Recipe:
    """How something is trained.

    Attributes
    ----------
    epochs, batch_size : int
        How often all samples are seen, and how many at a time.
    rate : float
        Learning rate at first.
    optimiser : {"sgd", "adam", "adamw"}
        SGD with momentum 0.9, Adam, or Adam with weight decay apart from the gradient.
    schedule : {"constant", "cosine", "short-cosine", "warm-cosine", "exponential"}
        How the rate goes on from epoch to epoch: not at all, to zero after the last one, or to nearly zero in the last.
        The fourth changes it at every step: up from zero in the first twentieth of all, then to zero by a cosine. By
        the fifth every epoch has 0.95 times the rate of the one before.
    weight_decay : float
        Of all that is trained.
    augment : bool
        Whether every sample is a random part of its image, perhaps mirrored, anew each time.
    accumulate : int
        In how many parts a batch is computed, where memory is short; the result is the same.
    clip : float or None
        Largest length of the gradient, of all parameters together; longer ones are shortened to it.
    least_steps : int
        Of a training on few samples, for which the epochs of a large one would be over before anything is learnt: there
        are as many more epochs as it takes.
    """

    epochs: int
    batch_size: int
    rate: float
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    schedule: Schedule = "constant"
    weight_decay: float = 0.0
    augment: bool = True
    accumulate: int = 1
    clip: float | None = None
    least_steps: int = 0

    def check(self) -> None:
        """Refuse what cannot be trained by, with an :class:`gddsg.errors.InputError`."""
        for name, least in (("epochs", 1), ("batch_size", 1), ("accumulate", 1), ("least_steps", 0)):
            value = getattr(self, name)
            if not _is_number(value, int | np.integer) or value < least:
                raise InputError(f"{name}={value!r} was given; expected a whole number from {least}.")
        if not _is_number(self.rate) or not 0 < self.rate < math.inf:
            raise InputError(f"rate={self.rate!r} was given; expected a learning rate above 0, such as 0.01.")
        if not _is_number(self.weight_decay) or not 0 <= self.weight_decay < math.inf:
            raise InputError(f"weight_decay={self.weight_decay!r} was given; expected a number from 0, such as 0.0005.")
        if self.clip is not None and (not _is_number(self.clip) or not 0 < self.clip < math.inf):
            raise InputError(
                f"clip={self.clip!r} was given; expected the largest length of a gradient, above 0, or None."
            )
        for name, known in (("optimiser", _OPTIMISERS), ("schedule", get_args(Schedule)), ("augment", (False, True))):
            value = getattr(self, name)
            if not any(value is one or (isinstance(value, str) and value == one) for one in known):
                raise InputError(f"{name}={value!r} was given; expected {' or '.join(map(repr, known))}.")

    def changed_by(self, training: Any) -> Recipe:
        """The recipe with what ``training`` says otherwise, if it can be trained by.

        Parameters
        ----------
        training : mapping of str to object, or None
            Attributes by name.

        Raises
        ------
        InputError
            If it is no mapping, or names something else, or makes no sense.
        """
        if not isinstance(training, Mapping | None):
            raise InputError(f"training={training!r} was given; expected a mapping such as {{'epochs': 5}}.")
        known = [one.name for one in fields(self)]
        for name in training or {}:
            if name not in known:
                raise InputError(f"{name!r} is no part of a training recipe; expected some of {', '.join(known)}.")
        changed = replace(self, **(training or {}))
        changed.check()
        return changed

    def for_samples(self, n: int) -> Recipe:
        """The recipe with as many epochs as so many samples need."""
        return replace(self, epochs=max(self.epochs, math.ceil(self.least_steps / math.ceil(n / self.batch_size))))

    def rate_in(self, epoch: int, share: float = 0.0) -> float:
        """The learning rate in an epoch, counted from 0, of which a share is over."""
        if self.schedule == "warm-cosine":
            done = (epoch + share) / self.epochs
            if done < _WARM_UP:
                return self.rate * done / _WARM_UP
            return self.rate * (1 + math.cos(math.pi * (done - _WARM_UP) / (1 - _WARM_UP))) / 2
        if self.schedule == "cosine":
            return self.rate * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        if self.schedule == "short-cosine":
            return self.rate * math.cos(99 * math.pi * epoch / (200 * max(self.epochs - 1, 1)))
        if self.schedule == "exponential":
            return self.rate * _DECAY**epoch
        return self.rate


def _is_number(value: Any, kind: Any = int | float | np.integer | np.floating) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


@dataclass(frozen=True)
class TrainingProgress:
    """How far training has come.

    Attributes
    ----------
    epoch, epochs, step, steps : int
        Both counted from 1, the steps those of all epochs together.
    loss : float
        Of the last batch.
    samples_per_second, seconds_left : float
        By what this call has done so far.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    samples_per_second: float
    seconds_left: float


Watcher = Callable[[TrainingProgress], None]
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Meanwhile, in this thread, ``watcher`` is told of every step of a training."""
    before = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(before)


def train(
    loss: Callable[[Batch], Tensor],
    parameters: Sequence[nn.Parameter],
    data: Samples,
    recipe: Recipe,
    seed: Sequence[int],
    checkpoint: Checkpoint | None = None,
) -> None:
    """Change ``parameters`` so that the loss falls. The same seed gives the same parameters.

    Parameters
    ----------
    loss : callable
        Of a batch, the mean over its samples.
    parameters : sequence of Parameter
        What is trained, on the network's device.
    data : Samples
        What is learnt from.
    recipe : Recipe
        How.
    seed : sequence of int
        What the order of samples and the augmentation are drawn from.
    checkpoint : Checkpoint or None
        Where to keep what has been trained after every epoch, and to go on from; removed when all is done.

    Raises
    ------
    TrainingError
        If the loss or a parameter is no number any more; the parameters are then of no use.
    InputError
        If the recipe makes no sense, or nothing can be written to the checkpoint.
    """
    recipe.check()
    recipe = recipe.for_samples(len(data))
    run = _Run(loss, list(parameters), data, recipe, processes())
    progress = None if checkpoint is None else _OnDisk(run, checkpoint, seed)
    first = 0 if progress is None else progress.resume()
    clock = _Clock(recipe, len(data), first)
    for epoch in range(first, recipe.epochs):
        random = np.random.default_rng([*seed, epoch])
        order = random.permutation(len(data))
        for start in range(0, len(order), recipe.batch_size):
            run.set_rate(recipe.rate_in(epoch, start / len(order)))
            rows = order[start : start + recipe.batch_size]
            clock.tell(epoch, len(rows), run.step(rows, random))
        run.require_numbers()
        if progress is not None:
            progress.keep(epoch + 1)
    if progress is not None:
        progress.drop()


class _Run:
    """A training under way."""

    def __init__(
        self,
        loss: Callable[[Batch], Tensor],
        parameters: list[nn.Parameter],
        data: Samples,
        recipe: Recipe,
        team: Processes,
    ) -> None:
        self.parameters, self.data, self.recipe, self.team = parameters, data, recipe, team
        self.optimiser = _optimiser(parameters, recipe)
        self._loss = loss
        on_gpu = data.device.type == "cuda"
        # older GPUs compute bfloat16 too, only slowly
        half = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
        self._precision: Any = torch.autocast("cuda", dtype=half) if on_gpu else nullcontext()
        self.scaler = torch.amp.GradScaler("cuda", enabled=on_gpu and half is torch.float16)

    def set_rate(self, rate: float) -> None:
        """The learning rate from now on."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate

    def step(self, rows: NDArray[np.intp], random: np.random.Generator) -> float:
        """One step by the samples in those places; the loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        parts = np.array_split(rows, min(self.recipe.accumulate, len(rows)))
        own = sum(self._part_of_loss(part, len(rows), random) for part in parts)
        loss = self.team.add_up(own, self.parameters)
        if not math.isfinite(loss):
            raise self._astray("The loss")  # in all processes at once: none waits for another
        if self.recipe.clip is not None:
            self.scaler.unscale_(self.optimiser)
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return loss

    def _part_of_loss(self, rows: NDArray[np.intp], of_all: int, random: np.random.Generator) -> float:
        mine = self.team.share(len(rows))
        count = mine.stop - mine.start
        # where there are fewer samples than processes, one is looked at and counted for nothing
        batch = self.data.batch(rows, random, mine if count else slice(0, 1))
        with self._precision:
            value = self._loss(batch) * (count / of_all)
        self.scaler.scale(value).backward()
        return float(value.detach())

    def require_numbers(self) -> None:
        """The last step of all is followed by no loss that would show that it went wrong."""
        if not all(bool(one.detach().isfinite().all()) for one in self.parameters):
            raise self._astray("What is trained")

    def _astray(self, what: str) -> TrainingError:
        return TrainingError(
            f"{what} became NaN or infinite, so nothing was learnt from this batch; what was known before is as it "
            f"was. Lower the learning rate ({self.recipe.rate:g}), or look for damaged images."
        )


class _OnDisk:
    """How far a training has come, as a checkpoint has it; of several processes the first one writes."""

    def __init__(self, run: _Run, checkpoint: Checkpoint, seed: Sequence[int]) -> None:
        self._run, self._checkpoint, self._key = run, checkpoint, _key(run, seed)

    def resume(self) -> int:
        """Take over what there is; how many epochs that was."""
        run = self._run
        if run.team.place == 0:
            self._checkpoint.require_room()
        found = self._checkpoint.find(self._key, run.parameters)
        if not run.team.agree(0 if found is None else found.epochs) or found is None:
            return 0  # a disk that not all processes see is of no use
        run.optimiser.load_state_dict(found.optimiser)
        run.scaler.load_state_dict(found.scaler)
        with torch.no_grad():
            for one, kept in zip(run.parameters, found.parameters, strict=True):
                one.copy_(kept)
        return found.epochs

    def keep(self, epochs: int) -> None:
        """Write down what there is after so many epochs."""
        run = self._run
        if run.team.place == 0:
            tensors = [one.detach().cpu() for one in run.parameters]
            self._checkpoint.keep(
                self._key, Kept(epochs, tensors, run.optimiser.state_dict(), dict(run.scaler.state_dict()))
            )

    def drop(self) -> None:
        """It is not needed any more."""
        if self._run.team.place == 0:
            self._checkpoint.drop(self._key)


def _key(run: _Run, seed: Sequence[int]) -> bytes:
    """By which a checkpoint of this very training is known: data, recipe, seed, and what it began with."""
    found = hashlib.sha256(repr((asdict(run.recipe), [int(one) for one in seed])).encode() + run.data.digest())
    for one in run.parameters:
        found.update(repr(tuple(one.shape)).encode() + one.detach().cpu().numpy().tobytes())
    return found.digest()


def _optimiser(parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)
    if recipe.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(parameters, lr=recipe.rate, momentum=0.9, weight_decay=recipe.weight_decay)


class _Clock:
    """Tells the watcher, if there is one."""

    def __init__(self, recipe: Recipe, samples: int, first: int) -> None:
        self._epochs, self._steps = recipe.epochs, recipe.epochs * math.ceil(samples / recipe.batch_size)
        self._step, self._seen = self._steps // recipe.epochs * first, 0
        self._left = samples * (recipe.epochs - first)
        self._start, self._watcher = time.perf_counter(), _WATCHER.get()

    def tell(self, epoch: int, samples: int, loss: float) -> None:
        """A step by so many samples was taken in an epoch, counted from 0."""
        self._step, self._seen, self._left = self._step + 1, self._seen + samples, self._left - samples
        if self._watcher is None:
            return
        rate = self._seen / max(time.perf_counter() - self._start, 1e-9)
        self._watcher(TrainingProgress(epoch + 1, self._epochs, self._step, self._steps, loss, rate, self._left / rate))
