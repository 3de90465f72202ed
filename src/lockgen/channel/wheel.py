"""A wheel as a conda package: names, dependencies, entry points, licences, and files that stream out of the wheel."""

from __future__ import annotations

import base64
import configparser
import contextlib
import csv
import datetime
import functools
import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename

from lockgen.channel.archive import PLACEHOLDER, Package, PackedFile, text_file
from lockgen.channel.errors import broken
from lockgen.channel.interpreter import Interpreter
from lockgen.channel.names import conda_name

_OLDEST = 1990  # what is dated before has no real date, as with reproducible builds that write 1980
_LICENSE = re.compile(r"licen[cs]e|copying|notice|authors", re.IGNORECASE)
_NOT_PACKED = ("RECORD", "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", "direct_url.json")
_LEGACY_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LAUNCHER = """#!{prefix}/bin/python
import sys

from {module} import {first}

if __name__ == "__main__":
    sys.argv[0] = sys.argv[0].removesuffix(".exe")
    sys.exit({function}())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a recipe says about one wheel."""

    conda: str | None = None
    build: str | None = None
    """The build string; `{hash}` in it becomes the hash of what the package is made of."""
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    """Requirements to leave out, by canonical name."""
    omit: tuple[str, ...] = ()
    """Globs of files below site-packages to leave out, where another package brings them too."""
    links: tuple[tuple[str, str], ...] = ()
    """Glob of a file below site-packages → the file below the prefix to which it becomes a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What all wheels of a channel share."""

    here: Interpreter
    names: Mapping[str, str]
    """The recipe's own conda names, by canonical name."""
    epoch: int
    """The time of files that have none, in seconds since 1970."""


