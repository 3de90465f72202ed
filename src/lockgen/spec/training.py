"""The folder of training scripts that `lockgen init --recipe` writes. Pure text but for the templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill

from lockgen.errors import Problem, UsageError, closest, error_from
from lockgen.knowledge import tables
from lockgen.knowledge.versions import reaches
from lockgen.spec.source import shown

FOLDER = "train"
YOURS = f"{FOLDER}/task.py"
"""The file that people write their own task in: one that is there stays."""
README = f"{FOLDER}/README.md"


def chosen(names: Iterable[str]) -> tuple[tables.Recipe, ...]:
    """
    The recipes of these names, each once.

    Raises:
        UsageError: a name is unknown.
    """
    names = tuple(dict.fromkeys(names))
    error_from(UsageError, (_unknown(name) for name in names if tables.recipe(name) is None))
    return tuple(one for one in map(tables.recipe, names) if one)


def defaults(recipes: Sequence[tables.Recipe]) -> dict[str, str]:
    """What the spec starts with, unless someone says otherwise."""
    return next(({"pytorch": one.start_pytorch} for one in recipes if one.start_pytorch), {})


def check(recipes: Sequence[tables.Recipe], pytorch: str) -> None:
    """
    Raises:
        UsageError: a recipe needs a newer PyTorch than the spec asks for; a range is not looked into.
    """
    old = (one for one in recipes if pytorch[:1].isdigit() and not reaches(pytorch, one.pytorch))
    error_from(UsageError, (_too_old(one, pytorch) for one in old))


def files(recipes: Sequence[tables.Recipe], there: Sequence[tables.Recipe] = ()) -> dict[str, str]:
    """
    The files by their path; a file that several recipes share is there once.

    Args:
        there: recipes that an earlier call wrote, which the README goes on to tell of.
    """
    texts = {name: text for recipe in recipes for name, text in tables.recipe_files(recipe).items()}
    if texts:
        texts["README.md"] = readme((*there, *recipes))
    return {f"{FOLDER}/{name}": texts[name] for name in sorted(texts)}


def written(texts: Mapping[str, str]) -> tuple[tables.Recipe, ...]:
    """The recipes all of whose files are among some files of the folder, by path."""
    known = (one for one in map(tables.recipe, tables.recipe_names()) if one)
    return tuple(one for one in known if all(f"{FOLDER}/{name}" in texts for name in tables.recipe_files(one)))


def to_write(wanted: Mapping[str, str], there: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """
    What of the files is to be written beside those that are there, and which of those would be lost.

    A file that is there as it should be is left, and so is the task of the user; the README is written anew where it is
    as lockgen wrote it.
    """
    before = readme(written(there)) if written(there) else None
    ours = {README} if there.get(README) == before else set()
    new = {
        path: text for path, text in wanted.items() if there.get(path) != text and not (path == YOURS and path in there)
    }
    return new, tuple(sorted(path for path in new if path in there and path not in ours))


def readme(recipes: Sequence[tables.Recipe]) -> str:
    """How to start each recipe, by name."""
    recipes = sorted({one.name: one for one in recipes}.values(), key=lambda one: one.name)
    flags = " ".join(f"--recipe {recipe.name}" for recipe in recipes)
    text = (
        "# Training\n\n"
        f"Written by `lockgen init {flags}`; the files are yours to change. Run the commands in this folder, in the\n"
        "environment of the spec. `task.py` holds the options, the sentences and the model: put your own task there.\n"
        "`--data` reads lines of a label, a tab and a text; `--help` shows the other options.\n"
    )
    return text + "".join(_section(recipe) for recipe in recipes)


def _section(recipe: tables.Recipe) -> str:
    lines = "\n\n".join(f"# {command.what}:\n{command.run}" for command in recipe.commands)
    return f"\n## {recipe.name}: {recipe.summary}\n\n{fill(recipe.about, 120)}\n\n```sh\n{lines}\n```\n"


def _unknown(name: str) -> Problem:
    known = tables.recipe_names()
    return Problem(
        message=f"unknown recipe: `{shown(name)}`", hint=closest(name, known) or f"known: {', '.join(known)}"
    )


def _too_old(recipe: tables.Recipe, pytorch: str) -> Problem:
    message = f"the recipe `{recipe.name}` needs PyTorch {recipe.pytorch} or newer, not {pytorch}"
    return Problem(message=message, hint=f"`--pytorch {recipe.pytorch}`, or a newer one")
