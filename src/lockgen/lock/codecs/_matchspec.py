"""A match spec's words, taken apart for formats that write version and build in fields of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lockgen.lock.codecs._shared import dependency_name, joined

_BRACKET = re.compile(r"""([\w-]+)\s*=\s*("[^"]*"|'[^']*'|[^,\]]+)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a match spec asks for, as text."""

    name: str
    version: str = "*"
    build: str | None = None
    channel: str | None = None
    other: dict[str, str] = field(default_factory=dict)
    """Further keys in brackets: `build_number`, `md5`."""

    def and_(self, more: Words) -> Words:
        """Both at once, for the same name; where both ask for a build, the first holds."""
        both = joined(f"{self.version} {self.build or ''}", f"{more.version} {more.build or ''}").split()
        return Words(
            name=self.name,
            version=both[0] if both else "*",
            build=both[1] if len(both) > 1 else None,
            channel=self.channel or more.channel,
            other=more.other | self.other,
        )


def words(spec: str) -> Words:
    """`conda-forge::pytorch 2.9.* cuda*`, `python=3.13`, `numpy>=2`, `jinja2[version='>=3']` taken apart."""
    text = spec.strip()
    in_brackets: dict[str, str] = {}
    if text.endswith("]") and "[" in text:
        text, _, bracket = text[:-1].partition("[")
        in_brackets = {key: value.strip().strip("'\"") for key, value in _BRACKET.findall(bracket)}
    channel, separator, text = text.rpartition("::")
    name = dependency_name(text)
    version, build = _version_and_build(text.strip()[len(name) :].strip())
    return Words(
        name=name.lower(),
        version=in_brackets.pop("version", version) or "*",
        build=in_brackets.pop("build", build),
        channel=in_brackets.pop("channel", channel if separator else None),
        other=in_brackets,
    )


def _version_and_build(text: str) -> tuple[str, str | None]:
    """`2.9.* cuda*`, `=2.9.1=cuda129_0`, `>=2, <3`: the version, and the build where there is one."""
    text = re.sub(r"\s*([,|])\s*", r"\1", text)
    text = re.sub(r"([=<>!~]=?)\s+(?=\S)", r"\1", text)
    head, *rest = text.split() or [""]
    if rest:
        return head, rest[0]
    triple = re.fullmatch(r"=([^=<>!~|,]+)=([^=]+)", head)
    return (triple[1], triple[2]) if triple else (head, None)
