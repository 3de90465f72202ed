"""Values as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lockgen.lock.model import Lock

if TYPE_CHECKING:
    from lockgen.plan import Plan


def answer(plan: Plan, found: Sequence[Lock], files: Sequence[str]) -> str:
    """The whole answer of `lockgen resolve`."""
    notes = [{"message": note.message, "where": str(note.where) if note.where else None} for note in plan.notes]
    return _json({"name": plan.name, "spec": plan.file, "notes": notes, "files": list(files), "locks": _plain(found)})


def locks(found: Sequence[Lock]) -> str:
    """Locks and their packages."""
    return _json(_plain(found))


def _plain(found: Sequence[Lock]) -> list[dict[str, Any]]:
    return [{"fingerprint": lock.fingerprint(), **dataclasses.asdict(lock)} for lock in found]


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
