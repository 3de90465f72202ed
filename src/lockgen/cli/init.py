"""`lockgen init`: a commented spec to start from."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

FILE = typer.Argument(help="The spec to write; by default envs/NAME.yaml.")
NAME = typer.Option("--name", help="Name of the environment.")
PYTHON = typer.Option("--python", help="Python version.")
PYTORCH = typer.Option("--pytorch", help="PyTorch version.")
CUDA = typer.Option("--cuda", help="CUDA version that the machines' driver supports, or none.")
EXTRA = typer.Option("--extra", "-e", help="An extra; may be given several times.")
PLATFORM = typer.Option("--platform", "-p", help="A platform; may be given several times.")
FORCE = typer.Option("--force", help="Replace the file if it is there.")


def init(
    file: Annotated[Path | None, FILE] = None,
    name: Annotated[str | None, NAME] = None,
    python: Annotated[str | None, PYTHON] = None,
    pytorch: Annotated[str | None, PYTORCH] = None,
    cuda: Annotated[str | None, CUDA] = None,
    extra: Annotated[list[str] | None, EXTRA] = None,
    platform: Annotated[list[str] | None, PLATFORM] = None,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Write a commented spec to start from. Asks for what is not given where a person is there to answer."""
    from lockgen.output import write_all
    from lockgen.spec import starter

    given = {"name": name, "python": python, "pytorch": pytorch, "cuda": cuda}
    answers = _asked(given) if sys.stdin.isatty() else given
    chosen = starter.Start(
        **{key: value for key, value in answers.items() if value is not None},
        extras=tuple(extra or starter.EXTRAS),
        platforms=tuple(platform or starter.PLATFORMS),
    )
    text = starter.text(chosen)
    path = file or Path("envs") / f"{chosen.name}.yaml"
    _check(text, path)
    if not force:
        _refuse_to_replace(path)
    write_all(path.parent, {path.name: text})
    typer.echo(f"wrote {path}\nnext: lockgen resolve {path}", err=True)


def _check(text: str, path: Path) -> None:
    """The answers make a spec that can be read; what is wrong with them has no place, as there is no file yet."""
    from lockgen.errors import Problem, SpecError, UsageError
    from lockgen.spec.parse import load

    try:
        load(path, lambda asked: text.encode() if asked == path else asked.read_bytes())
    except SpecError as error:
        raise UsageError(*(Problem(message=one.message, hint=one.hint) for one in error.problems)) from None


def _refuse_to_replace(path: Path) -> None:
    from lockgen.errors import Problem, UsageError

    if os.path.lexists(path):
        raise UsageError(Problem(message=f"{path} is there already", hint="`--force` replaces it"))


def _asked(given: dict[str, str | None]) -> dict[str, str | None]:
    from lockgen.spec import starter

    return {
        key: value if value is not None else typer.prompt(question, default=starter.DEFAULTS[key], err=True)
        for (key, value), question in zip(given.items(), starter.QUESTIONS, strict=True)
    }
