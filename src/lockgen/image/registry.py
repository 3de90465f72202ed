"""Images between an OCI layout and a registry: push without sending anything twice, fetch, and attach documents."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lockgen.image.reference import (
    Descriptor,
    Reference,
    RegistryError,
    digest_of,
    is_descriptor,
    is_index,
    is_manifest,
    parse_reference,
    parsed,
    refuse,
)

if TYPE_CHECKING:
    from lockgen.image.registry_client import Client

Progress = Callable[[str, int, int], None]
"""Told of a blob: its digest, how many of its bytes are through, its size; one that is not sent is through at once."""

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_EMPTY = "application/vnd.oci.empty.v1+json"
NAME = "org.opencontainers.image.ref.name"
"""The annotation that names an image in a layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What a push did."""

    digest: str
    """Of the manifest or index that the tag names now."""
    sent_bytes: int
    """Blobs and manifests that went over."""
    kept_bytes: int
    """Blobs that the registry had."""
    sent_layers: int
    kept_layers: int


def _silent(_digest: str, _done: int, _size: int) -> None:
    """No progress is shown."""


def push(
    layout: Path,
    tag: str,
    reference: str,
    progress: Progress = _silent,
    *,
    base: str | None = None,
    tls_verify: bool = True,
) -> Pushed:
    """
    Send an image of an OCI layout, all its platforms and the documents attached to it; what is there is not sent.

    The tag is set last, so that a push that breaks off leaves the old image whole.

    Args:
        tag: name of the image in the layout.
        reference: `HOST/NAME:TAG`.
        base: reference of the image below; in the same registry its layers are taken over there.
        tls_verify: without it any certificate is taken, and plain HTTP where the registry speaks no TLS; this machine
            may speak plain HTTP in any case.

    Raises:
        RegistryError: the layout is not whole, or the registry cannot be reached, refuses, or does not know the name.
    """
    connected = _client().connected

    where = parse_reference(reference)
    if where.digest:
        raise refuse(f"an image is pushed to a tag, not to a digest: `{where}`")
    root = _named(layout, tag)
    image = tuple(_manifests(layout, root))
    documents = _referrers(layout, {one.digest for one in image})
    with connected(where, tls_verify=tls_verify) as client:
        work = _Push(layout, client, progress, _mountable(where, base))
        for one in (*image, *documents):
            work.send(one)
        work.list_referrers(documents)
        work.sent_bytes += client.put_manifest(where.name, image[-1].content, image[-1].media_type)
    return work.result(image[-1].digest)


def fetch(
    reference: str,
    layout: Path,
    platform: str = "linux/amd64",
    progress: Progress = _silent,
    *,
    tls_verify: bool = True,
) -> str:
    """
    Bring one platform of an image into an OCI layout, where the reference becomes its name.

    Blobs that the layout has are not fetched; all others are checked. The layout is made where there is none.

    Args:
        platform: as OCI names it: `linux/amd64`, `linux/arm64/v8`.

    Returns:
        Digest of the platform's manifest.

    Raises:
        RegistryError: no such image, none for the platform, or what was sent is not what was asked for.
    """
    connected = _client().connected

    where = parse_reference(reference)
    with connected(where, tls_verify=tls_verify) as client:
        one = _of_platform(client, platform)
        for blob in (one.value["config"], *one.value["layers"]):
            _bring(client, layout, blob, progress)
    config = parsed(_blob(layout, one.value["config"]["digest"]).read_bytes(), str(where))
    found = _platform_of(config)
    if not _is_of(found, platform):
        raise refuse(f"`{where}` is for {found}, not for {platform}")
    _store(layout, one.digest, [one.content])
    descriptor = {**one.descriptor(), "platform": _fields(config), "annotations": {NAME: str(where)}}
    _add(layout, descriptor)
    return one.digest


def attach(
    layout: Path,
    subject: Descriptor,
    artifact_type: str,
    media_type: str,
    content: bytes,
    annotations: Mapping[str, str] | None = None,
) -> str:
    """
    Add a document about a manifest to a layout, as a referrer of it; `push` sends it along.

    Args:
        subject: descriptor of the manifest: `mediaType`, `digest`, `size`.
        artifact_type: what the document is: `application/vnd.cyclonedx+json`.
        media_type: its own format.

    Returns:
        Digest of the referrer's manifest.
    """
    empty = b"{}"
    blobs = {digest_of(blob): blob for blob in (empty, content)}
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": artifact_type,
        "config": {"mediaType": OCI_EMPTY, "digest": digest_of(empty), "size": len(empty)},
        "layers": [{"mediaType": media_type, "digest": digest_of(content), "size": len(content)}],
        "subject": {key: subject[key] for key in ("mediaType", "digest", "size")},
    }
    if annotations:
        manifest["annotations"] = dict(annotations)
    one = _Manifest.of(_json(manifest), OCI_MANIFEST)
    for digest, blob in (*blobs.items(), (one.digest, one.content)):
        _store(layout, digest, [blob])
    _add(layout, one.as_referrer())
    return one.digest


@dataclass(frozen=True, slots=True)
class _Manifest:
    """A manifest or an index: its bytes, and what they say."""

    content: bytes
    media_type: str
    digest: str
    value: Mapping[str, Any]

    @classmethod
    def of(cls, content: bytes, media_type: str) -> _Manifest:

        digest = digest_of(content)
        value = parsed(content, digest)
        parts = _parts(value, media_type)
        if not all(map(is_descriptor, parts)):
            raise refuse(f"not of the form that its media type says: the manifest {digest}")
        return cls(content, media_type, digest, value)

    def blobs(self) -> Iterator[tuple[Descriptor, bool]]:
        """Its blobs, each with whether it is a layer; an index has none."""
        if "config" in self.value:
            yield self.value["config"], False
        for layer in self.value.get("layers", ()):
            yield layer, True

    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}

    def as_referrer(self) -> dict[str, Any]:
        """The descriptor as a list of referrers has it."""
        kind = self.value.get("artifactType") or self.value.get("config", {}).get("mediaType", "")
        annotations = self.value.get("annotations")
        more = {"annotations": annotations} if annotations else {}
        return {**self.descriptor(), "artifactType": kind, **more}


@dataclass
class _Push:
    """One push under way."""

    layout: Path
    client: Client
    progress: Progress
    mountable: str | None
    """Repository of the same registry that may hold layers."""
    sent_bytes: int = 0
    kept_bytes: int = 0
    layers: dict[str, bool] = field(default_factory=dict)
    """Digest of a layer: whether it was sent."""
    seen: set[str] = field(default_factory=set)

    def send(self, one: _Manifest) -> None:
        """Send a manifest's blobs, then the manifest by its digest."""
        for blob, is_layer in one.blobs():
            if blob["digest"] in self.seen:
                continue
            self.seen.add(blob["digest"])
            sent = self._send_blob(blob, is_layer)
            if is_layer and "subject" not in one.value:
                self.layers[blob["digest"]] = sent
        self.sent_bytes += self.client.put_manifest(one.digest, one.content, one.media_type)

    def _send_blob(self, blob: Descriptor, is_layer: bool) -> bool:
        digest, size = blob["digest"], blob["size"]
        kept = self.client.has_blob(digest) or (
            is_layer and self.mountable is not None and self.client.mount(self.mountable, digest)
        )
        if kept:
            self.kept_bytes += size
            self.progress(digest, size, size)
            return False
        self.client.send_blob(_present(self.layout, blob), digest, _about(self.progress, blob))
        self.sent_bytes += size
        return True

    def list_referrers(self, documents: Iterable[_Manifest]) -> None:
        """
        Make the documents findable in a registry that does not list referrers by itself.

        OCI distribution 1.1, "Referrers Tag Schema": an index under the tag `sha256-…` of the subject lists them.
        """
        by_subject: dict[str, list[_Manifest]] = {}
        for one in documents:
            by_subject.setdefault(one.value["subject"]["digest"], []).append(one)
        for subject, those in by_subject.items():
            if not self.client.lists_referrers(subject):
                self._add_to_tag(subject.replace(":", "-"), [one.as_referrer() for one in those])

    def _add_to_tag(self, tag: str, new: list[dict[str, Any]]) -> None:
        present = self.client.index(tag)
        digests = {entry["digest"] for entry in new}
        kept = [entry for entry in present if entry["digest"] not in digests]
        index = _json({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [*kept, *new]})
        self.sent_bytes += self.client.put_manifest(tag, index, OCI_INDEX)

    def result(self, digest: str) -> Pushed:
        sent = sum(self.layers.values())
        return Pushed(
            digest=digest,
            sent_bytes=self.sent_bytes,
            kept_bytes=self.kept_bytes,
            sent_layers=sent,
            kept_layers=len(self.layers) - sent,
        )


