"""A match spec's words, taken apart for formats that write version and build in fields of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

from lockgen import matchspec
from lockgen.channelname import channel_name
from lockgen.lock.codecs._shared import joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a match spec asks for, as text."""

    name: str
    version: str = "*"
    build: str | None = None
    channel: str | None = None
    other: dict[str, str] = field(default_factory=dict)
    """Further keys: `build_number`, `subdir`, `url`, `md5`, `sha256`."""

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
    asked = matchspec.parts(spec)
    other = {key: getattr(asked, key) for key in ("build_number", "subdir", "url", "md5", "sha256")}
    return Words(
        name=asked.name,
        version=asked.version or "*",
        build=asked.build,
        channel=channel_name(asked.channel) if asked.channel else None,
        other={key: value for key, value in other.items() if value is not None},
    )
