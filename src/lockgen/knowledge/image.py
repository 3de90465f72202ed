"""Base images by digest."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass
from typing import Literal

from lockgen.knowledge.reader import FactError, facts, names_in

Role = Literal["base", "installer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image to build on, or in."""

    name: str
    """`debian-bookworm-slim`."""
    reference: str
    """`docker.io/library/debian:bookworm-slim`."""
    digest: str
    """`sha256:` and 64 hex digits."""
    role: Role
    """`base` of a final image, or `installer` in a build stage."""
    glibc: str
    family: str
    """Whose packages it is made of: `debian`, `ubuntu`."""
    cuda: str | None
    """CUDA that it carries itself: `12.8`."""
    user: str
    """The user it starts as."""
    packages: tuple[str, ...]
    """Of conda-forge, pinned, that a build stage needs beside what it has: `conda-lock==4.0.0`."""
    note: str
    default: bool
    """The one that is taken where the spec names none; one a role."""
    source: str
    checked: datetime.date

    @property
    def pinned(self) -> str:
        """Reference and digest, as `FROM` takes them."""
        return f"{self.reference}@{self.digest}"


@functools.cache
def images() -> tuple[Image, ...]:
    """All images, sorted by name."""
    return tuple(_image(name) for name in names_in("images"))


def image(name: str) -> Image | None:
    """The image of this name, None for an unknown one."""
    return _image(name) if name in names_in("images") else None


def default_image(role: Role) -> Image:
    """The image that is taken where the spec names none."""
    return next(row for row in images() if row.role == role and row.default)


@functools.cache
def _image(name: str) -> Image:
    table = facts(f"images/{name}.toml")
    return Image(
        name=table.text("name"),
        reference=table.text("reference"),
        digest=table.text("digest"),
        role=_role(table.file, table.text("role")),
        glibc=table.text("glibc"),
        family=table.text("family"),
        cuda=table.text_or_none("cuda"),
        user=table.text("user"),
        packages=table.texts_or_none("packages") or (),
        note=table.text("note"),
        default=table.flag("default"),
        source=table.text("source"),
        checked=table.date("checked"),
    )


def _role(file: str, role: str) -> Role:
    if role == "base":
        return "base"
    if role == "installer":
        return "installer"
    raise FactError(file, "role", "expected `base` or `installer`")
