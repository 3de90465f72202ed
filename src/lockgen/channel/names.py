"""What a package is called on conda-forge, from its name among Python's packages."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

from packaging.utils import canonicalize_name


@functools.cache
def _table() -> Mapping[str, str]:
    rows = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))["name"]
    return {row["wheel"]: row["conda"] for row in rows}


def conda_name(name: str, own: Mapping[str, str] | None = None) -> str:
    """
    The conda name of a Python package.

    Args:
        own: the recipe's word, by canonical name; it wins over the table.
    """
    canonical = canonicalize_name(name)
    return (own or {}).get(canonical) or _table().get(canonical) or canonical
