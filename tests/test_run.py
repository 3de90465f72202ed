"""`lockgen run`: a command in an activated environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from installing import command, environment, lockgen
from package_builder import Recipe, lock_of, write_channel, write_lock

SCRIPT = 'export FROM_SCRIPT="$CONDA_PREFIX/share"\nset -- lost arguments\n'
RECIPE = Recipe(
    name="hello",
    files={
        "bin/hello": '#!/bin/sh\nprintf "%s|" "$0" "$@"\n',
        "etc/conda/activate.d/hello.sh": SCRIPT,
        "etc/conda/env_vars.d/hello.json": json.dumps({"FROM_PACKAGE": "1", "BOTH": "package"}),
    },
)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    made = write_channel(folder / "channel", [RECIPE])
    lock = write_lock(folder / "lock", lock_of(made.values()))
    done = lockgen("install", lock, "-p", folder / "my env", LOCKGEN_CACHE_DIR=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    return folder / "my env"


@pytest.fixture
def without_scripts(prefix: Path, tmp_path: Path) -> Path:
    (tmp_path / "env/conda-meta").mkdir(parents=True)
    return tmp_path / "env"


def test_arguments_arrive_as_they_are(prefix: Path) -> None:
    done = lockgen("run", "-p", prefix, "--", "hello", "a b", "--help", "$HOME", "")
    assert done.stdout == f"{prefix}/bin/hello|a b|--help|$HOME||"


def test_variables_are_those_of_an_active_environment(prefix: Path) -> None:
    done = lockgen("run", "-p", prefix, "--", "env", "-0", BOTH="mine", PATH=f"{prefix}/bin:{os.environ['PATH']}")
    found = dict(row.split("=", 1) for row in done.stdout.split("\0") if row)
    assert found["PATH"] == f"{prefix}/bin:{os.environ['PATH']}"
    assert found["CONDA_PREFIX"] == str(prefix)
    assert found["CONDA_DEFAULT_ENV"] == "my env"
    assert found["FROM_SCRIPT"] == f"{prefix}/share"
    assert (found["FROM_PACKAGE"], found["BOTH"]) == ("1", "package")


def test_variables_that_the_user_set_win(prefix: Path) -> None:
    state = prefix / "conda-meta/state"
    state.write_text(json.dumps({"version": 1, "env_vars": {"BOTH": "user"}}))
    try:
        assert lockgen("run", "-p", prefix, "--", "sh", "-c", "echo $BOTH").stdout == "user\n"
    finally:
        state.unlink()


@pytest.mark.parametrize("code", [0, 1, 42])
def test_the_exit_code_is_the_commands_own(prefix: Path, without_scripts: Path, code: int) -> None:
    for folder in (prefix, without_scripts):
        assert lockgen("run", "-p", folder, "--", "sh", "-c", f"exit {code}").returncode == code


def test_signals_reach_the_command(prefix: Path, without_scripts: Path) -> None:
    for folder in (prefix, without_scripts):
        line = command(
            "run", "-p", folder, "--", "sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        )
        running = subprocess.Popen(line, stdout=subprocess.PIPE, env=environment(), text=True)
        assert running.stdout
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 5
        running.stdout.close()


def test_a_command_killed_by_a_signal_shows_it(without_scripts: Path) -> None:
    assert lockgen("run", "-p", without_scripts, "--", "sh", "-c", "kill -9 $$").returncode == -9


def test_a_command_that_is_not_there(prefix: Path, without_scripts: Path) -> None:
    for folder in (prefix, without_scripts):
        done = lockgen("run", "-p", folder, "--", "no-such-command")
        assert done.returncode == 127
        assert done.stderr == f"error: no command `no-such-command` in {folder} or on the path\n"


def test_a_folder_that_is_no_environment(tmp_path: Path) -> None:
    done = lockgen("run", "-p", tmp_path, "--", "true")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: {tmp_path} is not a conda environment\n  hint: to make one, run `lockgen install LOCK -p {tmp_path}`\n"
    )


def test_it_starts_quickly(without_scripts: Path) -> None:
    lockgen("run", "-p", without_scripts, "--", "true")
    started = time.monotonic()
    lockgen("run", "-p", without_scripts, "--", "true")
    assert time.monotonic() - started < 2
