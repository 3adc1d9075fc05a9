"""Inputs and labels that no learner can use: each is refused in our words, and what was learnt before stays."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch
from tests.attack.counts import Counts

from gddsg.errors import GddsgError
from gddsg.learners import LEARNERS

_WIDTH = 6


def attack_learners(n: int, seed: int) -> Counts:
    """Hand hostile batches to every learner, after a sound one: refused, or learnt so that it can still predict."""
    draw, counts = random.Random(seed), Counts()
    for cls in LEARNERS.values():
        params = cls.test_params()
        for _ in range(max(n // len(LEARNERS), 1)):
            name, X, y = _hostile(draw, cls.takes)
            learner = cls(**params).partial_fit(*_sound(0, cls.takes))
            probe = _sound(1, cls.takes)[0]
            before = learner.predict(probe).tolist()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                outcome = _try(learner, X, y, probe, before)
            if outcome in ("refused", "learnt"):
                counts.count(outcome)
            else:
                counts.fail(f"{cls.__name__}, {name}: {outcome}")
    return counts


def _try(learner: Any, X: Any, y: Any, probe: Any, before: list[Any]) -> str:
    try:
        learner.predict(X)  # may be refused or answered, but changes nothing
    except GddsgError:
        pass
    except Exception as error:
        return f"predict: {type(error).__name__}: {error}"
    try:
        learner.partial_fit(X, y)
    except GddsgError:
        return "refused" if learner.predict(probe).tolist() == before else "refused, yet it predicts otherwise"
    except Exception as error:
        return f"partial_fit: {type(error).__name__}: {error}"
    try:
        scores = np.asarray(learner.predict_proba(probe))
    except Exception as error:
        return f"predict after learning: {type(error).__name__}: {error}"
    return "learnt" if np.isfinite(scores).all() and np.allclose(scores.sum(1), 1) else "its probabilities are none"


def _sound(seed: int, takes: str) -> tuple[Any, list[int]]:
    rng = np.random.default_rng(seed)
    labels = np.arange(24) % 3
    if takes == "images":
        return rng.integers(0, 256, (24, 8, 8, 3), dtype=np.uint8), labels.tolist()
    return (rng.random((24, _WIDTH)) + labels[:, None]).astype(np.float32), labels.tolist()


def _hostile(draw: random.Random, takes: str) -> tuple[str, Any, Any]:
    """A batch in which the inputs, the labels or both are hostile, and what to call it."""
    rng = np.random.default_rng(draw.randrange(2**32))
    X, y = rng.random((8, _WIDTH)).astype(np.float32), [3, 3, 3, 3, 4, 4, 4, 4]
    inputs, labels = list(_inputs(X, draw)), list(_labels(draw))
    if draw.random() < 0.6:
        name, change = draw.choice(inputs)
        return name, change(), y
    name, hostile = draw.choice(labels)
    return name, X if takes == "features" else _sound(0, takes)[0][:8], hostile


def _inputs(X: np.ndarray[Any, np.dtype[np.float32]], draw: random.Random) -> Iterator[tuple[str, Callable[[], Any]]]:
    tensor, row, column = torch.from_numpy(X.copy()), draw.randrange(len(X)), draw.randrange(_WIDTH)

    def put(value: float, dtype: str = "float32") -> Any:
        changed = X.astype(dtype)
        changed[row, column] = value
        return changed

    for value in (np.nan, np.inf, -np.inf, 1e30, 1e-30, 1e15, -1e15):
        yield f"one number {value}", lambda value=value: put(value)
    for scale in (0, 1e-14, 1e-8, 1e8, 1e14, 1e20, 1e-20):
        yield f"all times {scale}", lambda scale=scale: X * np.float32(scale)
    yield "complex", lambda: X.astype(complex)
    yield "whole numbers", lambda: (10 * X).astype(np.int8)
    yield "bool", lambda: X > 0.5
    yield "objects", lambda: X.astype(object)
    yield "words", lambda: X.astype(str)
    yield "float16", lambda: X.astype(np.float16)
    yield "one dimension", lambda: X[0]
    yield "three dimensions", lambda: X[None]
    yield "no row", lambda: X[:0]
    yield "no column", lambda: X[:, :0]
    yield "too narrow", lambda: X[:, 1:]
    yield "too wide", lambda: np.hstack([X, X])
    yield "sparse", lambda: scipy.sparse.csr_matrix(X)
    yield "ragged", lambda: [[1.0] * _WIDTH, [1.0]] * 4
    yield "nothing", lambda: None
    yield "a number", lambda: 3.0
    yield "a word", lambda: "features"
    yield "backwards", lambda: X[::-1, ::-1]
    yield "constant", lambda: np.ones_like(X)
    yield "copies", lambda: np.repeat(X[:1], 8, axis=0)
    yield "tensor of bools", lambda: tensor > 0.5
    yield "sparse tensor", lambda: tensor.to_sparse()
    yield "meta tensor", lambda: tensor.to("meta")
    yield "half tensor", lambda: tensor.half()
    yield "tensor of NaN", lambda: tensor * float("nan")
    yield "tensor with gradient", lambda: tensor.clone().requires_grad_()
    yield "quantised tensor", lambda: _quantised(tensor)
    yield "tensor of three dimensions", lambda: tensor[None]
    yield "complex tensor", lambda: tensor.to(torch.complex64)


def _quantised(tensor: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is about to part with them
        return torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)


def _labels(draw: random.Random) -> Iterator[tuple[str, Any]]:
    yield "no labels", None
    yield "too few labels", [3] * 7
    yield "too many labels", [3] * 9
    yield "words among numbers", [3, 3, 3, 3, "a", "a", "a", "a"]
    yield "words after numbers", list("aaaabbbb")
    yield "NaN", [3.0] * 7 + [float("nan")]
    yield "fractions", [3.5] * 8
    yield "None", [3] * 7 + [None]
    yield "lists", [[3, 4]] * 8
    yield "large numbers", [2**63] * 4 + [2**63 + 1] * 4
    yield "large numbers in an array", np.array([2**63] * 4 + [2**63 + 1] * 4, dtype=np.uint64)
    yield "float labels beyond 2^53", [float(2**60)] * 4 + [float(2**60 + 256)] * 4
    yield "bytes", [b"a"] * 8
    yield "booleans", [True] * 4 + [False] * 4
    yield "complex", [3j] * 8
    yield "tensor", torch.arange(8)
    yield "tensor on no device", torch.empty(8, dtype=torch.int64, device="meta")
    yield "a word", "aaaabbbb"
    yield "a set", {3, 4}
    yield "a mapping", {3: 4}
    yield "empty", []
