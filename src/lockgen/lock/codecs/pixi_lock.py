"""`pixi.lock`, versions 7 and 6, as pixi and py-rattler write and read it; every variant is an environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from lockgen.lock.codec import Codec, Files
from lockgen.lock.codecs._shared import environments, ordered, url_parts
from lockgen.lock.model import Lock, LockedPackage, PlatformLock
from lockgen.lock.yamltext import scalar

_NO_FIELD = frozenset({"name", "request", "cuda", "left_out"})
_ARCHIVES = (".conda", ".tar.bz2")
_NUMBER_AT_END = re.compile(r"(?:^|[^0-9])([0-9]+)$")
_SCHEMES = ("https://", "http://")
_FILE = "file://"


def dump_v7(locks: tuple[Lock, ...]) -> Files:
    """Version 7: platforms with their virtual packages, everything in the order of URLs."""
    named = {name: ordered(lock) for name, lock in environments(locks).items()}
    rows = _Rows.of(named.values())
    lines = ["version: 7", "platforms:" if rows.names else "platforms: []", *rows.lines()]
    lines += _environments(named, rows.names, by_filename=False)
    packages = sorted(_packages(named.values()), key=lambda package: package.url)
    return {"pixi.lock": _joined(lines, packages)}


def dump_v6(locks: tuple[Lock, ...]) -> Files:
    """Version 6: platforms by subdir alone, packages in the order of names."""
    named = {name: ordered(lock) for name, lock in environments(locks).items()}
    names = {_row(answer): answer.platform for lock in named.values() for answer in lock.platforms}
    lines = ["version: 6", *_environments(named, names, by_filename=True)]
    packages = sorted(_packages(named.values()), key=lambda package: (package.name, package.url))
    return {"pixi.lock": _joined(lines, packages)}


_Row = tuple[str, tuple[str, ...]]


def _row(answer: PlatformLock) -> _Row:
    """What makes a platform of version 7: the subdir and the virtual packages."""
    return answer.platform, answer.request.virtual_packages


@dataclass(frozen=True, slots=True)
class _Rows:
    """The `platforms` list: variants with other virtual packages need rows of their own."""

    names: Mapping[_Row, str]

    @classmethod
    def of(cls, locks: Iterable[Lock]) -> _Rows:
        """The first row of a subdir bears its name, further ones a number after it."""
        names: dict[_Row, str] = {}
        count: dict[str, int] = {}
        for row in sorted({_row(answer) for lock in locks for answer in lock.platforms}, reverse=True):
            subdir = row[0]
            count[subdir] = count.get(subdir, 0) + 1
            names[row] = subdir if count[subdir] == 1 else f"{subdir}-{count[subdir]}"
        return cls(dict(sorted(names.items(), key=lambda item: item[1])))

    def lines(self) -> list[str]:
        """The list as YAML."""
        lines: list[str] = []
        for (subdir, virtual), name in self.names.items():
            lines.append(f"- name: {scalar(name)}")
            if name != subdir:
                lines.append(f"  subdir: {scalar(subdir)}")
            if virtual:
                lines += ["  virtual-packages:", *(f"  - {scalar(_virtual_package(each))}" for each in virtual)]
        return lines


def _virtual_package(text: str) -> str:
    """
    `__glibc=2.28=0` in pixi's words, `__glibc=2.28`.

    pixi takes a platform of the manifest for one of the lock when they hold the same words: `__unix` keeps its build
    `0`, `__archspec` has version 0, all others have no build of `0`.
    """
    name, _, rest = text.partition("=")
    if name == "__archspec":
        return f"{name}=0={rest.rpartition('=')[2]}"
    return text if name == "__unix" else text.removesuffix("=0")


def _environments(named: Mapping[str, Lock], rows: Mapping[_Row, str], *, by_filename: bool) -> list[str]:
    """The `environments` table."""
    lines = ["environments:" if named else "environments: {}"]
    for name, lock in named.items():
        channels = dict.fromkeys(url for answer in lock.platforms for url in answer.request.channels)
        lines += [f"  {scalar(name)}:", "    channels:" if channels else "    channels: []"]
        lines += [f"    - url: {scalar(url + '/')}" for url in channels]
        lines.append("    packages:" if lock.platforms else "    packages: {}")
        for answer in sorted(lock.platforms, key=lambda each: rows[_row(each)]):
            urls = [_location(package) for package in answer.packages]
            urls.sort(key=_filename_first if by_filename else None)
            lines.append(f"      {scalar(rows[_row(answer)])}:" + ("" if urls else " []"))
            lines += [f"      - conda: {scalar(url)}" for url in urls]
    return lines


def _filename_first(url: str) -> tuple[str, str]:
    """Order of version 6 within an environment."""
    return url.rsplit("/", 1)[-1].lower(), url


def _packages(locks: Iterable[Lock]) -> Iterable[LockedPackage]:
    """Every package once."""
    return {package.url: package for lock in locks for each in lock.platforms for package in each.packages}.values()


def _joined(lines: list[str], packages: list[LockedPackage]) -> str:
    """The text of the file."""
    lines.append("packages:" if packages else "packages: []")
    for package in packages:
        lines += _package(package)
    return "\n".join(lines) + "\n"


def _package(package: LockedPackage) -> list[str]:
    """One entry: first what cannot be read from the URL, then the rest, in rattler's order of fields."""
    lines = [f"- conda: {scalar(_location(package))}", *_unlike_url(package)]
    lines += [f"  sha256: {scalar(package.sha256)}", f"  md5: {scalar(package.md5)}"]
    lines += _list("depends", package.depends)
    lines += _list("constrains", package.constrains)
    if url_parts(package.url).channel != package.channel or package.url.startswith(_FILE):
        lines.append(f"  channel: {scalar(package.channel)}")
    lines += _list("track_features", package.track_features)
    if package.license is not None:
        lines.append(f"  license: {scalar(package.license)}")
    if package.license_family is not None:
        lines.append(f"  license_family: {scalar(package.license_family)}")
    lines.append(f"  size: {package.size}")
    if package.timestamp is not None:
        lines.append(f"  timestamp: {package.timestamp}")
    if package.python_site_packages_path is not None:
        lines.append(f"  python_site_packages_path: {scalar(package.python_site_packages_path)}")
    return lines


