"""Why nothing answers a request: the user's own lines that stand in the way, and the choices that do solve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from lockgen import matchspec
from lockgen.channelname import channel_name
from lockgen.channels import Channels
from lockgen.conflict import readable
from lockgen.errors import ChannelError, Problem
from lockgen.knowledge import tables
from lockgen.lock.model import LockedPackage
from lockgen.plan import Planned, request_for
from lockgen.request import Request, Requirement
from lockgen.solve import NoSolution, no_record, solvable, solve_whole
from lockgen.spec.model import Cuda, version_spec
from lockgen.spec.parse import Target
from lockgen.steer import confirmed

ANY_PYTORCH = ">=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Something the user could write instead, and what it gives."""

    write: str
    gives: str
    confirmed: bool
    """Solved and checked against the channel's metadata just now."""

    def __str__(self) -> str:
        return f"{self.write}\n    → {self.gives} ({'solved' if self.confirmed else 'not confirmed'})"


async def unsolvable(planned: Planned, channels: Channels, tree: str) -> tuple[Problem, ...]:
    """The problems of a request without an answer: one for each absent package, or one with the culprits."""
    request = planned.request
    names = {matchspec.name_of(wanted.spec) for wanted in request.requirements if not wanted.optional}
    records = await channels.records(request, names)
    absent = [name for name in sorted(names) if not records[name]]
    if absent:
        return tuple(_absent(planned, name) for name in absent)
    if request.cuda and request.cuda.match == "exact" and await _is_due_to_toolkit(planned, channels):
        return (
            await _no_exact(planned, channels, records.get("pytorch", []), await _core_tree(request, channels) or tree),
        )
    culprits, cpu_only = await asyncio.gather(_culprits(planned, channels), _cpu_only(planned, channels))
    return (_conflict(planned, culprits, tree, records, cpu_only=cpu_only),)


def _absent(planned: Planned, name: str) -> Problem:
    wanted = next(one for one in planned.request.requirements if matchspec.name_of(one.spec) == name)
    hint = "is it spelled as the channel spells it?"
    if wanted.key.startswith("extras."):
        use = planned.target.settings.extras[int(wanted.key.split(".")[1])]
        hint = f"`{{name: {use.name}, optional: true}}` leaves out what the channel lacks, and says so"
    return Problem(message=f"`{name}`: {no_record(planned.request)}", where=planned.target.where(wanted.key), hint=hint)


def _part(one: Requirement) -> tuple[str, str]:
    """What can be taken back by itself: a key of the spec, or one package of an extra."""
    return one.key, matchspec.name_of(one.spec) if one.key.startswith("extras.") else ""


def _loosened(planned: Planned, part: tuple[str, str]) -> Request:
    """The request with one part taken back; a GPU stays asked for, in any version of PyTorch and of CUDA."""
    request = planned.request
    if part[0] == "pytorch":
        return request_for(varied(planned.target, pytorch=ANY_PYTORCH))
    if part[0] == "cuda":
        return _any_cuda(request)
    return replace(
        request,
        requirements=tuple(one for one in request.requirements if _part(one) != part),
        constraints=tuple(one for one in request.constraints if _part(one) != part),
    )


def _any_cuda(request: Request) -> Request:
    """The request with GPU builds of any CUDA, on machines with the newest driver."""
    toolkit = tables.provider_for(request.channels).toolkit_package
    newest = f"__cuda={tables.toolkits()[-1].cuda}=0"
    return replace(
        request,
        requirements=tuple(one for one in request.requirements if matchspec.name_of(one.spec) != toolkit),
        constraints=tuple(one for one in request.constraints if matchspec.name_of(one.spec) != toolkit),
        virtual_packages=tuple(newest if one.startswith("__cuda=") else one for one in request.virtual_packages),
    )


async def _culprits(planned: Planned, channels: Channels) -> list[tuple[tuple[str, str], tuple[LockedPackage, ...]]]:
    """Parts of the spec without which there is an answer, each with that answer."""
    request = planned.request
    parts = list(dict.fromkeys(_part(one) for one in (*request.requirements, *request.constraints) if not one.optional))
    answers = await asyncio.gather(*(confirmed(_loosened(planned, part), channels) for part in parts))
    return [(part, answer) for part, answer in zip(parts, answers, strict=True) if answer is not None]


