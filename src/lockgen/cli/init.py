"""`lockgen init`: a commented spec to start from, and scripts to train with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

FILE = typer.Argument(help="The spec to write; by default envs/NAME.yaml.")
NAME = typer.Option("--name", help="Name of the environment.")
PYTHON = typer.Option("--python", help="Python version.")
PYTORCH = typer.Option("--pytorch", help="PyTorch version.")
CUDA = typer.Option("--cuda", help="CUDA version that the machines' driver supports, or none.")
DRIVER = typer.Option("--driver", help="Oldest NVIDIA driver of the machines.")
GPU = typer.Option("--gpu", help="A GPU that it must run on, such as H200 or 9.0; may be given several times.")
EXTRA = typer.Option("--extra", "-e", help="An extra; may be given several times.")
PLATFORM = typer.Option("--platform", "-p", help="A platform; may be given several times.")
RECIPE = typer.Option(
    "--recipe",
    metavar="NAME",
    help="Write scripts and configurations to train with into train/, and ask for what they need: "
    "amp, ddp, fsdp or zero3; may be given several times.",
)
FORCE = typer.Option("--force", help="Replace files that are there.")


def init(
    file: Annotated[Path | None, FILE] = None,
    name: Annotated[str | None, NAME] = None,
    python: Annotated[str | None, PYTHON] = None,
    pytorch: Annotated[str | None, PYTORCH] = None,
    cuda: Annotated[str | None, CUDA] = None,
    driver: Annotated[str | None, DRIVER] = None,
    gpu: Annotated[list[str] | None, GPU] = None,
    extra: Annotated[list[str] | None, EXTRA] = None,
    platform: Annotated[list[str] | None, PLATFORM] = None,
    recipe: Annotated[list[str] | None, RECIPE] = None,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Write a commented spec to start from. Asks for what is not given where a person is there to answer."""
    from lockgen.output import write_all
    from lockgen.spec import starter, training

    lists = {"gpus": gpu, "extras": extra, "platforms": platform}
    given = {"name": name, "python": python, "pytorch": pytorch, "cuda": cuda, "driver": driver}
    given = {**given, **{key: ",".join(value) for key, value in lists.items() if value}}
    recipes = training.chosen(recipe or ())
    defaults = starter.DEFAULTS | training.defaults(recipes)
    answers = defaults | _answers(given, defaults)
    training.check(recipes, answers["pytorch"])
    chosen = starter.start(
        answers,
        extras=(one for recipe in recipes for one in recipe.extras),
        dependencies=(one for recipe in recipes for one in recipe.dependencies),
    )
    text = starter.text(chosen)
    path = file or Path("envs") / f"{chosen.name}.yaml"
    _check(text, path)
    there = _texts(training.FOLDER) if recipes else {}
    scripts = training.files(recipes, training.written(there))
    if not force:
        scripts, lost = training.to_write(scripts, there)
        _refuse_to_replace([path, *map(Path, lost)])
    write_all(Path() if scripts else path.parent, {**scripts, str(path if scripts else path.name): text})
    typer.echo(f"wrote {path}", err=True)
    if scripts:
        typer.echo(f"wrote {training.FOLDER}/: {', '.join(Path(one).name for one in scripts)}", err=True)
    if training.YOURS in there and not force:
        typer.echo(f"kept {training.YOURS}", err=True)
    typer.echo(f"next: lockgen resolve {path}", err=True)


def _check(text: str, path: Path) -> None:
    """The answers make a spec that can be read; what is wrong with them has no place, as there is no file yet."""
    from lockgen.errors import Problem, SpecError, UsageError
    from lockgen.spec.parse import load

    try:
        load(path, lambda asked: text.encode() if asked == path else asked.read_bytes())
    except SpecError as error:
        raise UsageError(*(Problem(message=one.message, hint=one.hint) for one in error.problems)) from None


def _texts(folder: str) -> dict[str, str]:
    """The files of a folder by path; what is no text has none."""
    found = (path for path in Path(folder).glob("*") if path.is_file())
    return {path.as_posix(): path.read_text(encoding="utf-8", errors="replace") for path in found}


def _refuse_to_replace(paths: Iterable[Path]) -> None:
    from lockgen.errors import Problem, UsageError, error_from

    there = [path for path in paths if os.path.lexists(path)]
    hint = f"`--force` replaces {'it' if len(there) == 1 else 'them'}"
    last = len(there) - 1
    error_from(
        UsageError,
        (
            Problem(message=f"{path} is there already", hint=hint if number == last else None)
            for number, path in enumerate(there)
        ),
    )


def _answers(given: Mapping[str, str | None], defaults: Mapping[str, str]) -> dict[str, str]:
    """What was given, and where a person is there, what that person answers to the rest."""
    from lockgen.spec import starter

    answers = {key: value for key, value in given.items() if value is not None}
    if not sys.stdin.isatty():
        return answers
    for key, question in starter.QUESTIONS.items():
        on_cpu = key in starter.WITH_CUDA and answers["cuda"].lower() == "none"
        if key not in answers and not on_cpu:
            default = defaults[key]
            answers[key] = typer.prompt(question, default=default, show_default=bool(default), err=True)
    return answers
