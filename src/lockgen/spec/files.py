"""The files of a spec: itself, what it extends, and people's own extras beside it."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lockgen import matchspec
from lockgen.errors import Problem, SpecError, Where, closest
from lockgen.knowledge import tables
from lockgen.spec.idioms import Note, Rewriter
from lockgen.spec.model import platform_hint
from lockgen.spec.reader import MOST_BYTES, read
from lockgen.spec.secret import has_credential, masked
from lockgen.spec.source import Node, merge, shown

_OWN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Reading = Callable[[Path], bytes]


def first_bytes(path: Path) -> bytes:
    """The content of a file, cut where it is larger than any spec."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


@dataclass(slots=True, kw_only=True)
class Files:
    """Reads each file of a spec once and collects what is wrong with them."""

    reading: Reading
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    incomplete: bool = False
    """A file that the spec extends could not be read: keys may be missing for that reason."""
    _specs: dict[Path, Node] = field(default_factory=dict)
    _extras: dict[tuple[str, Path], tables.Extra | None] = field(default_factory=dict)

    def spec(self, path: Path, above: tuple[Path, ...] = (), asked_at: Where | None = None) -> Node:
        """
        The file's own keys, in today's idioms, over those of the files it extends.

        Raises:
            SpecError: this file cannot be read.
        """
        if path in above:
            chain = " → ".join(str(one) for one in (*above[above.index(path) :], path))
            message = f"specs extend each other in a circle: {chain}"
            raise SpecError(Problem(message=message, where=asked_at, hint="take one of these lines out"))
        if path not in self._specs:
            own, problems = read(self._bytes(path, asked_at), str(path))
            self.problems += problems
            rewriter = Rewriter(notes=self.notes, problems=self.problems)
            self._specs[path] = self._extended(rewriter.spec(own), path, (*above, path))
        return self._specs[path]

    def _extended(self, own: Node, path: Path, above: tuple[Path, ...]) -> Node:
        bases = own.get("extends")
        merged: Node | None = None
        for item in bases.value if bases and isinstance(bases.value, tuple) else ():
            if not isinstance(item.value, str):
                continue
            try:
                base = self._base(item.value, item.where, path, above).without("extends")
            except SpecError as error:
                self.problems += error.problems
                self.incomplete = True
                continue
            merged = merge(merged, base) if merged else base
        return merge(merged, own) if merged else own

    def _base(self, name: str, where: Where, path: Path, above: tuple[Path, ...]) -> Node:
        if "//" in name or not name.isprintable() or not name.strip():
            hint = "write the path of a file, beside this one"
            raise SpecError(Problem(message=f"not a file: `{shown(name)}`", where=where, hint=hint))
        return self.spec(_beside(path, name), above, where)

    def _bytes(self, path: Path, asked_at: Where | None) -> bytes:
        if asked_at and _is_special(path):
            raise SpecError(_not_regular(path, asked_at))
        try:
            return self.reading(path)
        except FileNotFoundError:
            hint = None if asked_at else "to start one, run `lockgen init`"
            raise SpecError(Problem(message=f"no such file: {path}", where=asked_at, hint=hint)) from None
        except IsADirectoryError:
            raise SpecError(Problem(message=f"a folder, not a spec: {path}", where=asked_at)) from None
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise SpecError(Problem(message=f"cannot read {path}: {reason}", where=asked_at)) from None

    def extra(self, name: str, where: Where, path: Path) -> tables.Extra | None:
        """An extra, people's own before ours; an unknown one becomes a problem once for each place."""
        for folder in dict.fromkeys((path.parent, Path(where.file).parent)):
            own = self._own_extra(name, folder / "extras" / f"{name}.toml", where)
            if own is not None:
                return own
        ours = tables.extra(name)
        if ours is None and not any(problem.where == where for problem in self.problems):
            self.problems.append(_unknown_extra(name, where))
        return ours

    def _own_extra(self, name: str, own: Path, asked_at: Where) -> tables.Extra | None:
        """An extra beside the spec; None where there is no such file, or one with problems, which are collected."""
        if not _OWN.fullmatch(name):
            return None
        if (name, own) not in self._extras:
            self._extras[name, own] = self._read_extra(own, asked_at)
        return self._extras[name, own]

    def _read_extra(self, own: Path, asked_at: Where) -> tables.Extra | None:
        if _is_special(own):
            self.problems.append(_not_regular(own, asked_at))
            return _nothing_of(own)
        try:
            data = self.reading(own)
        except OSError:
            return None
        try:
            text = data.decode("utf-8-sig")
            extra = tables.load_extra(text, str(own))
            self.problems += [
                problem for package in extra.packages for problem in _package_problems(package, text, own)
            ]
            return extra
        except SpecError as error:
            self.problems += error.problems
        except (UnicodeDecodeError, RecursionError) as error:
            message = "the file is not UTF-8" if isinstance(error, UnicodeDecodeError) else "the file nests too deep"
            self.problems.append(Problem(message=message, where=Where(file=str(own), line=1, column=1)))
        return _nothing_of(own)


