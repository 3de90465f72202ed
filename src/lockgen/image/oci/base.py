"""The image below: read from a layout, an archive, a root tar or a registry, checked, and looked into."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from lockgen.errors import LockgenError, Problem
from lockgen.image.model import ImagePlan
from lockgen.image.oci import layer
from lockgen.image.oci.layer import Compression
from lockgen.image.oci.meter import Meter
from lockgen.image.plan import SYSTEM_PATH
from lockgen.image.reference import RegistryError, digest_of, entries, parsed
from lockgen.knowledge import tables

MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
KEPT = frozenset({"etc/passwd", "etc/group", "var/lib/dpkg/status"})
"""Files of a base whose text is looked at."""
_LAYER_KINDS = {"gzip": "gzip", "zstd": "zstd", "tar": "none"}
_REF_NAME = "org.opencontainers.image.ref.name"


class BaseError(LockgenError):
    """The base cannot be read, or is not what it is said to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """An image whose layers lie in a folder of blobs."""

    config: Mapping[str, Any]
    layers: tuple[Mapping[str, Any], ...]
    """Descriptors."""
    digest: str
    """Of its manifest; of an archive's configuration, or of a root tar: what it is, wherever it lies."""


@dataclass(slots=True)
class Tree:
    """What a base holds, all its layers put together."""

    links: dict[str, str | None] = field(default_factory=dict)
    """Every path without a slash at either end; the target of a link, None for all else."""
    folders: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    """The files that are looked at."""

    def real(self, path: str, depth: int = 40) -> str:
        """A path with all links on its way followed, without a slash at its start."""
        found = ""
        for part in filter(None, posixpath.normpath("/" + path).split("/")):
            found = posixpath.join(found, part)
            target = self.links.get(found)
            if target is not None and depth:
                found = self.real(posixpath.join("/", posixpath.dirname(found), target), depth - 1)
        return found

    def has(self, path: str) -> bool:
        return self.real(path) in self.links


