"""HALRP: every task as scaled rows and columns of a base, plus a residual of low rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from gddsg.core.task_heads import Rule
from gddsg.core.transform import View
from gddsg.learners.task_heads import Task, TaskHeads, TaskState, Training, kept
from gddsg.nn.heads import LinearHead
from gddsg.nn.low_rank import LowRank, choose_ranks, factors, perturbed, pruned, scaled, scales, singular
from gddsg.nn.training import Recipe
from gddsg.nn.training_data import Batch

Parts = tuple[nn.Parameter, nn.Parameter, nn.Parameter, nn.Parameter]

_AT_ONCE = 128


class HALRP(TaskHeads[LowRank]):
    """Hessian Aware Low-Rank Perturbation (Li et al., ICML 2024).

    The first task trains the base W. A later one has the weights ``diag(r) W diag(s) + U V``:

    1. a copy of the base is trained on the task for a short time, without any restriction;
    2. r and s are the scales with which the base comes nearest to it, by least squares;
    3. the residual is decomposed into singular directions; of all layers together the fewest are taken that carry
       ``approximation`` of ``importance · σ²``, with the mean squared gradient for the importance of a layer;
    4. r, s, U, V, biases and a head are trained, while W stays;
    5. the smallest entries of U and V are dropped, so that the task adds at most ``growth`` times as many numbers as
       the base has, and what is left is trained a little longer. Biases and heads, which every task has anyway, are not
       counted.

    Nothing of an earlier task is touched: what its head answers never changes, not by a bit.

    Parameters
    ----------
    approximation : float
        Share of the residuals' worth that is kept, from 0 to 1.
    largest_rank : int
        Of a layer.
    growth : float
        Numbers that a task may add, as a share of those of the base. The published bound is on all tasks together,
        whose number nobody knows: 0.2 to 0.6 for ten of them, that is 0.02 to 0.06 for each.
    estimation_epochs : int
        Of the free copy; published are 1 to 25, by data set.
    refinement_epochs : int
        Of what is left after pruning; 0 as published.
    sparsity : float
        Weight of ``‖U‖₁ + ‖V‖₁``.
    decay : float
        Weight of ``½ ‖·‖²`` of what is trained of the weights.
    network, hidden, rule, held_out, training, view, seed, device
        See :class:`gddsg.learners.task_heads.TaskHeads`.

    Examples
    --------
    >>> import numpy as np
    >>> animals = np.array([[5.0, 0, 0], [4, 1, 0], [0, 5, 0], [1, 4, 0]])
    >>> model = HALRP(hidden=(16,)).partial_fit(animals, ["cat", "cat", "dog", "dog"])
    >>> str(model.predict([[6.0, 0, 0]])[0])
    'cat'

    References
    ----------
    https://arxiv.org/abs/2311.15161
    """

    recipe: ClassVar[Recipe] = Recipe(20, 128, 1e-3, "adam", "exponential", augment=False, least_steps=120)

    def __init__(
        self,
        approximation: float = 0.9,
        largest_rank: int = 100,
        growth: float = 0.05,
        estimation_epochs: int = 5,
        refinement_epochs: int = 10,
        sparsity: float = 1e-4,
        decay: float = 1e-4,
        network: str = "mlp",
        hidden: Sequence[int] = (256,),
        rule: Rule = "confidence",
        held_out: float = 0.2,
        training: Mapping[str, Any] | None = None,
        view: View = "raw",
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.approximation = approximation
        self.largest_rank = largest_rank
        self.growth = growth
        self.estimation_epochs = estimation_epochs
        self.refinement_epochs = refinement_epochs
        self.sparsity = sparsity
        self.decay = decay
        self.network = network
        self.hidden = hidden
        self.rule = rule
        self.held_out = held_out
        self.training = training
        self.view = view
        self.seed = seed
        self.device = device

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Short trainings of everything."""
        return {**super().test_params(), "estimation_epochs": 1, "refinement_epochs": 1}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("approximation", 0, 1)
        self._check_whole("largest_rank", 1)
        self._check_whole("estimation_epochs", 1)
        self._check_whole("refinement_epochs", 0)
        for name in ("growth", "sparsity", "decay"):
            self._check_number(name, 0, 1e6)

    # ---------------------------------------------------------------- learning

    def _learn(self, before: TaskState[LowRank], training: Training) -> tuple[TaskState[LowRank], Task[LowRank]]:
        if not before.tasks:
            return self._learn_base(before, training)
        base = {name: tensor.to(training.network.device) for name, tensor in before.shared.items()}
        free, biases, head = self._free(base, before.tasks[0].biases, training)
        layers = self._nearest(base, free, _importance(training, {**free, **biases}, head))
        self._train_parts(base, layers, biases, head, training)
        found = self._pruned(base, layers)
        if self.refinement_epochs:
            device = training.network.device
            left = {name: _parameters(layer.parts(), device, as_pruned=True) for name, layer in found.items()}
            self._train_parts(base, left, biases, head, training, epochs=self.refinement_epochs, least_steps=0)
            found = self._pruned(base, left)
        return before, Task((), found, kept(biases), kept(head.state_dict()))

    def _learn_base(self, before: TaskState[LowRank], training: Training) -> tuple[TaskState[LowRank], Task[LowRank]]:
        begun = training.network.begun(training.random)
        base, biases, head = self._freely(begun, training)
        layers = {name: LowRank.unchanged(tensor) for name, tensor in base.items()}
        return replace(before, shared=kept(base)), Task((), layers, kept(biases), kept(head.state_dict()))

    def _free(
        self, base: Mapping[str, Tensor], biases: Mapping[str, Tensor], training: Training
    ) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter], LinearHead]:
        """The base and a new head, trained for a short time without any restriction."""
        return self._freely({**base, **biases}, training, epochs=self.estimation_epochs, least_steps=0)

    def _freely(
        self, begun: Mapping[str, Tensor], training: Training, **changed: Any
    ) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter], LinearHead]:
        device = training.network.device
        found = {name: nn.Parameter(tensor.clone().to(device)) for name, tensor in begun.items()}
        weights = {name: one for name, one in found.items() if name.endswith(".weight")}
        biases = {name: one for name, one in found.items() if name not in weights}
        head = training.head()

        def loss(batch: Batch) -> Tensor:
            return training.cross_entropy(batch, found, head) + self.decay * _energy(weights.values())

        self._fit(loss, [*found.values(), *head.parameters()], training, **changed)
        return weights, biases, head

    def _nearest(
        self, base: Mapping[str, Tensor], free: Mapping[str, Tensor], importance: Mapping[str, float]
    ) -> dict[str, Parts]:
        """Scales and factors that come near a free copy of the base, to be trained."""
        found = {name: scales(tensor, free[name].detach()) for name, tensor in base.items()}
        split = {name: singular(free[name].detach() - scaled(one, *found[name])) for name, one in base.items()}
        values = {name: parts[1] for name, parts in split.items()}
        ranks = choose_ranks(values, importance, self.approximation, self.largest_rank)
        return {
            name: _parameters((*found[name], *factors(*split[name], ranks[name])), base[name].device) for name in base
        }

    def _train_parts(
        self,
        base: Mapping[str, Tensor],
        layers: Mapping[str, Parts],
        biases: Mapping[str, nn.Parameter],
        head: LinearHead,
        training: Training,
        **changed: Any,
    ) -> None:
        parts = [part for layer in layers.values() for part in layer]
        entries = [part for layer in layers.values() for part in layer[2:]]

        def loss(batch: Batch) -> Tensor:
            weights = {name: perturbed(base[name], *layer) for name, layer in layers.items()}
            found = training.cross_entropy(batch, {**weights, **biases}, head)
            length = torch.stack([part.abs().sum() for part in entries]).sum()
            return found + self.sparsity * length + self.decay * _energy(entries)

        self._fit(loss, [*parts, *biases.values(), *head.parameters()], training, **changed)

    def _pruned(self, base: Mapping[str, Tensor], layers: Mapping[str, Parts]) -> dict[str, LowRank]:
        most = int(self.growth * sum(tensor.numel() for tensor in base.values()))
        return pruned({name: LowRank.of(parts) for name, parts in layers.items()}, most)


