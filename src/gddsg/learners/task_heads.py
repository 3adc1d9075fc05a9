"""What learners share that were published for known tasks: a network and a head for every task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gddsg.core.label import Label
from gddsg.core.task_heads import Rule, among_all, check_rule, energies, fitted_temperature, log_odds
from gddsg.data.images import Images
from gddsg.errors import InputError
from gddsg.learners.base import FeatureLearner, Learnt, checked_images, like
from gddsg.nn.heads import LinearHead
from gddsg.nn.task_networks import MLP, SmallConvolutional, Standardisation, TaskNetwork, TaskTransformer
from gddsg.nn.training import Recipe, train
from gddsg.nn.training_data import Batch, Samples

__all__ = ["Layer", "Task", "TaskHeads", "TaskState", "Training", "kept"]


class Layer(Protocol):
    """What a task has of a layer, besides what all tasks share."""

    def weight(self, shared: Tensor) -> Tensor:
        """The layer's weight in the network of the task."""


P = TypeVar("P", bound=Layer)


@dataclass(frozen=True, eq=False)
class Task(Generic[P]):
    """A batch that has been learnt.

    Attributes
    ----------
    classes : tuple of int or str
        In the order of the rows of the head.
    layers : mapping of str to P
        The task's part of every layer, by the name of its weight.
    biases : mapping of str to Tensor
        Of its own, by name.
    head : mapping of str to Tensor
        ``weight`` and ``bias``.
    temperature : float
        What the scores of the head are divided by, see :func:`gddsg.core.task_heads.fitted_temperature`.
    """

    classes: tuple[Label, ...]
    layers: Mapping[str, P]
    biases: Mapping[str, Tensor]
    head: Mapping[str, Tensor]
    temperature: float = 1.0


@dataclass(frozen=True, eq=False)
class TaskState(Generic[P]):
    """All tasks, and what they share.

    Attributes
    ----------
    shared : mapping of str to Tensor
        The shared part of every layer, by the name of its weight.
    tasks : tuple of Task
        In the order in which they came.
    standardise : Standardisation or None
        That of the first task's features; None for images.
    """

    shared: Mapping[str, Tensor]
    tasks: tuple[Task[P], ...] = ()
    standardise: Standardisation | None = None

    @property
    def batches(self) -> int:
        """How many batches have been learnt."""
        return len(self.tasks)

    def weights(self, task: Task[P]) -> dict[str, Tensor]:
        """Those of the network of a task."""
        return {name: layer.weight(self.shared[name]) for name, layer in task.layers.items()} | dict(task.biases)


@dataclass(frozen=True, eq=False)
class Training:
    """What a method is given to learn a task from.

    Attributes
    ----------
    network : TaskNetwork
        A function of inputs and weights.
    data, held : Samples
        What is trained on, and what is held back to judge what has been trained; the latter may be empty.
    n_classes : int
        How many there are; targets are counted from 0.
    number : int
        Of the task, from 0.
    random : torch.Generator
        What training begins with is drawn from it.
    """

    network: TaskNetwork
    data: Samples
    held: Samples
    n_classes: int
    number: int
    random: torch.Generator

    def head(self) -> LinearHead:
        """A new head for the classes of the task."""
        return LinearHead(self.network.width, self.n_classes, self.random).to(self.network.device)

    def cross_entropy(self, batch: Batch, weights: Mapping[str, Tensor], head: nn.Module) -> Tensor:
        """Of a batch, among the classes of the task.

        Parameters
        ----------
        batch : Batch
            Some samples.
        weights : mapping of str to Tensor
            Of the network.
        head : Module
            On top of it.
        """
        return F.cross_entropy(head(self.network.features(batch.inputs, weights)), batch.targets)


class _ByNetwork:
    """Features for an MLP, as by default and hence for the class; images for any other network."""

    def __get__(self, learner: Any, owner: type[Any]) -> Literal["features", "images"]:
        return "features" if learner is None or learner.network == "mlp" else "images"


