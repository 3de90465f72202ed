"""pixi.lock of every version that rattler reads, as plain values."""

from __future__ import annotations

from pathlib import Path

from rattler import CondaLockedSourcePackage, Environment, LockFile, LockPlatform, RepoDataRecord
from rattler.exceptions import ParseCondaLockError

from lockgen.channels import package
from lockgen.errors import LockError, Problem
from lockgen.lock.codecs._shared import url_parts
from lockgen.lock.foreign import Part
from lockgen.lock.model import LockedPackage


def read(path: Path) -> tuple[Part, ...]:
    """
    All parts of a pixi.lock, `default` first, then by name.

    Raises:
        LockError: rattler cannot read the file.
    """
    try:
        found = LockFile.from_path(path).environments()
    except (ParseCondaLockError, OSError, ValueError) as error:
        hint = "is it written by a newer pixi? `pixi lock` of an older one writes an older version"
        raise LockError(Problem(message=f"cannot read {path}", detail=str(error).strip(), hint=hint)) from None
    ordered = sorted(found, key=lambda pair: (pair[0] != "default", pair[0]))
    return tuple(_part(name, one, row) for name, one in ordered for row in sorted(one.platforms(), key=_name))


def _name(row: LockPlatform) -> str:
    return row.name


def _part(name: str, environment: Environment, row: LockPlatform) -> Part:
    try:
        records = environment.conda_repodata_records_for_platform(row) or []
    except Exception as error:  # rattler's own kind of error is not exported
        message = f"environment `{name}` for {row.name} cannot be installed from this lock"
        raise LockError(Problem(message=message, detail=str(error).strip())) from None
    pypi = environment.pypi_packages_for_platform(row) or []
    source = [one for one in environment.packages(row) or [] if isinstance(one, CondaLockedSourcePackage)]
    return Part(
        environment=name,
        platform=str(row.subdir),
        row=row.name,
        packages=tuple(sorted((_package(record) for record in records), key=lambda one: one.name)),
        pypi=tuple(sorted({one.name for one in pypi})),
        source=tuple(sorted({one.name for one in source})),
    )


def _package(record: RepoDataRecord) -> LockedPackage:
    if record.channel is None:  # a package in a folder, without a line for its channel
        record.channel = url_parts(record.url).channel
    return package(record)
