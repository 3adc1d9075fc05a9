"""Brooks' condition on random graphs (paper, section 4.2): how often it holds, as printed and as counted.

A connected graph that is neither complete nor an odd cycle can be coloured with as many colours as its largest degree
Δ says (Brooks, 1941). The paper asks how likely that is where every pair of N classes is similar with probability p.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from gddsg.errors import InputError

Adjacency = NDArray[np.bool_]


def printed_probability(n_classes: int, p: float) -> float:
    """``1 - p^(2N) (1-p)^(N² - 2N) - p^(N(N-1)/2)``, as the paper prints it. For comparison.

    Its odd-cycle term counts every pair of classes twice, one of the many cycles, and cycles of even length as well.

    Parameters
    ----------
    n_classes : int
        N.
    p : float
        Probability that two classes are similar.

    Examples
    --------
    >>> printed_probability(5, 0.5)
    0.9990234
    """
    _check(n_classes, p)
    cycle = p ** (2 * n_classes) * (1 - p) ** (n_classes**2 - 2 * n_classes) if n_classes > 2 else 0.0
    return 1 - cycle - complete_probability(n_classes, p)


def exception_free_probability(n_classes: int, p: float) -> float:
    """Probability that the graph is neither complete nor an odd cycle: what the paper's expression is meant to be.

    ``1 - p^(N(N-1)/2) - [N odd, N > 3] (N-1)!/2 · p^N (1-p)^(N(N-1)/2 - N)``

    Parameters
    ----------
    n_classes : int
        N.
    p : float
        Probability that two classes are similar.

    Examples
    --------
    >>> exception_free_probability(5, 0.5)
    0.9873047
    """
    return 1 - complete_probability(n_classes, p) - odd_cycle_probability(n_classes, p)


def brooks_probability(n_classes: int, p: float) -> float:
    """Probability that Brooks' theorem applies: the graph is connected, not complete and not an odd cycle.

    Parameters
    ----------
    n_classes : int
        N.
    p : float
        Probability that two classes are similar.

    Examples
    --------
    >>> brooks_probability(10, 0.9), brooks_probability(10, 0.1)
    (0.99127, 0.0064362)
    """
    both = complete_probability(n_classes, p) + odd_cycle_probability(n_classes, p)
    return max(connected_probability(n_classes, p) - both, 0.0)


def complete_probability(n_classes: int, p: float) -> float:
    """``p^(N(N-1)/2)``: all pairs are similar."""
    _check(n_classes, p)
    return float(p ** math.comb(n_classes, 2))


def odd_cycle_probability(n_classes: int, p: float) -> float:
    """``(N-1)!/2 · p^N (1-p)^(N(N-1)/2 - N)`` for odd N > 3, else 0; three vertices in a cycle are a complete graph.

    Examples
    --------
    Twelve of the 1024 graphs on five vertices are cycles:

    >>> 1024 * odd_cycle_probability(5, 0.5)
    12.0
    """
    _check(n_classes, p)
    if n_classes < 5 or n_classes % 2 == 0 or p in (0, 1):
        return 0.0
    others = math.comb(n_classes, 2) - n_classes
    return math.exp(math.lgamma(n_classes) - math.log(2) + n_classes * math.log(p) + others * math.log1p(-p))


def connected_probability(n_classes: int, p: float) -> float:
    """Probability that every class is reached from the first one along similar pairs.

    ``f(u, a) = Σ_{k≥1} C(u, k) h^k (1-h)^(u-k) f(u-k, k)`` with ``h = 1 - (1-p)^a`` is the probability that u classes
    not reached yet are, from the a reached last; ``f(0, a) = 1``, and ``f(N-1, 1)`` is wanted. All terms are positive,
    so that nothing cancels, unlike in Gilbert's recursion of 1959.

    Parameters
    ----------
    n_classes : int
        N.
    p : float
        Probability that two classes are similar.

    Examples
    --------
    >>> connected_probability(3, 0.5)
    0.5
    """
    _check(n_classes, p)
    reach = np.zeros((n_classes, n_classes + 1))
    reach[0] = 1
    for left in range(1, n_classes):
        for last in range(1, n_classes - left + 1):
            miss = (1 - p) ** last
            new = range(1, left + 1)
            parts = (math.comb(left, k) * (1 - miss) ** k * miss ** (left - k) * reach[left - k, k] for k in new)
            reach[left, last] = math.fsum(parts)
    return float(reach[-1, 1])


def random_graph(n_classes: int, p: float, rng: np.random.Generator) -> Adjacency:
    """``(n_classes, n_classes)`` adjacency of a graph in which each pair is joined with probability p."""
    upper = np.triu(rng.random((n_classes, n_classes)) < p, 1)
    return upper | upper.T


def is_exception(adjacency: Adjacency) -> bool:
    """Whether the graph as a whole is complete or an odd cycle."""
    n, degrees = len(adjacency), adjacency.sum(1)
    if (degrees == n - 1).all():
        return True
    return n % 2 == 1 and bool((degrees == 2).all()) and connected_components(adjacency)[0] == 1


def colourable_with_largest_degree(adjacency: Adjacency) -> bool:
    """Whether the chromatic number is at most the largest degree Δ, decided by Brooks' theorem.

    It is not exactly where some component is complete with Δ + 1 vertices, or Δ = 2 and some component is an odd cycle.
    A graph without edges needs one colour and has Δ = 0.

    Parameters
    ----------
    adjacency : array
        ``(n_classes, n_classes)`` bool, symmetric.

    Examples
    --------
    Two classes joined and one by itself take two colours, and Δ = 1:

    >>> colourable_with_largest_degree(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool))
    False
    """
    if not len(adjacency):
        return True
    largest = int(adjacency.sum(1).max())
    count, component = connected_components(adjacency)
    parts = (adjacency[np.ix_(rows, rows)] for rows in (component == c for c in range(count)))
    return not any(int(part.sum(1).max()) == largest and is_exception(part) for part in parts)


def _check(n_classes: int, p: float) -> None:
    if n_classes < 1:
        raise InputError(f"n_classes is {n_classes}, expected one class or more.")
    if not 0 <= p <= 1:
        raise InputError(f"p is {p}, expected a probability between 0 and 1.")
