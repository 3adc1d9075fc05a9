"""Class cards: sums that do not depend on the order, the split or the place of the samples, and hold no sample."""

import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gddsg.core.card_format import pack, unpack
from gddsg.core.class_card import (
    HELD_OUT_ONE_IN,
    MIN_HELD_OUT,
    ClassCard,
    Moments,
    content_hash,
    head_rank,
    held_out_rank,
    held_out_rows,
    principal_factor,
)
from gddsg.core.transform import signed_root, unit
from gddsg.errors import InputError

RANK = 64


def normal(*shape, seed=0, mean=0.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) + mean


def decaying(n, dim, seed=0):
    """Samples whose scatter has a falling spectrum, off the origin."""
    return normal(n, dim, seed=seed) * torch.logspace(0, -2, dim) + normal(dim, seed=seed + 100)


def explicit(vectors):
    """Mean and scatter in float64, straight from their definition."""
    exact = vectors.double()
    mean = exact.mean(0)
    return mean, (exact - mean).T @ (exact - mean)


def scatter(moments):
    return moments.factor.double().T @ moments.factor.double()


def assert_close(actual, expected, relative=1e-5):
    """Equal up to a share of the largest entry expected."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=relative * float(expected.abs().max()))


def assert_same_moments(a, b):
    assert (a.count, a.residual) == (b.count, b.residual)
    assert torch.equal(a.total, b.total)
    assert torch.equal(a.factor, b.factor)


def same(features):
    """A projection that does nothing."""
    return features


# Moments of a batch.


@pytest.mark.parametrize(("n", "dim"), [(1, 5), (2, 5), (9, 30), (60, 7), (64, 64)])
def test_moments_are_exact_up_to_the_rank(n, dim):
    vectors = normal(n, dim, seed=n, mean=3.0)
    moments = Moments.of(vectors, RANK)
    mean, expected = explicit(vectors)
    assert (moments.count, moments.dim) == (n, dim)
    assert len(moments.factor) == min(n - 1, dim)
    assert (moments.total.dtype, moments.factor.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(moments.mean, mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(scatter(moments), expected, rtol=0, atol=1e-5 * max(float(expected.trace()), 1e-3))
    assert moments.residual <= 1e-5 * float(expected.trace()) + 1e-12


def test_moments_of_nothing():
    nothing = Moments.of(torch.empty(0, 3), RANK)
    assert (nothing.count, nothing.dim, nothing.energy, nothing.factor.shape) == (0, 3, 0.0, (0, 3))
    assert torch.equal(nothing.mean, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize(("n", "dim", "rank"), [(20, 50, 8), (50, 20, 8), (90, 200, 8), (200, 90, 8), (40, 40, 1)])
def test_a_cut_factor_is_the_leading_part_of_the_scatter(n, dim, rank):
    """Both Gram matrices, each by the full decomposition and by subspace iteration."""
    vectors = decaying(n, dim)
    moments = Moments.of(vectors, rank)
    _, expected = explicit(vectors)
    values, directions = torch.linalg.eigh(expected)
    values, directions = values.flip(0)[:rank], directions.flip(1)[:, :rank]
    assert moments.factor.shape == (rank, dim)
    torch.testing.assert_close(moments.factor.double().square().sum(1), values, rtol=2e-3, atol=0)
    assert_close(scatter(moments), directions * values @ directions.T, relative=0.02)


@pytest.mark.parametrize(("n", "dim", "rank"), [(30, 50, 8), (50, 30, 8), (90, 200, 8), (2500, 12, 4), (9, 9, RANK)])
def test_kept_and_residual_energy_make_up_the_trace(n, dim, rank):
    vectors = normal(n, dim)
    moments = Moments.of(vectors, rank)
    trace = float(explicit(vectors)[1].trace())
    kept = float(moments.factor.double().square().sum())
    assert kept + moments.residual == pytest.approx(trace, rel=1e-5)
    assert moments.energy == pytest.approx(trace, rel=1e-5)
    assert (moments.residual > 0.1 * trace) == (rank < min(n, dim))


def test_many_rows_are_taken_in_chunks_without_a_difference():
    vectors = decaying(2500, 10)
    moments = Moments.of(vectors, RANK)
    mean, expected = explicit(vectors)
    assert moments.count == 2500
    torch.testing.assert_close(moments.mean, mean, rtol=1e-6, atol=1e-6)
    assert_close(scatter(moments), expected)


def test_constant_vectors_have_no_scatter():
    moments = Moments.of(torch.full((7, 4), 2.5), RANK)
    assert (moments.energy, len(moments.factor)) == (0.0, 0)
    assert torch.equal(moments.mean, torch.full((4,), 2.5, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_an_uncut_factor_is_turned_into_principal_directions_and_holds_no_sample(shape):
    vectors = normal(*shape, mean=1.0)
    centred = vectors - vectors.mean(0)
    factor, residual = principal_factor(centred, RANK)
    products = factor @ factor.T
    lengths = products.diagonal()
    assert residual <= 1e-5 * float(lengths.sum())
    assert bool((lengths[:-1] >= lengths[1:]).all())
    assert float((products - torch.diag(lengths)).abs().max()) < 1e-5 * float(lengths[0])
    for samples in (vectors, centred):
        assert float((unit(factor) @ unit(samples).T).abs().max()) < 0.95


# Merging moments.


@pytest.mark.parametrize(("sizes", "dim"), [((4, 9), 40), ((1, 1), 6), ((30, 2), 8), ((1, 50), 5)])
def test_merging_equals_one_batch_while_the_rank_is_not_exceeded(sizes, dim):
    parts = [normal(n, dim, seed=n, mean=4.0 * i) for i, n in enumerate(sizes)]
    merged = Moments.of(parts[0], RANK).merge(Moments.of(parts[1], RANK), RANK)
    mean, expected = explicit(torch.cat(parts))
    assert merged.count == sum(sizes)
    torch.testing.assert_close(merged.mean, mean, rtol=1e-6, atol=1e-6)
    assert_close(scatter(merged), expected)
    assert merged.residual <= 1e-5 * float(expected.trace())


def test_many_merges_equal_one_batch():
    parts = [normal(n, 9, seed=n, mean=n / 5) for n in range(1, 12)]
    merged = Moments.empty(9)
    for part in parts:
        merged = merged.merge(Moments.of(part, RANK), RANK)
    mean, expected = explicit(torch.cat(parts))
    torch.testing.assert_close(merged.mean, mean, rtol=1e-6, atol=1e-6)
    assert_close(scatter(merged), expected)


@pytest.mark.parametrize("sizes", [(5, 9), (6, 6), (1, 1), (40, 70), (0, 3)])
def test_merging_commutes_bit_for_bit(sizes):
    a, b = (Moments.of(normal(n, 20, seed=i), 8) for i, n in enumerate(sizes))
    assert_same_moments(a.merge(b, 8), b.merge(a, 8))


def test_merging_commutes_bit_for_bit_where_counts_and_sums_agree():
    halves = normal(6, 5, seed=0), normal(6, 5, seed=1)
    a, b = (Moments.of(torch.cat([half, -half]), 8) for half in halves)
    assert torch.equal(a.total, b.total)
    assert_same_moments(a.merge(b, 8), b.merge(a, 8))


def test_merging_with_nothing_changes_nothing():
    moments, nothing = Moments.of(normal(5, 4), RANK), Moments.empty(4)
    assert_same_moments(moments.merge(nothing, RANK), moments)
    assert_same_moments(nothing.merge(moments, RANK), moments)


def test_merging_beyond_the_rank_stays_near_one_batch():
    rank, parts = 12, [decaying(60, 40, seed=0), decaying(80, 40, seed=0) + 0.1]
    merged = Moments.of(parts[0], rank).merge(Moments.of(parts[1], rank), rank)
    batch = Moments.of(torch.cat(parts), rank)
    trace = float(explicit(torch.cat(parts))[1].trace())
    assert len(merged.factor) == rank
    assert merged.energy == pytest.approx(trace, rel=1e-5)
    assert 0 < batch.residual <= merged.residual * 1.001 < 1.2 * batch.residual
    assert_close(scatter(merged), scatter(batch), relative=0.03)


# Cards.


def card_features(n=40, dim=6, seed=0):
    """Signed features with ties, zeros and a repeated row."""
    features = normal(n, dim, seed=seed).mul(4).round() / 4
    features[-1] = features[0]
    return features


def test_a_card_holds_the_sums_of_its_class():
    features = card_features()
    card = ClassCard.of(features, same, 10 * RANK)
    exact = features.double()
    held_out = held_out_rows(content_hash(features))
    assert card.count == 40
    assert_close(card.feature_sum, exact.sum(0))
    assert_close(card.unit_sum, (exact / exact.norm(dim=1, keepdim=True)).sum(0))
    assert card.square_sum == pytest.approx(float(exact.square().sum()), rel=1e-6)
    for moments, vectors in (
        (card.raw, features),
        (card.root, features.sign() * features.abs().sqrt()),
        (card.projected, features[~held_out]),
        (card.held_out, features[held_out]),
    ):
        mean, expected = explicit(vectors)
        assert moments.count == len(vectors)
        torch.testing.assert_close(moments.mean, mean, rtol=1e-6, atol=1e-6)
        assert_close(scatter(moments), expected)


def test_the_projection_is_applied_to_every_sample_and_to_nothing_else():
    features = card_features()
    card = ClassCard.of(features, lambda x: torch.cat([x, 3 * x], dim=1), RANK)
    both = card.projected.total + card.held_out.total
    assert_close(both, torch.cat([features.sum(0), 3 * features.sum(0)]).double())
    assert (card.root.dim, card.raw.dim, card.projected.dim) == (6, 6, 12)


def test_factors_are_cut_to_the_ranks_of_their_use():
    card = ClassCard.of(normal(400, 50), same, 32)
    lengths = [len(part.factor) for part in (card.root, card.raw, card.projected, card.held_out)]
    assert lengths == [32, 32, 8, 4]
    assert (head_rank(32), held_out_rank(32), head_rank(1), held_out_rank(7)) == (8, 4, 1, 1)


def test_both_views_are_kept_unless_features_stay_plain():
    for features in (card_features(), card_features().abs()):
        plain, card = ClassCard.of(features, same, RANK, plain=True), ClassCard.of(features, same, RANK)
        assert plain.root is None
        assert_close(plain.raw.total, features.double().sum(0))
        assert_close(card.raw.total, features.double().sum(0))
        assert_close(card.root.total, signed_root(features.double()).sum(0))


def test_a_single_negative_number_makes_a_card_signed():
    features = card_features().abs()
    features[3] = -0.0
    assert not ClassCard.of(features, same, RANK).signed
    features[7, 2] = -0.25
    assert ClassCard.of(features, same, RANK).signed


@pytest.mark.parametrize("n", [1, 2, 40, 1500])
def test_the_order_of_the_rows_changes_no_bit(n):
    features = card_features(n)
    card = ClassCard.of(features, same, 8)
    for seed in range(3):
        shuffled = features[torch.randperm(n, generator=torch.Generator().manual_seed(seed))]
        assert ClassCard.of(shuffled, same, 8).to_bytes() == card.to_bytes()
    assert ClassCard.of(features.flip(0), same, 8) == card


def test_cards_of_different_samples_differ():
    features = card_features()
    other = features.clone()
    other[7, 3] += 0.25
    card = ClassCard.of(features, same, RANK)
    assert card != ClassCard.of(other, same, RANK)
    assert card != "a card"
    assert len({card, ClassCard.of(features.clone(), same, RANK), ClassCard.of(other, same, RANK)}) == 2


@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("sign", [1, -1])
def test_negative_zero_is_zero(n, sign):
    features = card_features(n).abs() * sign
    features[:, 1] = 0.0
    features[0, 4] = 0.0
    negative = torch.where(features == 0, -torch.zeros(()), features)
    assert bool(torch.signbit(negative[:, 1]).all())
    assert np.array_equal(content_hash(negative), content_hash(features))
    assert ClassCard.of(negative, same, RANK).to_bytes() == ClassCard.of(features, same, RANK).to_bytes()


def test_double_precision_makes_the_same_card_up_to_rounding():
    features = card_features() / 3
    single, double = ClassCard.of(features, same, RANK), ClassCard.of(features.double(), same, RANK)
    assert np.array_equal(content_hash(features), content_hash(features.double() * (1 + 1e-12)))
    assert (single.count, single.held_out.count) == (double.count, double.held_out.count)
    assert single.held_out.count >= MIN_HELD_OUT
    torch.testing.assert_close(single.unit_sum, double.unit_sum, rtol=1e-5, atol=1e-5)
    for name in ("root", "raw", "projected", "held_out"):
        a, b = getattr(single, name), getattr(double, name)
        torch.testing.assert_close(a.total, b.total, rtol=1e-5, atol=1e-5)
        assert_close(scatter(a), scatter(b))


def test_factors_are_float32_whatever_the_features():
    card = ClassCard.of(card_features().double(), same, RANK)
    assert {card.root.factor.dtype, card.raw.factor.dtype, card.projected.factor.dtype} == {torch.float32}


def test_merged_cards_are_the_card_of_all_samples():
    features, rank = card_features(120), 10 * RANK
    a, b = (ClassCard.of(part, same, rank) for part in (features[:70], features[70:]))
    assert min(a.held_out.count, b.held_out.count) >= MIN_HELD_OUT
    merged, batch = a.merge(b, rank), ClassCard.of(features, same, rank)
    assert merged == b.merge(a, rank)
    assert (merged.count, merged.held_out.count) == (120, batch.held_out.count)
    assert_close(merged.feature_sum, batch.feature_sum)
    assert_close(merged.unit_sum, batch.unit_sum)
    assert merged.square_sum == pytest.approx(batch.square_sum, rel=1e-6)
    for name in ("root", "raw", "projected", "held_out"):
        ours, theirs = getattr(merged, name), getattr(batch, name)
        assert ours.count == theirs.count
        assert_close(ours.total, theirs.total)
        assert_close(scatter(ours), scatter(theirs))


def test_merged_cards_are_cut_to_their_ranks_again():
    a, b = (ClassCard.of(normal(300, 50, seed=seed), same, 32) for seed in (0, 1))
    merged = a.merge(b, 32)
    assert [len(part.factor) for part in (merged.root, merged.raw, merged.projected, merged.held_out)] == [32, 32, 8, 4]


def test_a_merged_card_keeps_a_view_only_if_both_had_it():
    both, plain = (ClassCard.of(card_features(), same, RANK, plain=plain) for plain in (False, True))
    assert both.merge(plain, RANK).root is None
    assert both.merge(plain, RANK).raw.count == 80
    assert both.merge(both, RANK).root.count == 80


def test_a_merged_card_is_signed_if_either_was():
    signed, positive = (ClassCard.of(f, same, RANK) for f in (card_features(), card_features().abs()))
    pairs = [(signed, positive), (positive, signed), (signed, signed), (positive, positive)]
    assert [a.merge(b, RANK).signed for a, b in pairs] == [True, True, True, False]


@pytest.mark.parametrize("signed", [True, False])
def test_cards_of_files_from_before_the_sign_was_noted_can_be_read(signed):
    """They had a plain view for signed features alone."""
    features = card_features() if signed else card_features().abs()
    card = ClassCard.of(features, same, RANK)
    scalars, arrays = unpack(card.to_bytes())
    del scalars["signed"]
    if not signed:
        scalars = {name: value for name, value in scalars.items() if not name.startswith("raw.")}
        arrays = {name: value for name, value in arrays.items() if not name.startswith("raw.")}
    old = ClassCard.from_bytes(pack(scalars, arrays))
    assert (old.signed, old.raw is not None) == (signed, signed)
    assert_same_moments(old.root, card.root)


# Held-out samples.


def test_a_sample_is_held_out_for_its_content_wherever_it_stands():
    features = normal(500, 6)
    held_out = held_out_rows(content_hash(features))
    order = torch.randperm(500, generator=torch.Generator().manual_seed(1))
    assert torch.equal(held_out_rows(content_hash(features[order])), held_out[order])
    assert torch.equal(held_out_rows(content_hash(features[100:])), held_out[100:])
    assert torch.equal(held_out_rows(content_hash(features[:, torch.arange(6)].clone())), held_out)


@pytest.mark.parametrize(
    "features",
    [
        normal(5000, 6),
        normal(5000, 1),
        normal(5000, 6).mul(16).round(),
        normal(5000, 300) > 0,
        torch.arange(5000)[:, None] / 64,
    ],
    ids=["normal", "one feature", "whole numbers", "bits", "counting"],
)
def test_about_one_sample_in_five_is_held_out(features):
    assert float(held_out_rows(content_hash(features.float())).double().mean()) == pytest.approx(
        1 / HELD_OUT_ONE_IN, abs=0.03
    )


def test_hashes_of_different_rows_differ():
    features = torch.cat([normal(3000, 5), torch.eye(5), -torch.eye(5), 2 * torch.eye(5)])
    assert len(np.unique(content_hash(features))) == len(features)


@pytest.mark.parametrize("chosen", range(MIN_HELD_OUT + 2))
def test_fewer_than_a_few_held_out_samples_are_not_held_out(chosen):
    features = normal(100, 6)
    candidates = held_out_rows(content_hash(features))
    batch = torch.cat([features[~candidates][:20], features[candidates][:chosen]])
    card = ClassCard.of(batch, same, RANK)
    expected = chosen if chosen >= MIN_HELD_OUT else 0
    assert (card.count, card.held_out.count, card.projected.count) == (20 + chosen, expected, 20 + chosen - expected)
    assert_close(card.projected.total + card.held_out.total, batch.double().sum(0))


# Bytes.

CARD = ClassCard.of(card_features(), same, RANK)
BYTES = CARD.to_bytes()


@pytest.mark.parametrize("n", [1, 3, 200])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_bytes_bring_a_card_back_bit_for_bit(n, plain, positive):
    features = card_features(n).abs() if positive else card_features(n)
    card = ClassCard.of(features, same, 8, plain=plain)
    back = ClassCard.from_bytes(card.to_bytes())
    assert back == card
    assert back.to_bytes() == card.to_bytes()
    assert (back.count, back.square_sum) == (card.count, card.square_sum)
    assert torch.equal(back.feature_sum, card.feature_sum)
    assert torch.equal(back.unit_sum, card.unit_sum)
    for name in ("root", "raw", "projected", "held_out"):
        ours, theirs = getattr(back, name), getattr(card, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_same_moments(ours, theirs)


def test_a_card_from_bytes_can_be_merged():
    other = ClassCard.of(card_features(seed=5), same, RANK)
    assert ClassCard.from_bytes(BYTES).merge(ClassCard.from_bytes(other.to_bytes()), RANK) == CARD.merge(other, RANK)


def test_the_size_of_a_card_does_not_grow_with_its_samples():
    sizes = [len(ClassCard.of(normal(n, 12), same, 8).to_bytes()) for n in (200, 2000)]
    assert abs(sizes[1] - sizes[0]) < 50


def test_every_cut_of_the_bytes_is_refused():
    for length in range(len(BYTES)):
        with pytest.raises(InputError, match="not a class card"):
            ClassCard.from_bytes(BYTES[:length])


def test_bytes_too_many_are_refused():
    with pytest.raises(InputError, match="8 bytes too many"):
        ClassCard.from_bytes(BYTES + bytes(8))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=300))
@example(b"")
@example(bytes(4))
@example(b"\xff\xff\xff\xff")
def test_garbage_is_refused(data):
    with pytest.raises(InputError, match="not a class card"):
        ClassCard.from_bytes(data)


def packed(index, body=b""):
    head = json.dumps(index).encode()
    return struct.pack("<I", len(head)) + head + body


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.sampled_from(["float32", "int8", "count"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["arrays", "scalars", "a"]), inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(json_values, st.binary(max_size=40))
@example({"arrays": {"a": ["object", [1]]}, "scalars": {}}, bytes(8))
@example({"arrays": {}, "scalars": {}}, b"")
def test_an_index_of_something_else_is_refused(index, body):
    with pytest.raises(InputError, match="not a class card"):
        ClassCard.from_bytes(packed(index, body))


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.integers(0, len(BYTES) - 1), st.integers(1, 255))
def test_a_changed_byte_gives_another_card_or_an_input_error(position, change):
    data = bytearray(BYTES)
    data[position] ^= change
    try:
        card = ClassCard.from_bytes(bytes(data))
    except InputError:
        return
    (size,) = struct.unpack_from("<I", BYTES)
    assert card != CARD or position < 4 + size  # blanks between the words of the index say nothing


@pytest.mark.parametrize("dtype", ["int64", "object", "<f8", "complex64"])
def test_arrays_of_another_type_are_refused(dtype):
    (size,) = struct.unpack_from("<I", BYTES)
    index, body = json.loads(BYTES[4 : 4 + size]), BYTES[4 + size :]
    index["arrays"]["unit_sum"][0] = dtype
    with pytest.raises(InputError, match=f"unit_sum has the type {dtype}"):
        ClassCard.from_bytes(packed(index, body))


@pytest.mark.parametrize("place", ["count", "shape"])
def test_an_infinite_count_or_length_is_refused(place):
    (size,) = struct.unpack_from("<I", BYTES)
    index, body = json.loads(BYTES[4 : 4 + size]), BYTES[4 + size :]
    if place == "count":
        index["scalars"]["count"] = float("inf")
    else:
        index["arrays"]["unit_sum"][1] = [float("inf")]
    with pytest.raises(InputError):
        ClassCard.from_bytes(packed(index, body))


def test_a_deeply_nested_index_is_refused():
    head = b"[" * 200_000
    with pytest.raises(InputError):
        ClassCard.from_bytes(struct.pack("<I", len(head)) + head)
