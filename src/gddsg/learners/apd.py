"""APD: additive decomposition of weights, with retroactive updates of earlier tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gddsg.core.task_heads import Rule
from gddsg.core.transform import View
from gddsg.learners.task_heads import Task, TaskHeads, TaskState, Training, kept
from gddsg.nn.decomposed import Decomposed, NewTask, consolidated, gated, retention
from gddsg.nn.sparse import Sparse
from gddsg.nn.training import Recipe
from gddsg.nn.training_data import Batch

Tasks = tuple[Task[Decomposed], ...]


class APD(TaskHeads[Decomposed]):
    """Additive Parameter Decomposition (Yoon et al., ICLR 2020), with hierarchical consolidation.

    The weights of task t are ``θ_t = σ ⊙ sigmoid(v_t) + τ_t``: a part that all tasks share, let through by a number v
    for every output unit, and a sparse part of the task's own. Every task has biases and a head of its own. A task
    trains σ and all of its own parts and, retroactively, the τ of all earlier tasks, so that their weights stay near
    what they were before, θ*: it minimises

    ``cross-entropy + λ₁ Σ_i ‖τ_i‖₁ + λ₂ Σ_{i<t} ½ ‖θ_i − θ_i*‖² + decay``.

    After every ``consolidate_every`` tasks the τ of a layer are put into clusters by k-means, and entries that are
    nearly equal within a cluster are kept once, see :func:`gddsg.nn.decomposed.consolidated`.

    Parameters
    ----------
    sparsity : float
        λ₁, weight of ``‖τ‖₁``; entries of at most that size are dropped in the end.
    drift : float
        λ₂, weight of the change of earlier tasks.
    decay : float
        Weight of ``½ ‖·‖²`` of τ and v of the new task; of σ, too, in the first.
    consolidate_every : int
        How many tasks come before parts of tasks are put together; 0 for never. There are two clusters for every time.
    spread : float
        β, by how much entries may differ that are kept as one.
    network, hidden, rule, held_out, training, view, seed, device
        See :class:`gddsg.learners.task_heads.TaskHeads`.

    Examples
    --------
    >>> import numpy as np
    >>> animals = np.array([[5.0, 0, 0], [4, 1, 0], [0, 5, 0], [1, 4, 0]])
    >>> model = APD(hidden=(16,)).partial_fit(animals, ["cat", "cat", "dog", "dog"])
    >>> str(model.predict([[6.0, 0, 0]])[0])
    'cat'

    References
    ----------
    https://arxiv.org/abs/1902.09432
    """

    recipe: ClassVar[Recipe] = Recipe(20, 100, 1e-3, "adam", "exponential", augment=False, least_steps=120)

    def __init__(
        self,
        sparsity: float = 4e-4,
        drift: float = 100.0,
        decay: float = 1e-4,
        consolidate_every: int = 5,
        spread: float = 0.01,
        network: str = "mlp",
        hidden: Sequence[int] = (256,),
        rule: Rule = "confidence",
        held_out: float = 0.2,
        training: Mapping[str, Any] | None = None,
        view: View = "raw",
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.sparsity = sparsity
        self.drift = drift
        self.decay = decay
        self.consolidate_every = consolidate_every
        self.spread = spread
        self.network = network
        self.hidden = hidden
        self.rule = rule
        self.held_out = held_out
        self.training = training
        self.view = view
        self.seed = seed
        self.device = device

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("consolidate_every", 0)
        for name in ("sparsity", "drift", "decay", "spread"):
            self._check_number(name, 0, 1e6)

    def _learn(
        self, before: TaskState[Decomposed], training: Training
    ) -> tuple[TaskState[Decomposed], Task[Decomposed]]:
        task = NewTask(training.network.begun(training.random), before.shared, own=True, trains_shared=True)
        head, past = training.head(), _Past(before, training.network.device)

        def loss(batch: Batch) -> Tensor:
            found = training.cross_entropy(batch, task.weights(), head)
            own = self.sparsity * task.length() + self.decay * task.energy(shared=not before.tasks)
            return found + own + past.penalty(task.shared, self.sparsity, self.drift)

        self._fit(loss, [*task.parameters(), *past.parameters(), *head.parameters()], training)
        new = Task((), task.finished(self.sparsity), kept(task.biases), kept(head.state_dict()))
        *earlier, new = self._put_together((*past.finished(self.sparsity), new))
        return replace(before, shared=kept(task.shared), tasks=tuple(earlier)), new

    def _put_together(self, tasks: Tasks) -> Tasks:
        """The tasks after a consolidation, if it is time for one."""
        if not self.consolidate_every or len(tasks) % self.consolidate_every:
            return tasks
        clusters = 2 * len(tasks) // self.consolidate_every
        layers: list[dict[str, Decomposed]] = [{} for _ in tasks]
        for name in tasks[0].layers:
            parts = consolidated([task.layers[name] for task in tasks], clusters, self.spread, self.seed)
            for own, part in zip(layers, parts, strict=True):
                own[name] = part
        return tuple(replace(task, layers=own) for task, own in zip(tasks, layers, strict=True))


class _Past:
    """Earlier tasks while a new one is trained: their τ, trained with it, and what holds their weights in place."""

    def __init__(self, state: TaskState[Decomposed], device: torch.device) -> None:
        self._tasks = state.tasks
        self._own, self._masks, self._wanted = {}, {}, {}
        for name, shared in state.shared.items() if state.tasks else ():
            parts = [task.layers[name] for task in state.tasks]
            own = torch.stack([part.own.dense() for part in parts])
            self._own[name] = nn.Parameter(own.to(device))
            self._masks[name] = torch.stack([part.mask for part in parts]).to(device)
            self._wanted[name] = (own + torch.stack([gated(shared, part.mask) for part in parts])).to(device)

    def parameters(self) -> list[nn.Parameter]:
        """τ of all tasks, layer by layer."""
        return list(self._own.values())

    def penalty(self, shared: Mapping[str, Tensor], sparsity: float, weight: float) -> Tensor | float:
        """``λ₁ Σ ‖τ_i‖₁ + λ₂ ½ Σ ‖θ_i − θ_i*‖²``."""
        found: Tensor | float = 0.0
        for name, own in self._own.items():
            held = retention(shared[name], self._masks[name], own, self._wanted[name])
            found = found + sparsity * own.abs().sum() + weight * held
        return found

    def finished(self, above: float) -> Tasks:
        """The tasks as they are now; entries of τ up to ``above`` are dropped."""
        return tuple(
            replace(
                task,
                layers={
                    name: replace(part, own=Sparse.of(self._own[name][i], above)) for name, part in task.layers.items()
                },
            )
            for i, task in enumerate(self._tasks)
        )
