"""`lockgen install` on real packages, from folders and from servers that misbehave."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
from installing import command, environment, lockgen
from package_builder import (
    PLACEHOLDER,
    SITE_PACKAGES,
    Recipe,
    lock_of,
    noarch_python,
    python_recipe,
    write_channel,
    write_lock,
)

from lockgen.lock.model import LockedPackage

LIBX = Recipe(name="libx", files={"bin/x": f"#!/bin/sh\necho {PLACEHOLDER}\n", "lib/libx.so": "x" * 1000})
TOOL = noarch_python("tool", entry_points=("tool = tool:main",))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CONDA_OVERRIDE_CUDA", raising=False)


def install(lock: Path, prefix: Path, *options: object) -> str:
    """Install, and give what it told."""
    done = lockgen("install", lock, "-p", prefix, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return done.stderr


def refused(lock: Path, prefix: Path, *options: object) -> str:
    """Install what cannot be installed, and give the error."""
    done = lockgen("install", lock, "-p", prefix, *options)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def tree(prefix: Path) -> dict[str, str]:
    """Path → hash of all files that packages own, and the names of their records."""
    found = {}
    for path in sorted(prefix.rglob("*")):
        name = str(path.relative_to(prefix))
        if path.is_file() and not name.startswith("conda-meta/"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found | {f"conda-meta/{path.name}": "" for path in (prefix / "conda-meta").glob("*.json")}


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, LockedPackage]:
    return write_channel(tmp_path / "channel", [python_recipe(), TOOL, LIBX])


@pytest.fixture
def lock(tmp_path: Path, packages: dict[str, LockedPackage]) -> Path:
    return write_lock(tmp_path / "lock", lock_of(packages.values()))


# what it does


def test_a_lock_becomes_an_environment_with_absolute_paths_in_its_scripts(tmp_path: Path, lock: Path) -> None:
    done = lockgen("install", lock, "-p", "env", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    prefix = tmp_path / "env"
    assert (prefix / "bin/x").read_text() == f"#!/bin/sh\necho {prefix}\n"
    assert (prefix / "bin/tool").read_text().startswith(f"#!{prefix}/bin/python3.11\n")
    assert (prefix / SITE_PACKAGES / "tool/__init__.py").read_text() == "VERSION = '1.0'\n"
    assert sorted(path.name for path in (prefix / "conda-meta").glob("*.json")) == [
        "libx-1.0-h0_0.json", "python-3.11.4-h0_0.json", "tool-1.0-pyh0_0.json",
    ]  # fmt: skip
    assert done.stderr.splitlines()[0] == "installing 3 packages: 3 to unpack"
    assert re.fullmatch(r"installed 3 of 3 packages in \d+\.\d s: env", done.stderr.splitlines()[1])


def test_an_environment_that_is_right_is_left_alone_in_half_a_second_of_cpu(tmp_path: Path, lock: Path) -> None:
    install(lock, tmp_path / "env")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "env").rglob("*")}
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert install(lock, tmp_path / "env") == f"{tmp_path}/env is right already: 3 packages\n"
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime <= 0.5
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "env").rglob("*")} == before


def test_a_record_that_another_tool_removed_is_noticed(tmp_path: Path, lock: Path) -> None:
    install(lock, tmp_path / "env")
    (tmp_path / "env/conda-meta/libx-1.0-h0_0.json").unlink()
    assert "installed 1 of 3 packages" in install(lock, tmp_path / "env")


def test_quiet_tells_nothing(tmp_path: Path, lock: Path) -> None:
    assert install(lock, tmp_path / "env", "--quiet") == ""


def test_a_terminal_gets_one_display(tmp_path: Path, lock: Path) -> None:
    import pty

    main, side = pty.openpty()
    line = command("install", lock, "-p", tmp_path / "env")
    done = subprocess.run(line, stdout=side, stderr=side, timeout=60, check=False, env={**os.environ, "TERM": "xterm"})
    os.close(side)
    shown = os.read(main, 1 << 20).decode()
    assert done.returncode == 0
    assert "link" in shown
    assert "3 of 3" in shown
    assert "installed 3 of 3 packages" in shown.splitlines()[-2]


def test_what_the_lock_no_longer_lists_goes_with_its_compiled_files(
    tmp_path: Path, packages: dict[str, LockedPackage]
) -> None:
    install(write_lock(tmp_path / "one", lock_of(packages.values())), tmp_path / "env")
    compiled = tmp_path / "env" / SITE_PACKAGES / "tool/__pycache__"
    compiled.mkdir()
    (compiled / "__init__.cpython-311.pyc").write_bytes(b"")
    own = tmp_path / "env" / SITE_PACKAGES / "mine.py"
    own.write_text("")
    kept = [packages["python"], packages["libx"]]
    told = install(write_lock(tmp_path / "two", lock_of(kept)), tmp_path / "env")
    assert "removed tool in" in told
    assert not (tmp_path / "env" / SITE_PACKAGES / "tool").exists()
    assert not (tmp_path / "env/bin/tool").exists()
    assert own.exists()


def test_the_same_build_from_another_archive_is_installed_again(tmp_path: Path, lock: Path) -> None:
    install(lock, tmp_path / "env")
    other = replace(LIBX, files={**LIBX.files, "lib/libx.so": "y" * 1000})
    changed = write_channel(tmp_path / "channel", [python_recipe(), TOOL, other])
    assert "installed 1 of 3" in install(write_lock(tmp_path / "two", lock_of(changed.values())), tmp_path / "env")
    assert (tmp_path / "env/lib/libx.so").read_text() == "y" * 1000


def test_compile_makes_bytecode_and_is_remembered(tmp_path: Path) -> None:
    python = replace(
        python_recipe(), files={"bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n', "bin/python3.11": ""}
    )
    broken = noarch_python("odd", files={"site-packages/odd/template.py": "{{ not python }}\n"})
    made = write_channel(tmp_path / "channel", [python, TOOL, broken])
    lock = write_lock(tmp_path / "lock", lock_of(made.values()))
    told = install(lock, tmp_path / "env", "--compile")
    assert re.search(r"compiling with \d+ process", told)
    assert len(list((tmp_path / "env" / SITE_PACKAGES / "tool/__pycache__").glob("__init__.*.pyc"))) == 1
    assert "is right already" in install(lock, tmp_path / "env", "--compile")


# formats


@pytest.mark.parametrize("kind", ["explicit", "pixi-v7", "pixi-v6", "conda-lock-v1"])
def test_every_format_installs_the_same_files(tmp_path: Path, server: Server, kind: str) -> None:
    packages = write_channel(tmp_path / "served", [python_recipe(), TOOL, LIBX], server.url)
    install(write_lock(tmp_path / "canonical", lock_of(packages.values())), tmp_path / "env")
    first = tree(tmp_path / "env")
    shutil.rmtree(tmp_path / "env")
    install(write_lock(tmp_path / kind, lock_of(packages.values()), kind), tmp_path / "env")
    assert tree(tmp_path / "env") == first


def test_an_explicit_file_with_md5_alone_will_do(tmp_path: Path, packages: dict[str, LockedPackage]) -> None:
    file = tmp_path / "explicit.txt"
    file.write_text("@EXPLICIT\n" + "".join(f"{one.url}#{one.md5}\n" for one in packages.values()))
    install(file, tmp_path / "env")
    assert (tmp_path / "env/bin/tool").exists()
    # the file does not say what a package depends on, the package itself does
    record = json.loads((tmp_path / "env/conda-meta/tool-1.0-pyh0_0.json").read_text())
    assert (record["depends"], record["noarch"]) == (["python"], "python")


def test_a_lock_without_hashes_is_refused_unless_that_is_meant(
    tmp_path: Path, packages: dict[str, LockedPackage]
) -> None:
    file = tmp_path / "explicit.txt"
    file.write_text("@EXPLICIT\n" + "".join(f"{one.url}\n" for one in packages.values()))
    assert refused(file, tmp_path / "env") == (
        f"error: {file} has no hash for libx, python, tool\n"
        "  hint: lock it again with hashes, or take what the server gives with `--no-hashes`\n"
    )
    assert not (tmp_path / "env").exists()
    install(file, tmp_path / "env", "--no-hashes")


def test_a_lock_for_another_platform_is_refused(tmp_path: Path, packages: dict[str, LockedPackage]) -> None:
    lock = write_lock(tmp_path / "lock", lock_of(packages.values()))
    message = refused(lock, tmp_path / "env", "--platform", "osx-arm64")
    assert message.splitlines()[0] == f"error: {lock} has nothing for osx-arm64: it is for linux-64"


def test_a_lock_edited_by_hand_is_refused_with_its_line(tmp_path: Path, lock: Path) -> None:
    text = lock.read_text().replace("version: '1.0'", "version: '1.1'", 1)
    lock.write_text(text)
    message = refused(lock, tmp_path / "env")
    assert re.match(rf"error: {re.escape(str(lock))}:\d+:\d+: ", message)
    assert "edited by hand" in message


def test_a_lock_of_nothing_and_a_file_that_is_no_lock(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.yml", tmp_path / "env")
    (tmp_path / "pixi.lock").write_text("version: 99\nenvironments: {}\npackages: []\n")
    assert refused(tmp_path / "pixi.lock", tmp_path / "env").startswith(f"error: cannot read {tmp_path}/pixi.lock")


# prefixes


def test_a_folder_that_is_no_environment_is_refused(tmp_path: Path, lock: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("")
    first = refused(lock, tmp_path / "mine").splitlines()[0]
    assert first == f"error: {tmp_path}/mine is not empty and not a conda environment"
    assert refused(lock, tmp_path / "mine/thesis.tex") == f"error: {tmp_path}/mine/thesis.tex is not a folder\n"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_the_installation_of_conda_itself_is_refused(tmp_path: Path, lock: Path) -> None:
    conda = write_channel(tmp_path / "channel", [Recipe(name="conda", files={"condabin/conda": "#!/bin/sh\n"})])
    install(write_lock(tmp_path / "base", lock_of(conda.values())), tmp_path / "base-env")
    assert "is the installation of conda itself" in refused(lock, tmp_path / "base-env")
    assert (tmp_path / "base-env/condabin/conda").exists()


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """A small file system of its own; the test is skipped where mounting is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a file system here: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_read_only_prefix_is_refused(tmp_path: Path, lock: Path) -> None:
    with mounted(tmp_path / "disk", "-o", "size=10m"):
        install(lock, tmp_path / "disk/env")
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        assert "is right already" in install(lock, tmp_path / "disk/env")
        smaller = write_lock(tmp_path / "two", lock_of([]))
        message = refused(smaller, tmp_path / "disk/env")
        assert message.splitlines()[0] == f"error: cannot write {tmp_path}/disk/env: Read-only file system"