def _client() -> ModuleType:
    """What makes the requests; its libraries are loaded for this alone."""
    try:
        from lockgen.image import registry_client
    except ModuleNotFoundError as error:
        hint = "`pip install python-dxf docker requests` in lockgen's environment; an `oci:` folder needs none of them"
        raise refuse(f"`{error.name}` is not installed, which a registry is spoken to with", hint) from None
    return registry_client


def _mountable(where: Reference, base: str | None) -> str | None:
    """The base's repository, where it is another one of the same registry."""
    try:
        below = parse_reference(base) if base else None
    except RegistryError:
        return None
    return below.repository if below and below.host == where.host and below.repository != where.repository else None


def _of_platform(client: Client, platform: str) -> _Manifest:
    """The manifest of one platform; an index is followed."""
    one = _Manifest.of(*client.manifest(client.where.name))
    if is_index(one.media_type):
        entries = [entry for entry in one.value["manifests"] if is_manifest(entry["mediaType"])]
        chosen = next((entry for entry in entries if _is_of(_platform_of(entry.get("platform", {})), platform)), None)
        if chosen is None:
            found = sorted({_platform_of(entry.get("platform", {})) for entry in entries} - {"unknown/unknown"})
            raise refuse(f"`{client.where}` has no image for {platform}; it has {', '.join(found) or 'none'}")
        one = _Manifest.of(*client.manifest(chosen["digest"]))
    if not is_manifest(one.media_type):
        raise refuse(f"`{client.where}` is no image that lockgen reads: {one.media_type}")
    return one