@contextlib.contextmanager
def opened(path: Path, sha256: str, changes: Changes, context: Context) -> Iterator[Package]:
    """
    The conda package that holds what pip would install from a wheel; its files can be read while this is open.

    A wheel without code for one interpreter becomes `noarch: python`, also where it holds libraries for one platform.

    Raises:
        BuildError: the file is not a whole wheel.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield _Wheel(path.name, archive, changes, context).package(sha256)
    except (zipfile.BadZipFile, KeyError, StopIteration, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise broken(f"{path.name} is not a whole wheel: {error}") from None


class _Wheel:
    """One wheel while it is read."""

    def __init__(self, filename: str, archive: zipfile.ZipFile, changes: Changes, context: Context) -> None:
        self.archive, self.changes, self.context = archive, changes, context
        name, version, _, tags = parse_wheel_filename(filename)
        self.name, self.version, self.tags = str(name), str(version), tags
        self.is_any = all(tag.platform == "any" for tag in tags)
        self.is_portable = all(tag.abi in ("none", "abi3") for tag in tags)
        """Whether more than one interpreter can use it."""
        self.members = _members(archive, filename)
        self.info = next(item.split("/")[0] for item in self.members if item.endswith(".dist-info/METADATA"))
        self.metadata = Parser().parsestr(self.text("METADATA"))
        self.site_packages = "site-packages" if self.is_portable else context.here.site_packages
        self.scripts = "python-scripts" if self.is_portable else "bin"

    def text(self, name: str) -> str:
        """A file of the `.dist-info` folder, empty where it is absent."""
        path = f"{self.info}/{name}"
        return self.read(path).decode() if path in self.members else ""

    def read(self, path: str) -> bytes:
        return self.archive.read(path)

    def package(self, sha256: str) -> Package:
        """The whole package."""
        depends = tuple(dict.fromkeys([*self.depends(), *self.changes.depends]))
        made_of = [sha256, *depends, *self.changes.constrains, *map(" ".join, self.changes.links), *self.changes.omit]
        key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:7]
        build = "pyh{hash}_0" if self.is_portable else f"py{self.context.here.abi[2:]}h{{hash}}_0"
        return Package(
            name=self.changes.conda or conda_name(self.name, self.context.names),
            version=self.version.partition("+")[0],
            build=(self.changes.build or build).replace("{hash}", f"h{key}" if self.changes.build else key),
            build_number=build_number(self.changes.build),
            subdir="noarch" if self.is_any and self.is_portable else self.context.here.subdir,
            noarch="python" if self.is_portable else None,
            timestamp=self.timestamp(),
            depends=depends,
            constrains=self.changes.constrains,
            license=_license(self.metadata),
            summary=self.metadata.get("Summary"),
            home=self.metadata.get("Home-page") or _project_url(self.metadata),
            entry_points=tuple(f"{name} = {target}" for name, target in self.entry_points()),
            files=tuple(self.files()),
            licenses=dict(self.licenses()),
        )

    def timestamp(self) -> int:
        """When the newest file of the wheel was written, or the channel's epoch where the wheel does not say."""
        newest = max((member.date_time for member in self.members.values()), default=(1980, 1, 1, 0, 0, 0))
        if newest[0] < _OLDEST:
            return self.context.epoch
        return int(datetime.datetime(*newest, tzinfo=datetime.UTC).timestamp())

    def depends(self) -> Iterator[str]:
        """
        What the package asks for; markers are answered for the interpreter.

        An extra of a requirement, `bleach[css]`, is not followed into the other wheel: `depends` of the recipe does it.
        """
        if self.is_portable:
            yield _python_needed(self.metadata.get("Requires-Python"), self.tags)
        else:
            yield from self.context.here.depends()
        if not self.is_any:
            yield from _glibc(self.tags)
        environment: dict[str, str | Set[str]] = {**default_environment(), "extra": ""}  # type: ignore[dict-item]
        for line in self.metadata.get_all("Requires-Dist") or []:
            requirement = Requirement(line)
            dropped = canonicalize_name(requirement.name) in self.changes.drop
            if not dropped and (requirement.marker is None or requirement.marker.evaluate(environment)):
                yield match_spec(requirement, self.context.names)

    def entry_points(self) -> Iterator[tuple[str, str]]:
        """Commands and the `module:function` behind them."""
        parser = configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[method-assign,assignment]
        parser.read_string(self.text("entry_points.txt"))
        for section in ("console_scripts", "gui_scripts"):
            for name, target in parser.items(section) if parser.has_section(section) else ():
                yield name, target.partition("[")[0].strip()

    def licenses(self) -> Iterator[tuple[str, bytes]]:
        """The texts that the wheel itself calls licences."""
        inside = [path for path in self.members if path.startswith(f"{self.info}/")]
        for path in sorted(inside):
            name = path.split("/", 1)[1]
            if name.startswith("licenses/") or _LICENSE.search(PurePosixPath(name).name):
                yield name.removeprefix("licenses/"), self.read(path)

    def files(self) -> Iterator[PackedFile]:
        """Every file, and the `RECORD` of where they will lie once they are installed."""
        files = list(self._payload())
        files.append(text_file(f"{self.site_packages}/{self.info}/INSTALLER", b"conda\n"))
        if not self.is_portable:
            files += [self._launcher(name, target) for name, target in self.entry_points()]
        record = f"{self.site_packages}/{self.info}/RECORD"
        yield from files
        yield text_file(record, self._record(files).encode())

    def _payload(self) -> Iterator[PackedFile]:
        data = f"{self.info.removesuffix('.dist-info')}.data/"
        for path, member in self.members.items():
            if path.startswith(f"{self.info}/") and path.split("/", 1)[1] in _NOT_PACKED:
                continue
            if any(PurePosixPath(path).match(glob) for glob in self.changes.omit):
                continue
            target = (
                self._data_path(path.removeprefix(data)) if path.startswith(data) else f"{self.site_packages}/{path}"
            )
            linked = next((to for glob, to in self.changes.links if PurePosixPath(path).match(glob)), None)
            if linked:
                up = "../" * target.count("/")
                yield PackedFile(path=target, target=up + linked)
            else:
                yield self._file(target, path, member)

    def _data_path(self, path: str) -> str:
        """Where a file of the wheel's `.data` folder goes."""
        kind, _, rest = path.partition("/")
        tops = {
            "purelib": self.site_packages,
            "platlib": self.site_packages,
            "scripts": self.scripts,
            "headers": f"include/python{self.context.here.minor}/{self.name}",
        }
        return f"{tops[kind]}/{rest}" if kind != "data" else rest

    def _file(self, target: str, path: str, member: zipfile.ZipInfo) -> PackedFile:
        is_script = target.startswith(f"{self.scripts}/")
        executable = is_script or bool(member.external_attr >> 16 & 0o100)
        if is_script:
            text = self.read(path)
            if text.startswith(b"#!python"):
                shebang = f"#!{PLACEHOLDER}/bin/python".encode()
                return text_file(
                    target, shebang + text.removeprefix(b"#!pythonw").removeprefix(b"#!python"), executable=True
                )
        opener = functools.partial(self.archive.open, member)
        return PackedFile(path=target, size=member.file_size, open=opener, executable=executable)

    def _launcher(self, name: str, target: str) -> PackedFile:
        module, _, function = target.partition(":")
        text = _LAUNCHER.format(
            prefix=PLACEHOLDER,
            module=module.strip(),
            first=function.strip().partition(".")[0],
            function=function.strip(),
        )
        return text_file(f"bin/{name}", text.encode(), executable=True)

    def _record(self, files: Iterable[PackedFile]) -> str:
        """The list of installed files as pip would write it; scripts get their prefix later and have no hash."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        hashes = self._hashes()
        for one in sorted(files, key=lambda one: one.path):
            if one.path.startswith(f"{self.site_packages}/"):
                inside = one.path.removeprefix(f"{self.site_packages}/")
                writer.writerow([inside, *(("", "") if one.target else hashes.get(inside, ("", "")))])
            else:
                outside = one.path.replace("python-scripts/", "bin/", 1)
                writer.writerow([f"../../../{outside}", "", ""])
        if self.is_portable:
            for name, _ in self.entry_points():
                writer.writerow([f"../../../bin/{name}", "", ""])
        writer.writerow([f"{self.info}/RECORD", "", ""])
        return out.getvalue()

    def _hashes(self) -> dict[str, tuple[str, str]]:
        """Hash and size by path from the wheel's own list, which its sha256 vouches for."""
        rows = list(csv.reader(io.StringIO(self.text("RECORD"))))
        found = {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}
        installer = base64.urlsafe_b64encode(hashlib.sha256(b"conda\n").digest()).rstrip(b"=").decode()
        data = f"{self.info.removesuffix('.dist-info')}.data/"
        moved = {self._data_path(path.removeprefix(data)): row for path, row in found.items() if path.startswith(data)}
        inside = {path.removeprefix(f"{self.site_packages}/"): row for path, row in moved.items()}
        return {**inside, **found, f"{self.info}/INSTALLER": (f"sha256={installer}", "6")}


