"""Labels and sample ids as they are handed in, checked and turned into plain Python values."""

from __future__ import annotations

import cmath
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from gddsg.core.label import Label, checked_label
from gddsg.errors import InputError
from gddsg.wording import counted


def checked_labels(y: Any, n: int, known: Sequence[Label]) -> list[Label]:
    """Python labels, one a row, all of the kind the learner knows, or an :class:`InputError`.

    Parameters
    ----------
    y : array_like
        The labels as they were handed in.
    n : int
        Number of rows they belong to.
    known : sequence of int or str
        Classes learnt before.
    """
    if y is None:
        raise InputError("requires y to be passed, but the target y is None. Give one label for every row of X.")
    labels = _python_labels(y)
    if len(labels) != n:
        rows, given = counted(n, "row"), counted(len(labels), "label")
        raise InputError(f"X has inconsistent numbers of samples: {rows}, but {given} in y.")
    kinds = {type(label) for label in (*labels, *known)}
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"Labels of mixed type were given: {names}. Use only int or only str for one model.")
    return labels


def _python_labels(y: Any) -> list[Label]:
    try:
        array = column_or_1d(_array_of_labels(y), warn=True)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{error}\nExpected one label a row, all int or all str.") from error
    labels = [label.item() if isinstance(label, np.generic | Tensor) else label for label in array.tolist()]
    missing = sum(_is_missing(label) for label in labels)
    if missing:
        raise InputError(
            f"{counted(missing, 'row')} without a label (NaN, infinity or None). Label or drop such rows.\n"
            "Expected one label a row, all int or all str."
        )
    _refuse_merged(array)
    return [checked_label(label) for label in labels]


def _array_of_labels(y: Any) -> Any:
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    if isinstance(y, np.ma.MaskedArray):
        y = y.tolist()  # None for what is masked
    # as objects, since NumPy would turn numbers beside strings, or beside larger numbers, into others
    return np.array(y, dtype=object) if isinstance(y, list | tuple) else y


def _refuse_merged(array: NDArray[Any]) -> None:
    """Whole numbers beyond the digits of a short float have become others before they came here."""
    if array.dtype.kind == "f" and bool((np.abs(array) >= 2.0 ** (np.finfo(array.dtype).nmant + 1)).any()):
        raise InputError(
            f"Labels up to {np.abs(array).max():.0f} were given as {array.dtype}, which cannot tell such whole numbers "
            "apart. Give labels as integers."
        )


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float | complex) and not cmath.isfinite(label))


def checked_ids(sample_ids: Any, n: int) -> NDArray[np.uint64]:
    """Sample ids ``(n,)`` as uint64, or an :class:`InputError`.

    Parameters
    ----------
    sample_ids : array_like
        Whole numbers from 0 to 2⁶⁴ - 1.
    n : int
        Number of rows they belong to.
    """
    try:
        ids = [operator.index(sample) for sample in np.asarray(sample_ids, dtype=object).ravel()]
        array = np.array(ids, dtype=np.uint64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"A sample id is no whole number from 0 to 2^64 - 1 ({error}). Hash its name, say.") from error
    if len(array) != n:
        given, rows = counted(len(array), "sample id"), counted(n, "row")
        raise InputError(f"There are {rows} and {given}. Give one id for every row, or none at all.")
    return array


def checked_groups(groups: Any, n: int, n_groups: int) -> NDArray[np.intp]:
    """Indices of groups ``(n,)``, or an :class:`InputError`.

    Parameters
    ----------
    groups : array_like
        The indices as they were handed in.
    n : int
        Number of rows they belong to.
    n_groups : int
        Groups that there are.
    """
    try:
        array = np.asarray(groups.cpu() if isinstance(groups, Tensor) else groups)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{error}\nExpected one whole number for each of the {n} rows.") from error
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise InputError(
            f"Groups of shape {array.shape} and type {array.dtype} were given; "
            f"expected one whole number for each of the {n} rows."
        )
    if not ((array >= 0) & (array < n_groups)).all():
        raise InputError(f"Groups from {array.min()} to {array.max()} were given; this model has 0 to {n_groups - 1}.")
    return array.astype(np.intp)
