"""Prompts and prefixes against formulas written out, on a ViT whose heads really differ."""

import math

import numpy as np
import pytest
import torch
from transformers import ViTConfig, ViTModel

from gddsg.backbones.base import Preprocess
from gddsg.data.images import Images
from gddsg.errors import BackboneError, InputError
from gddsg.learners.coda_prompt import component_weights, orthogonal_rows
from gddsg.nn.networks import Network, Transformer, load_network, require_transformer
from gddsg.nn.prompting import FrozenQueries, checked_blocks, cosines, most_similar, most_voted
from gddsg.nn.prompts import InputPrompts, Prefixes
from gddsg.nn.training_data import Batch, TrainingData

WIDTH, HEADS, LENGTH, N = 48, 4, 3, 5


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def four_heads(kind=Transformer):
    config = ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module = ViTModel(config, add_pooling_layer=False)
        for weights in module.parameters():  # as drawn they are so small that attention is the same everywhere
            torch.nn.init.normal_(weights, std=0.3)
    return kind("four-heads@0", module, Preprocess((8, 8), mean=(0.5,) * 3, deviation=(0.25,) * 3), "cpu")


@pytest.fixture(scope="module")
def network():
    return four_heads()


@pytest.fixture(scope="module")
def inputs():
    return drawn(N, 3, 8, 8, seed=2)


# ---------------------------------------------------------------- prefixes


def attention_written_out(layer, tokens, prefix_keys, prefix_values):
    """A block of a ViT, head by head and sample by sample, with prefixes before its keys and values."""
    normed = layer.layernorm_before(tokens)
    queries, keys, values = (getattr(layer.attention, f"{part}_proj")(normed) for part in "qkv")
    keys, values = torch.cat([prefix_keys, keys], 1), torch.cat([prefix_values, values], 1)
    size = WIDTH // HEADS
    out = torch.empty_like(normed)
    for n in range(len(tokens)):
        for head in range(HEADS):
            own = slice(head * size, (head + 1) * size)
            weights = (queries[n][:, own] @ keys[n][:, own].T / math.sqrt(size)).softmax(1)
            out[n][:, own] = weights @ values[n][:, own]
    attended = tokens + layer.attention.o_proj(out)
    return attended + layer.mlp(layer.layernorm_after(attended))


def through_blocks(network, inputs, prefixes):
    tokens = network.module.embeddings(inputs)
    for block, layer in enumerate(network.module.layers):
        tokens = attention_written_out(layer, tokens, *prefixes.get(block, (drawn(len(inputs), 0, WIDTH),) * 2))
    return network.module.layernorm(tokens)


def test_prefix_attention_is_attention_with_keys_and_values_put_in_front(network, inputs):
    prefixes = {
        block: (drawn(N, LENGTH, WIDTH, seed=block), drawn(N, LENGTH, WIDTH, seed=9 + block)) for block in (0, 2)
    }
    with torch.no_grad():
        expected = through_blocks(network, inputs, prefixes)
        found = network.tokens(inputs, Prefixes(prefixes))
        plain = network.tokens(inputs)
    assert torch.allclose(found, expected, atol=1e-4)
    assert found.shape == plain.shape
    assert not torch.allclose(found, plain, atol=0.1)


def test_the_same_holds_without_a_prefix(network, inputs):
    with torch.no_grad():
        assert torch.allclose(network.tokens(inputs), through_blocks(network, inputs, {}), atol=1e-4)


def mixed_by_reshaping(prefix):
    """What becomes of a prefix whose axes length and heads are not swapped, but taken for each other."""
    size = WIDTH // HEADS
    taken = prefix.reshape(len(prefix), HEADS, LENGTH, size)
    return taken.transpose(1, 2).reshape(len(prefix), LENGTH, WIDTH)


def test_every_head_gets_its_own_part_of_a_prefix(network, inputs):
    """Code that reshapes without swapping axes gives the tokens of the mixed prefix, which are others."""
    right = (drawn(N, LENGTH, WIDTH, seed=3), drawn(N, LENGTH, WIDTH, seed=4))
    wrong = (mixed_by_reshaping(right[0]), mixed_by_reshaping(right[1]))
    with torch.no_grad():
        found = network.tokens(inputs, Prefixes({1: right}))
        assert torch.allclose(found, through_blocks(network, inputs, {1: right}), atol=1e-4)
        assert not torch.allclose(found, through_blocks(network, inputs, {1: wrong}), atol=0.1)


def test_heads_are_told_apart_by_columns():
    """Row r of head h is row r, columns of h."""
    prefix = torch.arange(N * LENGTH * WIDTH, dtype=torch.float32).reshape(N, LENGTH, WIDTH)
    size = WIDTH // HEADS
    none = torch.empty(N, HEADS, 0, size)
    keys, values = Prefixes({0: (prefix, -prefix)}).keys_and_values(0, none, none)
    for head in range(HEADS):
        assert torch.equal(keys[:, head], prefix[:, :, head * size : (head + 1) * size])
    assert torch.equal(values, -keys)


