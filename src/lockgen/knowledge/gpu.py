"""GPUs by the names that people give them, and their compute capabilities."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lockgen.knowledge.reader import Table, facts
from lockgen.knowledge.versions import numbers

FILE = "gpus.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or all of one compute capability."""

    name: str
    """`V100`; `sm_70` where a capability was named."""
    capability: str
    """`7.0`."""
    architecture: str
    """`Volta`."""
    tegra: bool
    """A system on a chip (Jetson): runs only what is compiled for exactly its capability."""
    source: str
    checked: datetime.date


def gpu(name_or_capability: str) -> Gpu | None:
    """The GPU of this name (`V100`, `Tesla V100-SXM2-16GB`) or capability (`7.0`, `sm_70`); None for an unknown one."""
    capability = _capability(name_or_capability)
    if capability is not None:
        return _by_capability().get(capability)
    return _by_name().get(_plain(name_or_capability))


@functools.cache
def gpu_names() -> tuple[str, ...]:
    """All known names, newest architecture last, as they are usually written."""
    return tuple(name for row in _rows() for name in row.texts("gpus"))


def _rows() -> tuple[Table, ...]:
    return facts(FILE).tables("capability")


def _row_gpu(row: Table, name: str) -> Gpu:
    return Gpu(
        name=name,
        capability=row.text("capability"),
        architecture=row.text("architecture"),
        tegra=row.flag("tegra"),
        source=row.text("source"),
        checked=row.date("checked"),
    )


@functools.cache
def _by_name() -> Mapping[str, Gpu]:
    return {_plain(name): _row_gpu(row, name) for row in _rows() for name in row.texts("gpus")}


@functools.cache
def _by_capability() -> Mapping[str, Gpu]:
    """Gpus named `sm_70` by capability, `7.0`."""
    found = (_row_gpu(row, f"sm_{row.text('capability').replace('.', '')}") for row in _rows())
    return {row.capability: row for row in found}


def _capability(text: str) -> str | None:
    """`7.0` for `7.0`, `sm_70`, `SM70` and `compute_70`; None for anything else."""
    if re.fullmatch(r"\d{1,2}\.\d", text.strip()):
        return text.strip()
    found = re.fullmatch(r"(?:sm|compute)[ _-]?(\d{1,2}?)\.?(\d)a?", text.strip(), re.IGNORECASE)
    return f"{found[1]}.{found[2]}" if found else None


@functools.cache
def _ignored() -> re.Pattern[str]:
    return re.compile("|".join(facts(FILE).table("ignored").texts("words")))


def _plain(name: str) -> str:
    """The words that matter, lower case and together: `NVIDIA H100 80GB HBM3` and `h100` are the same."""
    words = re.split(r"[\s_\-]+", name.strip().lower())
    return "".join(word for word in words if not _ignored().fullmatch(word))


def covers(compiled: tuple[str, ...], ptx: str | None, device: Gpu) -> str | None:
    """
    How code for some compute capabilities runs on a GPU.

    Returns:
        `native`, when machine code for it is there: code for a capability runs on later ones of the same
        major, except on a Tegra; `ptx`, when the driver has to compile it first; None, when it cannot run.

    Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility; read 2026-11-30.
    """
    wanted = numbers(device.capability)
    have = [numbers(capability) for capability in compiled]
    if wanted in have:
        return "native"
    if not device.tegra and any(one[0] == wanted[0] and one <= wanted for one in have):
        return "native"
    return "ptx" if ptx is not None and numbers(ptx) <= wanted else None
