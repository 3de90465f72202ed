"""`lockgen run`: a command in an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PREFIX = typer.Option("--prefix", "-p", help="Folder of the environment.")
COMMAND = typer.Argument(help="The command and its arguments, after `--`.", metavar="CMD...")
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""For `app.command(context_settings=…)`: everything from CMD on belongs to it."""


def run(prefix: Annotated[Path, PREFIX], command: Annotated[list[str], COMMAND]) -> None:
    """Run a command in an environment. It is activated, and the exit code is the command's own."""
    import os

    from lockgen.install.activate import execute

    execute(prefix, command, os.environ)
