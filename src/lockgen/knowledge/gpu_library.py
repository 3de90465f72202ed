"""Libraries beside PyTorch that dropped GPUs which PyTorch's own builds still cover."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import facts
from lockgen.knowledge.versions import compare_versions


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLibrary:
    """One library, and since when it runs on newer GPUs only."""

    packages: tuple[str, ...]
    """Names of the conda packages that hold it."""
    below: str
    """Versions below this one still run on older GPUs."""
    capability: str
    """Oldest compute capability of this version and newer ones, `7.5`."""
    cuda_below: str
    """Toolkits from this one on have dropped the older GPUs themselves."""
    reason: str
    source: str
    checked: datetime.date

    def drops(self, capability: str) -> bool:
        """Whether a GPU needs a version below."""
        return compare_versions(capability, self.capability) < 0

    def matters_for(self, cuda: str) -> bool:
        """Whether a toolkit still covers the older GPUs."""
        return compare_versions(cuda, self.cuda_below) < 0

    def is_too_new(self, name: str, version: str) -> bool:
        """Whether a package is this library in a version that has dropped older GPUs."""
        return name in self.packages and compare_versions(version, self.below) >= 0


@functools.cache
def gpu_libraries() -> tuple[GpuLibrary, ...]:
    """All rows, in the order of the file."""
    return tuple(
        GpuLibrary(
            packages=row.texts("packages"),
            below=row.text("below"),
            capability=row.text("capability"),
            cuda_below=row.text("cuda_below"),
            reason=row.text("reason"),
            source=row.text("source"),
            checked=row.date("checked"),
        )
        for row in facts("gpu_libraries.toml").tables("library")
    )
