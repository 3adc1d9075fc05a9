"""A pool of Ray actors: jobs are asked for as they can be done, and those of an actor that died are done again.

Nothing relies on what Ray remembers of tasks: of a hundred thousand units the driver would have to keep them all. A
result that is lost with its node is computed again from what it was made of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gddsg.errors import DataError, GddsgError
from gddsg.scale.worker import Task, Worker
from gddsg.wording import counted

_AHEAD = 2  # jobs an actor has: one to do, and one so that it need not wait
_MOST_TRIES = 5


@dataclass(eq=False)
class Job:
    """Something for a worker to do.

    Attributes
    ----------
    method : str
        Of :class:`~gddsg.scale.worker.Worker`.
    argument : object
        What it is given.
    name : str
        For messages.
    instead : callable or None
        Gives the jobs to be done instead where what it is given, or its result, was lost with a node.
    about : object
        What whoever wants it done needs to know.
    """

    method: str
    argument: Any
    name: str
    instead: Callable[[], list[Job]] | None = None
    about: Any = None
    tries: int = field(default=0, init=False)


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a job: its summary, and a reference to its result."""

    job: Job
    summary: Any
    result: Any


class Pool:
    """Actors that work.

    Parameters
    ----------
    ray : module
        Ray, running.
    task : Task
        What they work for.
    workers : int
        How many.
    """

    def __init__(self, ray: Any, task: Task, workers: int) -> None:
        self._ray, self.workers = ray, workers
        self._urgent: deque[Job] = deque()
        self._running: dict[Any, tuple[Job, Any, Any]] = {}
        cpus, gpus, self._cores = _shares(ray, workers)
        self._task = ray.put(task)
        # a job is done again by us, and not by Ray, see above
        self._kind = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0)(_Actor)
        self._actors: list[Any] = []
        self._starting: dict[Any, Any] = {}  # what has no core yet may never get one, and is given nothing to do
        self._failed_starts = 0
        for _ in range(workers):
            self._start()

    def run(self, jobs: Iterator[Job]) -> Iterator[Done]:
        """What comes of jobs, as it comes; they are taken as there is somebody to do them.

        Parameters
        ----------
        jobs : iterator of Job
            May grow by what is learnt from results; see also :meth:`first`.
        """
        while True:
            self._fill(jobs)
            if not self._running and not self._more(jobs):
                return
            ready, _ = self._ray.wait([*self._running, *self._starting], num_returns=1)
            if ready[0] in self._starting:
                self._has_started(ready[0])
                continue
            job, actor, result = self._running.pop(ready[0])
            try:
                yield Done(job, self._ray.get(ready[0]), result)
            except self._ray.exceptions.RayError as error:
                self._again(job, actor, error)

    def first(self, *jobs: Job) -> None:
        """Have jobs done before all others."""
        self._urgent.extend(jobs)

    def fetch(self, done: Done) -> Any:
        """A result itself; None if it was lost meanwhile, then the job is done again."""
        try:
            return self._ray.get(done.result)
        except self._ray.exceptions.RayError as error:
            self._again(done.job, None, error)
            return None

    def close(self) -> None:
        """End the actors."""
        for actor in (*self._actors, *self._starting.values()):
            self._ray.kill(actor)

    def _fill(self, jobs: Iterator[Job]) -> None:
        for _ in range(_AHEAD):
            for actor in self._actors:
                job = self._next(jobs) if self._load(actor) < _AHEAD else None
                if job is not None:
                    summary, result = actor.work.options(num_returns=2).remote(job.method, job.argument)
                    self._running[summary] = job, actor, result

    def _more(self, jobs: Iterator[Job]) -> bool:
        job = self._next(jobs)
        if job is not None:
            self._urgent.appendleft(job)
        return job is not None

    def _next(self, jobs: Iterator[Job]) -> Job | None:
        return self._urgent.popleft() if self._urgent else next(jobs, None)

    def _load(self, actor: Any) -> int:
        return sum(one is actor for _, one, _ in self._running.values())

    def _again(self, job: Job, actor: Any, error: Any) -> None:
        """Do a job again if it failed through no fault of its own."""
        exceptions = self._ray.exceptions
        cause = getattr(error, "cause", None)
        if isinstance(error, exceptions.RayTaskError) and not isinstance(cause, exceptions.RayError):
            raise cause if isinstance(cause, GddsgError) else error
        job.tries += 1
        if job.tries >= _MOST_TRIES:
            raise DataError(
                f"{job.name} could not be done: {counted(job.tries, 'worker')} died over it, or lost it "
                f"({_last_line(error)}). Look at the memory of the machines, at what is installed there, and at that "
                "part of the source."
            ) from error
        if isinstance(error, exceptions.RayActorError) and actor is not None:
            self._replace(actor)
            self.first(job)
        else:
            jobs = job.instead() if job.instead else [job]
            for one in jobs:
                one.tries = job.tries
            self.first(*jobs)

    def _replace(self, actor: Any) -> None:
        if any(one is actor for one in self._actors):  # of its jobs each tells that it has died
            self._actors = [one for one in self._actors if one is not actor]
            self._ray.kill(actor)  # it may live and only be out of reach
            self._start()

    def _start(self) -> None:
        actor = self._kind.remote(self._task, self._cores)
        self._starting[actor.work.options(num_returns=2).remote("pid", None)[0]] = actor

    def _has_started(self, sign: Any) -> None:
        actor = self._starting.pop(sign)
        try:
            self._ray.get(sign)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts >= _MOST_TRIES * self.workers:
                raise DataError(
                    f"Workers cannot be started ({_last_line(error)}). Install the same version of this package on "
                    "all machines, and look at their memory."
                ) from error
            self._start()
        else:
            self._actors.append(actor)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:200] if lines else 'no reason given'}"


class _Actor:
    """A worker, and how it gets at what others have made."""

    def __init__(self, task: Task, cores: int | None) -> None:
        self._worker = Worker(task, cores)

    def work(self, method: str, argument: Any) -> tuple[Any, Any]:
        """Do a job."""
        if method in ("merge", "finish"):
            import ray

            done: tuple[Any, Any] = getattr(self._worker, method)(argument, ray.get)
            return done
        found: tuple[Any, Any] = getattr(self._worker, method)(*(() if argument is None else (argument,)))
        return found


def _shares(ray: Any, workers: int) -> tuple[float, float, int | None]:
    """CPUs and GPUs that an actor asks for, and the cores that it may use."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    most = max((node.get("CPU", 0.0) for node in nodes), default=1.0)
    on_largest = max(-(-workers // max(len(nodes), 1)), 1)
    cores = max(int(most) // on_largest, 1)
    gpus = sum(node.get("GPU", 0.0) for node in nodes)
    smallest = min((node["CPU"] for node in nodes if node.get("CPU", 0.0) >= 1), default=1.0)
    cpus = float(min(cores, int(smallest)))
    if workers * cpus > sum(node.get("CPU", 0.0) for node in nodes):
        cpus = 0.0  # more workers than cores share them; Ray would let them wait for ever
    return cpus, min(gpus / workers, 1.0) if gpus else 0.0, cores


def default_workers(ray: Any) -> int:
    """One for every GPU, or for every machine: a worker alone on a machine uses all of its cores.

    Parameters
    ----------
    ray : module
        Ray, running.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = int(sum(node.get("GPU", 0.0) for node in nodes))
    return gpus or max(sum(node.get("CPU", 0.0) >= 1 for node in nodes), 1)
