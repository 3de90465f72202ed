"""
Conda's own small languages, read by the solver's own parser: match specs, version specs, versions.

Besides `channels`, `solve` and `install` this is the only module that imports rattler: a spec is checked with the very
parser that will solve it, so nothing that passes here is refused later.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from rattler import BuildString, MatchSpec, PackageRecord, Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError, InvalidVersionError, InvalidVersionSpecError


class Named(Protocol):
    """What a match spec looks at."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def build(self) -> str: ...
    @property
    def build_number(self) -> int: ...
    @property
    def md5(self) -> str: ...
    @property
    def sha256(self) -> str: ...


@lru_cache(maxsize=8192)
def _parsed(text: str) -> MatchSpec:
    return MatchSpec(text, strict=True)


@lru_cache(maxsize=8192)
def _parsed_leniently(text: str) -> MatchSpec:
    """Match specs of channels' records are older than the strict rules."""
    return MatchSpec(text, strict=False)


def flaw(text: str) -> str | None:
    """What is wrong with a match spec, in the parser's words; None when it is right."""
    try:
        spec = _parsed(text)
    except InvalidMatchSpecError as error:
        return str(error)
    return None if spec.name is not None else "it names no package"


def version_flaw(text: str) -> str | None:
    """What is wrong with a version range such as `>=2.8,<2.10`; None when it is right."""
    try:
        VersionSpec(text)
    except InvalidVersionSpecError as error:
        return str(error)
    return None


def name_of(text: str) -> str:
    """The package that a match spec of a spec or a record is about, in lower case."""
    if "://" in text:
        return text.rsplit("/", 1)[-1].rsplit("-", 2)[0].lower()
    name = text.split("::", 1)[-1].split(";", 1)[0].strip()
    for position, character in enumerate(name):
        if character in " =<>!~[,":
            return name[:position].lower()
    return name.lower()


def version_key(text: str) -> Version:
    """A version that sorts as conda sorts it."""
    return Version(text)


def is_version(text: str) -> bool:
    """Whether conda can read a version."""
    try:
        Version(text)
    except InvalidVersionError:
        return False
    return True


def version_within(version: str, ranges: str) -> bool:
    """Whether a version lies in a range such as `>=2.8,<2.10`."""
    return bool(VersionSpec(ranges).matches(Version(version)))


def _record(name: str, version: str, build: str) -> PackageRecord:
    return PackageRecord(name, version, BuildString(build), 0, "noarch")


def _record_of(package: Named) -> PackageRecord:
    return PackageRecord(
        package.name,
        package.version,
        BuildString(package.build),
        package.build_number,
        "noarch",
        md5=bytes.fromhex(package.md5) or None,
        sha256=bytes.fromhex(package.sha256) or None,
    )


class Universe:
    """Packages by name, real and virtual, that match specs are asked about."""

    def __init__(self, packages: Sequence[Named], virtual_packages: Sequence[str] = ()) -> None:
        self._records = {package.name: _record_of(package) for package in packages}
        for text in virtual_packages:
            name, version, build = text.split("=", 2)
            self._records[name] = _record(name, version, build)

    def has(self, spec: str) -> bool:
        """Whether a package of that name is here, whatever its version."""
        return name_of(spec) in self._records

    def satisfies(self, spec: str) -> bool:
        """Whether a package here matches the spec."""
        record = self._records.get(name_of(spec))
        return record is not None and bool(record.matches(_parsed_leniently(spec)))
