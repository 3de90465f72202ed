"""Channels made up for tests: a folder of `repodata.json` files that the real solver reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lockgen.channels import Channels
from lockgen.lock.model import Lock, LockedPackage, PlatformLock
from lockgen.plan import Plan, plan
from lockgen.resolve import resolve
from lockgen.spec.parse import load

Record = tuple[str, dict[str, Any]]
"""A file name, and its entry in `repodata.json`; the entry's `subdir` says where it goes."""

TIMESTAMP = 1_700_000_000_000


def record(
    name: str,
    version: str = "1.0",
    build: str = "h0_0",
    depends: Iterable[str] = (),
    constrains: Iterable[str] = (),
    **fields: Any,
) -> Record:
    """A record of linux-64 with hashes and a size taken from its file name."""
    filename = f"{name}-{version}-{build}.conda"
    noarch = {"subdir": "noarch"} if "noarch" in fields else {}
    return filename, {
        "name": name,
        "version": version,
        "build": build,
        "build_number": 0,
        "subdir": "linux-64",
        "depends": list(depends),
        "constrains": list(constrains),
        "md5": hashlib.md5(filename.encode()).hexdigest(),
        "sha256": hashlib.sha256(filename.encode()).hexdigest(),
        "size": 1000 + len(filename),
        "timestamp": TIMESTAMP,
        **noarch,
        **fields,
    }


def write_channel(folder: Path, records: Iterable[Record], subdirs: Iterable[str] = ("linux-64", "noarch")) -> Path:
    """Write a channel: `SUBDIR/repodata.json` for every subdir, in the order of the records."""
    found: dict[str, dict[str, Any]] = {subdir: {} for subdir in subdirs}
    for filename, entry in records:
        found.setdefault(entry["subdir"], {})[filename] = entry
    for subdir, packages in found.items():
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        content = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": packages, "repodata_version": 1}
        (folder / subdir / "repodata.json").write_text(json.dumps(content))
    return folder


def snapshot(folder: Path, **channels: Iterable[Record]) -> Path:
    """A snapshot of some channels; `conda_forge` is written as `conda-forge`."""
    for name, records in channels.items():
        write_channel(folder / name.replace("_", "-"), records)
    return folder


def planned(text: str, file: str = "spec.yaml") -> Plan:
    """The plan of a spec given as text; what it extends is read from disk."""

    def reading(path: Path) -> bytes:
        return text.encode() if path == Path(file) else path.read_bytes()

    return plan(load(Path(file), reading))


def resolved(text: str, folder: Path | None) -> tuple[Lock, ...]:
    """The locks of a spec given as text, solved against a snapshot."""
    return resolve(planned(text), Channels(snapshot=folder))


def only(locks: tuple[Lock, ...]) -> PlatformLock:
    """The one answer for one platform, where the spec asks for no more."""
    (lock,) = locks
    (answer,) = lock.platforms
    return answer


def by_name(answer: PlatformLock) -> dict[str, LockedPackage]:
    """The packages of an answer by name."""
    return {package.name: package for package in answer.packages}


def pytorch(version: str, *, cuda: str | None, python: str = "3.13", **fields: Any) -> list[Record]:
    """PyTorch as conda-forge builds it: `pytorch` and `libtorch` for one CUDA, `12.9`, or for the CPU."""
    flavour = f"cuda{cuda.replace('.', '')}" if cuda else "cpu"
    major = int(cuda.split(".")[0]) if cuda else 0
    toolkit = [f"cuda-version >={cuda},<{major + 1}", "__cuda"] if cuda else []
    tag = "py" + python.replace(".", "")
    exact = f"libtorch {version} {flavour}_h0_0"
    return [
        record("libtorch", version, f"{flavour}_h0_0", toolkit, **fields),
        record("pytorch", version, f"{flavour}_{tag}_h0_0", [f"python {python}.*", exact, *toolkit], **fields),
    ]


def cuda_version(version: str) -> Record:
    """The package that pins the toolkit and asks for a driver of its major."""
    return record("cuda-version", version, "h0_3", constrains=[f"__cuda >={version.split('.')[0]}"], noarch="generic")


def python(version: str = "3.13.1") -> Record:
    """A Python without dependencies."""
    return record("python", version, "h0_100")


def gpu_channel(*more: Record) -> list[Record]:
    """Python 3.13 and PyTorch 2.9 for CUDA 12.9 and for the CPU, and what is given."""
    return [
        python(),
        cuda_version("12.1"),
        cuda_version("12.9"),
        *pytorch("2.9.1", cuda="12.9"),
        *pytorch("2.9.1", cuda=None),
        *more,
    ]
