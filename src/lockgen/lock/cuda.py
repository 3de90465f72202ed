"""What a set of packages means for GPUs: the toolkit that was locked, the driver it needs, the GPUs it covers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lockgen import matchspec
from lockgen.knowledge import tables
from lockgen.lock.model import CudaFacts, LockedPackage
from lockgen.request import CudaAsk, Request

UNCHECKED = "lockgen knows it of pytorch only, which is not in the answer"


def locked_cuda(packages: Sequence[LockedPackage], provider: tables.Provider) -> str | None:
    """The CUDA version of PyTorch's build, else of the toolkit package; `12.9`, or None without either."""
    by_name = {package.name: package for package in packages}
    pytorch = by_name.get("pytorch")
    built_for = provider.cuda_of(pytorch.build) if pytorch else None
    toolkit = by_name.get(provider.toolkit_package)
    version = ".".join(toolkit.version.split(".")[:2]) if toolkit else None
    return version or built_for


def facts(request: Request, packages: Sequence[LockedPackage]) -> CudaFacts | None:
    """What was locked for the CUDA that was asked; None where none was asked, or nothing with CUDA is in the lock."""
    provider = tables.provider_for(request.channels)
    ask = request.cuda
    locked = locked_cuda(packages, provider)
    if ask is None or locked is None:
        return None
    needed = needed_driver(request, packages)
    known = _capabilities(request, packages)
    translated = _translated(request, packages)
    unknown = ask.gpus and not any(package.name == "pytorch" for package in packages)
    return CudaFacts(
        asked=ask.version,
        locked=locked,
        min_driver=needed or "unknown",
        capabilities=known.compiled if known else (),
        ptx=known.ptx if known else None,
        notes=(
            *_sentences(request, ask, locked, needed, compiles=bool(translated)),
            *([_ptx_sentence(translated, driver_words(needed, locked))] if translated else []),
            *([f"which GPUs this covers is not known: {UNCHECKED}"] if unknown else []),
        ),
    )


def needed_driver(request: Request, packages: Sequence[LockedPackage]) -> str | None:
    """The oldest driver that runs it: the major's floor, or the toolkit's own where it has to compile PTX for a GPU."""
    locked = locked_cuda(packages, tables.provider_for(request.channels))
    if locked is None:
        return None
    toolkit = tables.toolkit(locked)
    if toolkit and _translated(request, packages):
        return toolkit.driver_on(request.platform)
    return tables.min_driver(locked, request.platform)


def driver_words(driver: str | None, cuda: str) -> str:
    """A driver as part of a sentence; where its number is not known, by the CUDA that it must know."""
    return f"driver {driver} or newer" if driver else f"a driver for CUDA {cuda} or newer"


def coverage(
    request: Request, packages: Sequence[LockedPackage]
) -> tuple[str, dict[str, Literal["native", "ptx"] | None] | None]:
    """PyTorch's build, and how it runs on each GPU that is asked for: None where that is not known."""
    pytorch = next(package for package in packages if package.name == "pytorch")
    known = _capabilities(request, packages)
    build = f"pytorch {pytorch.version} {pytorch.build}"
    if known is None or request.cuda is None:
        return build, None
    asked = {capability: tables.gpu(capability) for capability in request.cuda.gpus}
    return build, {capability: known.covers(gpu) if gpu else None for capability, gpu in asked.items()}


def _capabilities(request: Request, packages: Sequence[LockedPackage]) -> tables.Capabilities | None:
    """
    What PyTorch's build covers, without the GPUs that a library beside it has dropped.

    None where it is not known, as for a build of a channel that is nobody's whose builds are known.
    """
    pytorch = next((package for package in packages if package.name == "pytorch"), None)
    provider = tables.provider_of(pytorch.channel) if pytorch else None
    built_for = provider.cuda_of(pytorch.build) if pytorch and provider else None
    known = (
        provider.capabilities(pytorch.version, built_for, request.platform)
        if pytorch and provider and built_for
        else None
    )
    dropping = [
        library
        for library in tables.gpu_libraries()
        if any(library.is_too_new(package.name, package.version) for package in packages)
    ]
    if known is None or not dropping:
        return known
    kept = [each for each in known.compiled if not any(library.drops(each) for library in dropping)]
    return replace(known, compiled=tuple(kept))


def _translated(request: Request, packages: Sequence[LockedPackage]) -> list[str]:
    """Compute capabilities that are asked for and that only PTX covers."""
    if not any(package.name == "pytorch" for package in packages):
        return []
    _, how = coverage(request, packages)
    return [capability for capability, covered in (how or {}).items() if covered == "ptx"]


def _ptx_sentence(translated: Sequence[str], driver: str) -> str:
    return (
        f"no machine code for compute capability {', '.join(translated)}: its driver compiles PTX at the first use, "
        f"which takes {driver}"
    )


def _sentences(request: Request, ask: CudaAsk, locked: str, needed: str | None, *, compiles: bool) -> tuple[str, ...]:
    """
    Why the locked toolkit runs on the machines that were asked for, and what it does not give there.

    Where PTX has to be compiled, the driver is as new as the toolkit, and nothing rests on minor-version compatibility.
    """
    limits = () if compiles else tuple(limit.text for limit in tables.minor_version_limits())
    major = locked.split(".")[0]
    driver = driver_words(needed, locked if compiles else f"{major}.0")
    if locked == ask.version:
        sentence = f"the CUDA {locked} toolkit that was asked for; it needs {driver}"
        if compiles or not ask.driver or knows(ask.driver, locked, request.platform) is not False:
            return (sentence,)
        return (f"{sentence}, and runs on driver {ask.driver} by minor-version compatibility", *limits)
    if matchspec.version_key(locked) < matchspec.version_key(ask.version):
        return (f"a driver for CUDA {ask.version} runs builds for the older CUDA {locked}",)
    if compiles:
        return (f"asked for CUDA {ask.version}, locked CUDA {locked}; it needs {driver}",)
    return (
        f"asked for CUDA {ask.version}, locked CUDA {locked}: builds of one major run on any driver for that major "
        f"(minor-version compatibility), so {driver} is enough for CUDA {major}.x",
        *limits,
    )


def knows(driver: str, cuda: str, platform: str) -> bool | None:
    """Whether a driver is as new as a toolkit; None where it is not known which driver that takes."""
    toolkit = tables.toolkit(cuda)
    came = toolkit.driver_on(platform) if toolkit else None
    return tables.reaches(driver, came) if came else None
