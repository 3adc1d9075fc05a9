"""Class cards: sums that do not depend on the order, the split or the place of the samples, and hold no sample."""

import json
import pickle
import struct

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gddsg.core.card_format import pack, unpack
from gddsg.core.class_card import MIN_HELD_OUT, CardRanks, ClassCard
from gddsg.core.content_hash import hash_rows, is_held_out
from gddsg.core.moments import Moments
from gddsg.core.transform import signed_root, unit
from gddsg.errors import InputError

RANK = 64
CODED = 0.01  # how far an entry in one byte may take a scatter off, as a share of its largest entry


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
    factor = moments.factor.decoded().double()
    return factor.T @ factor


def assert_close(actual, expected, relative=1e-5):
    """Equal up to a share of the largest entry expected."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=relative * float(expected.abs().max()))


def assert_same_moments(a, b):
    assert (a.count, a.residual) == (b.count, b.residual)
    assert torch.equal(a.total, b.total)
    assert np.array_equal(a.factor.codes, b.factor.codes)
    assert np.array_equal(a.factor.scales, b.factor.scales)


def same(features):
    """A projection that does nothing."""
    return features


# Cards.


def card_features(n=40, dim=6, seed=0):
    """Features with ties, zeros and a repeated row, none negative."""
    features = normal(n, dim, seed=seed).mul(4).round().abs() / 4
    features[-1] = features[0]
    return features


def signed_features(n=40, dim=6, seed=0):
    """The same with signs."""
    return card_features(n, dim, seed) * normal(n, dim, seed=seed + 100).sign()


def test_a_card_holds_the_sums_of_its_class():
    features = card_features()
    card = ClassCard.of(features, same, 10 * RANK)
    exact = features.double()
    held_out = is_held_out(hash_rows(features))
    assert card.count == 40
    assert_close(card.centroid, exact.mean(0))
    assert_close(card.unit_sum.double(), (exact / exact.norm(dim=1, keepdim=True)).sum(0))
    assert card.raw.energy == pytest.approx(float((exact - exact.mean(0)).square().sum()), rel=1e-3)
    for moments, vectors in (
        (card.raw, features),
        (card.root, features.sqrt()),
        (card.projected, features[~held_out]),
        (card.held_out, features[held_out]),
    ):
        mean, expected = explicit(vectors)
        assert moments.count == len(vectors)
        torch.testing.assert_close(moments.mean, mean, rtol=1e-6, atol=1e-6)
        assert_close(scatter(moments), expected, relative=CODED)
        assert moments.energy == pytest.approx(float(expected.trace()), rel=2e-3)


def test_the_projection_is_applied_to_every_sample_and_to_nothing_else():
    features = card_features()
    card = ClassCard.of(features, lambda x: torch.cat([x, 3 * x], dim=1), RANK)
    both = card.projected.total + card.held_out.total
    assert_close(both, torch.cat([features.sum(0), 3 * features.sum(0)]))
    assert (card.root.dim, card.raw.dim, card.projected.dim) == (6, 6, 12)


def factor_ranks(card):
    return [0 if part is None else len(part.factor) for part in (card.root, card.raw, card.projected, card.held_out)]


def test_factors_are_cut_to_the_ranks_of_their_use():
    features = normal(400, 50)
    assert factor_ranks(ClassCard.of(features, same, 32)) == [0, 32, 4, 2]
    assert factor_ranks(ClassCard.of(features.abs(), same, 32)) == [32, 8, 4, 2]
    assert factor_ranks(ClassCard.of(features.abs(), same, 32, plain=True)) == [0, 32, 4, 2]


def test_ranks_by_hand():
    assert CardRanks.of(64) == CardRanks(usual=64, spare=16, projected=8, held_out=4)
    assert CardRanks.of(3) == CardRanks(3, 1, 1, 1)
    ranks = CardRanks.of(64)
    assert [ranks.of_plain(rooted, dim=65) for rooted in (True, False)] == [16, 64]
    assert [ranks.of_plain(rooted, dim=64) for rooted in (True, False)] == [64, 64]


def test_few_features_keep_both_views_whole():
    features = normal(200, 12).abs()
    assert factor_ranks(ClassCard.of(features, same, 16))[:2] == [12, 12]
    halves = [ClassCard.of(half, same, 16) for half in features.chunk(2)]
    assert factor_ranks(halves[0].merge(halves[1], 16))[:2] == [12, 12]


def test_roots_are_kept_beside_plain_features_unless_these_stay_plain():
    features = card_features()
    plain, card = ClassCard.of(features, same, RANK, plain=True), ClassCard.of(features, same, RANK)
    assert plain.root is None
    assert plain.view("root") is None
    assert_close(plain.raw.total, features.sum(0))
    assert_close(card.raw.total, features.sum(0))
    assert_close(card.root.total, features.sqrt().sum(0))
    assert (card.view("root"), card.view("raw")) == (card.root, card.raw)


def test_a_single_negative_number_leaves_a_card_without_roots():
    features = card_features()
    features[3] = -0.0
    assert ClassCard.of(features, same, RANK).root is not None
    features[7, 2] = -0.25
    assert ClassCard.of(features, same, RANK).root is None


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
    features = card_features(n) * sign
    features[:, 1] = 0.0
    features[0, 4] = 0.0
    negative = torch.where(features == 0, -torch.zeros(()), features)
    assert bool(torch.signbit(negative[:, 1]).all())
    assert np.array_equal(hash_rows(negative), hash_rows(features))
    assert ClassCard.of(negative, same, RANK).to_bytes() == ClassCard.of(features, same, RANK).to_bytes()


def test_double_precision_makes_the_same_card_up_to_rounding():
    features = card_features() / 3
    single, double = ClassCard.of(features, same, RANK), ClassCard.of(features.double(), same, RANK)
    assert np.array_equal(hash_rows(features), hash_rows(features.double() * (1 + 1e-12)))
    assert (single.count, single.held_out.count) == (double.count, double.held_out.count)
    assert single.held_out.count >= MIN_HELD_OUT
    torch.testing.assert_close(single.unit_sum, double.unit_sum, rtol=1e-5, atol=1e-5)
    for name in ("root", "raw", "projected", "held_out"):
        a, b = getattr(single, name), getattr(double, name)
        torch.testing.assert_close(a.total, b.total, rtol=1e-5, atol=1e-5)
        assert_close(scatter(a), scatter(b), relative=CODED)


def test_numbers_are_small_whatever_the_features():
    card = ClassCard.of(card_features().double(), same, RANK)
    for part in (card.root, card.raw, card.projected, card.held_out):
        assert (part.total.dtype, part.factor.codes.dtype, part.factor.scales.dtype) == (
            torch.float32,
            np.int8,
            np.float32,
        )
    assert card.unit_sum.dtype == torch.float32


def test_a_card_as_large_as_real_ones_takes_at_most_170_kb():
    """500 samples, L = 1280, M = 2000, rank 64."""
    features = normal(500, 1280).abs()
    weights = normal(1280, 2000, seed=1)
    card = ClassCard.of(features, lambda x: (x @ weights).relu(), 64)
    assert factor_ranks(card) == [64, 16, 8, 4]
    assert len(card.to_bytes()) <= 170_000


def test_merged_cards_are_the_card_of_all_samples():
    features, rank = card_features(120), 10 * RANK
    a, b = (ClassCard.of(part, same, rank) for part in (features[:70], features[70:]))
    assert min(a.held_out.count, b.held_out.count) >= MIN_HELD_OUT
    merged, batch = a.merge(b, rank), ClassCard.of(features, same, rank)
    assert merged == b.merge(a, rank)
    assert (merged.count, merged.held_out.count) == (120, batch.held_out.count)
    assert_close(merged.unit_sum, batch.unit_sum)
    for name in ("root", "raw", "projected", "held_out"):
        ours, theirs = getattr(merged, name), getattr(batch, name)
        assert ours.count == theirs.count
        assert_close(ours.total, theirs.total)
        assert_close(scatter(ours), scatter(theirs), relative=CODED)
        assert ours.energy == pytest.approx(theirs.energy, rel=2e-3)


def test_merged_cards_are_cut_to_their_ranks_again():
    a, b = (normal(300, 50, seed=seed) for seed in (0, 1))

    def merged(*parts):
        first, second = (ClassCard.of(part, same, 32) for part in parts)
        return factor_ranks(first.merge(second, 32))

    assert merged(a, b) == [0, 32, 4, 2]
    assert merged(a.abs(), b.abs()) == [32, 8, 4, 2]
    plain = [ClassCard.of(part.abs(), same, 32, plain=True) for part in (a, b)]
    assert len(plain[0].merge(plain[1], 32).raw.factor) == 32


def test_a_merged_card_keeps_a_view_only_if_both_had_it():
    both, plain = (ClassCard.of(card_features(), same, RANK, plain=plain) for plain in (False, True))
    assert both.merge(plain, RANK).root is None
    assert both.merge(plain, RANK).raw.count == 80
    assert both.merge(both, RANK).root.count == 80


def test_a_merged_card_has_no_roots_if_either_has_a_negative_feature():
    signed, positive = (ClassCard.of(f, same, RANK) for f in (signed_features(), card_features()))
    pairs = [(signed, positive), (positive, signed), (signed, signed), (positive, positive)]
    assert [a.merge(b, RANK).root is None for a, b in pairs] == [True, True, True, False]


# Keys.


def test_a_key_is_a_matter_of_content_and_never_changes():
    features = torch.tensor([[0.0, 1.0, 2.5], [3.25, 0.0, 1.0]])
    card = ClassCard.of(features, same, RANK)
    assert card.key == 9504271780846774349
    assert 0 <= card.key < 2**64
    assert hash(card) == hash(ClassCard.of(features.flip(0), same, RANK))
    ids = np.array([1, 2], dtype=np.uint64)
    assert ClassCard.of(features, same, RANK, sample_ids=ids).key == card.key
    assert ClassCard.of(features, same, RANK, sample_ids=ids) != card
    assert ClassCard.of(2 * features, same, RANK).key != card.key
    assert ClassCard.of(features[[0, 1, 1]], same, RANK).key != card.key
    assert ClassCard.from_bytes(card.to_bytes(), RANK).key == card.key
    assert pickle.loads(pickle.dumps(card)).key == card.key


def test_merged_cards_have_one_key_whatever_the_order():
    a, b = (ClassCard.of(card_features(seed=seed), same, RANK) for seed in (0, 1))
    assert a.merge(b, RANK).key == b.merge(a, RANK).key != a.key


# Cards of format 1.


def first_format(features, rank, plain=False, sample_ids=None):
    """The bytes that the first version wrote: exact sums, float32 factors of higher ranks."""
    held_out = is_held_out(hash_rows(features))
    if int(held_out.sum()) < MIN_HELD_OUT:
        held_out[:] = False
    moments = {
        "root": Moments.of(signed_root(features), rank),
        "raw": Moments.of(features, rank),
        "projected": Moments.of(features[~held_out], max(rank // 4, 1)),
        "held_out": Moments.of(features[held_out], max(rank // 8, 1)),
    }
    if plain:
        del moments["root"]
    scalars = {
        "count": len(features),
        "square_sum": float(features.double().square().sum()),
        "signed": bool((features < 0).any()),
    }
    arrays = {
        "feature_sum": features.double().sum(0).numpy(),
        "unit_sum": unit(features.double()).sum(0).numpy(),
    }
    if sample_ids is not None:
        arrays["sample_ids"] = sample_ids
    for name, part in moments.items():
        scalars |= {f"{name}.count": part.count, f"{name}.residual": part.residual}
        arrays |= {f"{name}.total": part.total.numpy(), f"{name}.factor": part.factor.numpy()}
    return pack(scalars, arrays)


@pytest.mark.parametrize("n", [1, 3, 200])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_a_card_of_format_1_can_be_read(n, plain, positive):
    features = decaying(n, 30).abs() if positive else decaying(n, 30)
    ids = np.arange(n, dtype=np.uint64)
    card = ClassCard.from_bytes(first_format(features, 16, plain, ids), 16)
    today = ClassCard.of(features, same, 16, plain=plain, sample_ids=ids)
    assert (card.count, card.root is None) == (n, today.root is None) == (n, plain or not positive)
    assert card.sample_ids.tolist() == ids.tolist()
    assert_close(card.unit_sum, today.unit_sum)
    for name in ("root", "raw", "projected", "held_out"):
        ours, theirs = getattr(card, name), getattr(today, name)
        if theirs is not None:
            assert (ours.count, len(ours.factor)) == (theirs.count, len(theirs.factor))
            torch.testing.assert_close(ours.total, theirs.total, rtol=1e-5, atol=1e-5)
            assert ours.energy == pytest.approx(theirs.energy, rel=1e-3, abs=1e-9)
            torch.testing.assert_close(scatter(ours), scatter(theirs), rtol=0, atol=0.05 * theirs.energy / n + 1e-9)
    assert ClassCard.from_bytes(card.to_bytes(), 16) == card
    assert card.merge(today, 16).count == 2 * n


def test_a_damaged_card_of_format_1_is_refused():
    data = first_format(card_features(), 16)
    scalars, arrays = unpack(data)
    for length in (3, 50, 700, len(data) - 1):
        with pytest.raises(InputError, match="not a class card"):
            ClassCard.from_bytes(data[:length], 16)
    for name in ("unit_sum", "raw.total", "raw.factor", "projected.total", "held_out.factor"):
        missing = {key: array for key, array in arrays.items() if key != name}
        infinite = arrays | {name: np.full_like(arrays[name], np.inf)}
        flat = arrays | {name: arrays[name].ravel()[:3]}
        for broken in (missing, infinite, flat):
            with pytest.raises(InputError, match="not a class card"):
                ClassCard.from_bytes(pack(scalars, broken), 16)


# Held-out samples.


@pytest.mark.parametrize("chosen", range(MIN_HELD_OUT + 2))
def test_fewer_than_a_few_held_out_samples_are_not_held_out(chosen):
    features = normal(100, 6)
    candidates = is_held_out(hash_rows(features))
    batch = torch.cat([features[~candidates][:20], features[candidates][:chosen]])
    card = ClassCard.of(batch, same, RANK)
    expected = chosen if chosen >= MIN_HELD_OUT else 0
    assert (card.count, card.held_out.count, card.projected.count) == (20 + chosen, expected, 20 + chosen - expected)
    assert_close(card.projected.total + card.held_out.total, batch.sum(0))


# Bytes.

CARD = ClassCard.of(card_features(), same, RANK)
BYTES = CARD.to_bytes()


@pytest.mark.parametrize("n", [1, 3, 200])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_bytes_bring_a_card_back_bit_for_bit(n, plain, positive):
    features = card_features(n).abs() if positive else card_features(n)
    card = ClassCard.of(features, same, 8, plain=plain)
    back = ClassCard.from_bytes(card.to_bytes(), 8)
    assert back == card
    assert back.to_bytes() == card.to_bytes()
    assert (back.count, back.root is None, back.key) == (card.count, card.root is None, card.key)
    assert torch.equal(back.unit_sum, card.unit_sum)
    for name in ("root", "raw", "projected", "held_out"):
        ours, theirs = getattr(back, name), getattr(card, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_same_moments(ours, theirs)


def test_a_card_from_bytes_can_be_merged():
    other = ClassCard.of(card_features(seed=5), same, RANK)
    assert ClassCard.from_bytes(BYTES, RANK).merge(ClassCard.from_bytes(other.to_bytes(), RANK), RANK) == CARD.merge(
        other, RANK
    )


def test_the_size_of_a_card_does_not_grow_with_its_samples():
    sizes = [len(ClassCard.of(normal(n, 12), same, 8).to_bytes()) for n in (200, 2000)]
    assert abs(sizes[1] - sizes[0]) < 50


def test_every_cut_of_the_bytes_is_refused():
    for length in range(len(BYTES)):
        with pytest.raises(InputError, match="not a class card"):
            ClassCard.from_bytes(BYTES[:length], RANK)


def test_bytes_too_many_are_refused():
    with pytest.raises(InputError, match="8 bytes too many"):
        ClassCard.from_bytes(BYTES + bytes(8), RANK)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=300))
@example(b"")
@example(bytes(4))
@example(b"\xff\xff\xff\xff")
def test_garbage_is_refused(data):
    with pytest.raises(InputError, match="not a class card"):
        ClassCard.from_bytes(data, RANK)


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
        ClassCard.from_bytes(packed(index, body), RANK)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.integers(0, len(BYTES) - 1), st.integers(1, 255))
def test_a_changed_byte_gives_another_card_or_an_input_error(position, change):
    data = bytearray(BYTES)
    data[position] ^= change
    try:
        card = ClassCard.from_bytes(bytes(data), RANK)
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
        ClassCard.from_bytes(packed(index, body), RANK)


@pytest.mark.parametrize("place", ["count", "shape"])
def test_an_infinite_count_or_length_is_refused(place):
    (size,) = struct.unpack_from("<I", BYTES)
    index, body = json.loads(BYTES[4 : 4 + size]), BYTES[4 + size :]
    if place == "count":
        index["scalars"]["raw.count"] = float("inf")
    else:
        index["arrays"]["unit_sum"][1] = [float("inf")]
    with pytest.raises(InputError):
        ClassCard.from_bytes(packed(index, body), RANK)


def test_a_deeply_nested_index_is_refused():
    head = b"[" * 200_000
    with pytest.raises(InputError):
        ClassCard.from_bytes(struct.pack("<I", len(head)) + head, RANK)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("raw.count", 39),
        ("raw.count", 0),
        ("root.count", 41),
        ("held_out.count", -4),
        ("raw.residual", -1.0),
        ("raw.residual", float("nan")),
        ("projected.residual", float("inf")),
        ("raw.residual", "much"),
        ("raw.count", None),
        ("raw.count", [40]),
    ],
    ids=str,
)
def test_scalars_that_contradict_each_other_are_refused(name, value):
    scalars, arrays = unpack(BYTES)
    with pytest.raises(InputError, match="not a class card"):
        ClassCard.from_bytes(pack(scalars | {name: value}, arrays), RANK)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("unit_sum", lambda a: a * np.float32("inf")),
        ("unit_sum", lambda a: a[:-1]),
        ("unit_sum", lambda a: a[None]),
        ("raw.total", lambda a: a * np.float32("nan")),
        ("raw.total", lambda a: a.astype(np.float64)),
        ("raw.total", lambda a: np.append(a, a)),
        ("raw.codes", lambda a: a.astype(np.float32)),
        ("raw.codes", lambda a: a[:, :-1]),
        ("raw.codes", lambda a: a[:-1]),
        ("raw.codes", lambda a: a.ravel()),
        ("root.scales", lambda a: a * np.float32("inf")),
        ("root.scales", lambda a: a.astype(np.float64)),
        ("root.scales", lambda a: a[:, None]),
        ("projected.total", lambda a: a[:-1]),
        ("held_out.codes", lambda a: a[:, :3]),
        ("sample_ids", lambda a: np.arange(41, dtype=np.uint64)),
        ("sample_ids", lambda a: np.arange(3, dtype=np.float32)),
        ("sample_ids", lambda a: np.arange(4, dtype=np.uint64).reshape(2, 2)),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(name, change):
    scalars, arrays = unpack(BYTES)
    with pytest.raises(InputError, match="not a class card"):
        ClassCard.from_bytes(pack(scalars, arrays | {name: change(arrays.get(name))}), RANK)
