"""Modules that packages bring and that are not meant to be imported by themselves."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import facts


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedImport:
    """Modules that need not import, and why."""

    module: str
    """Glob of the dotted name."""
    reason: str


@functools.cache
def skipped_imports() -> tuple[SkippedImport, ...]:
    """All of them, in the order of the file."""
    rows = facts("imports.toml").tables("skip")
    return tuple(SkippedImport(module=row.text("module"), reason=row.text("reason")) for row in rows)
