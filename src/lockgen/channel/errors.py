"""What can go wrong while a channel is built: the stage's own error, and faults that have no place in a file."""

from __future__ import annotations

from lockgen.errors import LockgenError, Problem


class BuildError(LockgenError):
    """A package of the channel cannot be made from what the recipe names."""


class RecipeError(LockgenError):
    """The recipe of a channel cannot be read."""


def broken(message: str, hint: str | None = None, detail: str | None = None) -> BuildError:
    """An error that no line of the recipe is to blame for."""
    return BuildError(Problem(message=message, hint=hint, detail=detail))
