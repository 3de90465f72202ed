"""Why nothing answers a request: the user's own lines that stand in the way."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from lockgen import matchspec
from lockgen.channels import Channels
from lockgen.choices import ANY_PYTORCH, choices_for_exact, compatible_key, varied
from lockgen.conflict import readable
from lockgen.errors import Problem, Where
from lockgen.knowledge import tables
from lockgen.lock.model import LockedPackage
from lockgen.plan import Planned, request_for
from lockgen.request import Request, Requirement
from lockgen.solve import NoSolution, no_record, solvable, solve_whole
from lockgen.spec.model import Cuda
from lockgen.spec.parse import Target
from lockgen.steer import confirmed

MOST_PARTS = 24
"""Parts of a spec that are taken back one by one, each by a solve of its own; of more, those in the tree first."""


async def absences(planned: Planned, channels: Channels) -> tuple[Problem, ...]:
    """A problem for each package that the channels do not have at all; nothing is solved for it."""
    names = {matchspec.name_of(wanted.spec) for wanted in planned.request.requirements if not wanted.optional}
    records = await channels.records(planned.request, names)
    return tuple(_absent(planned, name) for name in sorted(names) if not records[name])


def of_sample(problem: Problem) -> Problem:
    """The same problem, told as one of the metadata that comes with lockgen."""
    hint = "`--offline` knows a small sample of conda-forge only: without it, the whole channel is asked"
    return replace(problem, hint=f"{problem.hint}\n{hint}" if problem.hint else hint)


async def unsolvable(planned: Planned, channels: Channels, tree: str) -> Problem:
    """The problem of a request without an answer, all of whose packages exist: with the culprits, or with choices."""
    request = planned.request
    names = {matchspec.name_of(wanted.spec) for wanted in request.requirements if not wanted.optional}
    records = await channels.records(request, names)
    if request.cuda and request.cuda.match == "exact" and await _is_due_to_toolkit(planned, channels):
        core = await _core_tree(request, channels)
        return await _no_exact(planned, channels, records.get("pytorch", []), core or tree)
    culprits, cpu_only = await asyncio.gather(_culprits(planned, channels, tree, records), _cpu_only(planned, channels))
    return _conflict(planned, culprits, tree, records, cpu_only=cpu_only)


def _absent(planned: Planned, name: str) -> Problem:
    wanted = next(one for one in planned.request.requirements if matchspec.name_of(one.spec) == name)
    hint = "is it spelled as the channel spells it?"
    known = tables.conda_name_for(name)
    if known and known != name:
        hint = f"`{name}` is a name of pip's: conda's package is `{known}`"
        hint += ', which the key `pytorch` asks for: `pytorch: "2.9"`' if known == "pytorch" else ""
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
    if part[0] == "system":
        return _on_system(request, part[1])
    if part[0] == "as_of":
        return replace(request, cutoff=None)
    if part[0] == "channel_priority":
        return replace(request, channel_priority="disabled")
    return replace(
        request,
        requirements=tuple(one for one in request.requirements if _part(one) != part),
        constraints=tuple(one for one in request.constraints if _part(one) != part),
    )


_CORE = ("python", "pytorch", "cuda")
_SYSTEM_KEYS = {"__glibc": "glibc", "__linux": "linux", "__osx": "macos"}


def _newer_systems(request: Request, tree: str) -> list[tuple[str, str]]:
    """Systems that the solver missed, oldest first, as parts of the spec: `__glibc=2.28`."""
    found: set[tuple[str, str]] = set()
    for text in request.virtual_packages:
        name, has, _ = text.split("=", 2)
        floors = re.findall(rf"{re.escape(name)} >=(\d+(?:\.\d+)*)", tree) if name in _SYSTEM_KEYS else []
        found |= {(name, floor) for floor in floors if matchspec.version_key(floor) > matchspec.version_key(has)}
    ordered = sorted(found, key=lambda pair: (pair[0], matchspec.version_key(pair[1])))
    return [("system", f"{name}={floor}") for name, floor in ordered]


def _on_system(request: Request, system: str) -> Request:
    """The request on another system: `__glibc=2.34`."""
    name = system.split("=")[0]
    others = (text for text in request.virtual_packages if not text.startswith(f"{name}="))
    return replace(request, virtual_packages=tuple(sorted((*others, f"{system}=0"))))


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


async def _culprits(
    planned: Planned, channels: Channels, tree: str, records: dict[str, list[LockedPackage]]
) -> list[tuple[tuple[str, str], tuple[LockedPackage, ...]]]:
    """Parts of the spec without which there is an answer, each with that answer."""
    request = planned.request
    parts = _suspects(request, tree, records)
    parts += _newer_systems(request, tree)
    parts += [("as_of", "")] if request.cutoff else []
    parts += [("channel_priority", "")] if len(request.channels) > 1 and request.channel_priority == "strict" else []
    answers = await asyncio.gather(*(_answer_without(planned, part, channels) for part in parts))
    return [(part, answer) for part, answer in zip(parts, answers, strict=True) if answer is not None]


def _suspects(request: Request, tree: str, records: dict[str, list[LockedPackage]]) -> list[tuple[str, str]]:
    """
    The parts of the spec that may be to blame, at most MOST_PARTS.

    Where no build matches a requirement, only taking that one back can help; with two of them, none alone can.
    """
    hopeless = {_part(one) for one in _unmatched(request, records) if not one.optional}
    if hopeless:
        return list(hopeless) if len(hopeless) == 1 else []
    asked = [one for one in (*request.requirements, *request.constraints) if not one.optional]
    words = set(re.findall(r"[\w.-]+", tree))
    likely = {_part(one) for one in asked if one.key in _CORE or matchspec.name_of(one.spec) in words}
    return sorted(dict.fromkeys(map(_part, asked)), key=lambda part: part not in likely)[:MOST_PARTS]


def _unmatched(request: Request, records: dict[str, list[LockedPackage]]) -> list[Requirement]:
    """Requirements that no build of an existing package matches."""
    found = []
    for wanted in request.requirements:
        builds = records.get(matchspec.name_of(wanted.spec), [])
        if builds and not any(matchspec.Universe([build]).satisfies(wanted.spec) for build in builds):
            found.append(wanted)
    return found


async def _answer_without(
    planned: Planned, part: tuple[str, str], channels: Channels
) -> tuple[LockedPackage, ...] | None:
    """A good answer once a part is taken back; for another CUDA than was asked for, not all checks can hold."""
    ask = solvable if part[0] == "cuda" else confirmed
    return await ask(_firm(_loosened(planned, part)), channels)


async def _cpu_only(planned: Planned, channels: Channels) -> bool:
    """Whether the same spec has an answer with CPU builds: then it is the GPU that cannot be had."""
    if planned.request.cuda is None:
        return False
    request = request_for(varied(planned.target, cuda=Cuda(version="none")))
    return await solvable(_firm(request), channels) is not None


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
    where = target.where(_written_key(target, ranked))
    message = f"nothing answers the spec on {place(planned)}"
    blames_gpu = all(_is_of_pytorch(planned, part) for part, _ in culprits)
    if cpu_only and blames_gpu:
        message = f"no GPU build answers the spec on {place(planned)}, only CPU builds do: they are not taken silently"
    hints = [_culprit_hint(planned, part, answer) for part, answer in ranked]
    hints += _nothing_matches(planned, records)
    if cpu_only and not blames_gpu:
        hints.append("with `cuda: none` it solves too: CPU builds are not taken silently")
    return Problem(
        message=message,
        where=where,
        detail=readable(tree),
        hint="\n".join(dict.fromkeys(hints)) or "no single line of the spec is to blame: loosen two or more of them",
    )


def _is_of_pytorch(planned: Planned, part: tuple[str, str]) -> bool:
    """Whether a part of the spec is about PyTorch or what comes in its kind, rather than another package."""
    if not part[0].startswith(("dependencies.", "extras.", "constraints.")):
        return True
    provider = tables.provider_for(planned.request.channels)
    ours = [one for one in (*planned.request.requirements, *planned.request.constraints) if _part(one) == part]
    return any(provider.companion(matchspec.name_of(one.spec)) for one in ours)


def _written_key(target: Target, ranked: Sequence[tuple[tuple[str, str], Any]]) -> str:
    """The key to point at: the first culprit that the spec has a line for."""
    keys = [_OTHER_KEYS.get(part[0], part[0]) for part, _ in ranked]
    return next((key for key in keys if target.node.get(key.split(".")[0])), "pytorch")


def alike(planned: Planned, earlier: str | None) -> Problem:
    """A request without an answer that is not looked into: another one failed in the same words, or enough did."""
    why = f"the same conflict as on {earlier}" if earlier else "not looked into, after the conflicts above"
    return Problem(message=f"nothing answers the spec on {place(planned)}: {why}")


def place(planned: Planned) -> str:
    """The platform, and the variant where there are some."""
    variant = planned.target.variant
    return f"{planned.request.platform} (variant {variant})" if variant else planned.request.platform


def _culprit_hint(planned: Planned, part: tuple[str, str], answer: tuple[LockedPackage, ...]) -> str:
    """What a line of the spec excludes, and what there would be without it."""
    key, name = part
    where = planned.target.where(key)
    provider = tables.provider_for(planned.request.channels)
    if key in _OTHER_KEYS:
        return _other_hint(planned, part, answer)
    ours = [one for one in (*planned.request.requirements, *planned.request.constraints) if _part(one) == part]
    names = ["pytorch", provider.toolkit_package] if key == "cuda" else [matchspec.name_of(one.spec) for one in ours]
    chosen = {package.name: package.version for package in answer}
    instead = ", ".join(f"{one} {chosen[one]}" for one in dict.fromkeys(names) if one in chosen)
    said = f"`{name}` of {where.text.strip()}" if name else f"`{_said(key, where, ours)}`"
    result = f"it solves with {instead}" if instead else "it solves"
    return f"line {where.line} excludes the candidates: {said}; without it, {result}"


def _said(key: str, where: Where, ours: Sequence[Requirement]) -> str:
    """The words of the spec that ask for something: of a list that stands on one line, the item alone."""
    line = where.text.strip()
    if key.startswith(("dependencies.", "constraints.")) and not line.startswith("- "):
        return ours[0].spec
    return line or ours[0].because


_OTHER_KEYS = {"system": "system", "as_of": "as-of", "channel_priority": "channel-priority"}


def _other_hint(planned: Planned, part: tuple[str, str], answer: Sequence[LockedPackage]) -> str:
    """What a key that asks for no package excludes, whether it is written or holds by default."""
    key, system = part
    written = planned.target.node.get(_OTHER_KEYS[key])
    pytorch = next((f" with pytorch {one.version}" for one in answer if one.name == "pytorch"), "")
    if key == "as_of" and written:
        line = f"line {written.where.line} excludes the candidates: `{written.where.text.strip()}`"
        return f"{line}; without it, it solves{pytorch}"
    if key == "channel_priority":
        return f"strict channel priority excludes the candidates: with `channel-priority: disabled`, it solves{pytorch}"
    name, version = system.split("=")
    line = f"line {written.where.line}" if written else "the default of `system`"
    return f'{line} excludes the candidates: with `system: {{{_SYSTEM_KEYS[name]}: "{version}"}}`, it solves{pytorch}'


def _nothing_matches(planned: Planned, records: dict[str, list[LockedPackage]]) -> list[str]:
    """For requirements that no build matches at all: which versions there are."""
    hints = []
    for wanted in _unmatched(planned.request, records):
        builds = records[matchspec.name_of(wanted.spec)]
        place = planned.target.where(wanted.key)
        hints.append(f"line {place.line}: no build matches `{wanted.spec}`; {_what_there_is(wanted.spec, builds)}")
    return hints


def _what_there_is(spec: str, builds: Sequence[LockedPackage]) -> str:
    """The newest versions of a package; where the spec asks for a kind of build, those of that kind."""
    words = spec.split()
    name, kind = matchspec.name_of(spec), words[2] if len(words) == 3 else "*"
    of_kind = [build for build in builds if fnmatchcase(build.build, kind)]
    if not of_kind:
        return f"the channel has no `{kind}` build of {name}"
    versions = list(dict.fromkeys(build.version for build in reversed(of_kind)))[:6]
    what = name if kind == "*" else f"`{kind}` builds of {name}"
    return f"the channel has {what} {', '.join(versions)}"


async def _is_due_to_toolkit(planned: Planned, channels: Channels) -> bool:
    """Whether the request has an answer, a GPU one, once its CUDA is not insisted on."""
    return await solvable(_firm(_any_cuda(planned.request)), channels) is not None


def _firm(request: Request) -> Request:
    """The request without what may be left out: whether it has an answer is the same, and found sooner."""
    return replace(request, requirements=tuple(one for one in request.requirements if not one.optional))


async def _core_tree(request: Request, channels: Channels) -> str | None:
    """Why Python, PyTorch and CUDA alone do not go together, if they do not: clearer than with everything else."""
    core = tuple(one for one in request.requirements if one.key in _CORE)
    try:
        await solve_whole(replace(request, requirements=core), channels)
    except NoSolution as error:
        return str(error)
    return None


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
        *(["", "the nearest real choices:"] if choices else []),
        *(f"- {choice}" for choice in choices),
    ]
    kept = "both the PyTorch and the machines that were asked for" if wanted else "the machines that were asked for"
    keeps = choices[:1] and choices[0].write == compatible_key(ask.version)
    return Problem(
        message=f"{f'no pytorch {wanted}' if wanted else 'nothing'} on {place(planned)} "
        f"goes with exactly CUDA {ask.version}",
        where=where,
        detail="\n".join(lines),
        hint=f"take one of the choices above{f'; the first keeps {kept}' if keeps else ''}" if choices else None,
    )
