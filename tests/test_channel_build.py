"""Building, indexing and serving a channel, from wheels that pip finds in a folder."""

from __future__ import annotations

import asyncio
import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from channel_wheels import HERE, head, listed, sha256, write_recipe, write_wheel
from package_builder import Recipe, write_channel

from lockgen.channel.build import Built, build
from lockgen.channel.errors import BuildError
from lockgen.channel.index import index
from lockgen.channel.recipe import load
from lockgen.channel.serve import serving

ROOT = Path(__file__).parents[1]


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip looks at."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _build(tmp_path: Path, *parts: str, to: str = "channel") -> Built:
    recipe = load(write_recipe(tmp_path / "recipe", *parts))
    return build(recipe, tmp_path / to, lambda line: None, tmp_path / "cache")


def _refusal(tmp_path: Path, *parts: str) -> str:
    with pytest.raises(BuildError) as caught:
        _build(tmp_path, *parts)
    return str(caught.value)


def _info(package: Path, name: str) -> Any:
    """A file of `info/` in an archive."""
    with zipfile.ZipFile(package) as archive:
        part = next(member for member in archive.namelist() if member.startswith("info-"))
        data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive.read(part))).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        file = tar.extractfile(f"info/{name}")
        assert file is not None
        return json.loads(file.read())


def test_building_twice_gives_the_same_bytes(tmp_path: Path, wheels: Path) -> None:
    parts = [head(), listed(write_wheel(wheels, "one")), listed(write_wheel(wheels, "two"))]
    first = _build(tmp_path, *parts, to="first")
    second = _build(tmp_path, *parts, to="second")
    assert first.built == second.built
    assert len(first.built) == 3
    for file in first.built:
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_what_has_not_changed_is_not_built_again(tmp_path: Path, wheels: Path) -> None:
    one, two = listed(write_wheel(wheels, "one")), listed(write_wheel(wheels, "two"))
    built = _build(tmp_path, head(), one).built
    again = _build(tmp_path, head(), one, two)
    assert again.kept == built
    assert len(again.built) == 1
    assert again.built[0].startswith("noarch/two-1.0-pyh")


def test_a_package_that_was_touched_is_built_again(tmp_path: Path, wheels: Path) -> None:
    parts = [head(), listed(write_wheel(wheels, "one"))]
    (name,) = (file for file in _build(tmp_path, *parts).built if "/one-" in file)
    path = tmp_path / "channel" / name
    right = path.read_bytes()
    path.write_bytes(b"x" * len(right))
    assert _build(tmp_path, *parts).built == (name,)
    assert path.read_bytes() == right


def test_what_is_no_longer_listed_goes_and_what_others_put_there_stays(tmp_path: Path, wheels: Path) -> None:
    one, two = listed(write_wheel(wheels, "one")), listed(write_wheel(wheels, "two"))
    before = _build(tmp_path, head(), one, two).built
    foreign = tmp_path / "channel" / "noarch" / "mine-1.0-0.conda"
    foreign.write_bytes(b"mine")
    after = _build(tmp_path, head(), one)
    assert after.removed == tuple(file for file in before if "/two-" in file)
    assert not (tmp_path / "channel" / after.removed[0]).exists()
    assert foreign.read_bytes() == b"mine"


def test_a_wheel_that_is_not_the_listed_one_is_refused_with_both_hashes(tmp_path: Path, wheels: Path) -> None:
    wheel = write_wheel(wheels, "one")
    text = _refusal(tmp_path, head(), listed(wheel, sha256="0" * 64))
    file = tmp_path / "recipe" / "channel.toml"
    assert text.splitlines()[0] == (
        f"{file}:12:1: one-1.0-py3-none-any.whl is not the wheel of the list: "
        f"its sha256 is {sha256(wheel)}, expected {'0' * 64}"
    )
    assert not list((tmp_path / "channel").glob("*/one-*"))


def test_a_wheel_that_was_changed_in_the_cache_is_fetched_again(tmp_path: Path, wheels: Path) -> None:
    wheel = write_wheel(wheels, "one")
    _build(tmp_path, head(), listed(wheel), to="first")
    (kept,) = (tmp_path / "cache").glob("*/one-*.whl")
    kept.write_bytes(kept.read_bytes()[:100])
    assert len(_build(tmp_path, head(), listed(wheel), to="second").built) == 2
    assert sha256(kept) == sha256(wheel)


