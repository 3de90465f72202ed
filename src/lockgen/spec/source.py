"""YAML values that remember their line and column, and how they are merged and shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

from lockgen.errors import Where
from lockgen.spec.secret import masked

LONGEST_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Node:
    """One YAML value. Numbers stay the text that was written, so `3.10` is not `3.1`."""

    value: str | bool | tuple[Node, ...] | Mapping[str, Entry] | None
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
    return over.with_entries(entries)


def shown(text: str) -> str:
    """A value as a message shows it: credentials masked, what cannot be printed escaped, cut when it is long."""
    plain = "".join(one if one.isprintable() else _escaped(one) for one in masked(text))
    return plain if len(plain) <= LONGEST_SHOWN else f"{plain[: LONGEST_SHOWN - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
