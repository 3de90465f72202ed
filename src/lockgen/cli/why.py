"""`lockgen why`: the chain from the spec to a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PACKAGE = typer.Argument(metavar="PACKAGE", help="Name of a package.")
LOCK = typer.Argument(metavar="LOCK", help="A lock, its folder or its spec; by default the only lock here.")


def why(package: Annotated[str, PACKAGE], lock: Annotated[Path | None, LOCK] = None) -> None:
    """Show why a package is in a lock. Each chain starts at a line of the spec; exit 1 if it is not in."""
    from lockgen.cli.files import find_locks
    from lockgen.lock.why import needed_by
    from lockgen.lock.why import why as chains_to
    from lockgen.report import text

    name = package.lower()
    console = text.console(stderr=False)
    answers = [(one, answer) for one in find_locks(lock) for answer in one.platforms]
    found = [pair for pair in answers if any(each.name == name for each in pair[1].packages)]
    for one, answer in found:
        text.show(console, text.chains(one, answer, name, chains_to(answer, name), needed_by(answer, name)))
    if not found:
        near = text.nearest(name, [answer for _, answer in answers])
        typer.echo(f"`{package}` is not in the lock{near}", err=True)
        raise typer.Exit(1)