async def _cpu_only(planned: Planned, channels: Channels) -> bool:
    """Whether the same spec has an answer with CPU builds: then it is the GPU that cannot be had."""
    if planned.request.cuda is None:
        return False
    return await solvable(request_for(varied(planned.target, cuda=Cuda(version="none"))), channels) is not None


def _conflict(
    planned: Planned,
    culprits: Sequence[tuple[tuple[str, str], tuple[LockedPackage, ...]]],
    tree: str,
    records: dict[str, list[LockedPackage]],
    *,
    cpu_only: bool,
) -> Problem:
    target = planned.target
    order = {"cuda": 1, "pytorch": 2}
    ranked = sorted(culprits, key=lambda pair: order.get(pair[0][0], 0))
    where = target.where(ranked[0][0][0] if ranked else "pytorch")
    message = f"nothing answers the spec on {_place(planned)}"
    if cpu_only:
        message = f"no GPU build answers the spec on {_place(planned)}, only CPU builds do: they are not taken silently"
    hints = [_culprit_hint(planned, part, answer) for part, answer in ranked]
    hints += _nothing_matches(planned, records)
    return Problem(
        message=message,
        where=where,
        detail=readable(tree),
        hint="\n".join(dict.fromkeys(hints)) or "no single line of the spec is to blame: loosen two or more of them",
    )


def _place(planned: Planned) -> str:
    variant = planned.target.variant
    return f"{planned.request.platform} (variant {variant})" if variant else planned.request.platform


def _culprit_hint(planned: Planned, part: tuple[str, str], answer: tuple[LockedPackage, ...]) -> str:
    """What a line of the spec excludes, and what there would be without it."""
    key, name = part
    where = planned.target.where(key)
    provider = tables.provider_for(planned.request.channels)
    ours = [one for one in (*planned.request.requirements, *planned.request.constraints) if _part(one) == part]
    names = ["pytorch", provider.toolkit_package] if key == "cuda" else [matchspec.name_of(one.spec) for one in ours]
    chosen = {package.name: package.version for package in answer}
    instead = ", ".join(f"{one} {chosen[one]}" for one in dict.fromkeys(names) if one in chosen)
    said = f"`{name}` of {where.text.strip()}" if name else f"`{where.text.strip() or ours[0].because}`"
    result = f"it solves with {instead}" if instead else "it solves"
    return f"line {where.line} excludes the candidates: {said}; without it, {result}"


def _nothing_matches(planned: Planned, records: dict[str, list[LockedPackage]]) -> list[str]:
    """For requirements that no build matches at all: which versions there are."""
    hints = []
    for wanted in planned.request.requirements:
        builds = records.get(matchspec.name_of(wanted.spec), [])
        if not builds or any(matchspec.Universe([build]).satisfies(wanted.spec) for build in builds):
            continue
        place = planned.target.where(wanted.key)
        hints.append(f"line {place.line}: no build matches `{wanted.spec}`; {_what_there_is(wanted.spec, builds)}")
    return hints


def _what_there_is(spec: str, builds: Sequence[LockedPackage]) -> str:
    """The newest versions of a package; where the spec asks for a kind of build, those of that kind."""
    name, *_, kind = [*spec.split(), "*"] if spec.count(" ") < 2 else spec.split()
    of_kind = [build for build in builds if fnmatchcase(build.build, kind)]
    if not of_kind:
        return f"the channel has no `{kind}` build of {name}"
    versions = list(dict.fromkeys(build.version for build in reversed(of_kind)))[:6]
    return f"the channel has {'' if kind == '*' else f'`{kind}` builds of '}{matchspec.name_of(name)} {', '.join(versions)}"


def varied(target: Target, **changes: Any) -> Target:
    """The same target with some settings changed."""
    return replace(target, settings=target.settings.model_copy(update=changes))


