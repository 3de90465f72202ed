"""Tiny real packages, in channels that are folders: archives with hashes, prefixes in files, entry points."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from lockgen.lock.model import Lock, LockedPackage, PlatformLock
from lockgen.lock.registry import codec
from lockgen.request import Request

PLACEHOLDER = "/opt/placeholder_" + "x" * 60
"""The prefix that built packages hold, as conda-build leaves it."""
VIRTUAL = ("__archspec=1=x86_64", "__glibc=2.28=0", "__linux=4.18=0", "__unix=0=0")
PYTHON = "3.11.4"
SITE_PACKAGES = "lib/python3.11/site-packages"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a package is made of."""

    name: str
    version: str = "1.0"
    build: str = "h0_0"
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    subdir: str = "linux-64"
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Path → content; text that holds `PLACEHOLDER` gets the prefix, `bin/` is executable."""
    noarch: str | None = None
    entry_points: tuple[str, ...] = ()
    """`name = module:function`, for noarch Python."""
    archive: str = ".conda"
    python_site_packages_path: str | None = None

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"


def python_recipe(version: str = PYTHON) -> Recipe:
    """A `python` that is a shell script: enough for linking noarch packages and for running their entry points."""
    script = f'#!/bin/sh\n# {PLACEHOLDER}\necho "python of {PLACEHOLDER}" "$@"\n'
    minor = version.rpartition(".")[0]
    return Recipe(name="python", version=version, files={"bin/python": script, f"bin/python{minor}": script})


def noarch_python(name: str, version: str = "1.0", **more: object) -> Recipe:
    """A pure Python package with one module."""
    values: dict[str, object] = {
        "files": {f"site-packages/{name}/__init__.py": f"VERSION = {version!r}\n"},
        "depends": ("python",),
        "build": "pyh0_0",
        **more,
    }
    return Recipe(name=name, version=version, subdir="noarch", noarch="python", **values)  # type: ignore[arg-type]


def write_channel(folder: Path, recipes: Iterable[Recipe], base: str | None = None) -> dict[str, LockedPackage]:
    """Build the packages into a channel; the locked packages by name. `base` is its URL, by default `file://`."""
    url = (base or folder.resolve().as_uri()).rstrip("/")
    return {recipe.name: _write(folder, recipe, url) for recipe in recipes}


def lock_of(packages: Iterable[LockedPackage], platform: str = "linux-64", **fields: object) -> Lock:
    """A lock of some packages on one platform."""
    ordered = tuple(sorted(packages, key=lambda one: one.name))
    channels = tuple(dict.fromkeys(one.channel for one in ordered))
    values: dict[str, object] = {"channels": channels, "virtual_packages": VIRTUAL, "requirements": (), **fields}
    request = Request(platform=platform, **values)  # type: ignore[arg-type]
    return Lock(name="small", platforms=(PlatformLock(request=request, packages=ordered),))


def write_lock(folder: Path, lock: Lock, kind: str = "conda-lock-v1") -> Path:
    """The lock in one format; the path of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    ((name, text),) = codec(kind).dump((lock,)).items()
    (folder / name).write_text(text)
    return folder / name


def _write(folder: Path, recipe: Recipe, url: str) -> LockedPackage:
    data = _conda(recipe) if recipe.archive == ".conda" else _tar_bz2(recipe)
    filename = recipe.stem + recipe.archive
    path = folder / recipe.subdir / filename
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return LockedPackage(
        name=recipe.name,
        version=recipe.version,
        build=recipe.build,
        build_number=0,
        subdir=recipe.subdir,
        channel=url,
        url=f"{url}/{recipe.subdir}/{filename}",
        sha256=hashlib.sha256(data).hexdigest(),
        md5=hashlib.md5(data).hexdigest(),
        size=len(data),
        depends=recipe.depends,
        constrains=recipe.constrains,
        noarch=recipe.noarch,
        python_site_packages_path=recipe.python_site_packages_path,
    )


def _content(recipe: Recipe) -> dict[str, bytes]:
    return {path: text.encode() if isinstance(text, str) else text for path, text in sorted(recipe.files.items())}


def _info(recipe: Recipe) -> dict[str, bytes]:
    content = _content(recipe)
    index = {
        "name": recipe.name, "version": recipe.version, "build": recipe.build, "build_number": 0,
        "depends": list(recipe.depends), "constrains": list(recipe.constrains), "subdir": recipe.subdir,
        "timestamp": 1_700_000_000_000,
    }  # fmt: skip
    if recipe.noarch:
        index["noarch"] = recipe.noarch
    if recipe.python_site_packages_path:
        index["python_site_packages_path"] = recipe.python_site_packages_path
    paths = [_path_entry(path, data) for path, data in content.items()]
    info = {
        "index.json": json.dumps(index).encode(),
        "paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
        "about.json": b"{}",
        "files": "".join(f"{path}\n" for path in content).encode(),
    }
    if recipe.noarch == "python":
        link = {"noarch": {"type": "python", "entry_points": list(recipe.entry_points)}, "package_metadata_version": 1}
        info["link.json"] = json.dumps(link).encode()
    return info


def _path_entry(path: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {
        "_path": path, "path_type": "hardlink",
        "sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data),
    }  # fmt: skip
    if PLACEHOLDER.encode() in data:
        mode = "binary" if b"\0" in data else "text"
        entry |= {"prefix_placeholder": PLACEHOLDER, "file_mode": mode}
    return entry


def _tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(data), 1_700_000_000, 0o755 if "bin/" in path else 0o644
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _conda(recipe: Recipe) -> bytes:
    compress = zstandard.ZstdCompressor(level=3).compress
    info = {f"info/{name}": data for name, data in _info(recipe).items()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (
            ("metadata.json", b'{"conda_pkg_format_version": 2}'),
            (f"pkg-{recipe.stem}.tar.zst", compress(_tar(_content(recipe)))),
            (f"info-{recipe.stem}.tar.zst", compress(_tar(info))),
        ):
            archive.writestr(zipfile.ZipInfo(name, (2023, 11, 14, 0, 0, 0)), data)
    return out.getvalue()


def _tar_bz2(recipe: Recipe) -> bytes:
    return bz2.compress(_tar({**_content(recipe), **{f"info/{name}": data for name, data in _info(recipe).items()}}))
