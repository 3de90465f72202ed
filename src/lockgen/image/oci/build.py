"""From locks and plans to an image, without a daemon."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lockgen.errors import LockgenError, Problem, UsageError
from lockgen.image.model import ImagePlan
from lockgen.image.oci import base as bases
from lockgen.image.oci import config, layer, layout, own
from lockgen.image.oci.base import Tree
from lockgen.image.oci.layer import Blob, Compression
from lockgen.image.oci.layout import Target
from lockgen.image.oci.meter import Meter, size
from lockgen.image.payload import stage
from lockgen.image.plan import SOURCES, unpacked
from lockgen.install import cache
from lockgen.install.compiling import cores
from lockgen.install.progress import Progress
from lockgen.lock.model import Lock, PlatformLock

OWN = "lockgen"
"""The layer of lockgen's own files."""
_WRITERS = 8
"""Most layers that are written at once."""

Part = tuple[Lock, PlatformLock, ImagePlan]


class BuildError(LockgenError):
    """The image cannot be built here."""


class _StoppedError(Exception):
    """The user has stopped the build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to build."""

    compression: Compression = "zstd"
    sbom: bool = True
    """Attach a list of what is in the image, and a statement of where it comes from."""
    tls_verify: bool = True
    patience: float = 60.0
    """Seconds without a byte after which a download counts as hung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image of one platform."""

    platform: str
    digest: str
    """Of its manifest."""
    base_size: int
    """Bytes of the base's layers, compressed."""
    layers: tuple[Blob, ...]
    """Above the base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What was built."""

    digest: str
    """Of the manifest, or of the index where there are several platforms."""
    images: tuple[Image, ...]


def build(parts: Sequence[Part], base: str | None, target: Target, options: Options, progress: Progress) -> Built:
    """
    Build the image of a lock and put it where it is to go.

    Args:
        parts: one for each platform, all of one variant.
        base: where the base is; None: in the registry that the plan names.

    Raises:
        UsageError: the parts do not make one image.
        BuildError, BaseError, TargetError, RegistryError, PackageError: see each.
    """
    target = _named(parts, target)
    home = cache.cache_folder().parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with layout.draft(target, home) as draft:
            made = [_made(part, base, draft, options, progress) for part in parts]
            root = made[0].descriptor
            if len(parts) > 1:
                root = layout.put(draft, config.index([one.descriptor for one in made]), config.INDEX)
            layout.name(draft, root, target.tag)
            if options.sbom:
                _attach(parts, draft, made)
            _deliver(draft, root, target, parts[0][2], options, progress)
    finally:
        progress.close()
    return Built(digest=str(root["digest"]), images=tuple(one.image for one in made))


def _named(parts: Sequence[Part], target: Target) -> Target:
    """The target with a name for the image, if the parts can be one."""
    variants = list(dict.fromkeys(lock.environment for lock, _, _ in parts))
    if len(variants) > 1:
        hint = f"`-e` names one of: {', '.join(variants)}"
        raise UsageError(Problem(message="the lock holds several environments, and an image is of one", hint=hint))
    if target.kind != "docker-archive":
        return target
    if len(parts) > 1:
        listed = ", ".join(platform.platform for _, platform, _ in parts)
        raise UsageError(
            Problem(message=f"an archive holds one platform, not {listed}", hint="`--platform` names one of them")
        )
    plan = parts[0][2]
    name = "-".join(filter(None, (plan.name, plan.variant))).lower()
    tag = target.tag or f"localhost/{name}"
    return replace(target, tag=tag if ":" in tag.rpartition("/")[2] else f"{tag}:latest")


def _deliver(
    draft: Path, root: dict[str, Any], target: Target, plan: ImagePlan, options: Options, progress: Progress
) -> None:
    if target.kind == "oci":
        layout.publish(draft, target)
    elif target.kind == "docker-archive":
        layout.archive(draft, root, target)
    else:
        from lockgen.image.registry import push

        told = Meter("pushed", progress).of_blob
        done = push(draft, target.tag, target.place, told, base=plan.base.reference, tls_verify=options.tls_verify)
        progress.say(f"pushed {size(done.sent_bytes)}, {size(done.kept_bytes)} were there")


# one platform


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The image of one platform in a draft."""

    image: Image
    descriptor: dict[str, Any]
    base: str
    """Digest of the base."""
    packages: str
    """What the base's distribution says of its packages."""


def _made(part: Part, base: str | None, draft: Path, options: Options, progress: Progress) -> _Made:
    _, platform, plan = part
    blobs = draft / "blobs/sha256"
    below = bases.read(
        base or plan.base.pinned,
        f"linux/{plan.architecture}",
        blobs,
        options.compression,
        Meter("base", progress),
        tls_verify=options.tls_verify,
    )
    tree = bases.look(below, blobs)
    bases.check_needs(plan, tree)
    for name in bases.lacking(plan, tree):
        progress.say(f"the base has no `{name}`: the image starts without it")
    _check_room(platform, draft)
    with _staged(platform, plan, options, progress) as folder:
        layers = _write_layers(plan, tree, folder, blobs, options.compression, progress)
    value = config.config(plan, below, layers)
    described = layout.put(draft, value, config.CONFIG)
    manifest = layout.put(draft, config.manifest(plan, below, layers, described), config.MANIFEST)
    image = Image(
        platform=plan.platform,
        digest=manifest["digest"],
        base_size=sum(int(one["size"]) for one in below.layers),
        layers=tuple(layers),
    )
    descriptor = {**manifest, "platform": config.platform_of(value)}
    return _Made(
        image=image, descriptor=descriptor, base=below.digest, packages=tree.texts.get("var/lib/dpkg/status", "")
    )


