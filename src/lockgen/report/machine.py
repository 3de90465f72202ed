"""A machine, and what it can do with a lock, on a terminal or as JSON. Renders values, computes nothing."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lockgen.host import Device, Host
from lockgen.install.host_check import Judged, Verdict
from lockgen.lock.foreign import Part
from lockgen.report.text import size


def screen(host: Host, file: str | None, verdicts: Judged) -> RenderableType:
    """The machine as a table, and below it a verdict on each environment of the lock."""
    return Group(_machine(host), *(_verdict(file or "", part, verdict) for part, verdict in verdicts))


def as_json(host: Host, file: str | None, verdicts: Judged) -> str:
    """The same for programs."""
    content: dict[str, object] = {"machine": dataclasses.asdict(host)}
    if file is not None:
        content["lock"] = file
        content["verdicts"] = [
            {
                "environment": part.environment,
                "platform": part.platform,
                "packages": len(part.packages),
                "runs": verdict.runs,
                **dataclasses.asdict(verdict),
            }
            for part, verdict in verdicts
        ]
    return json.dumps(content, indent=2, ensure_ascii=False)


def _machine(host: Host) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("platform", host.platform)
    table.add_row("system", _system(host))
    for name, version in (("kernel", host.kernel), ("glibc", host.glibc), ("macOS", host.macos)):
        if version:
            table.add_row(name, version)
    if host.platform.startswith("linux") and not host.glibc:
        table.add_row("glibc", "none: conda's Linux packages need it")
    for name, words in _gpus(host):
        table.add_row(name, words)
    table.add_row("cores", f"{host.cores}" + (f", {size(host.memory)} memory" if host.memory else ""))
    if host.shm is not None:
        table.add_row("/dev/shm", size(host.shm) + _small_shm(host.shm))
    for one in host.rooms:
        table.add_row("disk", f"{size(one.free)} free of {size(one.total)} for {one.what} ({one.path})")
    return table


def _system(host: Host) -> str:
    inside = f" in {host.container}" if host.container else ""
    return f"{host.system}{inside}{f' under {host.wsl}' if host.wsl else ''}"


def _gpus(host: Host) -> list[tuple[str, str]]:
    found = host.gpus
    if not found.driver:
        return [("driver", "no NVIDIA driver: this machine runs CPU builds"), ("", found.why_none or "")]
    level = f", for CUDA {found.cuda} and older" if found.cuda else ""
    rows = [("driver", f"{found.driver}{level} (by {found.source})")]
    for index, (device, count) in enumerate(Counter(found.devices).items()):
        rows.append(("GPUs" if index == 0 else "", _device(device, count)))
    return rows if found.devices else [*rows, ("GPUs", "none")]


def _device(device: Device, count: int) -> str:
    capability = f", compute capability {device.capability}" if device.capability else ""
    memory = f", {size(device.memory)}" if device.memory else ""
    return f"{count} × {device.name}{capability}{memory}" if count > 1 else f"{device.name}{capability}{memory}"


def _small_shm(count: int) -> str:
    """Docker's 64 MiB is what data loaders with several workers fail on."""
    if count > 64 << 20:
        return ""
    return ": too small for data loaders with workers; give the container `--shm-size=8g` or `--ipc=host`"


def _verdict(file: str, part: Part, verdict: Verdict) -> RenderableType:
    word = ("runs here", "bold green") if verdict.runs else ("does not run here", "bold red")
    head = Text.assemble("\n", (file, "bold"), f" · {part.environment} on {part.platform}: ", word)
    lines: list[RenderableType] = [head]
    for lack in verdict.lacks:
        lines.append(Padding(Text(lack.message), (0, 0, 0, 2)))
        lines += [Padding(Text.assemble(("→ ", "cyan"), text), (0, 0, 0, 4)) for text in lack.nearest]
    lines += [Padding(Text.assemble(("note: ", "yellow"), text), (0, 0, 0, 2)) for text in verdict.notes]
    return Group(*lines)
