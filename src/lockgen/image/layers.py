"""Packages in layers, so that an update moves few bytes, and which layers an update moves. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lockgen.image.model import Layer
from lockgen.knowledge.layer import LayerGroup, layer_group, layer_groups, limits
from lockgen.lock.model import LockedPackage

LARGE = "large"
"""The layer of the large packages for which no layer of their own is left."""
FOLDED = "packages"
"""The layer of several groups, where the budget has no layer for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A layer that an update changes."""

    name: str
    size: int
    """Bytes of the archives in it, all of which are fetched again."""
    changed: tuple[str, ...]
    """Packages that are new, gone or others, sorted."""
    added: bool
    """There was no such layer before."""


Members = tuple[Layer, tuple[LockedPackage, ...]]
"""A layer and its packages as they are locked."""


class _Place(NamedTuple):
    """A layer's place: by group, packages with a layer of their own before the others, then by number and name."""

    group: int
    kind: int
    number: int
    name: str


def group(packages: Sequence[LockedPackage], budget: int) -> tuple[Layer, ...]:
    """
    Split packages into at most `budget` layers, so that one update changes few of them.

    A large package has a layer of its own; the others are spread by a hash of their names over a number of layers
    that depends on the budget alone. So where one lies does not depend on the others, their versions or their sizes.
    Where the budget has no room for each large package, the largest keep their own layers and the rest share one.

    Args:
        packages: any order, each name once.
        budget: most layers, at least 1.

    Returns:
        Layers by group, what changes least first; every package is in exactly one, and none is empty.
    """
    members: dict[_Place, list[LockedPackage]] = {}
    own = _own(packages, budget)
    for package in packages:
        members.setdefault(own.get(package.name) or _shared(package, budget), []).append(package)
    return tuple(
        Layer(
            name=place.name,
            packages=tuple(sorted(each.name for each in members[place])),
            size=sum(each.size for each in members[place]),
        )
        for place in sorted(members)
    )


def group_of(package: LockedPackage) -> LayerGroup:
    """The group that a package belongs to."""
    return layer_group(package.name, noarch=package.noarch is not None)


def moved(old: Sequence[Members], new: Sequence[Members]) -> tuple[Moved, ...]:
    """
    The layers of `new` that are not in `old` as they are: what a machine that has the old image fetches.

    Args:
        old: layers, each with its packages; an archive's hash is what tells two packages apart.
        new: the same after the update.

    Returns:
        In the order of `new`.
    """
    before = {layer.name: hashes for layer, hashes in _signed(old)}
    kept = {frozenset(hashes.items()) for hashes in before.values()}
    return tuple(
        Moved(
            name=layer.name,
            size=layer.size,
            changed=tuple(sorted({name for name, _ in before.get(layer.name, {}).items() ^ now.items()})),
            added=layer.name not in before,
        )
        for layer, now in _signed(new)
        if frozenset(now.items()) not in kept
    )


def paired(
    layers: Sequence[Layer], packages: Iterable[LockedPackage]
) -> tuple[tuple[Layer, tuple[LockedPackage, ...]], ...]:
    """Each layer with its packages as they are locked."""
    by_name = {package.name: package for package in packages}
    return tuple((layer, tuple(by_name[name] for name in layer.packages)) for layer in layers)


def _signed(pairs: Sequence[Members]) -> list[tuple[Layer, dict[str, tuple[str, str]]]]:
    """Each layer with what tells its packages apart; pure Python lies in a folder that is named after the Python."""
    python = next((one.version for _, packages in pairs for one in packages if one.name == "python"), "")
    minor = ".".join(python.split(".")[:2])
    return [
        (layer, {one.name: (one.sha256 or one.url, minor if one.noarch == "python" else "") for one in packages})
        for layer, packages in pairs
    ]


def _spread(budget: int) -> list[int]:
    """How many layers the smaller packages of each group have; all zero where there is not one for each group."""
    groups = layer_groups()
    if budget < len(groups):
        return [0] * len(groups)
    return [max(1, each.share * budget // limits().default) for each in groups]


def _own(packages: Sequence[LockedPackage], budget: int) -> dict[str, _Place]:
    """
    The places of the large packages: a layer for each, or for all but the largest one for all.

    Sizes are compared in powers of two, ties broken by name, so that a new version seldom changes who is larger.
    """
    free = budget - sum(_spread(budget)) if any(_spread(budget)) else 0
    large = [package for package in packages if package.size >= limits().own]
    if not large or not free:
        return {}
    ranked = sorted(large, key=lambda package: (-package.size.bit_length(), package.name))
    alone = ranked if len(ranked) <= free else ranked[: free - 1]
    shared = _Place(0, 2, 0, LARGE)
    return {package.name: shared for package in ranked} | {package.name: _alone(package) for package in alone}


def _alone(package: LockedPackage) -> _Place:
    """The place of a package with a layer of its own, named as it is where that is a layer's name and not another's."""
    plain = re.sub(r"[^a-z0-9-]", "-", package.name)
    taken = re.fullmatch(rf"{LARGE}|{FOLDED}|({'|'.join(each.name for each in layer_groups())})-[0-9]+", plain)
    name = f"{plain}-{_hash(package.name):016x}" if plain != package.name or taken else plain
    return _Place(layer_groups().index(group_of(package)), 0, 0, name)


def _shared(package: LockedPackage, budget: int) -> _Place:
    """The place of a package among the smaller ones of its group, by its name alone."""
    position = layer_groups().index(group_of(package))
    spread = _spread(budget)[position]
    if not spread:
        folded = min(position, budget - 1)
        last = folded == budget - 1
        return _Place(folded, 1, 1, FOLDED if last else f"{layer_groups()[folded].name}-1")
    number = _hash(package.name) % spread + 1
    return _Place(position, 1, number, f"{group_of(package).name}-{number}")


def _hash(name: str) -> int:
    """A number of 64 bits that is the same on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
