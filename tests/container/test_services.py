"""Jupyter and ssh of an image, spoken to as a client would."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from container.shell import attempt, call, container, log, until

TOKEN = "a-token-of-sixteen-letters"
SSH = (
    "ssh",
    "-F",
    "none",
    "-o",
    "StrictHostKeyChecking=no",
    "-o",
    "UserKnownHostsFile=/dev/null",
    "-o",
    "BatchMode=yes",
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key that may log in, and one that may not."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("right", "wrong"):
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    return folder


@pytest.fixture(scope="module")
def served(services_image: str, keys: Path) -> Iterator[str]:
    """A container with all services of the image, published on ports of this machine alone."""
    key = (keys / "right.pub").read_text().strip()
    options = ["--network=bridge", "--publish=127.0.0.1::8888", "--publish=127.0.0.1::2222"]
    with container(services_image, *options, f"--env=JUPYTER_TOKEN={TOKEN}", f"--env=AUTHORIZED_KEYS={key}") as name:
        until(lambda: attempt("podman", "exec", name, "/opt/lockgen/health").returncode == 0, 120)
        yield name


def port(name: str, inside: int) -> str:
    return call("podman", "port", name, f"{inside}/tcp").strip().rpartition(":")[2]


def get(name: str, path: str, **headers: str) -> tuple[int, str]:
    """Status and body of Jupyter's answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port(name, 8888)}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_jupyter_answers_with_its_token_only(served: str) -> None:
    assert get(served, "/api/contents")[0] == 403
    assert get(served, "/api/contents?token=wrong")[0] == 403
    assert get(served, f"/api/contents?token={TOKEN}")[0] == 200
    assert get(served, "/api/contents", Authorization=f"token {TOKEN}")[0] == 200
    assert TOKEN not in log(served)


def test_the_notebooks_kernel_is_the_images_python(served: str) -> None:
    status, text = get(served, "/api/kernelspecs", Authorization=f"token {TOKEN}")
    assert status == 200
    assert json.loads(text)["kernelspecs"]["python3"]["spec"]["language"] == "python"
    code = "import os, sys; print(sys.prefix, os.environ['CONDA_PREFIX'], os.getuid())"
    assert call("podman", "exec", served, "python", "-c", code).split() == ["/opt/env", "/opt/env", "1000"]


def ssh(name: str, *options: str, login: str = "lockgen") -> tuple[str, ...]:
    return (*SSH, "-p", port(name, 2222), *options, f"{login}@127.0.0.1")


def test_a_key_opens_a_session_in_the_active_environment(served: str, keys: Path) -> None:
    line = ssh(served, "-i", str(keys / "right"), "-o", "IdentitiesOnly=yes")
    assert call(*line, "id -u; command -v python; echo $CONDA_PREFIX").split() == [
        "1000", "/opt/env/bin/python", "/opt/env",
    ]  # fmt: skip


def test_another_key_and_a_password_open_nothing(served: str, keys: Path) -> None:
    other = attempt(*ssh(served, "-i", str(keys / "wrong"), "-o", "IdentitiesOnly=yes"), "true")
    assert (other.returncode, other.stderr.splitlines()[-1]) == (
        255, "lockgen@127.0.0.1: Permission denied (publickey).",
    )  # fmt: skip
    methods = ("-o", "PubkeyAuthentication=no", "-o", "PreferredAuthentications=password,keyboard-interactive")
    password = attempt(*ssh(served, *methods), "true")
    assert password.returncode == 255
    assert "Permission denied (publickey)." in password.stderr
    root = attempt(*ssh(served, "-i", str(keys / "right"), login="root"), "true")
    assert root.returncode == 255


def test_two_containers_have_different_host_keys(served: str, services_image: str, keys: Path) -> None:
    def scan(name: str) -> str:
        return call("ssh-keyscan", "-t", "ed25519", "-p", port(name, 2222), "127.0.0.1").split()[-1]

    with container(services_image, "--network=bridge", "--publish=127.0.0.1::2222") as other:
        until(lambda: "127.0.0.1" in attempt("ssh-keyscan", "-p", port(other, 2222), "127.0.0.1").stdout, 60)
        assert scan(other) != scan(served)


def test_without_a_token_of_ours_jupyter_makes_one(services_image: str) -> None:
    with container(services_image, "--network=bridge", "--publish=127.0.0.1::8888") as name:
        until(lambda: "/lab?token=" in log(name), 120)
        made = log(name).partition("/lab?token=")[2].split()[0]
        assert len(made) == 48
        assert get(name, "/api/contents")[0] == 403
        assert get(name, f"/api/contents?token={made}")[0] == 200


def test_stopped_it_ends_at_once(services_image: str) -> None:
    with container(services_image, "--network=none") as name:
        until(lambda: attempt("podman", "exec", name, "/opt/lockgen/health").returncode == 0, 120)
        call("podman", "stop", "--time=20", name)
        state = call("podman", "inspect", "--format={{.State.ExitCode}}", name).strip()
        assert state in ("0", "143")


def test_the_editor_is_served_where_a_channel_has_it() -> None:
    if "LOCKGEN_TEST_CODE_SERVER" not in os.environ:
        pytest.skip("no channel here has code-server; LOCKGEN_TEST_CODE_SERVER names an image with it")
    options = [
        "--network=bridge",
        "--publish=127.0.0.1::8080",
        "--env=PASSWORD=secret",
        "--env=CODE_SERVER_BIND=0.0.0.0:8080",
    ]
    with container(os.environ["LOCKGEN_TEST_CODE_SERVER"], *options) as name:
        until(lambda: attempt("podman", "exec", name, "/opt/lockgen/health").returncode == 0, 120)
        address = f"http://127.0.0.1:{port(name, 8080)}"
        assert logged_in(address, "wrong") == f"{address}/login"
        assert logged_in(address, "secret") == f"{address}/"


def logged_in(address: str, password: str) -> str:
    """Where code-server leads whoever gives a password."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(f"{address}/login", f"password={password}".encode(), timeout=30) as answer:
        return str(answer.url).partition("?")[0]


def test_a_mounted_folder_that_the_user_cannot_write_is_said(services_image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    run = ("podman", "run", "--rm", "--pull=never", "--network=none", "--shm-size=1g", f"--volume={tmp_path}:/work")
    said = (
        "lockgen: /work cannot be written by user 1000: give the folder to that user, "
        'or start the container with --user "$(id -u):$(id -g)"\n'
    )
    assert attempt(*run, services_image, "true").stderr == said
    os.chown(tmp_path, 1000, 1000)
    assert attempt(*run, services_image, "true").stderr == ""
