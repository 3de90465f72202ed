"""TOML files of facts, read once, and their fields by type."""

from __future__ import annotations

import datetime
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockgen.errors import closest

# Not importlib.resources, which takes longer to import than all files take to read.
FOLDER = Path(__file__).parent


class FactError(ValueError):
    """A file of facts that does not have the form it should have: a mistake in the file, at `key`."""

    def __init__(self, file: str, key: str, message: str, hint: str | None = None) -> None:
        super().__init__(f"{file}: `{key}`: {message}")
        self.file = file
        self.key = key
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One TOML table, whose fields are taken by type; what is missing or of another type is a `FactError`."""

    file: str
    values: Mapping[str, Any]

    def only(self, *keys: str) -> Table:
        """The table itself; keys other than these are refused."""
        for key in self.values:
            if key not in keys:
                raise FactError(self.file, key, f"unknown key, expected one of {', '.join(keys)}", closest(key, keys))
        return self

    def text(self, key: str) -> str:
        found = self._get(key, str, "a text")
        if not found.strip():
            raise FactError(self.file, key, "is empty")
        return str(found)

    def text_or_none(self, key: str) -> str | None:
        return self.text(key) if key in self.values else None

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, which must be there but may be empty."""
        found = self._get(key, list, "a list of texts")
        if not all(isinstance(item, str) and item for item in found):
            raise FactError(self.file, key, "expected a list of texts")
        return tuple(found)

    def texts_or_none(self, key: str) -> tuple[str, ...] | None:
        return self.texts(key) if key in self.values else None

    def integer(self, key: str) -> int:
        found = self._get(key, int, "a whole number")
        if isinstance(found, bool):
            raise FactError(self.file, key, "expected a whole number")
        return int(found)

    def flag(self, key: str) -> bool:
        """A yes or no; no where it is absent."""
        return bool(self._get(key, bool, "true or false")) if key in self.values else False

    def date(self, key: str) -> datetime.date:
        found = self._get(key, datetime.date, "a date such as 2026-11-30")
        assert isinstance(found, datetime.date)
        return found

    def date_or_none(self, key: str) -> datetime.date | None:
        return self.date(key) if key in self.values else None

    def table(self, key: str) -> Table:
        return Table(file=self.file, values=self._get(key, dict, "a table"))

    def tables(self, key: str) -> tuple[Table, ...]:
        """The tables of `[[key]]`; none where it is absent."""
        found = self._get(key, list, "tables") if key in self.values else []
        if not all(isinstance(item, dict) for item in found):
            raise FactError(self.file, key, "expected tables")
        return tuple(Table(file=self.file, values=item) for item in found)

    def _get(self, key: str, kind: type, name: str) -> Any:
        if key not in self.values:
            raise FactError(self.file, key, "is missing")
        if not isinstance(self.values[key], kind):
            raise FactError(self.file, key, f"expected {name}")
        return self.values[key]


@functools.cache
def facts(path: str) -> Table:
    """A file of this package, by its path below `knowledge/`."""
    return Table(file=path, values=tomllib.loads((FOLDER / path).read_text(encoding="utf-8")))


@functools.cache
def names_in(folder: str) -> tuple[str, ...]:
    """Names of the TOML files in a folder below `knowledge/`, without their ending, sorted."""
    return tuple(sorted(path.stem for path in (FOLDER / folder).glob("*.toml")))
