"""A Dockerfile from a lock: the explicit files installed in a build stage, the environment alone copied. Pure text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from lockgen.errors import LockError, Problem
from lockgen.knowledge import tables
from lockgen.lock.codec import suffixed
from lockgen.lock.codecs.explicit import filename as explicit_filename
from lockgen.lock.model import CudaFacts, Lock
from lockgen.spec.model import Image

PREFIX = "/opt/env"
_ARCHITECTURES = {"linux-64": "amd64", "linux-aarch64": "arm64"}


def dumps(locks: Sequence[Lock], image: Image, context: str = "") -> dict[str, str]:
    """One Dockerfile for each lock that has a Linux platform, by file name; `context` as for `dump`."""
    return {
        suffixed("Dockerfile", lock): dump(lock, image, context)
        for lock in locks
        if any(one.platform in _ARCHITECTURES for one in lock.platforms)
    }


def dump(lock: Lock, image: Image, context: str = "") -> str:
    """
    The text of a Dockerfile.

    Args:
        lock: has at least one Linux platform; others are left out.
        context: path from the build context to the lock's folder, with a trailing slash, empty where they are the same.

    Raises:
        LockError: no Linux platform is in the lock.
    """
    platforms = [one for one in lock.platforms if one.platform in _ARCHITECTURES]
    if not platforms:
        raise LockError(Problem(message=f"`{lock.name}` is locked for no Linux platform: there is no image to build"))
    files = [explicit_filename(lock, one.platform) for one in platforms]
    return _template().render(
        name=lock.name,
        file=suffixed("Dockerfile", lock),
        lock_file=suffixed("conda-lock.yml", lock),
        base=_reference(image.base or tables.default_image("base").name),
        installer=_reference(tables.default_image("installer").name),
        prefix=PREFIX,
        several=len(platforms) > 1,
        sources=[context + file for file in files],
        architectures=[(_ARCHITECTURES[one.platform], file) for one, file in zip(platforms, files, strict=True)],
        cuda=next((one.cuda for one in platforms if one.cuda), None),
        least_cuda=next((_least_cuda(one.cuda) for one in platforms if one.cuda), None),
        user=image.user,
        workdir=image.workdir,
        env=sorted(image.env.items()),
        labels=sorted(
            {"io.lockgen.fingerprint": lock.fingerprint(), "io.lockgen.spec": lock.name, **image.labels}.items()
        ),
        ports=sorted(set(image.ports)),
    )


def _least_cuda(facts: CudaFacts) -> str:
    """The CUDA that the host's driver must know: the first of the major, or the locked one where PTX is compiled."""
    toolkit = tables.toolkit(facts.locked)
    floor = tables.min_driver(facts.locked)
    compiles = toolkit is not None and facts.min_driver == toolkit.driver != floor
    return facts.locked if compiles else f"{facts.locked.split('.')[0]}.0"


def _reference(name: str) -> str:
    """A known image's reference with its digest; a reference stays."""
    found = tables.image(name)
    return found.pinned if found else name


def quoted(text: str) -> str:
    """
    A value in double quotes as Dockerfile's ENV and LABEL read it: backslash, quote and dollar escaped.

    Line ends cannot be written in one; the spec refuses them.
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("lockgen", "image/templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["quoted"] = quoted
    return environment.get_template("Dockerfile.j2")
