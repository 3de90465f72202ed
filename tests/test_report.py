"""Screens as people see them, whole, as golden files; and how they behave where they are piped."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from command_line import COMMAND, VARIANTS, environment, golden, lockgen, resolved, workshop
from conftest import ROOT
from fake_channel import record

from lockgen.report import text

FLAGSHIP = (
    'name: flagship\npython: "3.13"\npytorch: "2.9"\npytorch-cuda: "12.1"\nextras: [nlp]\nplatforms: [linux-64]\n'
)
EXTRA = ROOT / "src/lockgen/knowledge/extras/nlp.toml"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workshop where `small.yaml` is like the flagship, with what its extra asks for, and is locked."""
    folder = tmp_path_factory.mktemp("screens")
    names = [row["spec"].split()[0] for row in tomllib.loads(EXTRA.read_text())["package"]]
    more = [
        record(name, f"1.{position}.0", f"cuda129_{position}" if name == "torchvision" else f"py313_{position}",
               ["pytorch >=2.0", *(["numpy"] if position % 2 else [])], size=10 ** (position % 7 + 3))
        for position, name in enumerate(names)
    ]  # fmt: skip
    workshop(folder, FLAGSHIP, more)
    (folder / "variants.yaml").write_text(VARIANTS)
    run = resolved(folder)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.mark.parametrize("columns", ["80", "160"])
def test_the_screen_of_resolve(columns: str, place: Path, request: pytest.FixtureRequest) -> None:
    arguments = ("resolve", "small.yaml", "--snapshot", "channels", "-o", f"fresh{columns}")
    run = lockgen(*arguments, cwd=place, env={"COLUMNS": columns})
    assert (run.returncode, run.stdout) == (0, "")
    golden(request, f"screens/resolve-{columns}.txt", run.stderr)


def test_the_screen_of_variants(place: Path, request: pytest.FixtureRequest) -> None:
    run = lockgen("resolve", "variants.yaml", "--snapshot", "channels", cwd=place)
    assert (run.returncode, run.stdout) == (0, "")
    golden(request, "screens/variants.txt", run.stderr)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list", ("list", "small")),
        ("list-by-size", ("list", "small", "--sort", "size")),
        ("why", ("why", "numpy", "small")),
        ("why-asked-for", ("why", "pytorch", "small")),
    ],
)
def test_the_screen_of(name: str, arguments: tuple[str, ...], place: Path, request: pytest.FixtureRequest) -> None:
    run = lockgen(*arguments, cwd=place)
    assert (run.returncode, run.stderr) == (0, "")
    golden(request, f"screens/{name}.txt", run.stdout)


