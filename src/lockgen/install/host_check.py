"""Whether a machine can run a set of packages, what is missing, and which lock or build would do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lockgen import matchspec
from lockgen.errors import Problem, UsageError
from lockgen.host import Host, virtual_packages
from lockgen.knowledge import tables
from lockgen.lock.cuda import locked_cuda
from lockgen.lock.foreign import Part
from lockgen.lock.model import LockedPackage

_CHECKED = ("__glibc", "__cuda", "__linux", "__osx", "__unix", "__win")
"""`__archspec` is left out: the names of micro-architectures do not say which of them includes another."""
_WORDS = {"__glibc": "glibc", "__cuda": "CUDA", "__linux": "Linux", "__osx": "macOS"}
_LOWER = {"__glibc": "system", "__linux": "system", "__osx": "system"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """One thing that the machine does not have."""

    message: str
    """Lower case, without a full stop: what is asked for, by which package, and what the machine has."""
    nearest: tuple[str, ...] = ()
    """What would do, each a clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a machine can do with a lock."""

    lacks: tuple[Lack, ...]
    """Empty: it can run it."""
    notes: tuple[str, ...] = ()
    """How it runs where that has to be known."""

    @property
    def runs(self) -> bool:
        return not self.lacks


def assess(part: Part, host: Host, siblings: Sequence[Part] = ()) -> Verdict:
    """
    What a machine can do with one part of a lock.

    Args:
        part: the packages.
        host: the machine.
        siblings: other parts of the same lock, any of which may do instead.
    """
    lacks = lacking(part, host)
    if not lacks:
        return Verdict(lacks=(), notes=tuple(_notes(part, host)))
    others = tuple(
        f"environment `{one.environment}` of the same lock runs here"
        for one in siblings
        if one != part and one.platform == host.platform and not lacking(one, host)
    )
    first, *rest = lacks
    return Verdict(lacks=(Lack(message=first.message, nearest=(*others, *first.nearest)), *rest))


def lacking(part: Part, host: Host) -> tuple[Lack, ...]:
    """All that a machine lacks for some packages."""
    if part.platform != host.platform:
        message = f"these are packages for {part.platform}, this machine is {host.platform}"
        return (Lack(message=message, nearest=(f"lock it with `{host.platform}` in the spec's `platforms`",)),)
    return (*_unmet(part, host), *_gpus(part, host))


def _unmet(part: Part, host: Host) -> Iterator[Lack]:
    """Virtual packages that a package's `depends` or `constrains` asks for and the machine does not have."""
    universe = matchspec.Universe((), virtual_packages(host))
    asking: dict[str, list[str]] = {}
    for package in part.packages:
        for spec in package.depends:
            if matchspec.name_of(spec) in _CHECKED and not universe.satisfies(spec):
                asking.setdefault(spec, []).append(package.name)
        for spec in package.constrains:
            if matchspec.name_of(spec) in _CHECKED and universe.has(spec) and not universe.satisfies(spec):
                asking.setdefault(spec, []).append(package.name)
    for spec, names in sorted(asking.items()):
        yield Lack(message=_message(spec, names, host), nearest=tuple(_nearest(spec, part, host)))


def _message(spec: str, names: Sequence[str], host: Host) -> str:
    name = matchspec.name_of(spec)
    has = dict(text.split("=")[:2] for text in virtual_packages(host)).get(name)
    word = _WORDS.get(name, name)
    by = f"`{names[0]}`" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    if has:
        return f"{by} asks for `{spec}`, this machine has {word} {has}"
    why = f" ({host.gpus.why_none})" if name == "__cuda" and host.gpus.why_none else ""
    return f"{by} asks for `{spec}`, this machine has no {'NVIDIA driver' if name == '__cuda' else word}{why}"


def _nearest(spec: str, part: Part, host: Host) -> Iterator[str]:
    name = matchspec.name_of(spec)
    if name == "__cuda":
        yield from _other_cuda(part, host)
    elif name in _LOWER:
        has = dict(text.split("=")[:2] for text in virtual_packages(host)).get(name)
        if has:
            key = name.removeprefix("__")
            yield f'lock it with `system: {{{key}: "{has}"}}` in the spec: older builds may do'


def _other_cuda(part: Part, host: Host) -> Iterator[str]:
    """Builds of the same PyTorch that run with this driver, else of others; and the driver that would do."""
    locked = _cuda_of(part)
    if host.gpus.cuda is None:
        yield "lock it with `cuda: none` in the spec: it then runs on the CPU"
    elif pytorch := _pytorch(part):
        yield from _builds(part, pytorch, host.gpus.cuda)
    floor = tables.min_driver(locked) if locked else None
    if floor and host.gpus.driver:
        yield f"driver {floor} or newer (here: {host.gpus.driver}) runs this lock"
    elif floor:
        yield f"an NVIDIA GPU with driver {floor} or newer runs this lock"


