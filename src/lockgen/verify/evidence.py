"""What the checks found: one result each, on one machine, for one lock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from lockgen.errors import LockgenError, Problem

FORMAT = 1
Status = Literal["passed", "failed", "skipped"]
_STATUSES = ("passed", "failed", "skipped")


class EvidenceError(LockgenError):
    """An environment cannot be looked at, or its evidence cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found."""

    name: str
    status: Status
    seconds: float
    summary: str
    """One line: what was shown, the first problem, or the reason to skip."""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """JSON values by name; each check has its own names."""
    output: str = ""
    """The end of what the check's process printed, where it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All results for one installed environment."""

    environment: str | None
    """Name of the lock; None where the payload ran without one."""
    variant: str | None
    platform: str | None
    fingerprint: str | None
    """The lock's."""
    image: str | None = None
    """Where an image was proved: its name as it was given, and its id."""
    machine: Mapping[str, Any]
    checks: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed; a check that was skipped was not required."""
        return all(check.status != "failed" for check in self.checks)

    def check(self, name: str) -> CheckResult | None:
        """The result of one check, None where it did not run."""
        return next((check for check in self.checks if check.name == name), None)


def load(text: str, file: str) -> Evidence:
    """
    Read `evidence.json`.

    Raises:
        EvidenceError: it is not JSON, or not evidence of a format that is known.
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise EvidenceError(Problem(message=f"{file}:{error.lineno}: not JSON: {error.msg.lower()}")) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise EvidenceError(Problem(message=f"{file} is not evidence of format {FORMAT}"))
    try:
        return Evidence(
            environment=found["environment"],
            variant=found["variant"],
            platform=found["platform"],
            fingerprint=found["fingerprint"],
            image=found.get("image"),
            machine=MappingProxyType(found["machine"]),
            checks=tuple(_result(one) for one in found["checks"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(Problem(message=f"{file} is not evidence: {error}")) from None


def _result(found: dict[str, Any]) -> CheckResult:
    if found["status"] not in _STATUSES:
        raise ValueError(f"unknown status `{found['status']}`")
    return CheckResult(
        name=found["name"],
        status=found["status"],
        seconds=found["seconds"],
        summary=found["summary"],
        problems=tuple(found["problems"]),
        notes=tuple(found["notes"]),
        facts=MappingProxyType(found["facts"]),
        output=found["output"],
    )
