"""Packages → cache → prefix, through rattler's installer: events, time limits, errors in words."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rattler
from rattler import (
    BuildString,
    Client,
    Config,
    MatchSpec,
    NoArchType,
    PackageCache,
    PackageCacheLayer,
    PackageRecord,
    RepoDataRecord,
    Subdir,
    ValidationMode,
)

from lockgen.errors import LockgenError, Problem
from lockgen.install.cache import PackageError, mismatch
from lockgen.install.prefix import scratch
from lockgen.install.progress import Progress
from lockgen.lock.model import LockedPackage

TRIES = 2
_TICK = 0.1
_FILE = re.compile(r"failed to (?:fetch|link) (\S+)")
_HASH = re.compile(r"expected ([0-9a-f]{32,64}), got ([0-9a-f]{32,64})")
_SERVER = re.compile(r"status server error \((\d+[^)]*)\)|\((429[^)]*)\)")
_CLIENT = re.compile(r"status client error \((\d+[^)]*)\) for url \((\S+)\)")
_PASSING = ("error sending request", "error reading a body", "error decoding response body", "timed out")
_CUT = ("end of file before message length", "failed to fill whole buffer", "unexpected end", "unexpected EOF")


class _Stalled(Exception):
    """No byte came for too long."""


class _Passing(PackageError):
    """A failure of the network that may be over soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What rattler is to do."""

    prefix: Path
    written: Path | None = None
    """The prefix to write into files, where it is not that one."""
    platform: str
    packages: tuple[LockedPackage, ...]
    """All that the prefix is to hold."""
    reinstall: frozenset[str] = frozenset()
    requested: tuple[str, ...] = ()
    cache: Path
    verify_cache: bool = False
    patience: float = 60.0
    """Seconds without a byte after which a download counts as hung."""


def fetch_first(job: Job, missing: Sequence[LockedPackage], progress: Progress) -> None:
    """
    Bring packages into the cache without touching the environment.

    Rattler has no call that only fetches, so they are installed into a folder inside the prefix, on its disk: where
    that works, there is also room for the change itself.

    Raises:
        PackageError: one cannot be had, is not the one that was locked, or finds no room.
    """
    if not missing:
        return
    names = {one.name for one in missing}
    python = [one for one in job.packages if one.name == "python" and one.name not in names]
    folder = scratch(job.prefix)
    shutil.rmtree(folder, ignore_errors=True)
    part = Job(
        prefix=folder,
        written=job.prefix,
        platform=job.platform,
        packages=(*missing, *python),
        cache=job.cache,
        verify_cache=job.verify_cache,
        patience=job.patience,
    )
    try:
        _patiently(part, _Events(progress, links=False))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def apply(job: Job, progress: Progress) -> None:
    """
    Make the prefix hold exactly the job's packages.

    Raises:
        PackageError: as for `fetch_first`.
    """
    _patiently(job, _Events(progress, links=True))


def missing_from_cache(job: Job, packages: Sequence[LockedPackage]) -> tuple[LockedPackage, ...]:
    """Those packages that have to be fetched, or at least looked at."""
    cached: set[LockedPackage] = set() if job.verify_cache else _cached(job)
    return tuple(one for one in packages if one not in cached)


def _cached(job: Job) -> set[LockedPackage]:
    if not job.cache.is_dir():
        return set()
    index = asyncio.run(_index(job))
    return {one for one in job.packages if index.contains_record(_record(one))}


async def _index(job: Job) -> rattler.CacheIndex:
    return await _cache(job).index()


def _cache(job: Job) -> PackageCache:
    mode = ValidationMode.full() if job.verify_cache else ValidationMode.skip()
    cache = PackageCache.from_layers([PackageCacheLayer(job.cache).with_validation_mode(mode)])
    # without a SHA-256 only the origin tells two archives of one name apart
    return cache if all(one.sha256 for one in job.packages) else cache.with_cached_origin()


def _record(one: LockedPackage) -> RepoDataRecord:
    record = PackageRecord(
        name=one.name,
        version=one.version,
        build=BuildString(one.build),
        build_number=one.build_number,
        subdir=one.subdir,
        noarch=NoArchType(one.noarch) if one.noarch else None,  # type: ignore[arg-type]
        depends=list(one.depends),
        constrains=list(one.constrains),
        sha256=bytes.fromhex(one.sha256) if one.sha256 else None,
        md5=bytes.fromhex(one.md5) if one.md5 else None,
        size=one.size or None,
        license=one.license,
        license_family=one.license_family,
        python_site_packages_path=one.python_site_packages_path,
    )
    if one.timestamp is not None:
        record.timestamp = datetime.fromtimestamp(one.timestamp / 1000, UTC)
    record.track_features = list(one.track_features)
    return RepoDataRecord(record, one.filename, one.url, one.channel)


# the run


class _Events:
    """Rattler's events as progress; rattler's tokens are positions in a list of names."""

    def __init__(self, progress: Progress, *, links: bool) -> None:
        self.progress = progress
        self.links = links
        self.names: list[str] = []
        self.got: dict[int, int] = {}
        """Bytes of each download that runs."""
        self.last = time.monotonic()

    def is_stalled(self, patience: float) -> bool:
        return bool(self.got) and time.monotonic() - self.last > patience

    def restart(self) -> None:
        self.names.clear()
        self.got.clear()
        self.last = time.monotonic()

    def on_populate_cache_start(self, operation: int, name: str) -> int:
        return self._token(name)

    def on_download_start(self, entry: int) -> int:
        token = self._token(self.names[entry])
        self.got[token] = 0
        self.last = time.monotonic()
        return token

    def on_download_progress(self, token: int, done: int, total: int | None) -> None:
        self.last = time.monotonic()
        self.progress.fetched(done - self.got.get(token, 0))
        self.got[token] = done

    def on_download_completed(self, token: int) -> None:
        self.last = time.monotonic()
        self.got.pop(token, None)

    def on_populate_cache_complete(self, entry: int) -> None:
        self.progress.unpacked(self.names[entry])

    def on_link_start(self, operation: int, name: str) -> int:
        return self._token(name)

    def on_link_complete(self, token: int) -> None:
        if self.links:
            self.progress.linked(self.names[token])

    def on_unlink_start(self, operation: int, name: str) -> int:
        return self._token(name)

    def on_validate_start(self, entry: int) -> int:
        return entry

    def on_post_link_start(self, name: str, script: str) -> int:
        return self._token(name)

    def on_pre_unlink_start(self, name: str, script: str) -> int:
        return self._token(name)

    def _ignore(self, *_: object) -> None: ...

    on_transaction_start = on_transaction_operation_start = on_validate_complete = on_unlink_complete = _ignore
    on_transaction_operation_complete = on_transaction_complete = on_post_link_complete = on_pre_unlink_complete = (
        _ignore
    )

    def _token(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1


def _patiently(job: Job, events: _Events) -> None:
    """Run, and run again after a failure of the network: what was fetched is kept."""
    for attempt in range(1, TRIES + 1):
        try:
            asyncio.run(_watched(job, events))
            return
        except _Passing as error:
            if attempt == TRIES:
                (problem,) = error.problems
                raise PackageError(
                    Problem(
                        message=f"{problem.message}; {TRIES} attempts failed", detail=problem.detail, hint=problem.hint
                    )
                ) from None
            events.progress.say(f"{error.problems[0].message}; trying again ({attempt + 1} of {TRIES})")
            time.sleep(1)


async def _watched(job: Job, events: _Events) -> None:
    events.restart()
    config = Config.load_from_default_locations("lockgen")
    running = asyncio.ensure_future(_install(job, config, events))
    try:
        while not running.done():
            await asyncio.wait([running], timeout=_TICK)
            if events.is_stalled(job.patience):
                names = ", ".join(sorted({events.names[token] for token in events.got}))
                raise _Passing(Problem(message=f"no byte of {names} in {job.patience:g} s"))
        running.result()
    except LockgenError:
        raise
    except Exception as error:
        raise _in_words(str(error), job) from None
    finally:
        if not running.done():
            running.cancel()
            with contextlib.suppress(BaseException):
                await running


def _install(job: Job, config: Config, events: _Events) -> Coroutine[Any, Any, None]:
    return rattler.install(
        [_record(one) for one in job.packages],
        job.prefix,
        platform=Subdir(job.platform),
        reinstall_packages=set(job.reinstall),
        requested_specs=[MatchSpec(spec, strict=False)._match_spec for spec in job.requested],
        package_cache=_cache(job),
        config=config,
        client=Client.from_config(config, max_retries=2),
        show_progress=False,
        alternative_target_prefix=job.written,
        reporter=events,
    )


# errors


def _in_words(text: str, job: Job) -> PackageError:
    """Rattler's chain of causes as one sentence, its words below."""
    named = _FILE.search(text)
    file = named[1] if named else "the packages"
    cause = text.strip().rsplit("Caused by: ", 1)[-1]
    if found := _HASH.search(text):
        kind = "sha256" if len(found[1]) == 64 else "md5"
        return PackageError(
            Problem(
                message=f"{file} is not the package that was locked",
                detail=mismatch(kind, found[1], found[2]),
                hint="nothing of it was installed; does a proxy or a mirror change what the channel gives?",
            )
        )
    if "cannot be longer than the placeholder prefix" in text:
        message = f"{file} has room for a shorter prefix only: this one has {len(str(job.prefix))} characters"
        return PackageError(Problem(message=message, hint="name a folder with a shorter path"))
    if "os error 28" in text:
        return PackageError(
            Problem(
                message=f"the disk is full: {file} finds no room",
                detail=_room(job),
                hint="`LOCKGEN_CACHE_DIR` names another folder for the cache",
            )
        )
    if found := _CLIENT.search(text):
        hint = "the channel may have removed it: resolve again" if found[1].startswith("404") else None
        return PackageError(Problem(message=f"the server answers {found[1]} for {file}", detail=found[2], hint=hint))
    if found := _SERVER.search(text):
        return _Passing(Problem(message=f"the server answers {found[1] or found[2]} for {file}"))
    if any(words in text for words in _PASSING):
        return _Passing(Problem(message=f"cannot fetch {file}: {cause}", hint="is the network up?"))
    if any(words in text for words in _CUT):
        return PackageError(Problem(message=f"{file} is cut off or no package", detail=cause))
    return PackageError(Problem(message=f"cannot install {file}: {cause}", detail=text.strip()))


def _room(job: Job) -> str:
    folders = {"environment": job.prefix, "cache": job.cache}
    return "\n".join(
        f"{shutil.disk_usage(folder).free / 1e6:.0f} MB free for the {what}: {folder}"
        for what, folder in folders.items()
        if folder.exists()
    )