def test_a_truncated_wheel_is_refused_at_its_line(tmp_path: Path, wheels: Path) -> None:
    one, two = write_wheel(wheels, "one"), write_wheel(wheels, "two")
    two.write_bytes(two.read_bytes()[:-40])
    file = tmp_path / "recipe" / "channel.toml"
    text = _refusal(tmp_path, head(), listed(one), listed(two))
    assert text.splitlines()[0] == f"{file}:17:1: pip could not download two==1.0"
    assert "two-1.0-py3-none-any.whl is invalid" in text


def test_no_wheel_for_this_interpreter_says_which_one_would_do(tmp_path: Path, wheels: Path) -> None:
    machine = HERE.subdir.replace("linux-64", "x86_64").replace("linux-aarch64", "aarch64")
    wheel = write_wheel(wheels, "torch", "2.13.0+cpu", tag=f"cp39-cp39-manylinux_2_17_{machine}")
    text = _refusal(tmp_path, head(), listed(wheel))
    file = tmp_path / "recipe" / "channel.toml"
    assert text.splitlines()[0] == (
        f"{file}:12:1: no wheel of torch==2.13.0+cpu for CPython {HERE.minor} on {HERE.subdir} in pip's settings"
    )
    assert text.splitlines()[-1] == "  hint: there is one for CPython 3.9: build the channel with that"


def test_another_build_of_the_same_version_never_takes_its_place(tmp_path: Path, wheels: Path) -> None:
    cuda = write_wheel(wheels, "torch", "2.13.0")
    text = _refusal(tmp_path, head(), listed(cuda).replace('"2.13.0"', '"2.13.0+cpu"'))
    assert "no wheel of torch==2.13.0+cpu for CPython" in text


def test_a_list_for_another_interpreter_is_refused(tmp_path: Path, wheels: Path) -> None:
    text = _refusal(tmp_path, head(python="3.9"))
    assert f"the list is for CPython 3.9 on {HERE.subdir}, and this is CPython {HERE.minor} on {HERE.subdir}" in text
    assert "hint: run lockgen with python3.9, or pin the list again" in text


def test_a_list_that_lacks_what_a_package_needs_is_refused(tmp_path: Path, wheels: Path) -> None:
    wheel = write_wheel(wheels, "one", metadata=["Requires-Dist: absent>=2"])
    text = _refusal(tmp_path, head(), listed(wheel))
    assert "channel.toml:12:1: `one` needs `absent >=2`, which the list does not have" in text


def test_the_script_of_a_folder_fills_a_package(tmp_path: Path, wheels: Path) -> None:
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    code = 'import pathlib, sys\n(pathlib.Path(sys.argv[1]) / "made.py").write_text("X = 1")\n'
    (recipe / "make.py").write_text(code)
    table = '[[folder]]\nname = "made"\nversion = "1.0"\nscript = "make.py"\n'
    (name,) = (file for file in _build(tmp_path, head(), table).built if "/made-" in file)
    paths = _info(tmp_path / "channel" / name, "paths.json")["paths"]
    assert [(one["_path"], one["size_in_bytes"], one["sha256"]) for one in paths] == [
        ("site-packages/made.py", 5, hashlib.sha256(b"X = 1").hexdigest())
    ]
    (recipe / "make.py").write_text("raise SystemExit('no luck')")
    assert "make.py ended with 1\n" in _refusal(tmp_path, head(), table)


def test_a_file_of_a_wheel_can_be_a_package(tmp_path: Path, wheels: Path) -> None:
    wheel = write_wheel(wheels, "torch", files={"torch/lib/libgomp.so.1": b"\x7fELF library"})
    keys = ['name = "libgomp"', 'version = "8.5.0"', 'wheel = "torch"', 'file = "torch/lib/libgomp*"']
    table = "\n".join(["[[library]]", *keys, 'to = "lib/libgomp.so.1"', ""])
    (name,) = (file for file in _build(tmp_path, head(), listed(wheel), table).built if "/libgomp-" in file)
    assert name.startswith(f"{HERE.subdir}/libgomp-8.5.0-h")
    (entry,) = _info(tmp_path / "channel" / name, "paths.json")["paths"]
    assert (entry["_path"], entry["sha256"]) == ("lib/libgomp.so.1", hashlib.sha256(b"\x7fELF library").hexdigest())


def test_the_archive_holds_no_trace_of_who_built_it(tmp_path: Path, wheels: Path) -> None:
    (name,) = (file for file in _build(tmp_path, head(), listed(write_wheel(wheels, "one"))).built if "/one-" in file)
    with zipfile.ZipFile(tmp_path / "channel" / name) as archive:
        assert [member.rpartition("one")[0] for member in archive.namelist()] == ["", "pkg-", "info-"]
        data = archive.read(archive.namelist()[1])
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read())) as tar:
        members = tar.getmembers()
    assert [one.name for one in members] == sorted(one.name for one in members)
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members} == {(0, 0, "", "", 1706933106)}


