"""EASE: an adapter a batch, and class prototypes in the spaces of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from gddsg.core.class_means import COSINE_SCALE, ClassMeans, cosines, synthesised_means
from gddsg.core.label import Label
from gddsg.core.once import Once
from gddsg.data.images import Images
from gddsg.learners.base import Learnt
from gddsg.learners.trained import Arrived, TrainedLearner
from gddsg.nn.adaptation import Adaptation, adapt, embed_each
from gddsg.nn.training import Recipe


@dataclass(frozen=True, eq=False)
class Space:
    """The features of one adapter.

    Attributes
    ----------
    adaptation : Adaptation
        The adapter.
    own : tuple of int or str
        Classes that came with it.
    means : ClassMeans
        Of all samples that have come since there is this space: its own classes, later ones, and old ones that came
        back.
    """

    adaptation: Adaptation
    own: tuple[Label, ...]
    means: ClassMeans = field(default_factory=ClassMeans)


@dataclass(frozen=True, eq=False)
class EaseState(Arrived):
    """The spaces in the order in which they came.

    Attributes
    ----------
    spaces : tuple of Space
        One for every batch that brought new classes.
    prototypes : Once
        What :func:`all_prototypes` makes of them.
    """

    spaces: tuple[Space, ...] = ()
    prototypes: Once[Tensor] = field(default_factory=Once)


class EASE(TrainedLearner[EaseState]):
    """An expandable ensemble of subspaces (Zhou et al., CVPR 2024).

    Every batch with new classes trains an adapter of its own, and its classes are at home in the space of the adapter's
    features. A sample is embedded in all spaces. Of a class of an earlier batch a later space knows no sample; its
    prototype there is put together from those of the classes at home there, by how much they resemble it in its own
    space. The score of a class is the cosine in its own space plus ``alpha`` times the mean cosine in all others.

    Classes that come back stay at home where they were. Their samples count in all spaces there are by then: in older
    ones for the mean of all samples so far, in younger ones for a prototype of their own in place of a synthesised one.
    A batch without new classes trains nothing. In one that has both, the adapter is trained to tell all of its classes
    apart. A batch of a single class has nothing to tell apart: its space is that of the network as it is.

    Parameters
    ----------
    alpha : float
        Weight of the spaces in which a class is not at home.
    backbone, training, seed, device, checkpoints
        See :class:`gddsg.learners.trained.TrainedLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> dark, light = np.zeros((4, 8, 8, 3), np.uint8), np.full((4, 8, 8, 3), 255, np.uint8)
    >>> images, labels = np.concatenate([dark, light]), ["dark"] * 4 + ["light"] * 4
    >>> model = EASE(backbone="toy-vit", training={"epochs": 2, "augment": False}).partial_fit(images, labels)
    >>> model = model.partial_fit(dark + np.array([255, 0, 0], np.uint8), ["red"] * 4)
    >>> [str(label) for label in model.predict(np.concatenate([light[:1], dark[:1]]))]
    ['light', 'dark']

    References
    ----------
    https://arxiv.org/abs/2403.12030
    """

    recipe: ClassVar[Recipe] = Recipe(epochs=20, batch_size=48, rate=0.025, schedule="cosine", weight_decay=5e-4)
    calibrated: ClassVar[bool] = False
    exempt: ClassVar[Mapping[str, str]] = {
        **TrainedLearner.exempt,
        "arrival_order_does_not_matter": "every adapter is trained to tell apart the classes that come together",
    }

    def __init__(
        self,
        alpha: float = 0.1,
        backbone: str = "vit-b16",
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.backbone = backbone
        self.training = training
        self.seed = seed
        self.device = device
        self.checkpoints = checkpoints

    @classmethod
    def test_params(cls) -> dict[str, Any]:
        """Few epochs: what is not trained is what it was pre-trained to be."""
        return {**super().test_params(), "training": {"epochs": 3, "batch_size": 64, "augment": False}}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("alpha", 0, 1e6)

    def state_bytes(self) -> int:
        """All adapters, and a prototype of every class in every space in float32."""
        learnt = self._current()
        if learnt is None:
            return 0
        spaces = learnt.state.spaces
        a_space = 4 * len(learnt.classes) * len(next(iter(spaces[0].means.sums.values())))
        return sum(space.adaptation.nbytes + a_space for space in spaces)

    # ---------------------------------------------------------------- learning

    def _next_state(self, state: EaseState | None, inputs: Images, labels: Sequence[Label]) -> EaseState:
        before = state or EaseState()
        names = before.joined_by(labels)
        new = names[len(before.names) :]
        spaces = (*before.spaces, Space(self._adapter(before.batches, inputs, labels), new)) if new else before.spaces
        features = embed_each(self._network(), inputs, [space.adaptation for space in spaces])
        grown = [
            replace(space, means=space.means.plus(rows, labels)) for space, rows in zip(spaces, features, strict=True)
        ]
        return EaseState(names, before.batches + 1, tuple(grown))

    def _adapter(self, batch: int, images: Images, labels: Sequence[Label]) -> Adaptation:
        place = {name: i for i, name in enumerate(dict.fromkeys(labels))}
        targets = [place[label] for label in labels]
        fit = partial(self._train, batch=batch)
        return adapt(self._network(), "adapter", images, targets, self._random(batch), fit)

    # ---------------------------------------------------------------- prediction

    def _log_probabilities(self, learnt: Learnt[EaseState], inputs: Images) -> Tensor:
        state = learnt.state
        prototypes = state.prototypes.get(lambda: all_prototypes(state.spaces))
        features = embed_each(self._network(), inputs, [space.adaptation for space in state.spaces])
        found = torch.stack([cosines(rows, table) for rows, table in zip(features, prototypes, strict=True)])
        home = torch.tensor([i for i, space in enumerate(state.spaces) for _ in space.own])
        return self._in_order(learnt, COSINE_SCALE * weighted(found, home, self.alpha))


def all_prototypes(spaces: Sequence[Space]) -> Tensor:
    """Prototypes ``(n_spaces, n_classes, feature_dim)`` float64 of all classes, in the order in which they came.

    In a space that has met no sample of a class of an earlier one it is
    ``Σ softmax(cos(old, new)) · prototype of new there``, over the classes at home there, with cosines in the earlier
    space.

    Parameters
    ----------
    spaces : sequence of Space
        In the order in which they came.
    """
    return torch.stack([torch.cat([_prototypes(home, space) for home in spaces]) for space in spaces])


def _prototypes(home: Space, space: Space) -> Tensor:
    """Prototypes in ``space`` of the classes at home in ``home``."""
    found = dict.fromkeys(home.own, torch.empty(0))
    met = [name for name in home.own if name in space.means.sums]
    missed = [name for name in home.own if name not in space.means.sums]
    if met:
        found.update(zip(met, space.means.of(met), strict=True))
    if missed:
        made = synthesised_means(home.means.of(missed), home.means.of(space.own), space.means.of(space.own))
        found.update(zip(missed, made, strict=True))
    return torch.stack(list(found.values()))


def weighted(found: Tensor, home: Tensor, alpha: float) -> Tensor:
    """``cos in a class's own space + alpha · mean of those in all others``, ``(n, n_classes)``.

    Parameters
    ----------
    found : Tensor
        Cosines ``(n_spaces, n, n_classes)``.
    home : Tensor
        Places of the classes' own spaces, ``(n_classes,)``.
    alpha : float
        Weight of the others; with a single space there are none.
    """
    others = max(len(found) - 1, 1)
    own = found.gather(0, home.expand(1, *found.shape[1:]))[0]
    return own + alpha / others * (found.sum(0) - own)
