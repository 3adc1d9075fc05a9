"""Taps do nothing by themselves; an injection is in its own pass and thread, and nowhere else."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from transformers import ViTConfig, ViTModel

from gddsg.backbones.base import Preprocess
from gddsg.errors import MissingExtraError
from gddsg.nn.injection import Injection, injected, tap_transformer
from gddsg.nn.networks import Transformer, load_network
from gddsg.nn.prompts import ShallowPrompts

CONFIG = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}


def plain():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return ViTModel(ViTConfig(**CONFIG, attn_implementation="sdpa"), add_pooling_layer=False).eval()


def tapped():
    return Transformer("tapped@0", plain(), Preprocess((8, 8)), "cpu")


def inputs(n=5, seed=0):
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


class Everything(Injection):
    """Adds something at every tap, and writes down where it was asked."""

    def __init__(self, size=0.1):
        super().__init__()
        self.size = torch.nn.Parameter(torch.tensor(size))
        self.asked = []

    def at_input(self, tokens):
        self.asked.append("input")
        return tokens + self.size

    def before_block(self, block, tokens):
        self.asked.append(f"before {block}")
        return tokens * (1 + self.size)

    def after_block(self, block, tokens):
        self.asked.append(f"after {block}")
        return tokens - self.size

    def keys_and_values(self, block, keys, values):
        self.asked.append(f"attention {block}")
        return keys + self.size, values - self.size

    def beside_mlp(self, block, tokens, out):
        self.asked.append(f"mlp {block}")
        return out + self.size * tokens


def test_without_an_injection_and_with_an_empty_one_it_is_the_plain_model_bit_for_bit():
    network, expected = tapped(), plain()(inputs()).last_hidden_state
    assert torch.equal(network.tokens(inputs()), expected)
    assert torch.equal(network.tokens(inputs(), Injection()), expected)
    assert not torch.allclose(network.tokens(inputs(), Everything()), expected)
    assert torch.equal(network.tokens(inputs()), expected)  # nothing of it has stayed


def test_an_injection_that_fails_leaves_the_network_as_it_was():
    class Fails(Injection):
        def after_block(self, block, tokens):
            raise RuntimeError("in the middle")

    network = tapped()
    expected = network.tokens(inputs())
    with pytest.raises(RuntimeError, match="in the middle"):
        network.tokens(inputs(), Fails())
    assert torch.equal(network.tokens(inputs()), expected)


def test_every_tap_is_asked_once_a_pass_in_order():
    injection = Everything()
    tapped().tokens(inputs(), injection)
    blocks = [[f"before {b}", f"attention {b}", f"mlp {b}", f"after {b}"] for b in range(3)]
    assert injection.asked == ["input", *(one for block in blocks for one in block)]


def test_taps_are_where_they_say_they_are():
    """A transformer written out by hand, with the same weights and the additions in between."""
    network, s = tapped(), 0.1
    vit = network.module
    x = vit.embeddings(inputs()) + s
    for layer in vit.layers:
        x = x * (1 + s)
        h, a = layer.layernorm_before(x), layer.attention
        q, k, v = (_linear(a, name, h).unflatten(2, (4, 8)).transpose(1, 2) for name in ("q", "k", "v"))
        k, v = k + s, v - s
        mixed = ((q @ k.transpose(2, 3)) / 8**0.5).softmax(3) @ v
        x = x + _linear(a, "o", mixed.transpose(1, 2).flatten(2))
        x = x + layer.mlp(layer.layernorm_after(x)) + s * x - s
    expected = vit.layernorm(x)
    found = network.tokens(inputs(), Everything(s))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def _linear(attention, name, x):
    return getattr(attention, f"{name}_proj")(x)


def test_layers_are_tapped_by_name_and_know_their_widths():
    class Doubles(Injection):
        def __init__(self, name):
            super().__init__()
            self.name, self.names = name, []

        def after_layer(self, name, out):
            self.names.append(name)
            return out * 2 if name == self.name else out

    network = tapped()
    one = Doubles("layernorm")
    torch.testing.assert_close(network.tokens(inputs(), one), 2 * network.tokens(inputs()))
    assert sorted(one.names) == sorted(network.layer_widths)
    modules = dict(network.module.named_modules())
    assert all(len(modules[name].weight) == width for name, width in network.layer_widths.items())


def test_gradients_reach_what_is_injected_and_nothing_else():
    network, injection = tapped(), Everything()
    network.features(inputs(), injection).square().sum().backward()
    assert injection.size.grad.abs() > 0
    assert all(one.grad is None and not one.requires_grad for one in network.module.parameters())


def test_passes_may_be_nested():
    network = tapped()
    expected = network.tokens(inputs())

    class Asks(Injection):
        def at_input(self, tokens):
            return tokens + 0 * network.tokens(inputs()).sum()  # a query of the plain network, as prompt pools make one

    with injected(Everything()):
        assert torch.equal(network.tokens(inputs(), Asks()), expected)


def test_threads_with_injections_and_weights_of_their_own_get_their_own_results():
    network, random = load_network("toy-vit", "cpu"), torch.Generator().manual_seed(0)
    ways = []
    for place in range(8):
        prompts = ShallowPrompts(2, network.width)
        torch.nn.init.normal_(prompts.tokens, std=1.0, generator=random)
        weights = {name: one + 0.02 * place for name, one in network.module.named_parameters()}
        ways.append([(None, None), (prompts, None), (None, weights), (prompts, weights)][place % 4])
    with torch.no_grad():
        expected = [network.features(inputs(), *way) for way in ways]
    assert len({one.numpy().tobytes() for one in expected}) == 7  # two of them have nothing of their own
    start = Barrier(len(ways))

    def ask(way):
        start.wait()
        with torch.no_grad():
            return [network.features(inputs(), *way) for _ in range(15)]

    with ThreadPoolExecutor(len(ways)) as pool:
        for found, right in zip(pool.map(ask, ways), expected, strict=True):
            for one in found:
                np.testing.assert_allclose(one.numpy(), right.numpy(), rtol=0, atol=1e-6)


def test_a_transformer_of_an_older_library_is_refused_in_words():
    with pytest.raises(MissingExtraError, match=r"transformers 5 or newer.*gddsg\[train\]"):
        tap_transformer(torch.nn.Linear(2, 2))
