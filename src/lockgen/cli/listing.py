"""`lockgen list`: a lock as a table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Column(StrEnum):
    """What a list can be sorted by."""

    NAME = "name"
    VERSION = "version"
    BUILD = "build"
    CHANNEL = "channel"
    SIZE = "size"


LOCK = typer.Argument(metavar="LOCK", help="A lock, its folder or its spec; by default the only lock here.")
SORT = typer.Option("--sort", "-s", help="Column to sort by: versions oldest first, sizes largest first.")
PLATFORM = typer.Option("--platform", "-p", metavar="NAME", help="One platform only.")
VARIANT = typer.Option("--variant", metavar="NAME", help="One variant only.")
JSON = typer.Option("--json", help="Print the packages as JSON.")


def listing(
    lock: Annotated[Path | None, LOCK] = None,
    sort: Annotated[Column, SORT] = Column.NAME,
    platform: Annotated[str | None, PLATFORM] = None,
    variant: Annotated[str | None, VARIANT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """List the packages of a lock. A table of name, version, build, channel and size."""
    from lockgen.cli.files import find_locks, selected
    from lockgen.report import text, value

    locks = selected(find_locks(lock), platform, variant)
    if as_json:
        typer.echo(value.locks(locks))
        return
    console = text.console(stderr=False)
    pairs = [(one, answer) for one in locks for answer in one.platforms]
    for position, (one, answer) in enumerate(pairs):
        between = [""] if position else []
        text.show(console, *between, text.packages(answer, sort.value), "", text.totals(one, answer))
