"""Where an image comes from, as an in-toto statement with SLSA provenance: lock, base and lockgen's version."""

from __future__ import annotations

import json

from lockgen.image.model import ImagePlan
from lockgen.image.plan import SOURCES

MEDIA_TYPE = "application/vnd.in-toto+json"
"""Of the statement, and the type of the artefact that carries it."""
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:lockgen:image-build:1"
"""
Type of the build: the packages of the lock are installed on the base, and written as layers in the plan's order.

Its external parameters: `lock` (hex SHA-256 fingerprint of the lock), `spec` (its name), `variant` (absent for a spec
without), `platform` (a conda subdir), `base` (reference with digest), `prefix`, and `sourceDateEpoch` (when
the image says it was made). The same parameters give the same image.
"""
BUILDER = "urn:lockgen:builder"
"""lockgen on a machine that it says nothing about: whoever runs it vouches for that by a signature of their own."""


def provenance(plan: ImagePlan, version: str, digest: str) -> str:
    """
    The statement, in JSON; the same arguments, the same bytes.

    Args:
        version: lockgen's own.
        digest: of the image's manifest, `sha256:…`.

    Source: https://slsa.dev/spec/v1.0/provenance and in-toto's Statement v1; read 2026-12-01.
    """
    parameters: dict[str, str | int] = {
        "base": plan.base.pinned,
        "lock": plan.fingerprint,
        "platform": plan.platform,
        "prefix": plan.prefix,
        "sourceDateEpoch": plan.created,
        "spec": plan.name,
    }
    if plan.variant:
        parameters["variant"] = plan.variant
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": f"{plan.name}-{plan.variant}" if plan.variant else plan.name, "digest": _digest(digest)}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": parameters,
                "resolvedDependencies": [_base(plan), {"name": "lock", "digest": {"sha256": plan.fingerprint}}],
            },
            "runDetails": {"builder": {"id": BUILDER, "version": {"lockgen": version}}},
        },
    }
    return json.dumps(statement, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _base(plan: ImagePlan) -> dict[str, object]:
    """The base; one that came from no registry has no address, and is known by its digest."""
    local = f"{plan.base.reference}:" in SOURCES
    base: dict[str, object] = {"name": "base"}
    if not local:
        base["uri"] = f"docker://{plan.base.reference}"
    return {**base, "digest": _digest(plan.base.digest)} if plan.base.digest else base


def _digest(text: str) -> dict[str, str]:
    """`sha256:…` as in-toto has it."""
    algorithm, _, value = text.partition(":")
    return {algorithm: value}
