"""Writes a `.conda` archive: the same package gives the same bytes, and files stream into it without a copy on disk."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import zstandard

PLACEHOLDER = ("/opt/lockgen" + "_placeholder" * 21)[:255]
"""The prefix that built files hold until they are installed; as long as conda allows."""
_CHUNK = 1 << 20
_LARGE = 50_000_000
_LEVEL, _LEVEL_LARGE = 12, 4
_THREADS = 2  # part of the bytes: one thread frames its output in another way than several
_ZIP64 = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFile:
    """One file of a package, opened when its turn comes."""

    path: str
    """Below the prefix, with `/`."""
    size: int = 0
    open: Callable[[], IO[bytes]] = io.BytesIO
    executable: bool = False
    placeholder: str | None = None
    """The prefix in this text that installing replaces."""
    target: str | None = None
    """Where a symbolic link points, relative to its folder."""


def text_file(path: str, data: bytes, *, executable: bool = False) -> PackedFile:
    """A file held in memory; where it names the placeholder, installing puts the prefix there."""
    holds = PLACEHOLDER if PLACEHOLDER.encode() in data else None
    return PackedFile(
        path=path, size=len(data), open=lambda: io.BytesIO(data), executable=executable, placeholder=holds
    )


def disk_file(path: str, source: Path, *, prefix: str | None = None) -> PackedFile:
    """A file or link on disk; a text that names `prefix` gets another one when it is installed."""
    if source.is_symlink():
        return PackedFile(path=path, target=os.readlink(source))
    status = source.stat()
    return PackedFile(
        path=path,
        size=status.st_size,
        open=lambda: source.open("rb"),
        executable=bool(status.st_mode & 0o100),
        placeholder=prefix if prefix and _text_names(source, prefix.encode()) else None,
    )


def _text_names(source: Path, prefix: bytes) -> bool:
    data = source.read_bytes()
    return prefix in data and b"\0" not in data


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """Everything an archive is made of."""

    name: str
    version: str
    build: str
    build_number: int = 0
    subdir: str
    timestamp: int
    """Seconds since 1970: the time of every file in the archive."""
    noarch: str | None = None
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    license: str | None = None
    summary: str | None = None
    home: str | None = None
    entry_points: tuple[str, ...] = ()
    python_site_packages_path: str | None = None
    files: tuple[PackedFile, ...] = ()
    licenses: Mapping[str, bytes] = field(default_factory=dict)
    """File name → text, for `info/licenses`."""

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}-{self.build}.conda"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What became of one file in the archive."""

    file: PackedFile
    sha256: str
    size: int

    def entry(self) -> dict[str, Any]:
        """The file's entry in `paths.json`."""
        kind = "softlink" if self.file.target else "hardlink"
        entry: dict[str, Any] = {
            "_path": self.file.path,
            "path_type": kind,
            "sha256": self.sha256,
            "size_in_bytes": self.size,
        }
        if self.file.placeholder:
            entry |= {"prefix_placeholder": self.file.placeholder, "file_mode": "text"}
        return entry


def write(package: Package, folder: Path) -> Path:
    """
    Write the archive to `folder/SUBDIR`; a killed run leaves no half archive under its name.

    Returns:
        Where it lies.
    """
    target = folder / package.subdir / package.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            _write_zip(package, out)
        temporary.chmod(0o644)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _write_zip(package: Package, out: IO[bytes]) -> None:
    stem = package.filename.removesuffix(".conda")
    files = sorted(package.files, key=lambda one: one.path)
    total = sum(one.size for one in files)
    level = _LEVEL_LARGE if total > _LARGE else _LEVEL
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:

        def member(name: str) -> IO[bytes]:
            info = zipfile.ZipInfo(name, time.gmtime(package.timestamp)[:6])
            info.create_system, info.external_attr = 3, 0o644 << 16
            return archive.open(info, "w", force_zip64=total >= _ZIP64)

        with member("metadata.json") as part:
            part.write(b'{"conda_pkg_format_version": 2}')
        with member(f"pkg-{stem}.tar.zst") as part:
            written = _write_files(files, part, level, package.timestamp)
        with member(f"info-{stem}.tar.zst") as part:
            info_files = [text_file(f"info/{name}", data) for name, data in _info(package, written).items()]
            _write_files(info_files, part, _LEVEL, package.timestamp)


