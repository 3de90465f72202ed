"""An environment made ready for an image: the same everywhere, compiled, one folder a layer."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import py_compile
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lockgen.image.payload import stage

SITE = "lib/python3.11/site-packages"
TAG = sys.implementation.cache_tag
FINAL = "/opt/env"
LAYERS = [{"name": "low", "packages": ["python", "a"]}, {"name": "high", "packages": ["b"]}]


def prefix(folder: Path, *, python: str = sys.executable, **packages: Mapping[str, str | bytes]) -> Path:
    """An environment of some packages, whose Python is this one."""
    for name, files in {"python": {"bin/python": f'#!/bin/sh\nexec {python} "$@"\n'}, **packages}.items():
        for path, content in files.items():
            write(folder / path, content)
        (folder / "bin/python").chmod(0o755)
        rows = [{"_path": path, "path_type": "hardlink"} for path in files]
        record = {"name": name, "version": "1", "files": list(files), "paths_data": {"paths": rows}}
        write(folder / f"conda-meta/{name}-1-0.json", json.dumps(record))
    return folder


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def below(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in stage.walk(str(folder))}


def record_of(folder: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / f"conda-meta/{name}-1-0.json").read_bytes())
    return found


def pyc(path: str) -> str:
    folder, name = os.path.split(path)
    return f"{folder}/__pycache__/{name[:-3]}.{TAG}.pyc"


def test_a_file_goes_with_its_package_and_a_compiled_module_with_its_source(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env", a={f"{SITE}/a/__init__.py": "A = 1\n"}, b={f"{SITE}/b.py": "B = 2\n"})
    write(env / "etc/made-by-a-script", "x")
    stage.prepare(str(env), FINAL, 2)
    stage.split(str(env), LAYERS, str(tmp_path / "out"), FINAL)
    assert sorted(below(tmp_path / "out/low/opt/env")) == [
        "bin/python",
        "conda-meta/a-1-0.json",
        "conda-meta/python-1-0.json",
        f"{SITE}/a/__init__.py",
        pyc(f"{SITE}/a/__init__.py"),
    ]
    assert sorted(below(tmp_path / "out/high/opt/env")) == [
        "conda-meta/b-1-0.json",
        "conda-meta/history",
        "etc/made-by-a-script",
        pyc(f"{SITE}/b.py"),
        f"{SITE}/b.py",
    ]
    assert not list(env.iterdir())


def test_a_package_that_no_layer_names_goes_into_the_last_and_a_shared_file_into_the_first(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env", a={"share/x": "1"}, b={"share/x": "1"}, c={"share/c": "1"})
    stage.split(str(env), LAYERS, str(tmp_path / "out"), FINAL)
    assert (tmp_path / "out/low/opt/env/share/x").exists()
    assert (tmp_path / "out/high/opt/env/share/c").exists()
    assert (tmp_path / "out/high/opt/env/conda-meta/c-1-0.json").exists()


def test_a_record_names_no_path_clock_or_secret_of_the_machine() -> None:
    record = {
        "name": "a", "version": "1", "build": "0", "sha256": "00", "requested_specs": ["a >=1"],
        "url": "https://user:pass@host.example/t/tk-1-secret/conda-forge/noarch/a-1-0.conda",
        "channel": "https://host.example/t/tk-1-secret/conda-forge",
        "extracted_package_dir": "/home/me/pkgs/a-1-0", "package_tarball_full_path": "/home/me/pkgs/a-1-0.conda",
        "link": {"source": "/home/me/pkgs/a-1-0", "type": 1}, "indexed_timestamp": 1796089453774,
        "files": ["z", "b"], "paths_data": {"paths": [{"_path": "z"}, {"_path": "b", "inode": 4}]},
    }  # fmt: skip
    assert stage.normalised(record) == {
        "name": "a", "version": "1", "build": "0", "sha256": "00", "requested_specs": ["a >=1"],
        "url": "https://host.example/conda-forge/noarch/a-1-0.conda",
        "channel": "https://host.example/conda-forge",
        "files": ["b", "z"], "paths_data": {"paths": [{"_path": "b"}, {"_path": "z"}], "paths_version": 1},
    }  # fmt: skip


def test_what_an_installer_notes_for_itself_is_gone(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env")
    for path in ("CACHEDIR.TAG", "conda-meta/lockgen.state", "conda-meta/history", f"{SITE}/__pycache__/x.pyc"):
        write(env / path, "2026-12-01")
    stage.prepare(str(env), FINAL, 1)
    assert sorted(below(env)) == ["bin/python", "conda-meta/history", "conda-meta/python-1-0.json"]
    assert (env / "conda-meta/history").read_bytes() == b""


SOURCES = {
    f"{SITE}/a/__init__.py": "import os\nX = {'path', 'x'}\ndef f(path):\n    return os.path.join(path, 'x')\n",
    f"{SITE}/a/more.py": "def f(x):\n    return x in {'b', 'a', 'c'}, 'path', f'{x}'\n",
}


def test_a_compiled_module_is_the_same_in_another_folder_with_other_workers_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = prefix(tmp_path / "one", a=SOURCES)
    stage.prepare(str(one), FINAL, 1)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("path", "/somewhere")
    two = prefix(tmp_path / "a folder with a longer name", a=SOURCES, b={f"{SITE}/b.py": "path = 'x'\n"})
    stage.prepare(str(two), FINAL, 3)
    for path in map(pyc, SOURCES):
        assert (one / path).read_bytes() == (two / path).read_bytes()
    assert record_of(one, "a") == record_of(two, "a")


def test_a_compiled_module_names_its_final_place_and_is_never_compared_with_its_source(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env", a=SOURCES)
    stage.prepare(str(env), FINAL, 1)
    (path, *_) = SOURCES
    data = (env / pyc(path)).read_bytes()
    assert data[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(data[4:8], "little") == 0b01  # PEP 552: hash-based, not checked
    assert data[8:16] == importlib.util.source_hash((env / path).read_bytes())
    assert marshal.loads(data[16:]).co_filename == f"{FINAL}/{path}"
    assert {"_path": pyc(path), "path_type": "pyc_file"} in record_of(env, "a")["paths_data"]["paths"]  # type: ignore[index]


def test_a_module_that_is_brought_compiled_keeps_its_code_and_gets_its_hash_recorded(tmp_path: Path) -> None:
    path = f"{SITE}/a.py"
    write(tmp_path / "a.py", "A = 1\n")
    py_compile.compile(str(tmp_path / "a.py"), str(tmp_path / "a.pyc"), dfile="/built/elsewhere/a.py")
    brought = (tmp_path / "a.pyc").read_bytes()
    env = prefix(tmp_path / "env", a={path: "A = 1\n", pyc(path): brought})
    stage.prepare(str(env), FINAL, 1)
    data = (env / pyc(path)).read_bytes()
    assert data[16:] == brought[16:]
    assert data[4:8] == b"\1\0\0\0"
    row = next(row for row in record_of(env, "a")["paths_data"]["paths"] if row["_path"] == pyc(path))  # type: ignore[index]
    assert row["sha256_in_prefix"] == hashlib.sha256(data).hexdigest()


def test_a_module_whose_source_got_the_prefix_written_in_is_compiled_again(tmp_path: Path) -> None:
    path = f"{SITE}/a.py"
    write(tmp_path / "a.py", "A = '/built'\n")
    py_compile.compile(str(tmp_path / "a.py"), str(tmp_path / "a.pyc"))
    env = prefix(tmp_path / "env", a={path: "A = '/final'\n", pyc(path): (tmp_path / "a.pyc").read_bytes()})
    record = record_of(env, "a")
    record["paths_data"]["paths"][0]["prefix_placeholder"] = "/built"  # type: ignore[index]
    write(env / "conda-meta/a-1-0.json", json.dumps(record))
    stage.prepare(str(env), FINAL, 1)
    assert "/final" in marshal.loads((env / pyc(path)).read_bytes()[16:]).co_consts


def test_a_file_that_is_no_python_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env", a={f"{SITE}/a.py": "print 'old'\n", f"{SITE}/b.py": "B = 1\n"})
    assert stage.prepare(str(env), FINAL, 1) == [f"{SITE}/a.py"]
    assert not (env / pyc(f"{SITE}/a.py")).exists()
    assert (env / pyc(f"{SITE}/b.py")).exists()


def test_links_to_the_folder_of_now_lead_to_the_final_one(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env")
    (env / "lib").mkdir()
    (env / "lib/in").symlink_to(env / "bin/python")
    (env / "lib/beside").symlink_to(f"{env}-other/x")
    stage.prepare(str(env), FINAL, 1)
    assert os.readlink(env / "lib/in") == "/opt/env/bin/python"
    assert os.readlink(env / "lib/beside") == f"{env}-other/x"


def test_the_cache_that_files_are_linked_from_stays_as_it_is(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env", a={f"{SITE}/a.py": "A = 1\n", "bin/a": "#!/bin/sh\n"})
    cache = tmp_path / "cache"
    for path in list(stage.walk(str(env))):
        (cache / path).parent.mkdir(parents=True, exist_ok=True)
        os.link(env / path, cache / path)
    before = {path: ((cache / path).read_bytes(), (cache / path).stat().st_mtime_ns) for path in below(cache)}
    done = run(tmp_path, env)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path: ((cache / path).read_bytes(), (cache / path).stat().st_mtime_ns) for path in below(cache)} == before


def run(folder: Path, env: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script by itself, as a Dockerfile runs it."""
    write(folder / "groups.json", json.dumps({"layers": LAYERS}))
    command = [sys.executable, "-I", stage.__file__, "--prefix", str(env), "--groups", str(folder / "groups.json")]
    return subprocess.run(
        [*command, "--out", str(folder / "out"), *arguments], capture_output=True, text=True, check=False
    )


def test_the_script_gives_every_file_its_mode_and_one_time(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env", a={"bin/a": "#!/bin/sh\n", "share/a": "1"})
    (env / "bin/a").chmod(0o4750)
    (env / "share/a").chmod(0o600)
    (env / "share/link").symlink_to("nowhere")
    assert run(tmp_path, env, "--final", FINAL, "--epoch", "1700000000").returncode == 0
    low, high = tmp_path / "out/low/opt/env", tmp_path / "out/high/opt/env"
    assert [oct((low / path).stat().st_mode & 0o7777) for path in ("bin/a", "share/a", "share")] == [
        "0o755",
        "0o644",
        "0o755",
    ]
    assert {path.lstat().st_mtime for path in (tmp_path / "out").rglob("*")} == {1_700_000_000.0}
    assert os.readlink(high / "share/link") == "nowhere"


def test_a_python_that_does_not_run_is_an_error_in_words(tmp_path: Path) -> None:
    env = prefix(tmp_path / "env", python="/nonexistent/python", a=SOURCES)
    done = run(tmp_path, env)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"error: {env}/bin/python stops with 127 while it compiles"
