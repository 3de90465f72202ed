"""YAML as values that remember their line and column, with every fault of the text collected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

import yaml

from lockgen.errors import Problem, SpecError, Where

MOST_BYTES = 1_000_000
MOST_NODES = 20_000
MOST_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Node:
    """One YAML value. Numbers stay the text that was written, so `3.10` is not `3.1`."""

    value: str | bool | None | tuple[Node, ...] | Mapping[str, Entry]
    where: Where

    def plain(self) -> Any:
        """The value without places: str, bool, None, list or dict."""
        if isinstance(self.value, Mapping):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        return self.value

    def entries(self) -> Mapping[str, Entry]:
        """The keys of a mapping, none for any other value."""
        return self.value if isinstance(self.value, Mapping) else MappingProxyType({})

    def get(self, key: str) -> Node | None:
        """The value below a key, if there is one."""
        entry = self.entries().get(key)
        return entry.node if entry else None

    def with_entries(self, entries: Mapping[str, Entry]) -> Self:
        """The same mapping with other keys."""
        return replace(self, value=MappingProxyType(dict(entries)))

    def without(self, *keys: str) -> Self:
        """The same mapping without some keys."""
        return self.with_entries({key: entry for key, entry in self.entries().items() if key not in keys})

    def place(self, path: Iterable[str | int], *, of_key: bool = False) -> Where:
        """Where the value at a path stands, or the nearest one above it; with `of_key`, where its key stands."""
        node, where = self, self.where
        for part in path:
            if isinstance(node.value, tuple) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                where = node.where
            elif str(part) in node.entries():
                entry = node.entries()[str(part)]
                node, where = entry.node, entry.where if of_key else entry.node.where
            else:
                break
        return where


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping and its value."""

    where: Where
    node: Node


def merge(base: Node, over: Node) -> Node:
    """Mappings are merged key by key, and `over` wins; any other value, lists too, is replaced whole."""
    if not (isinstance(base.value, Mapping) and isinstance(over.value, Mapping)):
        return over
    entries = dict(base.value)
    for key, entry in over.value.items():
        mine = entries.get(key)
        entries[key] = Entry(entry.where, merge(mine.node, entry.node)) if mine else entry
    return base.with_entries(entries)


def closest(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known word, if one is near."""
    near = difflib.get_close_matches(word.lower(), list(known), 1, 0.6)
    return f"did you mean `{near[0]}`?" if near else None


def read(data: bytes, file: str) -> Node:
    """
    Read one YAML document.

    Raises:
        SpecError: not UTF-8, too large, not YAML, empty, not a mapping, duplicate keys; with every place.
    """
    text = _decoded(data, file)
    reader = _Reader(file, tuple(text.split("\n")))
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise SpecError(reader.syntax(error)) from None
    except yaml.reader.ReaderError as error:
        raise SpecError(reader.character(text, error)) from None
    except RecursionError:
        raise SpecError(reader.too_deep()) from None
    if root is None:
        raise SpecError(
            Problem(
                message="the file is empty",
                where=Where(file=file, line=1, column=1),
                hint="to start one, run `lockgen init`",
            )
        )
    node = reader.node(root, 0)
    if not isinstance(node.value, Mapping):
        reader.problem(node.where, "expected `key: value` lines", "a spec starts with a line such as `name: my-env`")
    if reader.problems:
        raise SpecError(*reader.problems)
    return node


def _decoded(data: bytes, file: str) -> str:
    if len(data) > MOST_BYTES:
        raise SpecError(
            Problem(message=f"the file is too large: {len(data):,} bytes", where=Where(file=file, line=1, column=1))
        )
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8-sig")
        line = good.count("\n") + 1
        column = len(good) - good.rfind("\n")
        raise SpecError(
            Problem(
                message=f"the file is not UTF-8: byte 0x{data[error.start]:02x}",
                where=Where(file=file, line=line, column=column),
                hint="save it as UTF-8",
            )
        ) from None


@dataclass(slots=True)
class _Reader:
    """Turns PyYAML's nodes into ours and collects what is wrong with them."""

    file: str
    lines: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    count: int = 0

    def where(self, line: int, column: int, width: int = 1) -> Where:
        text = self.lines[line] if line < len(self.lines) else ""
        return Where(file=self.file, line=line + 1, column=column + 1, text=text, width=width)

    def place(self, node: yaml.Node) -> Where:
        start, end = node.start_mark, node.end_mark
        if isinstance(node, yaml.ScalarNode) and start.line == end.line:
            return self.where(start.line, start.column, max(1, end.column - start.column))
        return self.where(start.line, start.column)

    def problem(self, where: Where, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(message=message, where=where, hint=hint))

    def node(self, node: yaml.Node, depth: int) -> Node:
        self.count += 1
        if self.count > MOST_NODES or depth > MOST_DEPTH:
            raise SpecError(*self.problems, self.too_deep(node))
        where = self.place(node)
        if isinstance(node, yaml.MappingNode):
            return Node(MappingProxyType(self.entries(node, depth)), where)
        if isinstance(node, yaml.SequenceNode):
            return Node(tuple(self.node(item, depth + 1) for item in node.value), where)
        return Node(self.scalar(node, where), where)

    def entries(self, node: yaml.MappingNode, depth: int) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for key, value in node.value:
            where = self.place(key)
            if not isinstance(key, yaml.ScalarNode):
                self.problem(where, "a key must be a plain word")
            elif key.value in entries:
                first = entries[key.value].where.line
                self.problem(where, f"duplicate key `{key.value}`", f"it is already set on line {first}")
            else:
                entries[key.value] = Entry(where, self.node(value, depth + 1))
        return entries

    def scalar(self, node: yaml.Node, where: Where) -> str | bool | None:
        kind = node.tag.rsplit(":", 1)[-1]
        text = str(node.value)
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in ("true", "yes", "on")
        if kind not in ("str", "int", "float", "timestamp", "value", "merge"):
            self.problem(where, f"the tag `{node.tag}` is not taken", "write the plain value")
        return text

    def syntax(self, error: yaml.MarkedYAMLError) -> Problem:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        text = self.lines[line] if line < len(self.lines) else ""
        if "\t" in text[: column + 1]:
            tab = self.where(line, text.index("\t"))
            return Problem(message="a tab in the indentation", where=tab, hint="YAML takes spaces only")
        words = (error.problem or "the text cannot be read").replace("\n", " ")
        context = f" {error.context}" if error.context else ""
        return Problem(message=f"not YAML: {words}{context}", where=self.where(line, column))

    def character(self, text: str, error: yaml.reader.ReaderError) -> Problem:
        before = text[: error.position]
        line = before.count("\n")
        where = self.where(line, len(before) - before.rfind("\n") - 1)
        return Problem(message=f"a character that YAML does not allow: U+{ord(text[error.position]):04X}", where=where)

    def too_deep(self, node: yaml.Node | None = None) -> Problem:
        where = self.place(node) if node else self.where(0, 0)
        return Problem(
            message="the file unfolds without end, or to more than a spec can hold",
            where=where,
            hint=f"anchors that repeat each other? at most {MOST_NODES:,} values and {MOST_DEPTH} levels are read",
        )
