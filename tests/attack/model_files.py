"""Model files that were damaged, and model files that were forged: digests right, contents not."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.attack.counts import Counts

from gddsg.core.card_format import pack, unpack
from gddsg.core.model import Model, Settings
from gddsg.errors import GddsgError, ModelFileError
from gddsg.store import read_model, write_model
from gddsg.store.rows_file import read_rows, write_rows

_JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**62, 2**63, 2**64, 10**30, 0.5, -0.0, 1e-300, 1e38, 1e300),
    *(math.inf, -math.inf, math.nan, "", "a", "soft", "\0", "x" * 5000, [], [0], [[]], [[0, 1]], {}, {"a": 1}),
)
_NUMBERS = (0.0, -1.0, 1e-40, 1e-30, 1e15, 1e20, 3e38, -3e38, np.inf, -np.inf, np.nan)


def small_model(seed: int, width: int = 6, **settings: Any) -> Model:
    """A model of five classes, all kinds of numbers in its cards in use."""
    features = np.random.default_rng(seed).random((100, width), dtype=np.float32)
    settings = {"projection_dim": 2 * width, "rank": 8, **settings}
    model, labels = Model(Settings(**settings)), np.arange(100) % 5
    ids = np.arange(100, dtype=np.uint64) + np.uint64(1)
    return model.plus(model.make_cards(torch.from_numpy(features), labels.tolist(), ids))


def attack_damaged_models(n: int, seed: int, folder: Path) -> Counts:
    """Flip, cut, zero, swap and repeat bytes of sound files: each is refused, or says what it always said."""
    draw, counts = random.Random(seed), Counts()
    path, damaged = folder / "sound.gddsg", folder / "damaged.gddsg"
    write_model(path, small_model(seed, width=400))  # cards that fill their pages
    sound, expected = path.read_bytes(), _answers(read_model(path))
    for _ in range(n):
        damaged.write_bytes(mutated(sound, draw))
        try:
            same = _answers(read_model(damaged)) == expected
        except ModelFileError:
            counts.count("refused")
        except Exception as error:
            counts.fail(f"{type(error).__name__}: {error}")
        else:
            if same:  # where nobody looks, such as the unused end of a page
                counts.count("unharmed")
            else:
                counts.fail("another answer")
    return counts


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Some bytes with damage of one kind."""
    data, kind = bytearray(content), draw.randrange(6)
    at = draw.randrange(len(data))
    length = min(draw.choice((1, 4, 64, 1024)), len(data) - at)
    if kind == 0:
        data[at] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at : at + length] = bytes(length)
    elif kind == 3:
        other = draw.randrange(len(data) - length + 1)
        data[at : at + length] = data[other : other + length]
    elif kind == 4:
        data[at:at] = draw.randbytes(length)
    else:
        data[at : at + length] = draw.randbytes(length)
    return bytes(data)


def attack_forged_models(n: int, seed: int, folder: Path) -> Counts:
    """Change what files say and make their digests right again: each is refused, or can be used without trouble."""
    draw, counts, path = random.Random(seed), Counts(), folder / "forged.gddsg"
    sources = []
    for grouping, transform in (("canonical", "auto"), ("arrival", "auto"), ("canonical", "none"), ("task", "auto")):
        write_model(path, small_model(seed, grouping=grouping, feature_transform=transform))
        sources.append(read_rows(path))
    for _ in range(n):
        header, cards = draw.choice(sources)
        change = draw.choice((_forge_header, _forge_setting, _forge_scalar, _forge_array, _forge_shape, _forge_rows))
        forged = change(json.loads(json.dumps(header)), dict(cards), draw)
        try:
            write_rows(path, *forged)
        except GddsgError:  # what no file can hold
            counts.count("refused")
            continue
        try:
            _use(read_model(path))
        except ModelFileError:
            counts.count("refused")
        except Exception as error:
            counts.fail(f"{change.__name__}: {type(error).__name__}: {error}")
        else:
            counts.count("usable")
    return counts


Forged = tuple[dict[str, Any], dict[str, bytes]]


def _forge_header(header: dict[str, Any], cards: dict[str, bytes], draw: random.Random) -> Forged:
    header[draw.choice(sorted(header))] = draw.choice(_JUNK)
    if draw.random() < 0.2:
        del header[draw.choice(sorted(header))]
    return header, cards


def _forge_setting(header: dict[str, Any], cards: dict[str, bytes], draw: random.Random) -> Forged:
    settings = header["parameters"]
    settings[draw.choice([*sorted(settings), "new"])] = draw.choice(
        (*_JUNK, "vote", "hard", "arrival", "none", "euclidean")
    )
    return header, cards


def _forge_rows(header: dict[str, Any], cards: dict[str, bytes], draw: random.Random) -> Forged:
    """Names of cards, and which of them there are."""
    name = draw.choice(sorted(cards))
    body = cards.pop(name)
    new = draw.choice(
        ("int:9", "int: 1", "int:1_0", "int:٣", f"int:{2**63}", "str:a", "str:", "nonsense", "int:-0", ":", "")
    )
    if draw.random() < 0.7:
        cards[new] = body
    if draw.random() < 0.3:
        cards[draw.choice(sorted(cards))] = draw.choice((body, b"", body[:-1], body + b"\0", draw.randbytes(100)))
    if draw.random() < 0.1:
        cards.clear()
    return header, cards


