"""The command line: parses, calls, prints."""

from gddsg.cli.bench import app as bench
from gddsg.cli.photos import app

app.add_typer(bench, name="bench")

__all__ = ["app"]
