"""A lock into a prefix: everything is looked at first, fetched next, changed last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lockgen.errors import LockgenError, Problem
from lockgen.install import cache
from lockgen.install import prefix as prefixes
from lockgen.install.progress import Progress
from lockgen.install.target import Target
from lockgen.lock.foreign import Part


class HostError(LockgenError):
    """This machine cannot run the packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to install."""

    host_check: bool = True
    verify_cache: bool = False
    compile: bool = False
    patience: float = 60.0
    """Seconds without a byte after which a download counts as hung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was done."""

    prefix: Path
    packages: int
    """In the prefix now."""
    linked: int
    removed: tuple[str, ...]
    """Names that are no longer there."""
    mended: tuple[str, ...]
    """Names whose files in the cache or in the prefix were not right."""
    compiled: bool


def install(target: Target, named: Path, options: Options, progress: Progress) -> Result:
    """
    Make a prefix hold exactly the packages of a target.

    A prefix that is right is left alone, in little time. Until all packages are in the cache and checked, an
    environment that is there stays as it is; a run that is killed later is mended by the next one.

    Raises:
        PrefixError: the folder cannot be an environment.
        HostError: the machine cannot run the packages.
        PackageError: a package cannot be had, or is not the one that was locked.
    """
    prefix = prefixes.checked(named)
    wanted = prefixes.digest(target.packages)
    if not options.verify_cache and prefixes.is_known(prefix, wanted, compiled=options.compile):
        return _result(prefix, target)
    if options.host_check:
        check_host(target)
    try:
        with prefixes.held(prefix, progress.say):
            return _install(target, prefix, wanted, options, progress)
    finally:
        progress.close()


def _install(target: Target, prefix: Path, wanted: str, options: Options, progress: Progress) -> Result:
    present = prefixes.installed(prefix)
    _keep_conda(present, target, prefix)
    bad = _bad(target, prefix, present, options)
    changes = prefixes.changes(present, target.packages, bad)
    if changes:
        _apply(target, prefix, present, changes, options, progress)
    prefixes.finish(prefix, cache.cache_folder())
    compiled = options.compile and _compile(prefix, progress)
    prefixes.remember(prefix, wanted, compiled=compiled)
    names = {package.name for package in target.packages}
    return _result(
        prefix,
        target,
        linked=len(changes.link),
        removed=tuple(one.name for one in changes.remove if one.name and one.name not in names),
        mended=tuple(sorted(bad)),
        compiled=compiled,
    )


def _apply(
    target: Target,
    prefix: Path,
    present: Sequence[prefixes.Installed],
    changes: prefixes.Changes,
    options: Options,
    progress: Progress,
) -> None:
    from lockgen.install import transaction

    folder = cache.cache_folder()
    job = transaction.Job(
        prefix=prefix,
        platform=target.platform,
        packages=target.packages,
        reinstall=changes.reinstall,
        requested=target.requested,
        cache=folder,
        verify_cache=options.verify_cache,
        patience=options.patience,
    )
    cache.check_local(folder, changes.link)
    missing = transaction.missing_from_cache(job, changes.link)
    cache.check_room(folder, missing)
    remote = sum(one.size for one in missing if not one.url.startswith("file://"))
    progress.start(fetch=len(missing), size=remote, link=len(changes.link))
    if present:
        transaction.fetch_first(job, missing, progress)
    prefixes.begin(prefix, changes)
    transaction.apply(job, progress)
    prefixes.complete(prefix, [one for one in changes.link if not one.size])


def _bad(target: Target, prefix: Path, present: Sequence[prefixes.Installed], options: Options) -> frozenset[str]:
    """Packages to install again: not whole after a killed run, or (on request) changed in the cache."""
    bad = prefixes.broken(prefix, present) if prefixes.is_unfinished(prefix) else frozenset()
    if options.verify_cache:
        bad |= cache.changed(cache.cache_folder(), target.packages)
    return bad & {package.name for package in target.packages}


def _keep_conda(present: Sequence[prefixes.Installed], target: Target, prefix: Path) -> None:
    """Refuse to take conda out of its own installation."""
    wanted = {package.name for package in target.packages}
    gone = [one.name for one in present if one.name in ("conda", "mamba") and one.name not in wanted]
    if gone and (prefix / "condabin").is_dir():
        message = f"{prefix} is the installation of {gone[0]} itself, which this lock would remove"
        raise prefixes.PrefixError(Problem(message=message, hint="name another prefix"))


def _compile(prefix: Path, progress: Progress) -> bool:
    from lockgen.install import compiling

    processes = compiling.cores()
    progress.say(f"compiling with {processes} process{'es' if processes > 1 else ''}")
    return compiling.compile_all(prefix, processes)


def check_host(target: Target) -> None:
    """
    Refuse packages that this machine cannot run.

    Raises:
        HostError: with every reason.
    """
    from lockgen.host import read_host
    from lockgen.install.host_check import lacking

    part = Part(environment=target.environment, platform=target.platform, packages=target.packages)
    lacks = lacking(part, read_host({}))
    hint = f"`lockgen doctor {target.file}` says what would do; `--no-host-check` installs it anyway, as for an image"
    if lacks:
        raise HostError(
            *(Problem(message=one.message) for one in lacks[:-1]), Problem(message=lacks[-1].message, hint=hint)
        )


def _result(
    prefix: Path,
    target: Target,
    linked: int = 0,
    removed: tuple[str, ...] = (),
    mended: tuple[str, ...] = (),
    compiled: bool = False,
) -> Result:
    return Result(
        prefix=prefix, packages=len(target.packages), linked=linked, removed=removed, mended=mended, compiled=compiled
    )
