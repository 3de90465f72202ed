"""The exit code is right every time: with the solver's threads, a signal or a reader that leaves in between."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import COMMAND, SPEC, contents, environment, lockgen, resolved, workshop

RUNS = 40


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workshop with one spec that can be locked and one that cannot, the first locked."""
    folder = workshop(tmp_path_factory.mktemp("exit"))
    (folder / "wrong.yaml").write_text(SPEC.replace("[numpy]", "[numpy >=9]"))
    assert resolved(folder).returncode == 0
    return folder


def test_forty_runs_that_solve_give_forty_right_exit_codes(place: Path) -> None:
    before = contents(place / "small")

    def code(number: int) -> tuple[int, int]:
        name, right = ("wrong.yaml", 2) if number % 4 == 3 else ("small.yaml", 0)
        run = lockgen("resolve", name, "--snapshot", "channels", "-o", f"out{number}", cwd=place)
        return run.returncode, right

    with ThreadPoolExecutor(max_workers=2) as pool:
        codes = list(pool.map(code, range(RUNS)))
    assert [found for found, _ in codes] == [right for _, right in codes]
    for number in range(RUNS):
        out = place / f"out{number}"
        assert not out.exists() if number % 4 == 3 else contents(out) == before


@pytest.fixture
def silent_channel() -> Iterator[tuple[str, threading.Event]]:
    """The URL of a channel on this machine that takes questions and never answers, and whether one has come."""
    asked, open_ones = threading.Event(), []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            open_ones.append(connection)
            asked.set()

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}/slow", asked
    server.close()
    for connection in open_ones:
        connection.close()


def test_ctrl_c_exits_130_in_silence_and_leaves_the_files_alone(
    silent_channel: tuple[str, threading.Event], place: Path
) -> None:
    url, asked = silent_channel
    (place / "slow.yaml").write_text(f"{SPEC}channels: ['{url}']\n")
    before = contents(place / "small")
    run = subprocess.Popen(
        [*COMMAND, "resolve", "slow.yaml", "-o", "small"],
        cwd=place, env=environment({"XDG_CACHE_HOME": str(place / "cache")}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    )  # fmt: skip
    try:
        assert asked.wait(30)
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=20)
    finally:
        run.kill()
    assert (run.returncode, output, errors) == (130, "", "")
    assert contents(place / "small") == before


def test_a_reader_that_leaves_is_no_error_to_show(place: Path) -> None:
    writer = subprocess.Popen(
        [*COMMAND, "list", "small", "--json"],
        cwd=place, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    assert writer.stderr.read() == b""
    assert writer.wait(20) == -signal.SIGPIPE  # a shell shows 141, as for any program before `| head`


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [("list", "small"), ("list", "small", "--json"), ("--help",)])
def test_output_that_is_lost_is_an_error(arguments: tuple[str, ...], place: Path) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [*COMMAND, *arguments],
            cwd=place,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (run.returncode, run.stderr) == (2, "error: No space left on device\n")


def test_a_terminal_that_cannot_show_a_character_gets_its_code(place: Path) -> None:
    run = lockgen("why", "libgcc", "small", cwd=place, env={"PYTHONIOENCODING": "ascii"})
    assert (run.returncode, run.stderr) == (0, "")
    assert "\\u2514\\u2500 numpy" in run.stdout


def test_a_closed_stdout_is_no_traceback(place: Path) -> None:
    command = " ".join([*COMMAND, "resolve", "small.yaml", "--check", "--json"])
    run = subprocess.run(
        ["/bin/sh", "-c", f"{command} >&-"], cwd=place, env=environment(), stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_a_bug_shows_its_traceback_and_is_no_answer(place: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import lockgen.plan\ndel lockgen.plan.plan\n")
    path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    run = lockgen("resolve", "small.yaml", "--check", cwd=place, env={"PYTHONPATH": path})
    assert run.returncode == 2
    assert "Traceback" in run.stderr
