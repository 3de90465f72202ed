"""The metadata that comes with lockgen: small, complete, true to its sources, and enough for the flagship."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import io
import json
import sys
import tarfile
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import zstandard
from rattler import (
    BuildString,
    Channel,
    ChannelPriority,
    GenericVirtualPackage,
    PackageName,
    RepoDataRecord,
    Version,
    solve_with_sparse_repodata,
)
from rattler.repo_data.sparse import SparseRepoData

ROOT = Path(__file__).parents[1]
SNAPSHOT = ROOT / "src" / "lockgen" / "snapshot"
CONDA_FORGE = "https://conda.anaconda.org/conda-forge"
SUBDIRS = ("linux-64", "noarch", "osx-arm64")
LINUX = {"__glibc": "2.28", "__linux": "4.18", "__unix": "0", "__archspec": "1=x86_64"}
MACOS = {"__osx": "13.0", "__unix": "0", "__archspec": "1=m1"}
NLP = [
    "torchvision",
    "transformers",
    "tokenizers",
    "datasets",
    "accelerate",
    "safetensors",
    "tensorboard",
    "pandas",
    "scikit-learn",
]


def unpacked(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def rows(repodata: bytes) -> dict[str, dict[str, Any]]:
    data = json.loads(repodata)
    return data.get("packages", {}) | data.get("packages.conda", {})


@pytest.fixture(scope="module")
def repodata() -> dict[str, bytes]:
    return {subdir: unpacked(SNAPSHOT / "conda-forge" / subdir / "repodata.json.zst") for subdir in SUBDIRS}


@pytest.fixture(scope="module")
def solve(repodata: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A bare solve by rattler, without any of lockgen: specs and virtual packages in, records by name out."""
    folder = tmp_path_factory.mktemp("repodata")
    channel = Channel(CONDA_FORGE)
    files = {}
    for subdir, data in repodata.items():
        path = folder / f"{subdir}.json"
        path.write_bytes(data)
        files[subdir] = SparseRepoData(channel, subdir, path)

    def run(platform: str, specs: list[str], virtual: dict[str, str]) -> dict[str, RepoDataRecord]:
        present = []
        for name, value in virtual.items():
            version, _, build = value.partition("=")
            present.append(GenericVirtualPackage(PackageName(name), Version(version), BuildString(build or "0")))
        answer = solve_with_sparse_repodata(
            specs=specs,
            sparse_repodata=[files[platform], files["noarch"]],
            virtual_packages=present,
            channel_priority=ChannelPriority.Strict,
        )
        return {record.name.normalized: record for record in asyncio.run(_awaited(answer))}

    return run


async def _awaited(answer: Any) -> Any:
    return await answer


def test_the_data_are_small_enough_for_the_wheel() -> None:
    assert sum(path.stat().st_size for path in SNAPSHOT.rglob("*.zst")) <= 1_500_000


def test_every_subdir_is_there_and_says_which_it_is(repodata: dict[str, bytes]) -> None:
    for subdir, data in repodata.items():
        document = json.loads(data)
        assert document["info"] == {"subdir": subdir}
        assert document["repodata_version"] == 1
        assert all(name.endswith(".tar.bz2") for name in document["packages"])
        assert all(name.endswith(".conda") for name in document["packages.conda"])


def test_the_provenance_has_the_hash_and_the_count_of_the_data(repodata: dict[str, bytes]) -> None:
    told = json.loads((SNAPSHOT / "provenance.json").read_text("utf-8"))
    for subdir, data in repodata.items():
        assert told["subdirs"][subdir]["repodata_sha256"] == hashlib.sha256(data).hexdigest()
        assert told["subdirs"][subdir]["records"] == len(rows(data))
    taken = sum(source["records_taken"] for source in [*told["sources"], told["supplement"]])
    assert taken == sum(len(rows(data)) for data in repodata.values())


def test_the_provenance_names_the_pinned_sources() -> None:
    build = script()
    plan = build.read_plan(ROOT / "snapshot")
    told = json.loads((SNAPSHOT / "provenance.json").read_text("utf-8"))
    assert [(row["file"], row["sha256"]) for row in told["sources"]] == [(s.file, s.sha256) for s in plan.sources]
    supplement = (ROOT / "snapshot" / "supplement.json").read_bytes()
    assert told["supplement"]["sha256"] == hashlib.sha256(supplement).hexdigest()


