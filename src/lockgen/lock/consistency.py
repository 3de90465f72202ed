"""Whether an answer is what was asked for, whatever the solver said. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lockgen import matchspec
from lockgen.knowledge import tables
from lockgen.lock.cuda import coverage, knows, locked_cuda
from lockgen.lock.model import LockedPackage
from lockgen.request import CudaAsk, Request, Requirement

Finding = tuple[str, str]
"""A message, and the dotted key of the spec that it concerns (empty where none does)."""


def check(request: Request, packages: Sequence[LockedPackage]) -> tuple[Finding, ...]:
    """Everything in an answer that is not as asked; empty for a good one."""
    provider = tables.provider_for(request.channels)
    return (
        *_records(packages),
        *_relations(request, packages),
        *flavours(request, packages, provider),
        *_cuda(request, packages, provider),
        *_singletons(request, packages),
    )


def _records(packages: Sequence[LockedPackage]) -> Iterator[Finding]:
    for name, count in sorted(Counter(package.name for package in packages).items()):
        if count > 1:
            yield f"`{name}` is in the answer {count} times", ""
    for package in packages:
        missing = [field for field in ("url", "sha256", "md5", "size") if not getattr(package, field)]
        if missing:
            yield f"the channel gives no {', '.join(missing)} for `{package.filename}`: it cannot be locked", ""


def _relations(request: Request, packages: Sequence[LockedPackage]) -> Iterator[Finding]:
    """Every requirement is met, and every record's `depends` and `constrains` hold, virtual packages included."""
    universe = matchspec.Universe(packages, request.virtual_packages)
    for wanted in request.requirements:
        if not universe.satisfies(wanted.spec):
            yield f"nothing in the answer matches `{wanted.spec}`", wanted.key
    for limit in request.constraints:
        if universe.has(limit.spec) and not universe.satisfies(limit.spec):
            yield f"the answer breaks the constraint `{limit.spec}`", limit.key
    for package in packages:
        for spec in package.depends:
            if not universe.satisfies(spec):
                yield _unmet(package, spec, request)
        for spec in package.constrains:
            if universe.has(spec) and not universe.satisfies(spec):
                yield f"`{package.name} {package.version}` does not go with what is there: it constrains `{spec}`", ""


def _unmet(package: LockedPackage, spec: str, request: Request) -> Finding:
    name = matchspec.name_of(spec)
    if not name.startswith("__"):
        return f"`{package.name} {package.version}` needs `{spec}`, which is not in the answer", ""
    has = next((text for text in request.virtual_packages if text.startswith(f"{name}=")), None)
    key = "cuda" if name == "__cuda" else "system"
    seen = f"the spec's system has `{has}`" if has else "the spec's system has none"
    return f"`{package.name} {package.version}` cannot run on the oldest system: it needs `{spec}`, {seen}", key


def flavours(request: Request, packages: Sequence[LockedPackage], provider: tables.Provider) -> Iterator[Finding]:
    """GPU asked: no package that comes in both kinds is a CPU build. CPU asked: none is a GPU build."""
    wanted = "gpu" if request.cuda else "cpu"
    for package in packages:
        flavour = provider.flavour(package.build)
        if flavour in (None, wanted) or exemption(request, package, provider):
            continue
        yield (
            f"`{package.name} {package.version} {package.build}` is a {flavour.upper()} build, "
            f"{wanted.upper()} was asked for",
            "cuda",
        )
    if request.cuda:
        for package in packages:
            companion = provider.companion(package.name)
            if companion and companion.gpu and provider.flavour(package.build) is None:
                yield f"`{package.name} {package.version} {package.build}` is not known to be a GPU build", "cuda"


def exemption(request: Request, package: LockedPackage, provider: tables.Provider) -> str | None:
    """Why a CPU build is right where GPU builds are asked for, or None: by the facts, or by the spec's own words."""
    asked = [one.spec for one in request.requirements if matchspec.name_of(one.spec) == package.name and _is_own(one)]
    if request.cuda is None:
        return None
    row = provider.exemption(package.name, listed=bool(asked))
    if row:
        return row.reason
    known = provider.exemption(package.name, listed=False)
    return "the spec asks for this build" if known and any(provider.flavour(spec) == "cpu" for spec in asked) else None


