"""The command line: parses, calls, prints."""

from gddsg.cli.common import app

# isort: split
# help lists commands in the order of these imports
from gddsg.cli import teaching

# isort: split
from gddsg.cli import answering

# isort: split
from gddsg.cli import handing_out

# isort: split
from gddsg.cli import pretraining

# isort: split
from gddsg.cli import serving

# isort: split
from gddsg.cli.bench import app as bench

app.add_typer(bench, name="bench")

__all__ = ["answering", "app", "handing_out", "pretraining", "serving", "teaching"]