def test_every_record_can_be_downloaded_and_checked(repodata: dict[str, bytes]) -> None:
    for subdir, data in repodata.items():
        for file, row in rows(data).items():
            stem = file.removesuffix(".conda").removesuffix(".tar.bz2")
            assert stem == f"{row['name']}-{row['version']}-{row['build']}", file
            assert row["subdir"] == subdir, file
            assert len(bytes.fromhex(row["sha256"])) == 32, file
            assert len(bytes.fromhex(row["md5"])) == 16, file
            assert row["size"] > 0, file
            assert not {"url", "channel", "fn"} & row.keys(), file


def test_every_noarch_record_says_how_it_is_installed(repodata: dict[str, bytes]) -> None:
    assert {row.get("noarch") for row in rows(repodata["noarch"]).values()} == {"python", "generic"}


@pytest.mark.parametrize("subdir", SUBDIRS)
def test_hashes_are_those_that_others_have_seen(subdir: str, repodata: dict[str, bytes], shared_channels: Path) -> None:
    others = rows(unpacked(shared_channels / "conda-forge" / subdir / "repodata.json.zst"))
    ours = rows(repodata[subdir])
    common = ours.keys() & others.keys()
    assert len(common) > 1000
    assert [file for file in common if ours[file]["sha256"] != others[file]["sha256"]] == []
    assert [file for file in common if ours[file]["md5"] != others[file]["md5"]] == []


def test_the_flagship_solves_to_the_gpu_build(solve: Any) -> None:
    specs = ["python 3.13.*", "pytorch 2.9.*", "pytorch * cuda*", *NLP]
    found = solve("linux-64", specs, {"__cuda": "12.1", **LINUX})
    assert len(found) == 250
    assert str(found["pytorch"].version) == "2.9.1"
    assert str(found["pytorch"].build).startswith("cuda129_")
    assert str(found["torchvision"].build).startswith("cuda129_")
    assert found["pytorch"].url == f"{CONDA_FORGE}/linux-64/pytorch-2.9.1-cuda129_mkl_py313_h54d9d63_305.conda"
    assert [r.url for r in found.values() if not r.url.startswith(f"{CONDA_FORGE}/")] == []
    assert [r.url for r in found.values() if not (r.sha256 and r.md5 and r.size)] == []


@pytest.mark.parametrize("extra", ["jupyterlab", "ipywidgets", "openssh", "peft"])
def test_the_flagship_solves_with_one_more_package(extra: str, solve: Any) -> None:
    specs = ["python 3.13.*", "pytorch 2.9.*", "pytorch * cuda*", *NLP, extra]
    assert extra in solve("linux-64", specs, {"__cuda": "12.1", **LINUX})


@pytest.mark.parametrize(
    ("platform", "virtual", "build"),
    [("linux-64", LINUX, "cpu_mkl_py312_hd3d05ca_101"), ("osx-arm64", MACOS, "cpu_generic_py312_hdde6e1b_1")],
)
def test_a_cpu_environment_solves_on_both_platforms(
    platform: str, virtual: dict[str, str], build: str, solve: Any
) -> None:
    specs = ["python 3.12.*", "pytorch 2.9.*", "transformers", "datasets", "scikit-learn", "pandas"]
    assert str(solve(platform, specs, virtual)["pytorch"].build) == build


def script() -> ModuleType:
    """`snapshot/build.py`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("snapshot_build", ROOT / "snapshot" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def pixi_lock(address: str, depends: str, sha256: str, more: str = "") -> str:
    """A lock of one package, as pixi writes it."""
    url = f"{address}/linux-64/tool-1.0-h0_0.conda"
    return f"""version: 6
environments:
  default:
    channels:
    - url: {address}/
    packages:
      linux-64:
      - conda: {url}
