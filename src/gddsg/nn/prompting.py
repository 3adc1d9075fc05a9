"""How prompts follow from a query, the class token of the plain frozen network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.errors import InputError
from gddsg.nn.networks import Transformer
from gddsg.nn.training_data import Batch, TrainingData

__all__ = ["Choosing", "FrozenQueries", "Prompting", "checked_blocks", "cosines", "most_similar", "most_voted"]

_AT_ONCE = 64


class FrozenQueries:
    """Queries of training samples; computed once for all epochs where every epoch has the same inputs.

    Parameters
    ----------
    network : Transformer
        The plain network.
    data : TrainingData
        The samples. With augmentation the query is that of the augmented input.
    """

    def __init__(self, network: Transformer, data: TrainingData) -> None:
        self._network = network
        self._kept = None if data.augment else self._of_all(data)

    def _of_all(self, data: TrainingData) -> Tensor:
        unused = np.random.default_rng(0)  # nothing is drawn without augmentation
        parts = [np.arange(start, min(start + _AT_ONCE, len(data))) for start in range(0, len(data), _AT_ONCE)]
        return torch.cat([self._computed(data.batch(rows, unused).inputs) for rows in parts])

    def _computed(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return self._network.features(inputs).float()

    def of(self, batch: Batch) -> Tensor:
        """Queries ``(n, width)`` of a batch, without gradients."""
        if self._kept is None or len(batch.rows) != len(batch.inputs):  # an input that only keeps a process busy
            return self._computed(batch.inputs)
        return self._kept[torch.from_numpy(batch.rows).to(self._kept.device)]


class Prompting(nn.Module, ABC):
    """Prompts of a method, and the features that the network gives with them.

    Its parameters are what is trained, its buffers what has been trained before and stays. As with every module,
    ``train()`` and ``eval()`` say which of the two it is used for.
    """

    @abstractmethod
    def features(self, network: Transformer, inputs: Tensor, queries: Tensor) -> Tensor:
        """Features ``(n, width)`` of each input with its own prompts.

        Parameters
        ----------
        network : Transformer
            The frozen network.
        inputs : Tensor
            What :meth:`gddsg.nn.networks.Network.features` takes.
        queries : Tensor
            ``(n, width)``, one an input.
        """

    def extra_loss(self, queries: Tensor) -> Tensor:
        """What is added to the loss of a batch with these queries; nothing, unless a method has something."""
        return queries.new_zeros(())


class Choosing(Prompting):
    """Prompts chosen from a pool by the cosine of query and key."""

    @abstractmethod
    def similarities(self, queries: Tensor) -> Tensor:
        """How near each query is to each key of the pool, ``(n, pool)``."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many prompts a sample gets."""

    @abstractmethod
    def features_by(self, network: Transformer, inputs: Tensor, places: Tensor) -> Tensor:
        """Features ``(n, width)`` with the prompts in those places of the pool, ``(n, count)``."""

    def features(self, network: Transformer, inputs: Tensor, queries: Tensor) -> Tensor:
        """Features ``(n, width)``, every sample with the prompts that its own query is nearest to."""
        return self.features_by(network, inputs, most_similar(self.similarities(queries), self.count))


def cosines(queries: Tensor, keys: Tensor) -> Tensor:
    """``q·k / (|q| |k|)`` of queries ``(n, width)`` and keys ``(pool, width)`` as ``(n, pool)``."""
    return F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T


def most_similar(similarities: Tensor, count: int) -> Tensor:
    """Places ``(n, count)`` of the largest in every row ``(n, pool)``, the largest first; of equals the first."""
    return similarities.sort(dim=1, descending=True, stable=True).indices[:, :count]


def most_voted(similarities: Tensor, count: int) -> Tensor:
    """Places ``(n, count)``, equal for all rows: those that most rows would choose; of equals the first.

    This is for the evaluation that published code has; nothing here may predict by it, for what is predicted for a
    sample would depend on the others.

    Parameters
    ----------
    similarities : Tensor
        ``(n, pool)``.
    count : int
        How many are chosen.
    """
    votes = most_similar(similarities, count).flatten().bincount(minlength=similarities.shape[1])
    return most_similar(votes[None], count).expand(len(similarities), -1)


def checked_blocks(blocks: Sequence[int], name: str) -> tuple[int, ...]:
    """The blocks of a parameter, if they are distinct whole numbers from 0; otherwise an error.

    Parameters
    ----------
    blocks : sequence of int
        What was given.
    name : str
        Of the parameter.

    Examples
    --------
    >>> checked_blocks([0, 1], "blocks")
    (0, 1)
    """
    given = tuple(blocks) if isinstance(blocks, Sequence) else ()
    whole = all(isinstance(one, int | np.integer) and one >= 0 for one in given)
    if not given or not whole or len(set(given)) < len(given):
        raise InputError(f"{name}={blocks!r} was given; expected distinct blocks counted from 0, such as (0, 1).")
    return given
