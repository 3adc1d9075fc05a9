"""What learners share that train prompts for a frozen transformer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from gddsg.core.label import Label
from gddsg.data.images import Images
from gddsg.learners.base import Learnt
from gddsg.learners.trained import Arrived, TrainedLearner, copied_weights
from gddsg.nn.heads import LinearHead
from gddsg.nn.losses import cross_entropy_among
from gddsg.nn.networks import Transformer, require_transformer
from gddsg.nn.prompting import FrozenQueries, Prompting
from gddsg.nn.training_data import Batch

__all__ = ["PromptLearner", "Prompted"]


@dataclass(frozen=True, eq=False)
class Prompted(Arrived):
    """Prompts and the head behind them.

    Attributes
    ----------
    prompts, head : mapping of str to Tensor
        Weights by name.
    """

    prompts: Mapping[str, Tensor] = field(default_factory=dict)
    head: Mapping[str, Tensor] = field(default_factory=dict)


class PromptLearner(TrainedLearner[Prompted]):
    """A learner that trains prompts and a growing linear head, by cross-entropy among the classes of the batch.

    The network never changes. What prompts a sample gets follows from its query, the class token that the plain network
    gives it. Subclasses say with what prompts the training of a batch begins, and how trained ones are used.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        **TrainedLearner.exempt,
        "odd_classes_are_learnt": "few samples make few steps, and a batch of one class has nothing to tell apart",
    }

    @abstractmethod
    def _begun(self, before: Prompted, network: Transformer) -> Prompting:
        """Prompts as the training of the next batch begins with them; tensors of ``before`` are never changed."""

    @abstractmethod
    def _trained(self, state: Prompted) -> Prompting:
        """Prompts as they have been trained."""

    def _blocks_needed(self) -> int:
        """How many blocks the network must have."""
        return 1

    # ---------------------------------------------------------------- learning

    def _transformer(self) -> Transformer:
        return require_transformer(self._network(), type(self).__name__, self._blocks_needed())

    def _next_state(self, state: Prompted | None, inputs: Images, labels: Sequence[Label]) -> Prompted:
        before, network = state or Prompted(), self._transformer()
        names = before.joined_by(labels)
        targets = [names.index(label) for label in labels]
        prompts = self._begun(before, network).to(network.device).train()
        head = self._head(before, network).grown(len(names), self._random(before.batches)).to(network.device)
        data = self._data(inputs, targets)
        queries, present = FrozenQueries(network, data), sorted(set(targets))

        def loss(batch: Batch) -> Tensor:
            asked = queries.of(batch)
            scores = head(prompts.features(network, batch.inputs, asked))
            return cross_entropy_among(present, scores, batch.targets) + prompts.extra_loss(asked)

        self._train_on(data, loss, [*prompts.parameters(), *head.parameters()], before.batches)
        return Prompted(names, before.batches + 1, copied_weights(prompts), copied_weights(head))

    def _head(self, state: Prompted, network: Transformer) -> LinearHead:
        head = LinearHead(network.width, len(state.names), self._random(0))
        if state.names:
            head.load_state_dict(dict(state.head))
        return head

    # ---------------------------------------------------------------- prediction

    def _log_probabilities(self, learnt: Learnt[Prompted], inputs: Images) -> Tensor:
        def alone(prompts: Prompting, network: Transformer, part: Tensor) -> Tensor:
            return prompts.features(network, part, network.features(part))

        return self._in_order(learnt, self.scores(learnt.state, inputs, alone))

    def scores(
        self,
        state: Prompted,
        images: Images,
        features: Callable[[Prompting, Transformer, Tensor], Tensor],
        at_once: int = 64,
    ) -> Tensor:
        """What the head makes of images, ``(n, n_classes)``, columns in the order in which the classes came.

        Parameters
        ----------
        state : Prompted
            What has been learnt.
        images : Images
            What is looked at.
        features : callable
            From prompts, network and inputs to features ``(n, width)``.
        at_once : int
            How many inputs it is given at a time.
        """
        network = self._transformer()
        prompts = self._trained(state).to(network.device).eval()
        head = self._head(state, network).to(network.device)
        return network.answers(images, lambda part: head(features(prompts, network, part)), at_once)