async def _solve_and_install(channel: str, prefix: Path, cache: Path, *specs: str) -> dict[str, Any]:
    from rattler import Channel, Gateway, VirtualPackage
    from rattler import install as link
    from rattler import solve as find

    records = await find(
        [Channel(channel)],
        list(specs),
        platforms=[HERE.subdir, "noarch"],  # type: ignore[list-item]
        gateway=Gateway(),
        virtual_packages=VirtualPackage.detect(),
    )
    await link(records, target_prefix=prefix, cache_dir=cache)
    return {record.name.normalized: record for record in records}


def test_an_indexed_channel_can_be_solved_installed_and_used(tmp_path: Path, wheels: Path) -> None:
    one = write_wheel(
        wheels,
        "one",
        metadata=["Requires-Dist: two"],
        files={"one/cli.py": b"def main():\n    import two\n    print('two', two.VERSION)\n"},
        info={"entry_points.txt": b"[console_scripts]\nshow-two = one.cli:main\n"},
    )
    machine = HERE.subdir.replace("linux-64", "x86_64").replace("linux-aarch64", "aarch64")
    two = write_wheel(wheels, "two", "2.5", tag=f"cp38-abi3-manylinux2014_{machine}")
    built = _build(tmp_path, head(), listed(one), listed(two)).built
    channel, prefix = tmp_path / "channel", tmp_path / "prefix"
    index(channel)
    with serving(channel) as url:
        records = asyncio.run(_solve_and_install(url, prefix, tmp_path / "pkgs", "one"))
    assert sorted(records) == ["one", "python", "two"]
    for file in built:
        data = (channel / file).read_bytes()
        record = next(record for record in records.values() if record.file_name == Path(file).name)
        assert (record.size, record.sha256.hex()) == (len(data), hashlib.sha256(data).hexdigest())
        assert record.md5.hex() == hashlib.md5(data).hexdigest()
    _assert_recorded(prefix)
    (prefix / "bin" / f"python{HERE.minor}").symlink_to(sys.executable)
    done = subprocess.run(
        [prefix / "bin" / "show-two"],
        env={**os.environ, "PYTHONPATH": str(prefix / HERE.site_packages)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "two 2.5\n"


def _assert_recorded(prefix: Path) -> None:
    """Every file that a RECORD names is there and, where it says so, has that hash."""
    site_packages = prefix / HERE.site_packages
    records = sorted(site_packages.glob("*.dist-info/RECORD"))
    assert [path.parent.name for path in records] == ["one-1.0.dist-info", "two-2.5.dist-info"]
    for path in records:
        for name, digest, _ in csv.reader(io.StringIO(path.read_text())):
            data = (site_packages / name).read_bytes()
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert digest in ("", f"sha256={found}"), name


def test_a_channel_is_served_on_this_machine_alone(tmp_path: Path, wheels: Path) -> None:
    (name,) = _build(tmp_path, head()).built
    with serving(tmp_path / "channel") as url:
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}/{name}") as answer:
            assert answer.read() == (tmp_path / "channel" / name).read_bytes()


def test_a_package_that_was_replaced_is_indexed_anew(tmp_path: Path) -> None:
    for text in ("old", "new"):
        built = write_channel(tmp_path, [Recipe(name="tool", files={"share/text": text})])
        index(tmp_path)
        found = json.loads((tmp_path / "linux-64" / "repodata.json").read_bytes())["packages.conda"]
        assert {name: record["sha256"] for name, record in found.items()} == {
            "tool-1.0-h0_0.conda": built["tool"].sha256
        }


def test_a_broken_package_stops_the_index(tmp_path: Path) -> None:
    (tmp_path / "noarch").mkdir()
    (tmp_path / "noarch" / "one-1.0-0.conda").write_bytes(b"not an archive")
    (tmp_path / "noarch" / "two-1.0-0.tar.bz2").write_bytes(b"")
    with pytest.raises(BuildError) as caught:
        index(tmp_path)
    assert [one.message for one in caught.value.problems] == [
        "noarch/one-1.0-0.conda is not a whole conda package",
        "noarch/two-1.0-0.tar.bz2 is not a whole conda package",
    ]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"^no such folder: "):
        index(tmp_path / "no")
    with pytest.raises(BuildError, match=r"^no such folder: "), serving(tmp_path / "no"):
        pass
