"""The real program in a process of its own, on a made-up channel: solving it takes milliseconds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from conftest import ROOT
from fake_channel import Record, gpu_channel, record, snapshot

COMMAND = (sys.executable, "-m", "lockgen.cli.main")
SPEC = 'name: small\npython: "3.13"\npytorch: "2.9"\ncuda: "12.1"\ndependencies: [numpy]\n'
LOCKS = ("conda-lock.yml", "environment.yml", "linux-64.explicit.lock", "pixi.lock", "pixi.toml")
FILES = (
    "Dockerfile",
    *LOCKS[:2],
    *(f"image/files/{name}" for name in ("etc/bash.bashrc", "etc/profile.d/lockgen.sh")),
    *(f"image/files/opt/lockgen/{name}" for name in ("activate.sh", "entrypoint")),
    *("image/groups.json", "image/stage.py"),
    *LOCKS[2:],
)
VARIANTS = 'name: small\npython: "3.13"\npytorch: "2.9"\nvariants: {cpu: {cuda: none}, gpu: {cuda: "12.1"}}\n'


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a run: nothing of the terminal or of lockgen that this machine happens to set."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("LOCKGEN_", "PYTEST")) and key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    return kept | {"PYTHONPATH": str(ROOT / "src"), **(more or {})}


def lockgen(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; what it prints is piped."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(env),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def numpy() -> list[Record]:
    """A package that needs two others."""
    return [
        record("numpy", "2.3.0", "py313_0", ["python 3.13.*", "libblas >=3.9"], size=8_123_456),
        record("libblas", "3.9.0", "h1_0", ["libgcc >=14"], size=16_000),
        record("libgcc", "14.2.0", "h2_0", size=1_000_000),
    ]


def workshop(folder: Path, text: str = SPEC, more: Iterable[Record] = ()) -> Path:
    """A folder with `small.yaml` and a snapshot `channels` to solve it against."""
    snapshot(folder / "channels", conda_forge=[*gpu_channel(), *numpy(), *more])
    (folder / "small.yaml").write_text(text)
    return folder


def resolved(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Resolve `small.yaml` of a workshop."""
    return lockgen("resolve", "small.yaml", "--snapshot", "channels", *arguments, cwd=folder)


def contents(folder: Path) -> dict[str, str]:
    """The files of a folder as text, by path below it."""
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def golden(request: pytest.FixtureRequest, name: str, text: str) -> None:
    """Compare with a golden file, or write it under `--update-golden`."""
    path = ROOT / "tests" / "golden" / name
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