def _members(archive: zipfile.ZipFile, filename: str) -> dict[str, zipfile.ZipInfo]:
    """The files of a wheel by path; a path that leaves the folder is refused."""
    found = {member.filename: member for member in archive.infolist() if not member.is_dir()}
    for name in found:
        if name.startswith("/") or ".." in name.split("/"):
            raise broken(f"{filename} holds a file outside of its folder: {name}")
    return found


def build_number(build: str | None) -> int:
    """The number at the end of a build string."""
    tail = (build or "").rpartition("_")[2]
    return int(tail) if tail.isdigit() else 0


def match_spec(requirement: Requirement, names: Mapping[str, str]) -> str:
    """A requirement of a wheel as conda says it; extras and local versions have no place there."""
    parts = sorted(part for one in requirement.specifier for part in _conda_versions(one))
    return f"{conda_name(requirement.name, names)} {','.join(parts)}".strip()


def _conda_versions(one: Specifier) -> tuple[str, ...]:
    version = one.version.partition("+")[0]
    if one.operator in ("==", "==="):
        return (version,) if version.endswith(".*") else (f"=={version}",)
    if one.operator == "~=":
        return (f">={version}", f"{version.rpartition('.')[0]}.*")
    return (f"{one.operator}{version}",)


def _python_needed(requires: str | None, tags: Iterable[Tag]) -> str:
    """The interpreters of a package for several: what it says itself, and the oldest that its tags name."""
    own = Requirement(f"python{requires}" if requires else "python")
    oldest = [tag.interpreter[2:] for tag in tags if len(tag.interpreter) > 3]
    parts = {part for one in own.specifier for part in _conda_versions(one)}
    if oldest and all(len(tag.interpreter) > 3 for tag in tags):
        floor = min(int(text[1:]) for text in oldest)
        named = [int(text) for text in re.findall(r">=3\.(\d+)", ",".join(parts))]
        if not named or max(named) < floor:
            parts = {part for part in parts if not part.startswith(">=3.")} | {f">=3.{floor}"}
    return f"python {','.join(sorted(parts))}".strip()


def _glibc(tags: Iterable[Tag]) -> Iterator[str]:
    """The oldest C library that a wheel for Linux runs with: the lowest that it claims."""
    claimed = []
    for tag in tags:
        if match := re.match(r"manylinux_(\d+)_(\d+)_", tag.platform):
            claimed.append((int(match[1]), int(match[2])))
        elif legacy := _LEGACY_GLIBC.get(tag.platform.partition("_")[0]):
            claimed.append(legacy)
    if claimed:
        major, minor = min(claimed)
        yield f"__glibc >={major}.{minor},<{major + 1}.0.a0"


def _license(metadata: Message) -> str | None:
    """A short name of the licence."""
    expression = metadata.get("License-Expression")
    if expression:
        return str(expression)
    classified = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or [] if "License ::" in line]
    said = (metadata.get("License") or "").strip()
    return said if said and "\n" not in said and len(said) <= 60 else " AND ".join(classified) or None


def _project_url(metadata: Message) -> str | None:
    for line in metadata.get_all("Project-URL") or []:
        label, _, url = line.partition(",")
        if label.strip().lower() in ("homepage", "home", "source", "repository", "source code", "code"):
            return str(url.strip())
    return None