def _bring(client: Client, layout: Path, blob: Descriptor, progress: Progress) -> None:
    """Fetch a blob that the layout lacks."""
    patiently = _client().patiently

    if _is_there(layout, blob):
        progress(blob["digest"], blob["size"], blob["size"])
    else:
        told = _about(progress, blob)
        patiently(lambda: _store(layout, blob["digest"], client.read_blob(blob, told)))


def _parts(value: Mapping[str, Any], media_type: str) -> list[object]:
    """What has to be descriptors in a manifest or an index."""
    key = "manifests" if is_index(media_type) else "layers"
    several = value.get(key)
    parts = several if isinstance(several, list) else [several]
    if is_manifest(media_type):
        return [value.get("config"), *parts]
    return parts if is_index(media_type) else []


def _fields(platform: Mapping[str, Any]) -> dict[str, str]:
    return {key: platform[key] for key in ("architecture", "os", "variant") if platform.get(key)}


def _platform_of(platform: Mapping[str, Any]) -> str:
    """`linux/arm64/v8`."""
    named = {"os": "unknown", "architecture": "unknown", **_fields(platform)}
    return "/".join(named[key] for key in ("os", "architecture", "variant") if key in named)


def _is_of(found: str, wanted: str) -> bool:
    """Whether a platform is the wanted one; who names no variant takes any."""
    return found == wanted or found.startswith(f"{wanted}/")