def read(
    named: str, platform: str, blobs: Path, compression: Compression, meter: Meter, *, tls_verify: bool = True
) -> BaseImage:
    """
    Bring a base's layers into a folder of blobs.

    Args:
        named: `oci:DIR[:TAG]`, `docker-archive:FILE`, `scratch-debian:FILE`, or a reference in a registry.
        platform: as OCI names it: `linux/amd64`.
        compression: for layers that are not compressed.
        meter: told of the bytes that come from a registry.

    Raises:
        BaseError: it cannot be read, is for other machines, or is not whole.
        RegistryError: the registry does not give it.
    """
    import zlib

    import zstandard

    kind, _, rest = named.partition(":")
    refused = f"cannot read the base `{named}`"
    try:
        if kind == "oci":
            return _of_layout(*_split_tag(rest), platform, blobs)
        if kind == "docker-archive":
            return _of_archive(Path(rest), platform, blobs, compression)
        if kind == "scratch-debian":
            return _of_tar(Path(rest), platform, blobs, compression)
    except (EOFError, zlib.error, zstandard.ZstdError):
        raise BaseError(Problem(message=f"{refused}: it is damaged, or ends too early")) from None
    except (KeyError, TypeError, AttributeError, IndexError):
        raise BaseError(Problem(message=f"{refused}: it is not of the form of an image")) from None
    except (OSError, tarfile.TarError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise BaseError(Problem(message=f"{refused}: {words}")) from None
    return _of_registry(named.removeprefix("docker://"), platform, blobs, meter, tls_verify=tls_verify)


def _split_tag(rest: str) -> tuple[Path, str | None]:
    """`DIR[:TAG]`; a folder may have a colon in its name."""
    folder, _, tag = rest.rpartition(":")
    if not folder or Path(rest).is_dir() or "/" in tag:
        return Path(rest), None
    return Path(folder), tag


def _of_registry(reference: str, platform: str, blobs: Path, meter: Meter, *, tls_verify: bool) -> BaseImage:
    from lockgen.image.registry import fetch
    from lockgen.install.cache import cache_folder

    kept = cache_folder().parent / "images"
    try:
        digest = fetch(reference, kept, platform, meter.of_blob, tls_verify=tls_verify)
    except RegistryError as error:
        (problem,) = error.problems
        hint = problem.hint or "`--base` also takes what lies here: oci:DIR, docker-archive:FILE or scratch-debian:FILE"
        message = f"cannot fetch the base `{reference}`: {problem.message}"
        raise BaseError(Problem(message=message, hint=hint)) from None
    return _bring(kept / "blobs/sha256", digest, platform, blobs, reference, _link)


def _of_layout(folder: Path, tag: str | None, platform: str, blobs: Path) -> BaseImage:
    source = folder / "blobs/sha256"
    images = [one for one in entries(folder) if "artifactType" not in one]
    fitting = [one for one in images if tag is None or one.get("annotations", {}).get(_REF_NAME) == tag]
    if len({one["digest"] for one in fitting}) != 1:
        names = ", ".join(sorted(one.get("annotations", {}).get(_REF_NAME, "") or "unnamed" for one in images))
        what = f"no image `{tag}`" if tag else "not exactly one image"
        raise BaseError(Problem(message=f"{folder} holds {what}: it has {names or 'none'}"))
    digest = _of_platform(source, fitting[0]["digest"], platform)
    return _bring(source, digest, platform, blobs, str(folder), shutil.copyfile)


def _of_platform(source: Path, digest: str, platform: str) -> str:
    """The manifest of a platform; of an index, the one that is for it."""
    value = _json(source, digest)
    if "manifests" not in value:
        return digest
    system, _, machine = platform.partition("/")
    for one in value["manifests"]:
        asked = one.get("platform", {})
        if (asked.get("os"), asked.get("architecture")) == (system, machine):
            return _of_platform(source, one["digest"], platform)
    raise BaseError(Problem(message=f"the base has no image for {platform}"))


def _json(source: Path, digest: str) -> dict[str, Any]:
    """A manifest or configuration, checked."""
    data = _blob(source, digest).read_bytes()
    _check(digest, hashlib.sha256(data).hexdigest())
    return parsed(data, digest)


def _blob(source: Path, digest: str) -> Path:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise BaseError(Problem(message=f"the base names a digest that is none: {digest}"))
    return source / digest.removeprefix("sha256:")


def _check(digest: str, found: str) -> None:
    if digest != f"sha256:{found}":
        raise BaseError(Problem(message=f"the base is not whole: {digest}", detail=f"its bytes are sha256:{found}"))


def _bring(
    source: Path, digest: str, platform: str, blobs: Path, named: str, bring: Callable[[Path, Path], object]
) -> BaseImage:
    """Take the layers of a manifest over, and check every byte of them."""
    manifest = _json(source, digest)
    config = _json(source, manifest["config"]["digest"])
    _check_platform(config, platform, named)
    for one in manifest["layers"]:
        path = _blob(source, one["digest"])
        with path.open("rb") as file:
            _check(one["digest"], hashlib.file_digest(file, "sha256").hexdigest())
        bring(path, blobs / path.name)
    return BaseImage(config=config, layers=tuple(_as_oci(one) for one in manifest["layers"]), digest=digest)


def _link(source: Path, target: Path) -> None:
    """A blob of our own cache, which nobody changes: no bytes are copied where the disk is the same."""
    target.unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)


def _as_oci(descriptor: Mapping[str, Any]) -> dict[str, Any]:
    """A layer's descriptor with OCI's media type in place of Docker's."""
    ending = re.split(r"[.+]", descriptor["mediaType"])[-1]
    kept = {key: descriptor[key] for key in ("digest", "size")}
    return {"mediaType": layer.MEDIA_TYPES[_LAYER_KINDS.get(ending, "none")], **kept}


def _check_platform(config: Mapping[str, Any], platform: str, named: str) -> None:
    found = f"{config.get('os')}/{config.get('architecture')}"
    if found != platform:
        raise BaseError(Problem(message=f"the base `{named}` is for {found}, not for {platform}"))


def _of_archive(file: Path, platform: str, blobs: Path, compression: Compression) -> BaseImage:
    """An archive of `docker save`: `manifest.json` names the configuration and the layers."""
    with tarfile.open(file) as archive:
        listed = json.loads(_member(archive, "manifest.json").read())
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise TypeError
        if len(listed) != 1:
            names = ", ".join(tag for one in listed for tag in one.get("RepoTags") or ["unnamed"])
            raise BaseError(Problem(message=f"{file} holds not exactly one image: it has {names or 'none'}"))
        described = _member(archive, listed[0]["Config"]).read()
        config = parsed(described, listed[0]["Config"])
        _check_platform(config, platform, str(file))
        layers = []
        for name, diff_id in zip(listed[0]["Layers"], config["rootfs"]["diff_ids"], strict=True):
            with plain(_member(archive, name)) as tar:
                written = layer.compress("base", tar, blobs, compression)
            _check(diff_id, written.diff_id.removeprefix("sha256:"))
            layers.append(written.descriptor)
    return BaseImage(config=config, layers=tuple(layers), digest=digest_of(described))


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    try:
        found = archive.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise BaseError(Problem(message=f"{archive.name!s} is no archive of an image: it has no `{name}`"))
    return found


