"""Tiny wheels and recipes, for tests of the channel."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from lockgen.channel.interpreter import running

HERE = running()
WRITTEN = (2024, 2, 3, 4, 5, 6)


def write_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    tag: str = "py3-none-any",
    metadata: Iterable[str] = (),
    files: Mapping[str, bytes] | None = None,
    info: Mapping[str, bytes] | None = None,
) -> Path:
    """A wheel with some files, `files` by their path in it and `info` by their path in its `.dist-info`."""
    folder.mkdir(parents=True, exist_ok=True)
    dist = f"{name.replace('-', '_')}-{version}"
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *metadata]
    content = {f"{name.replace('-', '_')}/__init__.py": f"VERSION = {version!r}\n".encode(), **(files or {})}
    content[f"{dist}.dist-info/METADATA"] = "".join(f"{line}\n" for line in lines).encode()
    content[f"{dist}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nTag: {tag}\n".encode()
    content |= {f"{dist}.dist-info/{path}": data for path, data in (info or {}).items()}
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in content.items())
    content[f"{dist}.dist-info/RECORD"] = f"{record}{dist}.dist-info/RECORD,,\n".encode()
    target = folder / f"{dist}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, WRITTEN), data, zipfile.ZIP_DEFLATED)
    return target


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def head(**more: str) -> str:
    """The start of a recipe for the running interpreter, with a `python` of no files: 11 lines."""
    channel = {"name": "small", "python": HERE.minor, "platform": HERE.subdir, **more}
    lines = [f'{key} = "{value}"' for key, value in channel.items()]
    python = ["[[empty]]", 'name = "python"', f'version = "{HERE.version}"', 'build = "0_cpython"']
    return "\n".join(["[channel]", *lines, "epoch = 2026-11-30", "", *python, ""]) + "\n"


def listed(wheel: Path, **more: str) -> str:
    """The table of one wheel; other keys are TOML as they are."""
    name, version = wheel.name.split("-")[:2]
    rows = [f'name = "{name}"', f'version = "{version}"', f'sha256 = "{more.pop("sha256", sha256(wheel))}"']
    return "\n".join(["[[wheel]]", *rows, *(f"{key} = {value}" for key, value in more.items()), ""]) + "\n"


def write_recipe(folder: Path, *parts: str) -> Path:
    """A recipe of those parts."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "channel.toml"
    path.write_text("".join(parts), encoding="utf-8")
    return path
