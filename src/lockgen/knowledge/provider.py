"""How each channel that carries PyTorch says CUDA, and what its builds cover."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from lockgen.knowledge.gpu import Gpu, covers
from lockgen.knowledge.reader import FactError, Table, facts, names_in
from lockgen.knowledge.versions import is_within, numbers

Flavour = Literal["gpu", "cpu"]
ToolkitRole = Literal["requirement", "constraint"]

DEFAULT = "conda-forge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """A package that must be of the same flavour as pytorch."""

    name: str
    gpu: str | None
    """Glob of the build strings of its GPU builds; None where build strings do not say."""
    cpu: str | None
    """Glob of the build strings of its CPU builds; None where it has none."""
    source: str
    checked: datetime.date


@dataclass(frozen=True, slots=True, kw_only=True)
class Exempt:
    """Packages of which a CPU build in a GPU environment is right."""

    names: tuple[str, ...]
    """Globs of package names."""
    reason: str
    listed: bool
    """Right even where the spec itself lists the package."""
    source: str
    checked: datetime.date


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """CUDA versions that some versions of pytorch were built for."""

    pytorch_min: str
    pytorch_below: str
    cuda: tuple[str, ...]
    """Oldest first."""
    python: tuple[str, ...]
    platforms: tuple[str, ...]
    source: str
    checked: datetime.date


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a CUDA build of pytorch has code for."""

    pytorch_min: str
    pytorch_below: str
    cuda: tuple[str, ...]
    platforms: tuple[str, ...] | None
    """None: all that have CUDA."""
    compiled: tuple[str, ...]
    """Compute capabilities with machine code, `7.0`, oldest first."""
    ptx: str | None
    """The capability of the PTX that is there too, for newer GPUs."""
    source: str
    checked: datetime.date

    def covers(self, gpu: Gpu) -> Literal["native", "ptx"] | None:
        """How it runs on this GPU: as it is, through PTX (the driver must be as new as the toolkit), or not."""
        found = covers(self.compiled, self.ptx, gpu)
        return "native" if found == "native" else "ptx" if found == "ptx" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A channel's way of naming CPU and GPU builds."""

    name: str
    channels: tuple[str, ...]
    """Base URLs without a trailing slash."""
    needs_channels: tuple[str, ...]
    """Channels that have to stand after its own, for what its packages depend on."""
    pytorch_min: str
    pytorch_below: str | None
    """First version that it does not carry; None where it carries on."""
    gpu_build: str
    """Glob of pytorch's GPU builds, for a match spec: `cuda*`."""
    cpu_build: str
    any_gpu_build: str
    """Glob of the GPU builds of any package, where no companion's own is known."""
    any_cpu_build: str
    gpu_pattern: re.Pattern[str]
    cpu_pattern: re.Pattern[str]
    cuda_pattern: re.Pattern[str]
    """Has the groups `major` and `minor`."""
    toolkit_package: str
    """The package whose version is the CUDA that is locked."""
    toolkit_role: ToolkitRole
    """Whether that package is required, or only constrained where builds depend on it by themselves."""
    unflavoured: tuple[str, ...]
    """Platforms whose builds of pytorch do not say CPU or GPU."""
    companions: tuple[Companion, ...]
    exempt: tuple[Exempt, ...]
    builds: tuple[Build, ...]
    capability_rows: tuple[Capabilities, ...]
    source: str
    checked: datetime.date

    def flavour(self, build: str) -> Flavour | None:
        """What a build string of any package says: `gpu`, `cpu`, or nothing."""
        if self.cpu_pattern.search(build):
            return "cpu"
        return "gpu" if self.gpu_pattern.search(build) else None

    def cuda_of(self, build: str) -> str | None:
        """Major and minor of the CUDA that a build string names: `12.9` for `cuda129_mkl_py313_h54d9d63_305`."""
        found = self.cuda_pattern.search(build)
        return f"{int(found['major'])}.{int(found['minor'])}" if found else None

    def build_glob(self, flavour: Flavour, platform: str) -> str | None:
        """Glob of pytorch's builds of this flavour; None on platforms where builds do not say."""
        if platform in self.unflavoured:
            return None
        return self.gpu_build if flavour == "gpu" else self.cpu_build

    def companion(self, name: str) -> Companion | None:
        return next((row for row in self.companions if row.name == name), None)

    def exemption(self, name: str, *, listed: bool) -> Exempt | None:
        """The row that lets this package be a CPU build in a GPU environment, or None; `listed` by the spec itself."""
        found = next((row for row in self.exempt if any(fnmatchcase(name, glob) for glob in row.names)), None)
        return found if found and (found.listed or not listed) else None

    def carries(self, pytorch: str) -> bool:
        """Whether it ever had this version of pytorch, as far as is known."""
        return is_within(pytorch, self.pytorch_min, self.pytorch_below)

    def cuda_builds(self, pytorch: str, platform: str) -> tuple[str, ...]:
        """CUDA versions that this pytorch was built for, oldest first: a hint, the channel itself decides."""
        rows = (
            row
            for row in self.builds
            if platform in row.platforms and is_within(pytorch, row.pytorch_min, row.pytorch_below)
        )
        return tuple(sorted({cuda for row in rows for cuda in row.cuda}, key=numbers))

    def pytorch_with(self, cuda: str, platform: str) -> tuple[Build, ...]:
        """Rows of pytorch versions that were built for exactly this CUDA, newest first."""
        rows = (row for row in self.builds if platform in row.platforms and cuda in row.cuda)
        return tuple(sorted(rows, key=lambda row: numbers(row.pytorch_min), reverse=True))

    def capabilities(self, pytorch_version: str, cuda: str, platform: str) -> Capabilities | None:
        """What this build has code for, or None where that is not known."""
        wanted = ".".join(str(part) for part in numbers(cuda)[:2])
        for row in self.capability_rows:
            here = row.platforms is None or platform in row.platforms
            if here and wanted in row.cuda and is_within(pytorch_version, row.pytorch_min, row.pytorch_below):
                return row
        return None


