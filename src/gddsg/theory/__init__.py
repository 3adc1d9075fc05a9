"""Theory that a reader can run: what the paper proves or claims, as closed forms, simulations and counts.

:mod:`.linear_tasks` has theorem 1, :mod:`.minimum_norm` the learner it is about, :mod:`.order_variance` and
:mod:`.task_families` the corollary, :mod:`.brooks` the probability of Brooks' condition, and :mod:`.chromatic` colours
against bounds and the chromatic number. ``docs/theory.md`` is the page to read beside it. No learner uses this.
"""

from gddsg.theory.brooks import (
    brooks_probability,
    colourable_with_largest_degree,
    complete_probability,
    connected_probability,
    exception_free_probability,
    is_exception,
    odd_cycle_probability,
    printed_probability,
    random_graph,
)
from gddsg.theory.chromatic import Colours, colours, crown_graph
from gddsg.theory.linear_tasks import (
    LinearTasks,
    expected_forgetting,
    expected_generalisation_error,
    expected_losses,
    printed_generalisation_error,
)
from gddsg.theory.minimum_norm import Estimate, Simulation, simulate, simulated_losses
from gddsg.theory.order_variance import (
    OverOrders,
    each_order,
    forgetting_over_orders,
    generalisation_over_orders,
    generalisation_variance_bound,
)
from gddsg.theory.task_families import FAMILIES, Family, Point, trend, walk

__all__ = [
    "FAMILIES",
    "Colours",
    "Estimate",
    "Family",
    "LinearTasks",
    "OverOrders",
    "Point",
    "Simulation",
    "brooks_probability",
    "colourable_with_largest_degree",
    "colours",
    "complete_probability",
    "connected_probability",
    "crown_graph",
    "each_order",
    "exception_free_probability",
    "expected_forgetting",
    "expected_generalisation_error",
    "expected_losses",
    "forgetting_over_orders",
    "generalisation_over_orders",
    "generalisation_variance_bound",
    "is_exception",
    "odd_cycle_probability",
    "printed_generalisation_error",
    "printed_probability",
    "random_graph",
    "simulate",
    "simulated_losses",
    "trend",
    "walk",
]