def _forge_card(cards: dict[str, bytes], draw: random.Random, change: Any) -> dict[str, bytes]:
    """One card or all of them, changed alike."""
    names = sorted(cards) if draw.random() < 0.5 else [draw.choice(sorted(cards))]
    state = draw.getstate()
    for name in names:
        draw.setstate(state)
        scalars, arrays = unpack(cards[name])
        scalars, arrays = dict(scalars), {key: array.copy() for key, array in arrays.items()}
        change(scalars, arrays)
        cards[name] = pack(scalars, arrays)
    return cards


def _forge_scalar(header: dict[str, Any], cards: dict[str, bytes], draw: random.Random) -> Forged:
    def change(scalars: dict[str, Any], arrays: dict[str, Any]) -> None:
        scalars[draw.choice([*sorted(scalars), "count", "new"])] = draw.choice(_JUNK)
        if draw.random() < 0.2:
            del scalars[draw.choice(sorted(scalars))]

    return header, _forge_card(cards, draw, change)


def _forge_array(header: dict[str, Any], cards: dict[str, bytes], draw: random.Random) -> Forged:
    """Numbers inside arrays, which keep their shape."""

    def change(scalars: dict[str, Any], arrays: dict[str, Any]) -> None:
        array = arrays[draw.choice(sorted(arrays))].reshape(-1)
        some = slice(None) if draw.random() < 0.5 else slice(0, 1)
        if array.dtype.kind == "f":
            array[some] = (
                array[some] * draw.choice((0, -1, 1e-30, 1e10, 1e25)) if draw.random() < 0.5 else draw.choice(_NUMBERS)
            )
        else:
            array[some] = draw.choice((0, 1, 127, array.max(initial=0)))

    with np.errstate(all="ignore"):
        return header, _forge_card(cards, draw, change)


def _forge_shape(header: dict[str, Any], cards: dict[str, bytes], draw: random.Random) -> Forged:
    """Shapes and types of arrays; and widths that all cards and the header agree on."""
    if draw.random() < 0.3:
        return _widened(header, cards, draw)
    if draw.random() < 0.4:
        return header, {name: _other_index(body, draw) for name, body in cards.items()}

    def change(scalars: dict[str, Any], arrays: dict[str, Any]) -> None:
        name = draw.choice(sorted(arrays))
        array, kind = arrays[name], draw.randrange(5)
        if kind == 0:
            arrays[name] = array[None]
        elif kind == 1:
            arrays[name] = array.reshape(-1)[:-1]
        elif kind == 2:
            arrays[name] = array.astype(draw.choice(("float32", "float64", "int8", "uint64")))
        elif kind == 3:
            arrays[name] = np.concatenate([array, array])
        else:
            del arrays[name]

    with np.errstate(all="ignore"):
        return header, _forge_card(cards, draw, change)


def _widened(header: dict[str, Any], cards: dict[str, bytes], draw: random.Random) -> Forged:
    """A file of some megabytes that asks for any amount of memory."""
    names = ("projected", "held_out") if draw.random() < 0.5 else ("root", "raw", "unit_sum")
    width = draw.choice((0, 1, 1000, 100_000, 1_000_000))
    for name, body in cards.items():
        scalars, arrays = unpack(body)
        wider = dict(arrays)
        for key, array in arrays.items():
            part, _, what = key.partition(".")
            if part in names and what in ("", "total"):
                wider[key] = np.ones(width, dtype=array.dtype)
            elif part in names and what == "codes":
                wider[key] = np.zeros((0, width), dtype=array.dtype)
            elif part in names and what == "scales":
                wider[key] = array[:0]
        cards[name] = pack(scalars, wider)
    if names[0] == "projected":
        header["parameters"]["projection_dim"] = width
    else:
        header["n_features"] = width
    return header, cards


def _other_index(body: bytes, draw: random.Random) -> bytes:
    """The same arrays under an index that lies about them."""
    (size,) = struct.unpack_from("<I", body)
    index = json.loads(body[4 : 4 + size])
    entry = index["arrays"][draw.choice(sorted(index["arrays"]))]
    entry[1] = draw.choice(([-1], [2**62, 2], [2**64], [0.5], ["3"], [], [True], [1] * 70, None, 3))
    if draw.random() < 0.3:
        entry[0] = draw.choice(("object", "U9", "float16", "O", 3, None, "int64"))
    head = json.dumps(index).encode()
    return struct.pack("<I", draw.choice((len(head), len(head) - 1, 2**32 - 1))) + head + body[4 + size :]


def _answers(model: Model) -> bytes:
    assert model.feature_dim is not None
    probe = np.random.default_rng(0).random((8, model.feature_dim), dtype=np.float32)
    table = model.predictor.predict_log_proba(probe)
    assert np.isfinite(table).all()
    return table.tobytes() + repr(model.labels).encode()


def _use(model: Model) -> None:
    """All that people do with a model."""
    model.label_samples()
    if not model.cards:
        return
    assert model.feature_dim is not None
    probe = np.random.default_rng(0).random((4, model.feature_dim), dtype=np.float32)
    table = np.exp(model.predictor.predict_log_proba(probe))
    np.testing.assert_allclose(table.sum(1), 1, rtol=1e-6)
    assert np.isfinite(model.predictor.measure_novelty(probe)).all()
    assert len(model.predictor.predict(probe, reject=0.9)) == 4
    assert sorted(label for group in model.groups for label in group) == sorted(model.labels)
    str(model.explain(probe[:1]))
    label = model.labels[0]
    grown = model.plus({label: model.cards[label]})
    assert grown.cards[label].to_bytes()
    if len(model.cards) > 1:
        grown.without(label).check_answers()
