"""A conda environment on disk: what it holds, whether that is right, and the lock that keeps others out meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockgen.errors import LockgenError, Problem
from lockgen.lock.model import LockedPackage

META = "conda-meta"
_STATE = "lockgen.state"
"""Not `.json`: conda takes every such file in `conda-meta` for a package."""
_UNFINISHED = "lockgen.unfinished"
_COMING = "coming"
_LOCK = "lockgen.lock"
_FETCHING = "lockgen.fetching"
_POLL = 0.1


class PrefixError(LockgenError):
    """A prefix cannot be installed into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A package in a prefix, as its record in `conda-meta` tells."""

    name: str
    version: str
    build: str
    url: str
    sha256: str
    md5: str
    record: str
    """Name of its file in `conda-meta`."""
    files: tuple[tuple[str, int | None], ...]
    """Paths below the prefix, each with its size where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What makes a prefix right."""

    link: tuple[LockedPackage, ...]
    """Packages that are not there, or there as another build, another archive, or broken."""
    reinstall: frozenset[str]
    """Names of those that are there under the same version and build."""
    remove: tuple[Installed, ...]
    """What the lock does not list, and what is replaced."""

    def __bool__(self) -> bool:
        return bool(self.link or self.remove)


def checked(named: Path) -> Path:
    """
    The absolute prefix.

    Raises:
        PrefixError: it holds something that is not a conda environment.
    """
    prefix = Path(os.path.abspath(named.expanduser()))
    try:
        if not prefix.exists():
            return prefix
        if not prefix.is_dir():
            raise PrefixError(Problem(message=f"{prefix} is not a folder"))
        if (prefix / META).is_dir() or not any(prefix.iterdir()):
            return prefix
    except OSError as error:
        raise PrefixError(Problem(message=f"cannot read {prefix}: {error.strerror}")) from None
    hint = "name a folder that does not exist yet, or that conda, mamba, pixi or lockgen made"
    raise PrefixError(Problem(message=f"{prefix} is not empty and not a conda environment", hint=hint))


# the lock


@contextlib.contextmanager
def held(prefix: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """
    Hold the prefix alone; wait while another process does, and tell who it is.

    The kernel lets go when a process ends, however it ends. Nothing but the lock is written before it is held.

    Raises:
        PrefixError: the prefix cannot be written.
    """
    try:
        import fcntl
    except ImportError:
        hint = "`conda-lock install` and `micromamba create -f` make the same environment from lockgen's files"
        raise PrefixError(Problem(message="`lockgen install` does not run on Windows", hint=hint)) from None
    path = prefix / META / _LOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        hint = "is it on a read-only disk, or another user's?"
        raise PrefixError(Problem(message=f"cannot write {prefix}: {error.strerror}", hint=hint)) from None
    try:
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    tell(f"waiting for {_holder(handle)}, which is changing {prefix}")
                told = True
                time.sleep(_POLL)
        os.truncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace").strip() or "another lockgen"


# what it holds


def digest(packages: Iterable[LockedPackage]) -> str:
    """A value that changes when any package does."""
    lines = sorted(f"{package.url} {package.sha256 or package.md5}" for package in packages)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def is_known(prefix: Path, wanted: str, *, compiled: bool) -> bool:
    """Whether nothing has touched the records since these packages were installed; quick, reads no record."""
    state = _state(prefix)
    if state.get("packages") != wanted or (compiled and not state.get("compiled")):
        return False
    return not is_unfinished(prefix) and state.get("records") == _stamps(prefix)


def remember(prefix: Path, wanted: str, *, compiled: bool) -> None:
    """Write down that the prefix holds these packages."""
    state = {"packages": wanted, "compiled": compiled, "records": _stamps(prefix)}
    with contextlib.suppress(OSError):
        _replace(prefix / META / _STATE, json.dumps(state))


def _state(prefix: Path) -> dict[str, Any]:
    state = _json(prefix / META / _STATE)
    return state if isinstance(state, dict) else {}


def _stamps(prefix: Path) -> dict[str, list[int]]:
    found = {}
    with contextlib.suppress(OSError), os.scandir(prefix / META) as entries:
        for entry in entries:
            if entry.name.endswith(".json"):
                stat = entry.stat()
                found[entry.name] = [stat.st_size, stat.st_mtime_ns]
    return found


def installed(prefix: Path) -> tuple[Installed, ...]:
    """The packages of a prefix by record; a record that cannot be read stands without a name."""
    return tuple(_installed(path) for path in sorted((prefix / META).glob("*.json")))


def _installed(path: Path) -> Installed:
    try:
        fields = json.loads(path.read_bytes())
        rows = fields.get("paths_data", {}).get("paths", [])
        sizes = {row["_path"]: row.get("size_in_bytes") for row in rows if row.get("path_type") == "hardlink"}
        changed = {row["_path"] for row in rows if "prefix_placeholder" in row or "file_mode" in row}
        return Installed(
            name=fields["name"],
            version=fields["version"],
            build=fields["build"],
            url=fields.get("url") or "",
            sha256=fields.get("sha256") or "",
            md5=fields.get("md5") or "",
            record=path.name,
            files=tuple((file, None if file in changed else sizes.get(file)) for file in fields.get("files", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Installed(name="", version="", build="", url="", sha256="", md5="", record=path.name, files=())


def changes(present: Sequence[Installed], wanted: Sequence[LockedPackage], bad: Iterable[str] = ()) -> Changes:
    """What differs between a prefix and a lock; `bad` are names to install again in any case."""
    there = {one.name: one for one in present}
    again = frozenset(bad)
    link = tuple(one for one in wanted if one.name in again or not _same(there.get(one.name), one))
    replaced = {one.name for one in link}
    names = {one.name for one in wanted}
    return Changes(
        link=link,
        reinstall=frozenset(one.name for one in link if _is_build(there.get(one.name), one)),
        remove=tuple(one for one in present if one.name not in names or one.name in replaced),
    )


def _is_build(one: Installed | None, package: LockedPackage) -> bool:
    return one is not None and (one.version, one.build) == (package.version, package.build)


def _same(one: Installed | None, package: LockedPackage) -> bool:
    """Whether the very archive is installed: the same SHA-256, else the same MD5, else the same URL."""
    if one is None or not _is_build(one, package):
        return False
    for mine, other in ((one.sha256, package.sha256), (one.md5, package.md5)):
        if mine and other:
            return mine == other
    return one.url == package.url


def broken(prefix: Path, present: Iterable[Installed]) -> frozenset[str]:
    """Names of packages with a file that is missing or has another size."""
    return frozenset(one.name for one in present if not all(_is_whole(prefix / file, size) for file, size in one.files))


def _is_whole(path: Path, size: int | None) -> bool:
    try:
        stat = path.lstat()
    except OSError:
        return False
    return size is None or path.is_symlink() or stat.st_size == size


_FROM_PACKAGE = ("depends", "constrains", "license", "license_family", "timestamp", "noarch")


def complete(prefix: Path, packages: Iterable[LockedPackage]) -> None:
    """Fill the records of packages whose lock holds little more than a URL from the packages themselves."""
    wanted = {f"{_stem(one)}.json" for one in packages}
    for path in (prefix / META).glob("*.json"):
        if path.name in wanted:
            record = json.loads(path.read_bytes())
            index = json.loads((Path(record["extracted_package_dir"]) / "info/index.json").read_bytes())
            record |= {key: index[key] for key in _FROM_PACKAGE if index.get(key) is not None}
            _replace(path, json.dumps(record, indent=2))


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    os.replace(temporary, path)


# a run that may be killed


def is_unfinished(prefix: Path) -> bool:
    """Whether a run ended between its first change and its last."""
    return (prefix / META / _UNFINISHED).is_dir()


def begin(prefix: Path, planned: Changes) -> None:
    """
    Before the first change: keep the records of what goes and the names of what comes, so that a later run can finish
    if this one is killed.

    Raises:
        PrefixError: the disk is full, or not to be written.
    """
    folder = prefix / META / _UNFINISHED
    try:
        folder.mkdir(exist_ok=True)
        for one in planned.remove:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                shutil.copyfile(prefix / META / one.record, folder / one.record)
        _replace(folder / _COMING, json.dumps([*_coming(folder), *(_stem(one) for one in planned.link)]))
        for one in planned.remove:
            if not one.name:
                (prefix / META / one.record).unlink(missing_ok=True)
    except OSError as error:
        raise PrefixError(Problem(message=f"cannot write {prefix}: {error.strerror}")) from None


def finish(prefix: Path, cache: Path) -> None:
    """
    After the last change: remove what only packages that went owned, or packages that a killed run had begun to link.

    Args:
        prefix: the environment, whole again.
        cache: where unpacked packages are; what was linked in part was unpacked whole.
    """
    folder = prefix / META / _UNFINISHED
    gone = [file for one in map(_installed, sorted(folder.glob("*.json"))) for file, _ in one.files]
    records = {path.stem for path in (prefix / META).glob("*.json")}
    begun = [stem for stem in _coming(folder) if stem not in records]
    if gone or begun:
        present = installed(prefix)
        owned = {file for one in present for file, _ in one.files}
        gone += [file for stem in begun for file in _linked_files(cache / stem, prefix)]
        _remove(prefix, (file for file in gone if file not in owned))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(scratch(prefix), ignore_errors=True)


def scratch(prefix: Path) -> Path:
    """A folder on the prefix's disk that no tool looks into; gone at the end of a run."""
    return prefix / META / _FETCHING


