"""Locks of other tools: conda-lock's own `conda-lock.yml`, its kin pixi.lock of versions 1 to 3, explicit files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import yaml

from lockgen.errors import LockError, Problem, Where
from lockgen.lock.codecs._shared import url_parts
from lockgen.lock.model import LockedPackage

DEFAULT = "default"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ARCHIVES = (".conda", ".tar.bz2")
_DIGITS = {"md5": 32, "sha256": 64}
_ALWAYS = ("main", "dev")
"""What conda-lock installs when nothing is said."""
_NUMBER_AT_END = re.compile(r"(?:^|[^0-9])([0-9]+)$")
_PLATFORM = re.compile(r"^#\s*platform:\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one environment of a lock holds for one platform."""

    environment: str
    platform: str
    """Subdir: `linux-64`."""
    packages: tuple[LockedPackage, ...]
    """Sorted by name; fields that the format does not hold are empty or zero."""
    pypi: tuple[str, ...] = ()
    """Names of packages that are not conda's, sorted."""
    source: tuple[str, ...] = ()
    """Names of conda packages that would have to be built first, sorted."""
    row: str = ""
    """Name of the platform within the lock where it is not the subdir: `linux-64-2`."""
    requested: tuple[str, ...] = ()
    """Match specs that the user asked for."""
    channels: tuple[str, ...] = ()
    """Base URLs without a trailing slash, highest priority first."""


def is_explicit(text: str) -> bool:
    """Whether a text is an explicit file."""
    return any(line.strip() == "@EXPLICIT" for line in text.splitlines())


def is_conda_lock(document: Any) -> bool:
    """Whether a YAML document has conda-lock's shape."""
    return isinstance(document, dict) and isinstance(document.get("package"), list) and "metadata" in document


def document(text: str, file: str) -> Any:
    """The YAML document in a lock."""
    try:
        return yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = Where(file=file, line=mark.line + 1, column=mark.column + 1) if mark else None
        words = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise LockError(Problem(message=f"{'' if where else f'{file}: '}not YAML: {words}", where=where)) from None


# explicit files


def explicit(text: str, file: str, platform: str) -> tuple[Part, ...]:
    """
    The one part of an explicit file, whose platform is that of its packages.

    Args:
        text: the file.
        file: its name, for messages.
        platform: the platform where no line says one.
    """
    packages = [_explicit_package(line, number, file) for number, line in _urls(text)]
    named = _PLATFORM.search(text)
    subdirs = sorted({package.subdir for package in packages} - {"noarch"})
    if len(subdirs) > 1:
        raise LockError(Problem(message=f"{file} mixes platforms: {', '.join(subdirs)}"))
    found = subdirs[0] if subdirs else named[1] if named else platform
    return (Part(environment=DEFAULT, platform=found, packages=_sorted(packages, file)),)


def _urls(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if (plain := line.strip()) and not plain.startswith("#") and plain != "@EXPLICIT":
            yield number, plain


def _explicit_package(line: str, number: int, file: str) -> LockedPackage:
    url, _, digest = line.partition("#")
    if "://" not in url and url.startswith("/"):
        url = f"file://{url}"
    parts = url_parts(url)
    names = _from_filename(unquote(parts.filename))
    if "://" not in url or names is None:
        where = Where(file=file, line=number, column=1, text=line, width=len(line))
        message = "expected the URL of a package: `https://…/SUBDIR/NAME-VERSION-BUILD.conda#HASH`"
        raise LockError(Problem(message=message, where=where))
    name, version, build = names
    sha256, md5 = _digest(digest.strip(), number, line, file)
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        build_number=_build_number(build),
        subdir=parts.subdir,
        channel=parts.channel,
        url=url,
        noarch=_guessed_noarch(parts.subdir, build),
        size=0,
        sha256=sha256,
        md5=md5,
    )


def _digest(text: str, number: int, line: str, file: str) -> tuple[str, str]:
    """SHA-256 and MD5 of what follows `#`, one of them empty: MD5 as it stands, or either with its name before it."""
    kind, colon, value = text.rpartition(":")
    value = value.lower()
    if not value:
        return "", ""
    kind = kind.lower() if colon else ("sha256" if len(value) == _DIGITS["sha256"] else "md5")
    if len(value) != _DIGITS.get(kind) or not re.fullmatch("[0-9a-f]+", value):
        where = Where(file=file, line=number, column=len(line) - len(text) + 1, text=line, width=len(text))
        message = f"`#{text}` is no hash: expected 32 (MD5) or 64 (SHA-256) hex digits"
        raise LockError(Problem(message=message, where=where))
    return (value, "") if kind == "sha256" else ("", value)


