"""What is to be installed: one environment of a lock, of any format, for one platform."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lockgen.errors import LockError, Problem, UsageError
from lockgen.lock import foreign
from lockgen.lock.foreign import Part
from lockgen.lock.model import Lock, LockedPackage
from lockgen.lock.registry import codec

_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The packages that a prefix is to hold, and where that is written."""

    file: str
    """The lock, as it was named."""
    environment: str
    platform: str
    packages: tuple[LockedPackage, ...]
    """Sorted by name."""
    requested: tuple[str, ...] = ()
    """Match specs that the user asked for, where the lock holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which part of a lock is meant, and what may be missing in it."""

    platform: str
    """The platform to install for."""
    environment: str | None = None
    """None: the only one, else `default`."""
    conda_only: bool = False
    """Leave out what is not conda's."""
    hashless: bool = False
    """Take packages without a hash."""


def parts_of_locks(locks: Sequence[Lock]) -> tuple[Part, ...]:
    """The parts of locks that lockgen wrote."""
    return tuple(
        Part(
            environment=lock.environment,
            platform=answer.platform,
            packages=answer.packages,
            requested=tuple(wanted.spec for wanted in answer.request.requirements),
            channels=answer.request.channels,
        )
        for lock in locks
        for answer in lock.platforms
    )


def parts_of_file(path: Path, text: str, platform: str) -> tuple[Part, ...] | None:
    """
    The parts of a lock file of any format; None for a text that is no lock.

    Args:
        path: the file.
        text: what it holds.
        platform: for an explicit file that names none.

    Raises:
        LockError: it looks like a lock, and cannot be read.
    """
    if foreign.is_explicit(text):
        return foreign.explicit(text, str(path), platform)
    if _has(text, "environments") and _has(text, "packages"):
        from lockgen.install import pixi_lock

        return pixi_lock.read(path)
    if not (_has(text, "metadata") and _has(text, "package")):
        return None
    if re.search(r"^\s+['\"]?lockgen\.format", text, re.MULTILINE):
        load = codec("conda-lock-v1").load
        assert load is not None
        return parts_of_locks(load(text, str(path)))
    content = foreign.document(text, str(path))
    return foreign.conda_lock(content, str(path)) if foreign.is_conda_lock(content) else None


def _has(text: str, key: str) -> bool:
    return re.search(rf"^['\"]?{key}['\"]?\s*:", text, re.MULTILINE) is not None


def choose(parts: Sequence[Part], choice: Choice, file: str) -> Target:
    """
    The part that is meant.

    Raises:
        UsageError: there are several environments and none was named, or the named one is not there.
        LockError: there is none for the platform, or it holds what cannot be installed.
    """
    named = [part for part in parts if part.environment == _environment(parts, choice, file)]
    fitting = [part for part in named if choice.platform in (part.row, part.platform)]
    if not fitting:
        listed = ", ".join(dict.fromkeys(part.platform for part in named))
        raise LockError(
            Problem(
                message=f"{file} has nothing for {choice.platform}: it is for {listed or 'no platform'}",
                hint=f"to lock it for this one too, add `{choice.platform}` to `platforms` of its spec",
            )
        )
    part = min(fitting, key=lambda one: one.row not in ("", choice.platform))
    problems = [*_not_conda(part, choice, file), *_without_hash(part, choice, file)]
    if problems:
        raise LockError(*problems)
    return Target(
        file=file,
        environment=part.environment,
        platform=part.platform,
        packages=part.packages,
        requested=part.requested,
    )


def _environment(parts: Sequence[Part], choice: Choice, file: str) -> str:
    names = list(dict.fromkeys(part.environment for part in parts))
    listed = ", ".join(names) or "none"
    if choice.environment is not None:
        if choice.environment not in names:
            raise UsageError(Problem(message=f"{file} has no environment `{choice.environment}`: it has {listed}"))
        return choice.environment
    if len(names) == 1 or foreign.DEFAULT in names:
        return foreign.DEFAULT if foreign.DEFAULT in names else names[0]
    raise UsageError(Problem(message=f"{file} holds several environments", hint=f"`-e` names one of: {listed}"))


def _not_conda(part: Part, choice: Choice, file: str) -> list[Problem]:
    """Packages that only another tool can install: they are never left out silently."""
    problems = []
    for names, what in ((part.pypi, "of a Python index"), (part.source, "to build from source")):
        if names and not choice.conda_only:
            count = f"{len(names)} package{'s' if len(names) > 1 else ''}"
            hint = "install it with the tool that wrote it, or with `--conda-only`, which leaves them out"
            problems.append(Problem(message=f"{file} holds {count} {what}: {shortened(names)}", hint=hint))
    return problems


def _without_hash(part: Part, choice: Choice, file: str) -> list[Problem]:
    names = [package.name for package in part.packages if not package.sha256 and not package.md5]
    if not names or choice.hashless:
        return []
    hint = "lock it again with hashes, or take what the server gives with `--no-hashes`"
    return [Problem(message=f"{file} has no hash for {shortened(names)}", hint=hint)]


def shortened(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