def test_a_full_disk_leaves_the_environment_as_it_was(tmp_path: Path, lock: Path) -> None:
    fat = Recipe(name="libx", version="2.0", files={"lib/fat": random.Random(1).randbytes(6_000_000)})
    made = write_channel(tmp_path / "channel", [python_recipe(), TOOL, fat])
    with mounted(tmp_path / "disk", "-o", "size=4m"):
        install(lock, tmp_path / "disk/env")
        before = tree(tmp_path / "disk/env")
        message = refused(write_lock(tmp_path / "two", lock_of(made.values())), tmp_path / "disk/env")
        assert "error: the disk is full: libx-2.0-h0_0.conda finds no room\n" in message
        assert tree(tmp_path / "disk/env") == before
        assert "is right already" in install(lock, tmp_path / "disk/env")


def test_what_cannot_fit_is_refused_before_anything_is_fetched(tmp_path: Path, server: Server) -> None:
    fat = Recipe(name="fat", files={"lib/fat": random.Random(1).randbytes(6_000_000)})
    lock = write_lock(tmp_path / "lock", lock_of(write_channel(tmp_path / "served", [fat], server.url).values()))
    with mounted(tmp_path / "disk", "-o", "size=4m"):
        done = lockgen("install", lock, "-p", tmp_path / "env", LOCKGEN_CACHE_DIR=str(tmp_path / "disk"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        f"error: the packages take more than 6 MB, the disk of {tmp_path}/disk/pkgs has 4 MB free"
    )
    assert server.asked == []


def test_two_at_once_wait_for_each_other(tmp_path: Path, lock: Path) -> None:
    import fcntl

    (tmp_path / "env/conda-meta").mkdir(parents=True)
    with (tmp_path / "env/conda-meta/lockgen.lock").open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        holder.write("process 4711 on somewhere")
        holder.flush()
        line = command("install", lock, "-p", tmp_path / "env")
        second = subprocess.Popen(line, env=environment(), stderr=subprocess.PIPE, text=True)
        assert second.stderr
        told = second.stderr.readline()
        assert told == f"waiting for process 4711 on somewhere, which is changing {tmp_path}/env\n"
        assert not (tmp_path / "env/bin").exists()
    assert second.wait(30) == 0
    assert (tmp_path / "env/bin/tool").exists()


def test_five_at_once_leave_one_whole_environment(tmp_path: Path, lock: Path) -> None:
    install(lock, tmp_path / "alone")
    line = command("install", lock, "-p", tmp_path / "env", "-q")
    running = [subprocess.Popen(line, env=environment()) for _ in range(5)]
    assert [one.wait(60) for one in running] == [0] * 5
    assert tree(tmp_path / "env").keys() == tree(tmp_path / "alone").keys()


# a run that is killed


def many(version: str) -> list[Recipe]:
    """Three packages of many files, some with the prefix in them."""
    mark = f"{version} {PLACEHOLDER}"
    texts = [mark if index % 5 else version for index in range(800)]
    return [
        Recipe(name=name, version=version, files={f"lib/{name}/{version}/{i}": text for i, text in enumerate(texts)})
        for name in ("aa", "bb", "cc")
    ]


def test_killed_at_any_moment_a_second_run_heals_it(tmp_path: Path) -> None:
    locks = []
    for version in ("1", "2"):
        made = write_channel(tmp_path / f"channel{version}", many(version))
        locks.append(write_lock(tmp_path / f"lock{version}", lock_of(made.values())))
    prefix, chance = tmp_path / "env", random.Random(20)
    install(locks[0], prefix, "-q")
    right = [tree(prefix)]
    started = time.monotonic()
    install(locks[1], prefix, "-q")
    took = time.monotonic() - started
    right.append(tree(prefix))
    for attempt in range(6):
        line = command("install", locks[attempt % 2], "-p", prefix, "-q")
        victim = subprocess.Popen(line, env=environment())
        time.sleep(took * chance.uniform(0.3, 1.0))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        # the same lock again, or the one before: both have to come out right
        wanted = attempt % 2 if attempt % 3 else 1 - attempt % 2
        install(locks[wanted], prefix, "-q")
        assert tree(prefix) == right[wanted], attempt
        assert not list((prefix / "conda-meta").glob("lockgen.unfinished*"))


def test_a_record_cut_off_by_a_kill_is_mended(tmp_path: Path, lock: Path) -> None:
    install(lock, tmp_path / "env")
    before = tree(tmp_path / "env")
    (tmp_path / "env/conda-meta/libx-1.0-h0_0.json").write_text('{"name": "li')
    install(lock, tmp_path / "env")
    assert tree(tmp_path / "env") == before


# packages that are not what was locked


def test_a_tampered_archive_in_a_folder_is_refused(
    tmp_path: Path, packages: dict[str, LockedPackage], lock: Path
) -> None:
    path = Path(packages["libx"].url.removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert refused(lock, tmp_path / "env") == (
        f"error: {path} is not the package that was locked\n"
        f"  sha256 in the lock  {packages['libx'].sha256}\n"
        f"  sha256 of the file {hashlib.sha256(data).hexdigest()}\n"
    )
    assert not (tmp_path / "env/bin").exists()


def test_a_truncated_archive_in_a_folder_is_refused(
    tmp_path: Path, packages: dict[str, LockedPackage], lock: Path
) -> None:
    path = Path(packages["libx"].url.removeprefix("file://"))
    os.truncate(path, 300)
    first = refused(lock, tmp_path / "env").splitlines()[0]
    assert first == f"error: {path} is cut off: 300 bytes of {packages['libx'].size}"


def test_a_package_changed_in_the_cache_is_found_and_mended(tmp_path: Path, lock: Path) -> None:
    install(lock, tmp_path / "env")
    # files are hard links to the cache, so this changes every environment at once
    (tmp_path / "env/lib/libx.so").write_text("evil")
    assert "is right already" in install(lock, tmp_path / "env")
    told = install(lock, tmp_path / "env", "--verify-cache")
    assert "was not as unpacked, installed again: libx" in told
    assert (tmp_path / "env/lib/libx.so").read_text() == "x" * 1000
    install(lock, tmp_path / "other")
    assert (tmp_path / "other/lib/libx.so").read_text() == "x" * 1000


# servers


class Server:
    """A channel over HTTP that can be told to misbehave for one package."""

    def __init__(self, folder: Path) -> None:
        self.mode = "good"
        self.asked: list[str] = []
        self.stop = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                mode = outer.mode if "libx" in self.path else "good"
                if mode.isdigit():
                    self.send_error(int(mode))
                    return
                data = (folder / self.path.lstrip("/")).read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if mode == "cut":
                    data = data[:100]
                if mode == "other":
                    data = data[:-1] + bytes([data[-1] ^ 1])
                if mode == "hang":
                    self.wfile.write(data[:100])
                    self.wfile.flush()
                    outer.stop.wait(60)
                    return
                self.wfile.write(data)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "served").mkdir()
    made = Server(tmp_path / "served")
    yield made
    made.stop.set()
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def two_locks(tmp_path: Path, server: Server) -> tuple[Path, Path]:
    """A lock that is installed already, and one that changes every package."""
    first = write_channel(tmp_path / "served", [python_recipe(), TOOL, LIBX], server.url)
    newer = [replace(recipe, build=f"{recipe.build}1") for recipe in (python_recipe(), TOOL, LIBX)]
    second = write_channel(tmp_path / "served", newer, server.url)
    locks = (
        write_lock(tmp_path / "one", lock_of(first.values())),
        write_lock(tmp_path / "two", lock_of(second.values())),
    )
    install(locks[0], tmp_path / "env", "-q")
    return locks


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("404", "the server answers 404 Not Found for libx-1.0-h0_01.conda"),
        ("500", "the server answers 500 Internal Server Error for libx-1.0-h0_01.conda; 2 attempts failed"),
        ("cut", "cannot fetch libx-1.0-h0_01.conda: end of file before message length reached; 2 attempts failed"),
        ("other", "libx-1.0-h0_01.conda is not the package that was locked"),
        ("hang", "no byte of libx in 1 s; 2 attempts failed"),
    ],
)
def test_a_server_that_fails_leaves_the_environment_as_it_was(
    tmp_path: Path, server: Server, two_locks: tuple[Path, Path], mode: str, message: str
) -> None:
    before = tree(tmp_path / "env")
    server.mode = mode
    told = refused(two_locks[1], tmp_path / "env", "--timeout", 1 if mode == "hang" else 30)
    assert f"error: {message}\n" in told
    assert told.count("trying again") == (0 if mode in ("404", "other") else 1)
    assert tree(tmp_path / "env") == before
    assert "is right already" in install(two_locks[0], tmp_path / "env")
    server.mode = "good"
    install(two_locks[1], tmp_path / "env")
    assert (tmp_path / "env/conda-meta/libx-1.0-h0_01.json").exists()


