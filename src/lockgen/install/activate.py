"""Running a command in an environment as if it were activated, without a shell of one's own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from lockgen.errors import LockgenError, Problem

_SHELLS = ("bash", "sh")


class NoEnvironment(LockgenError):
    """There is no environment to run in."""


class NoCommand(LockgenError):
    """The command is not there, or cannot be run; the exit code is that of shells."""

    exit_code = 127


def activated(prefix: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that is active, without what its scripts set; the user's own come last."""
    folders = (prefix / "bin",)
    inherited = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if part]
    own = [str(folder) for folder in folders]
    return {
        **environ,
        "PATH": os.pathsep.join([*own, *(part for part in inherited if part not in own)]),
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": prefix.name,
        "CONDA_SHLVL": "1",
        **_variables(prefix),
    }


def _variables(prefix: Path) -> dict[str, str]:
    """Variables that packages and the user keep in files."""
    found: dict[str, str] = {}
    for path in sorted((prefix / "etc/conda/env_vars.d").glob("*.json")):
        found |= _texts(_json(path))
    state = _json(prefix / "conda-meta/state")
    return found | (_texts(state.get("env_vars")) if isinstance(state, dict) else {})


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def execute(named: Path, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """
    Become the command, so that signals and the exit code are its own.

    The scripts of `etc/conda/activate.d` are read first, by bash where there is one.

    Raises:
        NoEnvironment: the prefix is no conda environment.
        NoCommand: the command is neither in the environment nor on the path.
    """
    prefix = Path(os.path.abspath(named.expanduser()))
    if not (prefix / "conda-meta").is_dir():
        hint = f"to make one, run `lockgen install LOCK -p {named}`"
        raise NoEnvironment(Problem(message=f"{prefix} is not a conda environment", hint=hint))
    variables = activated(prefix, environ)
    scripts = sorted(map(str, (prefix / "etc/conda/activate.d").glob("*.sh")))
    if not shutil.which(command[0], path=variables["PATH"]):
        raise NoCommand(Problem(message=f"no command `{command[0]}` in {prefix} or on the path"))
    argv = _with_scripts(scripts, command, variables["PATH"]) if scripts else list(command)
    program = shutil.which(argv[0], path=variables["PATH"])
    assert program is not None
    try:
        os.execve(program, argv, variables)
    except OSError as error:
        raise NoCommand(Problem(message=f"cannot run {program}: {error.strerror}")) from None


def _with_scripts(scripts: Sequence[str], command: Sequence[str], path: str) -> list[str]:
    """A shell that reads the scripts and becomes the command, which it gets as its arguments, unread."""
    shell = next((name for name in _SHELLS if shutil.which(name, path=path)), None)
    if shell is None:
        raise NoCommand(Problem(message="no shell for the scripts in etc/conda/activate.d: neither bash nor sh"))
    # read within a function, so that a script's own `set --` does not touch the command
    lines = ['lockgen_read() { . "$1"; }', *(f"lockgen_read {shlex.quote(script)}" for script in scripts)]
    return [shell, "-c", "\n".join([*lines, "unset -f lockgen_read", 'exec "$@"']), command[0], *command]
