"""How an image's packages are put into layers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lockgen.knowledge.reader import facts

FILE = "layers.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Numbers that hold for every image."""

    most: int
    """Layers of a whole image."""
    base: int
    """Of these, left to the base image."""
    ours: int
    """And these, to what lockgen itself writes; a Dockerfile takes a layer for each owner and folder."""
    default: int
    """Layers of packages, where nobody says another number."""
    own: int
    """Bytes of archive from which on a package has a layer of its own."""
    budget: int
    """Bytes unpacked that an image should stay under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Packages that change at one pace."""

    name: str
    title: str
    packages: tuple[str, ...]
    """Globs of names."""
    noarch: bool
    """Only packages that are the same on every platform."""
    share: int
    """Among how many layers its smaller packages are spread."""
    unpacked: int
    """Size on disk in percent of the archives."""
    unpacked_cpu: int
    """The same where no CUDA is in the lock."""

    def has(self, name: str, *, noarch: bool) -> bool:
        """Whether a package belongs here, if it belongs to none before."""
        return (noarch or not self.noarch) and any(fnmatchcase(name, glob) for glob in self.packages)


@functools.cache
def limits() -> Limits:
    """The numbers that hold for every image."""
    row = facts(FILE).table("layers")
    return Limits(**{key: row.integer(key) for key in ("most", "base", "ours", "default", "own", "budget")})


@functools.cache
def layer_groups() -> tuple[LayerGroup, ...]:
    """All groups, what changes least first."""
    return tuple(
        LayerGroup(
            name=row.text("name"),
            title=row.text("title"),
            packages=row.texts("packages"),
            noarch=row.flag("noarch"),
            share=row.integer("share"),
            unpacked=row.integer("unpacked"),
            unpacked_cpu=row.integer("unpacked_cpu"),
        )
        for row in facts(FILE).tables("group")
    )


@functools.cache
def layer_group(name: str, *, noarch: bool) -> LayerGroup:
    """
    The group of a package.

    A group of noarch packages is asked before the one that takes the rest, though its layers come after.
    """
    groups = sorted(layer_groups(), key=lambda group: (group.packages == ("*",), not group.noarch))
    return next(group for group in groups if group.has(name, noarch=noarch))
