"""What all commands share: where they print, and how."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from gddsg.cli.streams import SteadyStream, steady_streams
from gddsg.wording import counted as counted

_INTERRUPTED = 130
_PIPED = 10_000  # columns where the output goes to a file or a program: nothing is wrapped there
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, bidirectional marks, half characters, line separators
_JOINERS = "\u200c\u200d"  # Persian, Indian scripts and emoji are spelt with these; they command nothing

_LEAST_ROOM = 12
GAP = 2
"""Blanks between the columns of a table."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def visible(text: str) -> str:
    r"""Text that commands a terminal to do nothing: control characters are shown as escapes such as ``\x1b``.

    Parameters
    ----------
    text : str
        Names of files and classes in it come from strangers.
    """
    return _without_hidden(text, lambda character: character.encode("unicode_escape").decode())


def _without_hidden(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(escape(one) if unicodedata.category(one) in _HIDDEN and one not in _JOINERS else one for one in text)


class Screen(Console):
    """A console for which text is data: no markup, no emoji codes, and one line a call, since line feeds are shown too.

    Every string that is printed passes :meth:`render_str`, those in tables and progress bars included.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        width = None if stream is not None and stream.isatty() else _PIPED
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string, with its control characters made visible."""
        return super().render_str(visible(text), **options)


out = Screen()
err = Screen(stderr=True)

_LEFT_OUT = ("torch", "scipy", "sklearn", "networkx", "matplotlib", "onnx", "onnxscript")
"""Packages that a light installation, see docs/start.md, does without."""


class Commands(TyperGroup):
    """Turns our errors into one message and an exit code, without a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; output that cannot be written never ends in a traceback."""
        with steady_streams() as (stdout, _):
            try:
                return super().main(*args, **extra)
            except SystemExit as end:
                raise SystemExit(_exit_code(end.code, stdout)) from end

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Parse what stands before the name of the command."""
        with _visible_usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            with _visible_usage_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            err.print("Interrupted. Nothing is half done, and what was finished before is kept.")
            raise typer.Exit(_INTERRUPTED) from error
        except Exception as error:
            message = _message_of(error)
            if message is None:
                raise
            _print_error(message)
            raise typer.Exit(1) from error


@contextmanager
def _visible_usage_errors() -> Iterator[None]:
    """What was typed is repeated in these messages, which are printed by others."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):
            error.message = visible(error.message)
        raise


def _message_of(error: Exception) -> str | None:
    """What to tell of an error of ours or of the file system; None for any other, which is a bug."""
    errors = sys.modules.get("gddsg.errors")  # not imported here: it would make --help wait
    if errors is not None and isinstance(error, errors.GddsgError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        named = "" if error.filename is None else f"{error.filename}: "
        return f"{named}{error.strerror}. Expected a place that can be read and written, with room on the disk."
    if isinstance(error, ModuleNotFoundError) and (missing := (error.name or "").partition(".")[0]) in _LEFT_OUT:
        return (
            f"This needs {missing}, which is not installed: a light installation says what is on photos, and no more. "
            "Install the rest with: pip install gddsg"
        )
    return None


def _print_error(message: str) -> None:
    first, *rest = message.split("\n")
    err.print(Text("Error:", style="bold red"), first, soft_wrap=True)
    for line in rest:  # indented, so that a line feed in a name cannot begin what looks like a message of its own
        err.print(f"  {line.removeprefix('  ')}", soft_wrap=True)


def _exit_code(code: Any, stdout: SteadyStream) -> Any:
    """The exit code of a command that would end with ``code``, once its output is written or known to be lost."""
    stdout.flush()
    if stdout.failure is None or code not in (0, None):
        return code
    if not stdout.is_answer:
        if not stdout.reader_has_gone:
            err.print(f"Done, but standard output cannot be written to ({stdout.reason}).")
        return code
    if not stdout.reader_has_gone:
        _print_error(f"Standard output cannot be written to ({stdout.reason}). Direct it elsewhere and try again.")
    return 1


@contextmanager
def progress_bar(what: str) -> Iterator[Any]:
    """A bar with rate and time left on a terminal, nothing where the output goes elsewhere."""
    if not err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    # Columns that are strings are filled in and printed as such, whereas those of Rich's TextColumn are parsed.
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), "{task.fields[rate]}", TimeRemainingColumn())
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
    """Print a value for programs to read: names are exact, numbers that JSON does not know are null."""
    text = json.dumps(_finite(value), indent=1, ensure_ascii=not sys.stdout.encoding.lower().startswith("utf"))
    # But for the ends of lines, control characters are found in strings alone, where an escape means the very same.
    lines = (_without_hidden(line, lambda character: json.dumps(character)[1:-1]) for line in text.split("\n"))
    sys.stdout.write("\n".join(lines) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def print_csv(rows: Iterable[Iterable[str]]) -> None:
    """Print rows for programs to read, with exact names; on a terminal control characters are made visible."""
    show = visible if sys.stdout.isatty() else str
    sys.stdout.writelines(_csv_line([show(cell) for cell in row]) for row in rows)


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)  # it quotes characters of the line's end, hence both
    return line.getvalue().removesuffix("\r\n") + "\n"


def print_table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table without lines; columns of numbers are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading in _NUMBERS else "left")
    for row in rows:
        table.add_row(*map(str, row))
    out.print(table)


def table_width(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> int:
    """Columns of a terminal that a table takes if no cell of it is broken into lines."""
    columns = zip(headings, *rows, strict=True)
    widths = [max(cell_len(visible(cell)) for cell in column) for column in columns]
    return sum(widths) + GAP * (len(widths) - 1)


def end_of(text: str, room: int) -> str:
    """The text, or if there is not room enough its end: of a path, the end tells more than the beginning."""
    shown = visible(text)
    room = max(room, _LEAST_ROOM)
    if cell_len(shown) <= room:
        return text
    while cell_len(shown) >= room:  # one column is for the sign that something is missing
        shown = shown[1:]
    return f"…{shown}"


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
