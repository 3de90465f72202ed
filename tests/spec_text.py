"""Specs as text: written to a folder, read, and their errors as people see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockgen.errors import LockgenError, Problem
from lockgen.plan import Plan, plan
from lockgen.spec.model import Settings
from lockgen.spec.parse import Spec, load

FILE = "s.yaml"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, so that messages name files without a folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str | bytes, file: str = FILE) -> Path:
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(text: str | bytes, file: str = FILE) -> Spec:
    return load(write(text, file))


def settings(text: str, variant: str | None = None, platform: str = "linux-64") -> Settings:
    """What a spec says for one variant on one platform."""
    spec = read(text)
    return next(one.settings for one in spec.targets if (one.variant, one.platform) == (variant, platform))


def planned(text: str | bytes) -> Plan:
    return plan(read(text))


def notes(text: str) -> list[str]:
    """What is said about a spec, each with its place."""
    return [f"{note.where}: {note.message}" if note.where else note.message for note in planned(text).notes]


def problems(text: str | bytes, file: str = FILE) -> tuple[Problem, ...]:
    """Everything that is wrong with a spec; fails when nothing is."""
    with pytest.raises(LockgenError) as caught:
        plan(read(text, file))
    return caught.value.problems


def error(text: str | bytes, file: str = FILE) -> str:
    """The error as it is shown."""
    return "\n\n".join(str(problem) for problem in problems(text, file))
