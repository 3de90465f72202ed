"""`lockgen install`: an environment from a lock."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lockgen.install.progress import Progress
    from lockgen.install.run import Result

LOCK = typer.Argument(
    help="conda-lock.yml, pixi.lock, an explicit file, a folder, or a spec; by default the only lock here."
)
PREFIX = typer.Option("--prefix", "-p", help="Folder of the environment; made, or changed to what the lock says.")
ENVIRONMENT = typer.Option("--environment", "-e", help="Environment or variant; by default the only one or `default`.")
PLATFORM = typer.Option("--platform", help="Platform to install for; by default this machine's.")
NO_HOST_CHECK = typer.Option(
    "--no-host-check", help="Install what this machine cannot run, as for an image built without a GPU."
)
VERIFY = typer.Option("--verify-cache", help="Hash what lies in the cache; fetch and install again what was changed.")
COMPILE = typer.Option("--compile", help="Byte-compile Python packages, one process a core.")
CONDA_ONLY = typer.Option("--conda-only", help="Leave out packages that are not conda's.")
NO_HASHES = typer.Option("--no-hashes", help="Take packages for which the lock has no hash.")
TIMEOUT = typer.Option("--timeout", min=1, help="Seconds without a byte after which a download is tried again.")
QUIET = typer.Option("--quiet", "-q", help="Tell nothing but errors.")


def install(
    prefix: Annotated[Path, PREFIX],
    lock: Annotated[Path | None, LOCK] = None,
    environment: Annotated[str | None, ENVIRONMENT] = None,
    platform: Annotated[str | None, PLATFORM] = None,
    no_host_check: Annotated[bool, NO_HOST_CHECK] = False,
    verify_cache: Annotated[bool, VERIFY] = False,
    compile_python: Annotated[bool, COMPILE] = False,
    conda_only: Annotated[bool, CONDA_ONLY] = False,
    no_hashes: Annotated[bool, NO_HASHES] = False,
    timeout: Annotated[float, TIMEOUT] = 60,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Make the environment that a lock describes. What the lock does not list is removed from it."""
    from lockgen.cli.targets import find_parts
    from lockgen.host import here
    from lockgen.install.run import Options, install
    from lockgen.install.target import Choice, choose

    started = time.monotonic()
    wanted = platform or here()
    parts, file = find_parts(lock, wanted)
    choice = Choice(platform=wanted, environment=environment, conda_only=conda_only, hashless=no_hashes)
    options = Options(host_check=not no_host_check, verify_cache=verify_cache, compile=compile_python, patience=timeout)
    result = install(choose(parts, choice, file), prefix, options, _progress(quiet))
    if not quiet:
        for line in _told(result, prefix, time.monotonic() - started):
            typer.echo(line, err=True)


def _progress(quiet: bool) -> Progress:
    from lockgen.install.progress import Bars, Lines, Quiet

    if quiet:
        return Quiet()
    import sys

    if not sys.stderr.isatty():
        return Lines(lambda text: typer.echo(text, err=True), _size)
    from lockgen.report import text

    return Bars(text.console(stderr=True))


def _size(count: int) -> str:
    from lockgen.report import text

    return text.size(count)


def _told(result: Result, named: Path, seconds: float) -> list[str]:
    """What was done, in a line or two."""
    from lockgen.install.target import shortened

    if not (result.linked or result.removed or result.mended or result.compiled):
        return [f"{named} is right already: {result.packages} packages"]
    done = [f"installed {result.linked} of {result.packages} packages"] if result.linked else []
    if result.removed:
        done.append(f"removed {shortened(result.removed)}")
    if result.compiled:
        done.append("compiled")
    lines = [f"{', '.join(done)} in {seconds:.1f} s: {named}"] if done else []
    if result.mended:
        lines.insert(0, f"was not as unpacked, installed again: {', '.join(result.mended)}")
    return [*lines, f"run a command in it: lockgen run -p {named} -- CMD"]