# conda-lock.yml


def conda_lock(content: Mapping[str, Any], file: str) -> tuple[Part, ...]:
    """
    All parts of a `conda-lock.yml` of conda-lock itself, or of a pixi.lock of version 1 to 3.

    The environment `default` has the categories `main` and `dev`, as `conda-lock install` takes them; each other
    category is an environment of that name, which adds it to `main`.
    """
    rows: list[tuple[str, Mapping[str, Any]]] = []
    for index, entry in enumerate(content["package"]):
        if not isinstance(entry, dict) or not {"name", "version", "manager", "platform", "url"} <= entry.keys():
            raise LockError(Problem(message=f"{file}: entry {index + 1} of `package` is not conda-lock's"))
        rows.append((str(entry.get("category") or "main"), entry))
    platforms = dict.fromkeys([*_platforms(content), *(str(entry["platform"]) for _, entry in rows)])
    others = sorted({category for category, _ in rows} - set(_ALWAYS))
    environments = {DEFAULT: _ALWAYS, **{category: ("main", category) for category in others}}
    return tuple(
        _part(environment, platform, [entry for category, entry in rows if category in wanted], file)
        for environment, wanted in environments.items()
        for platform in platforms
    )


def _platforms(content: Mapping[str, Any]) -> list[str]:
    metadata = content["metadata"]
    named = metadata.get("platforms") if isinstance(metadata, dict) else None
    return [str(each) for each in named] if isinstance(named, list) else []


def _part(environment: str, platform: str, entries: Sequence[Mapping[str, Any]], file: str) -> Part:
    here = [entry for entry in entries if entry["platform"] == platform]
    conda = [_conda_package(entry, file) for entry in here if entry["manager"] == "conda"]
    pypi = sorted({str(entry["name"]) for entry in here if entry["manager"] != "conda"})
    return Part(environment=environment, platform=platform, packages=_sorted(conda, file), pypi=tuple(pypi))


def _conda_package(entry: Mapping[str, Any], file: str) -> LockedPackage:
    url = str(entry["url"]).partition("#")[0]
    parts = url_parts(url)
    name, version = str(entry["name"]), str(entry["version"])
    stem = f"{name}-{version}-"
    filename = unquote(parts.filename)
    if not filename.startswith(stem) and "build" not in entry:
        raise LockError(Problem(message=f"{file}: package `{name} {version}` has the URL of another: {filename}"))
    build = str(entry.get("build") or _stem(filename)[len(stem) :])
    digests = entry.get("hash") or {}
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        build_number=int(entry.get("build_number", _build_number(build))),
        subdir=parts.subdir,
        channel=parts.channel,
        url=url,
        sha256=str(digests.get("sha256") or ""),
        md5=str(digests.get("md5") or ""),
        size=int(entry.get("size") or 0),
        depends=_depends(entry.get("dependencies") or {}),
        constrains=tuple(map(str, entry.get("constrains") or ())),
        noarch=str(entry["noarch"]) if entry.get("noarch") else _guessed_noarch(parts.subdir, build),
    )


def _depends(dependencies: Any) -> tuple[str, ...]:
    if isinstance(dependencies, list):
        return tuple(map(str, dependencies))
    return tuple(f"{name} {constraint}".strip() for name, constraint in dependencies.items())


# both


def _sorted(packages: Sequence[LockedPackage], file: str) -> tuple[LockedPackage, ...]:
    """By name; two builds of one name are an error, the same one twice is not."""
    found: dict[str, LockedPackage] = {}
    for package in packages:
        other = found.setdefault(package.name, package)
        if other.url != package.url:
            message = f"{file} lists `{package.name}` twice: {other.filename} and {package.filename}"
            raise LockError(Problem(message=message))
    return tuple(found[name] for name in sorted(found))


def _stem(filename: str) -> str:
    return filename.removesuffix(".conda").removesuffix(".tar.bz2")


def _from_filename(filename: str) -> tuple[str, str, str] | None:
    """Name, version and build; None for what is not the name of a package."""
    if not filename.endswith(_ARCHIVES):
        return None
    parts = _stem(filename).rsplit("-", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and all(parts) else None


def _build_number(build: str) -> int:
    found = _NUMBER_AT_END.search(build)
    return int(found[1]) if found else 0


def _guessed_noarch(subdir: str, build: str) -> str | None:
    """The package itself says it; this is for readers of the lock alone."""
    if subdir != "noarch":
        return None
    return "python" if "py" in build else "generic"
