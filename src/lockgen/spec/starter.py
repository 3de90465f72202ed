"""The spec that `lockgen init` writes. Pure text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lockgen.knowledge import tables

DEFAULTS = {
    "name": "my-env",
    "python": "3.13",
    "pytorch": "2.9",
    "cuda": "12.1",
    "driver": "",
    "gpus": "",
    "extras": "nlp",
    "platforms": "linux-64",
}
QUESTIONS = {
    "name": "name of the environment",
    "python": "Python version",
    "pytorch": "PyTorch version",
    "cuda": "CUDA version that the machines' driver supports (nvidia-smi shows it), or none",
    "driver": "oldest NVIDIA driver of the machines, such as 535 (Enter: any)",
    "gpus": "GPUs it must run on, such as V100,H200 (Enter: any)",
    "extras": "extras, with commas between",
    "platforms": "platforms, with commas between",
}
WITH_CUDA = ("driver", "gpus")
"""Questions that mean nothing without CUDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The answers that a starting spec is made from."""

    name: str = DEFAULTS["name"]
    python: str = DEFAULTS["python"]
    pytorch: str = DEFAULTS["pytorch"]
    cuda: str = DEFAULTS["cuda"]
    driver: str = DEFAULTS["driver"]
    """Empty: any."""
    gpus: tuple[str, ...] = ()
    """Empty: any."""
    extras: tuple[str, ...] = (DEFAULTS["extras"],)
    platforms: tuple[str, ...] = (DEFAULTS["platforms"],)
    dependencies: tuple[str, ...] = ()


def start(answers: Mapping[str, str], extras: Iterable[str] = (), dependencies: Iterable[str] = ()) -> Start:
    """
    The answers as values.

    Args:
        answers: one to each key of `QUESTIONS`; several values of one key have commas between.
        extras: more of them, which the training recipes need.
    """
    return Start(
        name=answers["name"],
        python=answers["python"],
        pytorch=answers["pytorch"],
        cuda=answers["cuda"],
        driver=answers["driver"],
        gpus=_parts(answers["gpus"]),
        extras=tuple(dict.fromkeys([*_parts(answers["extras"]), *extras])),
        platforms=_parts(answers["platforms"]),
        dependencies=tuple(dict.fromkeys(dependencies)),
    )


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def text(start: Start) -> str:
    """A commented spec; every value is quoted as YAML needs it."""
    cuda = "none" if start.cuda.lower() == "none" else _quoted(start.cuda)
    driver = f"driver: {_quoted(start.driver)}" if start.driver else '# driver: ">=535"'
    gpus = f"gpus: {_list(start.gpus)}" if start.gpus else "# gpus: [V100, H200]"
    return f"""\
# A lockgen spec. Every key: `lockgen schema`. Lock it: `lockgen resolve` and the name of this file.
name: {_quoted(start.name)}
python: {_quoted(start.python)}

# A version (2.9), an exact one (2.9.1), or a range (">=2.8,<2.10").
pytorch: {_quoted(start.pytorch)}

# The CUDA version that the machines' driver supports (nvidia-smi shows it), or none for CPU builds.
# Builds of the same major run there too; {{version: "12.1", match: exact}} insists on this toolkit.
cuda: {cuda}

# The oldest NVIDIA driver of the machines, and the GPUs that it must run on.
{driver}
{gpus}

# Named sets of packages: {", ".join(tables.extra_names())}.
extras: {_list(start.extras)}
platforms: {_list(start.platforms)}

# More packages, as conda match specs.
dependencies: {_list(start.dependencies)}

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
