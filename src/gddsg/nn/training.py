"""The one training loop."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gddsg.data.images import Images
from gddsg.errors import InputError, TrainingError
from gddsg.nn.checkpoint import Checkpoint
from gddsg.nn.networks import Network
from gddsg.nn.processes import Processes, processes

__all__ = ["Batch", "Recipe", "Samples", "TrainingData", "TrainingProgress", "check_recipe", "train", "watching"]

Schedule = Literal["constant", "cosine", "short-cosine", "warm-cosine"]

_CACHE_BYTES = 2**32
_WARM_UP = 0.05  # of all steps
_LOOKED_AT = 8  # samples by which a checkpoint knows its data again


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
    schedule : {"constant", "cosine", "short-cosine", "warm-cosine"}
        How the rate goes on from epoch to epoch: not at all, to zero after the last one, or to nearly zero in the last.
        The fourth changes it at every step: up from zero in the first twentieth of all, then to zero by a cosine.
    weight_decay : float
        Of all that is trained.
    augment : bool
        Whether every sample is a random part of its image, perhaps mirrored, anew each time.
    accumulate : int
        In how many parts a batch is computed, where memory is short; the result is the same.
    clip : float or None
        Largest length of the gradient, of all parameters together; longer ones are shortened to it.
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
        return self.rate


@dataclass(frozen=True, eq=False)
class Batch:
    """Some samples, on the network's device.

    Attributes
    ----------
    inputs : Tensor
        What :meth:`gddsg.nn.networks.Network.features` takes.
    targets : Tensor
        One row a sample; of :class:`TrainingData` whole numbers ``(n,)``.
    rows : ndarray
        Places of the samples among all, ``(n,)``.
    """

    inputs: Tensor
    targets: Tensor
    rows: NDArray[np.intp]


class Samples(Protocol):
    """What a training learns from."""

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Where batches are."""

    def batch(self, rows: NDArray[np.intp], random: np.random.Generator) -> Batch:
        """The samples in those places; what is drawn is drawn from ``random``."""

    def digest(self) -> bytes:
        """By which the same samples are known again."""


