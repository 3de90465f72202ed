"""
Cold and warm installs of one lock by lockgen, by its installer alone, and by conda and its kin where one is on PATH.

Cold: an empty cache and no environment; the channel is what the lock names, so for a fair figure let it be near (a
folder, or a server on this machine). Warm: the cache is full, the environment is made anew. No-op: nothing to do.
Every row is a whole process, run in turn with the others; the figures are medians.
Usage: python benchmarks/install.py LOCK [--runs N] [--compile]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockgen.cli.files import find_locks
from lockgen.lock.registry import codec

PEERS = ("micromamba", "mamba", "conda")
BARE = """
import asyncio, os, sys
from pathlib import Path
import rattler
lock = rattler.LockFile.from_path(Path(sys.argv[1]))
(platform,) = lock.default_environment().platforms()
records = lock.default_environment().conda_repodata_records_for_platform(platform)
asyncio.run(rattler.install(records, sys.argv[2], cache_dir=Path(sys.argv[3]), show_progress=False))
os._exit(0)
"""
"""py-rattler alone: no checks, no lock on the prefix, nothing said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program that makes an environment from an explicit file, and the variables that set its cache."""

    name: str
    command: tuple[str, ...]
    """With `{prefix}` where the environment goes."""
    environ: Mapping[str, str]


def tools(lock: Path, explicit: Path, cache: Path, *, compiled: bool) -> list[Tool]:
    """lockgen, and each peer that is here."""
    lockgen = (
        sys.executable,
        "-m",
        "lockgen.cli.main",
        "install",
        str(lock),
        "-p",
        "{prefix}",
        "-q",
        "--no-host-check",
    )
    found = [
        Tool(
            name="lockgen",
            command=(*lockgen, "--compile") if compiled else lockgen,
            environ={"LOCKGEN_CACHE_DIR": str(cache / "lockgen")},
        )
    ]
    bare = (sys.executable, "-c", BARE, str(explicit.with_name("pixi.lock")), "{prefix}", str(cache / "bare"))
    found.append(Tool(name="py-rattler", command=bare, environ={"XDG_CACHE_HOME": str(cache / "bare")}))
    for name in PEERS:
        if program := shutil.which(name):
            command = (program, "create", "-y", "-q", "-p", "{prefix}", "--file", str(explicit))
            environ = {"CONDA_PKGS_DIRS": str(cache / name), "MAMBA_ROOT_PREFIX": str(cache / f"{name}-root")}
            found.append(Tool(name=name, command=command, environ=environ))
    return found


def timed(tool: Tool, prefix: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one run; a failure is an error, since its time would mean nothing."""
    command = [part.format(prefix=prefix) for part in tool.command]
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, env={**os.environ, **tool.environ}, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu


def measured(tool: Tool, folder: Path) -> dict[str, tuple[float, float]]:
    """One cold, one warm and, for lockgen, one idle run."""
    for path in tool.environ.values():
        shutil.rmtree(path, ignore_errors=True)
    prefix = folder / f"env-{tool.name}"
    found = {}
    for kind in ("cold", "warm"):
        shutil.rmtree(prefix, ignore_errors=True)
        found[kind] = timed(tool, prefix)
    if tool.name == "lockgen":
        found["no-op"] = timed(tool, prefix)
    shutil.rmtree(prefix)
    return found


def table(rows: Mapping[str, Sequence[dict[str, tuple[float, float]]]]) -> list[str]:
    """Medians as a Markdown table."""
    lines = ["| tool | run | wall, s | CPU, s |", "|--|--|--:|--:|"]
    for name, runs in rows.items():
        for kind in runs[0]:
            wall, cpu = (statistics.median(run[kind][index] for run in runs) for index in (0, 1))
            lines.append(f"| {name} | {kind} | {wall:.2f} | {cpu:.2f} |")
    return lines


def main() -> None:
    """Measure, and print what was found and what was not here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="let lockgen byte-compile, as conda does")
    options = parser.parse_args()
    locks = find_locks(options.lock)
    with tempfile.TemporaryDirectory(dir=options.lock.absolute().parent) as name:
        folder = Path(name)
        explicit = folder / "explicit.txt"
        explicit.write_text(next(iter(codec("explicit").dump(locks).values())))
        (folder / "pixi.lock").write_text(codec("pixi-v7").dump(locks)["pixi.lock"])
        here = tools(options.lock, explicit, folder / "cache", compiled=options.compile)
        runs: dict[str, list[dict[str, tuple[float, float]]]] = {tool.name: [] for tool in here}
        for _ in range(options.runs):
            for tool in here:
                runs[tool.name].append(measured(tool, folder))
    packages = locks[0].platforms[0].packages
    size = sum(one.size for one in packages) / 1e6
    print(f"{len(packages)} packages, {size:.0f} MB of archives, {os.cpu_count()} cores\n")
    print("\n".join(table(runs)))
    if missing := [name for name in PEERS if name not in runs]:
        print(f"\nnot on PATH, not measured: {', '.join(missing)}")


if __name__ == "__main__":
    main()
