"""Docker itself: BuildKit builds the Dockerfile, `docker load` takes the archive, and both run and are proved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from container.making import Locked
from container.shell import LOCKGEN, attempt, call, lockgen, until

Docker = Callable[..., str]
DAEMON, CLIENT = Path("/usr/sbin/dockerd"), Path("/usr/bin/docker")


@pytest.fixture(scope="module")
def socket(space: Path) -> Iterator[str]:
    """The address of a daemon of our own, which touches no network of the machine; gone afterwards."""
    if not DAEMON.exists() or not CLIENT.exists():
        pytest.skip("no dockerd: Debian's package is docker.io")
    folder = Path(tempfile.mkdtemp(prefix="docker-", dir="/tmp"))  # addresses of sockets are short
    address = f"unix://{folder}/s"
    places = (f"--data-root={space}/docker", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid", "-H", address)
    with (folder / "log").open("w") as log:
        daemon = subprocess.Popen([DAEMON, *places, "--iptables=false", "--bridge=none"], stdout=log, stderr=log)
    try:
        until(lambda: daemon.poll() is not None or attempt(CLIENT, "-H", address, "info").returncode == 0, 60)
        if daemon.poll() is not None:
            pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-300:]}")
        yield address
    finally:
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def docker(socket: str) -> Docker:
    def run(*arguments: object) -> str:
        return call(CLIENT, *arguments, env={"DOCKER_HOST": socket, "DOCKER_BUILDKIT": "1"})

    return run


def python(docker: Docker, image: str) -> list[str]:
    """What Python says in a container as its users run it."""
    code = "import jupyterlab, os, sys; print(jupyterlab.__version__, os.getuid(), sys.prefix)"
    options = ("--rm", "--network=none", "--read-only", "--tmpfs=/tmp", "--shm-size=1g")
    return docker("run", *options, image, "python", "-c", code).split()


def test_buildkit_builds_the_dockerfile(
    docker: Docker, services_lock: Locked, base: str, installer: str, space: Path
) -> None:
    for number, reference in enumerate((base, installer)):
        call("podman", "save", "--quiet", f"--output={space}/{number}.tar", reference)
        docker("load", "--quiet", f"--input={space}/{number}.tar")
    lockgen("dockerfile", services_lock.folder, "--installer", "lockgen", "-o", space / "docker-context")
    arguments = (f"--build-arg=BASE={base}", f"--build-arg=INSTALLER={installer}")
    docker("build", "--quiet", "--network=host", *arguments, "--tag=services:built", space / "docker-context")
    assert python(docker, "services:built")[1:] == ["1000", "/opt/env"]
    (found,) = json.loads(docker("inspect", "services:built"))
    assert found["Config"]["Healthcheck"]["Test"] == ["CMD", "/opt/lockgen/health"]
    assert found["Config"]["ExposedPorts"] == {"2222/tcp": {}, "8888/tcp": {}}


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_docker_loads_the_archive(
    docker: Docker, socket: str, services_lock: Locked, base_oci: str, space: Path, compression: str
) -> None:
    file, name = space / f"{compression}.tar", f"services:{compression}"
    options = ("--base", base_oci, "--compression", compression)
    lockgen("image", "build", services_lock.folder, *options, "-o", f"docker-archive:{file}:{name}")
    assert docker("load", "--quiet", f"--input={file}") == f"Loaded image: {name}\n"
    assert python(docker, name)[1:] == ["1000", "/opt/env"]
    tools = space / f"bin-{compression}"
    tools.mkdir()
    (tools / "docker").symlink_to(CLIENT)
    environment = {"DOCKER_HOST": socket, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = attempt(
        *LOCKGEN, "verify", services_lock.folder, "--image", name, "--runtime", "docker",
        "-o", space / f"{compression}.json", env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    checks = json.loads((space / f"{compression}.json").read_text())["checks"]
    assert {one["name"]: one["status"] for one in checks} == dict.fromkeys(
        ("lock", "imports", "libraries", "versions"), "passed"
    )
