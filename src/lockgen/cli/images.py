"""The images that a command is about: a lock, the spec beside it, and the plan of each platform."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockgen.cli.files import find_locks, only_folder, selected, spec_of
from lockgen.errors import LockError, Problem, UsageError

if TYPE_CHECKING:
    from lockgen.image.model import ImagePlan
    from lockgen.image.plan import Options
    from lockgen.knowledge.extra import Service
    from lockgen.lock.model import Lock, PlatformLock
    from lockgen.spec.model import Image


NO_SPEC = "no spec beside the lock: the keys of `image` have their defaults; `--spec` names it"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a spec says of an image: nothing, where there is no spec."""

    image: Image
    services: tuple[Service, ...]


def options(*, base: str | None = None, budget: int | None = None, force_base: bool = False) -> Options:
    """
    The command line's words on an image, with the moment that `SOURCE_DATE_EPOCH` sets.

    Raises:
        UsageError: the variable is not a number of seconds.
    """
    from lockgen.image.plan import Options

    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given and not (given.isascii() and given.isdigit() and len(given) < 12):
        raise UsageError(
            Problem(
                message=f"`SOURCE_DATE_EPOCH` is not a number of seconds: `{given}`",
                hint="set it to one, such as `$(git log -1 --format=%ct)`, or unset it",
            )
        )
    known = Options(base=base, force_base=force_base, created=int(given) if given else None)
    return dataclasses.replace(known, budget=budget) if budget is not None else known


def find_plans(
    lock_path: Path | None,
    spec: Path | None,
    options: Options,
    variant: str | None = None,
    platform: str | None = None,
) -> list[tuple[Lock, PlatformLock, ImagePlan]]:
    """
    The image of each Linux platform of a lock, in the lock's order.

    Args:
        lock_path: a lock, its folder or its spec; None is the only lock here.
        spec: the spec to take the image's keys and services from; None is the one beside the lock, if there is one.
        options: what the command line says.
        variant: one variant only.
        platform: one platform only; without it, those that have no images are left out.

    Raises:
        LockError: no lock, none of its platforms has images, or the spec is not the lock's.
        ImageError: the base does not fit the lock.
    """
    from lockgen.image.plan import architecture, has_images, plan

    locks = selected(find_locks(lock_path), platform, variant)
    where = spec or spec_of(lock_path) or _beside(locks, lock_path)
    wishes = _wishes(where, locks)
    found = []
    for lock in locks:
        for one in lock.platforms:
            if platform:
                architecture(one.platform)
            elif not has_images(one.platform):
                continue
            wish = _wish(where, wishes, lock, one)
            made = plan(lock, one, wish.image, wish.services, options)
            found.append((lock, one, made if where else dataclasses.replace(made, notes=(*made.notes, NO_SPEC))))
    if not found:
        names = ", ".join(sorted({lock.name for lock in locks}))
        raise LockError(Problem(message=f"`{names}` is locked for no Linux platform: there is no image to build"))
    return found


def _wishes(spec: Path | None, locks: Sequence[Lock]) -> dict[tuple[str | None, str], Wish]:
    """What the spec says for each variant and platform."""
    if spec is None:
        return {}
    from lockgen.spec.parse import load

    read = load(spec)
    other = next((lock.name for lock in locks if lock.name != read.name), None)
    if other:
        message = f"the lock is of the spec `{other}`, and {spec} is `{read.name}`"
        raise LockError(Problem(message=message, hint="`--spec` names the spec that was locked"))
    return {
        (target.variant, target.platform): Wish(image=target.settings.image, services=target.services)
        for target in read.targets
    }


def _wish(spec: Path | None, wishes: dict[tuple[str | None, str], Wish], lock: Lock, platform: PlatformLock) -> Wish:
    """What the spec says for one platform of a lock; without a spec, the services of the extras that the lock names."""
    from lockgen.spec.model import Image

    if spec is None:
        return Wish(image=Image(), services=_services(platform))
    found = wishes.get((lock.variant, platform.platform))
    if found is None:
        variant = f"variant `{lock.variant}`" if lock.variant else "a spec without variants"
        hint = f"to lock what it says, run `lockgen resolve {spec}`; `--spec` names another one"
        message = f"the lock is of {variant} on {platform.platform}, which {spec} does not have"
        raise LockError(Problem(message=message, hint=hint))
    return found


def _services(platform: PlatformLock) -> tuple[Service, ...]:
    """
    What the extras of a lock run.

    Raises:
        LockError: one of them is somebody's own, whose services only the spec can name.
    """
    from lockgen.knowledge import tables

    names = dict.fromkeys(one.extra for one in platform.request.requirements if one.extra)
    known = {name: tables.extra(name) for name in names}
    for name, extra in known.items():
        if extra is None:
            message = f"the lock has an extra of its spec's own, `{name}`, and the spec is not beside the lock"
            raise LockError(Problem(message=message, hint="`--spec` names the spec, beside which the extra lies"))
    return tuple(service for extra in known.values() if extra for service in extra.services)


def _beside(locks: Sequence[Lock], lock_path: Path | None) -> Path | None:
    """The spec of the only lock here: it was found by itself, and so is its spec."""
    if lock_path is not None or not locks:
        return None
    return spec_of(only_folder())
