"""Jobs done by Ray: on the cores of this machine, or on all machines of a cluster.

Ray is imported when it is asked for and not before: the benchmark does without it.
"""

from __future__ import annotations

import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gddsg.backbones.base import available_cores
from gddsg.bench.datasets import FeatureSource, fingerprint_of, load
from gddsg.bench.execution import failed_record
from gddsg.bench.jobs import Executor, Job
from gddsg.bench.processes import limit_threads
from gddsg.bench.record import Record
from gddsg.errors import DataError, GddsgError
from gddsg.ray_session import ray_session

_RETRIES = 3  # of a job whose worker or node died; one that fails by itself is not tried again


@contextmanager
def ray_executor(address: str | None = None, workers: int | None = None) -> Iterator[Executor]:
    """An executor that hands jobs to Ray; what was started for it is ended with the block.

    A Ray that this process uses already is used, and left as it is; :mod:`gddsg.ray_session` says how another one is
    started. Jobs are given cores and no GPU. The data are read where a job runs, by the path they have here: every
    machine of a cluster needs the same folder of data, and the same version of gddsg.

    Parameters
    ----------
    address : str or None
        Of a running cluster: ``host:port``, ``ray://host:port`` or ``auto``; without one Ray is started here.
    workers : int or None
        Jobs at a time; as many as there are cores in all unless told. Fewer get more threads each.

    Yields
    ------
    Executor
        For :func:`gddsg.bench.runner.run_experiment`, as often as wanted.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    InputError
        If there is no cluster at the address.
    """
    with ray_session(address, available_cores()) as ray:
        yield _OnRay(ray, workers)


@dataclass(frozen=True)
class _OnRay:
    """An executor; see :func:`ray_executor`."""

    ray: Any
    workers: int | None

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Record]:
        threads = _threads(self._cores(), min(self.workers or len(jobs), len(jobs)))
        there = self.ray.remote(num_cpus=threads, max_retries=_RETRIES)(_done_there)
        waiting, under_way = deque(jobs), dict[Any, Job]()
        try:
            while waiting or under_way:
                while waiting and len(under_way) < (self.workers or len(jobs)):
                    job = waiting.popleft()
                    under_way[there.remote(_with_whole_path(job), threads, sys.path)] = job
                finished, _ = self.ray.wait([*under_way], num_returns=1)
                for reference in finished:
                    yield self._record(reference, under_way.pop(reference))
        finally:
            for reference in under_way:
                self.ray.cancel(reference, force=True)

    def _cores(self) -> list[int]:
        """Of each machine; a cluster that grows with its work may have none yet."""
        nodes = (node for node in self.ray.nodes() if node["Alive"])
        return [cores for node in nodes if (cores := int(node["Resources"].get("CPU", 0)))]

    def _record(self, reference: Any, job: Job) -> Record:
        try:
            record: Record = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:  # its worker died again and again, most likely for want of memory
            return failed_record(job.head, error)
        return record


def _threads(cores: Sequence[int], at_once: int) -> int:
    """Of each job: its share of all cores, on the smallest machine too."""
    return max(min(sum(cores) // max(at_once, 1), *cores), 1) if cores else 1


def _with_whole_path(job: Job) -> Job:
    """The job, with paths that hold in whatever folder a worker is."""
    source = job.source
    root = None if source.root is None else source.root.absolute()
    return replace(job, source=replace(source, path=source.path.absolute(), root=root))


def _done_there(job: Job, threads: int, path: Sequence[str]) -> Record:
    """Do a job in a worker of Ray."""
    sys.path += [place for place in path if place not in sys.path]  # learners may be in files of the user's
    limit_threads(threads)
    try:
        _require_same_data(job.source)
        return job.done()
    except (GddsgError, KeyboardInterrupt) as error:  # the latter is what Ray would take for a cancellation
        return failed_record(job.head, error)


@cache
def _require_same_data(source: FeatureSource) -> None:
    """A record names its data by a fingerprint that was taken where the runner is; they have to be the same here."""
    advice = (
        "Jobs on Ray read the data where they run: give all machines the same folder of data, in the same place, and "
        "features in place of photos."
    )
    try:
        found = fingerprint_of(load(source))
    except DataError as error:
        raise DataError(f"On {socket.gethostname()}: {error} {advice}") from error
    if found != source.fingerprint:
        raise DataError(
            f"{source.path} on {socket.gethostname()} has the fingerprint {found}; expected {source.fingerprint}, that "
            f"of the file where the runner is. {advice}"
        )
