"""Features as they are handed in, checked and turned into a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data
from torch import Tensor

from gddsg.core.feature_range import SMALLEST_FEATURE, refuse_range
from gddsg.errors import InputError, InputTypeError

_EXACT = (torch.float32, torch.float64)
_COLUMNS = ("n_features_in_", "feature_names_in_")


def checked_features(X: Any, columns: Mapping[str, Any], learner: str, device: str) -> tuple[Tensor, Mapping[str, Any]]:
    """Float32 features ``(n_samples, n_features)`` and what is known of their columns, or an :class:`InputError`.

    Parameters
    ----------
    X : array_like
        NumPy array, torch tensor, data frame or nested lists.
    columns : mapping of str to object
        What the first batch told, ``n_features_in_`` and perhaps ``feature_names_in_``; empty if this is the first.
    learner : str
        The learner's class, for messages.
    device : str
        Where the tensor shall be.
    """
    if isinstance(X, Tensor):
        tensor, noted = _checked_tensor(X, columns, learner)
    else:
        array, noted = _checked_array(X, columns, learner)
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    sizes = tensor.abs()
    refuse_range(float(sizes.max()))
    return tensor.where(sizes >= SMALLEST_FEATURE, 0).to(device, torch.float32), noted


def _checked_array(X: Any, columns: Mapping[str, Any], learner: str) -> tuple[NDArray[Any], Mapping[str, Any]]:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InputError("The features contain masked values. Fill them in, or drop those rows first.")
    stand_in = _stand_in(learner)()
    vars(stand_in).update(columns)
    try:
        array = validate_data(stand_in, X, reset=not columns, dtype=[np.float64, np.float32])
    except (ValueError, TypeError, OverflowError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(f"{error}\nExpected finite, dense features (n_samples, n_features).") from error
    return array, columns or {name: vars(stand_in)[name] for name in _COLUMNS if name in vars(stand_in)}


@lru_cache(maxsize=64)
def _stand_in(learner: str) -> type[Any]:
    """A class called like the learner: scikit-learn notes columns on an estimator, and the learner must not change."""
    return type(learner, (ClassifierMixin, BaseEstimator), {})


def _checked_tensor(X: Tensor, columns: Mapping[str, Any], learner: str) -> tuple[Tensor, Mapping[str, Any]]:
    _refuse_kinds(X)
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"Features of shape {tuple(X.shape)} were given; expected (n_samples, n_features).")
    exact = X if X.is_complex() or X.dtype in _EXACT else X.double()
    if X.is_complex() or not bool(torch.isfinite(exact).all()):
        raise InputError("The features contain NaN, infinity or complex numbers. Clean or drop those rows first.")
    width = columns.get("n_features_in_", X.shape[1])
    if X.shape[1] != width:
        raise InputError(
            f"X has {X.shape[1]} features, but {learner} is expecting {width} features as input. "
            "Use the backbone the model was learnt with."
        )
    return exact.detach(), columns or {"n_features_in_": X.shape[1]}


def _refuse_kinds(X: Tensor) -> None:
    """Refuse tensors that do not hold their numbers row by row."""
    kinds = {
        "A meta tensor, which holds no numbers,": X.is_meta,
        "A nested tensor": X.is_nested,
        "A quantised tensor (dequantize() makes a usual one of it)": X.is_quantized,
        "A sparse tensor (to_dense() makes a usual one of it)": X.layout != torch.strided,
    }
    for kind, given in kinds.items():
        if given:
            raise InputTypeError(f"{kind} was given. Expected finite, dense features (n_samples, n_features).")
