"""Everything that is written for a spec, as text by file name, and whether a folder has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lockgen.image.dockerfile import dumps
from lockgen.lock.model import Lock
from lockgen.lock.registry import dump_all
from lockgen.plan import Plan
from lockgen.spec.model import Image

FORMATS = ("conda-lock-v1", "pixi-toml", "explicit", "environment-yml")


def render(plan: Plan, locks: Sequence[Lock], pixi_lock_version: int) -> dict[str, str]:
    """The files of a spec's folder."""
    formats = [*FORMATS, f"pixi-v{pixi_lock_version}"]
    images = {planned.target.variant: planned.target.settings.image for planned in plan.planned}
    files = dict(dump_all(tuple(locks), formats))
    for lock in locks:
        files |= dumps([lock], images[lock.variant])
    return files


def known_texts(locks: Sequence[Lock]) -> dict[str, str]:
    """
    The files that some locks alone determine, by name.

    All of their text, but of a Dockerfile the first line, since the rest depends on the spec; pixi's are not among
    them, since they stand for all variants and never change their names.
    """
    found = dict(dump_all(tuple(locks), ("conda-lock-v1", "explicit", "environment-yml")))
    for lock in locks:
        found |= {name: text.split("\n", 1)[0] for name, text in dumps([lock], Image()).items()}
    return found


def pixi_version(folder: Path) -> int:
    """The version of the pixi.lock in a folder, 7 where there is none."""
    try:
        with (folder / "pixi.lock").open(encoding="utf-8") as lines:
            first = lines.readline().strip()
    except (OSError, UnicodeDecodeError):
        return 7
    return 6 if first == "version: 6" else 7


def stale_files(plan: Plan, locks: Sequence[Lock], folder: Path, pixi_lock_version: int) -> tuple[str, ...]:
    """Which files of a folder are not what the locks give."""
    found = []
    for name, text in render(plan, locks, pixi_lock_version).items():
        try:
            same = (folder / name).read_bytes().replace(b"\r\n", b"\n") == text.encode()  # Git may have changed them
        except OSError:
            found.append(f"{name} is missing")
            continue
        if not same:
            found.append(f"{name} is not what the lock gives: was it edited by hand, or an `image` key changed?")
    return tuple(found)
