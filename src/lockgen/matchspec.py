"""
Conda's own small languages, read by the solver's own parser: match specs, version specs, versions.

Besides `channels`, `solve` and `install` this is the only module that imports rattler: a spec is checked with the very
parser that will solve it, so nothing that passes here is refused later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from rattler import BuildString, MatchSpec, PackageRecord, Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError, InvalidVersionSpecError

KEYS = ("version", "build", "build_number", "channel", "subdir", "url", "md5", "sha256")
"""What may stand in brackets: what the solver looks at and every format can carry."""
_PLAIN = re.compile(r"\s*([A-Za-z0-9_.-]+)(?=$|[\s=<>!~])")
_FIRST = re.compile(r"[^\s=<>!~\[;|,]*")
_QUOTED = re.compile(r'"[^"]*"')
_BRACKET_KEY = re.compile(r'([a-z_]+)=(?=""|\[)')
_SOURCE = re.compile(r"[\[/]|::")
_URL = re.compile(r'\burl="([^"]*)"')


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
    @property
    def channel(self) -> str: ...
    @property
    def subdir(self) -> str: ...
    @property
    def url(self) -> str: ...


class Parts(NamedTuple):
    """What a match spec asks for, as text; None where it does not ask."""

    name: str
    version: str | None = None
    build: str | None = None
    build_number: str | None = None
    channel: str | None = None
    """Base URL without a trailing slash."""
    subdir: str | None = None
    url: str | None = None
    md5: str | None = None
    sha256: str | None = None


@lru_cache(maxsize=8192)
def _parsed(text: str) -> MatchSpec:
    return MatchSpec(text, strict=True)


@lru_cache(maxsize=8192)
def _parsed_leniently(text: str) -> MatchSpec:
    """Match specs of channels' records are older than the strict rules."""
    return MatchSpec(text, strict=False)


def flaw(text: str) -> str | None:
    """What is wrong with a match spec, in the parser's words where it has some; None when it is right."""
    try:
        spec = _parsed(text)
    except InvalidMatchSpecError as error:
        return str(error)
    if spec.name is None:
        return "it names no package"
    if spec.name.normalized.startswith("__"):
        return "it is a virtual package, which no channel has"
    unknown = [f"`{key}`" for key in _keys(spec) if key not in KEYS]
    return f"unsupported bracket key: {', '.join(unknown)}" if unknown else None


def _keys(spec: MatchSpec) -> list[str]:
    """The keys in brackets that are left in the parser's own form of a match spec."""
    keys = _BRACKET_KEY.findall(_QUOTED.sub('""', str(spec)))
    return ["namespace", *keys] if spec.namespace and "namespace" not in keys else keys


def version_flaw(text: str) -> str | None:
    """What is wrong with a version range such as `>=2.8,<2.10`; None when it is right."""
    try:
        VersionSpec(text)
    except InvalidVersionSpecError as error:
        return str(error)
    return None


@lru_cache(maxsize=8192)
def name_of(text: str) -> str:
    """The package that a match spec of a spec or a record is about, in lower case."""
    plain = _PLAIN.match(text)
    return plain[1].lower() if plain and "::" not in text else parts(text).name


def cut(text: str) -> tuple[str, str]:
    """
    A record's dependency as its first word, as it is written, and the constraint behind it.

    By its text alone, where `parts` parses: a format that keeps the two apart has to give the same text back.
    """
    plain = text.lstrip()
    found = _FIRST.match(plain)
    name = found.group() if found else plain
    return name, plain[len(name) :].strip()


@lru_cache(maxsize=8192)
def parts(text: str) -> Parts:
    """A match spec taken apart by the parser; one that it cannot read is all name."""
    try:
        spec = _parsed_leniently(text)
    except InvalidMatchSpecError:
        return Parts(text)
    url = _URL.search(str(spec))
    return Parts(
        name=spec.name.normalized if spec.name else text,
        version=spec.version,
        build=spec.build,
        build_number=spec.build_number,
        channel=spec.channel.base_url.rstrip("/") if spec.channel else None,
        subdir=spec.subdir,
        url=url[1] if url else None,
        md5=spec.md5.hex() if spec.md5 else None,
        sha256=spec.sha256.hex() if spec.sha256 else None,
    )


def version_key(text: str) -> Version:
    """A version that sorts as conda sorts it."""
    return Version(text)


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
        self._packages = {package.name: package for package in packages}
        for text in virtual_packages:
            name, version, build = text.split("=", 2)
            self._records[name] = _record(name, version, build)

    def has(self, spec: str) -> bool:
        """Whether a package of that name is here, whatever its version."""
        return name_of(spec) in self._records

    def satisfies(self, spec: str) -> bool:
        """Whether a package here matches the spec, and comes from where the spec says."""
        name = name_of(spec)
        record, package = self._records.get(name), self._packages.get(name)
        if record is None or not record.matches(_parsed_leniently(spec)):
            return False
        return package is None or not _SOURCE.search(spec) or _from_there(package, parts(spec))


def _from_there(package: Named, asked: Parts) -> bool:
    """Whether channel, subdir and URL are as asked: the parser's own `matches` does not look at them."""
    pairs = ((asked.channel, package.channel), (asked.subdir, package.subdir), (asked.url, package.url))
    return all(wanted is None or wanted == found for wanted, found in pairs)