class TaskHeads(FeatureLearner[TaskState[P]]):
    """A learner to which a batch is a task: a network of its own, made of what is shared and little else, and a head.

    Such methods were published for known tasks. :meth:`predict_in_task` is told which classes are possible, as
    there; the protocol ``task-aware``, which is marked as leaking, asks it. ``predict`` is told nothing and picks among
    the heads of all tasks by ``rule``. Classes that come back are learnt as part of one more task, whose head knows
    them too; a class has the best score that any head gives it.

    Features are standardised by mean and deviation of the first task. Of every class ``held_out`` of its samples, as
    many whole ones as that makes, are held back from training, to find the temperature of the head.

    Attributes
    ----------
    recipe : Recipe
        How the method is trained, unless ``training`` says otherwise.
    network : str
        ``"mlp"`` on features; ``"conv"``, two convolutions and hidden layers on images of 32 × 32 pixels, both from
        nothing; or the name of a pre-trained ViT, see :func:`gddsg.nn.networks.load_network`, on images.
    hidden : sequence of int
        Widths of hidden layers; not of a ViT.
    rule : {"confidence", "energy"}
        How heads are compared: by the calibrated probability of the class, or by the energy of the head.
    held_out : float
        Share of samples, below 1; 0 for no temperature.
    training : mapping of str to object, or None
        What differs from ``recipe``, such as ``{"epochs": 5}``.
    seed : int
        Of all draws.
    """

    takes = _ByNetwork()
    recipe: ClassVar[Recipe]
    fixed_by_learning: ClassVar[tuple[str, ...]] = ("network", "hidden", "seed", "view")
    calibrated: ClassVar[bool] = False
    exempt: ClassVar[Mapping[str, str]] = {
        "arrival_order_does_not_matter": "a head tells apart the classes that come together, and no others",
        "sample_order_does_not_matter": "steps are taken by a few samples at a time, in an order drawn at random",
        "odd_classes_are_learnt": "a head of one class has nothing to tell apart, so that it knows no confidence",
    }
    network: str
    hidden: Sequence[int]
    rule: Rule
    held_out: float
    training: Mapping[str, Any] | None
    seed: int

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """A narrow network and short training."""
        return {"hidden": (16,), "training": {"epochs": 5, "least_steps": 24, "batch_size": 64, "rate": 0.03}}

    # ---------------------------------------------------------------- what a method says

    @abstractmethod
    def _learn(self, before: TaskState[P], training: Training) -> tuple[TaskState[P], Task[P]]:
        """What earlier tasks have become, and the new one, as yet without classes.

        Parameters
        ----------
        before : TaskState
            All tasks so far; without any, nothing is shared yet.
        training : Training
            The batch.
        """

    def _fit(
        self, loss: Callable[[Batch], Tensor], parameters: Sequence[nn.Parameter], training: Training, **changed: Any
    ) -> None:
        """Train ``parameters`` on a task; ``changed`` are parts of the recipe."""
        recipe = replace(self.recipe.changed_by(self.training), **changed)
        train(loss, parameters, training.data, recipe, (self.seed, training.number))

    # ---------------------------------------------------------------- learning

    def _next_state(self, state: TaskState[P] | None, inputs: Any, labels: Sequence[Label]) -> TaskState[P]:
        standardise = Standardisation.of(inputs) if state is None and self.takes == "features" else None
        before = state or TaskState({}, (), standardise)
        network, classes = self._network(before), tuple(dict.fromkeys(labels))
        targets = [classes.index(label) for label in labels]
        held = held_back(targets, self.held_out, np.random.default_rng([self.seed, before.batches]))
        augment = self.recipe.changed_by(self.training).augment
        data, other = (_samples(network, inputs, targets, rows, augment) for rows in (~held, held))
        random = torch.Generator().manual_seed(_number(self.seed, before.batches))
        training = Training(network, data, other, len(classes), before.batches, random)
        after, task = self._learn(before, training)
        new = replace(task, classes=classes, temperature=self._temperature(after, task, inputs, targets, held))
        return replace(after, tasks=(*after.tasks, new))

    def _temperature(
        self, state: TaskState[P], task: Task[P], inputs: Any, targets: Sequence[int], held: NDArray[np.bool_]
    ) -> float:
        """What the scores of a new task are divided by, found on samples that were held back."""
        if not held.any():
            return 1.0
        chosen = inputs[_rows(inputs, held)]
        scores = _scores(self._network(state), chosen, [(state.weights(task), task.head)])
        return fitted_temperature(scores, torch.from_numpy(np.array(targets)[held]))

    def _network(self, state: TaskState[P]) -> TaskNetwork:
        if state.standardise is not None:
            return MLP(state.standardise, self.hidden, self.device)
        if self.network == "conv":
            return SmallConvolutional(self.hidden, self.device)
        return TaskTransformer(self.network, self.device, type(self).__name__)

    # ---------------------------------------------------------------- prediction

    def predict_in_task(self, X: Any, classes: Sequence[Label]) -> Any:
        """Labels of inputs that are known to be of some classes: what the methods were published for.

        Nobody knows that in use. Where the classes are those of one task, its head alone is asked.

        Parameters
        ----------
        X : array_like or Images
            Inputs.
        classes : sequence of int or str
            Those that are possible; all of them learnt.
        """
        learnt = self._checked()
        known = learnt.classes.tolist()
        strange = [label for label in classes if label not in known]
        if strange or not len(classes):
            raise InputError(f"classes={list(classes)!r} were given; expected some of those learnt, {known!r}.")
        asked = [known.index(label) for label in classes]
        tasks = [task for task in learnt.state.tasks if set(task.classes) & set(classes)]
        scores = self._among(learnt, self._inputs(X, learnt), tasks)[:, asked]
        return like(learnt.classes[np.array(asked)[scores.argmax(1).numpy()]], X)

    def _log_probabilities(self, learnt: Learnt[TaskState[P]], inputs: Any) -> Tensor:
        return self._among(learnt, inputs, learnt.state.tasks).log_softmax(1)

    def _among(self, learnt: Learnt[TaskState[P]], inputs: Any, tasks: Sequence[Task[P]]) -> Tensor:
        """Scores ``(n, n_classes)`` of all classes by some of the heads, comparable among each other."""
        check_rule(self.rule)
        state, place = learnt.state, {label: i for i, label in enumerate(learnt.classes.tolist())}
        heads = [(state.weights(task), task.head) for task in tasks]
        tables = _scores(self._network(state), inputs, heads).split([len(task.classes) for task in tasks], dim=1)
        found = [self._comparable(table, task) for table, task in zip(tables, tasks, strict=True)]
        return among_all(found, [[place[label] for label in task.classes] for task in tasks], len(place))

    def _comparable(self, scores: Tensor, task: Task[P]) -> Tensor:
        return log_odds(scores, task.temperature) if self.rule == "confidence" else energies(scores)

    # ---------------------------------------------------------------- inputs and parameters

    def _read(self, X: Any, before: Learnt[TaskState[P]] | None) -> tuple[Any, Mapping[str, Any]]:
        if self.takes == "features":
            return super()._read(X, before)
        return checked_images(X), {}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_rule(self.rule)
        self._check_whole("seed", 0, 2**32 - 1)
        self._check_number("held_out", 0, 0.9)
        widths = self.hidden if isinstance(self.hidden, list | tuple) else ()
        if not widths or not all(isinstance(one, int | np.integer) and one >= 1 for one in widths):
            raise InputError(f"hidden={self.hidden!r} was given; expected widths of hidden layers, such as (512,).")
        recipe = self.recipe.changed_by(self.training)
        if recipe.augment and self.network in ("mlp", "conv"):
            raise InputError(f"augment=True was given with network={self.network!r}; expected the name of a ViT.")


