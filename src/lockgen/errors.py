"""What a user is told when something is wrong: where, what, and what to do next."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A place in a text file; `line` and `column` count from 1, `width` is how many characters to underline."""

    file: str
    line: int
    column: int
    text: str = ""
    """The whole line, without its end."""
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. The message is lower case without a full stop; the hint says what to do next."""

    message: str
    where: Where | None = None
    hint: str | None = None
    detail: str | None = None
    """More lines to show as they are: a solver's tree, a table of choices."""

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.where and self.where.text:
            lines += _underlined(self.where)
        if self.detail:
            lines += [f"  {line}".rstrip() for line in self.detail.splitlines()]
        if self.hint:
            first, *rest = self.hint.splitlines()
            lines += [f"  hint: {first}", *(f"        {line}".rstrip() for line in rest)]
        return "\n".join(lines)


def closest(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known word, if one is near; case does not count."""
    import difflib

    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), list(by_lower), 1, 0.6)
    return f"did you mean `{by_lower[near[0]]}`?" if near else None


WIDTH = 100
"""Characters of a line that are shown; a longer one is cut to the part around the mark."""


def _underlined(where: Where) -> list[str]:
    """The line in question and a row of `^` below the part that is meant; tabs shown as one space."""
    gutter = str(where.line)
    text = where.text.expandtabs(1)
    start = where.column - 1
    width = max(1, min(where.width, len(text) - start))
    left = max(0, min(start - WIDTH // 3, len(text) - WIDTH))
    shown = text[left : left + WIDTH]
    before, after = "…" if left else "", "…" if left + WIDTH < len(text) else ""
    blank = " " * (len(before) + _columns(text[left:start]))
    mark = "^" * _columns(text[start : min(start + width, left + WIDTH)] or " ")
    return [f"  {gutter} | {before}{shown}{after}", f"  {' ' * len(gutter)} | {blank}{mark}"]


def _columns(text: str) -> int:
    """How many columns a terminal gives to a text: Chinese characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


class LockgenError(Exception):
    """A mistake that is the user's to mend, or a state of the world; anything else is a bug and shows a traceback."""

    exit_code = 2

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n\n".join(str(problem) for problem in problems))


class SpecError(LockgenError):
    """The spec cannot be read."""


class PlanError(LockgenError):
    """The spec can be read, but what it asks for contradicts itself or the facts."""


class ChannelError(LockgenError):
    """A channel's metadata cannot be had."""


class Unsolvable(LockgenError):
    """No set of packages answers the request."""


class AnswerError(LockgenError):
    """The solver gave an answer that is not what was asked for."""


class LockError(LockgenError):
    """A lock file cannot be read or written."""


class UsageError(LockgenError):
    """A command was called with arguments that do not go together."""


def error_from(kind: type[LockgenError], problems: Iterable[Problem]) -> None:
    """Raise one error with all problems, if there are any."""
    found = tuple(problems)
    if found:
        raise kind(*found)
