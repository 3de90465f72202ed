"""What the user could write instead, each choice solved and checked where the channels can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lockgen import matchspec
from lockgen.channelname import channel_name
from lockgen.channels import Channels
from lockgen.errors import ChannelError
from lockgen.knowledge import tables
from lockgen.lock.cuda import driver_words, needed_driver
from lockgen.lock.model import LockedPackage
from lockgen.plan import Planned, request_for
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


def varied(target: Target, **changes: Any) -> Target:
    """The same target with some settings changed."""
    return replace(target, settings=target.settings.model_copy(update=changes))


def _compatible(target: Target) -> Target:
    assert target.settings.cuda is not None
    return varied(target, cuda=Cuda(version=target.settings.cuda.version, match="compatible"))


def compatible_key(cuda: str) -> str:
    """What to write to ask for any build that runs where a CUDA does."""
    return f'cuda: "{cuda}"'


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
    attempts: list[tuple[str, list[Target]]] = [(compatible_key(ask.version), [_compatible(target)])]
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
        state = " (unsupported)" if wheel.state == "unsupported" else ""
        by_torch.setdefault(wheel.pytorch, []).append(wheel.cuda + state)
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
    request = request_for(target)
    toolkit = chosen.get(tables.provider_for(request.channels).toolkit_package)
    parts = [
        f"pytorch {pytorch.version} {pytorch.build}" if pytorch else "",
        f"python {python.version}" if python else "",
    ]
    if toolkit:
        cuda = ".".join(toolkit.version.split(".")[:2])
        parts += [f"CUDA {cuda}", driver_words(needed_driver(request, packages), cuda)]
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
