"""A spec's folder: what is in it besides, and what of a spec makes its files stale."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import SPEC, lockgen, resolved, workshop


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workshop with one spec, locked."""
    folder = workshop(tmp_path)
    assert resolved(folder).returncode == 0
    return folder


def test_another_name_of_the_spec_makes_its_files_stale(place: Path) -> None:
    (place / "small.yaml").write_text(SPEC.replace("name: small", "name: second"))
    run = lockgen("resolve", "small.yaml", "--check", cwd=place)
    assert (run.returncode, run.stderr.splitlines()[0]) == (1, "`name` changed: `small` → `second`")
    assert lockgen("resolve", "small.yaml", "--frozen", cwd=place).returncode == 2


def test_another_reason_for_a_package_makes_the_files_stale(place: Path) -> None:
    extra = 'name = "mine"\nsummary = "ours"\n[[package]]\nspec = "numpy"\nreason = "{}"\nimports = []\n'
    own = place / "extras" / "mine.toml"
    own.parent.mkdir()
    own.write_text(extra.format("old words"))
    (place / "small.yaml").write_text(SPEC.replace("dependencies: [numpy]", "extras: [mine]"))
    assert resolved(place).returncode == 0
    own.write_text(extra.format("new words"))
    run = lockgen("resolve", "small.yaml", "--check", cwd=place)
    said = "linux-64: what asks for `numpy` changed: `extra mine: old words` → `extra mine: new words`"
    assert (run.returncode, run.stderr.splitlines()[0]) == (1, said)


def test_a_copy_of_a_lock_in_the_folder_is_named(place: Path) -> None:
    shutil.copy(place / "small" / "conda-lock.yml", place / "small" / "conda-lock.zzz.yml")
    run = lockgen("list", "small", cwd=place)
    said = "error: small/conda-lock.zzz.yml holds the lock of conda-lock.yml: is it a copy?"
    assert (run.returncode, run.stderr.splitlines()[0]) == (2, said)


def test_what_else_lies_in_the_folder_is_left_alone(place: Path) -> None:
    (place / "small" / "Dockerfile.d").mkdir()
    (place / "small" / "environment-win.yml").write_bytes(b"\xff\xfe")
    assert resolved(place).returncode == 0
    assert (place / "small" / "environment-win.yml").read_bytes() == b"\xff\xfe"


def test_a_spec_without_an_ending_is_refused_before_the_solve(place: Path) -> None:
    (place / "noext").write_text(SPEC)
    run = lockgen("resolve", "noext", "--snapshot", "channels", cwd=place)
    assert (run.returncode, run.stderr) == (
        2,
        "error: noext has no ending, so its folder would have the same name\n"
        "  hint: rename it to `NAME.yaml`, or name a folder with `-o`\n",
    )
