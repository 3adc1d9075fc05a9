"""Labels and sample ids as they are handed in, checked and turned into plain Python values."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from gddsg.core.label import Label
from gddsg.errors import InputError


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
        raise InputError(f"X has inconsistent numbers of samples: {n} rows, but {len(labels)} labels in y.")
    kinds = {type(label) for label in (*labels, *known)}
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"Labels of mixed type were given: {names}. Use only int or only str for one model.")
    return labels


def _python_labels(y: Any) -> list[Label]:
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    try:
        if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
            y = np.array(y, dtype=object)  # NumPy would silently turn the numbers into strings
        array = column_or_1d(y, warn=True)
        _refuse_missing(array)
    except (ValueError, TypeError) as error:
        raise InputError(f"{error}\nExpected one label a row, all int or all str.") from error
    return [_python_label(label) for label in array.tolist()]


def _refuse_missing(array: NDArray[Any]) -> None:
    if array.dtype.kind in "fc":
        missing = ~np.isfinite(array)
    else:
        missing = np.array([label is None or label != label for label in array.tolist()], dtype=bool)
    if missing.any():
        raise ValueError(f"{int(missing.sum())} rows have no label (NaN, infinity or None). Label or drop them.")


def _python_label(label: Any) -> Label:
    if isinstance(label, str):
        return label
    if isinstance(label, bool | int | float) and float(label).is_integer():
        return int(label)
    raise InputError(f"Unknown label type: {label!r} is neither a whole number nor a str. Rename the class.")


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
        raise InputError(f"{len(array)} sample ids were given for {n} rows. Give one for every row, or none at all.")
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
    array = np.asarray(groups.cpu() if isinstance(groups, Tensor) else groups)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise InputError(
            f"Groups of shape {array.shape} and type {array.dtype} were given; "
            f"expected one whole number for each of the {n} rows."
        )
    if not ((array >= 0) & (array < n_groups)).all():
        raise InputError(f"Groups from {array.min()} to {array.max()} were given; this model has 0 to {n_groups - 1}.")
    return array.astype(np.intp)