def _coming(folder: Path) -> list[str]:
    found = _json(folder / _COMING)
    return [str(each) for each in found] if isinstance(found, list) else []


def _stem(package: LockedPackage) -> str:
    return f"{package.name}-{package.version}-{package.build}"


def _linked_files(package: Path, prefix: Path) -> Iterator[str]:
    """Where the files of an unpacked package go, with those of noarch Python packages in each Python that is there."""
    paths, link = _json(package / "info/paths.json"), _json(package / "info/link.json")
    folders = [str(path.relative_to(prefix)) for path in prefix.glob("lib/python*/site-packages")]
    for row in paths.get("paths", ()) if isinstance(paths, dict) else ():
        file = str(row["_path"])
        if file.startswith("site-packages/"):
            yield from (f"{folder}/{file.removeprefix('site-packages/')}" for folder in folders)
        else:
            yield f"bin/{file.removeprefix('python-scripts/')}" if file.startswith("python-scripts/") else file
    noarch = link.get("noarch") if isinstance(link, dict) else None
    for entry in noarch.get("entry_points", ()) if isinstance(noarch, dict) else ():
        yield f"bin/{entry.partition('=')[0].strip()}"


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _remove(prefix: Path, files: Iterable[str]) -> None:
    """Files of removed packages, their compiled forms, and the folders that are empty without them."""
    folders = set()
    for file in files:
        path = prefix / file
        folders.add(path.parent)
        with contextlib.suppress(OSError):
            path.unlink()
    for folder in sorted(folders, reverse=True):
        _remove_compiled(folder)
        _prune(prefix, folder)


def _remove_compiled(folder: Path) -> None:
    """Compiled modules whose source is gone."""
    compiled = folder / "__pycache__"
    for path in compiled.glob("*.pyc"):
        if not (folder / f"{path.name.split('.')[0]}.py").exists():
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        compiled.rmdir()


def _prune(prefix: Path, folder: Path) -> None:
    while folder != prefix and prefix in folder.parents:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = folder.parent
