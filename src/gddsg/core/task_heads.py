"""One class out of many heads, each of which tells only the classes of its own task apart.

Scores of all heads are turned into numbers that can be compared between heads; a class has the largest that any head
gives it. A method that was published for known tasks says nothing about this: the rules are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from gddsg.errors import InputError

__all__ = ["Rule", "among_all", "check_rule", "energies", "fitted_temperature", "log_odds"]

Rule = Literal["confidence", "energy"]

_TEMPERATURES = torch.logspace(-1, 2, 121, dtype=torch.float64)


def check_rule(rule: object) -> None:
    """Refuse what is no rule."""
    if rule not in get_args(Rule):
        raise InputError(f"rule={rule!r} was given; expected one of {', '.join(get_args(Rule))}.")


def log_odds(scores: Tensor, temperature: float) -> Tensor:
    """``log p / (1 − p)`` of the softmax p of ``scores / temperature``, ``(n, n_classes)``.

    It orders classes of all heads as p does, and goes on where p has become 1. A head of one class has nothing to tell
    apart: it knows neither for nor against, and the log-odds are 0.

    Parameters
    ----------
    scores : Tensor
        Of one head, ``(n, n_classes)``.
    temperature : float
        See :func:`fitted_temperature`.
    """
    calm = scores / temperature
    if calm.shape[1] == 1:
        return torch.zeros_like(calm)
    best = F.one_hot(calm.argmax(1), calm.shape[1]).bool()
    whole = calm.logsumexp(1, keepdim=True)
    behind = calm.masked_fill(best, -torch.inf).logsumexp(1, keepdim=True)
    share = (calm - whole).masked_fill(best, -torch.inf).exp()  # at most one half: 1 − p keeps its digits
    return calm - torch.where(best, behind, whole + torch.log1p(-share))


def energies(scores: Tensor) -> Tensor:
    """``log Σ exp z`` of a head, the negative energy, for its best class; less for others by how far they are behind.

    So the best class of all heads is the best one of the head with the least energy (Liu et al., NeurIPS 2020).

    Parameters
    ----------
    scores : Tensor
        z of one head, ``(n, n_classes)``.
    """
    return scores.logsumexp(1, keepdim=True) + scores - scores.amax(1, keepdim=True)


def among_all(scores: Sequence[Tensor], places: Sequence[Sequence[int]], n_classes: int) -> Tensor:
    """The largest score that any head gives a class, ``(n, n_classes)``; −∞ where none knows it.

    Parameters
    ----------
    scores : sequence of Tensor
        Of every head, comparable, ``(n, n_classes of the head)``.
    places : sequence of sequence of int
        Columns in the result of the classes of every head.
    n_classes : int
        How many there are.
    """
    found = scores[0].new_full((len(scores[0]), n_classes), -torch.inf)
    columns = torch.tensor([place for own in places for place in own])
    table = torch.cat(list(scores), dim=1)
    return found.scatter_reduce(1, columns.expand(len(table), -1), table, "amax")


def fitted_temperature(scores: Tensor, targets: Tensor) -> float:
    """The T for which ``softmax(scores / T)`` is likeliest, by samples that took no part in training; 1 without any.

    Parameters
    ----------
    scores : Tensor
        ``(n, n_classes)``.
    targets : Tensor
        Columns of the truth, ``(n,)``.
    """
    if not len(scores):
        return 1.0
    calm = scores.double() / _TEMPERATURES[:, None, None]
    likelihood = calm.log_softmax(2).gather(2, targets.expand(len(calm), -1)[..., None]).sum((1, 2))
    return float(_TEMPERATURES[likelihood.argmax()])
