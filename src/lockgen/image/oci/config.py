"""The configuration and the manifest of an image, as values that become JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lockgen.image.model import Health, ImagePlan
from lockgen.image.oci.base import BaseImage
from lockgen.image.oci.layer import Blob

CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_SECOND = 10**9
_KEPT = ("Shell", "StopSignal", "Volumes")
"""What a base says that is taken over."""


def config(plan: ImagePlan, base: BaseImage, layers: Sequence[Blob]) -> dict[str, Any]:
    """
    How a container of the image runs, and what it is made of.

    Source: OCI image specification 1.1, "Image Configuration"; `Healthcheck` as Docker's image specification has it.
    """
    moment = _moment(plan.created)
    history = [*_base_history(base), *(_step(one, moment) for one in layers)]
    variant = {"variant": base.config["variant"]} if base.config.get("variant") else {}
    return {
        "architecture": plan.architecture,
        "os": "linux",
        **variant,
        "created": moment,
        "config": _running(plan, base.config.get("config") or {}),
        "rootfs": {
            "type": "layers",
            "diff_ids": [*base.config["rootfs"]["diff_ids"], *(one.diff_id for one in layers)],
        },
        "history": history,
    }


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _step(one: Blob, moment: str) -> dict[str, Any]:
    return {"created": moment, "created_by": f"lockgen: {one.name}"}


def _base_history(base: BaseImage) -> Iterator[Mapping[str, Any]]:
    """That of the base, where it tells of every layer; else one step for each."""
    told = base.config.get("history") or ()
    if sum(not step.get("empty_layer") for step in told) == len(base.layers):
        yield from told
    else:
        yield from ({"created_by": "base"} for _ in base.layers)


def _running(plan: ImagePlan, base: Mapping[str, Any]) -> dict[str, Any]:
    env = dict(text.partition("=")[::2] for text in base.get("Env") or ()) | dict(plan.env)
    ports = {**(base.get("ExposedPorts") or {}), **{f"{port}/tcp": {} for port in plan.ports}}
    found: dict[str, Any] = {
        **{key: base[key] for key in _KEPT if base.get(key)},
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Entrypoint": list(plan.entrypoint),
        "Cmd": list(plan.command),
        "User": plan.user,
        "WorkingDir": plan.workdir,
        "Labels": {**(base.get("Labels") or {}), **dict(plan.labels)},
        "ExposedPorts": ports,
        "Healthcheck": _health(plan.health) if plan.health else None,
    }
    return {key: value for key, value in found.items() if value}


def _health(health: Health) -> dict[str, Any]:
    return {
        "Test": ["CMD", *health.command],
        "Interval": health.interval * _SECOND,
        "Timeout": health.timeout * _SECOND,
        "StartPeriod": health.start * _SECOND,
    }


def manifest(
    plan: ImagePlan, base: BaseImage, layers: Sequence[Blob], described: Mapping[str, object]
) -> dict[str, Any]:
    """The list of an image's parts; `described` is the descriptor of its configuration."""
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": dict(described),
        "layers": [*base.layers, *(one.descriptor for one in layers)],
        "annotations": dict(plan.labels),
    }


def index(images: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """The list of an image's platforms."""
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": [dict(one) for one in images]}


def platform_of(value: Mapping[str, Any]) -> dict[str, str]:
    """What a configuration says of the machines that it is for."""
    return {key: value[key] for key in ("architecture", "os", "variant") if value.get(key)}
