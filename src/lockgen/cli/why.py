"""`lockgen why`: the chain from the spec to a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PACKAGE = typer.Argument(help="Name of a package.")
LOCK = typer.Argument(help="A lock, its folder or its spec; by default the only lock here.")


def why(package: Annotated[str, PACKAGE], lock: Annotated[Path | None, LOCK] = None) -> None:
    """Show why PACKAGE is in LOCK: the chain from each line of the spec that leads to it. Exit 1 if it is not in."""
    from lockgen.cli.files import find_locks
    from lockgen.lock.why import needed_by
    from lockgen.lock.why import why as chains_to
    from lockgen.report import text

    name = package.lower()
    console = text.console(stderr=False)
    answers = [answer for one in find_locks(lock) for answer in one.platforms]
    found = [answer for answer in answers if any(each.name == name for each in answer.packages)]
    for answer in found:
        console.print(text.chains(answer, name, chains_to(answer, name), needed_by(answer, name)))
    if not found:
        near = text.nearest(name, answers)
        typer.echo(f"`{package}` is not in the lock{near}", err=True)
        raise typer.Exit(1)
