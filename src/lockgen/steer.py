"""Answers that are as asked: the solver is held to one kind of builds, one OpenMP and one BLAS, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lockgen import matchspec
from lockgen.channels import Channels
from lockgen.knowledge import tables
from lockgen.lock.consistency import Finding, check, exemption
from lockgen.lock.model import LockedPackage
from lockgen.request import Request, Requirement
from lockgen.solve import Answer, NoSolution, solve


async def answered(request: Request, channels: Channels) -> Answer:
    """
    Solve; where the answer mixes what must not be mixed, ask again with the right kind held fast.

    The request's own constraints prevent the mixes of packages that are known; this catches the others: a package that
    no table names in a CPU build beside GPU builds, a second OpenMP or BLAS. What cannot be held is left as it is, for
    the checks to refuse.
    """
    answer = await solve(request, channels)
    tried: list[Requirement] = []
    while new := [limit for limit in _limits(request, answer.packages) if limit not in tried]:
        tried += new
        for limit in new:
            held = replace(request, constraints=(*request.constraints, limit))
            try:
                request, answer = held, await solve(held, channels)
            except NoSolution:
                continue
    return answer


def _limits(request: Request, packages: Sequence[LockedPackage]) -> list[Requirement]:
    return [*_flavour_limits(request, packages), *_singleton_limits(request, packages)]


def _flavour_limits(request: Request, packages: Sequence[LockedPackage]) -> list[Requirement]:
    provider = tables.provider_for(request.channels)
    wanted = "gpu" if request.cuda else "cpu"
    mixed = [
        package.name
        for package in packages
        if provider.flavour(package.build) not in (None, wanted) and not exemption(request, package, provider)
    ]
    build = provider.any_gpu_build if request.cuda else provider.any_cpu_build
    return [Requirement(spec=f"{name} * {build}", because=f"{wanted} builds only", key="cuda") for name in mixed]


async def obstacles(request: Request, answer: Answer, channels: Channels) -> dict[str, str]:
    """Why packages are not of the kind that was asked for, by name: the solver's words once it is held to that kind."""
    found = {}
    for limit in _flavour_limits(request, answer.packages):
        try:
            await solve(replace(_kept(request, answer), constraints=(*request.constraints, limit)), channels)
        except NoSolution as error:
            found[matchspec.name_of(limit.spec)] = str(error)
    return found


def _singleton_limits(request: Request, packages: Sequence[LockedPackage]) -> list[Requirement]:
    pairs = [(package.name, package.build) for package in packages]
    limits = []
    for group in tables.singleton_groups():
        present = group.present(pairs, request.platform)
        spec = present[0].steer_on(request.platform) if len(present) > 1 else None
        if spec:
            limits.append(Requirement(spec=spec, because=f"one {group.title}", key=""))
    return limits


def _kept(request: Request, answer: Answer) -> Request:
    """The request without the optional requirements that were left out."""
    gone = {text.split(":", 1)[0] for text in answer.left_out}
    kept = tuple(one for one in request.requirements if not (one.optional and matchspec.name_of(one.spec) in gone))
    return replace(request, requirements=kept)


def findings_in(request: Request, answer: Answer) -> tuple[Finding, ...]:
    """What in an answer is not as asked; empty for a good one."""
    return check(_kept(request, answer), answer.packages)


async def confirmed(request: Request, channels: Channels) -> tuple[LockedPackage, ...] | None:
    """The packages that answer a request and pass every check; None where there are none."""
    try:
        answer = await answered(request, channels)
    except NoSolution:
        return None
    return None if findings_in(request, answer) else answer.packages