@functools.cache
def providers() -> tuple[Provider, ...]:
    """All providers, sorted by name."""
    return tuple(provider(name) for name in names_in("providers"))


@functools.cache
def provider(name: str) -> Provider:
    """The provider of this name; a name that is not known is a KeyError."""
    if name not in names_in("providers"):
        raise KeyError(name)
    return _provider(facts(f"providers/{name}.toml"))


def provider_for(channels: Sequence[str]) -> Provider:
    """
    The provider that the first channel of a known name belongs to; where there is none, conda-forge's ways hold.

    A channel's name is the last part of its URL, so a mirror counts as what it mirrors.
    """
    return next((found for found in map(provider_of, channels) if found), provider(DEFAULT))


def provider_of(channel: str) -> Provider | None:
    """The provider that a channel or its mirror belongs to, by the last part of its URL."""
    name = channel.rstrip("/").rsplit("/", 1)[-1]
    return provider(name) if name in names_in("providers") else None


def _provider(table: Table) -> Provider:
    return Provider(
        name=table.text("name"),
        channels=table.texts("channels"),
        needs_channels=table.texts("needs_channels"),
        pytorch_min=table.text("pytorch_min"),
        pytorch_below=table.text_or_none("pytorch_below"),
        gpu_build=table.text("gpu_build"),
        cpu_build=table.text("cpu_build"),
        any_gpu_build=table.text("any_gpu_build"),
        any_cpu_build=table.text("any_cpu_build"),
        gpu_pattern=re.compile(table.text("gpu_pattern")),
        cpu_pattern=re.compile(table.text("cpu_pattern")),
        cuda_pattern=re.compile(table.text("cuda_pattern")),
        toolkit_package=table.text("toolkit_package"),
        toolkit_role=_role(table),
        unflavoured=table.texts("unflavoured"),
        companions=tuple(_companion(row) for row in table.tables("companion")),
        exempt=tuple(_exempt(row) for row in table.tables("exempt")),
        builds=tuple(_build(row) for row in table.tables("build")),
        capability_rows=tuple(_capabilities(row) for row in table.tables("capabilities")),
        source=table.text("source"),
        checked=table.date("checked"),
    )


def _role(table: Table) -> ToolkitRole:
    role = table.text("toolkit_role")
    if role == "requirement":
        return "requirement"
    if role == "constraint":
        return "constraint"
    raise FactError(table.file, "toolkit_role", "expected `requirement` or `constraint`")


def _companion(row: Table) -> Companion:
    return Companion(
        name=row.text("name"),
        gpu=row.text_or_none("gpu"),
        cpu=row.text_or_none("cpu"),
        source=row.text("source"),
        checked=row.date("checked"),
    )


def _exempt(row: Table) -> Exempt:
    return Exempt(
        names=row.texts("names"),
        reason=row.text("reason"),
        listed=row.flag("listed"),
        source=row.text("source"),
        checked=row.date("checked"),
    )


def _build(row: Table) -> Build:
    return Build(
        pytorch_min=row.text("pytorch_min"),
        pytorch_below=row.text("pytorch_below"),
        cuda=row.texts("cuda"),
        python=row.texts("python"),
        platforms=row.texts("platforms"),
        source=row.text("source"),
        checked=row.date("checked"),
    )


def _capabilities(row: Table) -> Capabilities:
    return Capabilities(
        pytorch_min=row.text("pytorch_min"),
        pytorch_below=row.text("pytorch_below"),
        cuda=row.texts("cuda"),
        platforms=row.texts_or_none("platforms"),
        compiled=row.texts("compiled"),
        ptx=row.text_or_none("ptx"),
        source=row.text("source"),
        checked=row.date("checked"),
    )
