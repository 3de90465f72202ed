"""Licences that whoever passes an image on should know of."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase

from lockgen.knowledge.reader import facts

FILE = "licenses.toml"


@functools.cache
def _globs(kind: str) -> tuple[str, ...]:
    return tuple(glob for row in facts(FILE).tables(kind) for glob in row.texts("licenses"))


def is_of_note(expression: str) -> bool:
    """
    Whether a licence, or each choice that it gives, is one to know of.

    `BSD-2-Clause OR GPL-2.0-or-later` is not: the first may be chosen. Of what holds together, one part is enough.
    """
    choices = re.split(r"\s+OR\s+", expression.replace("(", " ").replace(")", " ").strip(), flags=re.IGNORECASE)
    return all(any(_is_noted(part) for part in re.split(r"\s+AND\s+", one, flags=re.IGNORECASE)) for one in choices)


def _is_noted(license: str) -> bool:
    plain = any(fnmatchcase(license.strip(), glob) for glob in _globs("plain"))
    return not plain and any(fnmatchcase(license.strip(), glob) for glob in _globs("of_note"))
