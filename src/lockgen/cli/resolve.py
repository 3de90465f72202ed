"""`lockgen resolve`: solve a spec and write its locks."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lockgen.lock.model import Lock
    from lockgen.plan import Plan

SPEC = typer.Argument(metavar="SPEC", help="The spec to resolve, a YAML file.")
OUTPUT = typer.Option("--output", "-o", metavar="FOLDER", help="Where to write; by default beside SPEC, by its name.")
OFFLINE = typer.Option("--offline", help="Solve against the conda-forge snapshot that comes with lockgen.")
SNAPSHOT = typer.Option(
    "--snapshot",
    envvar="LOCKGEN_SNAPSHOT",
    metavar="FOLDER",
    help="Solve against a folder CHANNEL/SUBDIR/repodata.json[.zst].",
)
CHECK = typer.Option("--check", help="Only say whether the files are current; exit 1 if not. No network.")
FROZEN = typer.Option(
    "--frozen", help="Keep the lock: fail if it does not answer the spec, else write the other files from it."
)
JSON = typer.Option("--json", help="Print the whole answer as JSON.")
PIXI = typer.Option(
    "--pixi-lock-version",
    metavar="6|7",
    help="Version of pixi.lock; by default that of the file there, else 7.",
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
    """Solve a spec and write its locks. All its platforms and variants; the answer is checked and explained."""
    from lockgen.cli.files import folder_of, read_locks, refuse_other_spec
    from lockgen.plan import plan
    from lockgen.spec.parse import load

    _refuse_misuse(spec, output, offline=offline, snapshot=snapshot, check=check, frozen=frozen)
    _refuse_version(pixi_lock_version)
    planned = plan(load(spec))
    folder = output or folder_of(spec)
    if check:
        where = f" -o {shlex.quote(str(output))}" if output else ""
        _say_whether_current(planned, folder, pixi_lock_version, f"{shlex.quote(planned.file)}{where}", as_json=as_json)
        return
    if output:
        refuse_other_spec(output, planned.name)
    if not as_json:
        _say_notes(planned)
    locks = _frozen(planned, read_locks(folder), folder) if frozen else _solved(planned, offline, snapshot)
    from lockgen.artefacts import pixi_version, render  # takes a while: the solver has had its time by now

    files = render(planned, locks, pixi_lock_version or pixi_version(folder))
    _write(planned, locks, folder, files, as_json=as_json)
    if offline and any(one.left_out for lock in locks for one in lock.platforms):
        typer.echo(
            "note: the metadata that comes with lockgen is a small sample: conda-forge may have what was left out",
            err=True,
        )


def _refuse_misuse(
    spec: Path, output: Path | None, *, offline: bool, snapshot: Path | None, check: bool, frozen: bool
) -> None:
    """Refuse options that contradict each other, and a URL for a folder without repeating it: it may hold a token."""
    from lockgen.errors import Problem, UsageError

    if snapshot is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(snapshot)):
        hint = "a snapshot is a folder CHANNEL/SUBDIR/repodata.json[.zst]; a URL belongs to `channels` of the spec"
        raise UsageError(Problem(message="`--snapshot` names a URL, not a folder", hint=hint))
    if offline and snapshot is not None:
        message = "`--offline` and `--snapshot` both say what to solve against"
        raise UsageError(Problem(message=message, hint="leave one out; `LOCKGEN_SNAPSHOT` counts as `--snapshot`"))
    if not spec.suffix and output is None and not spec.is_dir():
        message = f"{spec} has no ending, so its folder would have the same name"
        raise UsageError(Problem(message=message, hint="rename it to `NAME.yaml`, or name a folder with `-o`"))
    if check and frozen:
        message = "`--check` writes nothing, and `--frozen` writes files"
        raise UsageError(Problem(message=message, hint="leave one out"))


def _refuse_version(pixi_lock: int | None) -> None:
    from lockgen.errors import Problem, UsageError

    if pixi_lock not in (None, 6, 7):
        message = f"`--pixi-lock-version` is `{pixi_lock}`, expected `6` or `7`"
        raise UsageError(Problem(message=message, hint="leave it out to keep the version of the file there, else 7"))


def _say_notes(planned: Plan) -> None:
    """What was read otherwise than written, before the solve: a refusal is easier to understand after it."""
    if not planned.notes:
        return
    from lockgen.report import text

    console = text.console(stderr=True)
    for note in planned.notes:
        text.show(console, text.note(note), soft_wrap=True)


def _solved(planned: Plan, offline: bool, snapshot: Path | None) -> tuple[Lock, ...]:
    from lockgen.channels import Channels, bundled_snapshot
    from lockgen.resolve import resolve as solve_all

    Thread(target=_import_writers, daemon=True).start()
    return solve_all(planned, Channels(snapshot=snapshot or (bundled_snapshot() if offline else None)))


def _import_writers() -> None:
    """Import what is needed after the solve while the solver, which needs no Python, is at work."""
    import lockgen.artefacts
    import lockgen.report.text  # noqa: F401


def _say_whether_current(planned: Plan, folder: Path, version: int | None, again: str, *, as_json: bool) -> None:
    """Say what is not current, and leave with 1 if anything is not; `again` are the arguments that name it all."""
    from lockgen.cli.files import read_locks

    found = _changes(planned, locks := read_locks(folder), folder)
    kept = "" if found else "--frozen "
    if not found:
        from lockgen.artefacts import pixi_version, stale_files

        found = stale_files(planned, locks, folder, version or pixi_version(folder))
    if as_json:
        typer.echo(json.dumps({"current": not found, "changes": found}, indent=2, ensure_ascii=False))
    elif found:
        mend = f"not current: {folder}; to mend it, run `lockgen resolve {kept}{again}`"
        typer.echo("\n".join((*found, mend)), err=True)
    else:
        typer.echo(f"current: {folder}", err=True)
    if found:
        raise typer.Exit(1)


def _changes(planned: Plan, locks: tuple[Lock, ...], folder: Path) -> tuple[str, ...]:
    from lockgen.lock.freshness import changes

    if not locks:
        return (f"no lock in {folder}",)
    asked = {(one.target.variant, one.request.platform): one.request for one in planned.planned}
    return changes(asked, locks, planned.name)


def _frozen(planned: Plan, locks: tuple[Lock, ...], folder: Path) -> tuple[Lock, ...]:
    """The locks as they are, if they answer the spec."""
    from lockgen.errors import LockError, Problem

    found = _changes(planned, locks, folder)
    if not found:
        return locks
    hint = "to solve again, run `lockgen resolve` without `--frozen`"
    if not locks:
        raise LockError(Problem(message=found[0], hint=hint))
    message = f"the lock in {folder} does not answer {planned.file}"
    raise LockError(Problem(message=message, detail="\n".join(found), hint=hint))


def _write(planned: Plan, locks: tuple[Lock, ...], folder: Path, files: dict[str, str], *, as_json: bool) -> None:
    from lockgen.artefacts import refusals
    from lockgen.cli.files import leftovers, refuse_foreign
    from lockgen.output import write_all

    refuse_foreign(folder, files)
    removed = leftovers(folder, files)
    written = write_all(folder, files, removed)
    if as_json:
        from lockgen.report.value import answer

        typer.echo(answer(planned, locks, sorted(files)))
        return
    from lockgen.report import text
    from lockgen.spec.idioms import Note

    console = text.console(stderr=True)
    text.show(console, text.resolved(locks))
    unchanged = {*text.shortened_paths(files)} - {*text.shortened_paths(written)}
    text.show(console, text.next_steps(folder.as_posix(), locks, written, removed, len(unchanged)))
    if sum(name.startswith("Dockerfile") for name in files) < len(locks):
        for problem in refusals(planned, locks):
            text.show(console, text.note(Note(message=f"no Dockerfile: {problem.message}")), soft_wrap=True)
