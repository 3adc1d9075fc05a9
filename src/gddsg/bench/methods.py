"""Which class a method of an experiment stands for: the only place that turns names into learners."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gddsg.bench.json_values import short
from gddsg.errors import DataError
from gddsg.evaluation.released import ReleasedRecipe
from gddsg.evaluation.task_probe import TaskProbe
from gddsg.learners import LEARNERS

ENTRY_POINTS = "gddsg.learners"
"""Group of entry points under which installed packages name learners of their own."""

METHODS: dict[str, type[Any]] = {**LEARNERS, "released-recipe": ReleasedRecipe, "task-probe": TaskProbe}
"""Methods of this package: every learner, and two that only one protocol each can ask: the released recipe by
``released``, and a linear probe a task by ``task-aware``."""


def learner_names() -> list[str]:
    """Names of all learners that can be run: those of this package, then those of installed packages.

    Returns
    -------
    list of str
        Each once.
    """
    return [*LEARNERS, *(name for name in _installed() if name not in METHODS)]


def learner_class(method: str) -> type[Any]:
    """The class that a method stands for.

    Parameters
    ----------
    method : str
        A name of this package, which goes before all others; a name of the entry-point group ``gddsg.learners``; or
        ``module:Class``, where the module is one that Python can import.

    Returns
    -------
    type
        A class with ``partial_fit`` and ``predict``, or the released recipe.

    Raises
    ------
    DataError
        If there is no such learner, or it cannot be imported, or is none.
    """
    if method in METHODS:
        return METHODS[method]
    if ":" in method:
        return _checked(method, _attribute(method))
    installed = _installed()
    if method not in installed:
        raise DataError(
            f"There is no learner {short(method)}; those are {', '.join([*METHODS, *installed])}. One of your own "
            "is named by module:Class."
        )
    try:
        return _checked(method, installed[method].load())
    except (Exception, SystemExit) as error:  # whatever a stranger's module raises while it is imported
        raise DataError(
            f"The learner {short(method)}, which an installed package names as {installed[method].value}, cannot be "
            f"imported: {type(error).__name__}: {error}. Mend or remove that package."
        ) from error


def new_learner(method: str, parameters: Mapping[str, Any], seed: int) -> Any:
    """An unfitted learner.

    Parameters
    ----------
    method : str
        See :func:`learner_class`.
    parameters : Mapping
        Of its constructor.
    seed : int
        Given to a constructor that takes one, unless the parameters have another.

    Returns
    -------
    Any
        The learner.
    """
    given = {"seed": seed} if takes_seed(method, parameters) else {}
    return learner_class(method)(**given, **parameters)


def takes_seed(method: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the seed of a run reaches the learner.

    Parameters
    ----------
    method : str
        See :func:`learner_class`.
    parameters : Mapping
        What it is given; a seed among them goes before that of the run.

    Returns
    -------
    bool
        False where the constructor takes none, too.
    """
    return "seed" in _parameters(learner_class(method)) and "seed" not in parameters


def check_parameters(method: str, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that the constructor of a method does not take, or lacks.

    Parameters
    ----------
    method : str
        See :func:`learner_class`.
    parameters : Mapping
        What it is to be given, beside a seed.

    Raises
    ------
    DataError
        If one is unknown, or one without a default is missing.
    """
    known = _parameters(learner_class(method))
    open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
    named = [name for name, one in known.items() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    unknown = sorted(set(parameters) - set(named))
    if unknown and not open_ended:
        raise DataError(
            f"{method} has no parameter {short(unknown[0])}; those are {', '.join(named) or 'none'}. Correct its "
            "parameters."
        )
    missing = [name for name in named if known[name].default is inspect.Parameter.empty]
    missing = [name for name in missing if name not in (*parameters, "seed")]
    if missing:
        raise DataError(
            f"{method} was given no {missing[0]!r}, which has no default; expected it among its parameters: "
            f"parameters = {{ {missing[0]} = … }}."
        )


def _parameters(cls: type[Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(cls).parameters
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The parameters of {cls.__name__} cannot be told ({error}); expected a class of learners written in "
            "Python."
        ) from error


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name)}


def _attribute(method: str) -> Any:
    module_name, _, path = method.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever a stranger's module raises while it is imported
        raise DataError(
            f"The learner {short(method)} was given, but its module cannot be imported: {type(error).__name__}: {error}"
            ". Expected module:Class, the module installed or in the current folder."
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            known = getattr(found, "__dict__", {})
            classes = [one for one, value in known.items() if isinstance(value, type) and not one.startswith("_")]
            raise DataError(
                f"The learner {short(method)} was given, but there is no {name!r} in {module_name}; expected one of "
                f"its classes: {', '.join(classes) or 'it has none'}."
            )
        found = getattr(found, name)
    return found


def _checked(method: str, found: Any) -> type[Any]:
    if not isinstance(found, type):
        raise DataError(f"The learner {short(method)} is of type {type(found).__name__}; expected a class of learners.")
    lacking = [name for name in ("partial_fit", "predict") if not callable(getattr(found, name, None))]
    lacking += sorted(getattr(found, "__abstractmethods__", ()))
    if lacking:
        raise DataError(
            f"The learner {short(method)} has no {lacking[0]}; expected a class with partial_fit(X, y) and predict(X), "
            "such as a subclass of gddsg.learners.Learner with all that it asks for."
        )
    return found
