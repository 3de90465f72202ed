"""CUDA toolkits, the drivers they come with, and minor-version compatibility."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import facts
from lockgen.knowledge.versions import numbers, reaches

FILE = "cuda.toml"
WINDOWS = ("win-64",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """A release of CUDA."""

    cuda: str
    """Major and minor, `12.9`."""
    driver: str
    """The Linux driver it came with, `575.51.03`."""
    windows_driver: str | None = None
    """The Windows driver it came with, None where it came with none."""
    source: str
    checked: datetime.date

    def driver_on(self, platform: str) -> str | None:
        """The driver it came with there, as far as is known."""
        return self.windows_driver if platform in WINDOWS else self.driver


@dataclass(frozen=True, slots=True, kw_only=True)
class MinorCompatibility:
    """The oldest driver that runs code of any toolkit of one major."""

    major: int
    min_driver: str
    """On Linux."""
    windows_min_driver: str | None = None
    """On Windows, None where it is not known."""
    source: str
    checked: datetime.date


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a driver that is older than the toolkit does not give."""

    name: str
    text: str
    source: str
    checked: datetime.date


@functools.cache
def toolkits() -> tuple[Toolkit, ...]:
    """All known toolkits, oldest first."""
    rows = (
        Toolkit(
            cuda=row.text("cuda"),
            driver=row.text("driver"),
            windows_driver=row.text_or_none("windows_driver"),
            source=row.text("source"),
            checked=row.date("checked"),
        )
        for row in facts(FILE).tables("toolkit")
    )
    return tuple(sorted(rows, key=lambda row: numbers(row.cuda)))


def toolkit(cuda: str) -> Toolkit | None:
    """The toolkit of this major and minor version; a patch version is ignored: `12.1.1` is 12.1."""
    wanted = numbers(cuda)[:2]
    return next((row for row in toolkits() if numbers(row.cuda) == wanted), None)


@functools.cache
def minor_compatibility() -> tuple[MinorCompatibility, ...]:
    """The driver floor of every major, by major."""
    rows = (
        MinorCompatibility(
            major=row.integer("major"),
            min_driver=row.text("min_driver"),
            windows_min_driver=row.text_or_none("windows_min_driver"),
            source=row.text("source"),
            checked=row.date("checked"),
        )
        for row in facts(FILE).tables("minor_compatibility")
    )
    return tuple(sorted(rows, key=lambda row: row.major))


@functools.cache
def minor_version_limits() -> tuple[Limit, ...]:
    """What minor-version compatibility does not give, as clauses to put in a sentence."""
    return tuple(
        Limit(name=row.text("name"), text=row.text("text"), source=row.text("source"), checked=row.date("checked"))
        for row in facts(FILE).tables("limit")
    )


def min_driver(cuda: str, platform: str = "linux-64") -> str | None:
    """Oldest driver that runs code built with this toolkit, by its major's rule; None where that is not known."""
    major = numbers(cuda)[:1]
    row = next((row for row in minor_compatibility() if (row.major,) == major), None)
    if row is None:
        return None
    return row.windows_min_driver if platform in WINDOWS else row.min_driver


def driver_supports(driver: str, platform: str = "linux-64") -> str | None:
    """
    Newest toolkit that this driver supports in full: what `nvidia-smi` calls its CUDA version; None: not known.

    A branch without its patch, `535`, counts as that branch's newest driver.
    """
    known = [(row.cuda, came) for row in toolkits() if (came := row.driver_on(platform))]
    if platform in WINDOWS and numbers(driver)[:1] > numbers(known[-1][1])[:1]:
        return None
    return next((cuda for cuda, came in reversed(known) if reaches(driver, came)), None)


@functools.cache
def cuda_platforms() -> tuple[str, ...]:
    """The platforms that have CUDA at all."""
    return facts(FILE).table("platforms").texts("cuda")


def has_cuda(platform: str) -> bool:
    """Whether there is CUDA for this platform."""
    return platform in cuda_platforms()
