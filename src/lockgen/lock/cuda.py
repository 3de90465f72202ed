"""What a set of packages means for GPUs: the toolkit that was locked, the driver it needs, the GPUs it covers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lockgen import matchspec
from lockgen.knowledge import tables
from lockgen.lock.model import CudaFacts, LockedPackage
from lockgen.request import CudaAsk, Request


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
    floor = tables.min_driver(locked) or "unknown"
    pytorch = next((package for package in packages if package.name == "pytorch"), None)
    built_for = provider.cuda_of(pytorch.build) if pytorch else None
    covered = provider.capabilities(pytorch.version, built_for, request.platform) if pytorch and built_for else None
    return CudaFacts(
        asked=ask.version,
        locked=locked,
        min_driver=floor,
        capabilities=covered.compiled if covered else (),
        ptx=covered.ptx if covered else None,
        notes=_sentences(ask, locked, floor),
    )


def _sentences(ask: CudaAsk, locked: str, floor: str) -> tuple[str, ...]:
    """Why the locked toolkit runs on the machines that were asked for, and what it does not give there."""
    if locked == ask.version:
        return (f"the CUDA {locked} toolkit that was asked for; it needs driver {floor} or newer",)
    if matchspec.version_key(locked) < matchspec.version_key(ask.version):
        return (f"a driver for CUDA {ask.version} runs builds for the older CUDA {locked}",)
    major = locked.split(".")[0]
    return (
        f"asked for CUDA {ask.version}, locked CUDA {locked}: builds of one major run on any driver for that major "
        f"(minor-version compatibility), so driver {floor} or newer is enough for CUDA {major}.x",
        *(limit.text for limit in tables.minor_version_limits()),
    )