def listed_on_cpu(request: Request, message: str) -> str | None:
    """The package that a finding is about, where the spec lists it and its CPU build would be right for others."""
    provider = tables.provider_for(request.channels)
    names = (matchspec.name_of(one.spec) for one in request.requirements if _is_own(one))
    known = (name for name in names if provider.exemption(name, listed=False))
    return next((name for name in known if message.startswith(f"`{name} ") and " is a CPU build" in message), None)


def _is_own(wanted: Requirement) -> bool:
    """Whether the spec itself lists the package."""
    return wanted.key.startswith("dependencies.")


def on_cpu(request: Request, packages: Sequence[LockedPackage]) -> dict[str, list[LockedPackage]]:
    """The CPU builds of an answer for GPUs, by the reason why each is right."""
    provider = tables.provider_for(request.channels)
    found: dict[str, list[LockedPackage]] = {}
    for package in packages if request.cuda else ():
        reason = exemption(request, package, provider) if provider.flavour(package.build) == "cpu" else None
        if reason:
            found.setdefault(reason, []).append(package)
    return found


def with_cuda(request: Request, packages: Sequence[LockedPackage]) -> list[LockedPackage]:
    """What uses CUDA in an answer: GPU builds, the toolkit, and what needs the toolkit."""
    provider = tables.provider_for(request.channels)
    names = {provider.toolkit_package, "cuda-version", "cudatoolkit"}
    return [
        package
        for package in packages
        if package.name in names
        or provider.flavour(package.build) == "gpu"
        or any(matchspec.name_of(spec) in names for spec in package.depends)
    ]


def _cuda(request: Request, packages: Sequence[LockedPackage], provider: tables.Provider) -> Iterator[Finding]:
    """The toolkit's major, the GPUs and the driver are as asked."""
    ask, locked = request.cuda, locked_cuda(packages, provider)
    if ask is None or locked is None:
        return
    if locked.split(".")[0] != ask.version.split(".")[0]:
        yield f"CUDA {locked} is locked, {ask.version} was asked for: another major", "cuda"
    if ask.match == "exact" and locked != ask.version:
        yield f"CUDA {locked} is locked, exactly {ask.version} was asked for", "cuda"
    floor = tables.min_driver(locked, request.platform)
    if ask.driver and floor and not tables.reaches(ask.driver, floor):
        yield f"CUDA {locked} needs driver {floor} or newer, the spec allows {ask.driver}", "driver"
    if ask.gpus and any(package.name == "pytorch" for package in packages):
        yield from _uncovered(request, ask, packages, locked)


def _uncovered(request: Request, ask: CudaAsk, packages: Sequence[LockedPackage], locked: str) -> Iterator[Finding]:
    """GPUs that this PyTorch does not run on: by its own code, or by PTX where the oldest driver compiles it."""
    build, how = coverage(request, packages)
    if how is None:
        yield f"which GPUs `{build}` covers is not known", "gpus"
        return
    for capability, covered in how.items():
        if covered is None:
            yield f"`{build}` has no code for compute capability {capability}", "gpus"
        elif covered == "ptx" and not _compiles_ptx(ask, locked, request.platform):
            driver = f"driver {ask.driver}" if ask.driver else f"a driver for CUDA {ask.version}"
            yield (
                f"`{build}` has only PTX for compute capability {capability}, and {driver} cannot compile it: "
                f"that takes one for CUDA {locked} or newer",
                "gpus",
            )


def _compiles_ptx(ask: CudaAsk, locked: str, platform: str) -> bool:
    """Whether the oldest driver knows the toolkit that is locked; under minor-version compatibility it does not."""
    if ask.driver:
        return bool(knows(ask.driver, locked, platform))
    return matchspec.version_key(ask.version) >= matchspec.version_key(locked)


def _singletons(request: Request, packages: Sequence[LockedPackage]) -> Iterator[Finding]:
    """One OpenMP, one BLAS, one set of CUDA libraries."""
    pairs = [(package.name, package.build) for package in packages]
    for group in tables.singleton_groups():
        present = group.present(pairs, request.platform)
        if len(present) > 1:
            names = ", ".join(f"{one.name} ({', '.join(one.packages_in(pairs))})" for one in present)
            yield f"more than one {group.title}: {names}; {group.reason}", ""
