"""The cache of unpacked packages, shared with pixi and its kin, and whether it is still what was unpacked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import platformdirs

from lockgen.errors import LockgenError, Problem
from lockgen.lock.model import LockedPackage

_BLOCK = 1 << 20


class PackageError(LockgenError):
    """A package cannot be had, or is not the one that was locked."""


def cache_folder() -> Path:
    """`$LOCKGEN_CACHE_DIR/pkgs`, else rattler's own."""
    if own := os.environ.get("LOCKGEN_CACHE_DIR"):
        return Path(own).absolute() / "pkgs"
    if rattlers := os.environ.get("RATTLER_CACHE_DIR"):
        return Path(rattlers).absolute() / "pkgs"
    return Path(platformdirs.user_cache_dir("rattler")) / "cache" / "pkgs"


def changed(cache: Path, packages: Iterable[LockedPackage]) -> frozenset[str]:
    """Names of packages in the cache with a file that is missing or not of the SHA-256 in their own list."""
    folders = {package.name: cache / _stem(package) for package in packages}
    here = {name: folder for name, folder in folders.items() if folder.is_dir()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        whole = pool.map(_is_whole, here.values())
        return frozenset(name for name, good in zip(here, whole, strict=True) if not good)


def _stem(package: LockedPackage) -> str:
    return unquote(package.filename).removesuffix(".conda").removesuffix(".tar.bz2")


def _is_whole(folder: Path) -> bool:
    try:
        rows: list[dict[str, Any]] = json.loads((folder / "info" / "paths.json").read_bytes())["paths"]
        return all(_is_right(folder, row) for row in rows)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _is_right(folder: Path, row: dict[str, Any]) -> bool:
    path = folder / row["_path"]
    if row.get("path_type") != "hardlink" or not row.get("sha256"):
        return os.path.lexists(path)
    size = row.get("size_in_bytes")
    return (size is None or path.stat().st_size == size) and _hash(path, "sha256") == str(row["sha256"])


def _hash(path: Path, kind: str) -> str:
    found = hashlib.new(kind)
    with path.open("rb") as data:
        while block := data.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def check_room(cache: Path, packages: Sequence[LockedPackage]) -> None:
    """
    Refuse what is sure not to fit: unpacked, packages are larger than their archives.

    Raises:
        PackageError: the cache's disk has less room than the archives take.
    """
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    needed, free = sum(one.size for one in packages), shutil.disk_usage(there).free
    if needed > free:
        message = (
            f"the packages take more than {needed / 1e6:,.0f} MB, the disk of {cache} has {free / 1e6:,.0f} MB free"
        )
        raise PackageError(Problem(message=message, hint="`LOCKGEN_CACHE_DIR` names another folder for the cache"))


def check_local(cache: Path, packages: Iterable[LockedPackage]) -> None:
    """
    Hash the archives of channels that are folders: rattler checks only what comes over the network.

    Raises:
        PackageError: one is missing, or differs from the lock.
    """
    local = [one for one in packages if one.url.startswith("file://") and not _is_from_this(cache, one)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [problem for problem in pool.map(_local_problem, local) if problem]
    if problems:
        raise PackageError(*problems)


def _is_from_this(cache: Path, package: LockedPackage) -> bool:
    """Whether the cache holds the package of this hash: rattler keeps it in the lock file beside, after a number."""
    try:
        kept = (cache / f"{_stem(package)}.lock").read_bytes()[8:40]
    except OSError:
        return False
    return bool(package.sha256) and kept.hex() == package.sha256


def _local_problem(package: LockedPackage) -> Problem | None:
    path = Path(unquote(urlsplit(package.url).path))
    kind = "sha256" if package.sha256 else "md5"
    wanted = package.sha256 or package.md5
    try:
        found = _hash(path, kind) if wanted else ""
    except OSError as error:
        return Problem(message=f"cannot read {path}: {error.strerror}", hint="is the channel's folder still there?")
    if not wanted or found == wanted:
        return None
    if package.size and path.stat().st_size < package.size:
        message = f"{path} is cut off: {path.stat().st_size} bytes of {package.size}"
        return Problem(message=message, hint="build or copy it again")
    return Problem(message=f"{path} is not the package that was locked", detail=mismatch(kind, wanted, found))


def mismatch(kind: str, wanted: str, found: str) -> str:
    """Two hashes, one below the other."""
    return f"{kind} in the lock  {wanted}\n{kind} of the file {found}"
