"""Locks on a terminal: what was chosen and why. Renders values, computes nothing that another module knows."""

from __future__ import annotations

import difflib
import io
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lockgen import matchspec
from lockgen.channelname import channel_name
from lockgen.errors import Problem
from lockgen.knowledge import tables
from lockgen.lock.codec import suffixed
from lockgen.lock.consistency import on_cpu, with_cuda
from lockgen.lock.cuda import coverage
from lockgen.lock.model import CudaFacts, Lock, LockedPackage, PlatformLock
from lockgen.lock.why import Chain
from lockgen.request import CudaAsk, Requirement

if TYPE_CHECKING:
    from lockgen.spec.idioms import Note

LARGEST = 5
SHOWN_CHAINS = 3
SHOWN_NAMES = 5
LABEL = 8
"""Width of the labels on the left."""
WIDEST = 100
"""Columns of the widest screen."""
UNFOLDED = 10_000
_SORT: dict[str, Callable[[LockedPackage], Any]] = {
    "size": lambda one: (-one.size, one.name),
    "version": lambda one: (matchspec.version_key(one.version), one.name),
}


def size(count: int) -> str:
    """Bytes as people read them, in powers of ten: `4.13 GB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}" if amount >= 100 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.2f} GB"


def problem(one: Problem) -> Text:
    """An error as it is shown: the word `error` in red, the rest as it is."""
    return Text.assemble(("error", "bold red"), ": ", str(one))


def note(one: Note) -> Text:
    """Something that was read or done otherwise than written."""
    place = f"{one.where}: " if one.where else ""
    return Text.assemble(("note", "bold yellow"), f": {place}{one.message}")


def resolved(locks: Sequence[Lock]) -> RenderableType:
    """The whole answer, one block for each variant and platform."""
    told: dict[_Told, str] = {}
    return Group(*(_platform(lock, one, told) for lock in locks for one in lock.platforms))


_Told = tuple[CudaFacts, CudaAsk | None, tuple[str, ...]]
"""What a block about CUDA says: two that say the same are shown once."""


def _platform(lock: Lock, one: PlatformLock, told: dict[_Told, str]) -> RenderableType:
    name = f"{lock.name} · {lock.variant}" if lock.variant else lock.name
    total = size(sum(package.size for package in one.packages))
    head = Text.assemble((name, "bold"), " on ", (one.platform, "bold"), f": {_packages(one)}, {total} to download")
    rows = [_choices(one)]
    if one.cuda:
        said = (one.cuda, one.request.cuda, tuple(_answers(one)))
        rows.append(_same_cuda(one.cuda, told[said]) if said in told else _cuda(one.cuda, one))
        told.setdefault(said, _place(lock, one))
    rows.append(_rest(one))
    return Group(head, "", *(Padding(row, (0, 0, 1, 2)) for row in rows))


@dataclass(frozen=True, slots=True)
class Items:
    """A list with commas, broken between its items and never within one."""

    items: Sequence[str]

    def __rich_console__(self, target: Console, options: ConsoleOptions) -> RenderResult:
        line = ""
        for position, item in enumerate(self.items):
            part = item + ("," if position < len(self.items) - 1 else "")
            if line and len(line) + 1 + len(part) > options.max_width:
                yield Text(line)
                line = ""
            line = f"{line} {part}" if line else part
        yield Text(line)

    def __rich_measure__(self, target: Console, options: ConsoleOptions) -> Measurement:
        widest = max((len(item) + 1 for item in self.items), default=0)
        return Measurement(min(widest, options.max_width), min(len(", ".join(self.items)), options.max_width))


def _packages(one: PlatformLock) -> str:
    return "1 package" if len(one.packages) == 1 else f"{len(one.packages):,} packages"


def _grid() -> Table:
    """Labels and what they stand for; all grids of a screen line up."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="cyan", no_wrap=True, min_width=LABEL)
    table.add_column(overflow="fold")
    return table


