"""The names of images, and the plain parts of what a registry says: no request is made here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockgen.errors import LockgenError, Problem

Descriptor = Mapping[str, Any]
"""A descriptor as the OCI image specification has it: `mediaType`, `digest`, `size` and more."""

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")

_HOST = re.compile(
    r"localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|[a-z0-9-]+(\.[a-z0-9-]+)*:[0-9]+|localhost:[0-9]+|\[[0-9a-f:]+\](:[0-9]+)?"
)
_REPOSITORY = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class RegistryError(LockgenError):
    """A registry or an OCI layout does not give what is asked of it, or does not take what it is given."""


def refuse(message: str, hint: str | None = None) -> RegistryError:
    """An error with one problem."""
    return RegistryError(Problem(message=message, hint=hint))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The name of an image in a registry."""

    host: str
    """As people write it, with its port: `docker.io`."""
    repository: str
    """`library/debian`."""
    tag: str | None
    digest: str | None

    @property
    def name(self) -> str:
        """The tag or, where there is one, the digest: how its manifest is asked for."""
        return self.digest or self.tag or "latest"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}{'@' + self.digest if self.digest else ''}"


def parse_reference(text: str) -> Reference:
    """
    The parts of `docker://HOST/NAME:TAG`, `NAME`, `HOST/NAME@sha256:…`; a missing host is Docker's own.

    Raises:
        RegistryError: it is none; what stands in it may be a password and is not repeated then.
    """
    rest, _, digest = text.removeprefix("docker://").partition("@")
    if "://" in rest or (digest and not DIGEST.fullmatch(digest)):
        hint = "credentials come from `docker login`, they are no part of a reference" if "@" in text else None
        raise refuse("the reference of an image is expected as `HOST/NAME:TAG` or `HOST/NAME@sha256:…`", hint)
    host, slash, path = rest.partition("/")
    if not slash or not _HOST.fullmatch(host):
        host, path = "docker.io", rest
    name, colon, tag = path.partition(":")
    if host == "docker.io" and "/" not in name:
        name = f"library/{name}"
    if not _REPOSITORY.fullmatch(name) or (colon and not _TAG.fullmatch(tag)):
        raise refuse(f"no reference of an image: `{rest}`", "`HOST/NAME:TAG`; a name has lower case letters only")
    return Reference(host=host, repository=name, tag=tag or (None if digest else "latest"), digest=digest or None)


def digest_of(content: bytes) -> str:
    """`sha256:…`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_index(media_type: str) -> bool:
    """Whether it lists manifests of several platforms."""
    return media_type in INDEXES


def is_manifest(media_type: str) -> bool:
    """Whether it is an image of one platform."""
    return media_type in _MANIFESTS


def is_descriptor(value: object) -> bool:
    """Whether a JSON value has what every descriptor has."""
    wanted = (("mediaType", str), ("digest", str), ("size", int))
    held = isinstance(value, dict) and all(isinstance(value.get(key), kind) for key, kind in wanted)
    return held and DIGEST.fullmatch(value["digest"]) is not None  # type: ignore[index]


def entries(layout: Path) -> list[dict[str, Any]]:
    """
    What the index of an OCI layout lists.

    Raises:
        RegistryError: there is no index, or it is not of its form.
    """
    file = layout / "index.json"
    try:
        found = parsed(file.read_bytes(), str(file)).get("manifests")
    except OSError as error:
        raise refuse(f"{layout} is no whole OCI layout: `index.json`: {(error.strerror or '').lower()}") from None
    if not isinstance(found, list) or not all(map(is_descriptor, found)):
        raise refuse(f"{file} is not the index of an OCI layout: its `manifests` are no list of descriptors")
    return found


def parsed(content: bytes, whose: str) -> dict[str, Any]:
    """A JSON object from outside."""
    with suppress(ValueError):
        value = json.loads(content)
        if isinstance(value, dict):
            return value
    raise refuse(f"not a JSON object: what is stored as `{whose}`")
