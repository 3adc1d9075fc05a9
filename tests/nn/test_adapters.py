"""Adapters, scales, shifts and visual prompts against formulas worked out on a plain ViTModel without taps."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import ViTModel

from gddsg.backbones.base import Preprocess
from gddsg.nn.adapters import ParallelAdapters, ScaleShift
from gddsg.nn.networks import _Convolutional, load_network
from gddsg.nn.prompts import DeepPrompts, ShallowPrompts


@pytest.fixture(scope="module")
def network():
    return load_network("toy-vit")


@pytest.fixture
def plain(network):
    """The same transformer as Hugging Face makes it: nothing of ours is in it."""
    return plain_copy(network)


def plain_copy(network):
    config = deepcopy(network.module.config)  # the network's own says that attention goes through taps
    config._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        model = ViTModel(config, add_pooling_layer=False).eval()
    model.load_state_dict(network.module.state_dict())
    return model


@pytest.fixture
def images():
    return torch.randn(3, 3, 8, 8, generator=generator(1))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def filled(injection, seed=2, deviation=0.5):
    """All its parameters drawn by lot."""
    random = generator(seed)
    with torch.no_grad():
        for parameter in injection.parameters():
            parameter.normal_(0, deviation, generator=random)
    return injection


def attended(layer, tokens):
    """A block up to its MLP."""
    return tokens + layer.attention(layer.layernorm_before(tokens), None)[0]


def test_a_new_adapter_changes_nothing_bit_for_bit(network, images):
    adapters = ParallelAdapters(network.blocks, network.width, generator())
    assert (adapters.down != 0).all()
    assert not adapters.up.any()
    assert torch.equal(network.tokens(images, adapters), network.tokens(images))


def test_adapters_of_no_strength_change_nothing_bit_for_bit(network, images):
    adapters = filled(ParallelAdapters(network.blocks, network.width, generator(), strength=0.0))
    assert torch.equal(network.tokens(images, adapters), network.tokens(images))


@torch.no_grad()
def test_adapters_are_parallel_to_the_mlp_of_every_block(network, plain, images):
    adapters = filled(ParallelAdapters(network.blocks, network.width, generator(), bottleneck=7, strength=0.3))
    tokens = plain.embeddings(images)
    for block, layer in enumerate(plain.layers):
        x = attended(layer, tokens)
        inside = torch.clamp(x @ adapters.down[block].T + adapters.down_bias[block], min=0)
        beside = inside @ adapters.up[block].T + adapters.up_bias[block]
        tokens = x + layer.mlp(layer.layernorm_after(x)) + 0.3 * beside
    found = network.tokens(images, adapters)
    torch.testing.assert_close(found, plain.layernorm(tokens), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found, network.tokens(images), atol=1e-2)


@torch.no_grad()
def test_scales_and_shifts_of_a_transformer_are_those_of_its_weights(network, plain, images):
    """``γ (W x + b) + β = (γ W) x + (γ b + β)``: a plain model with such weights needs no injection."""
    injection = filled(ScaleShift(network.layer_widths, generator()))
    fuse(plain, network, injection)
    found = network.tokens(images, injection)
    torch.testing.assert_close(found, plain(images).last_hidden_state, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(found, network.tokens(images), atol=1e-2)


@torch.no_grad()
def test_scales_and_shifts_of_a_convolutional_network_are_those_of_its_weights():
    network, images = small_convolutional(), torch.randn(3, 3, 8, 8, generator=generator(1))
    assert network.layer_widths == {"0": 5, "1": 5, "3": 4}
    injection = filled(ScaleShift(network.layer_widths, generator()))
    expected = convolutional_module()
    fuse(expected, network, injection)
    found = network.features(images, injection)
    torch.testing.assert_close(found, expected(images), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found, network.features(images), atol=1e-2)


def test_a_scale_of_one_and_a_shift_of_zero_change_nothing_bit_for_bit(network, images):
    for one, inputs in ((network, images), (small_convolutional(), images)):
        injection = ScaleShift(one.layer_widths, generator())
        with torch.no_grad():
            for scale, shift in zip(injection.scales, injection.shifts, strict=True):
                scale.fill_(1)
                shift.fill_(0)
        assert torch.equal(one.features(inputs, injection), one.features(inputs))


def fuse(module, network, injection):
    """Put scales and shifts into the weights of a module without taps."""
    layers = dict(module.named_modules())
    for place, name in enumerate(network.layer_widths):
        layer, scale, shift = layers[name], injection.scales[place], injection.shifts[place]
        layer.weight *= scale.reshape(-1, *[1] * (layer.weight.ndim - 1))
        layer.bias.copy_(layer.bias * scale + shift)


def convolutional_module():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = nn.Sequential(
            nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        nn.init.uniform_(module[1].running_mean)
        nn.init.uniform_(module[1].running_var, 0.5, 2)
    return module.eval()


def small_convolutional():
    preprocess = Preprocess((8, 8), mean=(0.5,) * 3, deviation=(0.25,) * 3)
    return _Convolutional("small@0", convolutional_module(), preprocess, "cpu")


class _Counting(DeepPrompts):
    """Deep prompts that write down how many tokens there are."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.inside, self.outside = [], []

    def before_block(self, block, tokens):
        self.outside.append(tokens.shape[1])
        longer = super().before_block(block, tokens)
        self.inside.append(longer.shape[1])
        return longer


