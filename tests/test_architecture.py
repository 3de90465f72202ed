"""The shape of the house: imports point downward, facts are data, the outside has its few doors."""

from __future__ import annotations

import ast
import datetime
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import lockgen
from conftest import ROOT

SOURCE = ROOT / "src" / "lockgen"
PAYLOAD = SOURCE / "verify" / "payload"
STAGE = SOURCE / "image" / "payload"
"""Runs by itself too, and is imported as well."""
SCRIPTS = SOURCE / "knowledge" / "recipes"
"""Files that users get: no code of lockgen."""
MODULES = sorted(path for path in SOURCE.rglob("*.py") if not {PAYLOAD, SCRIPTS} & {*path.parents})
LAYERS = (
    ("errors",),
    ("channelname", "matchspec", "knowledge", "request"),
    ("spec",),
    ("plan", "lock"),
    ("channels",),
    ("solve",),
    ("steer",),
    ("diagnose", "choices", "conflict"),
    ("resolve",),
    ("host", "output"),
    ("install", "channel", "verify", "report", "image"),
    ("artefacts",),
    ("cli",),
)
"""Low to high; a module imports from its own layer and those below."""
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
RATTLER = {"matchspec", "channels", "solve", "install", "channel"}
PACKAGES = {"", "snapshot"}
"""Nothing but a docstring: the package itself, and a folder of data."""

FORMATS = ("https://json-schema.org", "https://in-toto.io", "https://slsa.dev")
"""Where formats of files have their names."""


def unit(path: Path) -> str:
    """The first part of a module's name below `lockgen`: `spec` of `lockgen.spec.parse`."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py").removeprefix("__init__")


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of imported modules; those for type checkers alone are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole module"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from imports(node)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_keeps_to_its_layer(path: Path) -> None:
    here = unit(path)
    names = list(imports(parsed(path)))
    for name in names:
        parts = name.split(".")
        if parts[0] == "lockgen" and len(parts) > 1 and here not in PACKAGES:
            assert LEVEL[parts[1]] <= LEVEL[here], f"{here} imports {name}"
    roots = {name.split(".")[0] for name in names}
    assert "rattler" not in roots or here in RATTLER
    assert "click" not in roots


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_opens_with_what_it_holds_and_prints_nothing(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree)
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"print", "input", "breakpoint", "exec", "eval"}


def test_every_unit_has_its_layer() -> None:
    assert {unit(path) for path in MODULES} - PACKAGES == set(LEVEL)


def test_rattler_is_imported_where_it_is_said_to_be() -> None:
    found = {unit(path) for path in MODULES if "rattler" in {name.split(".")[0] for name in imports(parsed(path))}}
    assert found == RATTLER


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_fact_about_the_outside_is_code(path: Path) -> None:
    tree = parsed(path)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            assert not re.search(r"[0-9a-f]{32,}", node.value), node.value
            for url in re.findall(r"https?://[\w.-]+", node.value):
                assert url in ("https://conda.anaconda.org", *FORMATS), node.value


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "knowledge").rglob("*.toml")), ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_every_fact_has_a_source_and_the_day_it_was_checked(path: Path) -> None:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    sourced = "source" in content
    if sourced:
        assert isinstance(content["checked"], datetime.date)
    for name, rows in content.items():
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict) and not sourced:
                assert row.get("source"), f"{name}: {row}"
                assert isinstance(row.get("checked"), datetime.date), f"{name}: {row}"
    assert sourced or any(isinstance(rows, list) for rows in content.values())


LOCKED = sorted(path for path in (ROOT / "envs").glob("*.yaml") if path.with_suffix("").is_dir())


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.stem)
def test_the_files_of_every_committed_lock_are_current(path: Path) -> None:
    run = lockgen("resolve", path.relative_to(ROOT), "--check", cwd=ROOT)
    assert (run.returncode, run.stderr) == (0, f"current: {path.relative_to(ROOT).with_suffix('')}\n")


def test_git_leaves_the_line_ends_of_locks_alone() -> None:
    assert "envs/** text eol=lf" in (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "path",
    sorted([*PAYLOAD.rglob("*.py"), *STAGE.rglob("*.py")]),
    ids=lambda path: path.relative_to(SOURCE).as_posix(),
)
def test_the_payload_stands_alone(path: Path) -> None:
    """It runs in the target environment: Python 3.9, nothing but the standard library when a module is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    own = {one.stem for one in PAYLOAD.rglob("*.py")} | {"lockgen_checks"}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert all(name.split(".")[0] in sys.stdlib_module_names | own for name in names), ast.unparse(node)
    assert "lockgen" not in {name.split(".")[0] for name in imports(tree)}
