"""Channels: snapshots and folders, whole and broken, their order, and packages hidden by a date."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
import zstandard
from fake_channel import TIMESTAMP, by_name, only, planned, python, record, resolved, snapshot, write_channel

from lockgen import matchspec
from lockgen.channels import Channels
from lockgen.errors import AnswerError, ChannelError

SPEC = 'name: t\npython: "3.13"\n'


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKGEN_CACHE_DIR", str(tmp_path / "cache"))


def packed(folder: Path) -> Path:
    """A snapshot whose metadata of linux-64 is compressed."""
    snapshot(folder, conda_forge=[python()])
    plain = folder / "conda-forge" / "linux-64" / "repodata.json"
    file = plain.with_suffix(".json.zst")
    file.write_bytes(zstandard.compress(plain.read_bytes()))
    plain.unlink()
    return file


def refusal(text: str, folder: Path | None) -> str:
    with pytest.raises(ChannelError) as error:
        resolved(text, folder)
    assert error.value.exit_code == 2
    return str(error.value)


def test_a_channel_that_the_snapshot_lacks_is_named_with_those_it_holds(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=[python()], nvidia=[])
    assert refusal(SPEC + "channels: [bioconda, conda-forge]\n", folder) == (
        "the snapshot has no channel `bioconda`\n"
        "  hint: it holds: conda-forge, nvidia; leave out `--offline` or `--snapshot` to reach the live channel"
    )


def test_an_empty_snapshot_holds_none(tmp_path: Path) -> None:
    assert "  hint: it holds: none; leave out" in refusal(SPEC, tmp_path)


def test_a_snapshot_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(SPEC, tmp_path / "nowhere") == (
        f"no such folder: {tmp_path}/nowhere\n  hint: a snapshot is a folder CHANNEL/SUBDIR/repodata.json[.zst]"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"packages": {', "EOF while parsing an object at line 1 column 14"),
        ("<html>", "expected value at line 1 column 1"),
        ("", "EOF while parsing a value at line 1 column 0"),
    ],
)
def test_broken_metadata_is_an_error_that_names_the_file(tmp_path: Path, content: str, reason: str) -> None:
    file = snapshot(tmp_path, conda_forge=[python()]) / "conda-forge" / "linux-64" / "repodata.json"
    file.write_text(content)
    assert refusal(SPEC, tmp_path) == (
        f"cannot read {file}\n  {reason}\n  hint: get the file again: it is not whole, or not the metadata of a channel"
    )


def test_compressed_metadata_is_read(tmp_path: Path) -> None:
    packed(tmp_path)
    assert [package.name for package in only(resolved(SPEC, tmp_path)).packages] == ["python"]


def test_truncated_metadata_is_an_error_and_nothing_is_cached(tmp_path: Path) -> None:
    file = packed(tmp_path / "snapshot")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert refusal(SPEC, tmp_path / "snapshot") == (
        f"cannot read {file}\n  the compressed data ends too early\n"
        "  hint: get the file again: it is not whole, or not the metadata of a channel"
    )
    assert not list((tmp_path / "cache").rglob("*.json"))
    file.write_bytes(whole)
    assert only(resolved(SPEC, tmp_path / "snapshot")).packages[0].name == "python"


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_cache_is_made_again_and_no_other_file_blamed(tmp_path: Path, damage: bytes | None) -> None:
    packed(tmp_path / "snapshot")
    resolved(SPEC, tmp_path / "snapshot")
    (cached,) = (tmp_path / "cache").rglob("*.json")
    whole = cached.read_bytes()
    cached.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert only(resolved(SPEC, tmp_path / "snapshot")).packages[0].name == "python"
    assert cached.read_bytes() == whole


def test_metadata_that_is_not_compressed_at_all_is_an_error(tmp_path: Path) -> None:
    file = packed(tmp_path)
    file.write_bytes(b"not a zstandard frame")
    assert refusal(SPEC, tmp_path) == (
        f"cannot read {file}\n  zstd decompressor error: Unknown frame descriptor\n"
        "  hint: get the file again: it is not whole, or not the metadata of a channel"
    )


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed(tmp_path / "snapshot")
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("LOCKGEN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    assert only(resolved(SPEC, tmp_path / "snapshot")).packages[0].name == "python"
    assert not list((tmp_path / "temporary").iterdir())


def test_a_channel_can_be_a_folder(tmp_path: Path) -> None:
    own = write_channel(tmp_path / "my own, Übung", [record("tool", "9.0")])
    folder = snapshot(tmp_path / "snapshot", conda_forge=[python(), record("tool", "1.0")])
    url = own.as_uri()
    tool = by_name(only(resolved(f"{SPEC}channels: ['{url}', conda-forge]\ndependencies: [tool]\n", folder)))["tool"]
    assert (tool.version, tool.channel, tool.url) == ("9.0", url, f"{url}/linux-64/tool-9.0-h0_0.conda")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "snapshot", conda_forge=[python()])
    text = refusal(f"{SPEC}channels: [{tmp_path}/nowhere, conda-forge]\n", folder)
    first, *_, hint = text.splitlines()
    assert first == f"cannot read the channels `file://{tmp_path}/nowhere`, `conda-forge`"
    assert hint == "  hint: a channel that is a folder needs `noarch/repodata.json` and the same for each platform"


def test_a_live_channel_that_cannot_be_reached_is_one_quick_error(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.monotonic()
    first, *words, hint = refusal(f"{SPEC}channels: ['http://127.0.0.1:9/nowhere']\n", None).splitlines()
    assert first == "cannot read the channel `http://127.0.0.1:9/nowhere`"
    assert any("127.0.0.1:9" in line for line in words)
    assert (
        hint == "  hint: is the network up? `--offline` solves against the conda-forge snapshot that comes with lockgen"
    )
    assert time.monotonic() - begun < 30


def two(folder: Path) -> Path:
    return snapshot(
        folder, first=[record("tool", "1.0"), record("here", "1.0")], second=[python(), record("tool", "2.0")]
    )


def test_strict_priority_takes_a_package_from_the_first_channel_that_has_it(tmp_path: Path) -> None:
    text = f"{SPEC}channels: [first, second]\ndependencies: [tool]\n"
    tool = by_name(only(resolved(text, two(tmp_path))))["tool"]
    assert (tool.version, tool.channel) == ("1.0", "https://conda.anaconda.org/first")


def test_without_priority_the_newest_of_all_channels_wins(tmp_path: Path) -> None:
    text = f"{SPEC}channels: [first, second]\nchannel-priority: disabled\ndependencies: [tool]\n"
    tool = by_name(only(resolved(text, two(tmp_path))))["tool"]
    assert (tool.version, tool.channel) == ("2.0", "https://conda.anaconda.org/second")


def test_the_order_of_channels_counts(tmp_path: Path) -> None:
    text = f"{SPEC}channels: [second, first]\ndependencies: [tool, here]\n"
    found = by_name(only(resolved(text, two(tmp_path))))
    assert (found["tool"].version, found["here"].channel) == ("2.0", "https://conda.anaconda.org/first")


@pytest.mark.parametrize(
    "spec",
    [
        "first::tool",
        "first/linux-64::tool",
        "https://conda.anaconda.org/first::tool",
        "tool[channel='https://conda.anaconda.org/first']",
        "https://conda.anaconda.org/first/linux-64/tool-1.0-h0_0.conda",
        "tool[url='https://conda.anaconda.org/first/linux-64/tool-1.0-h0_0.conda']",
    ],
)
def test_a_match_spec_may_say_where_a_package_comes_from(spec: str, tmp_path: Path) -> None:
    text = f'{SPEC}channels: [first, second]\nchannel-priority: disabled\ndependencies: ["{spec}"]\n'
    tool = by_name(only(resolved(text, two(tmp_path))))["tool"]
    assert tool.url == "https://conda.anaconda.org/first/linux-64/tool-1.0-h0_0.conda"


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        ("tool", True),
        ("Tool >=2", True),
        ("second::tool", True),
        ("second/linux-64::tool", True),
        ("https://conda.anaconda.org/second::tool 2.*", True),
        ("https://conda.anaconda.org/second/linux-64/tool-2.0-h0_0.conda", True),
        ("tool[build_number=0]", True),
        ("first::tool", False),
        ("second/noarch::tool", False),
        ("second::tool >=3", False),
        ("https://conda.anaconda.org/first/linux-64/tool-1.0-h0_0.conda", False),
        ("tool[build_number='>=1']", False),
    ],
)
def test_an_answer_is_asked_where_it_comes_from(spec: str, holds: bool, tmp_path: Path) -> None:
    text = f"{SPEC}channels: [second, first]\ndependencies: [tool]\n"
    packages = only(resolved(text, two(tmp_path))).packages
    universe = matchspec.Universe(packages)
    assert (universe.has(spec), universe.satisfies(spec)) == (True, holds)


def test_packages_without_platform_are_found(tmp_path: Path) -> None:
    tool = record("tool", "2.0", "pyhd8ed1ab_0", ["python"], noarch="python")
    folder = snapshot(tmp_path, conda_forge=[python(), record("tool", "1.0"), tool])
    found = by_name(only(resolved(f"{SPEC}dependencies: [tool]\n", folder)))["tool"]
    assert (found.version, found.subdir, found.noarch) == ("2.0", "noarch", "python")
    assert found.url == "https://conda.anaconda.org/conda-forge/noarch/tool-2.0-pyhd8ed1ab_0.conda"


def test_every_field_of_a_record_is_kept(tmp_path: Path) -> None:
    tool = record(
        "tool", "2.0", "h1_3", ["python >=3.13"], ["other <2"],
        build_number=3, license="MIT", license_family="MIT", track_features="slow", size=7,
    )  # fmt: skip
    folder = snapshot(tmp_path, conda_forge=[python(), tool])
    found = by_name(only(resolved(f"{SPEC}dependencies: [tool]\n", folder)))["tool"]
    assert (found.build_number, found.license, found.license_family, found.track_features) == (
        3,
        "MIT",
        "MIT",
        ("slow",),
    )
    assert (found.depends, found.constrains) == (("python >=3.13",), ("other <2",))
    assert (found.size, found.timestamp) == (7, TIMESTAMP)
    assert (found.md5, found.sha256) == (tool[1]["md5"], tool[1]["sha256"])


def test_a_date_hides_what_is_newer(tmp_path: Path) -> None:
    day = 24 * 3600 * 1000
    tools = [record("tool", f"{n}.0", timestamp=TIMESTAMP + n * day) for n in (0, 1, 2)]  # 2023-11-14 and after
    folder = snapshot(tmp_path, conda_forge=[python(), *tools])

    def version(more: str) -> str:
        return by_name(only(resolved(f"{SPEC}dependencies: [tool]\n{more}", folder)))["tool"].version

    assert version("") == "2.0"
    assert version("as-of: 2023-11-15\n") == "1.0"
    assert version("as-of: 2023-11-14T22:13:20Z\n") == "0.0"  # to the second of its build


def test_a_record_without_hashes_is_not_locked(tmp_path: Path) -> None:
    name, entry = record("tool")
    folder = snapshot(tmp_path, conda_forge=[python(), (name, {**entry, "sha256": None, "md5": None})])
    with pytest.raises(AnswerError) as error:
        resolved(f"{SPEC}dependencies: [tool]\n", folder)
    assert str(error.value) == (
        "linux-64: the channel gives no sha256, md5 for `tool-1.0-h0_0.conda`: it cannot be locked"
    )


def test_a_record_that_is_broken_is_an_error(tmp_path: Path) -> None:
    file = snapshot(tmp_path, conda_forge=[python()]) / "conda-forge" / "linux-64" / "repodata.json"
    content = json.loads(file.read_text())
    content["packages.conda"]["tool-1.0-h0_0.conda"] = {"name": "tool", "version": "1.0"}
    file.write_text(json.dumps(content))
    assert refusal(f"{SPEC}dependencies: [tool]\n", tmp_path) == (
        "a broken record in the channel `conda-forge`\n  missing field `build` at line 1 column 34\n"
        "  hint: get the metadata again: a record in it is not whole"
    )


def test_every_build_in_a_folder_is_found_in_noarch_too(tmp_path: Path) -> None:
    noarch = record("words", "2.0", subdir="noarch", noarch="generic")
    own = write_channel(tmp_path / "own", [python(), record("tool", "9.0"), noarch])
    request = planned(f"{SPEC}channels: ['{own.as_uri()}']\n").planned[0].request
    found = asyncio.run(Channels().records(request, ["tool", "words", "absent"]))
    versions = {name: [build.version for build in builds] for name, builds in found.items()}
    assert versions == {"tool": ["9.0"], "words": ["2.0"], "absent": []}
