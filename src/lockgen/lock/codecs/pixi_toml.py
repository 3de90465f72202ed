"""`pixi.toml`: the manifest that `pixi.lock` answers; variants are features and environments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from lockgen.lock.codec import Codec, Files
from lockgen.lock.codecs._matchspec import Words, words
from lockgen.lock.codecs._shared import environments
from lockgen.lock.model import Lock, PlatformLock
from lockgen.lock.yamltext import comment
from lockgen.request import Requirement

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_NUMBERS = re.compile(r"[0-9]+")
_SYSTEM = {"__linux": "linux", "__cuda": "cuda", "__osx": "macos"}
"""Virtual package → key of `system-requirements`; `libc` and `archspec` are written in their own way."""
_LIBC = ("__glibc", "__musl")


def dump(locks: tuple[Lock, ...]) -> Files:
    """The manifest of all locks together: with variants each is a feature and an environment."""
    if not locks:
        return {"pixi.toml": "[workspace]\nchannels = []\nplatforms = []\n"}
    lines = _workspace(locks)
    if all(lock.variant is None for lock in locks):
        lines += _feature("", locks[0], [])
    else:
        for lock in locks:
            lines += _feature(f"feature.{_key(lock.environment)}.", lock, _sources(lock, locks))
        lines += _environments(locks)
    return {"pixi.toml": "\n".join(lines) + "\n"}


def text(value: str) -> str:
    """A TOML string."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    """A TOML key, quoted where it must be."""
    return name if _BARE.fullmatch(name) else text(name)


def _strings(values: Iterable[str]) -> str:
    return f"[{', '.join(map(text, values))}]"


def _workspace(locks: tuple[Lock, ...]) -> list[str]:
    """The `workspace` table, which all environments share."""
    requests = [answer.request for lock in locks for answer in lock.platforms]
    platforms = sorted({request.platform for request in requests})
    lines = [
        f"# Written by lockgen from the spec {comment(locks[0].name)}, with pixi.lock. Change the spec instead.",
        "[workspace]",
        f"name = {text(locks[0].name)}",
        f"channels = {_strings(_channels(*locks))}",
        f"platforms = {_strings(platforms)}",
    ]
    if all(_priority(lock) == "disabled" for lock in locks):
        lines.append('channel-priority = "disabled"')
    cutoffs = {request.cutoff for request in requests}
    if len(cutoffs) == 1 and (cutoff := cutoffs.pop()):
        lines.append(f"exclude-newer = {text(cutoff)}")
    return lines


def _channels(*locks: Lock) -> list[str]:
    """The channels of some locks, each once, in their order."""
    return list(dict.fromkeys(url for lock in locks for each in lock.platforms for url in each.request.channels))


def _priority(lock: Lock) -> str:
    """`disabled` where one platform has it so: pixi knows one for all platforms of an environment."""
    return "disabled" if any(each.request.channel_priority == "disabled" for each in lock.platforms) else "strict"


def _sources(lock: Lock, locks: tuple[Lock, ...]) -> list[str]:
    """What a variant's feature says of its channels, where variants differ; `exclude-newer` is the workspace's only."""
    lines = []
    if len({tuple(_channels(each)) for each in locks}) > 1:
        lines.append(f"channels = {_strings(_channels(lock))}")
    if len({_priority(each) for each in locks}) > 1:
        lines.append(f"channel-priority = {text(_priority(lock))}")
    return lines


def _feature(prefix: str, lock: Lock, sources: list[str]) -> list[str]:
    """What one environment adds: platforms, channels, system requirements, dependencies and constraints."""
    platforms = sorted(lock.platforms, key=lambda each: each.platform)
    lines = []
    if prefix:
        lines += [
            "",
            f"[{prefix.rstrip('.')}]",
            f"platforms = {_strings(each.platform for each in platforms)}",
            *sources,
        ]
    if system := _system_requirements(platforms):
        lines += ["", f"[{prefix}system-requirements]", *system]
    dependencies = {each.platform: _wanted(each) for each in platforms}
    constraints = {each.platform: _merged(each.request.constraints) for each in platforms}
    lines += _tables(prefix, "dependencies", dependencies)
    lines += _tables(prefix, "constraints", constraints)
    return lines


def _system_requirements(platforms: list[PlatformLock]) -> list[str]:
    """The oldest system that all platforms need; the newest of their versions where they differ."""
    found: dict[str, str] = {}
    archspecs = set()
    for answer in platforms:
        for virtual in answer.request.virtual_packages:
            name, version, build = [*virtual.split("=", 2), "", ""][:3]
            if name == "__archspec":
                archspecs.add(build)
            elif name in _SYSTEM or name in _LIBC:
                found[name] = max(found.get(name, version), version, key=_numbers)
    lines = [f"{key} = {text(found[name])}" for name, key in _SYSTEM.items() if name in found]
    for name in _LIBC:
        if name in found:
            lines.append(f"libc = {{ family = {text(name.removeprefix('__'))}, version = {text(found[name])} }}")
    if len(archspecs) == 1 and (archspec := archspecs.pop()):
        lines.append(f"archspec = {text(archspec)}")
    return sorted(lines)


def _numbers(version: str) -> tuple[int, ...]:
    """Order of the plain versions that virtual packages have."""
    return tuple(int(number) for number in _NUMBERS.findall(version))


def _wanted(answer: PlatformLock) -> dict[str, Words]:
    """The requirements that the lock satisfies; an optional package that is not in is no dependency."""
    locked = {package.name for package in answer.packages}
    asked = [each for each in answer.request.requirements if not each.optional or words(each.spec).name in locked]
    return _merged(asked)


def _merged(requirements: Iterable[Requirement]) -> dict[str, Words]:
    """Name → all that is asked of it."""
    found: dict[str, Words] = {}
    for requirement in requirements:
        asked = words(requirement.spec)
        found[asked.name] = found[asked.name].and_(asked) if asked.name in found else asked
    return found


def _tables(prefix: str, kind: str, by_platform: Mapping[str, Mapping[str, Words]]) -> list[str]:
    """What holds on all platforms in one table, the rest in a table for each platform."""
    first = next(iter(by_platform.values()), {})
    common = {
        name: asked for name, asked in first.items() if all(each.get(name) == asked for each in by_platform.values())
    }
    lines = _table(f"{prefix}{kind}", common)
    for platform, all_asked in by_platform.items():
        special = {name: asked for name, asked in all_asked.items() if name not in common}
        lines += _table(f"{prefix}target.{_key(platform)}.{kind}", special)
    return lines


def _table(name: str, asked: Mapping[str, Words]) -> list[str]:
    return ["", f"[{name}]", *(f"{_key(key)} = {_value(each)}" for key, each in asked.items())] if asked else []


def _value(asked: Words) -> str:
    """`"2.9.*"`, or a table where more than the version is asked for; a URL says all by itself."""
    if "url" in asked.other:
        return f"{{ url = {text(asked.other['url'])} }}"
    fields = {"version": asked.version}
    if asked.build:
        fields["build"] = asked.build
    if asked.channel:
        fields["channel"] = asked.channel
    fields |= {key.replace("_", "-"): value for key, value in asked.other.items()}
    if len(fields) == 1:
        return text(asked.version)
    return "{ " + ", ".join(f"{_key(key)} = {text(value)}" for key, value in fields.items()) + " }"


def _environments(locks: tuple[Lock, ...]) -> list[str]:
    """One environment a variant, and `default`, which is the first."""
    lines = ["", "[environments]"]
    for name, lock in environments(locks).items():
        features = _strings([lock.environment])
        lines.append(f"{_key(name)} = {{ features = {features}, no-default-feature = true }}")
    return lines


CODEC = Codec(
    name="pixi-toml",
    dump=dump,
    loses=frozenset({"packages", "cuda", "left_out", "because"}),
)
