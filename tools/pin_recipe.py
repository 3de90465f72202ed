"""
Pin the wheels of a channel's recipe.

    python tools/pin_recipe.py recipes/local/channel.toml

Pip resolves what `[channel] wants` names for this interpreter, and the `[[wheel]]` tables below the marker line are
written anew with name, version and sha256. Other keys of a table, such as `build` or `index`, stay with its name.
A wheel that an included recipe has in the same version is left to it. Run it with the interpreter that the recipe is
for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

MARKER = "# Pinned by tools/pin_recipe.py: below this line only keys other than name, version and sha256 are yours.\n"
PINNED = ("name", "version", "sha256")


def main() -> None:
    """Rewrite the list of one recipe."""
    parser = argparse.ArgumentParser(description="Pin the wheels of a channel's recipe.")
    parser.add_argument("recipe", type=Path)
    path = parser.parse_args().recipe
    text = path.read_text(encoding="utf-8")
    recipe = tomllib.loads(text)
    here = "{}.{}".format(*sys.version_info)
    if recipe["channel"]["python"] != here:
        sys.exit(f"{path} is for CPython {recipe['channel']['python']}, and this is {here}")
    wheels = resolve(recipe["channel"]["wants"])
    covered = included(path, recipe)
    wheels = {name: pin for name, pin in wheels.items() if covered.get(name) != pin["version"]}
    before: dict[str, Any] = {canonicalize_name(row["name"]): row for row in recipe.get("wheel", [])}
    head = text.partition(MARKER)[0]
    path.write_text(head + MARKER + "".join(table(pin, before.get(name, {})) for name, pin in wheels.items()), "utf-8")
    sys.stderr.write(f"{len(wheels)} wheels pinned in {path}\n")


def included(path: Path, recipe: Mapping[str, Any]) -> dict[str, str]:
    """Canonical name → version of the wheels that come with the recipes that this one includes."""
    if "include" not in recipe["channel"]:
        return {}
    base = path.parent / recipe["channel"]["include"]
    content = tomllib.loads(base.read_text(encoding="utf-8"))
    own = {canonicalize_name(row["name"]): row["version"] for row in content.get("wheel", [])}
    return included(base, content) | own


def resolve(wants: list[str]) -> dict[str, dict[str, str]]:
    """Canonical name → name, version and sha256 of all that is needed, by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed",
                   "--only-binary=:all:", "--report", str(report), *wants]  # fmt: skip
        subprocess.run(command, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return dict(sorted((canonicalize_name(one["metadata"]["name"]), pin(one)) for one in found))


def pin(one: Mapping[str, Any]) -> dict[str, str]:
    """Name, version and hash of one answer of pip."""
    sha256 = one["download_info"]["archive_info"]["hashes"]["sha256"]
    name = canonicalize_name(one["metadata"]["name"])
    return {"name": name, "version": one["metadata"]["version"], "sha256": sha256}


def table(pinned: Mapping[str, str], before: Mapping[str, Any]) -> str:
    """One `[[wheel]]`, with the keys that a person wrote."""
    own = {key: value for key, value in before.items() if key not in PINNED}
    rows = "".join(f"{key} = {literal(value)}\n" for key, value in {**pinned, **own}.items())
    return f"\n[[wheel]]\n{rows}"


def literal(value: object) -> str:
    """A value as TOML writes it: texts, lists of texts, and tables of texts."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {literal(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(literal(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
