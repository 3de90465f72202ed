"""Run the payload with an environment's own interpreter, and read what it found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lockgen.errors import Problem
from lockgen.verify.evidence import Evidence, EvidenceError, load

PAYLOAD = Path(__file__).parent / "payload" / "main.py"
GRACE = 15.0
"""Seconds for the payload to end its checks when it is asked to stop."""
Progress = Callable[[str], None]


def check_names() -> tuple[str, ...]:
    """The checks there are: one module each, those whose name starts with `_` left out; sorted."""
    folder = PAYLOAD.parent / "lockgen_checks"
    return tuple(sorted(path.stem for path in folder.glob("[!_]*.py")))


def interpreter(prefix: Path) -> Path:
    """
    The Python of an environment.

    Raises:
        EvidenceError: the folder is no conda environment, or has no Python.
    """
    if not (prefix / "conda-meta").is_dir():
        hint = "to make one from a lock, run `lockgen install LOCK -p PREFIX`"
        raise EvidenceError(Problem(message=f"not a conda environment: {prefix}", hint=hint))
    python = prefix / ("python.exe" if os.name == "nt" else "bin/python")
    if not os.access(python, os.X_OK):
        raise EvidenceError(Problem(message=f"no Python in {prefix}: {python} cannot be run"))
    return python


def run(plan: dict[str, Any], python: Path, target: Path, progress: Progress) -> Evidence:
    """
    Carry out a plan.

    Args:
        plan: JSON values, from `lockgen.verify.plan`.
        python: the interpreter to run with.
        target: `evidence.json`, written anew after each check.
        progress: called with each line of the payload: `NAME …`, then name, status, seconds, summary with tabs.

    Raises:
        EvidenceError: the interpreter cannot be started, or ends before it wrote any evidence.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="lockgen-plan-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(json.dumps(plan, ensure_ascii=False), encoding="utf-8")
        words = follow([str(python), "-I", "-B", str(PAYLOAD), str(file), str(target)], progress)
    try:
        text = target.read_text(encoding="utf-8")
    except FileNotFoundError:
        detail = "\n".join(words[-10:])
        raise EvidenceError(Problem(message=f"{python} ends without any evidence", detail=detail)) from None
    return load(text, str(target))


def follow(command: list[str], progress: Progress, limit: float | None = None) -> list[str]:
    """
    Run a command to its end, passing on its lines; when we are stopped, so is everything that it started.

    Args:
        limit: seconds after which it is ended; None waits for ever.

    Returns:
        The lines.

    Raises:
        EvidenceError: it cannot be started.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise EvidenceError(Problem(message=f"cannot run {command[0]}: {error.strerror}")) from None
    words = []
    watch = threading.Timer(limit or threading.TIMEOUT_MAX, _signal, (child, signal.SIGTERM))
    watch.daemon = True
    watch.start()
    try:
        assert child.stderr is not None
        with _terminable():
            for line in child.stderr:
                words.append(line.rstrip("\n"))
                progress(words[-1])
    finally:
        watch.cancel()
        _end(child)
    return words


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Leave through the `finally` blocks when we are asked to end, as on a keyboard interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _signal(child: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)


def _end(child: subprocess.Popen[str]) -> None:
    """Wait for a child that has closed its output; ask one that has not to end, and kill it where it does not."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(0.5)
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(child, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
            return


def platform_of(prefix: Path) -> str:
    """
    The platform of an environment, from its own records: `linux-64`.

    Raises:
        EvidenceError: a record cannot be read, or none names a platform.
    """
    for file in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            subdir = json.loads(file.read_text(encoding="utf-8")).get("subdir")
        except (OSError, ValueError, AttributeError):
            raise EvidenceError(
                Problem(message=f"cannot read {file}", hint="to heal it, run `lockgen install`")
            ) from None
        if subdir and subdir != "noarch":
            return str(subdir)
    raise EvidenceError(Problem(message=f"no package of a platform in {prefix}"))