packages:
- conda: {url}
  sha256: {sha256}
  md5: {"0" * 31}1
  depends:
  - {depends}
  size: 12
{more}"""


def sdist(folder: Path, version: str, lock: str) -> dict[str, Any]:
    """A source distribution in the download folder, and its row of `sources.toml`."""
    file = f"demo-{version}.tar.gz"
    with tarfile.open(folder / file, "w:gz") as tar:
        member = tarfile.TarInfo(f"demo-{version}/pixi.lock")
        member.size = len(lock.encode())
        tar.addfile(member, io.BytesIO(lock.encode()))
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    return {"project": "demo", "version": version, "file": file, "sha256": digest, "locks": ("pixi.lock",)}


def plan_of(build: ModuleType, folder: Path, *releases: dict[str, Any]) -> Any:
    """A plan whose releases came out a month after another."""
    (folder / "supplement.json").write_text("{}")
    return build.Plan(
        channel="conda-forge",
        addresses=(CONDA_FORGE, "https://mirror.example/conda-forge"),
        subdirs=("linux-64",),
        supplement=folder / "supplement.json",
        sources=tuple(build.Source(**row, released=date(2026, n, 1)) for n, row in enumerate(releases, start=1)),
    )


def test_a_later_source_overrules_an_earlier_one_and_keeps_its_licence(tmp_path: Path) -> None:
    build = script()
    older = sdist(tmp_path, "1", pixi_lock(CONDA_FORGE, "libzlib >=1", "a" * 64, "  license: MIT\n"))
    later = sdist(tmp_path, "2", pixi_lock("https://mirror.example/conda-forge", "libzlib >=1,<2", "a" * 64))
    files = build.build(plan_of(build, tmp_path, older, later), tmp_path)
    assert rows(files["conda-forge/linux-64/repodata.json"]) == {
        "tool-1.0-h0_0.conda": {
            "build": "h0_0",
            "build_number": 0,
            "constrains": [],
            "depends": ["libzlib >=1,<2"],
            "license": "MIT",
            "md5": "0" * 31 + "1",
            "name": "tool",
            "sha256": "a" * 64,
            "size": 12,
            "subdir": "linux-64",
            "version": "1.0",
        }
    }


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    build = script()
    plan = plan_of(build, tmp_path, sdist(tmp_path, "1", pixi_lock(CONDA_FORGE, "libzlib", "a" * 64)))
    assert build.build(plan, tmp_path) == build.build(plan, tmp_path)


def test_packages_of_other_channels_are_left_out(tmp_path: Path) -> None:
    build = script()
    row = sdist(tmp_path, "1", pixi_lock("https://conda.anaconda.org/bioconda", "libzlib", "a" * 64))
    files = build.build(plan_of(build, tmp_path, row), tmp_path)
    assert rows(files["conda-forge/linux-64/repodata.json"]) == {}


def test_two_files_under_one_name_stop_the_build(tmp_path: Path) -> None:
    build = script()
    older = sdist(tmp_path, "1", pixi_lock(CONDA_FORGE, "libzlib", "a" * 64))
    later = sdist(tmp_path, "2", pixi_lock(CONDA_FORGE, "libzlib", "b" * 64))
    with pytest.raises(build.BuildError) as caught:
        build.build(plan_of(build, tmp_path, older, later), tmp_path)
    expected = f"`linux-64/tool-1.0-h0_0.conda` has sha256 {'a' * 64} in one source, {'b' * 64} in another"
    assert str(caught.value) == expected


def test_a_download_that_is_not_the_pinned_one_stops_the_build(tmp_path: Path) -> None:
    build = script()
    row = sdist(tmp_path, "1", pixi_lock(CONDA_FORGE, "libzlib", "a" * 64))
    plan = plan_of(build, tmp_path, row | {"sha256": "0" * 64})
    with pytest.raises(build.BuildError) as caught:
        build.build(plan, tmp_path)
    assert str(caught.value) == f"`{tmp_path / row['file']}` has sha256 {row['sha256']}, pinned is {'0' * 64}"


def test_check_names_the_data_that_differ(tmp_path: Path) -> None:
    build = script()
    files = {"conda-forge/noarch/repodata.json": b'{"a":1}', "provenance.json": b"{}\n"}
    build.write(files, tmp_path)
    assert build.stale(files, tmp_path) == []
    assert build.stale(files | {"conda-forge/noarch/repodata.json": b"{}"}, tmp_path) == [
        "conda-forge/noarch/repodata.json"
    ]
