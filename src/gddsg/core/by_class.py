"""A labelled batch, class by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from gddsg.core.label import Label


def rows_by_class(features: Tensor, labels: Sequence[Label]) -> Iterator[tuple[Label, Tensor]]:
    """The classes in sorted order, each with its rows of ``features`` ``(n, feature_dim)``.

    Examples
    --------
    >>> [(label, rows.flatten().tolist()) for label, rows in rows_by_class(torch.tensor([[1.0], [2.0], [3.0]]), "bab")]
    [('a', [2.0]), ('b', [1.0, 3.0])]
    """
    names = sorted(set(labels))
    place = {name: i for i, name in enumerate(names)}
    places = np.array([place[label] for label in labels])  # an array of the labels might hold one of them as another
    for i, name in enumerate(names):
        yield name, features[torch.from_numpy(places == i).to(features.device)]
