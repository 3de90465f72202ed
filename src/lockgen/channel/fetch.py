"""Wheels by name through pip and its settings, kept by their hash; what has another hash than the list is refused."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import canonicalize_name, parse_wheel_filename

from lockgen.channel.errors import BuildError, broken
from lockgen.channel.interpreter import Interpreter
from lockgen.errors import Problem, Where, error_from

_NOT_FOUND = re.compile(r"No matching distribution found for (\S+)")
_TOGETHER = 8  # wheels a call of pip: few calls, and still a line of progress now and then


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One wheel of a list."""

    name: str
    version: str
    sha256: str
    index: str | None = None
    """Another place to look, where pip's own settings have no wheel of exactly this version."""
    where: Where | None = None

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


class _NoWheel(Exception):
    """Pip knows no wheel that answers a requirement."""

    def __init__(self, requirement: str) -> None:
        self.requirement = requirement


class _PipFailed(Exception):
    """Pip could not download something, for a reason of its own."""

    def __init__(self, words: str) -> None:
        self.words = words

    def problem(self, one: Wanted) -> Problem:
        return Problem(message=f"pip could not download {one.requirement}", where=one.where, detail=self.words)


def fetch(wanted: Sequence[Wanted], cache: Path, here: Interpreter, say: Callable[[str], None]) -> Iterator[Wanted]:
    """
    Have every wheel in the cache, one after the other.

    Args:
        cache: where wheels are kept, `SHA256/FILENAME`; one that is there already is hashed, not fetched.
        say: told what is about to be fetched.

    Returns:
        The wheels as they become ready.

    Raises:
        BuildError: there is no wheel for this interpreter, or it is not the one of the list.
    """
    missing = []
    for one in wanted:
        if _is_cached(one, cache):
            yield one
        else:
            missing.append(one)
    done = 0
    for group in _groups(missing):
        done += len(group)
        say(f"downloading {', '.join(one.requirement for one in group)} ({done} of {len(missing)})")
        _fetch_group(group, cache, here)
        yield from group


def _groups(missing: Sequence[Wanted]) -> list[list[Wanted]]:
    """What one call of pip fetches; those with an index of their own first and alone, they are large."""
    plain = [one for one in missing if not one.index]
    together = [plain[start : start + _TOGETHER] for start in range(0, len(plain), _TOGETHER)]
    return [[one] for one in missing if one.index] + together


def cached(one: Wanted, cache: Path) -> Path:
    """Where a wheel lies that `fetch` had."""
    return next((cache / one.sha256).glob("*.whl"))


def sha256_of(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _is_cached(one: Wanted, cache: Path) -> bool:
    """Whether the wheel is there from before; one that was changed since is thrown away."""
    for path in (cache / one.sha256).glob("*.whl"):
        if sha256_of(path) == one.sha256:
            return True
        path.unlink()
    return False


def _fetch_group(group: Sequence[Wanted], cache: Path, here: Interpreter) -> None:
    """Fetch some wheels with one call of pip; where that fails, one by one, to say which of them it is."""
    try:
        _fetch_together(group, cache, here)
    except _PipFailed as failed:
        if len(group) == 1:
            raise BuildError(failed.problem(group[0])) from None
        for one in group:
            _fetch_group([one], cache, here)


def _fetch_together(group: Sequence[Wanted], cache: Path, here: Interpreter) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download.") as folder:
        try:
            _download(group, Path(folder))
        except _NoWheel as none:
            raise _none_fits(none.requirement, group, here) from None
        _keep(group, Path(folder), cache)


def _download(group: Sequence[Wanted], folder: Path) -> None:
    """Ask pip's own settings first, and the index of the recipe only where they have nothing of this version."""
    try:
        _pip(folder, *(one.requirement for one in group))
    except _NoWheel:
        index = group[0].index
        if not index:
            raise
        _pip(folder, "--index-url", index, *(one.requirement for one in group))


def _pip(folder: Path, *arguments: str) -> None:
    done = _run(folder, "--quiet", *arguments)
    if done.returncode == 0:
        return
    if match := _NOT_FOUND.search(done.stderr):
        raise _NoWheel(match[1])
    if "No module named pip" in done.stderr:
        raise broken(f"{sys.executable} has no pip, which fetches the wheels", hint="python3 -m ensurepip")
    last = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
    raise _PipFailed("\n".join(last[-8:]))


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
               "--no-input", "--disable-pip-version-check", "--dest", str(folder), *arguments]  # fmt: skip
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def _keep(group: Sequence[Wanted], folder: Path, cache: Path) -> None:
    """Move what is as listed into the cache; refuse all else."""
    wheels = {parse_wheel_filename(path.name)[:2]: path for path in folder.glob("*.whl")}
    problems: list[Problem] = []
    for one in group:
        path = _of(one, wheels.items())
        found = sha256_of(path)
        if found != one.sha256:
            problems.append(_refusal(one, path, found))
            continue
        target = cache / one.sha256 / path.name
        target.parent.mkdir(exist_ok=True)
        os.replace(path, target)
    error_from(BuildError, problems)


def _of(one: Wanted, wheels: Iterable[tuple[tuple[object, object], Path]]) -> Path:
    name = canonicalize_name(one.name)
    for (found, version), path in wheels:
        if found == name and (str(version) == one.version or str(version).partition("+")[0] == one.version):
            return path
    raise broken(f"pip downloaded no wheel of {one.requirement}")


def _refusal(one: Wanted, path: Path, found: str) -> Problem:
    return Problem(
        message=f"{path.name} is not the wheel of the list: its sha256 is {found}, expected {one.sha256}",
        where=one.where,
        hint="to take what there is now, pin again: python tools/pin_recipe.py RECIPE",
    )


def _none_fits(requirement: str, group: Sequence[Wanted], here: Interpreter) -> BuildError:
    """The error for a missing wheel; it names the interpreters for which there is one."""
    name = canonicalize_name(requirement.partition("==")[0])
    one = next((one for one in group if canonicalize_name(one.name) == name), group[0])
    fits = _interpreters(one)
    places = f", neither in pip's settings nor in {one.index}" if one.index else " in pip's settings"
    message = f"no wheel of {one.requirement} for {here}{places}"
    hint = f"there is one for {', '.join(fits)}: build the channel with that" if fits else None
    return BuildError(Problem(message=message, where=one.where, hint=hint))


def _interpreters(one: Wanted) -> tuple[str, ...]:
    """The interpreters that pip has wheels of this version for, from what it says it skips."""
    text = ""
    with tempfile.TemporaryDirectory() as folder:
        for extra in ((), ("--index-url", one.index) if one.index else ()):
            text += urllib.parse.unquote(_run(Path(folder), "-vv", *extra, one.requirement).stdout)
    pattern = re.escape(canonicalize_name(one.name)).replace(r"\-", "[-_.]") + "-" + re.escape(one.version)
    tags = re.findall(rf"(?i){pattern}-((?:cp|py)\d+[^-\s]*-[^-\s]+-[^\s:#/]+?)\.whl", text)
    found = {tag for text in tags for tag in parse_tag(text)}
    minors = {(tag.interpreter[2:3], tag.interpreter[3:]) for tag in found if tag.interpreter[3:].isdigit()}
    return tuple(f"CPython {major}.{minor}" for major, minor in sorted(minors, key=lambda pair: int(pair[1])))
