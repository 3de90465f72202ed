"""`lockgen init`: what it asks, what it writes, and what it refuses."""

from __future__ import annotations

import itertools
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from spec_text import here

from lockgen.knowledge import tables
from lockgen.plan import plan
from lockgen.spec import starter
from lockgen.spec.parse import load

__all__ = ["here"]

COMMAND = [sys.executable, "-m", "lockgen.cli.main", "init"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
EVERYTHING = f"""\
# A lockgen spec. Every key: `lockgen schema`. Lock it: `lockgen resolve` and the name of this file.
name: my-env
python: "3.13"

# A version (2.9), an exact one (2.9.1), or a range (">=2.8,<2.10").
pytorch: "2.9"

# The CUDA version that the machines' driver supports (nvidia-smi shows it), or none for CPU builds.
# Builds of the same major run there too; {{version: "12.1", match: exact}} insists on this toolkit.
cuda: "12.1"

# The oldest NVIDIA driver of the machines, and the GPUs that it must run on.
# driver: ">=535"
# gpus: [V100, H200]

# Named sets of packages: {", ".join(tables.extra_names())}.
extras: [nlp]
platforms: [linux-64]

# More packages, as conda match specs.
dependencies: []

# Ignore packages that were built later.
# as-of: 2026-11-30
"""


def init(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run as a script would: nobody is there to answer."""
    command = [*COMMAND, *arguments]
    nobody = subprocess.DEVNULL
    return subprocess.run(
        command, stdin=nobody, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
    )


@pytest.mark.usefixtures("here")
def test_without_a_terminal_it_writes_the_defaults() -> None:
    done = init()
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wrote envs/my-env.yaml\nnext: lockgen resolve envs/my-env.yaml\n"
    assert Path("envs/my-env.yaml").read_text() == EVERYTHING


@pytest.mark.usefixtures("here")
def test_flags_are_answers() -> None:
    flags = "--name team --python 3.12 --pytorch >=2.8,<2.10 --cuda none -e jupyter -e ssh -p linux-64 -p osx-arm64"
    assert init("here.yaml", *flags.split()).returncode == 0
    assert keys("here.yaml") == [
        "name: team",
        'python: "3.12"',
        'pytorch: ">=2.8,<2.10"',
        "cuda: none",
        "extras: [jupyter, ssh]",
        "platforms: [linux-64, osx-arm64]",
        "dependencies: []",
    ]


@pytest.mark.usefixtures("here")
def test_the_driver_and_the_gpus_are_flags_too() -> None:
    flags = "--cuda 12.4 --driver >=550 --gpu H200 --gpu 9.0"
    assert init("here.yaml", *flags.split()).returncode == 0
    assert keys("here.yaml")[3:6] == ['cuda: "12.4"', 'driver: ">=550"', 'gpus: [H200, "9.0"]']
    settings = load(Path("here.yaml")).targets[0].settings
    assert (settings.driver, settings.gpus) == ("550", ["H200", "9.0"])


def test_a_driver_and_a_gpu_that_are_none_write_nothing(here: Path) -> None:
    done = init("--driver", "new", "--gpu", "H2000")
    assert (done.returncode, done.stderr) == (
        2,
        "error: not a driver version: `new`\n"
        '  hint: write `">=535"`, the oldest NVIDIA driver of the machines\n\n'
        "error: unknown GPU: `H2000`\n  hint: did you mean `H200`?\n",
    )
    assert list(here.iterdir()) == []


def keys(file: str) -> list[str]:
    return [line for line in Path(file).read_text().splitlines() if line and not line.startswith("#")]


def asked(answers: bytes, *flags: str) -> str:
    """What it asks where a person is there, who gives these answers."""
    ours, theirs = pty.openpty()
    asking = subprocess.Popen([*COMMAND, *flags], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.write(ours, answers)
    _, said = asking.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert asking.returncode == 0
    return said.decode()


@pytest.mark.usefixtures("here")
def test_on_a_terminal_it_asks_for_what_is_not_given() -> None:
    said = asked(b"\n\n\n\n535\nV100, H200\nnlp,jupyter\n\n")
    assert said == (
        "name of the environment [my-env]: "
        "Python version [3.13]: "
        "PyTorch version [2.9]: "
        "CUDA version that the machines' driver supports (nvidia-smi shows it), or none [12.1]: "
        "oldest NVIDIA driver of the machines, such as 535 (Enter: any): "
        "GPUs it must run on, such as V100,H200 (Enter: any): "
        "extras, with commas between [nlp]: "
        "platforms, with commas between [linux-64]: "
        "wrote envs/my-env.yaml\nnext: lockgen resolve envs/my-env.yaml\n"
    )
    assert keys("envs/my-env.yaml")[4:8] == [
        'driver: "535"', "gpus: [V100, H200]", "extras: [nlp, jupyter]", "platforms: [linux-64]",
    ]  # fmt: skip


@pytest.mark.usefixtures("here")
def test_without_cuda_it_does_not_ask_for_gpus() -> None:
    assert asked(b"team\n\nnone\n\n\n", "--python", "3.12") == (
        "name of the environment [my-env]: "
        "PyTorch version [2.9]: "
        "CUDA version that the machines' driver supports (nvidia-smi shows it), or none [12.1]: "
        "extras, with commas between [nlp]: "
        "platforms, with commas between [linux-64]: "
        "wrote envs/team.yaml\nnext: lockgen resolve envs/team.yaml\n"
    )
    settings = load(Path("envs/team.yaml")).targets[0].settings
    assert (settings.python, settings.pytorch, settings.cuda and settings.cuda.version) == ("3.12", "2.9", "none")


@pytest.mark.usefixtures("here")
def test_a_file_is_not_replaced() -> None:
    Path("mine.yaml").write_text("mine\n")
    done = init("mine.yaml")
    assert done.returncode == 2
    assert done.stderr == "error: mine.yaml is there already\n  hint: `--force` replaces it\n"
    assert Path("mine.yaml").read_text() == "mine\n"
    assert init("mine.yaml", "--force").returncode == 0
    assert Path("mine.yaml").read_text() == EVERYTHING


@pytest.mark.usefixtures("here")
def test_a_dangling_link_is_not_replaced() -> None:
    Path("mine.yaml").symlink_to("gone.yaml")
    assert init("mine.yaml").returncode == 2
    assert Path("mine.yaml").is_symlink()


HINT = "  hint: letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first\n"
HOSTILE = {
    "up": ("../../x", f"error: not a name: `../../x`\n{HINT}"),
    "empty": ("", f"error: not a name: ``\n{HINT}"),
    "yaml": ('a"\nextends: [x]', f'error: not a name: `a"\\nextends: [x]`\n{HINT}'),
    "escape": ("\x1b[31mred", f"error: not a name: `\\x1b[31mred`\n{HINT}"),
    "long": ("n" * 300, f"error: not a name: `{'n' * 119}…`\n{HINT}"),
    "spaces": ("my env", f"error: not a name: `my env`\n{HINT}"),
}


@pytest.mark.parametrize(("name", "expected"), HOSTILE.values(), ids=HOSTILE)
def test_a_name_that_is_none_writes_nothing(name: str, expected: str, here: Path) -> None:
    done = init("--name", name)
    assert (done.returncode, done.stderr) == (2, expected)
    assert list(here.iterdir()) == []


def test_wrong_answers_are_all_said_and_nothing_is_written(here: Path) -> None:
    done = init("--python", "three", "--cuda", "12.7", "-e", "npl", "-p", "linux64")
    assert done.returncode == 2
    assert done.stderr == (
        "error: not a version of python: `three`\n"
        "  hint: write `3.13`, exact `3.13.1`, or a range such as `>=3.12,<3.14`\n\n"
        "error: unknown CUDA version: `12.7`\n"
        "  hint: known: 11.7, 11.8, 12.0, 12.1, 12.2, 12.3, 12.4, 12.5, 12.6, 12.8, 12.9, 13.0, 13.1, 13.2\n\n"
        "error: unknown extra: `npl`\n  hint: did you mean `nlp`?\n\n"
        "error: unknown platform: `linux64`\n  hint: did you mean `linux-64`?\n"
    )
    assert list(here.iterdir()) == []


STARTS = itertools.product(
    ("my-env", "yes", "NULL", "2024", "1e3", "0x10", "a.b_c", "on"),
    ("3.10", "3", ">=3.11"),
    ("2.9", "2.9.1"),
    ("12", "12.1", "None"),
)


def test_every_start_is_read_as_it_was_meant(here: Path) -> None:
    for name, python, pytorch, cuda in STARTS:
        start = starter.Start(name=name, python=python, pytorch=pytorch, cuda=cuda, platforms=("linux-64", "osx-arm64"))
        file = here / "s.yaml"
        file.write_text(starter.text(start))
        spec = load(file)
        settings = spec.targets[0].settings
        assert (spec.name, settings.python, settings.pytorch) == (name, python, pytorch)
        assert settings.cuda
        assert settings.cuda.version == {"12": "12.0", "12.1": "12.1", "None": "none"}[cuda]
        assert [one.request.platform for one in plan(spec).planned] == ["linux-64", "osx-arm64"]
