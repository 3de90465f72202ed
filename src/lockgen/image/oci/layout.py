"""Where an image goes: an OCI layout, an archive for `docker load`, a registry; whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lockgen.errors import LockgenError, Problem, UsageError
from lockgen.image.payload import stage
from lockgen.image.reference import entries, parsed

TAG = "org.opencontainers.image.ref.name"
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class TargetError(LockgenError):
    """The image cannot be put where it is to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an image goes."""

    kind: Literal["oci", "docker-archive", "docker"]
    place: str
    """A folder, a file, or a reference in a registry."""
    tag: str
    """Its name there: `latest`; in an archive with the image's name before it, empty where none is given."""

    def __str__(self) -> str:
        if self.kind == "docker":
            return f"docker://{self.place}"
        return f"{self.kind}:{self.place}" + (f":{self.tag}" if self.tag else "")


def parse(text: str) -> Target:
    """
    Read `oci:DIR[:TAG]`, `docker-archive:FILE[:NAME:TAG]` or `docker://HOST/NAME[:TAG]`.

    Raises:
        UsageError: it is none of these.
    """
    kind, _, rest = text.partition(":")
    if kind == "docker" and rest.startswith("//") and len(rest) > 2:
        return Target(kind="docker", place=rest[2:], tag="latest")
    if kind == "oci" and rest:
        folder, _, tag = rest.rpartition(":")
        if not folder or "/" in tag:
            return Target(kind="oci", place=rest, tag="latest")
        if not _TAG.fullmatch(tag):
            hint = "a tag has letters, digits, `_`, `.` and `-`, and begins with neither of the last two"
            raise UsageError(Problem(message=f"not a tag: `{tag}`", hint=hint))
        return Target(kind="oci", place=folder, tag=tag)
    if kind == "docker-archive" and rest:
        file, _, name = rest.partition(":")
        return Target(kind="docker-archive", place=file, tag=name)
    hint = "name `oci:DIR[:TAG]`, `docker-archive:FILE[:NAME:TAG]` or `docker://HOST/NAME:TAG`"
    raise UsageError(Problem(message=f"no place for an image: `{text}`", hint=hint))


