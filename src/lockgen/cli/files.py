"""Locks and specs on disk, as commands name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from lockgen.errors import LockError, Problem, UsageError
from lockgen.lock.codec import suffixed
from lockgen.lock.model import Lock, chosen
from lockgen.lock.registry import codec

PATTERN = "conda-lock*.yml"
_HEAD = re.compile(
    r"# (?:Locked|Written) by lockgen from the spec (?P<spec>\S+?)(?:\. Not to be edited| for |; install|, with pixi)"
    r"|# Made by lockgen from \S+; (?:do not edit|`lockgen dockerfile` writes it anew)"
)
"""The first line of each file that is written, except `pixi.lock`, which has none of ours."""
DERIVED = (PATTERN, "*.explicit.lock", "environment*.yml", "Dockerfile*", "image/**/*", "image.*/**/*")


def folder_of(spec: Path) -> Path:
    """The folder that a spec's files are written to, beside it: `envs/x.yaml` → `envs/x`."""
    return spec.with_suffix("")


def spec_of(named: Path | None) -> Path | None:
    """The spec that was named, or the one beside the folder of the lock that was; None where there is none."""
    if named is None:
        return None
    if named.is_file() and named.suffix in (".yaml", ".yml") and not named.name.startswith("conda-lock"):
        return named
    folder = named if named.is_dir() else named.parent
    beside = folder.resolve().parent / f"{folder.resolve().name}.yaml"
    return beside if beside.is_file() else None


def read_locks(folder: Path) -> tuple[Lock, ...]:
    """The canonical locks in a folder, ordered by variant; none where there is none."""
    load = codec("conda-lock-v1").load
    assert load is not None
    found: dict[str | None, Lock] = {}
    for path in sorted(folder.glob(PATTERN)):
        for lock in load(_text(path), str(path)):
            if path.name != suffixed("conda-lock.yml", lock):
                message = f"{path} holds the lock of {suffixed('conda-lock.yml', lock)}: is it a copy?"
                raise LockError(Problem(message=message, hint="move it out of the folder, or remove it"))
            found[lock.variant] = lock
    return tuple(sorted(found.values(), key=lambda lock: lock.variant or ""))


def find_locks(named: Path | None) -> tuple[Lock, ...]:
    """
    The locks that a command is about: a lock file, a folder of them, a spec's folder, or the only one here.

    Raises:
        LockError: there is none, or more than one and none was named.
    """
    if named is None:
        return read_locks(only_folder())
    if named.is_dir():
        return _some(read_locks(named), named)
    if not named.exists():
        raise LockError(Problem(message=f"no such file: {named}", hint="name a lock, its folder or its spec"))
    if fnmatchcase(named.name, PATTERN):
        load = codec("conda-lock-v1").load
        assert load is not None
        return load(_text(named), str(named))
    return _some(read_locks(folder_of(named)), folder_of(named))


def selected(locks: Sequence[Lock], platform: str | None, variant: str | None) -> tuple[Lock, ...]:
    """
    The part of some locks that is of one platform and one variant; None means all of them.

    Raises:
        UsageError: nothing is locked for them.
    """
    found = chosen(locks, platform, variant)
    if not found:
        asked = " and ".join(
            f"{kind} `{name}`" for kind, name in (("platform", platform), ("variant", variant)) if name is not None
        )
        raise UsageError(Problem(message=f"nothing is locked for {asked}", hint=f"locked: {_places(locks)}"))
    return found


def _places(locks: Sequence[Lock]) -> str:
    platforms = {lock.variant: ", ".join(answer.platform for answer in lock.platforms) for lock in locks}
    return "; ".join(f"variant {name} on {on}" if name else on for name, on in platforms.items())


def _some(locks: tuple[Lock, ...], folder: Path) -> tuple[Lock, ...]:
    if not locks:
        hint = "to write one, run `lockgen resolve` on a spec"
        raise LockError(Problem(message=f"no lock in {folder}", hint=hint))
    return locks


def only_folder() -> Path:
    """
    The folder of the only lock here.

    Raises:
        LockError: there is none, or more than one.
    """
    patterns = (PATTERN, f"*/{PATTERN}", f"envs/*/{PATTERN}")
    folders = sorted({path.parent for pattern in patterns for path in Path().glob(pattern)})
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


def refuse_foreign(folder: Path, files: Iterable[str]) -> None:
    """
    Refuse to overwrite what somebody else wrote: a project's own Dockerfile. Each file is known by its first line.

    Raises:
        LockError: with the names of the files.
    """
    there = [name for name in files if (folder / name).exists()]
    others = [name for name in there if not _is_ours(folder, name)]
    if others:
        names = ", ".join(sorted(others))
        hint = "`-o` names another folder; or move them away, and they are written"
        raise LockError(Problem(message=f"{folder} has files that lockgen did not write: {names}", hint=hint))


def _is_ours(folder: Path, name: str) -> bool:
    """Whether lockgen wrote a file, or it is empty; what has no first line of ours goes with the file it is for."""
    if name == "pixi.lock":
        beside = (folder / "pixi.toml", *folder.glob(PATTERN))
        return any(_HEAD.match(_first_line(one)) for one in beside)
    if "/" in name:
        return any(_HEAD.match(_first_line(one)) for one in folder.glob("Dockerfile*"))
    first = _first_line(folder / name)
    return not first or bool(_HEAD.match(first))


def refuse_other_spec(folder: Path, name: str) -> None:
    """
    Refuse to replace the locks of another spec in a folder.

    Raises:
        LockError: with the name of that spec.
    """
    for path in sorted(folder.glob(PATTERN)):
        found = _HEAD.match(_first_line(path))
        if found and found["spec"] not in (None, name):
            message = f"{folder} has the locks of another spec, `{found['spec']}`"
            hint = f"name another folder with `-o`; if that spec is now `{name}`, remove {path}"
            raise LockError(Problem(message=message, hint=hint))


def _first_line(path: Path) -> str:
    """The first line of a file, empty where there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as text:
            return text.readline(1000)
    except OSError:
        return ""


def leftovers(folder: Path, files: Mapping[str, str]) -> tuple[str, ...]:
    """
    Files that an earlier resolve wrote and this one does not: of a variant or a platform that the spec has no more.

    Only what the lock that is there names, and what is still as it was written; anything else is not ours to remove.
    """
    paths = (path.relative_to(folder).as_posix() for pattern in DERIVED for path in folder.glob(pattern))
    others = [path for path in paths if path not in files]
    if not others:
        return ()
    from lockgen.artefacts import known_texts

    try:
        before = known_texts(read_locks(folder))
    except LockError:
        return ()
    ours = [name for name in others if name in before and (folder / name).is_file()]
    return tuple(sorted(name for name in ours if before[name] in (text := _text(folder / name), _head(text))))


def _head(text: str) -> str:
    return text.split("\n", 1)[0]
