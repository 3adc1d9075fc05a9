"""Jobs, and what does them: this very process, processes beside it, or machines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gddsg.bench.datasets import FeatureSource
from gddsg.bench.execution import execute
from gddsg.bench.experiment import Run
from gddsg.bench.record import Head, Record


@dataclass(frozen=True)
class Job:
    """A run with all that it takes, so that it can be done anywhere the data are.

    Attributes
    ----------
    run : Run
        What is run.
    source : FeatureSource
        On what.
    head : Head
        The beginning of its record.
    """

    run: Run
    source: FeatureSource
    head: Head

    def done(self) -> Record:
        """Do it.

        Returns
        -------
        Record
            What came out, which may be an error.
        """
        return execute(self.run, self.source, self.head)


class Executor(Protocol):
    """Whoever does jobs. It writes no file: records go back to the one who asked, and only that one writes them."""

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Record]:
        """One record a job, as they come; jobs are begun in the given order.

        A job that fails, or takes its process with it, gives a record of its error and stops no other job.
        """


def in_this_process(jobs: Sequence[Job]) -> Iterator[Record]:
    """Do jobs one after the other, without the start of another process; one that kills it kills them all.

    Parameters
    ----------
    jobs : sequence of Job
        What is to be done.

    Yields
    ------
    Record
        One a job, in their order.
    """
    yield from (job.done() for job in jobs)
