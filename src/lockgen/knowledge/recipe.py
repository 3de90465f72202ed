"""Recipes for training: scripts and configurations that are ready to run, one folder each."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

from lockgen.knowledge.reader import FOLDER, facts

RECIPES = "recipes"
SHARED = "shared"
"""Files that several recipes name; no recipe itself."""
FACTS = "recipe.toml"
KEYS = (
    *("name", "summary", "about", "pytorch", "start-pytorch", "extras", "dependencies", "shared"),
    *("source", "checked", "command"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line that starts the training."""

    what: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to train."""

    name: str
    summary: str
    about: str
    pytorch: str
    """The oldest PyTorch that has what the scripts use."""
    start_pytorch: str | None
    """The PyTorch to start with, where not every one will do."""
    extras: tuple[str, ...]
    dependencies: tuple[str, ...]
    """Match specs that the extras do not bring, or leave out where they cannot be had."""
    shared: tuple[str, ...]
    commands: tuple[Command, ...]
    source: str
    checked: datetime.date


@functools.cache
def recipe_names() -> tuple[str, ...]:
    """Names of the recipes, sorted."""
    return tuple(sorted(path.parent.name for path in (FOLDER / RECIPES).glob(f"*/{FACTS}")))


@functools.cache
def recipe(name: str) -> Recipe | None:
    """The recipe of this name, None for an unknown one."""
    if name not in recipe_names():
        return None
    table = facts(f"{RECIPES}/{name}/{FACTS}").only(*KEYS)
    return Recipe(
        name=table.text("name"),
        summary=table.text("summary"),
        about=table.text("about"),
        pytorch=table.text("pytorch"),
        start_pytorch=table.text_or_none("start-pytorch"),
        extras=table.texts("extras"),
        dependencies=table.texts_or_none("dependencies") or (),
        shared=table.texts("shared"),
        commands=tuple(
            Command(what=row.only("what", "run").text("what"), run=row.text("run")) for row in table.tables("command")
        ),
        source=table.text("source"),
        checked=table.date("checked"),
    )


def recipe_files(chosen: Recipe) -> dict[str, str]:
    """The files of a recipe, its own and the shared ones that it names, by name."""
    own = (path for path in (FOLDER / RECIPES / chosen.name).iterdir() if path.is_file() and path.name != FACTS)
    shared = (FOLDER / RECIPES / SHARED / name for name in chosen.shared)
    return {path.name: path.read_text(encoding="utf-8") for path in sorted([*own, *shared])}
