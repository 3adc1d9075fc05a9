"""A predictor as bytes: all that answers, and nothing that has to be derived again.

What follows from the cards takes seconds to compute and torch to compute it with; a prediction takes milliseconds and
NumPy. The scatter of single classes is left out, since the cards beside it hold it and few are asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gddsg.core.card_format import MALFORMED, Array, pack, unpack
from gddsg.core.coded_rows import CodedRows
from gddsg.core.decision import DecisionMode
from gddsg.core.memory_limit import check_memory
from gddsg.core.novelty import Novelty
from gddsg.core.once import Lazy
from gddsg.core.own_scatter import OwnScatter
from gddsg.core.predictor import Floats, Predictor
from gddsg.core.projection import exact_projection_weights
from gddsg.core.transform import View
from gddsg.errors import InputError

DERIVATION = 1
"""Raised whenever the same cards give other answers: what an earlier version derived of them is then dropped."""

Factor = Callable[[View, int], CodedRows]
"""Of the class in that place of ``labels``, in a view of the features."""


def pack_predictor(predictor: Predictor) -> bytes:
    """The predictor as bytes; everything that it would compute when first asked is computed now.

    Parameters
    ----------
    predictor : Predictor
        One that identifies groups by evidence, and whose classes have their directions ready.
    """
    if predictor.vote is not None or not predictor.ready:
        raise InputError("A predictor with a vote, or of very many classes, cannot be kept. Keep the cards alone.")
    heads, novelty = [head() for head in predictor.heads], predictor.novelty()
    known, reach = novelty.known()
    scalars = {
        "derivation": DERIVATION,
        "view": predictor.view,
        "projected_view": predictor.projected_view,
        "mode": predictor.mode,
        "temperature": predictor.temperature,
        "reach": reach,
    }
    arrays: dict[str, Array] = {
        "columns": predictor.columns.astype(np.uint64),
        "whitener": _packed(predictor.whitener),
        "blocks": _lengths(predictor.means),
        "means": np.concatenate(predictor.means),
        "biases": predictor.biases,
        "own_weights": predictor.own_weights,
        "group_sizes": _lengths(predictor.groups),
        "members": np.concatenate(predictor.groups).astype(np.uint64),
        "heads": np.concatenate(heads, axis=1),
        "novelty.directions": np.concatenate(novelty.directions),
        "novelty.centre": novelty.centre,
        "novelty.background": _packed(novelty.background),
        "novelty.known": known,
    }
    return pack(scalars, arrays)


def unpack_predictor(
    data: bytes, labels: NDArray[Any], factor: Factor, projection_dim: int, seed: int
) -> Predictor | None:
    """The predictor that :func:`pack_predictor` wrote; it answers like the model it is of, bit for bit.

    None where a version wrote it that derived other answers of the same cards.

    Parameters
    ----------
    data : bytes
        What was written.
    labels : ndarray
        ``(n_classes,)``, sorted.
    factor : callable
        See :data:`Factor`; asked when a class is first a candidate.
    projection_dim, seed : int
        Of the random projection under the heads.
    """
    try:
        scalars, views = unpack(data)
        if scalars["derivation"] != DERIVATION:
            return None
        arrays = {name: view.copy() for name, view in views.items()}  # each where products are quick and round alike
        _check(scalars, arrays, len(labels), projection_dim)
        _require(type(seed) is int and 0 <= seed < 2**32, "its seed is none")
        check_memory(arrays["means"].shape[1], projection_dim)
        return _unpacked(scalars, arrays, labels, factor, projection_dim, seed)
    except MALFORMED as error:
        raise InputError(
            f"What is kept for predictions is damaged ({error}). Learn something, or save it again."
        ) from error


def _unpacked(
    scalars: dict[str, Any],
    arrays: dict[str, Array],
    labels: NDArray[Any],
    factor: Factor,
    projection_dim: int,
    seed: int,
) -> Predictor:
    dim, columns = arrays["means"].shape[1], arrays["columns"].astype(np.intp)
    whitener, place = _unpacked_triangle(arrays["whitener"], dim), np.argsort(columns).tolist()
    sizes, members = arrays["group_sizes"].tolist(), arrays["members"].astype(np.intp)
    own = partial(_own, partial(factor, scalars["view"]), whitener.astype(np.float32))
    means = tuple(_cut(arrays["means"], arrays["blocks"].tolist()))
    heads = _cut(arrays["heads"].T, sizes)
    group_of = np.empty(len(labels), dtype=np.intp)
    group_of[members] = np.repeat(np.arange(len(sizes)), sizes)
    return Predictor(
        labels=labels,
        columns=columns,
        view=scalars["view"],
        projected_view=scalars["projected_view"],
        mode=scalars["mode"],
        temperature=scalars["temperature"],
        whitener=whitener,
        means=means,
        biases=arrays["biases"],
        ready=True,
        centres=tuple(arrays["means"]),
        own=tuple(Lazy(partial(own, *one)) for one in zip(place, arrays["own_weights"].tolist(), strict=True)),
        own_weights=arrays["own_weights"],
        groups=tuple(_cut(members, sizes)),
        group_of=group_of,
        heads=tuple(Lazy(partial(np.ascontiguousarray, head.T)) for head in heads),
        projection=partial(exact_projection_weights, dim, projection_dim, seed),
        vote=None,
        novelty=Lazy(partial(_novelty, scalars, arrays, whitener, means)),
    )


def _own(factor: Callable[[int], CodedRows], whitener: NDArray[np.float32], place: int, weight: float) -> OwnScatter:
    rows = factor(place)
    sound = rows.codes.shape == (len(rows), len(whitener)) and bool(np.isfinite(rows.scales).all())
    if not sound or rows.codes.dtype != np.int8:  # only forgers get here
        raise InputError("A card of this model does not go with what is kept for predictions. Do not use the file.")
    return OwnScatter.of(rows, weight, whitener, ready=True)


def _novelty(scalars: dict[str, Any], arrays: dict[str, Array], whitener: Floats, means: tuple[Floats, ...]) -> Novelty:
    known = arrays["novelty.known"], scalars["reach"]
    return Novelty(
        whitener=whitener,
        means=means,
        directions=tuple(_cut(arrays["novelty.directions"], list(map(len, means)))),
        centre=arrays["novelty.centre"],
        background=_unpacked_triangle(arrays["novelty.background"], len(whitener)),
        known=Lazy(lambda: known),
    )


def _check(scalars: dict[str, Any], arrays: dict[str, Array], n_classes: int, projection_dim: int) -> None:
    """Raise ``ValueError`` unless numbers are finite and shapes go together: a forged file may say anything."""
    for name in ("view", "projected_view"):
        _require(scalars[name] in get_args(View), f"its {name} is {str(scalars[name])[:40]!r}")
    _require(scalars["mode"] in get_args(DecisionMode), f"its mode is {str(scalars['mode'])[:40]!r}")
    for name in ("temperature", "reach"):
        _require(type(scalars[name]) is float and 0 < scalars[name] < np.inf, f"its {name} is not above zero")
    for name, array in arrays.items():
        _require(
            array.dtype.kind != "f" or bool(np.isfinite(array).all()), f"some numbers of its {name} are not finite"
        )
    dim, n_groups = arrays["means"].shape[-1], len(arrays["group_sizes"])
    triangle = (dim * (dim + 1) // 2,)
    expected = {
        "columns": (n_classes,),
        "whitener": triangle,
        "means": (n_classes, dim),
        "biases": (n_classes,),
        "own_weights": (n_classes,),
        "group_sizes": (n_groups,),
        "members": (n_classes,),
        "heads": (projection_dim, n_classes),
        "novelty.directions": (n_classes, dim),
        "novelty.centre": (dim,),
        "novelty.background": triangle,
    }
    for name, shape in expected.items():
        _require(arrays[name].shape == shape, f"its {name} has the shape {arrays[name].shape}, expected {shape}")
    for name in ("blocks", "group_sizes"):
        _require(arrays[name].ndim == 1 and sum(arrays[name].tolist()) == n_classes, f"its {name} do not add up")
    for name in ("columns", "members"):
        _require(sorted(arrays[name].tolist()) == list(range(n_classes)), f"its {name} do not name every class once")
    _require(bool((arrays["own_weights"] >= 0).all()), "some of its weights are negative")
    _require(arrays["novelty.known"].ndim == 1 and len(arrays["novelty.known"]) > 0, "its novelties are missing")


def _require(sound: bool, wrong: str) -> None:
    if not sound:
        raise ValueError(wrong)


def _packed(triangle: Floats) -> NDArray[np.float32]:
    """The upper triangle row by row, of a matrix that is zero below it and has no number that float32 has not."""
    return triangle[np.triu_indices(len(triangle))].astype(np.float32)


def _unpacked_triangle(packed: NDArray[np.float32], dim: int) -> Floats:
    triangle = np.zeros((dim, dim))
    triangle[np.triu_indices(dim)] = packed
    return triangle


def _lengths(parts: Sequence[Array]) -> NDArray[np.uint64]:
    return np.array([len(part) for part in parts], dtype=np.uint64)


def _cut(whole: Array, sizes: Sequence[int]) -> list[Array]:
    """The parts of so many rows each."""
    return np.split(whole, np.cumsum(sizes)[:-1])