@torch.no_grad()
def test_deep_prompts_are_put_in_before_every_block_and_dropped_behind_it(network, plain, images):
    prompts = filled(_Counting(network.blocks, 5, network.width))
    found = network.tokens(images, prompts)
    assert (prompts.outside, prompts.inside) == ([5, 5], [10, 10])  # a class token and 2 × 2 patches
    assert found.shape == network.tokens(images).shape
    tokens = plain.embeddings(images)
    for block, layer in enumerate(plain.layers):
        ours = prompts.tokens[block].repeat(len(images), 1, 1)
        out = layer(torch.cat([tokens[:, :1], ours, tokens[:, 1:]], dim=1))
        tokens = out[:, [0, 6, 7, 8, 9]]
    torch.testing.assert_close(found, plain.layernorm(tokens), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found, network.tokens(images), atol=1e-2)


@torch.no_grad()
def test_shallow_prompts_are_put_in_once_and_stay(network, plain, images):
    prompts = filled(ShallowPrompts(5, network.width))
    found = network.tokens(images, prompts)
    assert found.shape[1] == 10
    tokens = plain.embeddings(images)
    tokens = torch.cat([tokens[:, :1], prompts.tokens.repeat(len(images), 1, 1), tokens[:, 1:]], dim=1)
    for layer in plain.layers:
        tokens = layer(tokens)
    torch.testing.assert_close(found, plain.layernorm(tokens), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(network.features(images, prompts), found[:, 0])


def test_nothing_is_left_behind(network, images):
    """After all of these the network gives what it gave without them."""
    before = network.tokens(images)
    for injection in (
        filled(ParallelAdapters(network.blocks, network.width, generator())),
        filled(DeepPrompts(network.blocks, 5, network.width)),
        filled(ScaleShift(network.layer_widths, generator())),
    ):
        assert not torch.equal(network.tokens(images, injection), before)
        assert torch.equal(network.tokens(images), before)
    plain = plain_copy(network)
    torch.testing.assert_close(plain(images).last_hidden_state, before, atol=1e-5, rtol=1e-5)


def test_adapters_get_gradients_and_the_network_none(network, images):
    adapters = filled(ParallelAdapters(network.blocks, network.width, generator()))
    F.mse_loss(network.features(images, adapters), torch.zeros(3, network.width)).backward()
    assert all(one.grad is not None and one.grad.any() for one in adapters.parameters())
    assert all(one.grad is None for one in network.module.parameters())
