"""Locks of other tools, made up and real."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import SHARED
from lock_values import CPU, PLAIN
from package_builder import Recipe, lock_of, write_channel

from lockgen.errors import LockError, LockgenError, UsageError
from lockgen.install.target import Choice, Target, choose, parts_of_file
from lockgen.lock import foreign
from lockgen.lock.codecs import explicit
from lockgen.lock.codecs.conda_lock_v1 import dump
from lockgen.lock.foreign import Part

URL = "https://conda.anaconda.org/conda-forge/linux-64/zlib-1.3.1-hb9d3cd8_2.conda"
SHA256 = "5d7c0e5f0005f74112a34a7425179f4eb6e73c92f5d109e6af4ddeca407c92ab"
MD5 = "c9f075ab2f33b3bbee9e62d4ad0a6cd8"
CONDA_LOCK = f"""\
version: 1
metadata:
  content_hash: {{linux-64: abc}}
  channels: [{{url: conda-forge, used_env_vars: []}}]
  platforms: [linux-64, osx-arm64]
  sources: [environment.yml]
package:
- name: zlib
  version: 1.3.1
  manager: conda
  platform: linux-64
  dependencies: {{__glibc: '>=2.17,<3.0.a0', libzlib: 1.3.1}}
  url: {URL}
  hash: {{md5: {MD5}, sha256: {SHA256}}}
  category: main
  optional: false
- name: x264
  version: 1!164.3095
  manager: conda
  platform: linux-64
  dependencies: {{}}
  url: https://conda.anaconda.org/conda-forge/linux-64/x264-1%21164.3095-h166bdaf_2.tar.bz2
  hash: {{md5: 6c99772d483f566d59e25037fea2c4b1}}
  category: gpu
  optional: true
- name: requests
  version: 2.32.0
  manager: pip
  platform: linux-64
  dependencies: {{}}
  url: https://example.org/requests.whl
  hash: {{sha256: {SHA256}}}
  category: gpu
  optional: true
