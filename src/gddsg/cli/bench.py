"""``gddsg bench``: run experiments, list them, report on their records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gddsg.cli.console import AsJson, counted, err, out, print_json, print_table, progress_bar
from gddsg.cli.streams import work_is_done

if TYPE_CHECKING:  # imported when first used, so that --help comes at once
    from gddsg.bench import Executor, Record
    from gddsg.nn.training import TrainingProgress

app = typer.Typer(
    no_args_is_help=True,
    help="The honest benchmark: orders × learners × data sets, one record a run, one report.",
)

Data = Annotated[
    Path, typer.Option("--data", envvar="GDDSG_DATA", help="Folder of feature files (.npz) and data sets.")
]


class Engine(StrEnum):
    """What does the runs."""

    PROCESSES = "processes"
    RAY = "ray"


@app.command(
    epilog="Examples:  gddsg bench run experiments/main-table.toml --data features/   ·   "
    "gddsg bench run --features birds.npz --learner gddsg,my_file:MyLearner --orders 10 --out records.jsonl"
)
def run(
    experiments: Annotated[list[Path] | None, typer.Argument(help="TOML files.", metavar="[EXPERIMENT]...")] = None,
    features: Annotated[
        list[Path] | None, typer.Option("--features", help="Feature file to run on, without an experiment file.")
    ] = None,
    learner: Annotated[
        str, typer.Option(help="Names, joined by commas: those of `gddsg bench list`, or module:Class.")
    ] = "gddsg",
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks, with --features.")] = 10,
    orders: Annotated[int, typer.Option(min=1, help="Number of class orders, with --features.")] = 1,
    records: Annotated[
        Path | None, typer.Option("--out", help="Records; unless told, in records/ beside the experiment.")
    ] = None,
    data: Data = Path("datasets"),
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Processes; as many as cores unless told. With 0 all runs are in this one, and where a learner is "
            "trained you see its loss, images a second and time left.",
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="Processes of this machine, or Ray (pip install 'gddsg\\[ray]'): here, or on a cluster with --address."
        ),
    ] = Engine.PROCESSES,
    address: Annotated[
        str | None,
        typer.Option(
            envvar="RAY_ADDRESS",
            help="Of a running Ray cluster: host:port, ray://host:port or auto. Data are read where the runs are: its "
            "machines need the same --data folder in the same place, with feature files in place of photos.",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what is in the records already.")] = False,
    datasets: Annotated[
        list[str] | None, typer.Option("--datasets", help="Only these data sets of the experiment, joined by commas.")
    ] = None,
    learners: Annotated[
        list[str] | None, typer.Option("--learners", help="Only these learners of the experiment, joined by commas.")
    ] = None,
) -> None:
    """Run experiments. May be stopped at any moment: the same call goes on where it was."""
    from gddsg.bench import experiment_from, read_experiment, run_experiment
    from gddsg.bench.experiment import part_of

    if bool(experiments) == bool(features):
        raise typer.BadParameter("Name experiment files, or feature files with --features.")
    if features and (datasets or learners):
        raise typer.BadParameter("--datasets and --learners choose from an experiment file; use --learner.")
    _make_current_folder_importable()
    if features:
        wanted = {
            "datasets": [str(path) for path in features],
            "learners": [name.strip() for name in learner.split(",")],
            "tasks": tasks,
            "orders": orders,
        }
        planned = [(experiment_from("features", wanted), records or Path("records.jsonl"))]
    else:
        planned = [
            (read_experiment(path), records or path.parent / "records" / f"{path.stem}.jsonl")
            for path in experiments or ()
        ]
    failed = 0
    parts = [part_of(one, datasets or (), learners or ()) if datasets or learners else None for one, _ in planned]
    with _executor(engine, address, workers) as executor:
        for (experiment, path), part in zip(planned, parts, strict=True):
            what = f"Running {experiment.name}"
            with progress_bar(what) as update, _training_shown(what, update) as update:
                embedding = update and partial(update, now="Embedding")
                report = run_experiment(
                    experiment,
                    path,
                    data,
                    workers=workers,
                    fresh=fresh,
                    progress=update,
                    embedding=embedding,
                    part=part,
                    executor=executor,
                )
            work_is_done()
            failed += report.failed
            before = f", {report.done_before} of them before" if report.done_before else ""
            out.print(f"{experiment.name}: {counted(report.runs, 'run')}{before}; records in {path}")
            _print_results(path, experiment.name)
    if failed:
        err.print(Text(f"{counted(failed, 'run')} failed;", style="bold red"), "the records say why.")
        raise typer.Exit(1)


def _executor(engine: Engine, address: str | None, workers: int | None) -> AbstractContextManager[Executor | None]:
    if engine is Engine.PROCESSES:
        return nullcontext()  # the runner has its own
    if workers == 0:
        raise typer.BadParameter("--workers 0 does all runs in this very process; with --engine ray name 1 or more.")
    from gddsg.bench.on_ray import ray_executor

    return ray_executor(address, workers)


@contextmanager
def _training_shown(what: str, update: Any) -> Iterator[Any]:
    """The bar's ``update``; meanwhile a training in this process says behind ``what`` how it gets on."""
    if update is None:  # no terminal, no bar
        yield None
        return
    from gddsg.nn.training import watching

    bar: tuple[int, int | None] = (0, None)

    def remembered(done: int, total: int | None = None, now: str = what) -> None:
        nonlocal bar
        bar = done, total
        update(done, total, now)

    def show(progress: TrainingProgress) -> None:
        update(*bar, now=f"{what}: {training_line(progress)}")

    with watching(show):
        yield remembered