def _is_special(path: Path) -> bool:
    """Whether a path is a pipe, a socket or a device: reading it may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # reading it says what is wrong
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _not_regular(path: Path, asked_at: Where) -> Problem:
    return Problem(message=f"not a regular file: {path}", where=asked_at, hint="a pipe or a device is not read here")


def _nothing_of(own: Path) -> tables.Extra:
    """What an extra whose file has problems stands for."""
    return tables.Extra(name=own.stem, summary="", packages=(), services=(), source=None, checked=None)


def _package_problems(package: tables.ExtraPackage, text: str, own: Path) -> list[Problem]:
    """What is wrong with a package of people's own extra, at the line that names it."""
    problems = []
    flaw = matchspec.flaw(package.spec)
    if has_credential(package.spec):
        where = _where_of(package.spec, text, own)
        problems.append(Problem(message=f"a credential in an extra: `{shown(package.spec)}`", where=where))
    elif flaw:
        message = f"bad match spec `{shown(package.spec)}`: {shown(flaw.splitlines()[0])}"
        problems.append(Problem(message=message, where=_where_of(package.spec, text, own)))
    for platform in package.platforms or ():
        if platform not in tables.platforms():
            message = f"unknown platform: `{shown(platform)}`"
            where = _where_of(platform, text, own)
            problems.append(Problem(message=message, where=where, hint=platform_hint(platform)))
    return problems


def _where_of(value: str, text: str, own: Path) -> Where:
    """The first line of a TOML file that holds a value in quotes; the file's first line where there is none."""
    lines = text.splitlines() or [""]
    for number, line in enumerate(lines, start=1):
        found = re.search(rf"([\"']){re.escape(value)}\1", line)
        if found and not has_credential(line):
            return Where(file=str(own), line=number, column=found.start() + 1, text=line, width=len(found[0]))
        if found:
            return Where(file=str(own), line=number, column=found.start() + 1, text=masked(line))
    return Where(file=str(own), line=1, column=1, text=masked(lines[0]))


def _unknown_extra(name: str, where: Where) -> Problem:
    known = tables.extra_names()
    own = f"; one of your own is a file `extras/{shown(name)}.toml` beside the spec" if _OWN.fullmatch(name) else ""
    hint = closest(name, known) or f"known: {', '.join(known)}{own}"
    return Problem(message=f"unknown extra: `{shown(name)}`", where=where, hint=hint)


def _beside(path: Path, name: str) -> Path:
    """A path written in a spec, without `..` and `.` where they can be resolved by their text."""
    joined = path.parent / name
    parts: list[str] = []
    for part in joined.parts:
        if part == ".." and parts and parts[-1] not in ("..", joined.anchor):
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts)