def test_a_server_that_is_gone(tmp_path: Path, server: Server, two_locks: tuple[Path, Path]) -> None:
    server.http.shutdown()
    server.http.server_close()
    told = refused(two_locks[1], tmp_path / "env")
    assert re.search(r"error: cannot fetch \S+: Connection refused \(os error 111\); 2 attempts failed\n", told)
    assert "hint: is the network up?" in told


def test_what_is_in_the_cache_is_not_fetched_again(
    tmp_path: Path, server: Server, two_locks: tuple[Path, Path]
) -> None:
    server.asked.clear()
    assert "3 in the cache" in install(two_locks[0], tmp_path / "other")
    assert server.asked == []


# the host


def test_a_host_that_cannot_run_it_is_told_before_anything_is_fetched(tmp_path: Path, server: Server) -> None:
    recipes = [
        replace(LIBX, depends=("__glibc >=9.9",)),
        Recipe(name="pytorch", depends=("__cuda >=12.4", "__glibc >=9.9")),
    ]
    made = write_channel(tmp_path / "served", recipes, server.url)
    lock = write_lock(tmp_path / "lock", lock_of(made.values()))
    done = lockgen("install", lock, "-p", tmp_path / "env", CONDA_OVERRIDE_GLIBC="2.36", CONDA_OVERRIDE_CUDA="12.1")
    assert done.returncode == 2
    assert done.stderr == (
        "error: `pytorch` asks for `__cuda >=12.4`, this machine has CUDA 12.1\n\n"
        "error: `libx` and 1 more asks for `__glibc >=9.9`, this machine has glibc 2.36\n"
        f"  hint: `lockgen doctor {lock}` says what would do; `--no-host-check` installs it anyway, as for an image\n"
    )
    assert server.asked == []
    assert not (tmp_path / "env").exists()
    install(lock, tmp_path / "env", "--no-host-check")
    assert (tmp_path / "env/lib/libx.so").exists()


