"""Every command with its arguments and options, as the command line itself declares them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from gddsg.cli import app

PAGE = "command-line.md"
_KINDS = {int: "NUMBER", float: "NUMBER", Path: "PATH", str: "TEXT"}
_OF_THE_SHELL = {"help", "install_completion", "show_completion"}


def section() -> str:
    """The part of the page that lists all commands."""
    root = typer.main.get_command(app)
    return "\n\n".join(["## Every command and option", *_commands(root, "gddsg")]) + "\n"


def _commands(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for inner, one in command.commands.items():
            yield from _commands(one, f"{name} {inner}")
        return
    yield f"### {name}"
    yield escaped(" ".join((command.help or "").split()))
    rows = [_row(one) for one in command.params if one.name not in _OF_THE_SHELL]
    if rows:
        yield "\n".join(["| | |", "|:--|:--|", *rows])


def _row(parameter: Any) -> str:
    option = parameter.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in parameter.opts) if option else f"`{_placeholder(parameter)}`"
    value = f" `{_placeholder(parameter)}`" if option and not parameter.is_flag else ""
    notes = ["required"] * (parameter.required and option)
    if parameter.default not in (None, False, (), []) and not callable(parameter.default):
        notes.append(f"default: {getattr(parameter.default, 'value', parameter.default)}")
    text = escaped(parameter.help or "") + (f" ({'; '.join(notes)})" if notes else "")
    return f"| {names}{value} | {text} |"


def _placeholder(parameter: Any) -> str:
    """What stands for a value: its name, the choices there are, or what kind of value it is."""
    if parameter.metavar:
        return str(parameter.metavar)
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ",".join(str(one.value) for one in kind)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    return _KINDS.get(kind, "VALUE")


def escaped(text: str) -> str:
    """Text that a table of Markdown shows as it is."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
