"""The index of a channel, which makes packages in a folder something that a solver can read."""

from __future__ import annotations

import asyncio
import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from lockgen.channel.errors import BuildError, broken
from lockgen.errors import Problem, error_from


def index(folder: Path) -> None:
    """
    Write `repodata.json` and `repodata.json.zst` for every platform of a channel.

    Raises:
        BuildError: there is no such folder, or a package in it cannot be read.
    """
    if not folder.is_dir():
        raise BuildError(
            Problem(message=f"no such folder: {folder}", hint="a channel is a folder CHANNEL/SUBDIR/*.conda")
        )
    error_from(BuildError, _broken(folder))  # rattler itself panics at these
    from rattler.index import index_fs

    (folder / "noarch").mkdir(exist_ok=True)
    try:
        asyncio.run(index_fs(folder.resolve(), write_zst=True, write_shards=False, force=_is_stale(folder)))
    except Exception as error:  # rattler raises what its Rust side says
        raise broken(f"cannot index {folder}", detail=str(error)) from None


def _is_stale(folder: Path) -> bool:
    """Whether a package is not the one that the present index describes under its name: rattler goes by names alone."""
    for known in folder.glob("*/repodata.json"):
        try:
            found = json.loads(known.read_bytes())
            listed = {**found.get("packages", {}), **found.get("packages.conda", {})}
            wanted = {known.parent / name: record["sha256"] for name, record in listed.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return True  # an index that says nothing of its packages is written anew
        if any(path.is_file() and _sha256(path) != expected for path, expected in wanted.items()):
            return True
    return False


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _broken(folder: Path) -> Iterator[Problem]:
    """Archives that end too early or are none."""
    for path in sorted([*folder.glob("*/*.conda"), *folder.glob("*/*.tar.bz2")]):
        with path.open("rb") as opened:
            is_bzip2 = opened.read(3) == b"BZh"
        if not (is_bzip2 if path.suffix == ".bz2" else zipfile.is_zipfile(path)):
            hint = "build it again, or remove it"
            yield Problem(message=f"{path.relative_to(folder)} is not a whole conda package", hint=hint)
