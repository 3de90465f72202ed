"""`lockgen verify --image` without an image: what is asked of podman and docker, and what is refused before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import lockgen, resolved, workshop

from lockgen.errors import UsageError
from lockgen.verify.image import find_runtime, mount, refuse_hub

RUNTIME = """#!/bin/sh
printf '%s\\n' "$*" >>{log}
case $1 in
image) echo '{inspected}' ;;
run) echo 'no such device' >&2; exit 125 ;;
esac
"""


def runtime(folder: Path, name: str, fingerprint: str | None, user: str = "") -> Path:
    """A folder with a program that answers as podman and docker do, runs nothing, and writes down what it was asked."""
    labels = {"io.lockgen.fingerprint": fingerprint} if fingerprint else {}
    config = {"User": user, "Labels": labels, "Env": ["CONDA_PREFIX=/opt/env"]}
    inspected = json.dumps([{"Id": "sha256:1234", "Architecture": "amd64", "Config": config}])
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(RUNTIME.format(log=folder / "log", inspected=inspected))
    program.chmod(0o755)
    return program.parent


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    done = resolved(workshop(tmp_path))
    assert done.returncode == 0, done.stderr
    return tmp_path / "small"


def fingerprint(lock: Path) -> str:
    text = (lock / "conda-lock.yml").read_text()
    return text.partition("lockgen.fingerprint: ")[2].split()[0]


def test_a_container_has_no_network_no_root_and_nothing_to_write(lock: Path, tmp_path: Path) -> None:
    path = runtime(tmp_path, "docker", fingerprint(lock), user="root")
    line = ("verify", lock, "--image", "team/nlp:1", "--runtime", "docker")
    done = lockgen(*line, cwd=tmp_path, env={"PATH": f"{path}:/usr/bin:/bin"})
    assert done.returncode == 2
    assert done.stderr == "error: team/nlp:1 ends without any evidence in docker\n  no such device\n"
    asked = (tmp_path / "log").read_text().splitlines()
    run = next(line for line in asked if line.startswith("run "))
    for option in ("--network=none", "--read-only", "--user=1000:1000", "--cap-drop=all", "--pull=never"):
        assert f" {option} " in run
    assert run.count("readonly") == 1
    assert " sha256:1234 /opt/env/bin/python -I -B /lockgen/in/payload/main.py " in run
    name = run.partition("--name=")[2].split()[0]
    assert asked[-1] == f"rm --force {name}"


def test_an_image_of_another_lock_is_refused_before_it_runs(lock: Path, tmp_path: Path) -> None:
    path = runtime(tmp_path, "podman", "0" * 64)
    done = lockgen("verify", lock, "--image", "nlp", cwd=tmp_path, env={"PATH": f"{path}:/usr/bin:/bin"})
    assert done.returncode == 1
    assert done.stderr == (
        f"error: nlp is made from another lock: its label says {'0' * 64}, expected {fingerprint(lock)}\n"
        "  hint: build the image again, or name the lock that it was made from\n"
    )
    assert "run " not in (tmp_path / "log").read_text()


def test_one_of_a_folder_and_an_image_is_named(lock: Path, tmp_path: Path) -> None:
    done = lockgen("verify", lock, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "error: what is to be proved is not named\n  hint: name a folder, `--prefix`, or an image, `--image`\n",
    )


def test_without_a_runtime_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"^neither `podman` nor `docker` is on PATH"):
        find_runtime(None)
    with pytest.raises(UsageError, match=r"^`docker` is not on PATH"):
        find_runtime("docker")
    with pytest.raises(UsageError, match="unknown runtime: `containerd`"):
        find_runtime("containerd")


def test_a_comma_in_a_path_does_not_end_the_mount() -> None:
    assert mount("/a,b", "/c", writable=False) == 'type=bind,"source=/a,b",target=/c,readonly'


def test_a_model_of_a_hub_is_refused(tmp_path: Path) -> None:
    refuse_hub("tiny")
    refuse_hub(str(tmp_path))
    with pytest.raises(UsageError, match="a container runs without network, and `org/model` is no folder"):
        refuse_hub("org/model")


def test_an_image_that_is_not_here_is_not_looked_for_elsewhere(lock: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "podman"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1" != pull ] || echo pulled >&2\nexit 125\n')
    program.chmod(0o755)
    done = lockgen(
        "verify", lock, "--image", "localhost/x", cwd=tmp_path, env={"PATH": f"{program.parent}:/usr/bin:/bin"}
    )
    assert (done.returncode, done.stderr) == (
        2,
        "error: no image `localhost/x` here\n"
        "  hint: `podman images` lists those that are; an image of a registry is fetched by itself\n",
    )
