"""ADAM: class means in the features of a network as it was and as it is adapted to the first batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from gddsg.core.class_means import COSINE_SCALE, ClassMeans, cosines
from gddsg.core.label import Label
from gddsg.data.images import Images
from gddsg.learners.adapting import Adapted, AdaptingLearner
from gddsg.learners.base import Learnt
from gddsg.nn.adaptation import AdaptationKind


@dataclass(frozen=True, eq=False, kw_only=True)
class AdamState(Adapted):
    """An adaptation, and class means.

    Attributes
    ----------
    means : ClassMeans
        Of features of both networks, side by side.
    """

    means: ClassMeans


class ADAM(AdaptingLearner[AdamState]):
    """Nearest class mean by cosine on features of two networks, one of them adapted (Zhou et al., IJCV 2024).

    "Adapt and merge": the network is adapted to the first batch and frozen. From then on it is SimpleCIL on the
    features of the pre-trained and of the adapted network, side by side, which is a matter of sums: later batches may
    come in any order, and classes may come back. Its authors call the method APER too.

    A first batch of a single class has nothing to tell apart, so that nothing is trained, then or later.

    Parameters
    ----------
    adaptation : {"adapter", "ssf", "vpt-shallow", "vpt-deep", "finetune"}
        How the network is adapted, the five variants of the paper; see :class:`gddsg.nn.adaptation.Adaptation`.
        ``"ssf"`` and ``"finetune"`` are for convolutional networks too.
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = ADAM("adapter", "toy-vit", {"epochs": 2, "augment": False}).partial_fit(images, labels)
    >>> model = model.partial_fit(dark + np.array([255, 0, 0], np.uint8), ["red"] * 4)
    >>> [str(label) for label in model.predict(np.concatenate([light[:1], dark[:1]]))]
    ['light', 'dark']

    References
    ----------
    https://arxiv.org/abs/2303.07338
    """

    calibrated: ClassVar[bool] = False

    def __init__(
        self,
        adaptation: AdaptationKind = "adapter",
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.adaptation = adaptation
        self.backbone = backbone
        self.training = training
        self.seed = seed
        self.device = device
        self.checkpoints = checkpoints

    def state_bytes(self) -> int:
        """What was trained, and class means in float32."""
        learnt = self._current()
        if learnt is None:
            return 0
        return learnt.state.adaptation.nbytes + 4 * sum(len(one) for one in learnt.state.means.sums.values())

    def _next_state(self, state: AdamState | None, inputs: Images, labels: Sequence[Label]) -> AdamState:
        adaptation, arrived = self._adaptation(state, inputs, labels), self._arrived(state, labels)
        known = ClassMeans() if state is None else state.means
        means = known.plus(self._both(adaptation, inputs), labels)
        return AdamState(arrived.names, arrived.batches, adaptation=adaptation, means=means)

    def _log_probabilities(self, learnt: Learnt[AdamState], inputs: Images) -> Tensor:
        features = self._both(learnt.state.adaptation, inputs)
        return (COSINE_SCALE * cosines(features, learnt.state.means.of(learnt.classes.tolist()))).log_softmax(1)
