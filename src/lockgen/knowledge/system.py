"""The platforms, and the oldest system that each supports where the spec says nothing."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import FactError, Table, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One platform's defaults."""

    platform: str
    """Subdir: `linux-64`."""
    system: str
    """`linux`, `macos` or `windows`."""
    archspec: str
    """Name of the oldest micro-architecture: `x86_64`."""
    versions: tuple[tuple[str, str], ...]
    """Virtual packages and their versions, sorted by name, without `__archspec` and `__cuda`."""
    macos_from: str | None
    """The first macOS that there is for its processors; None where that does not matter."""
    reason: str
    source: str
    checked: datetime.date

    def version(self, name: str) -> str | None:
        """Default version of a virtual package: `2.28` for `__glibc`."""
        return dict(self.versions).get(name)

    @property
    def virtual_packages(self) -> tuple[str, ...]:
        """The default virtual packages as `name=version=build`, sorted: `__glibc=2.28=0`."""
        plain = (f"{name}={version}=0" for name, version in self.versions)
        return tuple(sorted([f"__archspec=1={self.archspec}", *plain]))


@functools.cache
def _processors() -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Platforms and the micro-architectures of their processors."""
    return tuple((row.texts("platforms"), row.texts("archspecs")) for row in facts("systems.toml").tables("processor"))


def is_foreign(archspec: str, platform: str) -> bool:
    """Whether a micro-architecture is known to be of another kind of processor than a platform's."""
    of = [platforms for platforms, names in _processors() if archspec in names]
    return bool(of) and not any(platform in platforms for platforms in of)


@functools.cache
def systems() -> tuple[System, ...]:
    """All supported platforms, in the order of the file."""
    return tuple(_system(row) for row in facts("systems.toml").tables("platform"))


def system(platform: str) -> System | None:
    """A platform's row, None for one that is not supported."""
    return next((row for row in systems() if row.platform == platform), None)


def platforms() -> tuple[str, ...]:
    """Names of the supported platforms."""
    return tuple(row.platform for row in systems())


def platforms_meant(name: str) -> tuple[str, ...]:
    """The platforms that another tool's name may stand for: `linux-arm64`, `macos`; none for an unknown one."""
    plain = name.strip().lower().replace("_", "-").replace("/", "-")
    rows = facts("systems.toml").tables("also")
    return next((row.texts("platforms") for row in rows if plain in row.texts("names")), ())


def default_virtual_packages(platform: str) -> tuple[str, ...] | None:
    """Virtual packages of the oldest supported system, `name=version=build`, sorted; None for an unknown platform."""
    found = system(platform)
    return found.virtual_packages if found else None


def _system(row: Table) -> System:
    virtual = row.table("virtual")
    versions = tuple(sorted((name, virtual.text(name)) for name in virtual.values))
    kind = row.text("system")
    if kind not in ("linux", "macos", "windows"):
        raise FactError(row.file, "system", "expected `linux`, `macos` or `windows`")
    return System(
        platform=row.text("name"),
        system=kind,
        archspec=row.text("archspec"),
        versions=versions,
        macos_from=row.text_or_none("macos_from"),
        reason=row.text("reason"),
        source=row.text("source"),
        checked=row.date("checked"),
    )