async def _is_due_to_toolkit(planned: Planned, channels: Channels) -> bool:
    """Whether the request has an answer once the exact toolkit is not insisted on."""
    return await confirmed(request_for(_compatible(planned.target)), channels) is not None


async def _core_tree(request: Request, channels: Channels) -> str | None:
    """Why Python, PyTorch and CUDA alone do not go together, if they do not: clearer than with everything else."""
    core = tuple(one for one in request.requirements if one.key in ("python", "pytorch", "cuda"))
    try:
        await solve_whole(replace(request, requirements=core), channels)
    except NoSolution as error:
        return str(error)
    return None


def _compatible(target: Target) -> Target:
    assert target.settings.cuda is not None
    return varied(target, cuda=Cuda(version=target.settings.cuda.version, match="compatible"))


async def _no_exact(planned: Planned, channels: Channels, builds: Sequence[LockedPackage], tree: str) -> Problem:
    target, ask = planned.target, planned.request.cuda
    assert ask is not None
    choices = await choices_for_exact(planned, channels, builds)
    wanted, where = target.settings.pytorch, target.where("cuda")
    lines = [
        *([f"{target.where('pytorch')}: asks for pytorch {wanted}"] if wanted else []),
        f"{where}: asks for CUDA {ask.version}, exactly",
        "",
        readable(tree),
        "",
        "the nearest real choices:",
        *(f"- {choice}" for choice in choices),
    ]
    kept = "both the PyTorch and the machines that were asked for" if wanted else "the machines that were asked for"
    return Problem(
        message=f"{f'no pytorch {wanted}' if wanted else 'nothing'} on {_place(planned)} "
        f"goes with exactly CUDA {ask.version}",
        where=where,
        detail="\n".join(lines),
        hint=f"take one of the choices above; the first keeps {kept}",
    )


async def choices_for_exact(
    planned: Planned, channels: Channels, builds: Sequence[LockedPackage]
) -> tuple[Choice, ...]:
    """Another CUDA for this PyTorch, another PyTorch for this CUDA, another channel; then wheels."""
    target, request = planned.target, planned.request
    ask = request.cuda
    assert ask is not None
    provider = tables.provider_for(request.channels)
    universe = [build for build in builds if _matches_pytorch(planned, build)]
    toolkits = sorted(
        {cuda for build in universe if (cuda := provider.cuda_of(build.build))}, key=matchspec.version_key
    )
    attempts: list[tuple[str, list[Target]]] = [(f'cuda: "{ask.version}"', [_compatible(target)])]
    for cuda in reversed(toolkits):
        attempts.append(
            (f'cuda: {{version: "{cuda}", match: exact}}', [varied(target, cuda=Cuda(version=cuda, match="exact"))])
        )
    others: list[tables.Provider] = []
    if target.settings.pytorch:
        attempts.append(("", [varied(target, pytorch=ANY_PYTORCH), varied(target, pytorch=ANY_PYTORCH, python=None)]))
        others = _others(provider, target)
    found = await asyncio.gather(*(_attempt(write, targets, target, channels) for write, targets in attempts))
    elsewhere = await asyncio.gather(*(_elsewhere(other, target, channels) for other in others))
    return (*(one for one in (*found, *elsewhere) if one), *_wheels(target, ask.version))


def _wheels(target: Target, cuda: str) -> list[Choice]:
    """What there is outside conda, in one line; none of it is confirmed, and lockgen does not lock it."""
    if target.settings.pytorch is None:
        return []
    by_torch: dict[str, list[str]] = {}
    for wheel in tables.wheel_choices(target.settings.pytorch, cuda):
        by_torch.setdefault(wheel.pytorch, []).append(wheel.cuda)
    listed = "; ".join(f"torch {torch} for CUDA {', '.join(versions)}" for torch, versions in by_torch.items())
    if not listed:
        return []
    return [Choice(write=f"wheels, outside conda: {listed}", gives="lockgen does not lock wheels", confirmed=False)]


