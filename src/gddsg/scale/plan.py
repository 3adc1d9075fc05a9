"""Units to parts, parts to one: which jobs there are, in which groups their results merge, and what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from gddsg.scale.checkpoints import Checkpoints, content_name, joined_name
from gddsg.scale.pool import Done, Job, Pool

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Unit:
    """A unit of work.

    Attributes
    ----------
    method : str
        Of the worker, that does it.
    argument : object
        What it is given.
    key : str
        By what it holds.
    samples : int
        How many it holds.
    name : str
        For messages.
    """

    method: str
    argument: Any
    key: str
    samples: int
    name: str


@dataclass(eq=False)
class _Group:
    """Units whose results are merged together."""

    units: list[Unit]
    name: str
    results: dict[int, Any] = field(default_factory=dict)


class Plan:
    """Does the units of a run, some groups at a time, and merges what comes of them.

    Parameters
    ----------
    pool : Pool
        That works.
    kept : Checkpoints
        Where merged parts are stored.
    size : int
        Units of a group, and parts that are merged at a time.
    identity : str
        Of the run: settings, backbone.
    on_samples : callable or None
        Told how many samples are dealt with.
    """

    def __init__(
        self, pool: Pool, kept: Checkpoints, size: int, identity: str, on_samples: Callable[[int], None] | None
    ) -> None:
        self._pool, self._kept, self._size, self._identity = pool, kept, size, identity
        self._on_samples = on_samples
        self._done = 0
        self.computed = 0
        """Samples that were embedded, or read, in this run."""

    def run(self, units: Iterable[Unit], ray: Any) -> bytes:
        """All units, merged to one part, with a card for every class.

        Parameters
        ----------
        units : iterable of Unit
            In the order of their numbers.
        ray : module
            Ray, running.
        """
        names = self._run_units(units)
        while len(names) > self._size:
            names = self._merge_level(names, ray, "merge")
        finished = self._merge_level(names, ray, "finish")
        return self._kept.read(finished[0])

    def _run_units(self, units: Iterable[Unit]) -> list[str]:
        """Names of the stored parts of all groups."""
        names: list[str] = []
        for done in self._pool.run(self._unit_jobs(units, names)):
            if done.job.method == "merge":
                self._keep(done)
                continue
            group, place = done.job.about
            self.computed += done.summary
            self._tell(group.units[place].samples)
            group.results[place] = done.result
            if len(group.results) == len(group.units):
                self._pool.first(self._merge_group(group))
        return names

    def _unit_jobs(self, units: Iterable[Unit], names: list[str]) -> Iterator[Job]:
        for some in _in_parts(units, self._size):
            group = _Group(some, content_name(self._identity, *(unit.key for unit in some)))
            names.append(group.name)
            if self._kept.has(group.name):
                self._tell(sum(unit.samples for unit in some))
            else:
                yield from self._jobs_of(group)

    def _jobs_of(self, group: _Group) -> list[Job]:
        return [
            Job(unit.method, unit.argument, unit.name, about=(group, place)) for place, unit in enumerate(group.units)
        ]

    def _merge_group(self, group: _Group) -> Job:
        def instead() -> list[Job]:
            """A node that has gone took results with it: the units of the group are done again."""
            group.results.clear()
            self._tell(-sum(unit.samples for unit in group.units))
            return self._jobs_of(group)

        given = [group.results[place] for place in range(len(group.units))]
        return Job("merge", given, f"The merging of {group.units[0].name} and what follows", instead, about=group.name)

    def _merge_level(self, names: list[str], ray: Any, method: str) -> list[str]:
        """Names of what comes of merging neighbours."""
        level = [(joined_name([method, *some]), some) for some in _in_parts(names, self._size)]

        def jobs() -> Iterator[Job]:
            for name, some in level:
                if not self._kept.has(name):
                    yield self._merge_parts(method, name, some, ray)

        for done in self._pool.run(jobs()):
            self._keep(done)
        return [name for name, _ in level]

    def _merge_parts(self, method: str, name: str, some: list[str], ray: Any) -> Job:
        def given() -> list[Any]:
            return [ray.put(np.frombuffer(self._kept.read(one), np.uint8)) for one in some]

        def instead() -> list[Job]:
            return [self._merge_parts(method, name, some, ray)]

        return Job(method, given(), "The merging of all that was learnt", instead, about=name)

    def _keep(self, done: Done) -> None:
        content = self._pool.fetch(done)
        if content is not None:
            self._kept.store(done.job.about, content.tobytes())

    def _tell(self, samples: int) -> None:
        self._done += samples
        if self._on_samples is not None:
            self._on_samples(self._done)


def _in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
