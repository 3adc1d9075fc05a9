"""The commands of the service: serve, token, backup."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gddsg.cli.common import Device, ModelFile, Quality, TrustedBackbone, app
from gddsg.cli.console import AsJson, busy, counted, err, out, print_json, print_table, progress_bar
from gddsg.cli.streams import work_is_done

if TYPE_CHECKING:  # imported by the commands that need it, so that --help comes at once
    from gddsg.serve.journal import Journal
    from gddsg.store import SharedModel

tokens = typer.Typer(no_args_is_help=True, help="Who may use the service: add, list and remove tokens.")
app.add_typer(tokens, name="token")


@app.command(epilog="Examples:  gddsg serve animals.gddsg --open   ·   gddsg serve --demo --open")
def serve(
    model: Annotated[Path | None, typer.Argument(help="Model file; made when the first class is taught.")] = None,
    host: Annotated[str, typer.Option(help="Where to listen; elsewhere than here takes a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 8000,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another name of the service, say that of a proxy.")
    ] = None,
    keep_photos: Annotated[
        bool, typer.Option("--keep-photos", help="Keep small pictures of taught photos, and show them.")
    ] = False,
    quality: Annotated[Quality | None, typer.Option(help="Of a new model; good unless named.")] = None,
    backbone: TrustedBackbone = None,
    device: Device = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Show a model of letters and digits; nothing is kept.")] = False,
    max_body_mb: Annotated[int, typer.Option(min=1, help="Largest request, in MiB.")] = 256,
    rate: Annotated[float, typer.Option(min=0.1, help="Requests a second that each token may make.")] = 100.0,
) -> None:
    r"""Serve a page in which people teach the model class by class, and an HTTP service for programs.

    Needs pip install 'gddsg\[serve]'.
    """
    if (model is None) != demo:
        raise typer.BadParameter("Name a model file, or --demo, and not both.")
    require_extra()
    from gddsg.serve.limits import Limits
    from gddsg.serve.run import serve as run
    from gddsg.serve.studio import Studio

    def ready(address: str) -> None:
        name = "a demonstration" if model is None else str(model)
        out.print(f"The studio of {name} is at {address} (Ctrl-C ends it).", soft_wrap=True)
        work_is_done()
        if open_page:
            import webbrowser

            webbrowser.open(address)

    with ExitStack() as stack:
        file = stack.enter_context(_demonstration()) if model is None else model
        chosen = None if quality is None else quality.value
        studio = Studio(file, backbone=backbone, quality=chosen, device=device, keep_photos=keep_photos or demo)
        stack.callback(studio.close)
        with busy("Loading"):
            studio.warm_up()
        limits = Limits(body_bytes=max_body_mb * 2**20, held_bytes=4 * max_body_mb * 2**20, rate=rate, burst=2 * rate)
        run(studio, host, port, allow_hosts=allow_host or (), limits=limits, ready=ready)


@contextmanager
def _demonstration() -> Iterator[SharedModel]:
    from gddsg.serve.demonstration import write_demonstration
    from gddsg.working_folder import working_folder

    with working_folder() as folder:
        with progress_bar("Learning letters and digits") as progress:
            file = write_demonstration(folder / "glyphs.gddsg", progress)
        yield file


def require_extra() -> None:
    """Say how to install what the service needs, unless it is here."""
    from importlib.util import find_spec

    from gddsg.errors import MissingExtraError

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "python_multipart", "prometheus_client")):
        raise MissingExtraError("The service needs packages that are not installed: pip install 'gddsg[serve]'")


class Rights(StrEnum):
    """What a token allows."""

    READ = "read"
    TEACH = "teach"


@contextmanager
def _journal(model: Path) -> Iterator[Journal]:
    from gddsg.errors import DataError
    from gddsg.serve.journal import Journal, journal_path

    path = journal_path(model)
    if not path.parent.is_dir():
        raise DataError(f"There is no folder {path.parent}. Name the model file that the service is to serve.")
    journal = Journal(path)
    try:
        yield journal
    finally:
        journal.close()


TokenName = Annotated[str, typer.Argument(help="Whose it is; the audit log calls them so.", metavar="NAME")]


@tokens.command("add", epilog="Example:  gddsg token add animals.gddsg anna --rights teach")
def add(
    model: ModelFile,
    name: TokenName,
    rights: Annotated[Rights, typer.Option(help="read: look and predict; teach: change the model, too.")] = Rights.READ,
) -> None:
    """Make a token and print it, this once: only its digest is kept."""
    from gddsg.serve.tokens import add_token

    with _journal(model) as journal:
        token = add_token(journal, name, rights.value)
    work_is_done()
    err.print(f"The token of {name}, who may {rights.value}. It cannot be shown again.")
    out.print(token, soft_wrap=True)


@tokens.command("list")
def list_tokens(model: ModelFile, as_json: AsJson = False) -> None:
    """Who has a token, and what it allows."""
    with _journal(model) as journal:
        found = journal.tokens()
    if as_json:
        print_json([{"name": name, "rights": rights, "time": made} for name, _, rights, made in found])
    elif found:
        rows = [(name, rights, time.strftime("%Y-%m-%d", time.localtime(made))) for name, _, rights, made in found]
        print_table(("name", "rights", "since"), rows)
    else:
        out.print("There is no token: the service can be reached from this machine alone, by everybody on it.")


@tokens.command("remove")
def remove(model: ModelFile, name: TokenName) -> None:
    """Take a token back; a service that runs refuses it within a second."""
    from gddsg.errors import DataError

    with _journal(model) as journal:
        if not journal.remove_token(name):
            raise DataError(f"There is no token {name!r}. gddsg token list {model} shows those there are.")
    work_is_done()
    out.print(f"The token of {name} is no longer accepted.")


@app.command(epilog="Example:  gddsg backup animals.gddsg --to /backups/animals.gddsg")
def backup(
    model: ModelFile,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The copy; the journal goes to FILE.studio.")],
) -> None:
    """Copy a model and the journal of its service, which may run meanwhile, and verify the copy."""
    from gddsg.serve.backup import back_up

    def on_wait() -> None:
        err.print(f"Another process is changing {model}; waiting for it …")

    copies = back_up(model, to, on_wait)
    work_is_done()
    out.print(f"Copied and verified {counted(len(copies), 'file')}: {', '.join(map(str, copies))}.", soft_wrap=True)
