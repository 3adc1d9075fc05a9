"""Run experiments on the cores there are, and go on where a kill has stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gddsg.backbones.base import available_cores
from gddsg.bench.datasets import FeatureSource, locate
from gddsg.bench.execution import execute, failed_record, run_head
from gddsg.bench.experiment import Experiment, Run, planned_runs
from gddsg.bench.processes import process_pool
from gddsg.bench.record import Head, Record
from gddsg.bench.records import append_record, make_folder, read_records, write_records
from gddsg.bench.revision import code_revision
from gddsg.errors import DataError
from gddsg.files import LockedError, locked
from gddsg.photos.threads import Progress
from gddsg.working_folder import working_folder


@dataclass(frozen=True)
class BenchReport:
    """What a call of :func:`run_experiment` did.

    Attributes
    ----------
    path : Path
        File of the records.
    runs, done_before, failed : int
        How many there were in all, how many were in the file before, and how many failed.
    """

    path: Path
    runs: int
    done_before: int
    failed: int


@dataclass(frozen=True)
class _Job:
    run: Run
    source: FeatureSource
    head: Head


def run_experiment(
    experiment: Experiment,
    out: Path,
    root: Path = Path("datasets"),
    *,
    workers: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    embedding: Progress | None = None,
) -> BenchReport:
    """Run what is not in the records yet, and write each run down as soon as it is done.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    out : Path
        File of the records; runs it holds already are not repeated, unless they failed. Records of other experiments
        stay as they are, failed ones too.
    root : Path
        Folder of feature files and data sets.
    workers : int or None
        Processes; as many as there are cores, unless told. With 0 everything is run in this very process, which saves
        their start but has a run that kills its process kill them all.
    fresh : bool
        Run everything of this experiment again.
    progress, embedding : callable or None
        Called with what is done and what is to be done: runs, and photos.

    Returns
    -------
    BenchReport
        How many runs there were, and how many failed.
    """
    make_folder(out)
    with _sole_writer(out), working_folder() as work:
        jobs, lost = _jobs(experiment, root, work, embedding)
        planned = {job.head.run for job in jobs}
        known = read_records(out) if out.exists() else []
        kept = {record.head.run: record for record in known if _stays(record, experiment.name)}
        done = {id: record for id, record in kept.items() if not (fresh and id in planned)}
        todo = [job for job in jobs if job.head.run not in done]
        write_records(out, [*done.values()])  # without failures and without a line that a kill has cut off
        before = len(jobs) - len(todo)
        if progress is not None:
            progress(before, len(jobs))
        for record in _executed(todo, available_cores() if workers is None else workers):
            append_record(out, record)
            done[record.head.run] = record
            if progress is not None:
                progress(before + sum(job.head.run in done for job in todo), len(jobs))
        # one order of lines whatever the order in which runs were done; records of other experiments stay in front
        others = [record for id, record in done.items() if id not in planned]
        ours = [done[job.head.run] for job in jobs]
        write_records(out, [*others, *ours, *lost])
        failed = sum(bool(record.error) for record in ours) + len(lost)
    return BenchReport(out, len(jobs) + len(lost), before, failed)


def _stays(record: Record, experiment: str) -> bool:
    """A failed run of this experiment is tried again; what other experiments left is none of its business."""
    return not record.error or record.head.experiment != experiment


@contextmanager
def _sole_writer(out: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(out, wait=False))
        except LockedError as error:
            raise DataError(f"Another process is writing to {out}. Wait for it, or name another file.") from error
        except OSError as error:
            raise DataError(
                f"The records {out} cannot be locked ({error.strerror or error}). Expected a file in a folder you may "
                "write to; name another with --out."
            ) from error
        yield


def _jobs(
    experiment: Experiment, root: Path, work: Path, embedding: Progress | None
) -> tuple[list[_Job], list[Record]]:
    """What is to be run, and records of what cannot be, since its data are missing."""
    sources: dict[tuple[str, str], FeatureSource | Exception] = {}
    jobs, lost, revision = [], [], code_revision()
    for run in planned_runs(experiment):
        place = (run.dataset, run.backbone)
        if place not in sources:
            try:
                sources[place] = locate(*place, root, work, embedding)
            except Exception as error:  # whatever is wrong with one data set, the others are run
                sources[place] = error
        source = sources[place]
        if isinstance(source, FeatureSource):
            jobs.append(_Job(run, source, run_head(run, source, revision)))
        else:
            nowhere = FeatureSource(Path(run.dataset).stem, run.backbone, Path(), "")
            lost.append(failed_record(run_head(run, nowhere, revision), source))
    return jobs, lost


def _executed(jobs: Sequence[_Job], workers: int) -> Iterator[Record]:
    """Records as they come. A run whose process dies is tried once more by itself: another may have been the cause."""
    waiting, suspects = list(jobs), list[_Job]()
    if workers == 0:
        yield from (execute(job.run, job.source, job.head) for job in jobs)
        return
    while waiting:
        under_way: dict[Future[Record], _Job] = {}
        with process_pool(min(workers, len(waiting))) as pool:
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < workers:
                        job = waiting[0]
                        under_way[pool.submit(execute, job.run, job.source, job.head)] = job
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


def _alone(job: _Job) -> Record:
    with process_pool(1) as pool:
        try:
            return _record(pool.submit(execute, job.run, job.source, job.head), job)
        except BrokenProcessPool:
            reason = "the process of this run died twice, most likely for want of memory"
            return Record(job.head, error=f"BrokenProcessPool: {reason}")


def _record(future: Future[Record], job: _Job) -> Record:
    """The record of a run, also where a learner raised what is meant to end a process; a dead process is raised."""
    error = future.exception()  # waits for the run; asked for rather than raised, lest it end this process, too
    if isinstance(error, BrokenProcessPool):
        raise error
    return future.result() if error is None else failed_record(job.head, error)
