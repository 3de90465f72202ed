"""Where package metadata comes from: live channels through rattler's client, or a folder that holds a snapshot."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import platformdirs
import zstandard
from rattler import Channel, Config, Gateway, PackageName, RepoDataRecord, Subdir
from rattler.repo_data.sparse import SparseRepoData

from lockgen import matchspec
from lockgen.channelname import channel_name, folder_name
from lockgen.errors import ChannelError, Problem
from lockgen.lock.model import LockedPackage
from lockgen.request import Request

_NAMES = ("repodata.json", "repodata.json.zst")
_FORM = "a snapshot is a folder CHANNEL/SUBDIR/repodata.json[.zst]"


def bundled_snapshot() -> Path:
    """The folder of the conda-forge metadata that comes with lockgen."""
    return Path(str(resources.files("lockgen"))) / "snapshot"


@dataclass(slots=True, kw_only=True)
class Channels:
    """Access to channel metadata; one value serves all solves of a run, so nothing is read twice."""

    snapshot: Path | None = None
    """A folder `CHANNEL/SUBDIR/repodata.json[.zst]` that stands for the live channels; None to reach them."""
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(os.cpu_count() or 2))
    """As many solves at a time as there are processors: more would only take memory."""
    _gateway: Gateway | None = None
    _files: dict[tuple[str, str], SparseRepoData] = field(default_factory=dict)

    @property
    def is_sample(self) -> bool:
        """Whether only the metadata that comes with lockgen is seen."""
        return self.snapshot == bundled_snapshot()

    def gateway(self) -> Gateway:
        """Rattler's client, set up by its own configuration: mirrors, proxies, credentials."""
        if self._gateway is None:
            self._gateway = Gateway.from_config(Config.load_from_default_locations("lockgen"))
        return self._gateway

    def sources(self, request: Request) -> list[Any]:
        """
        What rattler solves from, highest priority first.

        Raises:
            ChannelError: the snapshot does not hold a channel, or holds it broken.
        """
        if self.snapshot is not None and not self.snapshot.is_dir():
            raise ChannelError(Problem(message=f"no such folder: {self.snapshot}", hint=_FORM))
        found: list[Any] = []
        for url in request.channels:
            if self.snapshot is None or url.startswith("file://"):
                found.append(Channel(url))
                continue
            parts = [self._file(url, subdir) for subdir in (request.platform, "noarch")]
            if not any(parts):
                raise ChannelError(
                    Problem(
                        message=f"the snapshot has no channel `{channel_name(url)}`", hint=_snapshot_hint(self.snapshot)
                    )
                )
            found += [part for part in parts if part]
        return found

    async def records(self, request: Request, names: Iterable[str]) -> dict[str, list[LockedPackage]]:
        """All builds of some packages that the request may choose from, by name; strict priority is respected."""
        wanted = sorted(set(names))
        result: dict[str, list[LockedPackage]] = {name: [] for name in wanted}
        sources = self.sources(request)
        live = [source for source in sources if isinstance(source, Channel)]
        files = [source for source in sources if not isinstance(source, Channel)]
        batches = [source.load_records(PackageName(name)) for source in files for name in wanted]
        if live:
            subdirs = [Subdir(request.platform), Subdir("noarch")]
            batches += await self.gateway().query(live, subdirs, wanted, recursive=False)
        for record in (record for batch in batches for record in batch):
            result[record.name.normalized].append(package(record))
        return {name: _visible(builds, request) for name, builds in result.items()}

    def _file(self, url: str, subdir: str) -> SparseRepoData | None:
        key = (url, subdir)
        if key not in self._files:
            path = _repodata(self.snapshot or Path(), url, subdir)
            if path is None:
                return None
            self._files[key] = _opened(path, url, subdir)
        return self._files[key]


def _opened(path: Path, url: str, subdir: str) -> SparseRepoData:
    """A snapshot's metadata, open; unpacked into the user's cache where it is compressed."""
    try:
        if path.suffix != ".zst":
            return SparseRepoData(Channel(url), subdir, path)
        data = path.read_bytes()
        cached = _place_in_cache(data)
        if cached.is_file():
            with suppress(OSError):  # damaged since it was written: it is unpacked again
                return SparseRepoData(Channel(url), subdir, cached)
        with _unpacked(data, cached) as plain:
            return SparseRepoData(Channel(url), subdir, plain)
    except (OSError, zstandard.ZstdError) as error:
        hint = "get the file again: it is not whole, or not the metadata of a channel"
        raise ChannelError(Problem(message=f"cannot read {path}", detail=str(error), hint=hint)) from None


def _snapshot_hint(snapshot: Path) -> str:
    held = sorted(child.name for child in snapshot.iterdir() if child.is_dir() and not child.name.startswith("_"))
    return f"it holds: {', '.join(held) or 'none'}; leave out `--offline` or `--snapshot` to reach the live channel"


def _repodata(snapshot: Path, url: str, subdir: str) -> Path | None:
    """The metadata file of a subdir, plain or compressed; None where the snapshot has none."""
    folder = snapshot / folder_name(url) / subdir
    return next((path for name in _NAMES if (path := folder / name).is_file()), None)


def _place_in_cache(data: bytes) -> Path:
    """Where the user's cache keeps the plain text of compressed data."""
    cache = Path(os.environ.get("LOCKGEN_CACHE_DIR") or platformdirs.user_cache_dir("lockgen")) / "repodata"
    return cache / f"{hashlib.sha256(data).hexdigest()}.json"


@contextmanager
def _unpacked(data: bytes, target: Path) -> Iterator[Path]:
    """The plain text of compressed data: in the cache at `target`, else a file that is gone once it is open."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    text = decompressor.decompress(data)
    if not decompressor.eof:
        raise zstandard.ZstdError("the compressed data ends too early")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, text)
    except OSError:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            target = Path(folder) / "repodata.json"
            target.write_bytes(text)
            yield target
        return
    yield target


def _replace(target: Path, text: bytes) -> None:
    """Write a file so that no reader ever sees a part of it."""
    handle, name = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text)
        os.replace(name, target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _visible(builds: Sequence[LockedPackage], request: Request) -> list[LockedPackage]:
    if request.cutoff:
        limit = datetime.fromisoformat(request.cutoff).timestamp() * 1000
        builds = [build for build in builds if (build.timestamp or 0) <= limit]
    if request.channel_priority == "strict" and builds:
        first = min(request.channels.index(build.channel) for build in builds)
        builds = [build for build in builds if build.channel == request.channels[first]]
    return sorted(builds, key=lambda build: (matchspec.version_key(build.version), build.build_number, build.build))


def package(record: RepoDataRecord) -> LockedPackage:
    """A rattler record as a plain value."""
    fields = json.loads(record.to_json())
    features = fields.get("track_features") or ()
    return LockedPackage(
        name=fields["name"],
        version=fields["version"],
        build=fields["build"],
        build_number=fields["build_number"],
        subdir=fields["subdir"],
        channel=record.channel.rstrip("/"),
        url=record.url,
        sha256=fields.get("sha256") or "",
        md5=fields.get("md5") or "",
        size=fields.get("size") or 0,
        depends=tuple(fields.get("depends") or ()),
        constrains=tuple(fields.get("constrains") or ()),
        track_features=tuple(features.split() if isinstance(features, str) else features),
        noarch=fields.get("noarch"),
        license=fields.get("license"),
        license_family=fields.get("license_family"),
        timestamp=fields.get("timestamp"),
        python_site_packages_path=fields.get("python_site_packages_path"),
    )