def _check_room(platform: PlatformLock, draft: Path) -> None:
    """
    Refuse what is sure not to fit.

    Raises:
        BuildError: the disk of the cache or of the target has too little room.
    """
    home, known = cache.cache_folder().parent, cache.cache_folder()
    names = [one.name for one in platform.packages if not (known / f"{one.name}-{one.version}-{one.build}").is_dir()]
    needs = {home: unpacked(platform, names), draft.parent: sum(one.size for one in platform.packages)}
    if home.stat().st_dev == draft.parent.stat().st_dev:
        needs = {draft.parent: sum(needs.values())}
    for folder, needed in needs.items():
        free = shutil.disk_usage(folder).free
        if needed > free:
            message = f"the image needs about {size(needed)} on the disk of {folder}, which has {size(free)} free"
            hint = "`LOCKGEN_CACHE_DIR` names another folder for packages, `-o` another for the image"
            raise BuildError(Problem(message=message, hint=hint))


@contextlib.contextmanager
def _staged(platform: PlatformLock, plan: ImagePlan, options: Options, progress: Progress) -> Iterator[Path]:
    """A folder with one folder for each layer of packages, on the disk of the cache, so that files are not copied."""
    with tempfile.TemporaryDirectory(prefix="image-", dir=cache.cache_folder().parent) as name:
        folder = Path(name)
        _install(platform, plan, folder / "env", options, progress)
        _prepare(folder / "env", plan, progress)
        groups = [{"name": one.name, "packages": one.packages} for one in plan.layers]
        stage.split(str(folder / "env"), groups, str(folder / "layers"), plan.prefix)
        yield folder / "layers"


def _prepare(prefix: Path, plan: ImagePlan, progress: Progress) -> None:
    """Compile, and take out what is of this machine."""
    from lockgen.host import here

    workers = cores()
    if plan.platform != here() and not stage.can_run(str(prefix)):
        progress.say(f"not compiled: this machine does not run Python of {plan.platform}; built on one, it differs")
        workers = 0
    else:
        progress.say(f"compiling with {workers} process{'es' if workers > 1 else ''}")
    try:
        stage.prepare(str(prefix), plan.prefix, workers)
    except stage.StageError as error:
        raise BuildError(Problem(message=str(error))) from None


def _install(platform: PlatformLock, plan: ImagePlan, prefix: Path, options: Options, progress: Progress) -> None:
    """The packages as `lockgen install` links them, for another prefix and another machine."""
    from lockgen.install import transaction

    folder = cache.cache_folder()
    job = transaction.Job(
        prefix=prefix,
        written=Path(plan.prefix),
        platform=platform.platform,
        packages=platform.packages,
        requested=tuple(wanted.spec for wanted in platform.request.requirements),
        cache=folder,
        patience=options.patience,
    )
    cache.check_local(folder, platform.packages)
    missing = transaction.missing_from_cache(job, platform.packages)
    remote = sum(one.size for one in missing if not one.url.startswith("file://"))
    progress.start(fetch=len(missing), size=remote, link=len(platform.packages))
    transaction.apply(job, progress)


def _write_layers(
    plan: ImagePlan, tree: Tree, folder: Path, blobs: Path, compression: Compression, progress: Progress
) -> list[Blob]:
    """All layers above the base, several at once, in the plan's order."""
    count = len(plan.layers) + 1
    stop, number, meter = threading.Event(), itertools.count(1), Meter("written", progress)

    def told(more: int) -> None:
        meter.add(more)
        if stop.is_set():
            raise _StoppedError

    def write(name: str) -> Blob:
        started = time.monotonic()
        entries = own.entries(plan, tree) if name == OWN else own.placed(layer.entries_below(folder / name), tree)
        done = layer.write(name, entries, blobs, compression, told)
        sizes = f"{size(done.unpacked)} as {size(done.size)}"
        progress.say(f"layer {next(number)} of {count}, {name}: {sizes} in {time.monotonic() - started:.1f} s")
        return done

    largest_first = sorted(plan.layers, key=lambda one: -one.size)
    with ThreadPoolExecutor(min(cores(), _WRITERS)) as pool:
        writing = {one.name: pool.submit(write, one.name) for one in largest_first}
        writing[OWN] = pool.submit(write, OWN)
        try:
            return [writing[name].result() for name in (*(one.name for one in plan.layers), OWN)]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


# documents


def _on(plan: ImagePlan, digest: str) -> ImagePlan:
    """The plan with what its base was: one of this machine is known by its digest, not by where it lies."""
    kind = next((one.removesuffix(":") for one in SOURCES if plan.base.reference.startswith(one)), None)
    if kind is None and plan.base.digest:
        return plan
    return replace(plan, base=replace(plan.base, reference=kind or plan.base.reference, digest=digest))


def _attach(parts: Sequence[Part], draft: Path, made: Sequence[_Made]) -> None:
    """A list of what is in each image, and a statement of where it comes from, as referrers."""
    from importlib.metadata import PackageNotFoundError, version

    from lockgen.image import provenance, sbom
    from lockgen.image.registry import attach

    try:
        known = version("lockgen")
    except PackageNotFoundError:
        known = "unknown"
    for (_, platform, planned), one in zip(parts, made, strict=True):
        plan = _on(planned, one.base)
        listed = sbom.sbom(plan, platform, sbom.debian_packages(one.packages)).encode()
        attach(draft, one.descriptor, sbom.MEDIA_TYPE, sbom.MEDIA_TYPE, listed)
        stated = provenance.provenance(plan, known, one.image.digest).encode()
        attach(draft, one.descriptor, provenance.MEDIA_TYPE, provenance.MEDIA_TYPE, stated)
