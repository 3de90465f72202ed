"""What several formats need: one order for everything, and how a package's URL is made up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from lockgen import matchspec
from lockgen.lock.model import Lock, LockedPackage, PlatformLock


class UrlParts(NamedTuple):
    """A package's URL, taken apart."""

    channel: str
    subdir: str
    filename: str


def environment_name(lock: Lock) -> str:
    """The name to install under: that of the spec, and of the variant."""
    return lock.name if lock.variant is None else f"{lock.name}-{lock.variant}"


def url_parts(url: str) -> UrlParts:
    """Channel, subdir and file name; empty where the URL has too few parts."""
    rest, _, filename = url.rpartition("/")
    channel, _, subdir = rest.rpartition("/")
    return UrlParts(channel, subdir, filename)


def build_in(filename: str, name: str, version: str) -> str | None:
    """The build string in `name-version-build.conda`, None where the file is not named so."""
    stem = filename.removesuffix(".conda").removesuffix(".tar.bz2")
    start = f"{name}-{version}-"
    return stem[len(start) :] if stem.startswith(start) else None


def ordered(lock: Lock) -> Lock:
    """The same lock with platforms and packages in their one order; the lock itself where they are already."""
    platforms = tuple(_ordered_platform(each) for each in sorted(lock.platforms, key=lambda each: each.platform))
    same = len(platforms) == len(lock.platforms) and all(map(lambda a, b: a is b, platforms, lock.platforms))
    return lock if same else dataclasses.replace(lock, platforms=platforms)


def _ordered_platform(answer: PlatformLock) -> PlatformLock:
    """The same answer with its packages by name."""
    if all(before.name <= after.name for before, after in pairwise(answer.packages)):
        return answer
    return dataclasses.replace(answer, packages=tuple(sorted(answer.packages, key=lambda package: package.name)))


def dependencies_first(packages: Sequence[LockedPackage]) -> list[LockedPackage]:
    """Every package after those it depends on, otherwise by name; a cycle is entered at its first name."""
    by_name = {package.name: package for package in sorted(packages, key=lambda package: package.name)}
    done: dict[str, LockedPackage] = {}
    entered: set[str] = set()
    for root in by_name:
        stack = [root]
        while stack:
            name = stack[-1]
            if name in entered:
                stack.pop()
                done.setdefault(name, by_name[name])
                continue
            entered.add(name)
            needed = sorted({matchspec.name_of(spec) for spec in by_name[name].depends}, reverse=True)
            stack += [each for each in needed if each in by_name and each not in entered]
    return list(done.values())


def joined(first: str, second: str) -> str:
    """`* *_llvm` and `>=4.5` → `>=4.5 *_llvm`: all versions, and the first build that is asked for."""
    words = [text.split() for text in (first, second)]
    versions = list(dict.fromkeys(word[0] for word in words if word and word[0] != "*"))
    if len(versions) > 1:
        versions = [f"({version})" if "|" in version else version for version in versions]
    builds = [word[1] for word in words if len(word) > 1]
    return " ".join([",".join(versions) or "*", *builds[:1]]) if versions or builds else ""


def environments(locks: tuple[Lock, ...]) -> dict[str, Lock]:
    """Name → lock, sorted by name; `default` is the first lock, under its own name too where it is a variant."""
    named = {lock.environment: lock for lock in locks}
    if locks:
        named.setdefault("default", locks[0])
    return dict(sorted(named.items()))
