"""Adapting a network to some classes: what is trained, by what loss, and what is kept of it."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from gddsg.backbones.base import Preprocess
from gddsg.data.images import Images
from gddsg.errors import BackboneError, InputError, TrainingError
from gddsg.nn.adaptation import Adaptation, adapt, embed_each
from gddsg.nn.networks import _Convolutional, load_network
from gddsg.nn.training import Recipe, train, watching
from gddsg.nn.training_data import Batch, TrainingData

KINDS = ("finetune", "vpt-shallow", "vpt-deep", "ssf", "adapter")
RECIPE = Recipe(epochs=4, batch_size=8, rate=0.05, schedule="cosine", weight_decay=5e-4, augment=False)


@pytest.fixture(scope="module")
def network():
    return load_network("toy-vit")


@pytest.fixture(scope="module")
def convolutional():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
    preprocess = Preprocess((8, 8), mean=(0.5,) * 3, deviation=(0.25,) * 3)
    return _Convolutional("small@0", module, preprocess, "cpu")


def coloured(n=8, side=8, seed=0):
    """Images of three classes that differ by a colour."""
    random = np.random.default_rng(seed)
    centres = np.repeat([[200, 60, 60], [60, 200, 60], [60, 60, 200]], n, axis=0)
    pixels = centres[:, None, None] + random.normal(0, 40, (3 * n, side, side, 3))
    return Images.of(pixels.clip(0, 255).astype(np.uint8)), np.repeat([0, 1, 2], n).tolist()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def fit_by(network, recipe=RECIPE):
    """What trains, as a learner would."""

    def fit(loss, parameters, images, targets):
        train(loss, parameters, TrainingData(network, images, targets, recipe.augment), recipe, (0, 0))

    return fit


def adapted(network, kind, recipe=RECIPE, seed=0):
    images, targets = coloured()
    return adapt(network, kind, images, targets, generator(seed), fit_by(network, recipe))


@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_loss_and_leaves_the_network_alone(network, kind):
    images, _ = coloured()
    weights = {name: one.clone() for name, one in network.module.state_dict().items()}
    before, losses = network.embed(images), []
    with watching(lambda progress: losses.append(progress.loss)):
        found = adapted(network, kind)
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    begun = Adaptation.untrained(network, kind, generator())
    assert any(not torch.equal(found.tensors[name], begun.tensors[name]) for name in begun.tensors)
    assert not torch.allclose(found.embed(network, images), before, atol=1e-4)
    assert all(torch.equal(one, weights[name]) for name, one in network.module.state_dict().items())
    assert torch.equal(network.embed(images), before)


@pytest.mark.parametrize("kind", ["finetune", "ssf"])
def test_convolutional_networks_can_be_adapted(convolutional, kind):
    images, _ = coloured()
    losses = []
    with watching(lambda progress: losses.append(progress.loss)):
        found = adapted(convolutional, kind)
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    assert not torch.allclose(found.embed(convolutional, images), convolutional.embed(images), atol=1e-4)


@pytest.mark.parametrize("kind", ["adapter", "vpt-shallow", "vpt-deep"])
def test_a_network_without_blocks_is_refused_where_blocks_are_needed(convolutional, kind):
    with pytest.raises(BackboneError, match=f"adaptation='{kind}' .* small@0 is none"):
        adapted(convolutional, kind)


def test_an_unknown_kind_is_refused(network):
    with pytest.raises(InputError, match="'lora' was given; expected one of finetune, vpt-shallow"):
        adapted(network, "lora")


def test_the_sizes_are_those_published(network):
    blocks, width = network.blocks, network.width
    shapes = {kind: _shapes(network, kind) for kind in KINDS}
    assert shapes["adapter"]["down"] == (blocks, 64, width)
    assert shapes["adapter"]["up"] == (blocks, width, 64)
    assert shapes["vpt-shallow"] == {"tokens": (5, width)}
    assert shapes["vpt-deep"] == {"tokens": (blocks, 5, width)}
    assert sum(np.prod(shape) for shape in shapes["ssf"].values()) == 2 * sum(network.layer_widths.values())
    assert shapes["finetune"] == {name: tuple(one.shape) for name, one in network.module.named_parameters()}
    injection, _ = Adaptation.untrained(network, "adapter", generator()).on(network)
    assert injection.strength == 0.1


def _shapes(network, kind):
    return {name: tuple(one.shape) for name, one in Adaptation.untrained(network, kind, generator()).tensors.items()}


def test_the_loss_is_cross_entropy_of_scaled_cosines(network):
    """The first loss, σ = 1, against its formula; the head's weights are those the same generator gives."""
    images, targets = coloured()
    seen = {}

    def look(loss, parameters, images, targets):
        head, scale = parameters[-2:]
        inputs = network.prepare(images)
        seen["loss"] = loss(Batch(inputs, torch.tensor(targets), np.arange(len(images))))
        features = network.features(inputs)  # a new adapter changes nothing
        cosines = torch.stack([torch.cosine_similarity(features, row[None]) for row in head], dim=1)
        own = cosines[torch.arange(len(images)), targets]
        seen["expected"] = (cosines.exp().sum(1).log() - own).mean()
        assert scale.item() == 1
        assert head.shape == (3, network.feature_dim)

    adapt(network, "adapter", images, targets, generator(), look)
    torch.testing.assert_close(seen["loss"], seen["expected"])


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_bits_and_pickles_keep_them(network, kind):
    images, _ = coloured(seed=1)
    first, second = adapted(network, kind), adapted(network, kind)
    copy = pickle.loads(pickle.dumps(first))
    assert copy.kind == kind
    for other in (second, copy):
        assert all(torch.equal(one, other.tensors[name]) for name, one in first.tensors.items())
        assert torch.equal(other.embed(network, images), first.embed(network, images))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_is_bare_tensors_and_no_network(network, kind):
    found = adapted(network, kind)
    assert all(type(one) is torch.Tensor and not one.requires_grad for one in found.tensors.values())
    assert all(one.device.type == "cpu" for one in found.tensors.values())
    assert found.nbytes == sum(4 * one.numel() for one in found.tensors.values())
    assert len(pickle.dumps(found)) < found.nbytes + 400 * (len(found.tensors) + 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_class_trains_nothing(network, kind):
    def never(*_):
        raise AssertionError("one class has nothing to be told apart from")

    images, _ = coloured()
    found = adapt(network, kind, images, [0] * len(images), generator(), never)
    begun = Adaptation.untrained(network, kind, generator())
    assert all(torch.equal(one, begun.tensors[name]) for name, one in found.tensors.items())


@pytest.mark.parametrize("kind", ["vpt-shallow", "vpt-deep"])
def test_prompts_do_not_begin_where_normalisation_has_no_slope(network, kind):
    """Zeros divide by √ε: there the first step would be some ten thousand times too long."""
    found = {}

    def one_step(loss, parameters, images, targets):
        loss(Batch(network.prepare(images), torch.tensor(targets), np.arange(len(images)))).backward()
        found["gradient"] = parameters[0].grad.abs().max()

    images, targets = coloured()
    adapt(network, kind, images, targets, generator(), one_step)
    assert 0 < found["gradient"] < 1


@pytest.mark.parametrize("kind", ["finetune", "adapter"])
def test_training_that_blows_up_is_an_error(network, kind):
    with pytest.raises(TrainingError, match="learning rate"):
        adapted(network, kind, Recipe(epochs=3, batch_size=24, rate=1e30, augment=False))


def test_images_are_embedded_by_several_adaptations_as_by_each_of_them(network):
    images, _ = coloured(n=30)  # more than are embedded at once
    ones = [adapted(network, kind) for kind in KINDS]
    found = embed_each(network, images, [None, *ones])
    assert torch.equal(found[0], network.embed(images))
    assert all(torch.equal(rows, one.embed(network, images)) for rows, one in zip(found[1:], ones, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["finetune", "ssf"])
def test_efficientnet_can_be_adapted(kind):
    network = load_network("efficientnet-lite0")
    images, targets = coloured(n=2, side=224)
    recipe = Recipe(epochs=1, batch_size=3, rate=0.01, schedule="cosine", augment=False)
    before = network.embed(images)
    found = adapt(network, kind, images, targets, generator(), fit_by(network, recipe))
    after = found.embed(network, images)
    assert after.shape == before.shape
    assert after.isfinite().all()
    assert not torch.allclose(after, before, atol=1e-4)
    assert torch.equal(network.embed(images), before)
