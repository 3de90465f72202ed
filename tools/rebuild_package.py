"""Put a rebuilt package into a channel, beside the one it follows: `python tools/rebuild_package.py CHANNEL NAME`.

Its build number is one higher, it is a day younger, and one of its Python files has one more line: the least that an
update brings along. Tests and benchmarks of images lock again with it and count what moves.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import zstandard

from lockgen.channel.index import index

LINE = b"\n# rebuilt\n"
DAY = 86_400_000
"""Milliseconds."""


def rebuild(channel: Path, name: str) -> Path:
    """The new archive; the channel's index lists it."""
    old = newest(channel, name)
    with zipfile.ZipFile(old) as archive:
        parts = {member: archive.read(member) for member in archive.namelist()}
    files = {kind: unpacked(data) for kind in ("pkg", "info") for member, data in parts.items() if kind in member[:4]}
    facts = json.loads(files["info"]["info/index.json"][1])
    stem = f"{facts['name']}-{facts['version']}-{renumbered(facts)}"
    change(files, facts)
    target = old.with_name(f"{stem}.conda")
    temporary = target.with_suffix(".new")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("metadata.json"), parts["metadata.json"])
        for kind in ("pkg", "info"):
            archive.writestr(zipfile.ZipInfo(f"{kind}-{stem}.tar.zst"), packed(files[kind]))
    temporary.replace(target)
    index(channel)
    return target


def newest(channel: Path, name: str) -> Path:
    """The archive of a package with the highest build number."""
    found: list[tuple[int, Path]] = []
    for file in channel.glob("*/repodata.json"):
        for filename, row in json.loads(file.read_text())["packages.conda"].items():
            if row["name"] == name:
                found.append((row["build_number"], file.parent / filename))
    return max(found)[1]


def renumbered(facts: dict[str, Any]) -> str:
    """Counts the build number up, and gives the build's new name."""
    facts["build_number"] += 1
    facts["timestamp"] = facts.get("timestamp", 0) + DAY
    head, _, _ = facts["build"].rpartition("_")
    facts["build"] = f"{head}_{facts['build_number']}"
    return str(facts["build"])


Files = dict[str, tuple[tarfile.TarInfo, bytes]]


def change(files: dict[str, Files], facts: dict[str, Any]) -> None:
    """Adds the line to the first Python file, and writes what the archive says of itself anew."""
    path = next(path for path in sorted(files["pkg"]) if path.endswith(".py"))
    data = files["pkg"][path][1]
    replace(files["pkg"], path, data + LINE)
    rows = json.loads(files["info"]["info/paths.json"][1])
    for row in rows["paths"]:
        if row["_path"] == path:
            row |= {"sha256": hashlib.sha256(data + LINE).hexdigest(), "size_in_bytes": len(data + LINE)}
    replace(files["info"], "info/paths.json", json.dumps(rows).encode())
    replace(files["info"], "info/index.json", json.dumps(facts).encode())


def replace(files: Files, path: str, data: bytes) -> None:
    """Gives a member other content."""
    member, _ = files[path]
    member.size = len(data)
    files[path] = (member, data)


def unpacked(data: bytes) -> Files:
    """The members of a `.tar.zst` in their order."""
    text = io.BytesIO(zstandard.ZstdDecompressor().stream_reader(data).read())
    with tarfile.open(fileobj=text) as tar:
        return {member.name: (member, _read(tar, member)) for member in tar}


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member) if member.isreg() else None  # a link may point outside of the archive
    return file.read() if file else b""


def packed(files: Files) -> bytes:
    """The members as a `.tar.zst`."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        for member, data in files.values():
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return zstandard.ZstdCompressor(level=3, threads=2).compress(text.getbuffer())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Put a rebuilt package into a channel.")
    parser.add_argument("channel", type=Path)
    parser.add_argument("name")
    given = parser.parse_args()
    print(rebuild(given.channel, given.name), flush=True)
    os._exit(0)  # rattler's threads can abort a normal shutdown