def held_back(targets: Sequence[int], share: float, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which samples are held back, ``(n,)``: of every class as many whole ones as its share makes.

    Parameters
    ----------
    targets : sequence of int
        Classes of the samples.
    share : float
        Below 1, so that one of every class is left.
    random : numpy.random.Generator
        What they are drawn from.
    """
    found, classes = np.zeros(len(targets), dtype=bool), np.array(targets)
    for one in np.unique(classes):
        rows = random.permutation(np.flatnonzero(classes == one))
        found[rows[: int(share * len(rows))]] = True
    return found


def kept(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU that nobody changes any more."""
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def _samples(
    network: TaskNetwork, inputs: Any, targets: Sequence[int], rows: NDArray[np.bool_], augment: bool
) -> Samples:
    return network.samples(inputs[_rows(inputs, rows)], np.array(targets)[rows].tolist(), augment)


def _rows(inputs: Any, chosen: NDArray[np.bool_]) -> Any:
    return chosen if isinstance(inputs, Images) else torch.from_numpy(chosen).to(inputs.device)


def _number(*place: int) -> int:
    """A seed for every place that draws something."""
    (number,) = np.random.SeedSequence(place).generate_state(1, np.uint64)
    return int(number) >> 1


def _scores(
    network: TaskNetwork, inputs: Any, heads: Sequence[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]]
) -> Tensor:
    """Scores of some heads side by side, float64 on the CPU."""
    ready = [[_to(network, part) for part in one] for one in heads]

    def compute(prepared: Tensor) -> Tensor:
        tables = [F.linear(network.features(prepared, w), head["weight"], head["bias"]) for w, head in ready]
        return torch.cat(tables, dim=1)

    return network.answers(inputs, compute).double()


def _to(network: TaskNetwork, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(network.device, network.precision) for name, tensor in tensors.items()}
