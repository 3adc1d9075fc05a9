"""Networks: images in, features out, frozen, one for all, and clear words where one does not fit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tests.nn.toy_training import images_and_targets

from gddsg.backbones.base import Preprocess
from gddsg.errors import BackboneError
from gddsg.nn.networks import TOY, Network, Transformer, load_network, require_transformer


class Pooled(Network):
    """The mean of a convolution's map."""

    def features(self, inputs, injection=None, weights=None):
        return self._run(inputs, injection, weights).mean((2, 3))


def pooled(stem=None, channels=3):
    torch_module = torch.nn.Conv2d(channels, 5, 3)
    with torch.no_grad():
        for one in torch_module.parameters():
            one.copy_(torch.linspace(-1, 1, one.numel()).view_as(one))
    return Pooled("pooled@0", torch_module, Preprocess((8, 8)), "cpu", stem)


def test_the_same_name_is_the_same_network_however_it_is_asked_for():
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: load_network(TOY), range(8)))
    assert len({id(one) for one in [*found, load_network(name=TOY), load_network(TOY, None)]}) == 1


def test_loading_and_embedding_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    from gddsg.nn import networks

    one, other = networks._toy("cpu"), networks._toy("cpu")
    images, _ = images_and_targets()
    assert torch.equal(one.embed(images), other.embed(images))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_is_frozen_and_its_features_are_the_class_token():
    network, (images, _) = load_network(TOY), images_and_targets()
    inputs = network.prepare(images)
    assert not any(one.requires_grad for one in network.module.parameters())
    assert not network.module.training
    assert inputs.shape == (21, *network.input_shape) == (21, 3, 8, 8)
    assert network.input_bytes == inputs[0].numpy().nbytes
    features = network.features(inputs)
    assert features.shape == (21, network.feature_dim)
    assert torch.equal(features, network.tokens(inputs)[:, 0])
    assert not features.requires_grad


def test_an_image_is_embedded_alike_whatever_comes_with_it_and_however_many():
    network = load_network(TOY)
    images, _ = images_and_targets(3, 50)  # more than are embedded at a time
    whole = network.embed(images)
    assert whole.shape == (150, network.feature_dim)
    for row in (0, 63, 64, 149):
        torch.testing.assert_close(network.embed(images[[row]]), whole[[row]], rtol=0, atol=1e-5)
    whole.requires_grad_()  # an ordinary tensor, which can be trained on
    assert network.embed(images[:0]).shape == (0, network.feature_dim)


def test_prepared_images_are_those_of_the_preprocessing():
    network, (images, _) = load_network(TOY), images_and_targets()
    pixels = images.pixels(8).astype(np.float32).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(network.prepare(images).numpy(), (pixels / 255 - 0.5) / 0.25, atol=1e-5)


def test_other_weights_take_the_place_of_its_own_and_leave_no_trace():
    network, (images, _) = load_network(TOY), images_and_targets()
    before, own = network.embed(images), {name: one.clone() for name, one in network.module.named_parameters()}
    assert torch.equal(network.embed(images, weights=own), before)
    other = network.embed(images, weights={name: one + 0.1 for name, one in own.items()})
    assert not torch.allclose(other, before)
    assert torch.equal(network.embed(images), before)
    assert all(torch.equal(own[name], one) for name, one in network.module.named_parameters())


def test_a_stem_comes_first_and_is_never_trained():
    factor = torch.nn.Parameter(torch.tensor(2.0))
    images, _ = images_and_targets()
    plain, behind = pooled(), pooled(lambda inputs: factor * inputs)
    inputs = behind.prepare(images)
    assert not inputs.requires_grad
    torch.testing.assert_close(inputs, 2 * plain.prepare(images))
    wider = pooled(lambda inputs: torch.cat([inputs, inputs], 1)[:, :, ::2, ::2], channels=6)
    assert wider.input_shape == (6, 4, 4)
    assert wider.prepare(images).shape == (21, 6, 4, 4)


def test_who_needs_a_transformer_says_so():
    network = load_network(TOY)
    assert require_transformer(network, "L2P", 2) is network
    assert isinstance(network, Transformer)
    with pytest.raises(BackboneError, match="DualPrompt needs a ViT of 5 blocks at least, and toy-vit@0 has 2"):
        require_transformer(network, "DualPrompt", 5)
    with pytest.raises(BackboneError, match="blocks of a ViT, and pooled@0 is none"):
        require_transformer(pooled(), "L2P")


def test_an_image_goes_through_the_stem_once_unless_it_is_augmented():
    seen = []

    def stem(inputs):
        seen.append(len(inputs))
        return inputs

    images, _ = images_and_targets()
    network = pooled(stem)
    seen.clear()
    first = network.prepare(images)
    assert torch.equal(network.prepare(images), first)
    assert torch.equal(network.embed(images[:5]), network.features(first[:5]))
    assert seen == [len(images)]
    network.prepare(images, np.random.default_rng(0))
    assert seen == [len(images)] * 2
