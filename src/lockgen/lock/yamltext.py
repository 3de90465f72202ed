"""Text as a YAML scalar on one line, quoted only where a reader would take it for something else."""

from __future__ import annotations

import re
from functools import lru_cache

_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./+@,<>=!~*^()|%$;&?-]|:(?=[^ ])|#|(?<=[^ ]) +(?=[^ #]))*", re.ASCII)
"""Starts as no number, date or indicator does; no `: ` and no ` #` within, no space at the end."""

_DIGITS = re.compile(
    r"[0-9]+(?:\.[0-9]+){2,}|(?!0b[01_]*\Z|0[ox])[0-9](?=[0-9A-Za-z_.-]*[A-DF-Za-df-z])[0-9A-Za-z_.-]*(?<![.-])",
    re.ASCII,
)
"""Starts with a digit and is yet no number: two dots or more, or a letter that no number has."""

_TAKEN = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML 1.1 or 1.2 reads as a boolean or as nothing, in any case."""

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


@lru_cache(maxsize=4096)
def scalar(text: str) -> str:
    """
    One line of YAML, as key or value, that every YAML reader reads as exactly this string.

    Plain where that is safe, else single-quoted, else (line ends, characters without a glyph) double-quoted.
    """
    if (_PLAIN.fullmatch(text) and text.lower() not in _TAKEN) or _DIGITS.fullmatch(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    """One character as it stands in double quotes."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def comment(text: str) -> str:
    """Text that stays on its comment line: characters without a glyph become `?`."""
    return "".join(character if character.isprintable() else "?" for character in text)
