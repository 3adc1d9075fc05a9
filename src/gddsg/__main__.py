"""``python -m gddsg`` is the command ``gddsg``."""

from gddsg.cli import app

app(prog_name="gddsg")
