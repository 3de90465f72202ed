"""From a lock and what its spec says of an image to the one plan that every writer follows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lockgen import matchspec
from lockgen.errors import LockgenError, Problem, closest
from lockgen.image import layers
from lockgen.image.contents import HERE, contents
from lockgen.image.model import Base, Folder, ImagePlan
from lockgen.knowledge import tables
from lockgen.knowledge.extra import Service
from lockgen.knowledge.image_env import variables
from lockgen.knowledge.layer import limits
from lockgen.knowledge.license import is_of_note
from lockgen.lock.model import CudaFacts, Lock, LockedPackage, PlatformLock
from lockgen.spec.model import Image

PREFIX = "/opt/env"
LOGIN = "lockgen"
HOME = "/home/lockgen"
SOURCES = ("oci:", "docker-archive:", "scratch-debian:")
"""What a base begins with that is a file or a folder of this machine, not an image of a registry."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ARCHITECTURES = {"linux-64": "amd64", "linux-aarch64": "arm64"}
_REFERENCE = re.compile(r"([\w.-]+(?::[0-9]+)?/)?[\w./-]+(:[\w.-]+)?(@sha256:[0-9a-f]{64})?", re.ASCII)


class ImageError(LockgenError):
    """The image cannot be made from this lock on this base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What whoever builds the image says, beside the spec."""

    base: str | None = None
    """A known name, a reference, or `oci:`, `docker-archive:`, `scratch-debian:` and a path; None: the spec's own."""
    budget: int = field(default_factory=lambda: limits().default)
    """Most layers of packages; lockgen's own files come on top."""
    force_base: bool = False
    """Also a base that carries CUDA itself."""
    created: int | None = None
    """Seconds since 1970: `SOURCE_DATE_EPOCH`; None: the newest build in the lock."""


def plan(
    lock: Lock, platform: PlatformLock, image: Image, services: Sequence[Service], options: Options | None = None
) -> ImagePlan:
    """
    The image of one platform of a lock.

    Args:
        lock: the whole environment, of which `platform` is a part.
        platform: what is installed.
        image: the spec's own words.
        services: what it can run, of the spec's extras.
        options: what is said beside the spec; None is nothing.

    Raises:
        ImageError: no images for this platform, a base that does not fit, or too many layers.
    """
    options = options or Options()
    base, family, notes = _fitting_base(platform, image, options)
    inside = contents(
        packages=frozenset(package.name for package in platform.packages),
        services=services,
        prefix=PREFIX,
        user=image.user,
        login=LOGIN,
        home=HOME,
        workdir=image.workdir,
        cuda=platform.cuda,
        family=family,
    )
    created = _created(platform, options)
    return ImagePlan(
        name=lock.name,
        variant=lock.variant,
        platform=platform.platform,
        architecture=architecture(platform.platform),
        fingerprint=lock.fingerprint(),
        base=base,
        prefix=PREFIX,
        layers=layers.group(platform.packages, _layer_budget(options)),
        files=inside.files,
        folders=_folders(inside.folders, image),
        env=_env(platform, image, inside.env),
        labels=_labels(lock, platform, image, base, created),
        user=image.user,
        login=LOGIN,
        home=HOME,
        workdir=image.workdir,
        ports=tuple(sorted({*image.ports, *inside.ports})),
        entrypoint=inside.entrypoint,
        command=inside.command,
        health=inside.health,
        distribution=inside.distribution,
        needs=inside.needs,
        created=created,
        notes=(*notes, *inside.notes, *_credentials(image)),
    )


def has_images(platform: str) -> bool:
    """Whether containers of a platform exist."""
    return platform in _ARCHITECTURES


def architecture(platform: str) -> str:
    """
    A platform as OCI names it: `amd64`.

    Raises:
        ImageError: there are no images for it.
    """
    if not has_images(platform):
        message = f"there are no container images for {platform}"
        raise ImageError(Problem(message=message, hint=f"there are for {', '.join(_ARCHITECTURES)}"))
    return _ARCHITECTURES[platform]


def unpacked(platform: PlatformLock, names: Iterable[str]) -> int:
    """Bytes that some packages take on disk, estimated from their archives by the ratios of their groups."""
    wanted = set(names)
    return sum(_unpacked(one, cuda=platform.cuda is not None) for one in platform.packages if one.name in wanted)


def _unpacked(package: LockedPackage, *, cuda: bool) -> int:
    group = layers.group_of(package)
    return package.size * (group.unpacked if cuda else group.unpacked_cpu) // 100


# the base


def _fitting_base(platform: PlatformLock, image: Image, options: Options) -> tuple[Base, str, list[str]]:
    """The base, its family, and what is to be said of it."""
    base, family = _base(image, options)
    notes = []
    wrong = [*_cuda_problem(base, platform, options), *_glibc_problem(base, platform)]
    if wrong:
        raise ImageError(*wrong)
    if base.cuda:
        notes.append(f"the base carries CUDA {base.cuda} beside the environment's own: it only adds to the size")
    needed = _needed_glibc(platform)
    if base.glibc is None and needed:
        notes.append(f"glibc of `{base.reference}` is not known: it has to be {needed} or newer")
    if base.digest is None and not _is_local(base.reference):
        notes.append(f"`{base.reference}` has no digest: another build may find another base")
    return base, family, notes


