"""The programs that the container tests call, each to its end, with what it printed where it fails."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from conftest import ROOT

BUILD = ROOT / "build" / "container"
"""What takes long to make and stays the same: the base, the channels, the store of the images."""
TOOLS = ("podman", "buildah", "skopeo", "umoci", "runc", "mmdebstrap", "docker-registry", "ssh", "ssh-keygen")
BASE = "docker.io/library/debian:bookworm-slim"
EPOCH = 1735689600
"""Date of the files of the base."""
SAFE = ("--pull=never", "--read-only", "--tmpfs=/tmp", "--shm-size=64m", "--cap-drop=all")


class Failed(AssertionError):
    """A program ended with another exit code than 0."""


def call(*command: object, cwd: Path | None = None, timeout: float = 900, env: Mapping[str, str] | None = None) -> str:
    """What a program prints; its words in the error where it fails."""
    done = attempt(*command, cwd=cwd, timeout=timeout, env=env)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def attempt(
    *command: object, cwd: Path | None = None, timeout: float = 900, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that may fail."""
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


LOCKGEN = (sys.executable, "-m", "lockgen.cli.main")


def lockgen(*arguments: object, cwd: Path | None = None) -> str:
    """What lockgen prints."""
    return call(*LOCKGEN, *arguments, cwd=cwd)


def build(name: str, context: Path, *arguments: str) -> str:
    """
    The image that buildah makes of a Dockerfile.

    A build step reaches this machine's channels and trusts what this machine trusts.
    """
    options = ["--format=docker", "--isolation=chroot", "--pull-never", "--network=host", "--layers", "--quiet"]
    volumes = [f"--volume={path}:{path}:ro" for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()]
    given = [f"--build-arg={one}" for one in arguments]
    call("buildah", "bud", *options, *volumes, *given, f"--tag=localhost/{name}", context)
    return f"localhost/{name}"


def inside(image: str, *command: object, network: str = "none") -> str:
    """What a command prints in a container as its users run it: not root, read-only."""
    return call("podman", "run", "--rm", *SAFE, f"--network={network}", image, *command)


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.2)


@contextlib.contextmanager
def container(image: str, *options: str, command: tuple[str, ...] = ()) -> Iterator[str]:
    """The name of a container that runs meanwhile."""
    name = f"lockgen-test-{os.getpid()}-{time.monotonic_ns()}"
    call("podman", "run", "--detach", "--name", name, *SAFE, *options, image, *command)
    try:
        yield name
    finally:
        attempt("podman", "rm", "--force", "--time=3", name)


def log(name: str) -> str:
    """All that a container has printed."""
    done = attempt("podman", "logs", name)
    return done.stdout + done.stderr
