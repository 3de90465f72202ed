"""`lockgen verify --image` on the two images of one lock: the Dockerfile's and the one that no daemon built."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from container.making import Locked
from container.shell import LOCKGEN, attempt, call, inside, until

STEPS = os.environ.get("LOCKGEN_TEST_STEPS", "200")
"""Enough for the tiny BERT to learn; `make container-full` takes those of the spec."""


def proved(lock: Locked, image: str, folder: Path, *options: str) -> dict[str, Any]:
    """The evidence of an image, all of whose checks have to pass."""
    file = folder / "evidence.json"
    done = attempt(*LOCKGEN, "verify", lock.folder, "--image", image, "-o", file, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    evidence: dict[str, Any] = json.loads(file.read_text())
    return evidence


def facts(evidence: dict[str, Any], check: str) -> dict[str, Any]:
    return next(one["facts"] for one in evidence["checks"] if one["name"] == check)


@pytest.fixture(scope="module")
def both(
    lock: Locked, oci_image: str, dockerfile_image: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole evidence of each, BERT included."""
    found = [
        proved(lock, image, tmp_path_factory.mktemp("proof"), "--steps", STEPS)
        for image in (oci_image, dockerfile_image)
    ]
    return found[0], found[1]


def test_everything_is_proved_in_both_images(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for evidence in both:
        status = {one["name"]: one["status"] for one in evidence["checks"]}
        cpu = {"lock": "passed", "imports": "passed", "libraries": "passed", "versions": "passed", "bert": "passed"}
        assert status == cpu | {"cuda": "skipped"}
        assert evidence["machine"]["libc"] == "glibc 2.36"


def test_both_images_hold_the_same_packages_and_learn_the_same(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    oci, dockerfile = both
    for key in ("packages", "files"):
        assert facts(oci, "lock")[key] == facts(dockerfile, "lock")[key]
    assert facts(oci, "versions") == facts(dockerfile, "versions")
    for key in ("losses", "accuracy_before", "accuracy_after", "parameters", "steps"):
        assert facts(oci, "bert")[key] == facts(dockerfile, "bert")[key]
    assert oci["fingerprint"] == dockerfile["fingerprint"]
    assert oci["image"] != dockerfile["image"]


@pytest.fixture(params=["oci_image", "dockerfile_image"])
def image(request: pytest.FixtureRequest) -> str:
    """Each of the two."""
    name: str = request.getfixturevalue(request.param)
    return name


def test_a_container_is_not_root_and_cannot_write_outside_of_tmp(image: str) -> None:
    assert inside(image, "id", "-u").strip() == "1000"
    code = "import os, sys; print(sys.prefix, [one for one in ('/', sys.prefix, '/work') if os.access(one, os.W_OK)])"
    assert inside(image, "python", "-c", code).strip() == "/opt/env []"


def test_the_environment_is_active_for_commands_and_shells(image: str) -> None:
    assert inside(image, "which", "python").strip() == "/opt/env/bin/python"
    assert inside(image, "sh", "-c", "echo $CONDA_PREFIX").strip() == "/opt/env"
    assert inside(image, "bash", "-lc", "echo $CONDA_PREFIX; which python").split() == [
        "/opt/env", "/opt/env/bin/python",
    ]  # fmt: skip


def test_an_image_of_another_lock_is_refused(lock: Locked, oci_image: str, tmp_path: Path) -> None:
    spec = tmp_path / "other.yaml"
    spec.write_text(lock.spec.read_text().replace("name: local-cpu", "name: other"))
    call(*LOCKGEN, "resolve", spec)
    done = attempt(*LOCKGEN, "verify", spec, "--image", oci_image, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {oci_image} is made from another lock: its label says ")
    assert not (tmp_path / "evidence.json").exists()


def test_a_folder_is_proved_and_leaves_no_image_behind(lock: Locked, oci_folder: str, space: Path) -> None:
    empty = space / "empty.conf"
    empty.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{space}/store"\nrunroot = "{space}/run"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", str(empty))
        evidence = proved(lock, oci_folder, space, "--check", "lock")
        assert [one["status"] for one in evidence["checks"]] == ["passed"]
        assert call("podman", "images", "--all", "--quiet") == ""


def test_interrupted_it_leaves_no_container(lock: Locked, oci_image: str, tmp_path: Path) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        line = [*LOCKGEN, "verify", str(lock.folder), "--image", oci_image, "--check", "bert"]
        running = subprocess.Popen(
            line, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_heed_interrupts
        )
        until(lambda: "lockgen-verify-" in call("podman", "ps", "--format={{.Names}}"))
        running.send_signal(number)
        assert running.wait(60) == code
        assert "lockgen-verify-" not in call("podman", "ps", "--all", "--format={{.Names}}")


def _heed_interrupts() -> None:
    """What is started in the background by a shell ignores them, and so do its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
