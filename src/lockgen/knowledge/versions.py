"""Dotted numbers: versions of CUDA, drivers, PyTorch and GPUs' capabilities, in order."""

from __future__ import annotations

import re
from itertools import zip_longest


def numbers(version: str) -> tuple[int, ...]:
    """The leading dotted numbers of a version: `2.9.0+cu121` is (2, 9, 0); empty where there are none."""
    found = re.match(r"\d+(?:\.\d+)*", version.strip())
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def compare_versions(left: str, right: str) -> int:
    """-1, 0 or 1 as `left` is older than, equal to or newer than `right`; missing parts count as 0."""
    for mine, other in zip_longest(numbers(left), numbers(right), fillvalue=0):
        if mine != other:
            return 1 if mine > other else -1
    return 0


def is_within(version: str, low: str | None, below: str | None) -> bool:
    """Whether `low` <= version < `below`; None leaves that side open."""
    above_low = low is None or compare_versions(version, low) >= 0
    return above_low and (below is None or compare_versions(version, below) < 0)


def reaches(version: str, floor: str) -> bool:
    """
    Whether a version is at least `floor`, looking no deeper than the version is given.

    So a driver branch, `525`, reaches `525.60.13`, while `525.53` does not.
    """
    mine = numbers(version)
    return bool(mine) and mine >= numbers(floor)[: len(mine)]
