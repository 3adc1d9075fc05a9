"""The application, and what several of its commands share: options, the classifier, and what was left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gddsg.cli.console import Commands, counted, err, out, progress_bar

if TYPE_CHECKING:  # the heavy parts are imported by the commands that need them, so that --help comes at once
    from gddsg.data.dataset import Skipped
    from gddsg.photos import PhotoClassifier

SHOWN = 10
"""Of a list that may be long, so many are printed."""

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="A classifier of photos that takes new classes for years and never has to be retrained.",
    epilog="Examples:  gddsg learn animals.gddsg photos/   ·   gddsg predict animals.gddsg garden.jpg   ·   gddsg demo"
    "\n\nEnvironment:  GDDSG_CACHE names the folder where features of photos are kept (gddsg cache --help tells more).",
)

ModelFile = Annotated[Path, typer.Argument(help="Model file.", metavar="MODEL")]
Folders = Annotated[
    list[Path],
    typer.Argument(help="Folders of photos, one class a folder; or lists, path,label.csv.", metavar="FOLDER..."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Files that cannot be used are an error, not skipped.")]
CaseSensitive = Annotated[bool, typer.Option("--case-sensitive", help="Allow classes that differ only in case.")]
Reject = Annotated[
    float | None,
    typer.Option(
        "--reject",
        metavar="SHARE",
        help='Call photos "unknown" that are less like any class than this share of known ones, e.g. 0.99.',
    ),
]
TrustedBackbone = Annotated[
    str | None,
    typer.Option(help="Backbone of the model, if it is not part of this package: to agree to it, or its folder now."),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, … (a GPU if there is one).")]


@app.callback(invoke_without_command=True)
def main(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """A classifier of photos that takes new classes for years and never has to be retrained."""
    if show_version:
        from importlib.metadata import version

        out.print(f"gddsg {version('gddsg')}")
        raise typer.Exit


class Quality(StrEnum):
    """How good a new model should be."""

    FAST = "fast"
    GOOD = "good"
    BEST = "best"


@contextmanager
def open_classifier(
    path: Path,
    backbone: str | None = None,
    device: str | None = None,
    settings: dict[str, Any] | None = None,
    quality: Quality | None = None,
) -> Iterator[PhotoClassifier]:
    """The classifier in a file, which asks before it uses a backbone from outside and says whom it waits for."""
    from gddsg.backbones.feature_cache import FeatureCache
    from gddsg.photos import PhotoClassifier

    with FeatureCache() as features:
        chosen = None if quality is None else quality.value
        on_wait, ask = partial(say_whom_we_wait_for, path), partial(ask_for_trust, path)
        yield PhotoClassifier(path, backbone, device, features, settings, on_wait, ask, chosen)
        if features.trouble:
            err.print(Text("Features are not kept:", style="yellow"), features.trouble)


def say_whom_we_wait_for(path: Path) -> None:
    """Another process has its turn."""
    err.print(f"Another process is changing {path}; waiting for it …")


def ask_for_trust(path: Path, name: str) -> bool:
    """Whether the user agrees to a backbone from outside that a model file names."""
    if not (sys.stdin.isatty() and err.is_terminal):
        return False
    err.print(
        f"{path} asks for the backbone {name}, which is not part of this package: it would be loaded from a folder "
        "or a hub of that name. Say yes if you trust who made the file."
    )
    return typer.confirm("Use this backbone?", err=True)


@contextmanager
def embedding(classifier: PhotoClassifier, then: str) -> Iterator[Any]:
    """A bar for photos, after any question: the two would overwrite each other. It says what comes before and after."""
    classifier.require_trust()
    with progress_bar("Looking at the photos") as update:

        def tell(done: int, total: int) -> None:
            if done < total:
                update(done, total, "Embedding")
            else:
                update(done, None, then)  # nobody knows how long that takes

        yield None if update is None else tell


def print_skipped(skipped: Sequence[Skipped]) -> None:
    """Files that were left out, and why."""
    if not skipped:
        return
    err.print(f"Skipped {counted(len(skipped), 'file')}:", style="yellow")
    for one in skipped[:SHOWN]:
        err.print(f"  {one.name}: {one.reason}", soft_wrap=True)
    if len(skipped) > SHOWN:
        err.print(f"  … and {len(skipped) - SHOWN} more (--json lists all, --strict makes them errors)")
