"""The main job: from a plan to checked locks, all platforms and variants at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from lockgen.channels import Channels
from lockgen.errors import AnswerError, LockgenError, Problem, Unsolvable
from lockgen.lock.consistency import listed_on_cpu
from lockgen.lock.cuda import facts
from lockgen.lock.model import Lock, PlatformLock
from lockgen.plan import Plan, Planned
from lockgen.request import settled
from lockgen.solve import NoSolution
from lockgen.steer import answered, findings_in, obstacles

MOST_TOLD = 4
"""Conflicts of one run that are looked into; of the others it is said that there is no answer."""


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
    channels.turns = asyncio.Semaphore(os.cpu_count() or 2)  # of this event loop, whatever ran before
    results = await asyncio.gather(*(_locked(planned, channels) for planned in plan.planned), return_exceptions=True)
    results = await _diagnosed(plan.planned, results, channels)
    failed = [result for result in results if isinstance(result, BaseException)]
    for error in failed:
        if not isinstance(error, LockgenError):
            raise error
    if failed:
        problems = {
            str(problem): problem for error in failed if isinstance(error, LockgenError) for problem in error.problems
        }
        *others, last = problems.values()
        if channels.is_sample and isinstance(failed[0], Unsolvable):
            from lockgen.diagnose import of_sample

            last = of_sample(last)
        raise type(failed[0])(*others, last)
    by_variant: dict[str | None, list[PlatformLock]] = {}
    for planned, result in zip(plan.planned, results, strict=True):
        assert isinstance(result, PlatformLock)
        by_variant.setdefault(planned.target.variant, []).append(result)
    return tuple(
        Lock(name=plan.name, variant=variant, platforms=tuple(sorted(locks, key=lambda lock: lock.platform)))
        for variant, locks in sorted(by_variant.items(), key=lambda pair: pair[0] or "")
    )


async def _diagnosed(
    planned: Sequence[Planned], results: Sequence[PlatformLock | BaseException], channels: Channels
) -> list[PlatformLock | BaseException]:
    """
    The results with each `NoSolution` told in words, one after the other: every diagnosis solves many times.

    A conflict that the solver tells in the same words as an earlier one gets one line, and so do all from MOST_TOLD on.
    """
    from lockgen.diagnose import absences, alike, place, unsolvable

    told: dict[str, str] = {}
    found: list[PlatformLock | BaseException] = []
    for one, result in zip(planned, results, strict=True):
        if not isinstance(result, NoSolution):
            found.append(result)
            continue
        tree = str(result)
        absent = await absences(one, channels)
        if absent:
            found.append(Unsolvable(*absent))
            continue
        if tree in told or len(told) >= MOST_TOLD:
            found.append(Unsolvable(alike(one, told.get(tree))))
            continue
        found.append(Unsolvable(await unsolvable(one, channels, tree)))
        told[tree] = place(one)
    return found


async def _locked(planned: Planned, channels: Channels) -> PlatformLock:
    request = planned.request
    answer = await answered(request, channels)
    findings = findings_in(request, answer)
    if findings:
        held = await obstacles(request, answer, channels)
        raise AnswerError(*await _refusal(planned, channels, findings, held))
    return PlatformLock(
        request=settled(request),
        packages=answer.packages,
        cuda=facts(request, answer.packages),
        left_out=answer.left_out,
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
            hint=_hint(planned, message, key, would_do),
        )
        for message, key in findings
    ]


def _hint(planned: Planned, message: str, key: str, would_do: str | None) -> str | None:
    """What to do about a finding."""
    if key == "gpus":
        return None if would_do else "no build in the channels covers all of these GPUs"
    name = listed_on_cpu(planned.request, message)
    return f"`{name} * *cpu*` among the dependencies takes the CPU build knowingly" if name else None


def _in_the_way(message: str, held: Mapping[str, str]) -> str | None:
    """What excludes the right kind of the package that a finding begins with."""
    from lockgen.conflict import readable

    return next((readable(tree) for name, tree in held.items() if message.startswith(f"`{name} ")), None)