def training_line(progress: TrainingProgress) -> str:
    """How a training gets on, in a line.

    Parameters
    ----------
    progress : TrainingProgress
        What it says of itself.
    """
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return (
        f"epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.3g}, "
        f"{progress.samples_per_second:.3g} images/s, {minutes}:{seconds:02d} left"
    )


def _make_current_folder_importable() -> None:
    """So that module:Class finds a file of the user's; last, so that no file there hides an installed package."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # processes of the runs are started with the same path


def _print_results(path: Path, experiment: str) -> None:
    """Mean A_N and F_N over orders, and what else was measured, as far as there is any."""
    from gddsg.bench import read_records
    from gddsg.bench.findings import Measurement

    ours = [record for record in read_records(path) if record.head.experiment == experiment]
    _print_streams([record for record in ours if record.error or record.head.kind == "stream"])
    measured = [record for record in ours if isinstance(record.found, Measurement)]
    if measured:
        cells = ((one.head.dataset, one.head.learner, one.head.order, one.head.kind, one.found) for one in measured)
        print_table(("data set", "learner", "order", "kind", "found"), cells)


def _print_streams(records: list[Record]) -> None:
    from gddsg.bench.record import first_seed

    several = len({record.head.backbone for record in records}) > 1
    rows: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        data = f"{record.head.dataset}, {record.head.backbone}" if several else record.head.dataset
        rows.setdefault((data, record.head.learner, record.head.leaks), []).append(record)
    if not rows:
        return
    cells = []
    for (dataset, learner, leaks), group in rows.items():
        first = first_seed((one.head.order, one.head.seed) for one in group)
        of_orders = [one.found for one in group if one.head.seed == first]
        done = [metrics for found in of_orders if (metrics := getattr(found, "metrics", None))]
        numbers = [
            f"{sum(one[key] for one in done) / len(done):.2f}" if done and all(key in one for one in done) else "–"
            for key in ("A_N", "F_N")
        ]
        errors = [one.error for one in group if one.error]
        failed = f"{len(errors)} failed: {errors[0][:80]}" if errors else ""
        note = " ".join(part for part in (f"leaks: {leaks}" if leaks else "", failed) if part)
        cells.append((dataset, learner, len(done), *numbers, note))
    print_table(("data set", "learner", "orders", "A_N", "F_N", "note"), cells)


@app.command("list", epilog="Example:  gddsg bench list")
def list_(
    folder: Annotated[Path, typer.Argument(help="Folder of experiments.")] = Path("experiments"),
    as_json: AsJson = False,
) -> None:
    """Show experiments, and the learners they can run."""
    from gddsg.bench import experiment_files, learner_names, read_experiment
    from gddsg.bench.experiment import planned_runs

    found = [(path, read_experiment(path)) for path in experiment_files(folder)]
    if as_json:
        rows = [{"file": str(path), "title": one.title, "runs": len(list(planned_runs(one)))} for path, one in found]
        print_json({"experiments": rows, "learners": learner_names()})
        return
    if not found:
        out.print(f"There is no experiment (.toml) in {folder}; name another folder, or run --features FILE.")
    else:
        cells = ((path, len(list(planned_runs(one))), one.title) for path, one in found)
        print_table(("experiment", "runs", "title"), cells)
    out.print(f"Learners: {', '.join(learner_names())}; or one of yours, as module:Class")


@app.command(epilog="Example:  gddsg bench report experiments/records/*.jsonl --html report/")
def report(
    records: Annotated[list[Path], typer.Argument(help="Files of records.", metavar="RECORDS...")],
    html: Annotated[Path, typer.Option("--html", metavar="DIR", help="Folder for the page and its Markdown twin.")],
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Order-robust class-incremental learning",
) -> None:
    """One HTML page and a Markdown twin from records alone; nothing is run again."""
    from gddsg.bench import read_records
    from gddsg.report.benchmark import write_report

    files = write_report([record for path in records for record in read_records(path)], html, title)
    work_is_done()
    out.print(f"The report is in {files.html}, its Markdown twin in {files.markdown}")
