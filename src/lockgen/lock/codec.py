"""What a lock format is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lockgen.lock.model import Lock

Files = Mapping[str, str]
"""File name → text, LF line ends and one final newline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """A format that locks are written in, and perhaps read from."""

    name: str
    """Carries its version and never changes meaning: `conda-lock-v1`."""
    dump: Callable[[tuple[Lock, ...]], Files]
    """Pure: the same locks give the same bytes. All locks of one spec are given at once, ordered by variant."""
    load: Callable[[str, str], tuple[Lock, ...]] | None = None
    """Text and the file's name → locks; raises LockError with file:line. None for a format that is only written."""
    loses: frozenset[str] = frozenset()
    """Fields of the values that the format cannot hold."""


def suffixed(filename: str, lock: Lock) -> str:
    """
    The name of a file that belongs to one variant: the variant stands before the last ending.

    `conda-lock.yml` of variant `cpu` is `conda-lock.cpu.yml`; without a variant the name stays.
    """
    if lock.variant is None:
        return filename
    stem, dot, ending = filename.rpartition(".")
    return f"{stem}.{lock.variant}.{ending}" if dot else f"{filename}.{lock.variant}"
