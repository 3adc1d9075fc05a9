"""The report as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gddsg.bench.record import Record
from gddsg.errors import DataError
from gddsg.files import replace_file
from gddsg.report.benchmark.markdown import markdown
from gddsg.report.benchmark.page import page
from gddsg.report.benchmark.records import shown, sorted_records
from gddsg.report.benchmark.sections import document

_FIGURES = "figures"


@dataclass(frozen=True)
class ReportFiles:
    """What was written.

    Attributes
    ----------
    html : Path
        One page that holds everything.
    markdown : Path
        The same as Markdown, which links to the figures.
    figures : tuple of Path
        PNG files, in a folder beside the Markdown file.
    """

    html: Path
    markdown: Path
    figures: tuple[Path, ...]


def write_report(
    records: Sequence[Record], folder: Path, title: str = "Class-incremental learning: benchmark"
) -> ReportFiles:
    """Write ``report.html`` and ``report.md`` with its ``figures/``; the same records give the same bytes.

    Parameters
    ----------
    records : sequence of Record
        As :func:`gddsg.bench.read_records` gives them; no learner is run. Experiments the report knows by name get
        tables and figures of their own, all others tables and accuracy curves.
    folder : Path
        Where to write; made if it does not exist.
    title : str
        Heading of the report.

    Returns
    -------
    ReportFiles
        What was written.

    Raises
    ------
    DataError
        If the files cannot be written.
    """
    content = document(sorted_records(records), shown(title))
    folder = Path(folder)
    html, twin = folder / "report.html", folder / "report.md"
    pictures = [(folder / _FIGURES / f"{picture.name}.png", picture.png) for picture in content.pictures()]
    try:
        (folder / _FIGURES).mkdir(parents=True, exist_ok=True)
        for path, png in pictures:
            replace_file(path, png)
        replace_file(twin, markdown(content, _FIGURES).encode())
        replace_file(html, page(content).encode())
    except (OSError, ValueError) as error:  # a ValueError: no file can be called that
        reason = getattr(error, "strerror", None) or error
        message = (
            f"{str(folder)!r}: the report cannot be written there ({reason}). Expected a folder you may write to, "
        )
        raise DataError(message + "with room on the disk; choose another.") from error
    return ReportFiles(html, twin, tuple(path for path, _ in pictures))
