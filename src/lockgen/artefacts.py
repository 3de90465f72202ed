"""Everything that is written for a spec, as text by file name, and whether a folder has it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockgen.errors import Problem
from lockgen.image.dockerfile import render as image_files
from lockgen.image.plan import ImageError, has_images
from lockgen.image.plan import plan as image_plan
from lockgen.knowledge.extra import Service
from lockgen.lock.model import Lock
from lockgen.lock.registry import dump_all
from lockgen.plan import Plan
from lockgen.spec.model import Image

FORMATS = ("conda-lock-v1", "pixi-toml", "explicit", "environment-yml")


def render(plan: Plan, locks: Sequence[Lock], pixi_lock_version: int) -> dict[str, str]:
    """The files of a spec's folder, by path below it; no image where its base does not fit the lock."""
    files = dict(dump_all(tuple(locks), [*FORMATS, f"pixi-v{pixi_lock_version}"]))
    wishes = _wishes(plan)
    for lock in locks:
        with contextlib.suppress(ImageError):
            files |= _image(lock, wishes)
    return files


def refusals(plan: Plan, locks: Sequence[Lock]) -> tuple[Problem, ...]:
    """Why there is no image of some locks."""
    found: list[Problem] = []
    wishes = _wishes(plan)
    for lock in locks:
        try:
            _image(lock, wishes)
        except ImageError as error:
            found += error.problems
    return tuple(found)


def known_texts(locks: Sequence[Lock]) -> dict[str, str]:
    """
    The files that some locks alone determine, by path.

    All of their text, but of a Dockerfile the first line, since the rest depends on the spec; pixi's are not among
    them, since they stand for all variants and never change their names.
    """
    found = dict(dump_all(tuple(locks), ("conda-lock-v1", "explicit", "environment-yml")))
    for lock in locks:
        with contextlib.suppress(ImageError):
            for name, text in _image(lock, {}).items():
                found[name] = text.split("\n", 1)[0] if name.startswith("Dockerfile") else text
    return found


_Wishes = Mapping[tuple[str | None, str], tuple[Image, tuple[Service, ...]]]


def _wishes(plan: Plan) -> _Wishes:
    """What the spec says of the image of each variant and platform."""
    targets = [planned.target for planned in plan.planned]
    return {(one.variant, one.platform): (one.settings.image, one.services) for one in targets}


def _image(lock: Lock, wishes: _Wishes) -> dict[str, str]:
    """The Dockerfile of a lock and what it needs; nothing for a lock without a platform that containers have."""
    plans = []
    for one in lock.platforms:
        if has_images(one.platform):
            image, services = wishes.get((lock.variant, one.platform), (Image(), ()))
            plans.append(image_plan(lock, one, image, services))
    return image_files(lock, plans) if plans else {}


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
