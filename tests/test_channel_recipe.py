"""The recipe of a channel: what it may say, and where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from channel_wheels import head, listed, write_recipe, write_wheel

from lockgen.channel.errors import RecipeError
from lockgen.channel.recipe import load

ROOT = Path(__file__).parents[1]


def _problems(path: Path) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        load(path)
    return [f"{one.where.line if one.where else '-'}: {one.message}" for one in caught.value.problems]


def test_every_fault_is_told_at_its_line(tmp_path: Path) -> None:
    text = head() + '[[wheel]]\nname = "one"\nversion = "1.0"\nsha256 = "123"\n\n[[wheel]]\nnam = "two"\n'
    assert _problems(write_recipe(tmp_path, text)) == [
        "15: `sha256` is not 64 hexadecimal digits",
        "17: `name` is missing",
        "17: `version` is missing",
        "17: `sha256` is missing",
        "18: unknown key `nam`",
    ]


def test_a_fault_shows_the_line_and_marks_the_key(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, head(), '[[folder]]\nname = "one"\nversion = "1.0"\npaht = "src"\n')
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == f'{path}:15:1: unknown key `paht`\n  15 | paht = "src"\n     | ^^^^'


def test_text_that_is_not_toml_names_the_place(tmp_path: Path) -> None:
    (problem,) = _problems(write_recipe(tmp_path, "[channel]\nname = small\n"))
    assert problem == "2: not TOML: invalid value"


def test_a_wheel_listed_twice_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "one")
    assert _problems(write_recipe(tmp_path, head(), listed(wheel), listed(wheel))) == [
        "17: `one` is listed twice, first on line 12"
    ]


def test_a_missing_recipe_is_an_error_without_a_line(tmp_path: Path) -> None:
    assert _problems(tmp_path / "no") == [f"-: cannot read {tmp_path / 'no'}: No such file or directory"]


def test_an_included_recipe_gives_what_the_own_one_does_not_name(tmp_path: Path) -> None:
    old, new, more = (write_wheel(tmp_path / "w", *one) for one in (("one", "1.0"), ("one", "2.0"), ("two", "1.0")))
    write_recipe(tmp_path / "base", head(), listed(old), listed(more))
    own = write_recipe(tmp_path / "own", head(include="../base/channel.toml"), listed(new))
    found = {one.table.name: one.table.version for one in load(own).wheels}
    assert found == {"one": "2.0", "two": "1.0"}


def test_a_recipe_for_another_interpreter_cannot_be_included(tmp_path: Path) -> None:
    write_recipe(tmp_path / "base", head(python="3.9"))
    own = write_recipe(tmp_path / "own", head(include="../base/channel.toml"))
    base = tmp_path / "own" / ".." / "base" / "channel.toml"
    assert _problems(own) == [f"1: the included {base} has another `python`: 3.9"]


@pytest.mark.parametrize("name", ["local", "cuda"])
def test_the_recipes_of_this_repository_can_be_read(name: str) -> None:
    recipe = load(ROOT / "recipes" / name)
    assert recipe.channel.name == name
    torch = next(one.table for one in recipe.wheels if one.table.name == "torch")
    assert torch.version == {"local": "2.13.0+cpu", "cuda": "2.9.1"}[name]
