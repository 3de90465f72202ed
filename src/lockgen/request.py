"""What is asked of the solver for one platform, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

ChannelPriority = Literal["strict", "disabled"]
CudaMatch = Literal["compatible", "exact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One match spec, and the line of the spec that asks for it."""

    spec: str
    """A conda match spec: `pytorch 2.9.* cuda*`."""
    because: str
    """Why it is here, in words of the spec: `pytorch: 2.9`, `extra nlp: tokenizers for the models`."""
    key: str
    """Path of the key in the spec, dotted: `pytorch`, `extras.0`, `dependencies.2`."""
    optional: bool = False
    """May be left out, and said so, where the channels cannot give it."""

    @property
    def extra(self) -> str | None:
        """Name of the extra that asks for it."""
        return self.because.removeprefix("extra ").split(":", 1)[0] if self.key.startswith("extras.") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaAsk:
    """The CUDA that the spec asks for."""

    version: str
    """Major and minor, `12.1`: what the driver must support, and for `exact` the toolkit to lock."""
    match: CudaMatch
    gpus: tuple[str, ...] = ()
    """Compute capabilities that must be covered, `7.0`, sorted by number."""
    driver: str | None = None
    """Oldest driver of the machines, `535`, when the spec says one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One platform's whole question. Nothing in it comes from the host."""

    platform: str
    """Subdir: `linux-64`."""
    channels: tuple[str, ...]
    """Base URLs without a trailing slash, highest priority first."""
    channel_priority: ChannelPriority = "strict"
    provider: str = "conda-forge"
    """Whose conventions for CPU and GPU builds hold: a row of `knowledge/providers`."""
    requirements: tuple[Requirement, ...]
    constraints: tuple[Requirement, ...] = ()
    virtual_packages: tuple[str, ...]
    """`name=version=build`, sorted: `__glibc=2.28=0`."""
    cutoff: str | None = None
    """Packages built later than this are not seen: ISO date or date and time, UTC."""
    cuda: CudaAsk | None = None
    """None where CPU builds are asked for."""


_UNORDERED = ("dependencies", "constraints")
"""Lists of a spec whose order says nothing."""


def settled(request: Request) -> Request:
    """The request as it is locked: what a spec lists without an order is numbered as it is sorted, not as written."""
    return replace(
        request, requirements=_renumbered(request.requirements), constraints=_renumbered(request.constraints)
    )


def _renumbered(asked: Sequence[Requirement]) -> tuple[Requirement, ...]:
    counts = dict.fromkeys(_UNORDERED, 0)
    found = []
    for one in asked:
        name = one.key.split(".")[0]
        if name in counts:
            found.append(replace(one, key=f"{name}.{counts[name]}"))
            counts[name] += 1
        else:
            found.append(one)
    return tuple(found)
