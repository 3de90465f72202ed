"""Locks and specs on disk, as commands name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lockgen.errors import LockError, Problem
from lockgen.lock.model import Lock
from lockgen.lock.registry import codec

PATTERN = "conda-lock*.yml"


def folder_of(spec: Path) -> Path:
    """The folder that a spec's files are written to, beside it: `envs/x.yaml` → `envs/x`."""
    return spec.with_suffix("")


def read_locks(folder: Path) -> tuple[Lock, ...]:
    """The canonical locks in a folder, ordered by variant; none where there is none."""
    load = codec("conda-lock-v1").load
    assert load is not None
    found = [lock for path in sorted(folder.glob(PATTERN)) for lock in load(_text(path), str(path))]
    return tuple(sorted(found, key=lambda lock: lock.variant or ""))


def find_locks(named: Path | None) -> tuple[Lock, ...]:
    """
    The locks that a command is about: a lock file, a folder of them, a spec's folder, or the only one here.

    Raises:
        LockError: there is none, or more than one and none was named.
    """
    if named is None:
        return read_locks(_only_folder())
    if named.is_dir():
        return _some(read_locks(named), named)
    if named.name.startswith("conda-lock"):
        load = codec("conda-lock-v1").load
        assert load is not None
        return load(_text(named), str(named))
    return _some(read_locks(folder_of(named)), folder_of(named))


def _some(locks: tuple[Lock, ...], folder: Path) -> tuple[Lock, ...]:
    if not locks:
        hint = "to write one, run `lockgen resolve` on a spec"
        raise LockError(Problem(message=f"no lock in {folder}", hint=hint))
    return locks


def _only_folder() -> Path:
    folders = sorted({path.parent for pattern in (PATTERN, f"envs/*/{PATTERN}") for path in Path().glob(pattern)})
    if len(folders) == 1:
        return folders[0]
    if folders:
        listed = ", ".join(str(folder) for folder in folders)
        raise LockError(Problem(message="more than one lock here", hint=f"name one of: {listed}"))
    raise LockError(
        Problem(message="no lock here", hint="to write one, run `lockgen resolve` on a spec, or name a lock")
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LockError(Problem(message=f"no such file: {path}")) from None
    except UnicodeDecodeError:
        raise LockError(Problem(message=f"{path} is not UTF-8")) from None
    except OSError as error:
        raise LockError(Problem(message=f"cannot read {path}: {error.strerror}")) from None


def stale_names(folder: Path, files: Sequence[str]) -> tuple[str, ...]:
    """Lock files in a folder that a spec no longer writes."""
    return tuple(sorted(path.name for path in folder.glob(PATTERN) if path.name not in files))
