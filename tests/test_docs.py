"""The docs are current, their links lead somewhere, and every command line in them is one that lockgen takes."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
import yaml
from conftest import ROOT

from lockgen.cli.main import app
from lockgen.knowledge import tables
from lockgen.plan import plan
from lockgen.spec.model import schema
from lockgen.spec.parse import load

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("README.md"), ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def _reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_generated_pages_and_tables_are_current() -> None:
    stale = [_named(path) for path, text in _reference().everything(with_output=False) if path.read_text() != text]
    assert stale == [], "run tools/reference.py"


@pytest.mark.parametrize("path", [ROOT / "README.md", DOCS / "index.md"], ids=_named)
def test_outputs_of_the_first_pages_are_what_the_commands_print(path: Path) -> None:
    """They use the bundled snapshot, so everyone gets the same; the others need ../shared/channels and take longer."""
    assert _reference().page(path, with_output=True) == path.read_text(), "run tools/reference.py"


def _keys(part: dict[str, Any], parts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, one in [("Top of the file", part), *parts.items()]:
        for key in one.get("properties", {}):
            yield name, key


def test_every_key_of_the_model_is_documented_with_an_example() -> None:
    whole = schema()
    sections = re.split(r"^## ", (DOCS / "reference" / "spec.md").read_text(), flags=re.MULTILINE)
    by_title = {section.split("\n", 1)[0]: section for section in sections}
    for name, key in _keys(whole, whole["$defs"]):
        if name == "Overlay":
            assert f"`{key}`" in by_title[name]
            continue
        row = next((line for line in by_title[name].splitlines() if line.startswith(f"| `{key}` |")), None)
        assert row is not None, f"{name}: {key}"
        *_, meaning, example = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert meaning != "–", f"{name}: {key} has no description"
        assert example.startswith(f"`{key}:") or key == "pytorch-cuda", f"{name}: {key} has no example"


def test_the_example_with_every_key_can_be_planned() -> None:
    planned = plan(load(DOCS / "reference" / "example.yaml"))
    assert len(planned.planned) == 18
    written = yaml.load((DOCS / "reference" / "example.yaml").read_text(), yaml.BaseLoader)
    assert set(schema()["properties"]) - set(written) == {"pytorch-cuda"}


def test_every_extra_and_command_is_in_the_reference() -> None:
    extras = (DOCS / "reference" / "extras.md").read_text()
    assert [name for name in tables.extra_names() if f"\n## {name}\n" not in extras] == []
    commands = (DOCS / "reference" / "cli.md").read_text()
    for name, command in _commands().items():
        assert f"\n## lockgen {name}{' ' if hasattr(command, 'commands') else chr(10)}" in commands
        for param in command.params:
            assert param.name == "help" or f"`{param.opts[0]}`" in commands or f"{param.name.upper()}" in commands


def test_exit_codes_are_documented() -> None:
    text = (DOCS / "exit-codes.md").read_text()
    assert [code for code in ("| 0 | yes", "| 1 | the answer is no", "| 2 | it could not") if code not in text] == []


def _slugs(text: str) -> set[str]:
    """Anchors of a page's headings; the same on GitHub and in mkdocs for the headings that we write."""
    prose = FENCE.sub("", text)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower()) for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=_named)
def test_links_and_anchors_resolve(path: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in _slugs(target.read_text())):
            broken.append(link)
    assert broken == []


def _commands() -> dict[str, Any]:
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def _command_lines(text: str) -> Iterator[str]:
    """Each `lockgen …` in a shell block, and in code within a sentence where it is a whole command line."""
    for kind, block in FENCE.findall(text):
        if kind in ("console", "sh", "bash"):
            shown = [line for line in block.splitlines() if kind != "console" or line.startswith("$ ")]
            lines = [line.strip().removeprefix("$ ") for line in shown]
            yield from (line for line in lines if line.startswith(("lockgen ", ".venv/bin/lockgen ")))
    yield from re.findall(r"`(lockgen [a-z][^`]*)`", FENCE.sub("", text))


@pytest.mark.parametrize("path", PAGES, ids=_named)
def test_every_command_line_is_one_that_lockgen_takes(path: Path) -> None:
    for line in _command_lines(path.read_text()):
        words = shlex.split(re.split(r"\s(?:\||2>|>|;|&&)|;", line)[0], comments=True)[1:]
        if words[0].startswith("--"):
            assert words[0] in ("--version", "--help"), line
            continue
        words = [*words[: words.index("--")], "CMD"] if "--" in words else words
        command = _commands()[words[0]]
        if words[0] in ("channel", "image") and len(words) > 1:
            command, words = command.commands[words[1]], words[1:]
        if len(words) > 1:
            _parse(command, words, line)


def _parse(command: Any, words: list[str], line: str) -> None:
    """Parse the words of a command line; a missing argument is fine in a sentence, an unknown option is not."""
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    unknown = [word for word in words[1:] if word.startswith("-") and word.split("=")[0] not in {*known, "--help"}]
    assert unknown == [], line
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    if all(word.startswith("-") for word in words[1:]) and any(one.required for one in arguments):
        return
    command.make_context("lockgen", words[1:]).close()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "how-to" / "index.html").is_file()
