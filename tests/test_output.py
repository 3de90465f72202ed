"""Files on disk: whole whatever happens, left alone where they are right, with the modes that people expect."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from command_line import COMMAND, SPEC, contents, environment, lockgen, resolved, workshop

from lockgen.errors import LockError
from lockgen.output import write_all

KILLED = 16


def test_what_changed_is_said_and_what_is_right_keeps_its_time(tmp_path: Path) -> None:
    assert write_all(tmp_path, {"a": "1\n", "b": "2\n"}) == ("a", "b")
    os.utime(tmp_path / "a", ns=(1, 1))
    os.utime(tmp_path / "b", ns=(1, 1))
    assert write_all(tmp_path, {"a": "1\n", "b": "3\n"}) == ("b",)
    assert (tmp_path / "a").stat().st_mtime_ns == 1
    assert (tmp_path / "b").stat().st_mtime_ns > 1
    assert contents(tmp_path) == {"a": "1\n", "b": "3\n"}


def test_the_canonical_lock_comes_last(tmp_path: Path) -> None:
    files = {"conda-lock.yml": "l", "pixi.toml": "p", "Dockerfile": "d"}
    assert write_all(tmp_path, files) == ("Dockerfile", "pixi.toml", "conda-lock.yml")


def test_bytes_are_utf_8_with_line_feeds_on_every_system(tmp_path: Path) -> None:
    write_all(tmp_path, {"a": "é\n→\n"})
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9\n\xe2\x86\x92\n"


def test_left_over_files_go(tmp_path: Path) -> None:
    write_all(tmp_path, {"old": "1"})
    write_all(tmp_path, {"new": "1"}, ["old", "never-there"])
    assert contents(tmp_path) == {"new": "1"}


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o644)])
def test_files_have_the_mode_of_any_new_file_and_are_not_executable(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_all(tmp_path, {"a": "1"})
    finally:
        assert os.umask(before) == umask
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


def test_a_folder_that_is_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_all(tmp_path / "link", {"a": "1"})
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "real") == {"a": "1"}


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(LockError) as error:
        write_all(tmp_path / "file" / "out", {"a": "1"})
    assert str(error.value) == (
        f"cannot write {tmp_path}/file/out: {tmp_path}/file/out: Not a directory\n  hint: `-o` names another folder"
    )
    assert contents(tmp_path) == {"file": "mine"}


def test_a_folder_in_the_way_of_a_file_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(LockError, match=r"b: Is a directory"):
        write_all(tmp_path, {"a": "1", "b": "2", "c": "3"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_text_that_cannot_be_encoded_leaves_everything_as_it_was(tmp_path: Path) -> None:
    write_all(tmp_path, {"a": "1"})
    with pytest.raises(UnicodeEncodeError):
        write_all(tmp_path, {"a": "2", "b": "\udc80"})
    assert contents(tmp_path) == {"a": "1"}


def test_temporary_files_of_a_killed_run_are_in_nobodys_way(tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    (tmp_path / "small" / ".conda-lock.yml.k1ll3d").write_text("version: 1\nhalf")
    assert resolved(tmp_path).returncode == 0
    for arguments in (("list",), ("resolve", "small.yaml", "--check"), ("resolve", "small.yaml", "--frozen")):
        assert lockgen(*arguments, cwd=tmp_path).returncode == 0


def test_the_command_says_when_it_cannot_write(tmp_path: Path) -> None:
    workshop(tmp_path)
    (tmp_path / "file").write_text("mine")
    run = resolved(tmp_path, "-o", "file/out")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "error: cannot write file/out: file/out: Not a directory\n  hint: `-o` names another folder\n"
    )
    assert (tmp_path / "file").read_text() == "mine"


def test_killed_at_any_moment_every_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    """Two specs take turns on one folder; each run is killed somewhere, most of them while it writes."""
    workshop(tmp_path)
    (tmp_path / "other.yaml").write_text(SPEC.replace("[numpy]", "[libblas]").replace("name: small", "name: other"))
    whole = {}
    for name in ("other", "small"):
        run = lockgen("resolve", f"{name}.yaml", "--snapshot", "channels", "-o", f"out-{name}", cwd=tmp_path)
        assert run.returncode == 0
        whole[name] = contents(tmp_path / f"out-{name}")
    target = tmp_path / "out-small"
    chance = random.Random(7)
    started = time.monotonic()
    lockgen("resolve", "other.yaml", "--snapshot", "channels", "-o", "timed", cwd=tmp_path)
    usual = time.monotonic() - started
    for number in range(KILLED):
        name = ("other", "small")[number % 2]
        run = subprocess.Popen(
            [*COMMAND, "resolve", f"{name}.yaml", "--snapshot", "channels", "-o", "out-small"],
            cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            run.wait(usual * chance.uniform(0.75, 1.05))
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
        for file in whole["small"]:
            assert (target / file).read_text() in (whole["small"][file], whole["other"][file])
    run = lockgen("resolve", "small.yaml", "--snapshot", "channels", "-o", "out-small", cwd=tmp_path)
    assert run.returncode == 0
    assert {name: text for name, text in contents(target).items() if not name.startswith(".")} == whole["small"]
