"""APDfix: additive decomposition whose shared part stays as the first task left it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from gddsg.core.task_heads import Rule
from gddsg.core.transform import View
from gddsg.learners.task_heads import Task, TaskHeads, TaskState, Training, kept
from gddsg.nn.decomposed import Decomposed, NewTask
from gddsg.nn.training import Recipe
from gddsg.nn.training_data import Batch


class APDfix(TaskHeads[Decomposed]):
    """Additive Parameter Decomposition without retroactive updates (Yoon et al., ICLR 2020).

    The weights of task t are ``θ_t = σ ⊙ sigmoid(v_t) + τ_t``. The first task trains σ; from then on σ and all parts of
    earlier tasks are fixed, and a task trains its mask v, its sparse τ, biases and a head. So what an earlier task's
    head answers never changes, not by a bit.

    There is no published program of that name, and two descriptions: APD "without retroactive updates", and, where it
    is compared with HALRP, "model parameters are fixed and the mask alone is learnt". Both fix σ; ``own=False`` is the
    second one.

    Parameters
    ----------
    own : bool
        Whether a task has a sparse part τ; without it the mask is all it can do to the shared part.
    sparsity : float
        λ₁, weight of ``‖τ‖₁``; entries of at most that size are dropped in the end.
    decay : float
        Weight of ``½ ‖·‖²`` of what is trained of θ.
    network, hidden, rule, held_out, training, view, seed, device
        See :class:`gddsg.learners.task_heads.TaskHeads`.

    Examples
    --------
    >>> import numpy as np
    >>> animals = np.array([[5.0, 0, 0], [4, 1, 0], [0, 5, 0], [1, 4, 0]])
    >>> model = APDfix(hidden=(16,)).partial_fit(animals, ["cat", "cat", "dog", "dog"])
    >>> str(model.predict([[6.0, 0, 0]])[0])
    'cat'

    References
    ----------
    https://arxiv.org/abs/1902.09432
    """

    recipe: ClassVar[Recipe] = Recipe(20, 100, 1e-3, "adam", "exponential", augment=False, least_steps=120)

    def __init__(
        self,
        own: bool = True,
        sparsity: float = 4e-4,
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
        self.own = own
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("sparsity", 0, 1e6)
        self._check_number("decay", 0, 1e6)

    def _learn(
        self, before: TaskState[Decomposed], training: Training
    ) -> tuple[TaskState[Decomposed], Task[Decomposed]]:
        first = not before.tasks
        task = NewTask(training.network.begun(training.random), before.shared, self.own, trains_shared=first)
        head = training.head()

        def loss(batch: Batch) -> Tensor:
            found = training.cross_entropy(batch, task.weights(), head)
            return found + self.sparsity * task.length() + self.decay * task.energy(shared=first)

        self._fit(loss, [*task.parameters(), *head.parameters()], training)
        state = replace(before, shared=kept(task.shared)) if first else before
        return state, Task((), task.finished(self.sparsity), kept(task.biases), kept(head.state_dict()))
