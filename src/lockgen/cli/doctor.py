"""`lockgen doctor`: what this machine can run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LOCK = typer.Argument(help="A lock to ask about: a file of any format, a folder, or a spec.")
ENVIRONMENT = typer.Option("--environment", "-e", help="Environment or variant; by default all.")
JSON = typer.Option("--json", help="Print the answer as JSON.")


def doctor(
    lock: Annotated[Path | None, LOCK] = None,
    environment: Annotated[str | None, ENVIRONMENT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Say what this machine can run. With a lock: whether it runs here, and what else would do; exit 1 if not."""
    from lockgen.cli.targets import find_parts
    from lockgen.host import read_host
    from lockgen.install.cache import cache_folder
    from lockgen.install.host_check import Judged, judged
    from lockgen.report import machine, text

    host = read_host({"here": Path(), "cache": cache_folder()})
    file: str | None = None
    verdicts: Judged = ()
    if lock is not None:
        parts, file = find_parts(lock, host.platform)
        verdicts = judged(parts, host, environment, file)
    if as_json:
        typer.echo(machine.as_json(host, file, verdicts))
    else:
        text.show(text.console(stderr=False), machine.screen(host, file, verdicts))
    if lock is not None and not any(verdict.runs for _, verdict in verdicts):
        raise typer.Exit(1)