def test_blocks_without_a_prefix_stay():
    keys, values = drawn(N, HEADS, 2, 12), drawn(N, HEADS, 2, 12, seed=1)
    found = Prefixes({1: (drawn(N, LENGTH, WIDTH),) * 2}).keys_and_values(0, keys, values)
    assert found[0] is keys
    assert found[1] is values


# ---------------------------------------------------------------- prompts at the input


def test_input_prompts_stand_before_all_tokens(network, inputs):
    prompts = drawn(N, LENGTH, WIDTH, seed=5)
    with torch.no_grad():
        tokens = torch.cat([prompts, network.module.embeddings(inputs)], 1)
        for layer in network.module.layers:
            nothing = drawn(N, 0, WIDTH)
            tokens = attention_written_out(layer, tokens, nothing, nothing)
        expected = network.module.layernorm(tokens)
        assert torch.allclose(network.tokens(inputs, InputPrompts(prompts)), expected, atol=1e-4)


def test_prompts_of_a_sample_concern_that_sample_alone(network, inputs):
    prompts = drawn(N, LENGTH, WIDTH, seed=5)
    with torch.no_grad():
        together = network.tokens(inputs, InputPrompts(prompts))
        for n in range(N):
            alone = network.tokens(inputs[n : n + 1], InputPrompts(prompts[n : n + 1]))
            assert torch.allclose(alone[0], together[n], atol=1e-5)


def test_the_order_of_prompts_does_not_matter_to_their_mean(network, inputs):
    prompts = drawn(N, LENGTH, WIDTH, seed=5)
    with torch.no_grad():
        means = [network.tokens(inputs, InputPrompts(p))[:, :LENGTH].mean(1) for p in (prompts, prompts.flip(1))]
    assert torch.allclose(*means, atol=1e-5)


# ---------------------------------------------------------------- the plain network stays


def test_the_plain_network_gives_the_same_bits_before_within_another_call_and_after(network, inputs):
    weights = {name: one.clone() for name, one in network.module.state_dict().items()}
    before = network.tokens(inputs)
    outside = []

    class Looking(Prefixes):
        def keys_and_values(self, block, keys, values):
            outside.append(network.tokens(inputs, None))  # a plain pass in the middle of one with prefixes
            return super().keys_and_values(block, keys, values)

    prefix = drawn(N, LENGTH, WIDTH).requires_grad_()
    changed = network.tokens(inputs, Looking({0: (prefix, prefix)}))
    changed.sum().backward()
    assert prefix.grad is not None
    assert not torch.equal(changed, before)
    assert all(torch.equal(one, before) for one in [*outside, network.tokens(inputs)])
    assert len(outside) == 3
    assert all(torch.equal(one, weights[name]) for name, one in network.module.state_dict().items())
    assert all(one.grad is None for one in network.module.parameters())


def test_an_error_in_an_injection_leaves_none_behind(network, inputs):
    before = network.tokens(inputs)
    with pytest.raises(RuntimeError):
        network.tokens(inputs, InputPrompts(drawn(N + 1, LENGTH, WIDTH)))
    assert torch.equal(network.tokens(inputs), before)


# ---------------------------------------------------------------- choosing


def test_prompts_are_chosen_by_the_cosine_written_out():
    queries, keys = drawn(7, WIDTH, seed=1) * 9, drawn(6, WIDTH, seed=2)
    keys *= torch.arange(1, 7)[:, None]  # long keys must not win for being long
    places = most_similar(cosines(queries, keys), 3)
    for n, query in enumerate(queries.tolist()):
        near = [
            sum(a * b for a, b in zip(query, key, strict=True))
            / math.sqrt(sum(a * a for a in query))
            / math.sqrt(sum(b * b for b in key))
            for key in keys.tolist()
        ]
        assert cosines(queries, keys)[n].tolist() == pytest.approx(near, abs=1e-6)
        assert places[n].tolist() == sorted(range(6), key=lambda k: -near[k])[:3]


def test_of_equals_the_first_is_chosen():
    assert most_similar(torch.tensor([[0.5] * 40, [0.0] * 39 + [0.1]]), 3).tolist() == [[0, 1, 2], [39, 0, 1]]


def test_choice_is_per_sample_and_a_vote_is_not():
    near = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.0, 0.3, 0.7]])
    assert most_similar(near, 1).tolist() == [[0], [0], [2]]
    assert most_voted(near, 1).tolist() == [[0], [0], [0]]
    assert most_voted(near, 2).tolist() == [[1, 0]] * 3  # the second prompt is among the nearest two of all samples
    assert most_voted(near[2:], 1).tolist() == [[2]]


