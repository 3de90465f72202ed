"""The main job: from a plan to checked locks, all platforms and variants at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from lockgen import matchspec
from lockgen.channels import Channels
from lockgen.diagnose import choices_for_gpus, unsolvable
from lockgen.errors import AnswerError, LockgenError, Problem, Unsolvable
from lockgen.knowledge import tables
from lockgen.lock.consistency import check
from lockgen.lock.cuda import facts
from lockgen.lock.model import Lock, LockedPackage, PlatformLock
from lockgen.plan import Plan, Planned
from lockgen.request import Request, Requirement
from lockgen.solve import Answer, NoSolution, solve


def resolve(plan: Plan, channels: Channels) -> tuple[Lock, ...]:
    """
    Solve everything in a plan, concurrently, and check every answer.

    Returns:
        One lock for each variant, ordered by name.

    Raises:
        Unsolvable, AnswerError, ChannelError: with the problems of all platforms and variants.
    """
    return asyncio.run(_resolve(plan, channels))


async def _resolve(plan: Plan, channels: Channels) -> tuple[Lock, ...]:
    results = await asyncio.gather(*(_answered(planned, channels) for planned in plan.planned), return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    for error in failed:
        if not isinstance(error, LockgenError):
            raise error
    if failed:
        problems = {str(problem): problem for error in failed if isinstance(error, LockgenError) for problem in error.problems}
        raise type(failed[0])(*problems.values())
    by_variant: dict[str | None, list[PlatformLock]] = {}
    for planned, result in zip(plan.planned, results, strict=True):
        assert isinstance(result, PlatformLock)
        by_variant.setdefault(planned.target.variant, []).append(result)
    return tuple(
        Lock(name=plan.name, variant=variant, platforms=tuple(sorted(locks, key=lambda lock: lock.platform)))
        for variant, locks in sorted(by_variant.items(), key=lambda pair: pair[0] or "")
    )


async def _answered(planned: Planned, channels: Channels) -> PlatformLock:
    request = planned.request
    try:
        answer = await _steered(request, channels)
    except NoSolution as error:
        raise Unsolvable(*await unsolvable(planned, channels, str(error))) from None
    asked = _asked(request, answer)
    findings = check(asked, answer.packages)
    if findings:
        raise AnswerError(*await _refusal(planned, channels, findings))
    return PlatformLock(
        request=request, packages=answer.packages, cuda=facts(request, answer.packages), left_out=answer.left_out
    )


async def _steered(request: Request, channels: Channels) -> Answer:
    """
    Solve; where the answer mixes what must not be mixed, ask again with the right kind held fast.

    The request's own constraints prevent the mixes of packages that are known; this catches the others: a package that
    no table names in a CPU build beside GPU builds, a second OpenMP or BLAS.
    """
    answer = await solve(request, channels)
    limits = (*_flavour_limits(request, answer.packages), *_singleton_limits(request, answer.packages))
    if not limits:
        return answer
    try:
        return await solve(replace(request, constraints=(*request.constraints, *limits)), channels)
    except NoSolution:
        return answer


def _flavour_limits(request: Request, packages: Sequence[LockedPackage]) -> list[Requirement]:
    provider = tables.provider_for(request.channels)
    wanted = "gpu" if request.cuda else "cpu"
    mixed = [
        package.name
        for package in packages
        if provider.flavour(package.build) not in (None, wanted) and not provider.exemption(package.name)
    ]
    build = provider.any_gpu_build if request.cuda else provider.any_cpu_build
    return [Requirement(spec=f"{name} * {build}", because=f"{wanted} builds only", key="cuda") for name in mixed]


def _singleton_limits(request: Request, packages: Sequence[LockedPackage]) -> list[Requirement]:
    pairs = [(package.name, package.build) for package in packages]
    limits = []
    for group in tables.singleton_groups():
        present = group.present(pairs, request.platform)
        spec = present[0].steer_on(request.platform) if len(present) > 1 else None
        if spec:
            limits.append(Requirement(spec=spec, because=f"one {group.title}", key=""))
    return limits


def _asked(request: Request, answer: Answer) -> Request:
    """The request without the optional requirements that were left out."""
    gone = {text.split(":", 1)[0] for text in answer.left_out}
    kept = tuple(one for one in request.requirements if not (one.optional and matchspec.name_of(one.spec) in gone))
    return replace(request, requirements=kept)


async def _refusal(planned: Planned, channels: Channels, findings: Sequence[tuple[str, str]]) -> list[Problem]:
    """The findings as problems at the lines they concern; for GPUs that are not covered, with what would do."""
    choices = await choices_for_gpus(planned, channels) if any(key == "gpus" for _, key in findings) else ()
    detail = "\n".join(["what would do:", *(f"- {choice}" for choice in choices)]) if choices else None
    return [
        Problem(
            message=f"{planned.request.platform}: {message}",
            where=planned.target.where(key) if key else None,
            detail=detail if key == "gpus" else None,
            hint=None if detail or key != "gpus" else "no build in the channels covers all of these GPUs",
        )
        for message, key in findings
    ]
