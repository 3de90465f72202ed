"""Container registries that are asked at another host than the one in a reference."""

from __future__ import annotations

from lockgen.knowledge.reader import facts

FILE = "registries.toml"


def api_host(name: str) -> str:
    """The host to ask for the images of a registry, as a reference names it: its own name for nearly all."""
    hosts = {row.text("name"): row.text("host") for row in facts(FILE).tables("registry")}
    return hosts.get(name, name)