def test_another_architecture_is_refused_and_can_be_forced(tmp_path: Path) -> None:
    made = write_channel(tmp_path / "channel", [replace(LIBX, subdir="linux-aarch64")])
    lock = write_lock(tmp_path / "lock", lock_of(made.values(), "linux-aarch64"))
    told = refused(lock, tmp_path / "env", "--platform", "linux-aarch64")
    assert told.startswith("error: these are packages for linux-aarch64, this machine is linux-64\n")
    install(lock, tmp_path / "env", "--platform", "linux-aarch64", "--no-host-check")


# the peers


def _conda() -> str:
    for name in (os.environ.get("LOCKGEN_TEST_CONDA"), "conda", "mamba", "micromamba"):
        if name and (found := shutil.which(name)):
            return found
    pytest.skip("no conda, mamba or micromamba on PATH, and LOCKGEN_TEST_CONDA names none")


def test_conda_lock_installs_the_same_files(tmp_path: Path, lock: Path) -> None:
    conda, conda_lock = _conda(), shutil.which("conda-lock", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if conda_lock is None:
        pytest.skip("conda-lock is not installed")
    install(lock, tmp_path / "env")
    first = tree(tmp_path / "env")
    shutil.rmtree(tmp_path / "env")
    command = [conda_lock, "install", "--conda", conda, "-p", str(tmp_path / "env"), str(lock)]
    subprocess.run(command, check=True, timeout=300)
    assert {name for name in tree(tmp_path / "env") if "__pycache__" not in name} >= first.keys()


def elf(version: str) -> Recipe:
    """A package with the prefix in a binary, where it cannot grow."""
    return Recipe(
        name="elf", version=version, files={"lib/elf": b"\x7fELF\0" + PLACEHOLDER.encode() + b"/share\0\0end"}
    )


def test_a_prefix_as_long_as_the_one_in_a_binary_will_do_and_a_longer_one_will_not(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="l"))
    prefix = folder / ("p" * (len(PLACEHOLDER) - len(str(folder)) - 1))
    try:
        for version in ("1", "2"):
            made = write_channel(tmp_path / "channel", [elf(version)])
            lock = write_lock(tmp_path / f"lock{version}", lock_of(made.values()))
            install(lock, prefix)
            assert (prefix / "lib/elf").read_bytes() == b"\x7fELF\0" + str(prefix).encode() + b"/share\0\0end"
        message = refused(lock, Path(f"{prefix}p"))
    finally:
        shutil.rmtree(folder)
    assert message.splitlines()[1] == (
        f"error: elf-2-h0_0.conda has room for a shorter prefix only: this one has {len(PLACEHOLDER) + 1} characters"
    )