@pytest.mark.parametrize("blocks", [(), (0, 0), (-1,), (0.5,), "01", 3, None])
def test_blocks_that_are_none_are_refused(blocks):
    with pytest.raises(InputError, match="expected distinct blocks"):
        checked_blocks(blocks, "blocks")


# ---------------------------------------------------------------- queries


class Counting(Transformer):
    """A network that counts the samples of its passes."""

    passed = 0

    def tokens(self, inputs, injection=None, weights=None):
        self.passed += len(inputs)
        return super().tokens(inputs, injection, weights)


@pytest.fixture
def counting():
    found = four_heads(Counting)
    found.passed = 0
    return found


def some_images(n):
    pixels = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return Images.of(pixels)


def test_queries_are_computed_once_and_are_those_of_the_rows(counting):
    images = some_images(70)
    data = TrainingData(counting, images, [0] * 70, augment=False)
    queries = FrozenQueries(counting, data)
    random = np.random.default_rng(0)
    for rows in (np.array([69, 0, 3]), np.arange(70)[::-1].copy()):
        found = queries.of(data.batch(rows, random))
        assert counting.passed == 70
        with torch.no_grad():
            expected = Network.embed(counting, images[rows])
        counting.passed = 70
        assert torch.allclose(found, expected, atol=1e-5)
        assert not found.requires_grad


def test_queries_of_augmented_inputs_are_computed_from_these(counting):
    data = TrainingData(counting, some_images(9), [0] * 9, augment=True)
    queries, random = FrozenQueries(counting, data), np.random.default_rng(0)
    assert counting.passed == 0
    first, second = (data.batch(np.arange(9), random) for _ in range(2))
    assert torch.equal(queries.of(first), counting.features(first.inputs))
    assert not torch.allclose(queries.of(first), queries.of(second), atol=1e-3)


def test_a_process_without_samples_of_its_own_still_gets_a_query(counting):
    data = TrainingData(counting, some_images(4), [0] * 4, augment=False)
    batch = data.batch(np.arange(4), np.random.default_rng(0))
    spare = Batch(batch.inputs[:1], batch.targets[:1], batch.rows[:0])
    assert FrozenQueries(counting, data).of(spare).shape == (1, WIDTH)


# ---------------------------------------------------------------- components


def test_weights_of_components_against_loops():
    blocks, components = 2, 3
    queries = drawn(N, WIDTH, seed=1)
    attention, keys = drawn(blocks, components, WIDTH, seed=2), drawn(blocks, components, WIDTH, seed=3)
    found = component_weights(queries, attention, keys)
    for b in range(blocks):
        for n in range(N):
            for k in range(components):
                seen = (queries[n] * attention[b, k]).double().numpy()
                key = keys[b, k].double().numpy()
                expected = seen @ key / np.linalg.norm(seen) / np.linalg.norm(key)
                assert float(found[b, n, k]) == pytest.approx(expected, abs=1e-6)


def test_a_query_of_zeros_has_weights_and_gradients_that_are_numbers():
    attention = drawn(1, 2, WIDTH).requires_grad_()
    weights = component_weights(torch.zeros(1, WIDTH), attention, drawn(1, 2, WIDTH, seed=1))
    weights.sum().backward()
    assert torch.equal(weights, torch.zeros(1, 1, 2))
    assert bool(torch.isfinite(attention.grad).all())


def test_new_rows_are_at_right_angles_to_old_ones_and_each_other():
    known = drawn(7, 16, seed=4)  # not at right angles themselves, as trained ones are not
    known[3] = 2 * known[1]
    rows = orthogonal_rows(known, 5, torch.Generator().manual_seed(0))
    assert rows.shape == (5, 16)
    assert rows.dtype == torch.float32
    assert torch.allclose(rows @ known.T, torch.zeros(5, 7), atol=1e-5)
    assert torch.allclose(rows @ rows.T, torch.eye(5), atol=1e-5)


def test_where_no_direction_is_left_rows_are_as_drawn():
    rows = orthogonal_rows(drawn(6, 8, seed=4), 5, torch.Generator().manual_seed(0))
    assert torch.allclose(rows[:2] @ rows[:2].T, torch.eye(2), atol=1e-5)
    assert torch.allclose(rows.norm(dim=1), torch.ones(5), atol=1e-5)
    assert float((rows[2:] @ rows.T - torch.eye(5)[2:]).abs().max()) > 0.01
    assert len({tuple(row) for row in rows.tolist()}) == 5


def test_rows_come_from_the_generator_alone():
    state = torch.get_rng_state()
    first, second, other = (orthogonal_rows(drawn(2, 8), 3, torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


# ---------------------------------------------------------------- networks that have no such blocks


def test_too_few_blocks_are_refused():
    toy = load_network("toy-vit")
    assert require_transformer(toy, "A", 2) is toy
    with pytest.raises(BackboneError, match="A needs a ViT of 3 blocks at least, and toy-vit@0 has 2"):
        require_transformer(toy, "A", 3)
