"""What all commands share: where they print, and how."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

if TYPE_CHECKING:  # imported when first used, so that --help comes at once
    from rich.table import Table

_INTERRUPTED = 130
_PIPED = 10_000  # columns where the output goes to a file or a program: nothing is wrapped there
out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED)
err = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Commands(TyperGroup):
    """Turns our errors into one message and an exit code, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            err.print("Interrupted. Nothing is half done, and what was finished before is kept.")
            raise typer.Exit(_INTERRUPTED) from error
        except Exception as error:
            if not _is_ours(error):
                raise
            err.print(f"[bold red]Error:[/] {escaped(error)}", soft_wrap=True)
            raise typer.Exit(1) from error


def _is_ours(error: Exception) -> bool:
    errors = sys.modules.get("gddsg.errors")  # not imported here: it would make --help wait
    return errors is not None and isinstance(error, errors.GddsgError)


@contextmanager
def progress_bar(what: str) -> Iterator[Any]:
    """A bar with rate and time left on a terminal, nothing where the output goes elsewhere."""
    if not err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bars:
        task = bars.add_task(what, total=None, rate="")

        def update(done: int, total: int | None = None, now: str = what) -> None:
            speed = bars.tasks[0].speed
            rate = "" if not speed else f"{speed:.0f}/s" if speed > 2 else f"{1 / speed:.0f} s each"
            bars.update(task, description=now, completed=done, total=total, rate=rate)

        yield update


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A sign of life on a terminal."""
    if err.is_terminal:
        with err.status(f"{what} …"):
            yield
    else:
        yield


def print_json(value: Any) -> None:
    """Print a value for programs to read."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def new_table(*headings: str) -> Table:
    """A table without lines; columns of numbers are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading in _NUMBERS else "left")
    return table


_NUMBERS = (
    "photos",
    "right",
    "accuracy",
    "probability",
    "samples",
    "group",
    "distance",
    "look-alikes",
    "runs",
    "orders",
    "A_N",
    "F_N",
)


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """``1 photo``, ``2 photos``."""
    return f"{n} {singular if n == 1 else plural or singular + 's'}"


def escaped(text: object) -> str:
    """Names of files and classes come from strangers: square brackets in them are no markup."""
    return str(text).replace("[", r"\[")