"""


def parts(tmp_path: Path, text: str, name: str = "some.lock") -> tuple[Part, ...]:
    path = tmp_path / name
    path.write_text(text)
    found = parts_of_file(path, text, "linux-64")
    assert found is not None
    return found


def target(found: tuple[Part, ...], **choice: object) -> Target:
    return choose(found, Choice(**{"platform": "linux-64", **choice}), "some.lock")  # type: ignore[arg-type]


def test_an_entry_of_conda_lock_is_read_whole(tmp_path: Path) -> None:
    (zlib,) = target(parts(tmp_path, CONDA_LOCK)).packages
    assert (zlib.name, zlib.version, zlib.build, zlib.build_number) == ("zlib", "1.3.1", "hb9d3cd8_2", 2)
    assert (zlib.channel, zlib.subdir) == ("https://conda.anaconda.org/conda-forge", "linux-64")
    assert (zlib.sha256, zlib.md5) == (SHA256, MD5)
    assert zlib.depends == ("__glibc >=2.17,<3.0.a0", "libzlib 1.3.1")


def test_a_category_is_an_environment_and_a_url_may_be_quoted(tmp_path: Path) -> None:
    found = target(parts(tmp_path, CONDA_LOCK), environment="gpu", conda_only=True)
    assert [(one.name, one.version, one.build) for one in found.packages] == [
        ("x264", "1!164.3095", "h166bdaf_2"),
        ("zlib", "1.3.1", "hb9d3cd8_2"),
    ]


def test_what_conda_does_not_install_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"some\.lock holds 1 package of a Python index: requests"):
        target(parts(tmp_path, CONDA_LOCK), environment="gpu")


def test_an_unknown_environment_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no environment `cuda`: it has default, gpu"):
        target(parts(tmp_path, CONDA_LOCK), environment="cuda")


def test_another_platform_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"some\.lock has nothing for win-64: it is for linux-64, osx-arm64"):
        target(parts(tmp_path, CONDA_LOCK), platform="win-64")


def test_an_entry_with_the_url_of_another_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        LockError, match=r"package `zlib 1\.3\.2` has the URL of another: zlib-1\.3\.1-hb9d3cd8_2\.conda"
    ):
        parts(tmp_path, CONDA_LOCK.replace("version: 1.3.1", "version: 1.3.2"))


def test_broken_yaml_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"some\.lock:\d+:\d+: not YAML: "):
        parts(tmp_path, CONDA_LOCK + "]\n")


@pytest.mark.parametrize("digest", [MD5, SHA256, f"sha256:{SHA256}", f"md5:{MD5}", MD5.upper()])
def test_hashes_of_explicit_files(tmp_path: Path, digest: str) -> None:
    (part,) = parts(tmp_path, f"# a comment\n@EXPLICIT\n\n{URL}#{digest}\n")
    (zlib,) = part.packages
    assert (zlib.sha256 or zlib.md5) == digest.rpartition(":")[2].lower()
    assert (part.platform, zlib.name, zlib.build) == ("linux-64", "zlib", "hb9d3cd8_2")


def test_a_wrong_line_of_an_explicit_file_is_underlined(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        parts(tmp_path, f"@EXPLICIT\n{URL}#12345\n")
    assert str(caught.value).splitlines()[0] == (
        f"{tmp_path}/some.lock:2:{len(URL) + 2}: `#12345` is no hash: expected 32 (MD5) or 64 (SHA-256) hex digits"
    )
    with pytest.raises(LockError, match=r"some\.lock:2:1: expected the URL of a package"):
        parts(tmp_path, "@EXPLICIT\nnumpy=1.26\n")


def test_two_builds_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        LockError, match=r"lists `zlib` twice: zlib-1\.3\.1-hb9d3cd8_2\.conda and zlib-1\.3\.1-h0_1\.conda"
    ):
        parts(tmp_path, f"@EXPLICIT\n{URL}\n{URL.replace('hb9d3cd8_2', 'h0_1')}\n")


def test_locks_of_lockgen_are_read_by_their_own_rules(tmp_path: Path) -> None:
    ((_, text),) = dump((PLAIN,)).items()
    (part,) = parts(tmp_path, text, "conda-lock.yml")
    assert part.packages == PLAIN.platforms[0].packages
    assert part.requested == ("python 3.13.*", "pytorch 2.9.*", "pytorch * cuda*")


def test_explicit_files_of_lockgen_name_their_platform(tmp_path: Path) -> None:
    for text in explicit.dump((CPU,)).values():
        (part,) = parts(tmp_path, text)
        assert f"# platform: {part.platform}\n" in text


def test_a_spec_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    assert parts_of_file(path, "name: x\npython: '3.12'\n", "linux-64") is None


def test_a_pixi_lock_that_rattler_wrote_for_a_folder_is_read(tmp_path: Path) -> None:
    from rattler import LockChannel, LockFile, LockPlatform

    from lockgen.install.transaction import _record

    made = write_channel(tmp_path / "channel", [Recipe(name="libx", files={"lib/x": ""})])["libx"]
    platform = LockPlatform("linux-64")
    lock = LockFile([platform])
    lock.set_channels("default", [LockChannel(made.channel)])
    lock.add_conda_package("default", platform, _record(made))
    lock.to_path(tmp_path / "pixi.lock")
    (part,) = parts(tmp_path, (tmp_path / "pixi.lock").read_text(), "pixi.lock")
    assert part.packages == lock_of([made]).platforms[0].packages


# real locks

_LOCKS = sorted((SHARED / "locks").glob("*.*")) if (SHARED / "locks").is_dir() else []


@pytest.mark.skipif(not _LOCKS, reason="no ../shared/locks: the real locks are not here")
def test_every_real_lock_is_read() -> None:
    for path in _LOCKS:
        if path.suffix != ".md":
            found = parts_of_file(path, path.read_text(), "linux-64")
            assert found, path.name
            for part in found:
                for package in part.packages:
                    assert package.filename.startswith(f"{package.name}-") or part.source, (path.name, package)
                    assert re.fullmatch("[0-9a-f]{64}", package.sha256) or package.md5, (path.name, package.name)


@pytest.mark.skipif(not _LOCKS, reason="no ../shared/locks: the real locks are not here")
def test_conda_locks_agree_with_rattlers_reading_where_it_can_read_them() -> None:
    from lockgen.install import pixi_lock

    compared = 0
    for path in _LOCKS:
        if not re.match(r"conda-lock|pixi-v[13]-", path.name):
            continue
        try:
            theirs = pixi_lock.read(path)
        except LockgenError:
            continue
        mine = foreign.conda_lock(foreign.document(path.read_text(), str(path)), str(path))
        for part in theirs:
            categories = [one for one in mine if one.platform == part.platform]
            urls = {(one.url, one.sha256) for each in categories for one in each.packages}
            assert {(one.url, one.sha256) for one in part.packages} == urls, (path.name, part.platform)
            compared += 1
    assert compared > 20


@pytest.mark.skipif(not _LOCKS, reason="no ../shared/locks: the real locks are not here")
def test_packages_to_build_from_source_are_not_forgotten() -> None:
    path = SHARED / "locks/pixi-v7-02.lock"
    found = parts_of_file(path, path.read_text(), "linux-64")
    assert found
    assert Counter(part.source for part in found) == {("cpp_math",): 4}
    with pytest.raises(LockError, match="holds 1 package to build from source: cpp_math"):
        target(found)