def _choices(one: PlatformLock) -> RenderableType:
    """What was asked, and what was locked for it."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("asked", style="cyan", overflow="fold", min_width=LABEL)
    table.add_column("locked", overflow="fold")
    packages = {package.name: package for package in one.packages}
    rows = [
        (wanted.because, package)
        for wanted in one.request.requirements
        if wanted.extra is None and (package := packages.get(matchspec.name_of(wanted.spec)))
    ]
    width = max((len(f"{package.name} {package.version}") for _, package in rows), default=0)
    for because, package in rows:
        named = f"{package.name} {package.version}".ljust(width)
        table.add_row(because, Text.assemble(named, "  ", (package.build, "dim")))
    for title, members in _by_extra(one.request.requirements).items():
        chosen = [packages[name] for name in members if name in packages]
        listed = Items([f"{package.name} {package.version}" for package in chosen])
        table.add_row(f"extra {title}", listed if chosen else Text("nothing", style="dim"))
    return table


def _by_extra(requirements: Iterable[Requirement]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for wanted in requirements:
        if wanted.extra is not None:
            found.setdefault(wanted.extra, []).append(matchspec.name_of(wanted.spec))
    return found


def _cuda_words(facts: CudaFacts) -> Text:
    colour = "bold green" if facts.asked == facts.locked else "bold yellow"
    return Text.assemble("asked ", (facts.asked, "bold"), ", locked ", (facts.locked, colour))


def _same_cuda(facts: CudaFacts, place: str) -> RenderableType:
    """One line for a block that stands above already."""
    table = _grid()
    table.add_row("CUDA", _cuda_words(facts).append(f"; all as above for {place}"))
    return table


def _cuda(facts: CudaFacts, one: PlatformLock) -> RenderableType:
    table = _grid()
    table.add_row("CUDA", _cuda_words(facts))
    table.add_row("driver", _driver(facts, one))
    if facts.capabilities:
        table.add_row("GPUs", Items(_by_architecture(facts.capabilities)))
    if answers := _answers(one):
        table.add_row("" if facts.capabilities else "GPUs", Items(["asked for: " + answers[0], *answers[1:]]))
    if facts.ptx:
        table.add_row("", f"newer GPUs through PTX {facts.ptx}, on a driver for CUDA {facts.locked} or newer")
    for index, sentence in enumerate(facts.notes):
        table.add_row("why" if index == 0 else "", sentence)
    return table


def _driver(facts: CudaFacts, one: PlatformLock) -> str:
    """The driver it needs; the one that the spec allows is enough, or the answer would have been refused."""
    if facts.min_driver == "unknown":
        return f"not known; one for CUDA {facts.locked} or newer is enough"
    asked = one.request.cuda.driver if one.request.cuda else None
    return f"{facts.min_driver} or newer" + (f"; {asked}, which the spec allows, runs it" if asked else "")


def _answers(one: PlatformLock) -> list[str]:
    """How each GPU that the spec names is covered: `7.0 Volta covered`."""
    if not one.request.cuda or not one.request.cuda.gpus or all(each.name != "pytorch" for each in one.packages):
        return []
    _, how = coverage(one.request, one.packages)
    words = {"native": "covered", "ptx": "through PTX", None: "not covered"}
    found = []
    for capability, covered in (how or {}).items():
        gpu = tables.gpu(capability)
        found.append(f"{capability}{f' {gpu.architecture}' if gpu else ''} {words[covered]}")
    return found


def _by_architecture(capabilities: Sequence[str]) -> list[str]:
    """`Volta 7.0`, `Ampere 8.0 8.6`."""
    found: dict[str, list[str]] = {}
    for capability in capabilities:
        gpu = tables.gpu(capability)
        found.setdefault(gpu.architecture if gpu else "", []).append(capability)
    return [f"{name} {' '.join(members)}".strip() for name, members in found.items()]


def _rest(one: PlatformLock) -> RenderableType:
    table = _grid()
    shown = [text.split("=") for text in one.request.virtual_packages]
    system = [
        f"{name.removeprefix('__')} {version}"
        for name, version, _ in shown
        if name not in ("__unix", "__archspec", "__cuda", "__win")
    ]
    table.add_row("system", f"runs on {', '.join(system)} or newer" if system else one.platform)
    largest = sorted(one.packages, key=lambda package: -package.size)[:LARGEST]
    table.add_row("largest", Items([f"{package.name} {size(package.size)}" for package in largest]))
    table.add_row("channels", Items(_counts(one.packages)))
    exempt = on_cpu(one.request, one.packages)
    for index, (reason, found) in enumerate(exempt.items()):
        table.add_row("on CPU" if index == 0 else "", f"{', '.join(package.name for package in found)}: {reason}")
    relations = sum(len(package.depends) + len(package.constrains) for package in one.packages)
    kind = _kind(one, exempt=bool(exempt))
    table.add_row("checked", f"{kind}; {relations:,} relations hold; one OpenMP, one BLAS; every record has its hashes")
    for text in one.left_out:
        table.add_row(Text("left out", style="yellow"), text)
    return table


def _kind(one: PlatformLock, *, exempt: bool) -> str:
    """What the answer has of CUDA, in the words of what was asked."""
    using = with_cuda(one.request, one.packages)
    if one.request.cuda is None:
        names = ", ".join(package.name for package in using[:SHOWN_NAMES])
        more = f" and {len(using) - SHOWN_NAMES} more" if len(using) > SHOWN_NAMES else ""
        return f"no GPU build was asked for, but these are for CUDA: {names}{more}" if using else "no GPU build"
    if not using:
        return "CUDA was asked for, nothing in the answer uses it"
    return "GPU builds but for those on CPU" if exempt else "GPU builds throughout"


def _counts(packages: Sequence[LockedPackage]) -> list[str]:
    counts: dict[str, int] = {}
    for package in packages:
        counts[package.channel] = counts.get(package.channel, 0) + 1
    return [f"{count} from {channel_name(url)}" for url, count in sorted(counts.items(), key=lambda pair: -pair[1])]


def next_steps(
    folder: str, locks: Sequence[Lock], written: Sequence[str], removed: Sequence[str], unchanged: int
) -> RenderableType:
    """What was written, and the commands that install it, each on one line to copy."""
    table = _grid()
    what = ", ".join(shortened_paths(written)) if written else "nothing: every file is already so"
    also = f" ({unchanged} unchanged)" if written and unchanged else ""
    table.add_row("wrote", f"{folder}/  {what}{also}")
    if removed:
        table.add_row("removed", ", ".join(shortened_paths(removed)))
    commands = [_conda_lock(folder, lock) for lock in locks] + [_pixi(folder, lock) for lock in locks]
    labels = ["install", *("" for _ in commands)]
    return Group(table, *(_command(label, text) for label, text in zip(labels, commands, strict=False)))


def shortened_paths(paths: Iterable[str]) -> list[str]:
    """Names of files, and of folders for what lies in them, sorted: `Dockerfile`, `image/`."""
    return sorted({"/".join((path.split("/")[0], "")) if "/" in path else path for path in paths})


def _conda_lock(folder: str, lock: Lock) -> str:
    name = f"{lock.name}-{lock.variant}" if lock.variant else lock.name
    file = suffixed("conda-lock.yml", lock)
    return f"conda-lock install -n {name} {shlex.quote(f'{folder}/{file}')}"


def _pixi(folder: str, lock: Lock) -> str:
    environment = f" -e {lock.variant}" if lock.variant else ""
    return f"pixi install --frozen{environment} --manifest-path {shlex.quote(f'{folder}/pixi.toml')}"


def _command(label: str, text: str) -> Text:
    return Text.assemble((label.ljust(LABEL + 2), "cyan"), text, no_wrap=True, overflow="ignore")


def packages(one: PlatformLock, sort: str) -> RenderableType:
    """A lock's packages as a table; on a narrow terminal cells are folded, never cut."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("name", "version", "build", "channel"):
        table.add_column(title, overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for package in sorted(one.packages, key=_SORT.get(sort, lambda package: (getattr(package, sort), package.name))):
        table.add_row(package.name, package.version, package.build, channel_name(package.channel), size(package.size))
    return table


def totals(lock: Lock, one: PlatformLock) -> Text:
    """The last line of a list."""
    total = size(sum(package.size for package in one.packages))
    place = _place(lock, one)
    return Text(f"{place}: {_packages(one)}, {total} to download; channels do not say installed sizes")


def _place(lock: Lock, one: PlatformLock) -> str:
    return f"{one.platform}, variant {lock.variant}" if lock.variant else one.platform


def chains(
    lock: Lock, one: PlatformLock, name: str, found: Sequence[Chain], dependents: Sequence[str]
) -> RenderableType:
    """Why a package is there: the shortest ways from the user's lines to it, and how many more there are."""
    package = next(package for package in one.packages if package.name == name)
    place = _place(lock, one)
    head = Text.assemble((f"{package.name} {package.version}", "bold"), f" {package.build} on {place}")
    lines: list[RenderableType] = [head]
    for chain in found[:SHOWN_CHAINS]:
        lines.append(Text.assemble("  ", (chain.requirement.because, "cyan")))
        for depth, (link, spec) in enumerate(chain.links):
            shown = "" if spec == link else f"  ({spec})"
            lines.append(
                Text.assemble("  " * (depth + 2), "└─ ", (link, "bold" if link == name else ""), (shown, "dim"))
            )
    if len(found) > SHOWN_CHAINS:
        others = ", ".join(chain.requirement.spec for chain in found[SHOWN_CHAINS:])
        lines.append(Text(f"  also asked for by: {others}", style="dim"))
    if dependents:
        lines.append(Text(f"  needed directly by: {', '.join(dependents)}", style="dim"))
    return Group(*lines)


def console(*, stderr: bool) -> Console:
    """
    A console that respects NO_COLOR and takes text as it is.

    The screen, on stderr, is at most as wide as people like to read; data, on stdout, is not folded where it is piped.
    """
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if stderr:
        made.width = min(made.width, WIDEST)
    elif not made.is_terminal:
        made.width = UNFOLDED
    return made


def show(target: Console, *parts: RenderableType, soft_wrap: bool = False) -> None:
    """Print; where it is no terminal, without the blanks that fill up the lines of a table."""
    if target.is_terminal:
        target.print(*parts, sep="\n", soft_wrap=soft_wrap, crop=False)
        return
    plain = Console(file=io.StringIO(), width=target.width, highlight=False, markup=False, emoji=False)
    plain.print(*parts, sep="\n", soft_wrap=soft_wrap, crop=False)
    lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
    target.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def nearest(name: str, locks: Iterable[PlatformLock]) -> str:
    """Names like the one that was asked for, as a clause; empty where none is near."""
    known = sorted({package.name for one in locks for package in one.packages})
    near = difflib.get_close_matches(name, known, 3)
    return f"; near: {', '.join(near)}" if near else ""
