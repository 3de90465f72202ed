"""Byte-compiling an environment's Python packages, with its own interpreter."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lockgen.errors import LockgenError, Problem


class CompileError(LockgenError):
    """The environment's interpreter does not run here."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_all(prefix: Path, processes: int) -> bool:
    """
    Compile every module in site-packages that is not compiled yet.

    A file that is no valid Python for this interpreter (a template, a test of errors) is skipped, as pip does.

    Returns:
        False where the environment has no Python.
    """
    python = prefix / "bin" / "python"
    folders = [str(path) for path in sorted(prefix.glob("lib/python*/site-packages")) if not path.is_symlink()]
    if not python.exists() or not folders:
        return False
    command = [str(python), "-I", "-m", "compileall", "-qq", "-j", str(processes), *folders]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompileError(Problem(message=f"cannot run {python}: {error.strerror}", hint=_HINT)) from None
    if done.returncode not in (0, 1):
        raise CompileError(
            Problem(message=f"{python} stops with {done.returncode}", detail=done.stderr.strip()[-2000:], hint=_HINT)
        )
    return True


_HINT = "the packages are installed; without `--compile` Python compiles them when they are first imported"
