"""`lockgen image plan`: what an image will be, before it is built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lockgen.image.layers import Moved
    from lockgen.image.model import ImagePlan
    from lockgen.lock.model import PlatformLock

LOCK = typer.Argument(metavar="LOCK", help="A lock, its folder or its spec; by default the only lock here.")
SPEC = typer.Option("--spec", metavar="FILE", help="The spec with the image's keys; by default the one beside LOCK.")
BASE = typer.Option("--base", metavar="NAME", help="Base image: a known name, or a reference with its digest.")
FORCE_BASE = typer.Option("--force-base", help="Also take a base that carries a CUDA of its own.")
LAYERS = typer.Option("--layers", metavar="N", help="Most layers of packages; by default 24.")
AGAINST = typer.Option("--against", metavar="LOCK", help="An older lock: show which layers the update fetches again.")
PLATFORM = typer.Option("--platform", metavar="NAME", help="One platform only.")
ENVIRONMENT = typer.Option("--environment", "-e", metavar="NAME", help="One variant only.")
JSON = typer.Option("--json", help="Print the plans as JSON.")


def image_plan(
    lock: Annotated[Path | None, LOCK] = None,
    spec: Annotated[Path | None, SPEC] = None,
    base: Annotated[str | None, BASE] = None,
    force_base: Annotated[bool, FORCE_BASE] = False,
    layers: Annotated[int | None, LAYERS] = None,
    against: Annotated[Path | None, AGAINST] = None,
    platform: Annotated[str | None, PLATFORM] = None,
    environment: Annotated[str | None, ENVIRONMENT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Show what an image will be. Its layers with their sizes, base, user and variables; and what an update moves."""
    from lockgen.cli.images import find_plans, options
    from lockgen.report import image, text

    wanted = options(base=base, budget=layers, force_base=force_base)
    found = [
        image.Shown(plan=plan, platform=one, moved=_moved(plan, one, against, wanted.budget))
        for _, one, plan in find_plans(lock, spec, wanted, environment, platform)
    ]
    if as_json:
        typer.echo(image.as_json(found))
        return
    console = text.console(stderr=False)
    for position, one in enumerate(found):
        text.show(console, *([""] if position else []), image.screen(one))


def _moved(plan: ImagePlan, new: PlatformLock, against: Path | None, budget: int) -> tuple[Moved, ...] | None:
    """What an update from an older lock fetches again; None where none was named."""
    if against is None:
        return None
    from lockgen.cli.files import find_locks, selected
    from lockgen.errors import Problem, UsageError
    from lockgen.image.layers import group, moved, paired

    locks = selected(find_locks(against), plan.platform, plan.variant)
    if len(locks) > 1:
        names = ", ".join(f"`{lock.variant}`" for lock in locks)
        hint = f"name the lock file of one of its variants: {names}"
        raise UsageError(Problem(message=f"{against} holds more than one lock for {plan.platform}", hint=hint))
    old = locks[0].platforms[0]
    before = paired(group(old.packages, budget), old.packages)
    return moved(before, paired(plan.layers, new.packages))
