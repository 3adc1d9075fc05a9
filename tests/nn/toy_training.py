"""A small training that tests share: prompts and a head on the toy network, for images of a colour a class."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from tests.toy_learners import MeanColour

from gddsg.checks.samples import samples_for
from gddsg.nn.heads import LinearHead
from gddsg.nn.networks import TOY, load_network
from gddsg.nn.prompts import ShallowPrompts
from gddsg.nn.training import Recipe, train
from gddsg.nn.training_data import TrainingData

RECIPE = Recipe(epochs=4, batch_size=8, rate=0.05, augment=False)


def images_and_targets(n_classes=3, n=7, seed=0):
    known = samples_for(MeanColour(), n_classes, n, seed=seed)
    names = sorted(set(known.labels.tolist()))
    return known.inputs, [names.index(label) for label in known.labels.tolist()]


class Toy:
    """What is trained, and its loss."""

    def __init__(self, n_classes=3):
        self.network = load_network(TOY, "cpu")
        drawn = torch.Generator().manual_seed(0)
        self.prompts = ShallowPrompts(2, self.network.width)
        torch.nn.init.normal_(self.prompts.tokens, std=0.5, generator=drawn)  # at zero the slope of a norm is a cliff
        self.head = LinearHead(self.network.feature_dim, n_classes, drawn)
        self.parameters = [*self.prompts.parameters(), *self.head.parameters()]
        self.rows = []

    def loss(self, batch):
        self.rows.append(batch.rows.tolist())
        return F.cross_entropy(self.head(self.network.features(batch.inputs, self.prompts)), batch.targets)

    def values(self):
        return [one.detach().clone() for one in self.parameters]


def trained(recipe=RECIPE, seed=(0,), data=None, checkpoint=None, loss=None, toy=None, **changes):
    """The toy after a training; ``loss`` takes the toy and a batch."""
    toy, recipe = toy or Toy(), replace(recipe, **changes)
    images, targets = data or images_and_targets()
    train(
        toy.loss if loss is None else lambda batch: loss(toy, batch),
        toy.parameters,
        TrainingData(toy.network, images, targets, recipe.augment),
        recipe,
        seed,
        checkpoint,
    )
    return toy


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.values(), other.values(), strict=True))


def near(one, other, within=1e-5):
    return all(torch.allclose(a, b, rtol=0, atol=within) for a, b in zip(one.values(), other.values(), strict=True))
