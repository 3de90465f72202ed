"""What an image is to be, before a byte of it is written: the one plan that the Dockerfile and the OCI image follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The image below."""

    reference: str
    """`docker.io/library/debian:bookworm-slim`, without a digest."""
    digest: str | None
    """`sha256:…`; None where the reference has none."""
    glibc: str | None
    """None: not known."""
    cuda: str | None = None
    """CUDA that it carries itself: `12.8`."""

    @property
    def pinned(self) -> str:
        """The reference with its digest."""
        return f"{self.reference}@{self.digest}" if self.digest else self.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Packages whose files lie in one layer."""

    name: str
    """`cuda`, `pytorch`, `python-2`: unique in a plan, of `[a-z0-9-]`."""
    packages: tuple[str, ...]
    """Names, sorted."""
    size: int
    """Bytes of the packages' archives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """A file that lockgen writes into the image."""

    path: str
    """Absolute."""
    text: str
    mode: int = 0o644
    owned: bool = False
    """It belongs to the image's user; else to root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that the image has."""

    path: str
    mode: int = 0o755
    owned: bool = True
    """It belongs to the image's user; else to root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a container is asked whether it is well."""

    command: tuple[str, ...]
    """Exits 0 while it is."""
    interval: int = 30
    """Seconds."""
    timeout: int = 10
    """Seconds."""
    start: int = 60
    """Seconds after the start in which a failure does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """One image of one platform."""

    name: str
    """Of the spec."""
    variant: str | None
    platform: str
    """`linux-64`."""
    architecture: str
    """As OCI names it: `amd64`."""
    fingerprint: str
    """Of the lock."""
    base: Base
    prefix: str
    """Where the environment lies in the image: `/opt/env`."""
    layers: tuple[Layer, ...]
    """In the order in which they are written, what changes least first; every package is in exactly one."""
    files: tuple[ImageFile, ...]
    """Written after the packages; sorted by path."""
    folders: tuple[Folder, ...]
    """Sorted by path."""
    env: tuple[tuple[str, str], ...]
    """In the order in which they are set."""
    labels: tuple[tuple[str, str], ...]
    """Sorted; they are annotations of the manifest too."""
    user: str
    """`1000:1000`."""
    login: str
    """Name of the user in /etc/passwd."""
    home: str
    workdir: str
    ports: tuple[int, ...]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    health: Health | None
    distribution: tuple[str, ...]
    """Packages of the base's own distribution that the services need, sorted: `openssh-server`."""
    needs: tuple[str, ...]
    """Paths that the base must have once `distribution` is installed: `/usr/sbin/sshd`."""
    created: int
    """Seconds since 1970: `SOURCE_DATE_EPOCH`, else the newest build in the lock."""
    notes: tuple[str, ...] = ()
    """Sentences for the screen."""
