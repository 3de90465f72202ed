"""A small environment on disk for `lockgen verify`: a venv with conda's records, and packages of a few lines."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from lock_values import package, request

from lockgen.lock.model import Lock, LockedPackage, PlatformLock
from lockgen.verify.run import PAYLOAD

SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
sys.path.insert(0, str(PAYLOAD.parent))
from lockgen_checks import _elf  # noqa: E402


def _objects() -> list[Path]:
    """Real shared objects of the running interpreter that need the C library and nothing else, smallest first."""
    found = Path(sysconfig.get_config_var("DESTSHARED")).glob("*.so")
    return sorted(
        (path for path in found if _elf.read(path).needed == ["libc.so.6"]), key=lambda path: path.stat().st_size
    )


OBJECTS = _objects()

TORCH = """
import os, sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
__version__ = "2.9.1"
def _map(name):
    path = os.path.join(sys.prefix, "lib", name)
    try:
        ExtensionFileLoader(name, path).create_module(ModuleSpec(name, None, origin=path))
    except ImportError:
        pass  # no module of that name in it, but it stays mapped
_map("libgomp.so.1")
class _Names:
    def __init__(self, **names): self.__dict__.update(names)
version = _Names(cuda=None, git_version="0", debug=False)
backends = _Names(cudnn=_Names(is_available=lambda: False, version=lambda: None))
cuda = _Names(is_available=lambda: False)
__config__ = _Names(show=lambda: "fake", parallel_info=lambda: "fake")
"""

FILES: dict[str, dict[str, str | Path]] = {
    "pytorch": {f"{SITE}/torch/__init__.py": TORCH, f"{SITE}/torchgen/__init__.py": ""},
    "transformers": {f"{SITE}/transformers/__init__.py": ""},
    "libgomp": {"lib/libgomp.so.1": OBJECTS[0]},
    "llvm-openmp": {"lib/libomp.so": OBJECTS[0]},
    "alpha": {f"{SITE}/alpha/__init__.py": "", f"{SITE}/alpha-1.0.dist-info/METADATA": "Name: alpha\n"},
    "beta": {f"{SITE}/beta.py": "import alpha\n", f"{SITE}/space/beta/__init__.py": ""},
    "gamma": {f"{SITE}/gamma/__init__.py": "", f"{SITE}/tests/__init__.py": "raise RuntimeError"},
}
VERSIONS = {"pytorch": "2.9.1"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FakePrefix:
    """The folder, and the lock that it answers."""

    path: Path
    lock: Lock

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def site(self) -> Path:
        return self.path / SITE


def make(folder: Path) -> FakePrefix:
    """Install the fake packages, as a conda client would, and lock them."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "conda-meta").mkdir()
    version = ".".join(map(str, sys.version_info[:3]))
    locked = [package("python", version, "0_cpython")]
    record(folder, locked[0], ["bin/python"])
    for name, files in FILES.items():
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            data = content.read_bytes() if isinstance(content, Path) else content.encode()
            (folder / path).write_bytes(data)
        locked.append(package(name, VERSIONS.get(name, "1.0"), "cpu_0"))
        record(folder, locked[-1], list(files))
    platform = PlatformLock(request=request("linux-64"), packages=tuple(sorted(locked, key=lambda one: one.name)))
    return FakePrefix(path=folder, lock=Lock(name="fake", platforms=(platform,)))


def record(folder: Path, locked: LockedPackage, paths: list[str]) -> None:
    """Write a package's record, with the size and hash of each of its files."""
    data = [_path(folder, path) for path in paths]
    value = {
        "name": locked.name, "version": locked.version, "build": locked.build, "build_number": 0,
        "subdir": "linux-64", "files": paths, "paths_data": {"paths_version": 1, "paths": data},
    }  # fmt: skip
    file = folder / "conda-meta" / f"{locked.name}-{locked.version}-{locked.build}.json"
    file.write_text(json.dumps(value))


def _path(folder: Path, path: str) -> dict[str, Any]:
    content = (folder / path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return {
        "_path": path,
        "path_type": "hardlink",
        "sha256": digest,
        "sha256_in_prefix": digest,
        "size_in_bytes": len(content),
    }
