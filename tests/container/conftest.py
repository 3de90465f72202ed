"""A base, two channels, a lock and the two images of it: each made once for all container tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from container import making
from container.making import Locked
from container.shell import BUILD, build, call, lockgen
from lockgen.channel.serve import serving

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.container)


@pytest.fixture(scope="session", autouse=True)
def tools() -> Iterator[None]:
    """The tools, with a store of images of their own."""
    if missing := making.missing_tools():
        told = f"missing: {', '.join(missing)}; see tools/container_tools.sh"
        pytest.fail(told) if os.environ.get("LOCKGEN_CONTAINER_TESTS") else pytest.skip(told)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in making.variables().items():
            patch.setenv(name, value)
        yield
        making.tidy()


@pytest.fixture(scope="session")
def space(tools: None) -> Iterator[Path]:
    """A folder for what is large, which is gone afterwards."""
    folder = BUILD / "space"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def base(tools: None) -> str:
    return making.base()


@pytest.fixture(scope="session")
def base_oci(base: str) -> str:
    return making.base_oci(base)


@pytest.fixture(scope="session")
def lock(tools: None, space: Path) -> Iterator[Locked]:
    """The environment of envs/local-cpu.yaml; its channel is served meanwhile."""
    with serving(making.channel_of("local")) as address:
        yield making.locked("local-cpu", address, space / "lock")


@pytest.fixture(scope="session")
def services_lock(tools: None, space: Path) -> Iterator[Locked]:
    """The environment of envs/local-services.yaml; its channel is served meanwhile."""
    with serving(making.channel_of("services")) as address:
        yield making.locked("local-services", address, space / "services-lock")


@pytest.fixture(scope="session")
def installer(base: str, space: Path) -> str:
    """An image with this lockgen in it, for build stages."""
    return making.installer(base, space / "installer")


@pytest.fixture(scope="session")
def dockerfile_image(lock: Locked, base: str, installer: str, space: Path) -> str:
    """The image that buildah makes of the Dockerfile."""
    lockgen("dockerfile", lock.folder, "--installer", "lockgen", "-o", space / "dockerfile")
    return build("local-cpu", space / "dockerfile", f"BASE={base}", f"INSTALLER={installer}")


@pytest.fixture(scope="session")
def oci_folder(lock: Locked, base_oci: str, space: Path) -> str:
    """The image that no daemon built, as a folder."""
    made = f"oci:{space}/local-cpu:latest"
    lockgen("image", "build", lock.folder, "-o", made, "--base", base_oci)
    return made


@pytest.fixture(scope="session")
def oci_image(oci_folder: str) -> str:
    """The same in the store, by its id."""
    return call("podman", "pull", "--quiet", oci_folder).split()[-1]


@pytest.fixture(scope="session")
def services_folder(services_lock: Locked, base_oci: str, space: Path) -> str:
    """Jupyter and ssh on a base that has an ssh server, as a folder."""
    made = f"oci:{space}/services:latest"
    lockgen("image", "build", services_lock.folder, "-o", made, "--base", base_oci)
    return made


@pytest.fixture(scope="session")
def services_image(services_folder: str) -> str:
    """The same in the store, by its id."""
    return call("podman", "pull", "--quiet", services_folder).split()[-1]
