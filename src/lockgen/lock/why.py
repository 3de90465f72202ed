"""Why a package is in a lock: the chain from a line of the spec to it. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from lockgen import matchspec
from lockgen.lock.model import PlatformLock
from lockgen.request import Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One way from the spec to a package."""

    requirement: Requirement
    links: tuple[tuple[str, str], ...]
    """From the requirement's package to the one in question: each name, and the match spec that asks for it."""


def why(lock: PlatformLock, name: str) -> tuple[Chain, ...]:
    """The shortest chain from each requirement that leads to a package, shortest first; empty for an absent one."""
    depends = {package.name: package.depends for package in lock.packages}
    if name not in depends:
        return ()
    chains = [chain for wanted in lock.request.requirements if (chain := _chain(depends, wanted, name))]
    return tuple(sorted(chains, key=lambda chain: (len(chain.links), chain.requirement.spec)))


def _chain(depends: dict[str, tuple[str, ...]], wanted: Requirement, name: str) -> Chain | None:
    start = matchspec.name_of(wanted.spec)
    paths: dict[str, tuple[tuple[str, str], ...]] = {start: ((start, wanted.spec),)}
    queue = deque([start] if start in depends else [])
    while queue:
        here = queue.popleft()
        if here == name:
            return Chain(requirement=wanted, links=paths[here])
        for spec in depends[here]:
            below = matchspec.name_of(spec)
            if below in depends and below not in paths:
                paths[below] = (*paths[here], (below, spec))
                queue.append(below)
    return None


def needed_by(lock: PlatformLock, name: str) -> tuple[str, ...]:
    """Names of the packages that depend on one directly, sorted."""
    return tuple(
        sorted(
            package.name
            for package in lock.packages
            if any(matchspec.name_of(spec) == name for spec in package.depends)
        )
    )
