"""The lock as a value: what was asked, and the exact packages that answer it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lockgen.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """One conda package, exactly. Field names are those of a channel's repodata."""

    name: str
    version: str
    build: str
    build_number: int
    subdir: str
    """`linux-64` or `noarch`."""
    channel: str
    """Base URL of the channel, without a trailing slash."""
    url: str
    sha256: str
    md5: str
    size: int
    """Bytes of the archive."""
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    track_features: tuple[str, ...] = ()
    noarch: str | None = None
    """`python`, `generic` or None."""
    license: str | None = None
    license_family: str | None = None
    timestamp: int | None = None
    """When it was built: milliseconds since 1970, UTC."""
    python_site_packages_path: str | None = None

    @property
    def filename(self) -> str:
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFacts:
    """What was locked for the CUDA that was asked, and what that means for the machines it runs on."""

    asked: str
    """`12.1`."""
    locked: str
    """Major and minor of the toolkit in the lock: `12.9`."""
    min_driver: str
    """Oldest driver that runs it: `525.60.13`."""
    capabilities: tuple[str, ...]
    """Compute capabilities compiled into this PyTorch, `7.0`; empty where not known."""
    ptx: str | None = None
    """Newest capability for which PTX is included, `12.0`."""
    notes: tuple[str, ...] = ()
    """Sentences on why it runs and what it does not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformLock:
    """The answer for one platform."""

    request: Request
    packages: tuple[LockedPackage, ...]
    """Sorted by name; no name twice."""
    cuda: CudaFacts | None = None
    left_out: tuple[str, ...] = ()
    """Optional packages that are not in, each with the reason: `jieba: no record in conda-forge for linux-64`."""

    @property
    def platform(self) -> str:
        return self.request.platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One environment, locked on all its platforms."""

    name: str
    """Name of the spec."""
    variant: str | None = None
    """Name of the variant, None for a spec that has none."""
    platforms: tuple[PlatformLock, ...]
    """Sorted by platform."""

    @property
    def environment(self) -> str:
        """Name of this environment among its siblings: `default`, or the variant."""
        return self.variant or "default"

    def fingerprint(self) -> str:
        """
        Hex SHA-256 that changes when any package, request or fact in the lock does.

        It is taken over the value's fields as JSON with sorted keys and no spaces, so no file format matters.
        """
        text = json.dumps(self, default=_fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass as JSON's encoder takes it, without the deep copy of `dataclasses.asdict`."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def chosen(locks: Iterable[Lock], platform: str | None, variant: str | None) -> tuple[Lock, ...]:
    """The part of some locks that is of one platform and one variant; None means all of them."""
    kept = []
    for lock in locks:
        platforms = tuple(one for one in lock.platforms if platform in (None, one.platform))
        if platforms and variant in (None, lock.variant):
            kept.append(dataclasses.replace(lock, platforms=platforms))
    return tuple(kept)