def _base(image: Image, options: Options) -> tuple[Base, str]:
    """The base as a value, and the distribution it is made of as far as that is known."""
    asked = image.base or tables.default_image("base").name if options.base is None else options.base
    known = tables.image(asked) or _row_of(*asked.split("@", 1))
    if known and known.role == "base":
        return Base(reference=known.reference, digest=known.digest, glibc=known.glibc, cuda=known.cuda), known.family
    if _is_local(asked):
        return Base(reference=asked, digest=None, glibc=None), tables.default_image("base").family
    names = [row.name for row in tables.images() if row.role == "base"]
    if not _REFERENCE.fullmatch(asked) or not re.search("[:@/]", asked):
        hint = closest(asked, names) or f"known: {', '.join(names)}; or a reference such as `name:tag@sha256:…`"
        raise ImageError(Problem(message=f"unknown base image: `{asked}`", hint=hint))
    reference, _, digest = asked.partition("@")
    return Base(reference=reference, digest=digest or None, glibc=None, cuda=_cuda_in(reference)), _family(reference)


def _is_local(base: str) -> bool:
    return base.startswith(SOURCES)


def _row_of(reference: str, digest: str | None = None) -> tables.Image | None:
    """The known image that a reference means; one with a digest of its own is another, whatever its tag."""
    rows = (row for row in tables.images() if _short(row.reference) == _short(reference))
    return next((row for row in rows if digest in (None, row.digest)), None)


def _family(reference: str) -> str:
    """The distribution of an image that is not known, if its repository's last part names one; else empty."""
    name = _short(reference).split("@")[0].split(":")[0].rsplit("/", 1)[-1]
    return name if name in {row.family for row in tables.images()} else ""


def _short(reference: str) -> str:
    """A reference without what Docker adds to it by itself."""
    return reference.removeprefix("docker.io/").removeprefix("library/")


def _cuda_in(reference: str) -> str | None:
    """CUDA of an image that comes from a repository whose images carry it: the version in its tag."""
    repository, _, tag = _short(reference).rpartition(":")
    carrying = {_short(row.reference).rpartition(":")[0] for row in tables.images() if row.cuda}
    if (repository or tag) not in carrying:
        return None
    found = re.match(r"[0-9]+\.[0-9]+", tag)
    return found[0] if found else "of some version"


def _cuda_problem(base: Base, platform: PlatformLock, options: Options) -> Iterator[Problem]:
    """A second CUDA in the base, or one that nothing uses."""
    if base.cuda is None or options.force_base:
        return
    default = tables.default_image("base").name
    hint = f"take `--base {default}`, which has none; `--force-base` takes it all the same"
    carries = f"`{base.reference}` carries CUDA {base.cuda}"
    if platform.cuda is None:
        yield Problem(message=f"{carries}, and nothing in the lock uses it", hint=hint)
        return
    own = sum(_unpacked(package, cuda=True) for package in platform.packages if layers.group_of(package).name == "cuda")
    yield Problem(
        message=f"{carries}, but the environment brings its own {platform.cuda.locked}, about {own / 1e9:.1f} GB: "
        "PyTorch never looks at the base's, which comes on top of that",
        hint=hint,
    )


def _glibc_problem(base: Base, platform: PlatformLock) -> Iterator[Problem]:
    """Packages that need a newer C library than the base has."""
    if base.glibc is None:
        return
    asking = [(package, text) for package in platform.packages for text in package.depends if _is_glibc(text)]
    refused = sorted(
        (package.name, text) for package, text in asking if not _holds(base.glibc, matchspec.parts(text).version)
    )
    if refused:
        names = ", ".join(f"{name} (`{text}`)" for name, text in refused[:3])
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        fitting = [
            row.name
            for row in tables.images()
            if row.role == "base"
            and not row.cuda
            and all(_holds(row.glibc, matchspec.parts(text).version) for _, text in asking)
        ]
        yield Problem(
            message=f"`{base.reference}` has glibc {base.glibc}, which is too old for {names}{more}",
            hint=f"take one of {', '.join(fitting)}" if fitting else 'lock for an older system: `system: {glibc: "…"}`',
        )


def _is_glibc(text: str) -> bool:
    return text.split("[")[0].split(" ")[0] == "__glibc"


def _holds(version: str, ranges: str | None) -> bool:
    return ranges is None or matchspec.version_within(version, ranges)