def _about(progress: Progress, blob: Descriptor) -> Callable[[int], None]:
    return lambda done: progress(blob["digest"], done, blob["size"])


# the layout


def _blob(layout: Path, digest: str) -> Path:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise refuse(f"expected a digest as `sha256:…`: {digest}")
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _is_there(layout: Path, blob: Descriptor) -> bool:
    path = _blob(layout, blob["digest"])
    return path.is_file() and path.stat().st_size == blob["size"]


def _present(layout: Path, blob: Descriptor) -> Path:
    if not _is_there(layout, blob):
        raise refuse(f"the layout `{layout}` lacks the blob {blob['digest']} or has it in another size")
    return _blob(layout, blob["digest"])


def _index(layout: Path) -> dict[str, Any]:
    try:
        return parsed((layout / "index.json").read_bytes(), str(layout / "index.json"))
    except OSError as error:
        raise refuse(f"no OCI layout: {layout}: {error.strerror}") from None


def _named(layout: Path, tag: str) -> Descriptor:
    """The entry of a layout that has a name."""
    names = {}
    for entry in _index(layout).get("manifests", ()):
        names[entry.get("annotations", {}).get(NAME)] = entry
    if tag not in names:
        known = ", ".join(f"`{name}`" for name in sorted(filter(None, names)))
        raise refuse(f"no image `{tag}` in the layout `{layout}`; it has {known or 'none with a name'}")
    found: Descriptor = names[tag]
    return found


def _manifests(layout: Path, descriptor: Descriptor) -> Iterator[_Manifest]:
    """A manifest, or an index after all that it lists."""
    one = _Manifest.of(_present(layout, descriptor).read_bytes(), descriptor["mediaType"])
    if one.digest != descriptor["digest"]:
        raise refuse(f"the layout `{layout}` is damaged: {descriptor['digest']} has the digest {one.digest}")
    if is_index(one.media_type):
        for child in one.value["manifests"]:
            yield from _manifests(layout, child)
    yield one


def _referrers(layout: Path, subjects: set[str]) -> tuple[_Manifest, ...]:
    """The documents about some manifests, and those about the documents."""
    entries = [entry for entry in _index(layout)["manifests"] if is_manifest(entry["mediaType"])]
    those = [one for entry in entries for one in _manifests(layout, entry) if one.value.get("subject")]
    found: list[_Manifest] = []
    while new := [one for one in those if one.value["subject"]["digest"] in subjects and one not in found]:
        found += new
        subjects = subjects | {one.digest for one in new}
    return tuple(found)


def _store(layout: Path, digest: str, chunks: Iterable[bytes]) -> None:
    """Write a blob beside its place and rename it."""
    path = _blob(layout, digest)
    with _beside(path) as temporary, temporary.open("wb") as out:
        out.writelines(chunks)


def _add(layout: Path, descriptor: Mapping[str, Any]) -> None:
    """Put an entry into a layout's index, in place of one with the same name or, where it has none, digest."""
    index: dict[str, Any] = {"schemaVersion": 2, "mediaType": OCI_INDEX}
    if (layout / "index.json").exists():
        index = _index(layout)
    same = _identity(descriptor)
    kept = [entry for entry in index.get("manifests", ()) if _identity(entry) != same]
    files = {
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "index.json": {**index, "manifests": [*kept, dict(descriptor)]},
    }
    for name, value in files.items():
        with _beside(layout / name) as temporary:
            temporary.write_bytes(_json(value))


def _identity(entry: Mapping[str, Any]) -> str:
    return str(entry.get("annotations", {}).get(NAME) or entry["digest"])


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A temporary file that takes a path's place when all went well."""
    from requests import RequestException

    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except RequestException:  # it is an OSError, too
        raise
    except OSError as error:
        raise refuse(f"cannot write {path}: {error.strerror}") from None
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
