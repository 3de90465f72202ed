"""compose.yaml, .dockerignore and the dev container: what their own readers find in them."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from command_line import LOCKS, SPEC, VARIANTS, contents, lockgen, resolved, workshop
from compose_spec import PyCompose
from lock_values import CPU, GPU, PLAIN

from lockgen.image.beside import beside, ignored
from lockgen.image.dockerfile import lock_files, render
from lockgen.image.model import Health, ImagePlan
from lockgen.image.plan import plan
from lockgen.lock.model import Lock
from lockgen.spec.model import Image


def planned(lock: Lock, image: Image | None = None) -> ImagePlan:
    return plan(lock, lock.platforms[0], image or Image(), ())


def serving(one: ImagePlan) -> ImagePlan:
    """The same image with a service on two ports."""
    return dataclasses.replace(one, ports=(2222, 8888), health=Health(command=("/opt/lockgen/health",)))


# compose.yaml


def test_compose_reserves_the_gpus_of_a_cuda_lock_and_shows_ports_to_this_machine_alone() -> None:
    text = beside(PLAIN, serving(planned(PLAIN)))["compose.yaml"]
    (service,) = json.loads(PyCompose.from_yaml(text).to_json())["services"].values()
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["count"], device["capabilities"]) == ("nvidia", "all", ["gpu"])
    assert yaml.safe_load(text)["services"]["small"] == {
        "image": "small",
        "build": {"context": ".", "dockerfile": "Dockerfile"},
        "init": True,
        "shm_size": "8gb",
        "security_opt": ["no-new-privileges:true"],
        "volumes": ["work:/work"],
        "environment": {"HF_HOME": "/work/.cache/huggingface"},
        "ports": ["127.0.0.1:2222:2222", "127.0.0.1:8888:8888"],
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }
    assert "\n# Start it with:  docker compose up --build\n" in text


def test_compose_of_an_image_without_services_waits_for_somebody_to_type() -> None:
    text = beside(CPU, planned(CPU))["compose.cpu.yaml"]
    compose = PyCompose.from_yaml(text)
    assert compose.service_names() == ["small-cpu"]
    service = yaml.safe_load(text)["services"]["small-cpu"]
    assert (service["stdin_open"], service["tty"]) == (True, True)
    assert service["build"]["dockerfile"] == "Dockerfile.cpu"
    assert not service.keys() & {"deploy", "ports"}
    assert "\n# Start it with:  docker compose -f compose.cpu.yaml run --build --rm small-cpu\n" in text


def test_a_place_for_models_that_the_spec_names_stays() -> None:
    text = beside(PLAIN, planned(PLAIN, Image(env={"HF_HOME": "/models"})))["compose.yaml"]
    assert "environment" not in yaml.safe_load(text)["services"]["small"]


@pytest.mark.parametrize(("name", "expected"), [("PyTorch-2.9", "pytorch-2-9"), ("_x_", "x"), ("許可", "image")])
def test_compose_takes_every_name(name: str, expected: str) -> None:
    text = beside(dataclasses.replace(PLAIN, name=name), planned(PLAIN))["compose.yaml"]
    assert PyCompose.from_yaml(text).service_names() == [expected]
    assert yaml.safe_load(text)["name"] == expected


def test_compose_expands_no_variable() -> None:
    """The specification: `$$` is a dollar."""
    odd = dataclasses.replace(planned(PLAIN), workdir="/a$HOME")
    assert yaml.safe_load(beside(PLAIN, odd)["compose.yaml"])["services"]["small"]["volumes"] == ["work:/a$$HOME"]


# .dockerignore


def kept(text: str, paths: list[str]) -> list[str]:
    """The paths that Docker sends to the builder, by its rules: the last line that matches a path or a folder wins."""
    found = []
    for path in paths:
        out = False
        for line in text.splitlines():
            if line and not line.startswith("#"):
                pattern = line.removeprefix("!")
                names = ["/".join(path.split("/")[:end]) for end in range(1, path.count("/") + 2)]
                out = not line.startswith("!") if any(fnmatch.fnmatch(name, pattern) for name in names) else out
        found += [] if out else [path]
    return found


def test_what_the_dockerfile_copies_is_sent_and_nothing_else() -> None:
    files = render(PLAIN, [planned(PLAIN)])
    needed = lock_files(PLAIN, "micromamba")
    others = [".git/config", "secrets/netrc", "notes.txt", "environment.yml", "images/x"]
    text = ignored([PLAIN], needed)
    wanted = [*needed, *(name for name in files if name.startswith("image/"))]
    assert kept(text, [*wanted, *others]) == wanted


def test_one_file_serves_all_variants() -> None:
    text = ignored([CPU, GPU], [name for lock in (CPU, GPU) for name in lock_files(lock, "conda-lock")])
    assert text.splitlines()[1:] == ["*", "!conda-lock.cpu.yml", "!conda-lock.gpu.yml", "!image.cpu", "!image.gpu"]


# the dev container


def test_the_dev_container_is_the_image_with_its_gpus_and_its_user() -> None:
    assert json.loads(beside(PLAIN, serving(planned(PLAIN)))[".devcontainer/devcontainer.json"]) == {
        "name": "small",
        "build": {"dockerfile": "../Dockerfile", "context": ".."},
        "runArgs": ["--gpus", "all", "--shm-size", "8gb"],
        "remoteUser": "lockgen",
        "forwardPorts": [2222, 8888],
        "customizations": {
            "vscode": {
                "settings": {"python.defaultInterpreterPath": "/opt/env/bin/python"},
                "extensions": ["ms-python.python", "ms-toolsai.jupyter"],
            }
        },
    }


def test_a_variant_has_a_dev_container_of_its_own() -> None:
    files = beside(CPU, planned(CPU))
    found = json.loads(files[".devcontainer/cpu/devcontainer.json"])
    assert found["build"] == {"dockerfile": "../../Dockerfile.cpu", "context": "../.."}
    assert found["runArgs"] == ["--shm-size", "8gb"]


def test_the_dev_container_tool_reads_it(tmp_path: Path) -> None:
    tool = shutil.which("devcontainer")
    if tool is None:
        pytest.skip("no devcontainer on PATH: `npm install @devcontainers/cli`")
    for name, text in (render(PLAIN, [planned(PLAIN)]) | beside(PLAIN, planned(PLAIN))).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [tool, "read-configuration", "--workspace-folder", str(tmp_path), "--docker-path", "/bin/true"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1])["configuration"]["remoteUser"] == "lockgen"


# the command


def test_the_command_writes_all_that_a_build_needs(tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    run = lockgen("dockerfile", "small", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == (
        "wrote small: .devcontainer/, .dockerignore, compose.yaml\nbuild it: docker build -t small small\n"
    )
    assert lockgen("resolve", "small.yaml", "--check", cwd=tmp_path).returncode == 0
    again = lockgen("dockerfile", cwd=tmp_path)
    assert again.stderr.startswith("small is right already: 11 files\n")


@pytest.mark.parametrize(
    ("installer", "files"),
    [
        ("micromamba", ["linux-64.explicit.lock"]),
        ("pixi", ["pixi.lock", "pixi.toml"]),
        ("conda-lock", ["conda-lock.yml"]),
        ("lockgen", ["conda-lock.yml"]),
    ],
)
def test_another_folder_gets_the_lock_files_of_the_installer(installer: str, files: list[str], tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    run = lockgen("dockerfile", "small", "--installer", installer, "-o", "out", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    written = contents(tmp_path / "out")
    there = contents(tmp_path / "small")
    assert {name: written[name] for name in files} == {name: there[name] for name in files}
    assert {name.split("/")[0] for name in written} == {
        *files,
        *(".devcontainer", ".dockerignore", "Dockerfile", "compose.yaml", "image"),
    }


def test_each_variant_gets_its_files(tmp_path: Path) -> None:
    workshop(tmp_path, VARIANTS)
    assert resolved(tmp_path).returncode == 0
    run = lockgen("dockerfile", "small.yaml", cwd=tmp_path)
    assert run.stderr.splitlines()[1:] == [
        "build it: docker build -t small-cpu -f small/Dockerfile.cpu small",
        "build it: docker build -t small-gpu -f small/Dockerfile.gpu small",
    ]
    written = contents(tmp_path / "small")
    for variant in ("cpu", "gpu"):
        assert {f"Dockerfile.{variant}", f"compose.{variant}.yaml", f".devcontainer/{variant}/devcontainer.json"} <= {
            *written
        }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--installer", "mamba"], "error: unknown installer: `mamba`\n  hint: did you mean `micromamba`?\n"),
        (
            ["--installer", "x"],
            "error: unknown installer: `x`\n  hint: known: micromamba, pixi, conda-lock, lockgen\n",
        ),
        (
            ["--base", "oci:folder"],
            "error: a Dockerfile cannot begin with `oci:folder`: it takes images of a registry\n"
            "  hint: `lockgen image build` takes files and folders\n",
        ),
        (["--layers", "0"], None),
    ],
)
def test_what_the_command_refuses(arguments: list[str], said: str | None, tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    run = lockgen("dockerfile", "small", "-o", "out", *arguments, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert said is None or run.stderr == said
    assert not (tmp_path / "out").exists()


def test_a_dockerfile_of_ones_own_is_not_overwritten(tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    run = lockgen("dockerfile", "small", "-o", ".", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: . has files that lockgen did not write: Dockerfile\n")
    assert (tmp_path / "Dockerfile").read_text() == "FROM scratch\n"


def test_a_base_that_does_not_fit_leaves_the_locks_without_a_dockerfile(tmp_path: Path) -> None:
    """Another base can be named to `lockgen dockerfile`: the locks are as good."""
    workshop(tmp_path, SPEC + "image: {base: nvidia-cuda-12.8-base}\n")
    run = resolved(tmp_path)
    assert run.returncode == 0
    reference = "docker.io/nvidia/cuda:12.8.1-base-ubuntu22.04"
    assert f"note: no Dockerfile: `{reference}` carries CUDA 12.8, but the environment brings its own" in run.stderr
    assert sorted(path.name for path in (tmp_path / "small").iterdir()) == sorted(LOCKS)
    assert lockgen("resolve", "small.yaml", "--check", cwd=tmp_path).returncode == 0
    run = lockgen("dockerfile", "small", "--base", "debian-bookworm-slim", "-o", "out", cwd=tmp_path)
    assert (run.returncode, (tmp_path / "out" / "Dockerfile").is_file()) == (0, True)
