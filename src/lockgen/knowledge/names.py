"""What a Python package is called on conda-forge."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from lockgen.knowledge.reader import facts

FILE = "names.toml"


@functools.cache
def _names(kind: str) -> Mapping[str, str]:
    return {row.text("wheel"): row.text("conda") for row in facts(FILE).tables(kind)}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def conda_name(name: str) -> str | None:
    """The conda name of a Python package, where it is another than its own canonical name."""
    return _names("name").get(_canonical(name))


def conda_name_for(name: str) -> str | None:
    """The conda package that somebody means who writes a Python package's name: the same, or what does the same."""
    return conda_name(name) or _names("near").get(_canonical(name))
