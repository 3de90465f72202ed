"""Extras: named sets of packages, each with its reason, the imports to verify and the services for an image."""

from __future__ import annotations

import datetime
import functools
import re
import tomllib
from dataclasses import dataclass

from lockgen.errors import Problem, SpecError, Where
from lockgen.knowledge.reader import FactError, Table, facts, names_in

KEYS = ("name", "summary", "source", "checked", "package", "service")
PACKAGE_KEYS = ("spec", "reason", "imports", "platforms", "cuda", "optional")
SERVICE_KEYS = ("name", "command", "port", "health", "bind")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraPackage:
    """One package of an extra."""

    spec: str
    """A conda match spec."""
    reason: str
    imports: tuple[str, ...]
    """Modules that must import once it is installed."""
    platforms: tuple[str, ...] | None
    """Where it exists; None: everywhere."""
    cuda: bool
    """Wanted only where CUDA is."""
    optional: bool
    """May be left out, and said so, where the channels cannot give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Something that an image can run beside or instead of a shell."""

    name: str
    """Of `[a-z0-9_-]`."""
    command: tuple[str, ...]
    port: int
    health: str | None
    """A path that HTTP answers with 200 on the port while all is well, `/api`; None: that it listens is enough."""
    bind: str | None = None
    """It listens on 127.0.0.1 only, unless this variable holds another address and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A named set of packages."""

    name: str
    summary: str
    packages: tuple[ExtraPackage, ...]
    services: tuple[Service, ...]
    source: str | None
    """None in a user's own extra that names none."""
    checked: datetime.date | None

    def packages_on(self, platform: str, *, cuda: bool) -> tuple[ExtraPackage, ...]:
        """The packages that exist on a platform, with or without CUDA."""
        here = (row for row in self.packages if row.platforms is None or platform in row.platforms)
        return tuple(row for row in here if cuda or not row.cuda)


def extra_names() -> tuple[str, ...]:
    """Names of the extras that come with lockgen, sorted."""
    return names_in("extras")


@functools.cache
def extra(name: str) -> Extra | None:
    """The extra of this name, None for an unknown one."""
    return _extra(facts(f"extras/{name}.toml")) if name in extra_names() else None


def load_extra(text: str, file: str) -> Extra:
    """
    A user's own extra, from the text of its file.

    Raises:
        SpecError: it is not TOML, or a key is missing, unknown or of another type; with the place in the file.
    """
    try:
        return _extra(Table(file=file, values=tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(_syntax_problem(text, file, str(error))) from error
    except FactError as error:
        message, where = f"`{error.key}` in an extra: {error.message}", _where_of(text, file, error.key)
        raise SpecError(Problem(message=message, where=where, hint=error.hint)) from error


def _extra(table: Table) -> Extra:
    table.only(*KEYS)
    if not table.tables("package"):
        raise FactError(table.file, "package", "is missing")
    return Extra(
        name=table.text("name"),
        summary=table.text("summary"),
        packages=tuple(_package(row) for row in table.tables("package")),
        services=tuple(_service(row) for row in table.tables("service")),
        source=table.text_or_none("source"),
        checked=table.date_or_none("checked"),
    )


def _package(row: Table) -> ExtraPackage:
    row.only(*PACKAGE_KEYS)
    return ExtraPackage(
        spec=row.text("spec"),
        reason=row.text("reason"),
        imports=row.texts_or_none("imports") or (),
        platforms=row.texts_or_none("platforms"),
        cuda=row.flag("cuda"),
        optional=row.flag("optional"),
    )


def _service(row: Table) -> Service:
    row.only(*SERVICE_KEYS)
    health = row.text_or_none("health")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", row.text("name")):
        raise FactError(row.file, "name", "expected lower-case letters, digits, `-` and `_`")
    if not row.texts("command"):
        raise FactError(row.file, "command", "is empty")
    if not 1024 <= row.integer("port") <= 65535:
        raise FactError(row.file, "port", "expected 1024 to 65535: services do not run as root")
    if health is not None and not re.fullmatch(r"/[!-~]*", health):
        raise FactError(row.file, "health", "expected a path on the port, such as `/api`")
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", row.text_or_none("bind") or "BIND"):
        raise FactError(row.file, "bind", "expected the name of a variable, such as `CODE_SERVER_BIND`")
    return Service(
        name=row.text("name"),
        command=row.texts("command"),
        port=row.integer("port"),
        health=health,
        bind=row.text_or_none("bind"),
    )


def _syntax_problem(text: str, file: str, words: str) -> Problem:
    """TOML's own complaint, which names line and column at its end, as a problem with its place."""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", words)
    message = words[: found.start()] if found else words
    lines = text.splitlines() or [""]
    line = int(found[1]) if found and found[1] else len(lines)
    column = int(found[2]) if found and found[2] else len(lines[-1]) + 1
    shown = lines[line - 1] if line <= len(lines) else ""
    return Problem(
        message=f"not valid TOML: {message[:1].lower()}{message[1:]}",
        where=Where(file=file, line=line, column=column, text=shown),
    )


def _where_of(text: str, file: str, key: str) -> Where:
    """The first line that sets a key or opens its table; the file's first line where there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        found = re.match(rf"\s*(?:\[+\s*)?({re.escape(key)})\s*(?:=|\])", line)
        if found:
            return Where(file=file, line=number, column=found.start(1) + 1, text=line, width=len(key))
    lines = text.splitlines() or [""]
    return Where(file=file, line=1, column=1, text=lines[0])