def _importance(training: Training, weights: Mapping[str, Tensor], head: LinearHead) -> dict[str, float]:
    """Mean squared gradient of every layer, of samples held back where there are any; times the places of a kernel."""
    names = [name for name in weights if name.endswith(".weight")]
    data = training.held if len(training.held) else training.data
    found, random = dict.fromkeys(names, 0.0), np.random.default_rng(0)  # nothing is drawn but augmentation
    for start in range(0, len(data), _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, len(data)))
        loss = training.cross_entropy(data.batch(rows, random, slice(None)), weights, head)
        for name, one in zip(names, torch.autograd.grad(loss, [weights[name] for name in names]), strict=True):
            found[name] += float(one.square().mean()) * len(rows) / len(data)
    return {name: value * weights[name][0, 0].numel() for name, value in found.items()}


def _energy(parts: Any) -> Tensor:
    """``½ ‖·‖²`` of all together."""
    return torch.stack([part.square().sum() for part in parts]).sum() / 2


def _parameters(parts: Sequence[Tensor], device: torch.device, as_pruned: bool = False) -> Parts:
    """Copies of r, s, U and V to be trained; ``as_pruned`` scales that are one and entries that are zero stay so."""
    made = [nn.Parameter(part.detach().clone().to(device)) for part in parts]
    for part, neutral in zip(made, (1, 1, 0, 0), strict=True):
        if as_pruned:
            part.register_hook(partial(torch.mul, (part.detach() != neutral).float()))
    return made[0], made[1], made[2], made[3]
