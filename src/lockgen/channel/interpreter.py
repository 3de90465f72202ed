"""The running CPython: what wheels fit it, and itself as a relocatable `python` package."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lockgen.channel.archive import Package, PackedFile, disk_file, text_file
from lockgen.channel.errors import broken

_LEFT_OUT = ("site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "turtledemo", "tkinter",
             "ensurepip", "config-*", "*.a", "*.pyc")  # fmt: skip
_MODULES_LEFT_OUT = ("_tkinter", "nis", "_test*", "xx*", "ossaudiodev", "_dbm", "_gdbm", "_ctypes_test")
_SYSTEM = ("linux-vdso.so*", "ld-linux*", "libc.so*", "libm.so*", "libdl.so*", "libpthread.so*", "librt.so*",
           "libresolv.so*", "libutil.so*", "libgcc_s.so*", "libstdc++.so*")  # fmt: skip
_NEEDED = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)
_GLIBC = re.compile(rb"GLIBC_2\.(\d+)\b")
_SUBDIRS = {("linux", "x86_64"): "linux-64", ("linux", "aarch64"): "linux-aarch64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The CPython that packages are made for."""

    version: str
    """As `3.11.7`."""
    minor: str
    """As `3.11`."""
    subdir: str
    """The platform as conda calls it."""

    @property
    def abi(self) -> str:
        return "cp" + self.minor.replace(".", "")

    @property
    def site_packages(self) -> str:
        return f"lib/python{self.minor}/site-packages"

    def depends(self) -> tuple[str, ...]:
        """What a package with code for this interpreter alone asks for."""
        major, minor = self.minor.split(".")
        return (f"python >={self.minor},<{major}.{int(minor) + 1}.0a0", f"python_abi {self.minor}.* *_{self.abi}")

    def __str__(self) -> str:
        return f"CPython {self.minor} on {self.subdir}"


def running() -> Interpreter:
    """
    The interpreter that runs this.

    Raises:
        BuildError: no conda platform is made from it here.
    """
    subdir = _SUBDIRS.get((sys.platform, platform.machine()))
    if subdir is None or sys.implementation.name != "cpython":
        raise broken(
            f"no channel can be built with {sys.implementation.name} on {sys.platform}, {platform.machine()}",
            hint="build it with CPython on Linux, x86-64 or arm64",
        )
    version = ".".join(map(str, sys.version_info[:3]))
    return Interpreter(version=version, minor=version.rpartition(".")[0], subdir=subdir)


def fingerprint() -> str:
    """What the `python` package is made of: the interpreter's own files by name, size and time."""
    text = hashlib.sha256(f"{sys.version} {shutil.which('strip')}".encode())
    for name, source in sorted(_stdlib(_base(), running().minor).items()):
        status = source.lstat()
        text.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return text.hexdigest()


def python_packages(here: Interpreter, patchelf: bytes, timestamp: int, folder: Path) -> tuple[Package, ...]:
    """
    `python` and `python_abi`, made of this interpreter.

    Args:
        patchelf: the program that changes run paths.
        folder: where files are changed before they are packed; the packages read from it.

    Raises:
        BuildError: the interpreter cannot be moved, or a library that it needs is missing.
    """
    base, stage = _base(), folder / "python"
    _copy_programs(base, here.minor, stage, patchelf, folder)
    files = [*_staged(stage), *_texts(base, here.minor)]
    _try(stage, base, here)
    build = hashlib.sha256(fingerprint().encode() + patchelf).hexdigest()[:7]
    python = Package(
        name="python",
        version=here.version,
        build=f"h{build}_0_cpython",
        subdir=here.subdir,
        timestamp=timestamp,
        depends=(f"__glibc >={_glibc(stage)},<3.0.a0",),
        constrains=(f"python_abi {here.minor}.* *_{here.abi}",),
        license="Python-2.0",
        summary="The CPython interpreter of the machine that built this channel",
        python_site_packages_path=here.site_packages,
        files=tuple(files),
        licenses=_licenses(base, here.minor),
    )
    return (python, _abi(here, timestamp))


def _abi(here: Interpreter, timestamp: int) -> Package:
    return Package(
        name="python_abi",
        version=here.minor,
        build=f"8_{here.abi}",
        build_number=8,
        subdir="noarch",
        noarch="generic",
        timestamp=timestamp,
        constrains=(f"python {here.minor}.* *_cpython",),
        license="BSD-3-Clause",
        summary="Which binary interface of Python packages are built for",
    )


def _base() -> Path:
    return Path(sys.base_prefix).resolve()


def _stdlib(base: Path, minor: str) -> dict[str, Path]:
    """The interpreter's files by their path below the prefix: library, headers, licence; no programs yet."""
    found: dict[str, Path] = {}
    for top in (f"lib/python{minor}", f"include/python{minor}"):
        for folder, folders, names in os.walk(base / top):
            folders[:] = sorted(name for name in folders if not _is_left_out(name))
            for name in sorted(names):
                source = Path(folder, name)
                if not _is_left_out(name) and not _is_module_left_out(source):
                    found[source.relative_to(base).as_posix()] = source
    return found


