"""Whether locks still answer a spec, and if not, which key or fact changed. Pure: no channel is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from lockgen import matchspec
from lockgen.lock.cuda import facts
from lockgen.lock.model import Lock, PlatformLock
from lockgen.request import Request, Requirement


def changes(
    asked: Mapping[tuple[str | None, str], Request], locks: Sequence[Lock], name: str | None = None
) -> tuple[str, ...]:
    """
    What differs between the requests of a spec and those that the locks answer, one sentence a difference.

    Args:
        asked: requests by variant and platform.
        locks: as read from disk.
        name: of the spec; None where it does not matter.
    """
    locked = {(lock.variant, one.platform): one for lock in locks for one in lock.platforms}
    old = next((lock.name for lock in locks if name is not None and lock.name != name), None)
    found = [f"`name` changed: `{old}` → `{name}`"] if old is not None else []
    for variant, platform in sorted({*asked, *locked}, key=lambda pair: (pair[0] or "", pair[1])):
        place = platform if variant is None else f"{platform}, variant {variant}"
        request, answer = asked.get((variant, platform)), locked.get((variant, platform))
        if request is None:
            found.append(f"{place}: locked, but no longer in the spec")
        elif answer is None:
            found.append(f"{place}: in the spec, but not locked")
        else:
            differences = tuple(_differences(answer.request, request)) or tuple(_reasons(answer.request, request))
            found += [f"{place}: {text}" for text in (*differences, *_facts(answer))]
    return tuple(found)


def _differences(old: Request, new: Request) -> Iterator[str]:
    yield from _specs("", old.requirements, new.requirements)
    yield from _specs("constraint ", old.constraints, new.constraints)
    for field, name in (
        ("channels", "channels"),
        ("channel_priority", "channel-priority"),
        ("cutoff", "as-of"),
        ("provider", "the provider of PyTorch"),
    ):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            yield f"`{name}` changed: {_shown(before)} → {_shown(after)}"
    if old.virtual_packages != new.virtual_packages:
        gone = sorted(set(old.virtual_packages) - set(new.virtual_packages))
        come = sorted(set(new.virtual_packages) - set(old.virtual_packages))
        yield f"the system changed: {_shown(gone)} → {_shown(come)}"
    if old.cuda != new.cuda:
        for field in ("version", "match", "gpus", "driver"):
            before, after = getattr(old.cuda, field, None), getattr(new.cuda, field, None)
            if before != after:
                name = {"version": "cuda", "match": "cuda.match"}.get(field, field)
                yield f"`{name}` changed: {_shown(before)} → {_shown(after)}"


def _specs(kind: str, old: Sequence[Requirement], new: Sequence[Requirement]) -> Iterator[str]:
    before, after = {_asked(one): one for one in old}, {_asked(one): one for one in new}
    gone = [one for key, one in before.items() if key not in after]
    come = [one for key, one in after.items() if key not in before]
    kept = {one.extra for one in old} & {one.extra for one in new}
    yield from _whole_extras("no longer asked for", gone, kept)
    yield from _whole_extras("asked for now", come, kept)
    gone = [one for one in gone if one.extra in kept or one.extra is None]
    come = [one for one in come if one.extra in kept or one.extra is None]
    for one in gone:
        successor = next((other for other in come if _subject(other) == _subject(one)), None)
        if successor is not None:
            come.remove(successor)
            yield f"{kind}`{_key(one)}` changed: {_words(one)} → {_words(successor)}"
        else:
            yield f"{kind}`{_key(one)}` no longer asks for `{one.spec}`"
    for one in come:
        yield f"{kind}`{_key(one)}` now asks for `{one.spec}`"


def _whole_extras(what: str, asked: Sequence[Requirement], kept: Set[str | None]) -> Iterator[str]:
    """One line for each extra that came or went as a whole."""
    for name, count in Counter(one.extra for one in asked if one.extra not in kept).items():
        if name is not None:
            yield f"extra `{name}` is {what} ({'1 package' if count == 1 else f'{count} packages'})"


def _reasons(old: Request, new: Request) -> Iterator[str]:
    """The same packages are asked for, but another line or another reason asks for one: the files say which."""
    before, after = (
        {(one.spec, one.because) for one in (*each.requirements, *each.constraints)} for each in (old, new)
    )
    for spec, because in sorted(after - before):
        said = next((words for other, words in sorted(before - after) if other == spec), "")
        yield f"what asks for `{spec}` changed: `{said}` → `{because}`"


def _asked(one: Requirement) -> tuple[str, bool]:
    return one.spec, one.optional


def _subject(one: Requirement) -> tuple[str, str]:
    """The key and the package that a requirement is about: a list's order does not matter."""
    return _key(one), matchspec.name_of(one.spec)


def _words(one: Requirement) -> str:
    return f"`{one.spec}`{' (optional)' if one.optional else ''}"


def _key(one: Requirement) -> str:
    return one.key.split(".")[0]


def _shown(value: object) -> str:
    if value is None or value in ([], ()):
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return f"`{value}`"


def _facts(answer: PlatformLock) -> Iterator[str]:
    """What lockgen knows about CUDA may have changed since; the lock records what was known."""
    now = facts(answer.request, answer.packages)
    if now == answer.cuda:
        return
    for field in ("asked", "locked", "min_driver", "capabilities", "ptx", "notes"):
        before, after = getattr(answer.cuda, field, None), getattr(now, field, None)
        if before != after:
            yield f"a fact about CUDA changed (`{field}`): {_shown(before)} → {_shown(after)}"
