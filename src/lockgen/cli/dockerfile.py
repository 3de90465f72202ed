"""`lockgen dockerfile`: a Dockerfile with everything that its build needs, from a lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockgen.image.model import ImagePlan
    from lockgen.lock.model import Lock

LOCK = typer.Argument(metavar="LOCK", help="A lock, its folder or its spec; by default the only lock here.")
SPEC = typer.Option("--spec", metavar="FILE", help="The spec with the image's keys; by default the one beside LOCK.")
INSTALLER = typer.Option(
    "--installer", metavar="NAME", help="What installs the lock: micromamba, pixi, conda-lock or lockgen."
)
OUTPUT = typer.Option("--output", "-o", metavar="FOLDER", help="Where to write; by default the folder of the lock.")
BASE = typer.Option("--base", metavar="NAME", help="Base image: a known name, or a reference with its digest.")
FORCE_BASE = typer.Option("--force-base", help="Also take a base that carries a CUDA of its own.")
LAYERS = typer.Option("--layers", metavar="N", help="Most layers of packages; by default 24.")


def dockerfile(
    lock: Annotated[Path | None, LOCK] = None,
    spec: Annotated[Path | None, SPEC] = None,
    installer: Annotated[str, INSTALLER] = "micromamba",
    output: Annotated[Path | None, OUTPUT] = None,
    base: Annotated[str | None, BASE] = None,
    force_base: Annotated[bool, FORCE_BASE] = False,
    layers: Annotated[int | None, LAYERS] = None,
) -> None:
    """Write a Dockerfile. With its build context, compose.yaml, .dockerignore and a dev container."""
    from lockgen.cli.files import refuse_foreign
    from lockgen.cli.images import find_plans, options
    from lockgen.output import write_all

    _refuse_unknown(installer)
    found = find_plans(lock, spec, options(base=base, budget=layers, force_base=force_base))
    plans: dict[str | None, list[ImagePlan]] = {}
    for one, _, plan in found:
        plans.setdefault(one.variant, []).append(plan)
    locks = tuple({one.variant: one for one, _, _ in found}.values())
    folder = output or _folder(lock)
    files = _files(locks, plans, folder, installer)
    refuse_foreign(folder, files)
    written = write_all(folder, files)
    _tell(folder, locks, [plan for each in plans.values() for plan in each], written, len(files))


def _refuse_unknown(installer: str) -> None:
    from lockgen.errors import Problem, UsageError, closest
    from lockgen.image.dockerfile import INSTALLERS

    if installer not in INSTALLERS:
        hint = closest(installer, INSTALLERS) or f"known: {', '.join(INSTALLERS)}"
        raise UsageError(Problem(message=f"unknown installer: `{installer}`", hint=hint))


def _folder(named: Path | None) -> Path:
    """The folder that the lock lies in."""
    from lockgen.cli.files import folder_of, only_folder

    if named is None:
        return only_folder()
    if named.is_dir():
        return named
    return named.parent if named.name.startswith("conda-lock") else folder_of(named)


def _files(
    locks: Sequence[Lock], plans: dict[str | None, list[ImagePlan]], folder: Path, installer: str
) -> dict[str, str]:
    """All files by path; the lock files that the installer reads are among them."""
    from lockgen.artefacts import pixi_version
    from lockgen.image.beside import beside, ignored
    from lockgen.image.dockerfile import Build, lock_files, render
    from lockgen.lock.registry import dump_all

    formats = {
        "micromamba": ["explicit"],
        "pixi": ["pixi-toml", f"pixi-v{pixi_version(folder)}"],
        "conda-lock": ["conda-lock-v1"],
        "lockgen": ["conda-lock-v1"],
    }
    needed = {name for lock in locks for name in lock_files(lock, installer)}
    files = {name: text for name, text in dump_all(tuple(locks), formats[installer]).items() if name in needed}
    build = Build(installer=installer, version=_version() if installer == "lockgen" else None)
    for lock in locks:
        files |= render(lock, plans[lock.variant], build) | beside(lock, plans[lock.variant][0])
    return files | {".dockerignore": ignored(locks, needed)}


def _version() -> str | None:
    """The version of lockgen that is installed, None where it runs from its source alone."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lockgen")
    except PackageNotFoundError:
        return None


def _tell(folder: Path, locks: Sequence[Lock], plans: Sequence[ImagePlan], written: Sequence[str], count: int) -> None:
    """What was written, and how it is built."""
    import shlex

    from lockgen.image.beside import image_name
    from lockgen.lock.codec import suffixed

    for note in dict.fromkeys(note for plan in plans for note in plan.notes):
        typer.echo(f"note: {note}", err=True)
    names = ", ".join(dict.fromkeys(one.split("/")[0] + ("/" if "/" in one else "") for one in sorted(written)))
    typer.echo(f"wrote {folder}: {names}" if written else f"{folder} is right already: {count} files", err=True)
    for lock in locks:
        name = suffixed("Dockerfile", lock)
        file = "" if name == "Dockerfile" else f" -f {shlex.quote(str(folder / name))}"
        typer.echo(f"build it: docker build -t {image_name(lock)}{file} {shlex.quote(str(folder))}", err=True)