def _of_tar(file: Path, platform: str, blobs: Path, compression: Compression) -> BaseImage:
    """A root file system as one layer."""
    with file.open("rb") as raw, plain(raw) as tar:
        written = layer.compress("base", tar, blobs, compression)
    system, _, machine = platform.partition("/")
    config = {
        "architecture": machine,
        "os": system,
        "config": {"Env": [f"PATH={SYSTEM_PATH}"], "Cmd": ["bash"]},
        "rootfs": {"type": "layers", "diff_ids": [written.diff_id]},
        "history": [{"created_by": "root file system"}],
    }
    return BaseImage(config=config, layers=(written.descriptor,), digest=written.diff_id)


# looking into it


@contextmanager
def plain(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """The bytes of a stream that may be compressed."""
    import gzip

    import zstandard

    start = raw.read(4)
    raw.seek(0)
    kind = next((name for magic, name in MAGIC.items() if start.startswith(magic)), None)
    if kind == "gzip":
        with gzip.open(raw) as inner:
            yield inner  # type: ignore[misc]
    elif kind == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as inner:
            yield inner
    else:
        yield raw


def look(base: BaseImage, blobs: Path) -> Tree:
    """
    All paths of a base, its layers laid over each other.

    OCI image specification, "Whiteouts": `.wh.NAME` removes what lower layers have, `.wh..wh..opq` all in its folder.

    Raises:
        BaseError: a layer is no tar.
    """
    tree = Tree()
    for one in base.layers:
        try:
            _look(tree, _blob(blobs, str(one["digest"])))
        except (OSError, EOFError, tarfile.TarError, ValueError) as error:
            raise BaseError(Problem(message=f"a layer of the base is no tar: {error}")) from None
    if tree.has("manifest.json") or tree.has("oci-layout"):
        hint = "name an archive of `docker save` as `docker-archive:FILE`, and unpack one of a layout for `oci:DIR`"
        raise BaseError(Problem(message="the base is an archive of an image, not a root file system", hint=hint))
    return tree


def _look(tree: Tree, blob: Path) -> None:
    """Lay one layer over what is below it."""
    added = Tree()
    with blob.open("rb") as raw, plain(raw) as data, tarfile.open(fileobj=data, mode="r|") as archive:
        for member in archive:
            _lay(tree, added, archive, member)
    tree.links |= added.links
    tree.folders |= added.folders
    tree.texts |= added.texts


def _lay(tree: Tree, added: Tree, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """One entry of a layer: a whiteout takes from the layers below, all else comes on top of them."""
    path = posixpath.normpath("/" + member.name).lstrip("/")
    folder, name = posixpath.split(path)
    if name == ".wh..wh..opq":
        _remove_below(tree, folder)
    elif name.startswith(".wh."):
        _remove(tree, posixpath.join(folder, name.removeprefix(".wh.")))
    elif path:
        if not member.isdir() and path in tree.folders:
            _remove(tree, path)
        added.links[path] = member.linkname if member.issym() else None
        if member.isdir():
            added.folders.add(path)
        if path in KEPT and member.isreg() and (content := archive.extractfile(member)):
            added.texts[path] = content.read().decode("utf-8", "surrogateescape")


def _remove(tree: Tree, path: str) -> None:
    if path in tree.folders:
        _remove_below(tree, path)
    tree.folders.discard(path)
    tree.links.pop(path, None)
    tree.texts.pop(path, None)


def _remove_below(tree: Tree, folder: str) -> None:
    for path in [each for each in tree.links if each.startswith(f"{folder}/")]:
        tree.folders.discard(path)
        tree.links.pop(path, None)
        tree.texts.pop(path, None)


def lacking(plan: ImagePlan, tree: Tree) -> Iterator[str]:
    """Packages of the base's distribution that the image can do without, and that the base does not have."""
    for row in tables.programs():
        known = row.system
        if known and known.package in plan.distribution and known.path not in plan.needs and not tree.has(known.path):
            yield known.package


def check_needs(plan: ImagePlan, tree: Tree) -> None:
    """
    Refuse a base that lacks what the services need.

    Raises:
        BaseError: with every path that is missing.
    """
    missing = [path for path in plan.needs if not tree.has(path)]
    if not missing:
        return
    packages = " ".join(plan.distribution)
    message = f"`{plan.base.reference}` lacks {', '.join(f'`{path}`' for path in missing)}"
    hint = f"take a base in which {packages} is installed; a Dockerfile of `lockgen dockerfile` installs it by itself"
    raise BaseError(Problem(message=message, hint=hint if packages else None))
