"""Files on disk: written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from lockgen.errors import LockError, Problem

CANONICAL = "conda-lock"


def write_all(folder: Path, files: Mapping[str, str], leftovers: Iterable[str] = ()) -> tuple[str, ...]:
    """
    Write files into a folder, each to a temporary neighbour first and then renamed, and remove what is left over.

    Killed at any moment, every file is the old one or the new one, whole. The canonical locks come last, so a set
    that is half new is seen as such by `--check`. A file that is already right keeps its time.

    Args:
        files: text by path below the folder.
        leftovers: paths below it.

    Returns:
        The names whose content changed.

    Raises:
        LockError: the folder cannot be written.
    """
    staged: list[tuple[str, Path]] = []
    names = sorted(files, key=lambda name: (name.startswith(CANONICAL), name))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            if _content(folder / name) != files[name].encode():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                staged.append((name, _staged(folder / name, files[name])))
        for name, temporary in staged:
            os.replace(temporary, folder / name)
        for name in leftovers:
            _remove(folder, name)
    except OSError as error:
        where = error.filename2 or error.filename or folder
        message = f"cannot write {folder}: {where}: {error.strerror}"
        raise LockError(Problem(message=message, hint="`-o` names another folder")) from None
    finally:
        for _, temporary in staged:
            temporary.unlink(missing_ok=True)
    return tuple(name for name, _ in staged)


def _remove(folder: Path, name: str) -> None:
    """Remove a file, and the folders below this one that are empty then."""
    (folder / name).unlink(missing_ok=True)
    for parent in PurePosixPath(name).parents:
        if str(parent) != ".":
            with contextlib.suppress(OSError):
                (folder / parent).rmdir()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _staged(path: Path, text: str) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(0o644 & ~_umask())
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return temporary


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
