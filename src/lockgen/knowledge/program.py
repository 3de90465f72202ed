"""Programs that an image starts: which conda package brings one, and what a base's distribution calls it."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import Table, facts

FILE = "programs.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemProgram:
    """A program as a base's own distribution has it."""

    families: tuple[str, ...]
    """Distributions: `debian`, `ubuntu`."""
    package: str
    path: str
    """Absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program, and where it comes from."""

    name: str
    role: str
    """`init`, `supervisor` or `service`."""
    conda: str
    """The conda package."""
    path: str
    """Below the prefix."""
    system: SystemProgram | None
    """None: it comes from the lock or not at all."""
    source: str
    checked: datetime.date


@functools.cache
def programs() -> tuple[Program, ...]:
    """All programs; of one role the one to prefer first."""
    return tuple(_program(row) for row in facts(FILE).tables("program"))


def program(name: str) -> Program | None:
    """The program of this name, None for an unknown one."""
    return next((row for row in programs() if row.name == name), None)


def _program(row: Table) -> Program:
    return Program(
        name=row.text("name"),
        role=row.text("role"),
        conda=row.text("conda"),
        path=row.text("path"),
        system=_system(row) if "package" in row.values else None,
        source=row.text("source"),
        checked=row.date("checked"),
    )


def _system(row: Table) -> SystemProgram:
    return SystemProgram(families=row.texts("families"), package=row.text("package"), path=row.text("system_path"))
