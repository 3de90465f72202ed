"""
Explicit files: one URL a line with its SHA-256, installed without a solver by conda, mamba, micromamba and pixi's kin.

The hash is written `#sha256:…`, as CEP 23 allows: rattler, conda from 24.9 and mamba verify it, older ones stop.
"""

from __future__ import annotations

import shlex

from lockgen.lock.codec import Codec, Files
from lockgen.lock.codecs._shared import dependencies_first, environment_name
from lockgen.lock.model import Lock, PlatformLock
from lockgen.lock.yamltext import comment


def filename(lock: Lock, platform: str) -> str:
    """`linux-64.explicit.lock`, of variant `cpu` `linux-64.cpu.explicit.lock`."""
    return ".".join(part for part in (platform, lock.variant, "explicit", "lock") if part)


def dump(locks: tuple[Lock, ...]) -> Files:
    """One file a platform and lock, each package after those it depends on."""
    return {filename(lock, answer.platform): _text(lock, answer) for lock in locks for answer in lock.platforms}


def _text(lock: Lock, answer: PlatformLock) -> str:
    name = shlex.quote(environment_name(lock))
    file = shlex.quote(filename(lock, answer.platform))
    lines = [
        f"# Locked by lockgen from the spec {comment(lock.name)}; install it with one of",
        f"#     micromamba create -n {comment(name)} -f {comment(file)}",
        f"#     conda create -n {comment(name)} --file {comment(file)}",
        f"# platform: {answer.platform}",
        "@EXPLICIT",
        *(f"{package.url}#sha256:{package.sha256}" for package in dependencies_first(answer.packages)),
    ]
    return "\n".join(lines) + "\n"


CODEC = Codec(
    name="explicit",
    dump=dump,
    loses=frozenset(
        {
            "request",
            "cuda",
            "left_out",
            "build_number",
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