def _needed_glibc(platform: PlatformLock) -> str | None:
    """The newest C library that a package of the lock asks for."""
    texts = [text for package in platform.packages for text in package.depends if _is_glibc(text)]
    found = [each for text in texts for each in re.findall(r">=([0-9]+(?:\.[0-9]+)*)", text)]
    return max(found, key=tables.numbers, default=None)


# layers and folders


def _layer_budget(options: Options) -> int:
    """How many layers the packages may have."""
    most = limits().most - limits().base - limits().ours
    if not 1 <= options.budget <= most:
        message = f"packages go into 1 to {most} layers, not {options.budget}"
        hint = f"overlay file systems take {limits().most} in all, and the base has some; {limits().default} are usual"
        raise ImageError(Problem(message=message, hint=hint))
    return options.budget


def _folders(listed: Sequence[Folder], image: Image) -> tuple[Folder, ...]:
    """The folders of the services, and those of the user where nobody has named them."""
    if any(f"{image.workdir}/".startswith(f"{taken}/") for taken in (PREFIX, HERE)):
        message = (
            f"`{image.workdir}` cannot be the folder to work in: the image's user would own what lockgen puts there"
        )
        raise ImageError(Problem(message=message, hint="set `image.workdir` to a folder of its own: `/work`"))
    own = {path: Folder(path=path) for path in (HOME, image.workdir)}
    return tuple(sorted((own | {one.path: one for one in listed}).values(), key=lambda one: one.path))


# variables and labels


def _env(platform: PlatformLock, image: Image, activation: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """In the order in which they are set; a name that comes again keeps its place and takes the later value."""
    found = {
        "PATH": f"{PREFIX}/bin:{SYSTEM_PATH}",
        "CONDA_PREFIX": PREFIX,
        "HOME": HOME,
        "LANG": "C.UTF-8",
        **dict(activation),
    }
    if platform.cuda:
        found["NVIDIA_VISIBLE_DEVICES"] = "all"
        found["NVIDIA_DRIVER_CAPABILITIES"] = "compute,utility"
        found["NVIDIA_REQUIRE_CUDA"] = f"cuda>={least_cuda(platform.cuda)}"
    versions = {package.name: package.version for package in platform.packages}
    for one in variables():
        said = any(name in image.env for name in one.instead_of)
        if not said and one.is_for(versions.get(one.package), cuda=platform.cuda is not None):
            found[one.name] = one.value
    return tuple((found | dict(sorted(image.env.items()))).items())


def _credentials(image: Image) -> Iterator[str]:
    """A word on variables that look like secrets: an image is read by whoever has it."""
    for name in sorted(image.env):
        if re.search(r"(^|_)(TOKEN|PASSWORD|PASSWD|SECRET|(API|ACCESS|PRIVATE|SECRET)_?KEY)(_|$)", name, re.IGNORECASE):
            yield (
                f"`{name}` in `image.env` looks like a credential, which whoever has the image can read: "
                f"hand it in when it runs, with `-e {name}`"
            )


def least_cuda(facts: CudaFacts) -> str:
    """The CUDA that the host's driver must know: the first of the major, or the locked one where PTX is compiled."""
    toolkit = tables.toolkit(facts.locked)
    floor = tables.min_driver(facts.locked)
    compiles = toolkit is not None and facts.min_driver == toolkit.driver != floor
    return facts.locked if compiles else f"{facts.locked.split('.')[0]}.0"


def _labels(lock: Lock, platform: PlatformLock, image: Image, base: Base, created: int) -> tuple[tuple[str, str], ...]:
    """What the image says of itself; the spec's own labels come last."""
    pytorch = next((package.version for package in platform.packages if package.name == "pytorch"), None)
    noted = licenses_of_note(platform.packages)
    local = _is_local(base.reference)
    driver = platform.cuda.min_driver if platform.cuda else "unknown"
    moment = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = {
        "io.lockgen.fingerprint": lock.fingerprint(),
        "io.lockgen.spec": lock.name,
        "io.lockgen.variant": lock.variant,
        "io.lockgen.pytorch": pytorch,
        "io.lockgen.cuda": platform.cuda.locked if platform.cuda else None,
        "io.lockgen.min-driver": None if driver == "unknown" else driver,
        "io.lockgen.licenses": ", ".join(noted) or None,
        "org.opencontainers.image.title": lock.name,
        "org.opencontainers.image.created": moment,
        "org.opencontainers.image.base.name": None if local else base.reference,
        "org.opencontainers.image.base.digest": None if local else base.digest,
        **image.labels,
    }
    return tuple(sorted((name, text) for name, text in found.items() if text is not None))


def licenses_of_note(packages: Sequence[LockedPackage]) -> tuple[str, ...]:
    """Licences that whoever passes the image on should know of, sorted."""
    return tuple(sorted({one.license for one in packages if one.license and is_of_note(one.license)}))


def _created(platform: PlatformLock, options: Options) -> int:
    """Seconds since 1970."""
    if options.created is not None:
        return options.created
    return max((package.timestamp or 0 for package in platform.packages), default=0) // 1000
