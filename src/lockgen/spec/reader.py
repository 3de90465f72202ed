"""YAML text read as nodes, with every fault of the text collected."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType

import yaml

from lockgen.errors import Problem, SpecError, Where
from lockgen.spec.secret import Spans, hidden, masked, moved
from lockgen.spec.source import Entry, Node, shown
from lockgen.spec.syntax import words

MOST_BYTES = 200_000
MOST_NODES = 5_000
MOST_DEPTH = 50
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_SHORT_TAG = "tag:yaml.org,2002:"
_TEXT = ("str", "int", "float", "timestamp", "value", "merge")
_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def read(data: bytes, file: str) -> tuple[Node, list[Problem]]:
    """
    Read one YAML document.

    Returns:
        The mapping at its top, and the problems that did not keep it from being read: duplicate keys, tags.

    Raises:
        SpecError: it cannot be read: not UTF-8, too large, not YAML, empty, not a mapping.
    """
    text = _decoded(data, file)
    reader = _Reader(file, tuple(_LINE_END.split(text)))
    root = reader.composed(text)
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value == ""):
        hint = "to start one, run `lockgen init`"
        raise SpecError(Problem(message="the file is empty", where=Where(file=file, line=1, column=1), hint=hint))
    node = reader.node(root, 0)
    if not isinstance(root, yaml.MappingNode):
        hint = "a spec starts with a line such as `name: my-env`: a key, a colon, a space and a value"
        raise SpecError(Problem(message="expected `key: value` lines", where=node.where, hint=hint))
    return node, reader.problems


def _decoded(data: bytes, file: str) -> str:
    if len(data) > MOST_BYTES:
        message = f"the file is too large: a spec has at most {MOST_BYTES:,} bytes"
        raise SpecError(Problem(message=message, where=Where(file=file, line=1, column=1)))
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        lines = _LINE_END.split(data[: error.start].decode())
        rest = _LINE_END.split(data[error.start :].decode(errors="replace"))[0]
        reader = _Reader(file, (*lines[:-1], lines[-1] + rest))
        raise SpecError(
            Problem(
                message=f"the file is not UTF-8: byte 0x{data[error.start]:02x}",
                where=reader.where(len(lines) - 1, len(lines[-1])),
                hint="save it as UTF-8",
            )
        ) from None


class _TooMuch(Exception):
    """More than a spec can hold: of what, and where."""


class _Loader(yaml.SafeLoader):
    """Composes nodes, but not without end."""

    count = 0
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.count += 1
        self.depth += 1
        what = f"{MOST_NODES:,} values" if self.count > MOST_NODES else f"{MOST_DEPTH} levels"
        if self.count > MOST_NODES or self.depth > MOST_DEPTH:
            raise _TooMuch(what, self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


@dataclass(slots=True)
class _Reader:
    """Turns PyYAML's nodes into ours and collects what is wrong with them."""

    file: str
    lines: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    count: int = 0
    open: set[int] = field(default_factory=set)
    """Nodes that contain the one being read."""
    clean: dict[int, tuple[str, Spans]] = field(default_factory=dict)

    def composed(self, text: str) -> yaml.Node | None:
        try:
            return yaml.compose(text, Loader=_Loader)
        except _TooMuch as error:
            what, mark = error.args
            raise SpecError(self.too_much(self.at(mark), what)) from None
        except yaml.MarkedYAMLError as error:
            raise SpecError(self.syntax(error)) from None
        except yaml.reader.ReaderError as error:
            raise SpecError(self.character(text, error.position)) from None
        except (ValueError, OverflowError):  # PyYAML's own conversion of escapes and directives
            message = "not YAML: an escape or a directive with a number that does not exist"
            raise SpecError(Problem(message=message, where=self.where(0, 0))) from None

    def where(self, line: int, column: int, width: int = 1) -> Where:
        """A place; one behind the last line is the end of the last line with text. Credentials are masked."""
        if line >= len(self.lines) or (line == len(self.lines) - 1 and not self.lines[line].strip()):
            line = max((i for i, text in enumerate(self.lines[:line]) if text.strip()), default=0)
            column, width = len(self.lines[line]), 1
        text, spans = self.line(line)
        start, end = moved(column, spans), moved(column + width, spans)
        return Where(file=self.file, line=line + 1, column=start + 1, text=text, width=max(1, end - start))

    def line(self, line: int) -> tuple[str, Spans]:
        """A line as it may be shown, and what was masked in it."""
        if line not in self.clean:
            text = masked(self.lines[line])
            text = "".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in text)
            self.clean[line] = (text, hidden(self.lines[line]))
        return self.clean[line]

    def at(self, mark: yaml.Mark) -> Where:
        return self.where(mark.line, mark.column)

    def place(self, node: yaml.Node) -> Where:
        start, end = node.start_mark, node.end_mark
        if isinstance(node, yaml.ScalarNode) and start.line == end.line:
            return self.where(start.line, start.column, max(1, end.column - start.column))
        return self.at(start)

    def problem(self, where: Where, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(message=message, where=where, hint=hint))

    def node(self, node: yaml.Node, depth: int) -> Node:
        where = self.place(node)
        self.limit(node, where, depth)
        if isinstance(node, yaml.ScalarNode):
            return Node(self.scalar(node, where), where)
        if node.tag not in (f"{_SHORT_TAG}map", f"{_SHORT_TAG}seq"):
            self.tag(node, where)
        self.open.add(id(node))
        value = (
            MappingProxyType(self.entries(node, depth))
            if isinstance(node, yaml.MappingNode)
            else tuple(self.node(item, depth + 1) for item in node.value)
        )
        self.open.discard(id(node))
        return Node(value, where)

    def limit(self, node: yaml.Node, where: Where, depth: int) -> None:
        """Aliases make a small text large, or endless."""
        self.count += 1
        if id(node) in self.open:
            hint = "write the value out in place of the alias `*…`"
            raise SpecError(*self.problems, Problem(message="an anchor that contains itself", where=where, hint=hint))
        if self.count > MOST_NODES:
            raise SpecError(*self.problems, self.too_much(where, f"{MOST_NODES:,} values"))
        if depth > MOST_DEPTH:
            raise SpecError(*self.problems, self.too_much(where, f"{MOST_DEPTH} levels"))

    def entries(self, node: yaml.MappingNode, depth: int) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for key, value in node.value:
            where = self.place(key)
            if not isinstance(key, yaml.ScalarNode):
                kind = "list" if isinstance(key, yaml.SequenceNode) else "mapping"
                self.problem(where, f"a {kind} as a key, expected a word", "`key: value` is the form of every line")
            elif key.tag == f"{_SHORT_TAG}merge":
                self.problem(where, "`<<` is not taken", "write the keys out; `extends` merges whole files")
            elif key.value == "":
                self.problem(where, "no key before the `:`")
            elif key.value in entries:
                first = entries[key.value].where.line
                self.problem(where, f"duplicate key `{shown(key.value)}`", f"it is already set on line {first}")
            else:
                entries[self.text(key.value, where)] = Entry(where, self.node(value, depth + 1))
        return entries

    def scalar(self, node: yaml.ScalarNode, where: Where) -> str | bool | None:
        kind = node.tag.removeprefix(_SHORT_TAG)
        text = str(node.value)
        if kind == "null" and text.lower() in ("", "~", "null"):
            return None
        if kind == "bool" and text.lower() in _BOOLS:
            return _BOOLS[text.lower()]
        if kind not in _TEXT:
            self.tag(node, where)
        return self.text(text, where)

    def tag(self, node: yaml.Node, where: Where) -> None:
        tag = node.tag.replace(_SHORT_TAG, "!!", 1)
        hint = "put the value in quotes" if tag.startswith(("!=", "!~")) else "write the plain value"
        self.problem(where, f"the tag `{shown(tag)}` is not taken", hint)

    def text(self, text: str, where: Where) -> str:
        """Half of a surrogate pair, which only an escape can write, is no text."""
        if any("\ud800" <= one <= "\udfff" for one in text):
            self.problem(where, f"not a character: `{shown(text)}`", "write the character itself")
            return "".join("?" if "\ud800" <= one <= "\udfff" else one for one in text)
        return text

    def syntax(self, error: yaml.MarkedYAMLError) -> Problem:
        message, hint, mark = words(error)
        line = self.lines[mark.line] if mark and mark.line < len(self.lines) else ""
        indentation = line[: len(line) - len(line.lstrip())]
        if mark and "\t" in indentation:
            tab = self.where(mark.line, indentation.index("\t"))
            return Problem(message="a tab in the indentation", where=tab, hint="YAML takes spaces only")
        return Problem(message=message, where=self.at(mark) if mark else self.where(0, 0), hint=hint)

    def character(self, text: str, position: int) -> Problem:
        before = _LINE_END.split(text[:position])
        where = self.where(len(before) - 1, len(before[-1]))
        return Problem(message=f"a character that YAML does not allow: U+{ord(text[position]):04X}", where=where)

    def too_much(self, where: Where, what: str) -> Problem:
        hint = "are there anchors that repeat each other?" if "values" in what else None
        return Problem(message=f"more than {what}, which is too much for a spec", where=where, hint=hint)