def test_the_screen_of_several_mistakes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    spec = 'name: small\npyton: "3.13"\npytorch: two\nplatforms: [linux-46]\ngpus: [V1000]\ndependencies: ["numpy 2"]\n'
    workshop(tmp_path, spec)
    run = resolved(tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    golden(request, "screens/mistakes.txt", run.stderr)


def test_the_screen_of_an_unsolvable_spec(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    workshop(tmp_path, FLAGSHIP.replace("extras: [nlp]", 'dependencies: ["numpy >=9"]'))
    run = resolved(tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    golden(request, "screens/unsolvable.txt", run.stderr)


@pytest.mark.parametrize("screen", sorted(path.name for path in (ROOT / "tests/golden/screens").glob("*.txt")))
def test_a_piped_screen_is_plain_text_without_blanks_at_line_ends(screen: str) -> None:
    content = (ROOT / "tests/golden/screens" / screen).read_text(encoding="utf-8")
    assert "\x1b" not in content
    assert [line for line in content.splitlines() if line != line.rstrip()] == []
    if screen.startswith(("resolve", "variants")):
        assert max(map(len, content.splitlines())) <= (100 if "160" in screen else 80)


def test_a_list_is_not_folded_where_it_is_piped(tmp_path: Path) -> None:
    long = "a-name-that-is-longer-than-any-terminal-is-wide-" * 3 + "x"
    workshop(tmp_path, f'name: small\npython: "3.13"\ndependencies: [{long}]\n', [record(long, "1.0", "h" * 60 + "_0")])
    assert resolved(tmp_path).returncode == 0
    run = lockgen("list", "small", cwd=tmp_path, env={"COLUMNS": "40"})
    assert any(line.startswith(f"{long}  1.0") and "h" * 60 in line for line in run.stdout.splitlines())


def test_brackets_and_colons_are_shown_as_they_are_written(tmp_path: Path) -> None:
    workshop(tmp_path, "name: small\ndependencies: ['numpy[version=\">=2\"]', 'libblas[build=h1_0]']\n")
    run = resolved(tmp_path, "-o", "[red]out :smile:")
    assert run.returncode == 0, run.stderr
    assert 'dependencies: numpy[version=">=2"]' in run.stderr
    assert "dependencies: libblas[build=h1_0]" in run.stderr
    assert "wrote     [red]out :smile:/  Dockerfile" in run.stderr
    assert "conda-lock install -n small '[red]out :smile:/conda-lock.yml'\n" in run.stderr


def on_a_terminal(*arguments: str, cwd: Path, env: dict[str, str]) -> str:
    """What the program shows on a terminal of 80 columns, both streams together."""
    master, slave = pty.openpty()
    variables = environment({"TERM": "xterm-256color", "COLUMNS": "80", **env})
    run = subprocess.Popen([*COMMAND, *arguments], cwd=cwd, env=variables, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(master)
    assert run.wait(30) == 0
    return shown.decode()


def test_a_terminal_gets_colour_unless_it_is_asked_not_to(place: Path) -> None:
    arguments = ("resolve", "small.yaml", "--snapshot", "channels", "-o", "terminal")
    coloured = on_a_terminal(*arguments, cwd=place, env={})
    assert "\x1b[1mflagship\x1b[0m on \x1b[1mlinux-64\x1b[0m" in coloured
    plain = on_a_terminal(*arguments, cwd=place, env={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", plain)


def test_a_narrow_terminal_folds_a_list_and_cuts_nothing(place: Path) -> None:
    shown = on_a_terminal("list", "small", cwd=place, env={"COLUMNS": "30", "NO_COLOR": "1"})
    assert "…" not in shown
    assert "cuda" in shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_949, "99.9 kB"), (123_456, "123 kB"), (999_499, "999 kB"),
        (999_500, "1.0 MB"), (8_123_456, "8.1 MB"), (885_000_000, "885 MB"), (4_210_000_000, "4.21 GB"),
    ],
)  # fmt: skip
def test_sizes_as_people_read_them(count: int, shown: str) -> None:
    assert text.size(count) == shown


def words(text: str) -> str:
    """A screen without its line breaks."""
    return " ".join(text.split())


def test_a_screen_answers_the_driver_and_the_gpus_that_were_asked_for(tmp_path: Path) -> None:
    workshop(tmp_path, 'name: small\npytorch: "2.9"\ncuda: "12.1"\ndriver: ">=535"\ngpus: [V100, H200]\n')
    run = resolved(tmp_path)
    assert run.returncode == 0, run.stderr
    assert "driver 525.60.13 or newer; 535, which the spec allows, runs it GPUs " in words(run.stderr)
    assert " asked for: 7.0 Volta covered, 9.0 Hopper covered newer GPUs " in words(run.stderr)


def test_a_screen_tells_what_is_the_same_for_two_variants_once(tmp_path: Path) -> None:
    workshop(tmp_path, 'name: small\npytorch: "2.9"\ncuda: "12.1"\nvariants: {a: {}, b: {dependencies: [numpy]}}\n')
    run = resolved(tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("525.60.13") == 2  # the driver, and why
    assert "CUDA asked 12.1, locked 12.9; all as above for linux-64, variant a system " in words(run.stderr)


def test_a_screen_says_that_nothing_uses_the_cuda_that_was_asked_for(tmp_path: Path) -> None:
    workshop(tmp_path, 'name: small\ncuda: "12.9"\ndependencies: [numpy]\n')
    run = resolved(tmp_path)
    assert run.returncode == 0, run.stderr
    assert "checked CUDA was asked for, nothing in the answer uses it; " in words(run.stderr)


def test_a_screen_names_what_is_for_cuda_where_none_was_asked_for(tmp_path: Path) -> None:
    cupy = record("cupy", "13.0", "py313_0", ["cuda-version >=12,<13"])
    workshop(tmp_path, "name: small\ncuda: none\ndependencies: [cupy]\n", [cupy])
    run = resolved(tmp_path)
    assert run.returncode == 0, run.stderr
    assert "checked no GPU build was asked for, but these are for CUDA: cuda-version, cupy; " in words(run.stderr)


def test_a_screen_names_the_cpu_builds_among_gpu_builds_with_their_reason(tmp_path: Path) -> None:
    more = [record("booster", depends=["lightgbm"]), record("lightgbm", "4.6.0", "cpu_py_0")]
    workshop(tmp_path, FLAGSHIP.replace("extras: [nlp]", "dependencies: [booster]"), more)
    run = resolved(tmp_path)
    assert run.returncode == 0, run.stderr
    assert "on CPU lightgbm: gradient boosting beside PyTorch, shares no tensors with it" in words(run.stderr)
    assert "checked GPU builds but for those on CPU; " in words(run.stderr)
