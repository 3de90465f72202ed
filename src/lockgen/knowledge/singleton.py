"""Things of which an environment may hold one only: an OpenMP runtime, a BLAS, a set of CUDA libraries."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lockgen.knowledge.reader import Table, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A package whose presence means that a provider is there."""

    name: str
    build: str
    """Glob of the build string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingletonProvider:
    """One of the things that a group has choices of."""

    name: str
    members: tuple[Member, ...]
    platforms: tuple[str, ...] | None
    """Where it counts; None: everywhere."""
    steer: str | None
    """Match spec that, as a constraint, makes the solver take this one."""
    steer_platforms: tuple[str, ...] | None
    """Where `steer` can be met; None: everywhere."""

    def packages_in(self, packages: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Names of the packages that bring this provider; `packages` are pairs of name and build string."""
        found = (name for name, build in packages if any(_is_member(one, name, build) for one in self.members))
        return tuple(sorted(found))

    def steer_on(self, platform: str) -> str | None:
        """The constraint that steers to this provider on a platform, if there is one."""
        here = self.steer_platforms is None or platform in self.steer_platforms
        return self.steer if here else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SingletonGroup:
    """A choice that may be made only once."""

    name: str
    title: str
    """For a sentence: `OpenMP runtime`."""
    reason: str
    providers: tuple[SingletonProvider, ...]
    """The one to keep first."""
    source: str
    checked: datetime.date

    def present(self, packages: Iterable[tuple[str, str]], platform: str) -> tuple[SingletonProvider, ...]:
        """Providers that are there, the one to keep first; more than one is a fault."""
        pairs = tuple(packages)
        return tuple(
            row
            for row in self.providers
            if (row.platforms is None or platform in row.platforms) and row.packages_in(pairs)
        )


@functools.cache
def singleton_groups() -> tuple[SingletonGroup, ...]:
    """All groups, in the order of the file."""
    return tuple(_group(row) for row in facts("singletons.toml").tables("group"))


def _is_member(member: Member, name: str, build: str) -> bool:
    return member.name == name and fnmatchcase(build, member.build)


def _group(row: Table) -> SingletonGroup:
    return SingletonGroup(
        name=row.text("name"),
        title=row.text("title"),
        reason=row.text("reason"),
        providers=tuple(_provider(one) for one in row.tables("provider")),
        source=row.text("source"),
        checked=row.date("checked"),
    )


def _provider(row: Table) -> SingletonProvider:
    return SingletonProvider(
        name=row.text("name"),
        members=tuple(
            Member(name=one.text("name"), build=one.text_or_none("build") or "*") for one in row.tables("packages")
        ),
        platforms=row.texts_or_none("platforms"),
        steer=row.text_or_none("steer"),
        steer_platforms=row.texts_or_none("steer_platforms"),
    )
