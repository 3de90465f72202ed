"""`lockgen resolve`: solve a spec and write its locks."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lockgen.lock.model import Lock
    from lockgen.plan import Plan

SPEC = typer.Argument(help="The spec to resolve, a YAML file.")
OUTPUT = typer.Option("--output", "-o", help="Folder to write to; by default the spec's name beside it.")
OFFLINE = typer.Option("--offline", help="Solve against the conda-forge snapshot that comes with lockgen.")
SNAPSHOT = typer.Option(
    "--snapshot", envvar="LOCKGEN_SNAPSHOT", help="Solve against a folder CHANNEL/SUBDIR/repodata.json[.zst]."
)
CHECK = typer.Option("--check", help="Only say whether the files are current; exit 1 if not. No network.")
FROZEN = typer.Option(
    "--frozen", help="Keep the lock: fail if it does not answer the spec, else write the other files from it."
)
JSON = typer.Option("--json", help="Print the whole answer as JSON.")
PIXI = typer.Option(
    "--pixi-lock-version", min=6, max=7, help="Version of pixi.lock; by default that of the file there, else 7."
)


def resolve(
    spec: Annotated[Path, SPEC],
    output: Annotated[Path | None, OUTPUT] = None,
    offline: Annotated[bool, OFFLINE] = False,
    snapshot: Annotated[Path | None, SNAPSHOT] = None,
    check: Annotated[bool, CHECK] = False,
    frozen: Annotated[bool, FROZEN] = False,
    as_json: Annotated[bool, JSON] = False,
    pixi_lock_version: Annotated[int | None, PIXI] = None,
) -> None:
    """Solve SPEC for all its platforms and variants, check the answer, write the locks and say why."""
    from lockgen.cli.files import folder_of, read_locks
    from lockgen.plan import plan
    from lockgen.spec.parse import load

    planned = plan(load(spec))
    folder = output or folder_of(spec)
    if check or frozen:
        locks = read_locks(folder)
        _stop_if_stale(planned, locks, folder, pixi_lock_version, frozen=frozen)
    if check:
        return
    if not frozen:
        locks = _solved(planned, offline, snapshot)
    from lockgen.artefacts import pixi_version, render
    from lockgen.output import write_all

    version = pixi_lock_version or pixi_version(folder)
    files = render(planned, locks, version)
    changed = write_all(folder, files)
    _report(planned, locks, folder, files, changed, as_json=as_json)


def _solved(planned: Plan, offline: bool, snapshot: Path | None) -> tuple[Lock, ...]:
    from lockgen.channels import Channels, bundled_snapshot
    from lockgen.resolve import resolve as solve_all

    Thread(target=_import_writers, daemon=True).start()
    return solve_all(planned, Channels(snapshot=snapshot or (bundled_snapshot() if offline else None)))


def _import_writers() -> None:
    """Import what is needed after the solve while the solver, which needs no Python, is at work."""
    import lockgen.artefacts
    import lockgen.report.text  # noqa: F401


def _stop_if_stale(planned: Plan, locks: tuple[Lock, ...], folder: Path, version: int | None, *, frozen: bool) -> None:
    """Say what is not current, and leave; `--frozen` looks at the lock alone, since it writes the rest."""
    from lockgen.artefacts import pixi_version, stale_files
    from lockgen.errors import LockError, Problem
    from lockgen.lock.freshness import changes

    asked = {(one.target.variant, one.request.platform): one.request for one in planned.planned}
    found = changes(asked, locks)
    if not found and not frozen:
        found = stale_files(planned, locks, folder, version or pixi_version(folder))
    if not found:
        return
    if frozen:
        hint = "to solve again, run `lockgen resolve` without `--frozen`"
        raise LockError(
            Problem(message=f"the lock in {folder} does not answer {planned.file}", detail="\n".join(found), hint=hint)
        )
    for text in found:
        typer.echo(text, err=True)
    raise typer.Exit(1)


def _report(
    planned: Plan,
    locks: tuple[Lock, ...],
    folder: Path,
    files: dict[str, str],
    changed: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    if as_json:
        from lockgen.report.value import answer

        typer.echo(answer(planned, locks, sorted(files)))
        return
    from lockgen.report import text

    console = text.console(stderr=True)
    for note in planned.notes:
        console.print(text.note(note), soft_wrap=True)
    console.print(text.resolved(locks))
    console.print(text.next_steps(folder.as_posix(), locks, changed, len(files) - len(changed)))
