"""The way of a user, once for all tests that need it: a channel built here, a spec locked against it, installed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import COMMAND, environment
from conftest import ROOT

from lockgen.channel.interpreter import running
from lockgen.channel.recipe import load

SPEC = """\
name: small
python: "3.11"
pytorch: "2.13"
cuda: none
channels: [./channel]
system: {glibc: "2.36"}
dependencies: [transformers, tokenizers, safetensors, accelerate, lockgen-zh-bert]
verify: {steps: 400}
"""


@dataclass(frozen=True)
class SmallEnvironment:
    """Where each step left what it made."""

    folder: Path
    """Holds `small.yaml`, its lock `small` and the `channel`."""
    prefix: Path

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"


def step(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """One command of a user, which may take minutes."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, encoding="utf-8", timeout=900, check=False
    )


def make(folder: Path) -> SmallEnvironment:
    """Build, lock and install; skipped where the recipe is for another interpreter."""
    recipe = ROOT / "recipes" / "small"
    channel, here = load(recipe).channel, running()
    if (channel.python, channel.platform) != (here.minor, here.subdir):
        pytest.skip(f"recipes/small is for CPython {channel.python} on {channel.platform}, and this is {here}")
    (folder / "small.yaml").write_text(SPEC)
    for arguments in (
        ("channel", "build", recipe, "-o", "channel"),
        ("resolve", "small.yaml"),
        ("install", "small", "-p", "prefix"),
    ):
        done = step(*arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
    return SmallEnvironment(folder=folder, prefix=folder / "prefix")
