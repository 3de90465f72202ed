"""The main job: from a plan to checked locks, all platforms and variants at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from lockgen.channels import Channels
from lockgen.errors import AnswerError, LockgenError, Problem, Unsolvable
from lockgen.lock.cuda import facts
from lockgen.lock.model import Lock, PlatformLock
from lockgen.plan import Plan, Planned
from lockgen.solve import NoSolution
from lockgen.steer import answered, findings_in, obstacles


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
    results = await asyncio.gather(*(_locked(planned, channels) for planned in plan.planned), return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    for error in failed:
        if not isinstance(error, LockgenError):
            raise error
    if failed:
        problems = {
            str(problem): problem for error in failed if isinstance(error, LockgenError) for problem in error.problems
        }
        raise type(failed[0])(*problems.values())
    by_variant: dict[str | None, list[PlatformLock]] = {}
    for planned, result in zip(plan.planned, results, strict=True):
        assert isinstance(result, PlatformLock)
        by_variant.setdefault(planned.target.variant, []).append(result)
    return tuple(
        Lock(name=plan.name, variant=variant, platforms=tuple(sorted(locks, key=lambda lock: lock.platform)))
        for variant, locks in sorted(by_variant.items(), key=lambda pair: pair[0] or "")
    )


async def _locked(planned: Planned, channels: Channels) -> PlatformLock:
    request = planned.request
    try:
        answer = await answered(request, channels)
    except NoSolution as error:
        from lockgen.diagnose import unsolvable

        raise Unsolvable(*await unsolvable(planned, channels, str(error))) from None
    findings = findings_in(request, answer)
    if findings:
        held = await obstacles(request, answer, channels)
        raise AnswerError(*await _refusal(planned, channels, findings, held))
    return PlatformLock(
        request=request, packages=answer.packages, cuda=facts(request, answer.packages), left_out=answer.left_out
    )


async def _refusal(
    planned: Planned, channels: Channels, findings: Sequence[tuple[str, str]], held: Mapping[str, str]
) -> list[Problem]:
    """The findings as problems at the lines they concern: with what would do, or with what stands in the way."""
    from lockgen.choices import choices_for_gpus

    choices = await choices_for_gpus(planned, channels) if any(key == "gpus" for _, key in findings) else ()
    would_do = "\n".join(["what would do:", *(f"- {choice}" for choice in choices)]) if choices else None
    return [
        Problem(
            message=f"{planned.request.platform}: {message}",
            where=planned.target.where(key) if key else None,
            detail=would_do if key == "gpus" else _in_the_way(message, held),
            hint=None if would_do or key != "gpus" else "no build in the channels covers all of these GPUs",
        )
        for message, key in findings
    ]


def _in_the_way(message: str, held: Mapping[str, str]) -> str | None:
    """What excludes the right kind of the package that a finding begins with."""
    from lockgen.conflict import readable

    return next((readable(tree) for name, tree in held.items() if message.startswith(f"`{name} ")), None)
