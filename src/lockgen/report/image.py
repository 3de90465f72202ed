"""The plan of an image on a terminal or as JSON. Renders values, computes nothing that another module knows."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lockgen.image.layers import Moved
from lockgen.image.model import ImagePlan, Layer
from lockgen.image.plan import unpacked
from lockgen.knowledge.layer import limits
from lockgen.lock.model import PlatformLock
from lockgen.report.text import size

NAMES = 3
"""Packages of a layer that are named."""
LABEL = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A plan, and what it was made from."""

    plan: ImagePlan
    platform: PlatformLock
    moved: tuple[Moved, ...] | None
    """What an update from an older lock fetches again; None where none was named."""


def screen(one: Shown) -> RenderableType:
    """Layers as a table, what they amount to, and how a container is set up."""
    plan = one.plan
    name = f"{plan.name} · {plan.variant}" if plan.variant else plan.name
    head = Text.assemble((name, "bold"), " for ", (f"linux/{plan.architecture}", "bold"))
    parts: list[RenderableType] = [head, "", _layers(one), "", *_totals(one)]
    if one.moved is not None:
        parts.append(_update(one, one.moved))
    parts += ["", _setup(plan)]
    return Group(*parts)


def _layers(one: Shown) -> RenderableType:
    again = {each.name for each in one.moved or ()}
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("layer", style="cyan", no_wrap=True)
    table.add_column("packages", overflow="fold")
    for title in ("archives", "unpacked"):
        table.add_column(title, justify="right", no_wrap=True)
    if one.moved is not None:
        table.add_column("update", no_wrap=True)
    for layer in one.plan.layers:
        row = [
            layer.name,
            _members(one.platform, layer),
            size(layer.size),
            size(unpacked(one.platform, layer.packages)),
        ]
        if one.moved is not None:
            row.append("fetched again" if layer.name in again else "stays")
        table.add_row(*row)
    return table


def _members(platform: PlatformLock, layer: Layer) -> str:
    """The largest packages by name, and how many more there are."""
    sizes = {package.name: package.size for package in platform.packages}
    largest = sorted(layer.packages, key=lambda name: (-sizes[name], name))[:NAMES]
    more = len(layer.packages) - len(largest)
    return f"{', '.join(largest)} and {more} more" if more else ", ".join(largest)


def _totals(one: Shown) -> list[RenderableType]:
    layers = one.plan.layers
    archives = sum(layer.size for layer in layers)
    whole = unpacked(one.platform, [name for layer in layers for name in layer.packages])
    count = sum(len(layer.packages) for layer in layers)
    over = whole - limits().budget
    verdict = Text(f"{size(over)} over", "bold yellow") if over > 0 else Text(f"{size(-over)} under", "bold green")
    lines: list[RenderableType] = [
        Text(f"{len(layers)} layers, {count} packages, {size(archives)} of archives, about {size(whole)} unpacked"),
        Text.assemble(verdict, f" the {size(limits().budget)} that an image should stay below, its base not counted"),
    ]
    if over > 0:
        largest = sorted(layers, key=lambda layer: (-unpacked(one.platform, layer.packages), layer.name))[:NAMES]
        named = ", ".join(f"{layer.name} {size(unpacked(one.platform, layer.packages))}" for layer in largest)
        lines.append(Text(f"what makes it larger: {named}"))
    lines.append(Text("unpacked is an estimate: archives times the ratio measured for their group", style="dim"))
    return lines


def _update(one: Shown, moved: Sequence[Moved]) -> RenderableType:
    """What a machine that has the old image fetches."""
    if not moved:
        return Text("the update fetches nothing: every layer stays")
    again, whole = sum(each.size for each in moved), sum(layer.size for layer in one.plan.layers)
    changed = sorted({name for each in moved for name in each.changed})
    names = ", ".join(changed[:NAMES]) + (f" and {len(changed) - NAMES} more" if len(changed) > NAMES else "")
    share = 100 * again / whole if whole else 0
    return Text.assemble(
        "the update fetches ",
        (f"{len(moved)} of {len(one.plan.layers)} layers, {size(again)} of {size(whole)}", "bold"),
        f" ({share:.1f} %), for {names}",
    )


def _setup(plan: ImagePlan) -> RenderableType:
    """Base, user, ports, variables and notes."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="cyan", no_wrap=True, min_width=LABEL)
    table.add_column(overflow="fold")
    glibc = f", glibc {plan.base.glibc}" if plan.base.glibc else ""
    table.add_row("base", f"{plan.base.pinned}{glibc}")
    table.add_row("user", f"{plan.user} ({plan.login}), in {plan.workdir}")
    table.add_row("starts", " ".join((*plan.entrypoint, *plan.command)))
    if plan.ports:
        table.add_row("ports", ", ".join(map(str, plan.ports)))
    if plan.distribution:
        table.add_row("from base", ", ".join(plan.distribution))
    for index, (name, text) in enumerate(plan.env):
        table.add_row("env" if index == 0 else "", f"{name}={text}")
    for index, note in enumerate(plan.notes):
        table.add_row("note" if index == 0 else "", note)
    return table


def as_json(shown: Sequence[Shown]) -> str:
    """The plans for programs, with the estimate of each layer and what an update fetches."""
    return json.dumps([_plain(one) for one in shown], indent=2, ensure_ascii=False)


def _plain(one: Shown) -> dict[str, object]:
    content: dict[str, object] = dataclasses.asdict(one.plan)
    content["layers"] = [
        {**dataclasses.asdict(layer), "unpacked": unpacked(one.platform, layer.packages)} for layer in one.plan.layers
    ]
    content["archives"] = sum(layer.size for layer in one.plan.layers)
    content["unpacked"] = unpacked(one.platform, [package.name for package in one.platform.packages])
    content["moved"] = None if one.moved is None else [dataclasses.asdict(each) for each in one.moved]
    return content