def _write_files(files: Iterable[PackedFile], out: IO[bytes], level: int, timestamp: int) -> tuple[_Written, ...]:
    compressor = zstandard.ZstdCompressor(level=level, threads=_THREADS)
    links: list[PackedFile] = []
    written: dict[str, _Written] = {}
    with (
        compressor.stream_writer(out, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_CHUNK) as tar,
    ):
        for one in files:
            if one.target:
                tar.addfile(_member(one, timestamp))
                links.append(one)
            else:
                written[one.path] = _add(tar, one, timestamp)
    for link in links:
        written[link.path] = _link(link, written)
    return tuple(written[path] for path in sorted(written))


def _member(one: PackedFile, timestamp: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(one.path)
    member.size, member.mtime = one.size, timestamp
    member.mode = 0o755 if one.executable else 0o644
    if one.target:
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, one.target, 0o777
    return member


class _Hashing:
    """A reader that hashes what passes through it."""

    def __init__(self, source: IO[bytes]) -> None:
        self.hash = hashlib.sha256()
        self._source = source

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.hash.update(data)
        return data


def _add(tar: tarfile.TarFile, one: PackedFile, timestamp: int) -> _Written:
    with one.open() as source:
        reader = _Hashing(source)
        tar.copybufsize = _CHUNK  # type: ignore[attr-defined]  # what one read asks for
        tar.addfile(_member(one, timestamp), reader)
    return _Written(file=one, sha256=reader.hash.hexdigest(), size=one.size)


def _link(one: PackedFile, written: Mapping[str, _Written]) -> _Written:
    """A link counts as what it points to, or as nothing where that lies in another package."""
    assert one.target is not None
    path = os.path.normpath(os.path.join(os.path.dirname(one.path), one.target))
    found = written.get(path)
    if found is None:
        return _Written(file=one, sha256=hashlib.sha256(b"").hexdigest(), size=0)
    return _Written(file=one, sha256=found.sha256, size=found.size)


def _info(package: Package, written: tuple[_Written, ...]) -> dict[str, bytes]:
    """The files of `info/`."""
    texts: dict[str, Any] = {
        "about.json": _present(home=package.home, license=package.license, summary=package.summary),
        "index.json": index(package),
        "paths.json": {"paths": [one.entry() for one in written], "paths_version": 1},
    }
    if package.noarch == "python":
        noarch = {"type": "python", "entry_points": list(package.entry_points)}
        texts["link.json"] = {"noarch": noarch, "package_metadata_version": 1}
    info = {name: (json.dumps(value, indent=1, sort_keys=True) + "\n").encode() for name, value in texts.items()}
    info["files"] = "".join(f"{one.file.path}\n" for one in written).encode()
    held = [one.file for one in written if one.file.placeholder]
    if held:
        info["has_prefix"] = "".join(f"{one.placeholder} text {one.path}\n" for one in held).encode()
    return {**info, **{f"licenses/{name}": package.licenses[name] for name in sorted(package.licenses)}}


def index(package: Package) -> dict[str, Any]:
    """The content of `info/index.json`, from which the channel's index is made."""
    system, _, machine = package.subdir.partition("-")
    architecture = {"64": "x86_64"}.get(machine, machine)
    return {
        "name": package.name,
        "version": package.version,
        "build": package.build,
        "build_number": package.build_number,
        "subdir": package.subdir,
        "arch": architecture or None,
        "platform": system if machine else None,
        "depends": list(package.depends),
        "constrains": list(package.constrains),
        "timestamp": package.timestamp * 1000,
        **_present(
            license=package.license,
            noarch=package.noarch,
            python_site_packages_path=package.python_site_packages_path,
        ),
    }


def _present(**values: str | None) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}