def _builds(part: Part, pytorch: LockedPackage, cuda: str) -> Iterator[str]:
    provider = tables.provider_for(part.channels or (pytorch.channel,))
    major = cuda.split(".")[0]
    same = [one for one in provider.cuda_builds(pytorch.version, part.platform) if one.split(".")[0] == major]
    if same:
        yield f'pytorch {pytorch.version} was also built for CUDA {", ".join(same)}: lock it with `cuda: "{same[-1]}"`'
        return
    for toolkit in reversed([one.cuda for one in tables.toolkits() if one.cuda.split(".")[0] == major]):
        rows = provider.pytorch_with(toolkit, part.platform)
        if rows:
            yield (
                f"the newest pytorch for CUDA {toolkit} is older than {rows[0].pytorch_below}: "
                f'lock it with `pytorch: "<{rows[0].pytorch_below}"` and `cuda: "{toolkit}"`'
            )
            return


# GPUs


def _gpus(part: Part, host: Host) -> Iterator[Lack]:
    """GPUs that PyTorch's build has no code for, and PTX that the driver cannot compile."""
    for name, capability, how in _coverage(part, host):
        pytorch, built_for = _pytorch(part), _cuda_of(part)
        assert pytorch is not None
        build = f"`pytorch {pytorch.version} {pytorch.build}`"
        if how is None:
            message = f"{build} has no code for {name} (compute capability {capability})"
            yield Lack(message=message, nearest=tuple(_covering(part, capability)))
        elif how == "ptx" and not _compiles(host, built_for):
            message = (
                f"{build} has only PTX for {name} (compute capability {capability}), which this driver, "
                f"for CUDA {host.gpus.cuda}, cannot compile"
            )
            yield Lack(
                message=message, nearest=(f"a driver for CUDA {built_for} or newer", *_covering(part, capability))
            )


def _notes(part: Part, host: Host) -> Iterator[str]:
    locked, level = _cuda_of(part), host.gpus.cuda
    if locked and level and matchspec.version_key(locked) > matchspec.version_key(level):
        yield (
            f"CUDA {locked} runs on this driver, which is for CUDA {level}, by minor-version compatibility; "
            + "; ".join(limit.text for limit in tables.minor_version_limits())
        )
    for name, _, how in _coverage(part, host):
        if how == "ptx":
            yield f"{name} is reached through PTX: the first run compiles for minutes"
    if host.gpus.devices and not locked:
        yield "these are CPU builds: the GPUs here are not used"
    if host.gpus.driver and not host.gpus.devices and locked:
        yield "there is a driver and no GPU: `torch.cuda.is_available()` is false here"


def _coverage(part: Part, host: Host) -> Iterator[tuple[str, str, str | None]]:
    """Each kind of GPU here: name, capability, and how the locked PyTorch runs on it; nothing where that is unknown."""
    pytorch = _pytorch(part)
    provider = tables.provider_for(part.channels or ((pytorch.channel,) if pytorch else ()))
    built_for = provider.cuda_of(pytorch.build) if pytorch else None
    if pytorch is None or built_for is None:
        return
    covered = provider.capabilities(pytorch.version, built_for, part.platform)
    if covered is None:
        return
    for name, capability in dict.fromkeys((one.name, one.capability) for one in host.gpus.devices):
        gpu = tables.gpu(capability) if capability else None
        if gpu and capability:
            yield name, capability, covered.covers(gpu)


def _covering(part: Part, capability: str) -> Iterator[str]:
    """The newest PyTorch whose build has machine code for a GPU."""
    pytorch, gpu = _pytorch(part), tables.gpu(capability)
    assert pytorch is not None
    provider = tables.provider_for(part.channels or (pytorch.channel,))
    rows = [
        row
        for row in provider.capability_rows
        if (row.platforms is None or part.platform in row.platforms) and gpu and row.covers(gpu) == "native"
    ]
    if rows:
        newest = max(rows, key=lambda row: tables.numbers(row.pytorch_below))
        yield (
            f"pytorch >={newest.pytorch_min},<{newest.pytorch_below} for CUDA {' or '.join(newest.cuda)} "
            "has code for it: "
            f'lock it with `gpus: ["{capability}"]`'
        )


def _compiles(host: Host, built_for: str | None) -> bool:
    level = host.gpus.cuda
    if level is None or built_for is None:
        return False
    return matchspec.version_key(level) >= matchspec.version_key(built_for)


def _pytorch(part: Part) -> LockedPackage | None:
    return next((package for package in part.packages if package.name == "pytorch"), None)


def _cuda_of(part: Part) -> str | None:
    """The toolkit in a lock, None for CPU builds."""
    pytorch = _pytorch(part)
    provider = tables.provider_for(part.channels or ((pytorch.channel,) if pytorch else ()))
    if pytorch and provider.flavour(pytorch.build) == "cpu":
        return None
    return locked_cuda(part.packages, provider)


Judged = tuple[tuple[Part, Verdict], ...]


def judged(parts: Sequence[Part], host: Host, environment: str | None, file: str) -> Judged:
    """
    What a machine can do with each environment of a lock: on its own platform where the lock has it.

    Raises:
        UsageError: the lock has no environment of that name.
    """
    names = list(dict.fromkeys(part.environment for part in parts))
    if environment is not None and environment not in names:
        raise UsageError(Problem(message=f"{file} has no environment `{environment}`: it has {', '.join(names)}"))
    found = []
    for name in names if environment is None else [environment]:
        own = [part for part in parts if part.environment == name]
        part = next((one for one in own if one.platform == host.platform), own[0])
        found.append((part, assess(part, host, parts)))
    return tuple(found)
