"""Environment variables that an image sets because of what is in its lock."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import facts
from lockgen.knowledge.versions import is_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable, and for which package it is set."""

    name: str
    value: str
    package: str
    below: str | None
    """Versions of the package below this one; None: all."""
    cuda: bool
    """Only where CUDA is in the lock."""
    instead_of: tuple[str, ...]
    """It is left out where the spec sets one of these."""
    reason: str

    def is_for(self, version: str | None, *, cuda: bool) -> bool:
        """Whether it is set for this version of the package, None where the lock has none."""
        return version is not None and (cuda or not self.cuda) and is_within(version, None, self.below)


@functools.cache
def variables() -> tuple[Variable, ...]:
    """All rows, in the order of the file."""
    return tuple(
        Variable(
            name=row.text("name"),
            value=row.text("value"),
            package=row.text("package"),
            below=row.text_or_none("below"),
            cuda=row.flag("cuda"),
            instead_of=row.texts("instead_of"),
            reason=row.text("reason"),
        )
        for row in facts("image_env.toml").tables("variable")
    )
