"""What a package is called on conda-forge, from its name among Python's packages."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.utils import canonicalize_name

from lockgen.knowledge import tables


def conda_name(name: str, own: Mapping[str, str] | None = None) -> str:
    """
    The conda name of a Python package.

    Args:
        own: the recipe's word, by canonical name; it wins over the table.
    """
    canonical = canonicalize_name(name)
    return (own or {}).get(canonical) or tables.conda_name(canonical) or canonical
