"""What stands beside a Dockerfile: compose.yaml, .dockerignore and a dev container, from the same plan. Pure text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from lockgen.image.dockerfile import FOLDER
from lockgen.image.model import ImagePlan
from lockgen.lock.codec import suffixed
from lockgen.lock.model import Lock

SHARED_MEMORY = "8gb"
"""Workers pass batches through /dev/shm, of which a container has 64 MB by itself; what is not used costs nothing."""
_MADE = "# Made by lockgen from {file}; `lockgen dockerfile` writes it anew.\n"


def beside(lock: Lock, plan: ImagePlan) -> dict[str, str]:
    """
    The files for one image, by path: a variant has its own.

    Args:
        plan: of any one platform; they differ in packages alone.
    """
    folder = f".devcontainer/{lock.variant}" if lock.variant else ".devcontainer"
    return {
        suffixed("compose.yaml", lock): _compose(lock, plan),
        f"{folder}/devcontainer.json": _dev_container(lock, plan),
    }


def ignored(locks: Sequence[Lock], files: Iterable[str]) -> str:
    """
    `.dockerignore`: everything but what the Dockerfiles copy.

    Args:
        locks: all whose Dockerfiles are in the folder.
        files: names of the lock files that they read.
    """
    kept = sorted({*files, *(f"{suffixed(FOLDER, lock)}/" for lock in locks)})
    made = _MADE.format(file=suffixed("conda-lock.yml", locks[0]))
    return made + "".join(f"{line}\n" for line in ("*", *(f"!{name.rstrip('/')}" for name in kept)))


def has_cuda(plan: ImagePlan) -> bool:
    """Whether the image asks the container toolkit for GPUs."""
    return any(name == "NVIDIA_VISIBLE_DEVICES" for name, _ in plan.env)


def image_name(lock: Lock) -> str:
    """A name that Docker takes for an image and for a project: `pytorch-2-9-nlp-gpu`."""
    name = f"{lock.name}-{lock.variant}" if lock.variant else lock.name
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "image"


def _compose(lock: Lock, plan: ImagePlan) -> str:
    name = image_name(lock)
    service: dict[str, Any] = {
        "image": name,
        "build": {"context": ".", "dockerfile": suffixed("Dockerfile", lock)},
        "init": True,
        "shm_size": SHARED_MEMORY,
        "security_opt": ["no-new-privileges:true"],
        "volumes": [f"work:{plan.workdir}"],
    }
    if "HF_HOME" not in dict(plan.env):
        service["environment"] = {"HF_HOME": f"{plan.workdir.rstrip('/')}/.cache/huggingface"}
    if plan.ports:
        service["ports"] = [f"127.0.0.1:{port}:{port}" for port in plan.ports]
    if plan.health is None:
        service |= {"stdin_open": True, "tty": True}
    if has_cuda(plan):
        device = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    content = {"name": name, "services": {name: service}, "volumes": {"work": {}}}
    made = _MADE.format(file=suffixed("conda-lock.yml", lock))
    option = "" if lock.variant is None else f" -f {suffixed('compose.yaml', lock)}"
    use = f"docker compose{option} up --build" if plan.health else f"docker compose{option} run --build --rm {name}"
    text: str = yaml.safe_dump(_doubled(content), sort_keys=False, allow_unicode=True, width=1000)
    return f"{made}# Start it with:  {use}\n{text}"


def _doubled(value: Any) -> Any:
    """Values in which compose expands nothing: each dollar twice."""
    if isinstance(value, dict):
        return {key: _doubled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_doubled(each) for each in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def _dev_container(lock: Lock, plan: ImagePlan) -> str:
    up = "../.." if lock.variant else ".."
    gpus = ["--gpus", "all"] if has_cuda(plan) else []
    content: dict[str, Any] = {
        "name": f"{lock.name} ({lock.variant})" if lock.variant else lock.name,
        "build": {"dockerfile": f"{up}/{suffixed('Dockerfile', lock)}", "context": up},
        "runArgs": [*gpus, "--shm-size", SHARED_MEMORY],
        "remoteUser": plan.login,
    }
    if plan.ports:
        content["forwardPorts"] = list(plan.ports)
    if any("python" in layer.packages for layer in plan.layers):
        settings = {"python.defaultInterpreterPath": f"{plan.prefix}/bin/python"}
        extensions = ["ms-python.python", "ms-toolsai.jupyter"]
        content["customizations"] = {"vscode": {"settings": settings, "extensions": extensions}}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
