"""
The flagship's `lockgen resolve` beside a bare py-rattler solve of the same request, and conda-lock, in one run.

Every row is a whole process, run in turn with the others so that a busy machine slows all of them; the figures are
medians. Usage: python benchmarks/resolve.py [--runs N] [--channels DIR] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import zstandard

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "envs" / "pytorch-2.9-nlp.yaml"
BARE = Path(__file__).with_name("bare_solve.py")
LOCKGEN = (sys.executable, "-m", "lockgen.cli.main")
SOLVERS = ("micromamba", "mamba", "conda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process: wall time and CPU time in seconds, peak memory in MB."""

    wall: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A promise, and whether it was kept."""

    what: str
    value: float
    limit: float
    unit: str

    @property
    def kept(self) -> bool:
        return self.value <= self.limit


def measured(command: Sequence[str], cwd: Path) -> Run:
    """Run a command to its end; a failure is an error, since its time would mean nothing."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{errors.read().decode(errors='replace')}")
    return Run(wall=wall, cpu=usage.ru_utime + usage.ru_stime, memory=usage.ru_maxrss / 1024)


def median(runs: Sequence[Run]) -> Run:
    """The middle of each figure."""
    return Run(
        wall=statistics.median(run.wall for run in runs),
        cpu=statistics.median(run.cpu for run in runs),
        memory=statistics.median(run.memory for run in runs),
    )


def unpacked(channels: Path, work: Path) -> Path:
    """conda-forge as plain files, which a `file://` channel needs."""
    for packed in (channels / "conda-forge").glob("*/repodata.json.zst"):
        folder = work / "conda-forge" / packed.parent.name
        folder.mkdir(parents=True)
        data = zstandard.ZstdDecompressor().decompressobj().decompress(packed.read_bytes())
        (folder / "repodata.json").write_bytes(data)
    return work / "conda-forge"


def commands(channels: Path, work: Path) -> dict[str, tuple[str, ...]]:
    """What is run, by name; the bare solves get the very request that lockgen locked."""
    folder = unpacked(channels, work)
    by_path = work / "by-path.yaml"
    by_path.write_text(SPEC.read_text() + f"channels: [{folder}]\n")
    resolve = (*LOCKGEN, "resolve", str(SPEC), "--snapshot", str(channels), "-o", str(work / "out"))
    measured(resolve, work)
    listed = subprocess.run((*LOCKGEN, "list", "--json", str(work / "out")), capture_output=True, check=True)
    request = json.loads(listed.stdout)[0]["platforms"][0]["request"]
    (work / "request.json").write_text(json.dumps(request))
    bare = (sys.executable, str(BARE), str(work / "request.json"), str(folder))
    return {
        "lockgen resolve": resolve,
        "bare solve, files opened": (*bare, "sparse"),
        "lockgen resolve, channel by path": (*LOCKGEN, "resolve", str(by_path), "-o", str(work / "by-path")),
        "bare solve, channel client": (*bare, "gateway"),
        "lockgen resolve --check": (*LOCKGEN, "resolve", str(SPEC), "-o", str(work / "out"), "--check"),
        "lockgen --help": (*LOCKGEN, "--help"),
        **conda_lock(folder, work, request),
    }


def conda_lock(folder: Path, work: Path, request: dict[str, object]) -> dict[str, tuple[str, ...]]:
    """conda-lock with the solver that is on PATH; nothing where there is none."""
    solver = next((found for name in SOLVERS if (found := shutil.which(name))), None)
    tool = shutil.which("conda-lock", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not solver or not tool:
        return {}
    requirements = request["requirements"]
    assert isinstance(requirements, list)
    specs = "".join(f"  - {one['spec']}\n" for one in requirements)
    source = work / "environment.yml"
    source.write_text(f"channels: [file://{folder}]\ndependencies:\n{specs}platforms: [linux-64]\n")
    virtual = work / "virtual-packages.yml"
    virtual.write_text('subdirs:\n  linux-64:\n    packages:\n      __glibc: "2.28"\n      __cuda: "12.1"\n')
    name = f"conda-lock with {Path(solver).name}"
    arguments = ("lock", "--conda", solver, "-f", str(source), "--virtual-package-spec", str(virtual))
    return {name: (tool, *arguments, "--lockfile", str(work / "peer.yml"))}


def targets(rows: dict[str, Run]) -> tuple[Target, ...]:
    """The promises, like compared with like: files opened by lockgen with files opened, the client with the client."""
    ours, bare = rows["lockgen resolve"], rows["bare solve, files opened"]
    path, client = rows["lockgen resolve, channel by path"], rows["bare solve, channel client"]
    return (
        Target(what="wall time, resolve / bare solve", value=ours.wall / bare.wall, limit=2.0, unit="×"),
        Target(what="wall time, the same with the channel client", value=path.wall / client.wall, limit=2.0, unit="×"),
        Target(what="peak memory, resolve / bare solve", value=ours.memory / bare.memory, limit=1.3, unit="×"),
        Target(
            what="peak memory, the same with the channel client", value=path.memory / client.memory, limit=1.3, unit="×"
        ),
        Target(what="CPU of `lockgen --help`", value=rows["lockgen --help"].cpu, limit=0.20, unit=" s"),
        Target(what="CPU of `resolve --check`", value=rows["lockgen resolve --check"].cpu, limit=0.35, unit=" s"),
    )


def report(rows: dict[str, Run], runs: int) -> str:
    """The tables, in Markdown."""
    lines = ["| process | wall s | CPU s | peak MB |", "|--|--:|--:|--:|"]
    lines += [f"| {name} | {run.wall:.2f} | {run.cpu:.2f} | {run.memory:.0f} |" for name, run in rows.items()]
    if not any(name.startswith("conda-lock") for name in rows):
        lines.append("| conda-lock | – | – | – |")
    lines += ["", "| target | measured | limit | |", "|--|--:|--:|--|"]
    lines += [
        f"| {one.what} | {one.value:.2f}{one.unit} | {one.limit:.2f}{one.unit} | {'kept' if one.kept else 'missed'} |"
        for one in targets(rows)
    ]
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines += ["", f"Medians of {runs} runs in turn; {machine}, py-rattler {version('py-rattler')}."]
    if not any(name.startswith("conda-lock") for name in rows):
        lines.append(f"conda-lock was not measured: none of {', '.join(SOLVERS)} is on PATH to solve for it.")
    return "\n".join(lines) + "\n"


def write(page: Path, text: str) -> None:
    """Put the tables between the page's marks."""
    start, end = "<!-- measured -->\n", "<!-- end -->"
    before, _, rest = page.read_text().partition(start)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{start}\n{text}\n{end}{after}")


def main() -> None:
    """Measure, print the tables, and put them into a page if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--channels", type=Path, default=ROOT.parent / "shared" / "channels")
    parser.add_argument("--write", type=Path, help="page to put the tables into")
    arguments = parser.parse_args()
    if not arguments.channels.is_dir():
        raise SystemExit(f"no channel metadata at {arguments.channels}: name a folder with --channels")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        found = commands(arguments.channels.resolve(), work)
        samples: dict[str, list[Run]] = {title: [] for title in found}
        for _ in range(arguments.runs):
            for title, command in found.items():
                samples[title].append(measured(command, work))
        text = report({title: median(runs) for title, runs in samples.items()}, arguments.runs)
    print(text)
    if arguments.write:
        write(arguments.write, text)


if __name__ == "__main__":
    main()
