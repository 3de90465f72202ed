"""Rectangles whose areas are sizes: a squarified treemap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One rectangle; the unit is that of the whole's width and height."""

    x: float
    y: float
    width: float
    height: float


def treemap(sizes: Sequence[float], width: float, height: float) -> tuple[Box, ...]:
    """
    A box for each size, in the given order, filling the whole.

    Args:
        sizes: positive, largest first.

    Source: Bruls, Huizing and van Wijk, Squarified Treemaps, 2000.
    """
    scale = width * height / sum(sizes) if sizes else 0.0
    rest = [size * scale for size in sizes]
    boxes: list[Box] = []
    free = Box(x=0.0, y=0.0, width=width, height=height)
    while rest:
        side = min(free.width, free.height)
        count = 1
        while count < len(rest) and _worst(rest[: count + 1], side) <= _worst(rest[:count], side):
            count += 1
        row, rest = rest[:count], rest[count:]
        laid, free = _laid(row, free)
        boxes += laid
    return tuple(boxes)


def _worst(row: Sequence[float], side: float) -> float:
    """The most oblong shape in a row along a side, as long by short."""
    thickness = sum(row) / side
    return max(max(area / thickness**2, thickness**2 / area) for area in row)


def _laid(row: Sequence[float], free: Box) -> tuple[list[Box], Box]:
    """A row along the shorter side, and what stays free."""
    boxes = []
    if free.width >= free.height:
        thickness, at = sum(row) / free.height, free.y
        for area in row:
            boxes.append(Box(x=free.x, y=at, width=thickness, height=area / thickness))
            at += area / thickness
        left = Box(x=free.x + thickness, y=free.y, width=max(0.0, free.width - thickness), height=free.height)
        return boxes, left
    thickness, at = sum(row) / free.width, free.x
    for area in row:
        boxes.append(Box(x=at, y=free.y, width=area / thickness, height=thickness))
        at += area / thickness
    left = Box(x=free.x, y=free.y + thickness, width=free.width, height=max(0.0, free.height - thickness))
    return boxes, left
