"""`environment.yml`, every package pinned to version and build, for tools that know no lock."""

from __future__ import annotations

from lockgen.lock.codec import Codec, Files, suffixed
from lockgen.lock.codecs._shared import environment_name, ordered
from lockgen.lock.model import Lock, PlatformLock
from lockgen.lock.yamltext import comment, scalar


def dump(locks: tuple[Lock, ...]) -> Files:
    """`environment.yml`, with the platform in the name where a lock has several."""
    files = {}
    for lock in map(ordered, locks):
        for answer in lock.platforms:
            name = "environment.yml" if len(lock.platforms) == 1 else f"environment.{answer.platform}.yml"
            files[suffixed(name, lock)] = _text(lock, answer)
    return files


def _text(lock: Lock, answer: PlatformLock) -> str:
    """The whole file; `nodefaults` keeps conda from adding channels of its own."""
    lines = [
        f"# Locked by lockgen from the spec {comment(lock.name)} for {comment(answer.platform)}.",
        "# It has no hashes: where they count, install from conda-lock.yml, pixi.lock or the explicit file.",
        f"name: {scalar(environment_name(lock))}",
        "channels:",
        *(f"- {scalar(url)}" for url in answer.request.channels),
        "- nodefaults",
        "dependencies:" if answer.packages else "dependencies: []",
        *(f"- {scalar(f'{each.name}={each.version}={each.build}')}" for each in answer.packages),
    ]
    return "\n".join(lines) + "\n"


CODEC = Codec(
    name="environment-yml",
    dump=dump,
    loses=frozenset(
        {
            "request",
            "cuda",
            "left_out",
            "build_number",
            "subdir",
            "channel",
            "url",
            "sha256",
            "md5",
            "size",
            "depends",
            "constrains",
            "track_features",
            "noarch",
            "license",
            "license_family",
            "timestamp",
            "python_site_packages_path",
        }
    ),
)
