"""A loss curve made ready to be drawn: smoothed, thinned and scaled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise


def smoothed(losses: Sequence[float], span: int | None = None) -> tuple[float, ...]:
    """Mean of each step and the steps before it, as many as `span`; by default a twentieth of all."""
    width = span or max(1, len(losses) // 20)
    sums = [0.0, *accumulate(losses)]
    return tuple(
        (sums[end] - sums[max(0, end - width)]) / (end - max(0, end - width)) for end in range(1, len(losses) + 1)
    )


def thinned(values: Sequence[float], count: int) -> tuple[float, ...]:
    """At most `count` means of neighbours, in order; all values where there are no more."""
    if len(values) <= count:
        return tuple(values)
    edges = [index * len(values) // count for index in range(count + 1)]
    return tuple(sum(values[a:b]) / (b - a) for a, b in pairwise(edges))


def braille(values: Sequence[float], width: int, height: int) -> tuple[str, ...]:
    """
    A line through the values in braille dots, from the top row to the bottom row.

    Args:
        values: at least one, finite.
        width: characters, each two dots wide.
        height: characters, each four dots high.
    """
    low, high = min(values), max(values)
    rows = height * 4
    points = thinned(values, width * 2)
    scale = (rows - 1) / (high - low) if high > low else 0.0
    heights = [round((value - low) * scale) for value in _stretched(points, width * 2)]
    dots: dict[tuple[int, int], int] = {}
    for column, level in enumerate(heights):
        before = heights[column - 1] if column else level
        first, last = (before + (1 if level > before else -1), level) if level != before else (level, level)
        for each in range(min(first, last), max(first, last) + 1):
            row = rows - 1 - each
            place = (row // 4, column // 2)
            dots[place] = dots.get(place, 0) | _DOTS[row % 4][column % 2]
    lines = ("".join(chr(0x2800 + dots.get((row, column), 0)) for column in range(width)) for row in range(height))
    return tuple(line.rstrip("\u2800") for line in lines)


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille character, by row and column."""


def _stretched(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Exactly `count` values on the straight lines between those given."""
    if len(values) == 1 or count == 1:
        return (values[0],) * count
    found = []
    for index in range(count):
        place = index * (len(values) - 1) / (count - 1)
        left = min(int(place), len(values) - 2)
        found.append(values[left] + (values[left + 1] - values[left]) * (place - left))
    return tuple(found)
