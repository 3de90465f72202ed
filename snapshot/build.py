"""Builds the conda-forge metadata that comes with lockgen from pinned source distributions; README.md tells how."""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import zstandard
from pypi_simple import PyPISimple
from rattler import LockFile

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "src" / "lockgen" / "snapshot"
CACHE = HERE.parent / "build" / "snapshot"
LEVEL = 22
"""The densest level of zstd; reading is as fast as at any other."""

REQUIRED = ("sha256", "md5", "size")
"""A record without one of these cannot be locked."""
DECIDING = ("name", "version", "build", "build_number", "subdir", "depends", "constrains", "noarch", "track_features")
"""What a solve or an install depends on: taken together, from one record."""
DESCRIBING = ("license", "license_family", "timestamp", "python_site_packages_path")
"""What belongs to the file and never changes: an older lock may know what a newer one left out."""

Record = dict[str, Any]
Key = tuple[str, str]
"""Subdir and file name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source distribution, and the locks in it that are read."""

    project: str
    version: str
    file: str
    sha256: str
    released: date
    locks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole of `sources.toml`; the sources are in order of release."""

    channel: str
    addresses: tuple[str, ...]
    """The channel's URL and its mirrors'."""
    subdirs: tuple[str, ...]
    supplement: Path
    sources: tuple[Source, ...]


class BuildError(Exception):
    """The inputs are not what they were pinned to be."""


def read_plan(folder: Path) -> Plan:
    """The pinned inputs."""
    data = tomllib.loads((folder / "sources.toml").read_text("utf-8"))
    sources = [Source(**(row | {"locks": tuple(row["locks"])})) for row in data["release"]]
    return Plan(
        channel=data["channel"]["name"],
        addresses=(data["channel"]["url"], *data["channel"]["mirrors"]),
        subdirs=tuple(sorted(data["subdirs"])),
        supplement=folder / data["supplement"]["file"],
        sources=tuple(sorted(sources, key=lambda source: (source.released, source.project, source.version))),
    )


def pip_setting(name: str) -> str | None:
    """A setting of pip as pip itself sees it: its environment variables first, then its files."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    for section in (":env:.", "download.", "install.", "global."):
        if section + name in found:
            return str(ast.literal_eval(found[section + name]))
    return None


@cache
def open_index() -> PyPISimple:
    """The package index that pip is set up to use, or else its usual one."""
    endpoint = pip_setting("index-url")
    index = PyPISimple(endpoint) if endpoint else PyPISimple()
    index.s.verify = pip_setting("cert") or True
    return index


def fetch(source: Source, folder: Path) -> Path:
    """
    The source distribution in a folder, downloaded if it is not there yet.

    Raises:
        BuildError: the index lacks the file, or its hash is not the pinned one.
    """
    target = folder / source.file
    if not target.is_file():
        page = open_index().get_project_page(source.project)
        found = [package for package in page.packages if package.filename == source.file]
        if not found:
            raise BuildError(f"the index has no file `{source.file}` of `{source.project}`")
        folder.mkdir(parents=True, exist_ok=True)
        open_index().download_package(found[0], target)
    with target.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != source.sha256:
        raise BuildError(f"`{target}` has sha256 {digest}, pinned is {source.sha256}")
    return target


def lock_bytes(archive: Path, source: Source) -> Iterator[bytes]:
    """The content of each lock that is read from a source distribution."""
    top = source.file.removesuffix(".tar.gz")
    with tarfile.open(archive) as tar:
        for lock in source.locks:
            name = f"{top}/{lock}"
            member = tar.extractfile(name) if name in tar.getnames() else None
            if member is None:
                raise BuildError(f"`{source.file}` has no file `{lock}`")
            yield member.read()


def records_of(content: bytes, plan: Plan) -> dict[Key, Record]:
    """The channel's records in a pixi lock of any version."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pixi.lock"
        path.write_bytes(content)
        lock = LockFile.from_path(path)
    found: dict[Key, Record] = {}
    for _, environment in lock.environments():
        for platform in environment.platforms():
            for record in environment.conda_repodata_records_for_platform(platform) or []:
                places = [f"{address}/{record.subdir}/{record.file_name}" for address in plan.addresses]
                if record.subdir in plan.subdirs and record.url in places:
                    found[(record.subdir, record.file_name)] = json.loads(record.to_json())
    return found


def supplement_records(plan: Plan) -> dict[Key, Record]:
    """The single records that no source has."""
    data = json.loads(plan.supplement.read_text("utf-8"))
    return {(subdir, file): row for subdir in plan.subdirs for file, row in data.get(subdir, {}).items()}


def is_complete(record: Record) -> bool:
    """Whether a lock made from the record could be installed and checked."""
    return all(record.get(field) for field in REQUIRED)


def newer(older: Record | None, record: Record, key: Key) -> Record:
    """
    What is known of one file after a later source was read.

    A channel mends the dependencies of files that it published long ago, so two locks may differ on one file: the
    later one is believed as a whole. Only what belongs to the file itself is kept where the later lock is silent.

    Raises:
        BuildError: the two are different files under one name.
    """
    for name in REQUIRED:
        if older and older[name] != record[name]:
            raise BuildError(f"`{'/'.join(key)}` has {name} {older[name]} in one source, {record[name]} in another")
    told = {name: record.get(name) for name in (*DECIDING, *REQUIRED)}
    described = {name: record.get(name) or (older or {}).get(name) for name in DESCRIBING}
    entry = {name: value for name, value in (told | described).items() if value not in (None, "")}
    return entry | {"depends": record.get("depends") or [], "constrains": record.get("constrains") or []}


@dataclass(slots=True)
class Merge:
    """Records gathered so far, and where each came from last."""

    channel: str
    """The channel's own URL; a record without a URL is taken to be of the channel."""
    records: dict[Key, Record] = field(default_factory=dict)
    origin: dict[Key, str] = field(default_factory=dict)
    direct: set[Key] = field(default_factory=set)
    """Files that were seen under the channel's own URL, not only a mirror's."""
    dropped: set[Key] = field(default_factory=set)

    def add(self, origin: str, found: dict[Key, Record]) -> None:
        """Take in what one lock tells; locks come in order of release."""
        for key, record in found.items():
            if not is_complete(record):
                self.dropped.add(key)
                continue
            self.records[key] = newer(self.records.get(key), record, key)
            self.origin[key] = origin
            if record.get("url", self.channel).startswith(self.channel):
                self.direct.add(key)


