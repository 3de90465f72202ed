"""The spec that `lockgen init` writes. Pure text."""

from __future__ import annotations

import json
from dataclasses import dataclass

DEFAULTS = {"name": "my-env", "python": "3.13", "pytorch": "2.9", "cuda": "12.1"}
QUESTIONS = (
    "name of the environment",
    "Python version",
    "PyTorch version",
    "CUDA version that the machines' driver supports (nvidia-smi shows it), or none",
)
EXTRAS = ("nlp",)
PLATFORMS = ("linux-64",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The answers that a starting spec is made from."""

    name: str = DEFAULTS["name"]
    python: str = DEFAULTS["python"]
    pytorch: str = DEFAULTS["pytorch"]
    cuda: str = DEFAULTS["cuda"]
    extras: tuple[str, ...] = EXTRAS
    platforms: tuple[str, ...] = PLATFORMS


def text(start: Start) -> str:
    """A commented spec; every value is quoted as YAML needs it."""
    cuda = "none" if start.cuda.lower() == "none" else _quoted(start.cuda)
    return f"""\
# A lockgen spec. Every key: `lockgen schema`. Lock it: `lockgen resolve` and the name of this file.
name: {_quoted(start.name)}
python: {_quoted(start.python)}

# A version (2.9), an exact one (2.9.1), or a range (">=2.8,<2.10").
pytorch: {_quoted(start.pytorch)}

# The CUDA version that the machines' driver supports (nvidia-smi shows it), or none for CPU builds.
# Builds of the same major run there too; {{version: "12.1", match: exact}} insists on this toolkit.
cuda: {cuda}
# driver: ">=535"
# gpus: [V100, H200]

extras: {_list(start.extras)}
platforms: {_list(start.platforms)}

# More packages, as conda match specs.
dependencies: []

# Ignore packages that were built later.
# as-of: 2026-11-30
"""


def _list(values: tuple[str, ...]) -> str:
    return f"[{', '.join(_quoted(value) for value in values)}]"


def _quoted(value: str) -> str:
    """A YAML double-quoted scalar; a plain one where the value is a word."""
    plain = value.replace("-", "").replace("_", "")
    is_word = plain.isalpha() and plain.isascii() and value.lower() not in _NOT_TEXT
    return value if is_word or _is_name(value) else json.dumps(value, ensure_ascii=True)


def _is_name(value: str) -> bool:
    """Starts with a letter, then letters, digits, `-` and `_`: YAML reads it as text."""
    plain = value.replace("-", "").replace("_", "")
    return value[:1].isalpha() and plain.isalnum() and plain.isascii() and value.lower() not in _NOT_TEXT


_NOT_TEXT = frozenset({"yes", "no", "on", "off", "true", "false", "null", "none", "y", "n"})