def _matches_pytorch(planned: Planned, build: LockedPackage) -> bool:
    wanted = next((one for one in planned.request.requirements if one.key == "pytorch"), None)
    return wanted is not None and matchspec.Universe([build]).satisfies(wanted.spec)


async def _attempt(write: str, targets: Sequence[Target], asked: Target, channels: Channels) -> Choice | None:
    """The first of some targets that has a good answer, as a choice."""
    for target in targets:
        packages = await confirmed(request_for(target), channels)
        if packages:
            return Choice(write=write or _written_as(packages, asked), gives=_gives(packages, target), confirmed=True)
    return None


def _written_as(packages: Sequence[LockedPackage], asked: Target) -> str:
    """The keys that have to change to get these packages."""
    chosen = {package.name: package.version.split(".") for package in packages}
    lines = [f'pytorch: "{".".join(chosen["pytorch"][:2])}"']
    python = ".".join(chosen["python"][:2])
    if asked.settings.python and not matchspec.version_within(
        ".".join(chosen["python"]), f"{python}.*,{_range(asked)}"
    ):
        lines.append(f'python: "{python}"')
    return ", ".join(lines)


def _range(asked: Target) -> str:
    return version_spec(asked.settings.python or "*")


def _gives(packages: Sequence[LockedPackage], target: Target) -> str:
    chosen = {package.name: package for package in packages}
    pytorch, python = chosen.get("pytorch"), chosen.get("python")
    provider = tables.provider_for(request_for(target).channels)
    toolkit = chosen.get(provider.toolkit_package)
    parts = [
        f"pytorch {pytorch.version} {pytorch.build}" if pytorch else "",
        f"python {python.version}" if python else "",
    ]
    if toolkit:
        cuda = ".".join(toolkit.version.split(".")[:2])
        parts += [f"CUDA {cuda}", f"driver {tables.min_driver(cuda)} or newer"]
    if pytorch:
        parts.append(f"from {channel_name(pytorch.channel)}")
    return ", ".join(part for part in parts if part)


def _others(current: tables.Provider, target: Target) -> list[tables.Provider]:
    return [other for other in tables.providers() if other.name != current.name and other.channels]


async def _elsewhere(other: tables.Provider, target: Target, channels: Channels) -> Choice | None:
    """Another provider's channels before the spec's own."""
    assert target.settings.cuda is not None
    names = [channel_name(url) for url in (other.channels[0], *other.needs_channels)]
    listed = [*names, *(name for name in target.settings.channels if name not in names)]
    moved = varied(target, channels=listed)
    tries = [moved, varied(moved, pytorch=ANY_PYTORCH), varied(moved, pytorch=ANY_PYTORCH, python=None)]
    write = f"channels: [{', '.join(listed)}]"
    try:
        for one in tries:
            packages = await confirmed(request_for(one), channels)
            if packages:
                keys = _written_as(packages, target)
                return Choice(write=f"{write}, {keys}", gives=_gives(packages, one), confirmed=True)
    except ChannelError:
        rows = other.pytorch_with(target.settings.cuda.version, target.platform)
        if rows:
            keys = f'pytorch: "{".".join(rows[0].pytorch_min.split(".")[:2])}"'
            return Choice(
                write=f"{write}, {keys}", gives=f"a build that {other.name} is known to have", confirmed=False
            )
    return None


async def choices_for_gpus(planned: Planned, channels: Channels) -> tuple[Choice, ...]:
    """CUDA versions, and PyTorch versions, whose builds cover every GPU of the spec."""
    target = planned.target
    assert target.settings.cuda is not None
    majors: dict[str, str] = {}
    for toolkit in tables.toolkits():
        majors[toolkit.cuda.split(".")[0]] = toolkit.cuda
    attempts = [
        (f'cuda: "{cuda}"', [varied(target, cuda=Cuda(version=cuda, match="compatible"))]) for cuda in majors.values()
    ]
    attempts.append(("", [varied(target, pytorch=ANY_PYTORCH), varied(target, pytorch=ANY_PYTORCH, python=None)]))
    found = await asyncio.gather(*(_attempt(write, targets, target, channels) for write, targets in attempts))
    return tuple(one for one in found if one)
