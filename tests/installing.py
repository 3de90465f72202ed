"""The program in a process of its own, for tests that install and run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

PROGRAM = """
from lockgen.cli import doctor, install, main, run
known = {command.name for command in main.app.registered_commands}
for name, function, settings in (
    ("install", install.install, None), ("run", run.run, run.SETTINGS), ("doctor", doctor.doctor, None)
):
    if name not in known:
        main.app.command(name, context_settings=settings)(function)
main.main()
"""


def command(*arguments: object) -> list[str]:
    """The command line of lockgen."""
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """This process's variables, with lockgen's source on the path."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}


def lockgen(*arguments: object, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run lockgen to its end."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**environ),
        timeout=120,
        check=False,
    )