@contextlib.contextmanager
def draft(target: Target, elsewhere: Path) -> Iterator[Path]:
    """
    A new layout beside the target, gone afterwards, whatever happens.

    Args:
        elsewhere: a folder for what goes to a registry.

    Raises:
        TargetError: the target cannot be written, or is something else.
    """
    parent = elsewhere if target.kind == "docker" else Path(target.place).resolve().parent
    _check_target(target)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".lockgen-image-", dir=parent))
    except OSError as error:
        raise TargetError(Problem(message=f"cannot write {parent}: {error.strerror}")) from None
    try:
        (folder / "blobs/sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        folder.chmod(0o777 & ~_umask())
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _check_target(target: Target) -> None:
    place = Path(target.place)
    if target.kind == "docker-archive" and place.is_dir():
        raise TargetError(Problem(message=f"{place} is a folder, not a file"))
    if target.kind == "oci" and not _is_free(place) and not (place / "oci-layout").is_file():
        raise TargetError(Problem(message=f"{place} is there, and is no OCI layout", hint="name a new folder"))
    if target.kind == "oci" and not _is_free(place):
        _kept(place, target.tag)


def _is_free(place: Path) -> bool:
    """Whether nothing is there, or an empty folder."""
    return not place.exists() or (place.is_dir() and not any(place.iterdir()))


def put(folder: Path, value: Mapping[str, Any], media_type: str) -> dict[str, Any]:
    """Write a value as a blob; its descriptor."""
    data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(data).hexdigest()
    (folder / "blobs/sha256" / digest).write_bytes(data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def blob(folder: Path, descriptor: Mapping[str, Any]) -> Path:
    """Where a blob lies."""
    return folder / "blobs/sha256" / str(descriptor["digest"]).removeprefix("sha256:")


def name(folder: Path, root: Mapping[str, Any], tag: str) -> None:
    """Make a manifest or index the only image of a draft."""
    _write_index(folder, [{**root, "annotations": {TAG: tag}}])


def _write_index(folder: Path, entries: list[dict[str, Any]]) -> None:
    value = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": entries,
    }
    temporary = folder / ".index.json"
    temporary.write_text(json.dumps(value, sort_keys=True, separators=(",", ":")))
    os.replace(temporary, folder / "index.json")


def publish(folder: Path, target: Target) -> None:
    """
    Put a draft in the place of a layout, or its image into the layout that is there.

    Killed at any moment, the layout has the old image or the new one, whole.

    Raises:
        TargetError: it cannot be written.
    """
    place = Path(target.place).resolve()
    try:
        if not place.exists():
            os.replace(folder, place)
            return
        if _is_free(place):
            for name in ("blobs", "oci-layout", "index.json"):
                os.replace(folder / name, place / name)
            return
        with _held(place):
            _merge(folder, place, target.tag)
    except OSError as error:
        raise TargetError(Problem(message=f"cannot write {place}: {error.strerror}")) from None


@contextlib.contextmanager
def _held(place: Path) -> Iterator[None]:
    """Keep another build from changing the same layout meanwhile."""
    import fcntl

    with (place / "oci-layout").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _merge(folder: Path, place: Path, tag: str) -> None:
    """Blobs first, then the index that names them, then away with what nobody names."""
    new = entries(folder)
    kept = [one for one in _kept(place, tag) if one not in new]
    (place / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    for path in sorted((folder / "blobs/sha256").iterdir()):
        os.replace(path, place / "blobs/sha256" / path.name)
    _write_index(place, [*kept, *new])
    _sweep(place)


def _kept(place: Path, tag: str) -> list[dict[str, Any]]:
    """
    What a layout lists beside the image of a tag: other images, and documents about those.

    Raises:
        RegistryError: its index cannot be read.
    """
    subjects = {one["digest"]: _subject(place, one["digest"]) for one in entries(place)}
    named = [one for one in entries(place) if (one.get("annotations") or {}).get(TAG) != tag]
    images = [one for one in named if subjects[one["digest"]] is None]
    reached = {digest for one in images for digest in _reached(place, one["digest"])}
    return [one for one in named if subjects[one["digest"]] in {None, *reached}]


def _subject(place: Path, digest: str) -> str | None:
    """What a document is about; None for an image, and for what is not there, of which nothing is known."""
    subject = _json(place, digest).get("subject")
    return str(subject.get("digest")) if isinstance(subject, dict) else None


def _sweep(folder: Path) -> None:
    """Remove blobs that nothing in a layout has; none, where a part is missing whose own parts may be there."""
    used = {digest for one in entries(folder) for digest in _reached(folder, one["digest"])}
    if any(not blob(folder, {"digest": digest}).is_file() for digest in used):
        return
    for path in (folder / "blobs/sha256").iterdir():
        if f"sha256:{path.name}" not in used:
            path.unlink()


def _reached(folder: Path, digest: str) -> Iterator[str]:
    """A blob and all that it names, as far as it is there."""
    yield digest
    value = _json(folder, digest)
    for one in value.get("manifests") or ():
        yield from _reached(folder, one["digest"])
    if value.get("config"):
        yield from (one["digest"] for one in (value["config"], *value["layers"]))


def _json(folder: Path, digest: str) -> dict[str, Any]:
    """A manifest; empty where it is not there, as in a layout that holds a part of an image only."""
    try:
        return parsed(blob(folder, {"digest": digest}).read_bytes(), digest)
    except FileNotFoundError:
        return {}


def archive(folder: Path, root: Mapping[str, Any], target: Target) -> None:
    """
    Write the one image of a draft as `docker load` takes it.

    Raises:
        TargetError: it cannot be written.
    """
    manifest = _json(folder, str(root["digest"]))
    config, layers = _path(manifest["config"]), [_path(one) for one in manifest["layers"]]
    listed = [{"Config": config, "RepoTags": [target.tag], "Layers": layers}]
    temporary = folder / "archive"
    try:
        (folder / "manifest.json").write_text(json.dumps(listed))
        with tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as tar:
            for path in ("manifest.json", *dict.fromkeys((config, *layers))):
                _add(tar, folder, path)
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, target.place)
    except OSError as error:
        raise TargetError(Problem(message=f"cannot write {target.place}: {error.strerror}")) from None


def _path(descriptor: Mapping[str, Any]) -> str:
    return str(blob(Path(), descriptor))


def _add(tar: tarfile.TarFile, folder: Path, path: str) -> None:
    member = tarfile.TarInfo(path)
    member.size, member.mode, member.mtime = (folder / path).stat().st_size, 0o644, stage.EPOCH
    with (folder / path).open("rb") as file:
        tar.addfile(member, file)
