"""One request, one answer: rattler solves, lockgen checks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import rattler
from rattler import BuildString, ChannelPriority, GenericVirtualPackage, PackageName, RepoDataRecord, Subdir, Version
from rattler.exceptions import FetchRepoDataError, GatewayError, IoError, SolverError
from rattler.repo_data.sparse import SparseRepoData

from lockgen import matchspec
from lockgen.channelname import channel_name
from lockgen.channels import Channels, package
from lockgen.errors import ChannelError, Problem
from lockgen.lock.model import LockedPackage
from lockgen.request import Request, Requirement

_PRIORITY = {"strict": ChannelPriority.Strict, "disabled": ChannelPriority.Disabled}


class NoSolution(Exception):
    """The solver found that nothing answers the request; the text is its own tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the solver gave."""

    packages: tuple[LockedPackage, ...]
    """Sorted by name."""
    left_out: tuple[str, ...] = ()
    """Optional packages that could not be had, with the reason."""


async def solve(request: Request, channels: Channels) -> Answer:
    """
    Solve a request; optional requirements that cannot be met are left out, one by one, in their order.

    Raises:
        NoSolution: the request without its optional requirements has no answer.
        ChannelError: the metadata cannot be had.
    """
    try:
        return Answer(packages=await solve_whole(request, channels))
    except NoSolution:
        optional = [wanted for wanted in request.requirements if wanted.optional]
        if not optional:
            raise
    return await _solve_with_options(request, optional, channels)


async def _solve_with_options(request: Request, optional: Sequence[Requirement], channels: Channels) -> Answer:
    records = await channels.records(request, {matchspec.name_of(wanted.spec) for wanted in optional})
    left_out = []
    kept = tuple(wanted for wanted in request.requirements if not wanted.optional)
    packages = await solve_whole(replace(request, requirements=kept), channels)
    for wanted in optional:
        name = matchspec.name_of(wanted.spec)
        if not records[name]:
            left_out.append(f"{name}: {no_record(request)}")
            continue
        try:
            packages = await solve_whole(replace(request, requirements=(*kept, wanted)), channels)
            kept = (*kept, wanted)
        except NoSolution:
            left_out.append(f"{name}: no build goes with the rest")
    return Answer(packages=packages, left_out=tuple(dict.fromkeys(left_out)))


def no_record(request: Request) -> str:
    """Where a package was looked for in vain."""
    names = ", ".join(channel_name(url) for url in request.channels)
    return f"no record in {names} for {request.platform}"


async def solve_whole(request: Request, channels: Channels) -> tuple[LockedPackage, ...]:
    """Solve with every requirement, optional or not; the packages, sorted by name."""
    try:
        async with channels.turns:
            records = await _records(request, channels)
    except SolverError as error:
        raise NoSolution(str(error)) from None
    except (GatewayError, FetchRepoDataError, IoError) as error:
        raise ChannelError(_unreachable(request, str(error))) from None
    except OSError as error:
        raise ChannelError(_broken(request, str(error))) from None
    return tuple(sorted((package(record) for record in records), key=lambda one: one.name))


async def _records(request: Request, channels: Channels) -> list[RepoDataRecord]:
    """Rattler's answer; without a network client where every source is a file that is open already."""
    sources = channels.sources(request)
    question: dict[str, Any] = {
        "specs": [wanted.spec for wanted in request.requirements],
        "constraints": [limit.spec for limit in request.constraints],
        "virtual_packages": [_virtual(text) for text in request.virtual_packages],
        "channel_priority": _PRIORITY[request.channel_priority],
        "exclude_newer": datetime.fromisoformat(request.cutoff) if request.cutoff else None,
        "timestamp_policy": "allow-missing",
    }
    if all(isinstance(source, SparseRepoData) for source in sources):
        return await rattler.solve_with_sparse_repodata(sparse_repodata=sources, **question)
    return await rattler.solve(
        sources=sources,
        gateway=channels.gateway(),
        platforms=[Subdir(request.platform), Subdir("noarch")],
        channel_relations="disabled",
        **question,
    )


def _virtual(text: str) -> GenericVirtualPackage:
    name, version, build = text.split("=", 2)
    return GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))


def _unreachable(request: Request, words: str) -> Problem:
    hint = "is the network up? `--offline` solves against the conda-forge snapshot that comes with lockgen"
    if any(url.startswith("file://") and url in words for url in request.channels):
        hint = "a channel that is a folder needs `noarch/repodata.json` and the same for each platform"
    elif re.search(r"\b(401|403)\b", words):
        hint = "it asks for a credential: `pixi auth login` or `~/.netrc` gives one, the spec never does"
    return Problem(
        message=f"cannot read {_channels(request)}",
        detail=words.strip(),
        hint=hint,
    )


def _broken(request: Request, words: str) -> Problem:
    hint = "get the metadata again: a record in it is not whole"
    return Problem(message=f"a broken record in {_channels(request)}", detail=words.strip(), hint=hint)


def _channels(request: Request) -> str:
    names = ", ".join(f"`{channel_name(url)}`" for url in request.channels)
    return f"the channels {names}" if len(request.channels) > 1 else f"the channel {names}"


async def solvable(request: Request, channels: Channels) -> tuple[LockedPackage, ...] | None:
    """The packages that answer a request, None where nothing does."""
    try:
        return await solve_whole(request, channels)
    except NoSolution:
        return None
