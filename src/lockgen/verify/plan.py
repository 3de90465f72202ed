"""From a lock and the spec's wishes to the plan that the payload carries out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lockgen import matchspec
from lockgen.knowledge import tables
from lockgen.knowledge.imports import skipped_imports
from lockgen.knowledge.library import absent_libraries, once_only, system_libraries, version_sources
from lockgen.lock.cuda import locked_cuda
from lockgen.lock.model import Lock, LockedPackage, PlatformLock

FORMAT = 1
ALWAYS = ("lock", "imports", "libraries")
WITH_TORCH = ("versions", "cuda")
WITH_MODEL = ("bert", "distributed", "export")
TINY_THREADS = 1
MARGIN = 0.15
"""How much better than chance the held-out accuracy has to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an environment is to be proved: what the spec's `verify` and the command line say."""

    model: str = "tiny"
    """`tiny`, `base`, a folder or a hub id."""
    steps: int = 200
    batch: int = 32
    seq_len: int = 64
    seed: int = 0
    margin: float = MARGIN
    corpus: str | None = None
    """Folder with `corpus.tsv` and `vocab.txt`; None: the installed corpus, else the one that comes with lockgen."""
    imports: tuple[str, ...] = ()
    skip_imports: tuple[str, ...] = ()
    require_gpu: bool = False
    distributed: bool = False
    export: bool = False
    only: tuple[str, ...] = ()
    """Names of the checks to run; empty: all that apply."""


def plan(lock: Lock, platform: PlatformLock, prefix: str, settings: Settings) -> dict[str, Any]:
    """
    What the payload has to check, as JSON values.

    Args:
        lock: the whole lock, whose fingerprint the evidence will name.
        platform: the part of it that is installed.
        prefix: absolute path of the environment.
        settings: what the user wants of the checks.
    """
    names = {package.name for package in platform.packages}
    return {
        "format": FORMAT,
        "environment": lock.name,
        "variant": lock.variant,
        "platform": platform.platform,
        "fingerprint": lock.fingerprint(),
        "prefix": prefix,
        "checks": list(checks(names, settings)),
        "packages": [_package(package) for package in platform.packages],
        "imports": _imports(platform, settings),
        "libraries": _libraries(names),
        "versions": versions(platform),
        **training(settings),
    }


def checks(names: set[str], settings: Settings) -> Iterator[str]:
    """The checks to run, in order: those asked for by name, else all that apply to the packages."""
    if settings.only:
        return (name for name in (*ALWAYS, *WITH_TORCH, *WITH_MODEL) if name in settings.only)
    found = [*ALWAYS]
    found += WITH_TORCH if "pytorch" in names else ["versions"]
    if {"pytorch", "transformers"} <= names:
        found += ["bert"]
        found += ["distributed"] if settings.distributed else []
        found += ["export"] if settings.export else []
    return iter(found)


def training(settings: Settings) -> dict[str, Any]:
    """The parts of a plan that need no lock."""
    return {
        "cuda": {"require": settings.require_gpu},
        "bert": {
            "model": settings.model,
            "steps": settings.steps,
            "batch": settings.batch,
            "seq_len": settings.seq_len,
            "seed": settings.seed,
            "margin": settings.margin,
            "corpus": settings.corpus,
            "threads": TINY_THREADS if settings.model == "tiny" else None,
            "require_gpu": settings.require_gpu,
        },
    }


def versions(platform: PlatformLock) -> dict[str, str | None]:
    """Name → the version that the lock promises; `cuda` is None where it holds a CPU build."""
    found: dict[str, str | None] = {}
    if "pytorch" in _names(platform):
        found["cuda"] = locked_cuda(platform.packages, tables.provider_for(platform.request.channels))
    for source in version_sources():
        version = next(
            (_version_of(name, platform.packages) for name in source.packages if name in _names(platform)), None
        )
        if version:
            found[source.name] = version
    return found


def _names(platform: PlatformLock) -> set[str]:
    return {package.name for package in platform.packages}


def _version_of(name: str, packages: Sequence[LockedPackage]) -> str | None:
    return next((package.version for package in packages if package.name == name), None)


def _package(package: LockedPackage) -> dict[str, str]:
    return {"name": package.name, "version": package.version, "build": package.build}


def _imports(platform: PlatformLock, settings: Settings) -> dict[str, Any]:
    skip = [{"module": row.module, "reason": row.reason} for row in skipped_imports()]
    skip += [{"module": name, "reason": "the spec says so: `skip-imports`"} for name in settings.skip_imports]
    return {"skip": skip, "more": sorted({*settings.imports, *_promised(platform)})}


def _promised(platform: PlatformLock) -> Iterator[str]:
    """Modules that the extras of the request name, for the packages that are in the lock."""
    present = _names(platform)
    asked = {matchspec.name_of(one.spec) for one in platform.request.requirements if one.key.startswith("extras.")}
    for extra in filter(None, map(tables.extra, tables.extra_names())):
        for package in extra.packages:
            if matchspec.name_of(package.spec) in asked & present:
                yield from package.imports


def _libraries(names: set[str]) -> dict[str, Any]:
    modules = {"pytorch": "torch", "transformers": "transformers"}
    return {
        "load": [module for package, module in modules.items() if package in names],
        "system": [{"files": list(row.files), "always": row.always} for row in system_libraries()],
        "once": [{"title": row.title, "files": list(row.files)} for row in once_only()],
        "absent": [{"object": row.object, "needs": row.needs} for row in absent_libraries()],
    }