def repodata(subdir: str, records: dict[Key, Record]) -> bytes:
    """One subdir's metadata in the layout that conda clients read."""
    rows = {file: record for (place, file), record in records.items() if place == subdir}
    document = {
        "info": {"subdir": subdir},
        "packages": {file: row for file, row in rows.items() if file.endswith(".tar.bz2")},
        "packages.conda": {file: row for file, row in rows.items() if file.endswith(".conda")},
        "removed": [],
        "repodata_version": 1,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def compress(data: bytes) -> bytes:
    """The same bytes for the same data and the same release of zstandard."""
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=True, write_checksum=True, threads=0).compress(data)


def provenance(plan: Plan, merge: Merge, read: dict[str, int], documents: dict[str, bytes]) -> bytes:
    """Where the data came from: no clock, no path, no host of a package index."""
    taken = Counter(merge.origin.values())
    totals = Counter(subdir for subdir, _ in merge.records)
    mirrored = Counter(subdir for subdir, _ in merge.records.keys() - merge.direct)
    sources = [
        {
            "project": source.project,
            "version": source.version,
            "file": source.file,
            "sha256": source.sha256,
            "released": source.released.isoformat(),
            "locks": list(source.locks),
            "records": read[source.file],
            "records_taken": taken[source.file],
        }
        for source in plan.sources
    ]
    supplement = plan.supplement
    document = {
        "channel": plan.addresses[0],
        "sources": sources,
        "supplement": {
            "file": supplement.name,
            "sha256": hashlib.sha256(supplement.read_bytes()).hexdigest(),
            "records": read[supplement.name],
            "records_taken": taken[supplement.name],
        },
        "dropped": len(merge.dropped - set(merge.records)),
        "subdirs": {
            subdir: {
                "records": totals[subdir],
                "seen_only_on_a_mirror": mirrored[subdir],
                "repodata_sha256": hashlib.sha256(data).hexdigest(),
            }
            for subdir, data in documents.items()
        },
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def build(plan: Plan, downloads: Path) -> dict[str, bytes]:
    """All files of the snapshot by their path in it; the metadata is not compressed yet."""
    merge = Merge(plan.addresses[0])
    supplement = supplement_records(plan)
    merge.add(plan.supplement.name, supplement)
    read = {plan.supplement.name: len(supplement)}
    for source in plan.sources:
        seen: set[Key] = set()
        for content in lock_bytes(fetch(source, downloads), source):
            found = records_of(content, plan)
            merge.add(source.file, found)
            seen |= found.keys()
        read[source.file] = len(seen)
        print(f"{source.file}: {len(seen)} records", file=sys.stderr)
    documents = {subdir: repodata(subdir, merge.records) for subdir in plan.subdirs}
    files = {f"{plan.channel}/{subdir}/repodata.json": data for subdir, data in documents.items()}
    return files | {"provenance.json": provenance(plan, merge, read, documents)}


def write(files: dict[str, bytes], target: Path) -> None:
    """Replace the committed data."""
    for name, data in files.items():
        packed = name.endswith("repodata.json")
        path = target / (f"{name}.zst" if packed else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compress(data) if packed else data)
        print(f"{path.relative_to(target)}: {path.stat().st_size:,} bytes")


def stale(files: dict[str, bytes], target: Path) -> list[str]:
    """The files whose committed content is another; compressed ones are compared by what is in them."""
    return [name for name, data in files.items() if _committed(target / name) != data]


def _committed(path: Path) -> bytes | None:
    packed = path.with_name(f"{path.name}.zst")
    if packed.is_file():
        return zstandard.ZstdDecompressor().decompress(packed.read_bytes())
    return path.read_bytes() if path.is_file() else None


def main(arguments: Sequence[str]) -> int:
    """Build and write, or build and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the downloads (default: build/snapshot)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the committed data differ")
    options = parser.parse_args(arguments)
    try:
        files = build(read_plan(HERE), options.cache)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not options.check:
        write(files, TARGET)
        return 0
    different = stale(files, TARGET)
    for name in different:
        print(f"{name}: differs from what the sources give; run `python snapshot/build.py`")
    return 1 if different else 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # py-rattler's threads can abort a normal shutdown and lose the code