def _location(package: LockedPackage) -> str:
    """A package's URL; for one in a folder its path, as rattler writes it."""
    return unquote(package.url.removeprefix(_FILE)) if package.url.startswith(_FILE) else package.url


def _unlike_url(package: LockedPackage) -> list[str]:
    """The fields that a reader would guess wrongly from the URL."""
    _, subdir, filename = url_parts(package.url)
    stem = next((filename.removesuffix(end) for end in _ARCHIVES if filename.endswith(end)), "")
    name, version, build = ([*stem.rsplit("-", 2), "", "", ""])[:3] if stem.count("-") >= 2 else ("", "", "")
    known = subdir if package.url.startswith(_SCHEMES) else ""
    lines = []
    if name != package.name:
        lines.append(f"  name: {scalar(package.name)}")
    if version != package.version:
        lines.append(f"  version: {scalar(package.version)}")
    if build != package.build:
        lines.append(f"  build: {scalar(package.build)}")
    number = _NUMBER_AT_END.search(package.build)
    if package.build_number != (int(number[1]) if number else 0):
        lines.append(f"  build_number: {package.build_number}")
    if known != package.subdir:
        lines.append(f"  subdir: {scalar(package.subdir)}")
    if package.noarch != _guessed_noarch(known or package.subdir, build or package.build):
        lines.append(f"  noarch: {'false' if package.noarch is None else scalar(package.noarch)}")
    return lines


def _guessed_noarch(subdir: str, build: str) -> str | None:
    """What a reader takes a package for that says nothing."""
    if subdir != "noarch":
        return None
    return "python" if "py" in build else "generic"


def _list(key: str, values: tuple[str, ...]) -> list[str]:
    """A list of strings, left out when empty."""
    return [f"  {key}:", *(f"  - {scalar(value)}" for value in values)] if values else []


CODECS = (
    Codec(name="pixi-v7", dump=dump_v7, loses=_NO_FIELD),
    Codec(name="pixi-v6", dump=dump_v6, loses=_NO_FIELD | {"virtual_packages"}),
)
