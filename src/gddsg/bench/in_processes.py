"""Jobs done by processes on the cores of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from gddsg.bench.execution import failed_record
from gddsg.bench.jobs import Job
from gddsg.bench.processes import process_pool
from gddsg.bench.record import Record


@dataclass(frozen=True)
class InProcesses:
    """An executor that shares the cores among processes.

    Attributes
    ----------
    workers : int
        How many of them, one at least.
    """

    workers: int

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Record]:
        """Records as they come. A job whose process dies is tried once more by itself: another may be the cause."""
        waiting, suspects = list(jobs), list[Job]()
        while waiting:
            under_way: dict[Future[Record], Job] = {}
            with process_pool(min(self.workers, len(waiting))) as pool:
                try:
                    while waiting or under_way:
                        while waiting and len(under_way) < self.workers:
                            under_way[pool.submit(waiting[0].done)] = waiting[0]
                            waiting.pop(0)  # not before: a broken pool takes nothing
                        finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
                        for future in finished:
                            record = _record(future, under_way[future])
                            del under_way[future]
                            yield record
                except BrokenProcessPool:
                    suspects += under_way.values()
        for job in suspects:
            yield _alone(job)


def _alone(job: Job) -> Record:
    with process_pool(1) as pool:
        try:
            return _record(pool.submit(job.done), job)
        except BrokenProcessPool:
            reason = "the process of this run died twice, most likely for want of memory"
            return Record(job.head, error=f"BrokenProcessPool: {reason}")


def _record(future: Future[Record], job: Job) -> Record:
    """The record of a run, also where a learner raised what is meant to end a process; a dead process is raised."""
    error = future.exception()  # waits for the run; asked for rather than raised, lest it end this process, too
    if isinstance(error, BrokenProcessPool):
        raise error
    return future.result() if error is None else failed_record(job.head, error)
