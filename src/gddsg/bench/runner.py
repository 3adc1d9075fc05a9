"""Run experiments on the cores there are, and go on where a kill has stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from gddsg.backbones.base import available_cores
from gddsg.bench.datasets import FeatureSource, locate
from gddsg.bench.execution import failed_record, run_head, run_id
from gddsg.bench.experiment import Experiment, Run, planned_runs
from gddsg.bench.in_processes import InProcesses
from gddsg.bench.jobs import Executor, Job, in_this_process
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
class _Plan:
    """What is to be run, records of what cannot be, and the place of every run's line, of other parts too."""

    jobs: list[Job]
    lost: list[Record]
    places: dict[str, int]


def run_experiment(
    experiment: Experiment,
    out: Path,
    root: Path = Path("datasets"),
    *,
    workers: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    embedding: Progress | None = None,
    part: Experiment | None = None,
    executor: Executor | None = None,
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
    part : Experiment or None
        What :func:`gddsg.bench.experiment.part_of` made of the experiment, if no more than that is to be run; records
        of other parts stay, and lines keep the order that the whole experiment gives them.
    executor : callable or None
        What does the runs, in place of ``workers`` processes; such as :func:`gddsg.bench.on_ray.ray_executor` gives.

    Returns
    -------
    BenchReport
        How many runs there were, and how many failed.
    """
    make_folder(out)
    with _sole_writer(out), working_folder() as work:
        known = read_records(out) if out.exists() else []
        located = lru_cache(maxsize=None)(partial(_located, root, work, embedding))
        plan = _planned(experiment, part or experiment, known, located)
        jobs, heads = plan.jobs, {job.head.run: job.head for job in plan.jobs}
        kept = {record.head.run: record for record in known if _stays(record, experiment, part)}
        done = {id: _as_planned(one, heads.get(id)) for id, one in kept.items() if not (fresh and id in heads)}
        todo = [job for job in _breadth_first(jobs) if job.head.run not in done]
        write_records(out, [*done.values()])  # without failures and without a line that a kill has cut off
        before = len(jobs) - len(todo)
        if progress is not None:
            progress(before, len(jobs))
        for record in (executor or _local_executor(workers))(todo):
            append_record(out, record)
            done[record.head.run] = record
            if progress is not None:
                progress(before + sum(job.head.run in done for job in todo), len(jobs))
        # one order of lines whatever the order in which runs were done; records of other experiments stay in front
        everything = [*done.values(), *plan.lost]
        write_records(out, sorted(everything, key=lambda record: plan.places.get(record.head.run, -1)))
        failed = sum(bool(done[job.head.run].error) for job in jobs) + len(plan.lost)
    return BenchReport(out, len(jobs) + len(plan.lost), before, failed)


def _local_executor(workers: int | None) -> Executor:
    return in_this_process if workers == 0 else InProcesses(workers or available_cores())


def _breadth_first(jobs: Sequence[Job]) -> list[Job]:
    """Every learner in its first order and seed before any in its second: whoever stops early can compare them all."""
    met, rounds = Counter[object](), []
    for run in (job.run for job in jobs):
        setting = (run.kind, run.dataset, run.backbone, run.learner.name, run.tasks, run.length, run.parts)
        rounds.append(met[setting])
        met[setting] += 1
    return [jobs[i] for i in sorted(range(len(jobs)), key=rounds.__getitem__)]


def _stays(record: Record, experiment: Experiment, part: Experiment | None) -> bool:
    """A failed run of what is run now is tried again; what others left is none of its business."""
    if not record.error or record.head.experiment != experiment.name:
        return True
    return part is not None and not any(
        record.head.dataset in _names(dataset) and record.head.learner == spec.name
        for dataset in part.datasets
        for spec in part.learners
    )


def _as_planned(record: Record, head: Head | None) -> Record:
    """The record with what the experiment says of it by now, which no run has to find out."""
    if head is None:
        return record
    return replace(record, head=replace(record.head, order_invariant=head.order_invariant))


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


Found = FeatureSource | Exception


def _located(root: Path, work: Path, embedding: Progress | None, dataset: str, backbone: str) -> Found:
    try:
        return locate(dataset, backbone, root, work, embedding)
    except Exception as error:  # whatever is wrong with one data set, the others are run
        return error


def _planned(
    experiment: Experiment, part: Experiment, known: Sequence[Record], located: Callable[[str, str], Found]
) -> _Plan:
    """The runs of a part, and where its lines and those of all other parts belong."""
    plan, revision = _Plan([], [], {}), code_revision()
    ours = [record.head for record in known if record.head.experiment == experiment.name]
    prints = {head.dataset: head.data_fingerprint for head in ours if head.data_fingerprint}  # the latest
    for place, run in enumerate(planned_runs(experiment)):
        if run.dataset not in part.datasets or run.learner not in part.learners:
            plan.places.update(dict.fromkeys(_recorded(run, prints), place))
            continue
        source = located(run.dataset, run.backbone)
        if isinstance(source, FeatureSource):
            head = run_head(run, source, revision)
            plan.jobs.append(Job(run, source, head))
        else:  # its data are missing
            nowhere = FeatureSource(Path(run.dataset).stem, run.backbone, Path(), "")
            head = run_head(run, nowhere, revision)
            plan.lost.append(failed_record(head, source))
        plan.places[head.run] = place
    return plan


def _recorded(run: Run, prints: Mapping[str, str]) -> Iterator[str]:
    """Ids that a run may have in the records, without a look at its data, which may be far away or missing."""
    for name in set(_names(run.dataset)):
        for fingerprint in {prints.get(name, ""), ""}:
            yield run_id(run, FeatureSource(name, run.backbone, Path(), fingerprint))


def _names(dataset: str) -> tuple[str, str]:
    """What records may call a data set of an experiment, found or not."""
    path = Path(dataset)
    return path.stem, path.stem.partition("_")[0] if dataset.endswith(".npz") else path.name
