"""Shared libraries: what comes from the system, what may be there once only, which package names a version."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import Table, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLibraries:
    """Libraries that an environment may take from the system."""

    name: str
    files: tuple[str, ...]
    """Globs of file names."""
    always: bool
    """Also where a package of the environment has one of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceOnly:
    """A runtime of which one process may hold one file only."""

    title: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A shared object that needs what need not be there."""

    object: str
    """Glob of its path in the environment."""
    needs: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSource:
    """The packages, one of which says what version a library will report."""

    name: str
    packages: tuple[str, ...]


@functools.cache
def system_libraries() -> tuple[SystemLibraries, ...]:
    """Libraries of the system, in the order of the file."""
    rows = facts("libraries.toml").tables("system")
    return tuple(
        SystemLibraries(name=row.text("name"), files=row.texts("files"), always=row.flag("always")) for row in rows
    )


@functools.cache
def once_only() -> tuple[OnceOnly, ...]:
    """Runtimes of which there may be one."""
    rows = facts("libraries.toml").tables("once")
    return tuple(OnceOnly(title=row.text("title"), files=row.texts("files")) for row in rows)


@functools.cache
def absent_libraries() -> tuple[Absent, ...]:
    """Shared objects that need what need not be there."""
    rows = facts("libraries.toml").tables("absent")
    return tuple(Absent(object=row.text("object"), needs=row.text("needs"), reason=row.text("reason")) for row in rows)


@functools.cache
def version_sources() -> tuple[VersionSource, ...]:
    """Which package says what version a library will report."""
    rows: tuple[Table, ...] = facts("libraries.toml").tables("version")
    return tuple(VersionSource(name=row.text("name"), packages=row.texts("packages")) for row in rows)