class TrainingData:
    """Images and what they are, batch by batch; without augmentation each is prepared once.

    Parameters
    ----------
    network : Network
        Whose inputs they become.
    images : Images
        The samples.
    targets : sequence of int
        One a sample.
    augment : bool
        See :class:`Recipe`.
    """

    def __init__(self, network: Network, images: Images, targets: Sequence[int], augment: bool) -> None:
        self.network, self.images, self.augment = network, images, augment
        self.targets = torch.tensor(targets, dtype=torch.long)
        self._prepared = None if augment else self._prepared_at_once()

    def __len__(self) -> int:
        return len(self.images)

    @property
    def device(self) -> torch.device:
        """That of the network."""
        return self.network.device

    def _prepared_at_once(self) -> Tensor | None:
        one = self.network.prepare(self.images[:1])
        return self.network.prepare(self.images) if one.nbytes * len(self) <= _CACHE_BYTES else None

    def batch(self, rows: NDArray[np.intp], random: np.random.Generator) -> Batch:
        """The samples in those places."""
        if self._prepared is not None:
            inputs = self._prepared[torch.from_numpy(rows)]
        else:
            inputs = self.network.prepare(self.images[rows], random if self.augment else None)
        device = self.network.device
        return Batch(inputs.to(device), self.targets[torch.from_numpy(rows)].to(device), rows)

    def digest(self) -> bytes:
        """By which the same data are known again: all targets, and some samples."""
        some = np.linspace(0, len(self) - 1, min(len(self), _LOOKED_AT)).round().astype(np.intp)
        inputs = self.network.prepare(self.images[some]).numpy()
        found = hashlib.sha256(self.network.identity.encode())
        for part in (self.targets.numpy(), inputs):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.digest()


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
        Most often :class:`TrainingData`.
    recipe : Recipe
        How.
    seed : sequence of int
        What the order of samples and the augmentation are drawn from.
    checkpoint : Checkpoint or None
        Where to keep what has been trained after every epoch, and to go on from.

    Raises
    ------
    TrainingError
        If the loss is no number any more; the parameters are then of no use.
    """
    check_recipe(recipe)
    run = _Run(loss, list(parameters), data, recipe, processes())
    first = 0 if checkpoint is None else checkpoint.restore(run.key(seed), run.parameters, run.optimiser)
    clock = _Clock(recipe, len(data), first)
    for epoch in range(first, recipe.epochs):
        random = np.random.default_rng([*seed, epoch])
        order = random.permutation(len(data))
        for start in range(0, len(order), recipe.batch_size):
            for group in run.optimiser.param_groups:
                group["lr"] = recipe.rate_in(epoch, start / len(order))
            clock.tell(epoch, run.step(order[start : start + recipe.batch_size], random))
        if checkpoint is not None:
            checkpoint.keep(run.key(seed), epoch + 1, run.parameters, run.optimiser)


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe that makes no sense.

    Parameters
    ----------
    recipe : Recipe
        How something is to be trained.
    """
    for name in ("epochs", "batch_size", "accumulate"):
        value = getattr(recipe, name)
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name}={value!r} was given; expected a whole number from 1.")
    if not 0 < recipe.rate < math.inf:
        raise InputError(f"rate={recipe.rate!r} was given; expected a learning rate above 0, such as 0.01.")


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
        self.parameters, self._begun = parameters, [one.detach().cpu().clone() for one in parameters]
        self.optimiser = _optimiser(parameters, recipe)
        self._loss, self._data, self._recipe, self._team = loss, data, recipe, team
        on_gpu = data.device.type == "cuda"
        half = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float16
        self._precision: Any = torch.autocast("cuda", dtype=half) if on_gpu else nullcontext()
        self._scaler = torch.amp.GradScaler("cuda", enabled=on_gpu and half is torch.float16)

    def key(self, seed: Sequence[int]) -> bytes:
        """By which a checkpoint of this very training is known: data, recipe, seed, and what it began with."""
        found = hashlib.sha256(repr((self._recipe, list(seed))).encode() + self._data.digest())
        for one in self._begun:
            found.update(one.numpy().tobytes())
        return found.digest()

    def step(self, rows: NDArray[np.intp], random: np.random.Generator) -> float:
        """One step by the samples in those places; the loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        total = 0.0
        for part in np.array_split(rows, min(self._recipe.accumulate, len(rows))):
            batch = self._data.batch(part, random)
            mine, share = self._team.part(batch), len(part) / len(rows)
            with self._precision:
                value = self._loss(mine) * (share * len(mine.rows) / len(part))
            if not bool(torch.isfinite(value.detach())):
                raise TrainingError(
                    "The loss became NaN or infinite, so nothing was learnt from this batch; what was known before is "
                    f"as it was. Lower the learning rate ({self._recipe.rate:g}), or look for damaged images."
                )
            self._scaler.scale(value).backward()
            total += float(value.detach())
        self._team.add_up(self.parameters)
        if self._recipe.clip is not None:
            self._scaler.unscale_(self.optimiser)
            nn.utils.clip_grad_norm_(self.parameters, self._recipe.clip)
        self._scaler.step(self.optimiser)
        self._scaler.update()
        return total


def _optimiser(parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)
    if recipe.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(parameters, lr=recipe.rate, momentum=0.9, weight_decay=recipe.weight_decay)


class _Clock:
    """Tells the watcher, if there is one."""

    def __init__(self, recipe: Recipe, samples: int, first: int) -> None:
        self._recipe, self._samples = recipe, samples
        self._an_epoch = math.ceil(samples / recipe.batch_size)
        self._step, self._first = first * self._an_epoch, first * self._an_epoch
        self._start, self._watcher = time.perf_counter(), _WATCHER.get()

    def tell(self, epoch: int, loss: float) -> None:
        self._step += 1
        if self._watcher is None:
            return
        steps, taken = self._recipe.epochs * self._an_epoch, time.perf_counter() - self._start
        rate = (self._step - self._first) / taken  # steps a second
        samples = rate * self._samples / self._an_epoch
        left = (steps - self._step) / rate
        self._watcher(TrainingProgress(epoch + 1, self._recipe.epochs, self._step, steps, loss, samples, left))
