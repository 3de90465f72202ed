"""Official wheels of torch by CUDA: choices to name where no conda channel has them."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass
from typing import Literal

from lockgen.knowledge.reader import facts
from lockgen.knowledge.versions import compare_versions, numbers

State = Literal["stable", "unsupported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelRow:
    """The wheels of one minor version of torch."""

    pytorch: str
    """Major and minor, `2.9`."""
    default: str
    """CUDA of the wheel that a plain install gives on Linux x86-64."""
    stable: tuple[str, ...]
    unsupported: tuple[str, ...]
    """Exist, but nobody promises them."""
    source: str
    checked: datetime.date


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelChoice:
    """A version of torch with the CUDA of one of its wheels."""

    pytorch: str
    cuda: str
    state: State


@functools.cache
def wheel_rows() -> tuple[WheelRow, ...]:
    """All rows, oldest torch first."""
    rows = (
        WheelRow(
            pytorch=row.text("pytorch"),
            default=row.text("default"),
            stable=row.texts("stable"),
            unsupported=row.texts("unsupported"),
            source=row.text("source"),
            checked=row.date("checked"),
        )
        for row in facts("wheels.toml").tables("wheel")
    )
    return tuple(sorted(rows, key=lambda row: numbers(row.pytorch)))


def wheel_choices(pytorch: str, cuda: str) -> tuple[WheelChoice, ...]:
    """
    Wheels near a wish: this torch with each CUDA of the same major, then the newest torch with exactly this CUDA.

    The wish itself is among them where it exists. Empty where nothing is near.
    """
    wanted, major = numbers(pytorch)[:2], numbers(cuda)[:1]
    same_torch = [choice for choice in _choices() if numbers(choice.pytorch) == wanted]
    near = [choice for choice in same_torch if numbers(choice.cuda)[:1] == major] or same_torch
    same_cuda = [choice for choice in _choices() if compare_versions(choice.cuda, cuda) == 0]
    newest = [choice for choice in same_cuda[-1:] if choice not in near]
    return (*near, *newest)


@functools.cache
def _choices() -> tuple[WheelChoice, ...]:
    """Every wheel, oldest torch and oldest CUDA first."""
    found = [
        *(WheelChoice(pytorch=row.pytorch, cuda=cuda, state="stable") for row in wheel_rows() for cuda in row.stable),
        *(
            WheelChoice(pytorch=row.pytorch, cuda=cuda, state="unsupported")
            for row in wheel_rows()
            for cuda in row.unsupported
        ),
    ]
    return tuple(sorted(found, key=lambda one: (numbers(one.pytorch), numbers(one.cuda))))