def _is_left_out(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _LEFT_OUT)


def _is_module_left_out(source: Path) -> bool:
    stem = source.name.partition(".")[0]
    return source.suffix == ".so" and any(fnmatch.fnmatchcase(stem, pattern) for pattern in _MODULES_LEFT_OUT)


def _is_program(source: Path) -> bool:
    """Whether a file is an ELF file."""
    with source.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


def _texts(base: Path, minor: str) -> Iterator[PackedFile]:
    """Everything of the interpreter that is packed as it is."""
    for path, source in _stdlib(base, minor).items():
        if source.suffix != ".so":
            yield disk_file(path, source, prefix=str(base))
    site_packages = f"lib/python{minor}/site-packages/README.txt"
    yield text_file(site_packages, b"Python packages of this environment are installed here.\n")


def _copy_programs(base: Path, minor: str, stage: Path, patchelf: bytes, folder: Path) -> None:
    """Copy what is machine code, and the libraries it needs, and make them find each other wherever they lie."""
    executable = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
    programs = {f"bin/python{minor}": executable}
    programs |= {path: source for path, source in _stdlib(base, minor).items() if source.suffix == ".so"}
    programs |= {f"lib/{name}": source for name, source in _libraries(programs.values()).items()}
    strip = shutil.which("strip")
    tool = folder / "patchelf"
    tool.write_bytes(patchelf)
    tool.chmod(0o755)
    for path, source in sorted(programs.items()):
        copy = stage / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
        copy.chmod(0o755)
        if strip:
            _call(strip, "--strip-unneeded", str(copy))
        up = os.path.relpath(stage / "lib", copy.parent)
        _call(str(tool), "--set-rpath", "$ORIGIN" if up == "." else f"$ORIGIN/{up}", str(copy))
    for name in ("python", "python3"):
        (stage / "bin" / name).symlink_to(f"python{minor}")
    shared = stage / "lib" / f"libpython{minor}.so"
    if shared.with_name(f"{shared.name}.1.0").exists():
        shared.symlink_to(f"{shared.name}.1.0")


def _libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The shared libraries that programs need and that no Linux is sure to have, by the name they are asked for."""
    found: dict[str, Path] = {}
    for program in programs:
        text = _call("ldd", str(program))
        missing = re.findall(r"(\S+) => not found", text)
        if missing:
            raise broken(f"{program} needs {', '.join(missing)}, which this machine does not have")
        found |= {name: Path(os.path.realpath(path)) for name, path in _NEEDED.findall(text)}
    return {name: path for name, path in found.items() if not any(fnmatch.fnmatchcase(name, one) for one in _SYSTEM)}


def _staged(stage: Path) -> Iterator[PackedFile]:
    for source in sorted(stage.rglob("*")):
        if source.is_symlink() or source.is_file():
            yield disk_file(source.relative_to(stage).as_posix(), source)


def _glibc(stage: Path) -> str:
    """The newest C library that any of the programs asks for."""
    programs = [source for source in stage.rglob("*") if source.is_file() and _is_program(source)]
    asked = {int(number) for source in programs for number in _GLIBC.findall(source.read_bytes())}
    return f"2.{max(asked, default=17)}"


def _try(stage: Path, base: Path, here: Interpreter) -> None:
    """Start the copy with its library beside it; it has to find itself, its modules and its own site-packages."""
    library = stage / f"lib/python{here.minor}"
    source = base / f"lib/python{here.minor}"
    with tempfile.TemporaryDirectory() as moved:
        place = Path(moved)
        (place / "bin").symlink_to(stage / "bin")
        copy = place / "lib" / library.name
        copy.mkdir(parents=True)
        for one in source.iterdir():
            if one.name not in ("lib-dynload", "site-packages", "__pycache__"):
                (copy / one.name).symlink_to(one)
        (copy / "lib-dynload").symlink_to(library / "lib-dynload")
        code = "import sqlite3, ssl, ctypes, zlib, lzma, bz2, sysconfig; print(sysconfig.get_path('purelib'))"
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONHOME": str(place)}
        text = _call(str(place / "bin" / "python"), "-B", "-S", "-c", code, environment=environment)
    expected = str(place / here.site_packages)
    if text.strip() != expected:
        found = text.strip().removeprefix(f"{moved}/")
        raise broken(
            f"this interpreter keeps its packages in {found}, not in {here.site_packages}",
            hint="build the channel with a CPython that is not changed by its distribution, as from pyenv or uv",
        )


def _licenses(base: Path, minor: str) -> Mapping[str, bytes]:
    source = base / f"lib/python{minor}" / "LICENSE.txt"
    return {"LICENSE.txt": source.read_bytes()} if source.is_file() else {}


def _call(*command: str, environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except FileNotFoundError:
        raise broken(f"no `{command[0]}` on this machine, which building `python` needs") from None
    if done.returncode and "not a dynamic executable" not in done.stderr:
        raise broken(f"`{' '.join(command[:2])}` ended with {done.returncode}", detail=done.stderr[-2000:])
    return done.stdout
