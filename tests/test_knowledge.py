"""The facts are complete, and the questions about them get the answers that their sources give."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockgen.errors import SpecError
from lockgen.knowledge import tables
from lockgen.knowledge.reader import FactError, Table, facts

ROOT = Path(__file__).parent.parent
CHANNEL = ROOT.parent / "shared" / "channels" / "conda-forge"
DATA = Path(tables.__file__).parent
CHECKED = datetime.date(2026, 11, 30)

TOML_FILES = sorted(path.relative_to(DATA).as_posix() for path in DATA.rglob("*.toml"))

# A nested table belongs to the row that it stands in.
PARTS = {"provider", "packages", "package", "service", "virtual", "command"}


def rows_of(file: str) -> Iterator[dict[str, Any]]:
    """Every row of a file of facts; a file that is one row as a whole is that row."""
    content = tomllib.loads((DATA / file).read_text(encoding="utf-8"))
    if "source" in content:
        yield content
    for key, value in content.items():
        if key not in PARTS:
            yield from [value] if isinstance(value, dict) else value if _is_rows(value) else []


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


@pytest.mark.parametrize("file", TOML_FILES)
def test_every_row_has_a_public_source_and_the_day_it_was_checked(file: str) -> None:
    rows = list(rows_of(file))
    assert rows
    for row in rows:
        assert re.fullmatch(r"https://[\w.-]+/\S*", row["source"]), row
        assert row["checked"] >= CHECKED, row


def test_every_file_is_read_by_some_question() -> None:
    assert len(tables.toolkits()) == 14
    assert len(tables.minor_compatibility()) == 3
    assert len(tables.minor_version_limits()) == 2
    assert len(tables.gpu_names()) > 100
    assert [row.name for row in tables.providers()] == ["conda-forge", "pytorch"]
    assert [row.name for row in tables.singleton_groups()] == ["openmp", "blas", "cuda"]
    assert len(tables.systems()) == 5
    assert len(tables.programs()) == 6
    assert len(tables.images()) == 9
    assert len(tables.wheel_rows()) == 15
    expected = {"audio", "jupyter", "llm", "monitor", "nlp", "nlp-zh", "profile", "serve", "ssh", "tools", "vscode"}
    assert set(tables.extra_names()) == expected
    assert tables.recipe_names() == ("amp", "ddp", "fsdp", "zero3")


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [("11.8", "520.61.05"), ("12.1", "530.30.02"), ("12.2", "535.54.03"), ("12.9", "575.51.03"), ("13.0", "580.65.06")],
)
def test_a_toolkit_names_the_driver_it_came_with(cuda: str, driver: str) -> None:
    found = tables.toolkit(cuda)
    assert found is not None
    assert found.driver == driver


def test_a_patch_version_finds_its_toolkit() -> None:
    assert tables.toolkit("12.1.1") == tables.toolkit("12.1")
    assert tables.toolkit("12.7") is None
    assert tables.toolkit("newest") is None


@pytest.mark.parametrize(
    ("cuda", "floor"), [("11.2", "450.80.02"), ("12.1", "525.60.13"), ("12.9", "525.60.13"), ("13.2", "580")]
)
def test_the_driver_floor_is_that_of_the_major(cuda: str, floor: str) -> None:
    assert tables.min_driver(cuda) == floor


@pytest.mark.parametrize(
    ("cuda", "floor"), [("11.8", "452.39"), ("12.0", "528.33"), ("12.9", "528.33"), ("13.0", None)]
)
def test_the_driver_floor_on_windows_is_its_own(cuda: str, floor: str | None) -> None:
    """Table 2 of the release notes of CUDA 12.9; those of 13 say `N/A` for Windows."""
    assert tables.min_driver(cuda, "win-64") == floor


def test_an_unknown_major_has_no_floor() -> None:
    assert tables.min_driver("14.0") is None
    assert tables.min_driver("") is None


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("575.51.03", "12.9"),
        ("575.51.02", "12.8"),
        ("535", "12.2"),
        ("535.54.03", "12.2"),
        ("530.30.02", "12.1"),
        ("525.60.13", "12.0"),
        ("700", "13.2"),
        ("450.80.02", None),
        ("", None),
    ],
)
def test_a_driver_supports_the_newest_toolkit_that_is_not_newer(driver: str, cuda: str | None) -> None:
    assert tables.driver_supports(driver) == cuda


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("576.02", "12.9"), ("576.01", "12.8"), ("528.33", "12.0"), ("527", "12.0"), ("581.15", None), ("451", None)],
)
def test_a_windows_driver_supports_the_newest_toolkit_as_far_as_is_known(driver: str, cuda: str | None) -> None:
    assert tables.driver_supports(driver, "win-64") == cuda


def test_a_branch_reaches_a_floor_within_it_and_an_older_driver_does_not() -> None:
    assert tables.reaches("525", "525.60.13")
    assert tables.reaches("535.104.05", "525.60.13")
    assert not tables.reaches("525.53", "525.60.13")
    assert not tables.reaches("520", "525.60.13")
    assert not tables.reaches("", "525.60.13")


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [("2.10", "2.9", 1), ("2.9.0", "2.9", 0), ("2.9.1+cu128", "2.9.1", 0), ("12.1", "12.10", -1), ("9", "10", -1)],
)
def test_versions_are_ordered_by_number(left: str, right: str, order: int) -> None:
    assert tables.compare_versions(left, right) == order
    assert tables.compare_versions(right, left) == -order


@pytest.mark.parametrize(
    ("name", "capability", "architecture"),
    [
        ("V100", "7.0", "Volta"),
        ("Tesla V100-SXM2-16GB", "7.0", "Volta"),
        ("P100", "6.0", "Pascal"),
        ("GTX 1080 Ti", "6.1", "Pascal"),
        ("T4", "7.5", "Turing"),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", "Turing"),
        ("a100", "8.0", "Ampere"),
        ("NVIDIA A100-SXM4-80GB", "8.0", "Ampere"),
        ("rtx3090", "8.6", "Ampere"),
        ("L40S", "8.9", "Ada"),
        ("RTX 6000", "7.5", "Turing"),
        ("RTX 6000 Ada", "8.9", "Ada"),
        ("NVIDIA H100 80GB HBM3", "9.0", "Hopper"),
        ("H200", "9.0", "Hopper"),
        ("GB200", "10.0", "Blackwell"),
        ("RTX PRO 6000", "12.0", "Blackwell"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "12.0", "Blackwell"),
        ("Jetson Orin", "8.7", "Ampere"),
        ("Thor", "11.0", "Blackwell"),
        ("sm_70", "7.0", "Volta"),
        ("SM120", "12.0", "Blackwell"),
        ("7.0", "7.0", "Volta"),
    ],
)
def test_a_gpu_is_known_by_the_names_people_use(name: str, capability: str, architecture: str) -> None:
    found = tables.gpu(name)
    assert found is not None
    assert (found.capability, found.architecture) == (capability, architecture)


@pytest.mark.parametrize("name", ["V1000", "sm_71", "7.1", "", "gpu", "MI300X"])
def test_an_unknown_gpu_is_none(name: str) -> None:
    assert tables.gpu(name) is None


def test_no_gpu_name_stands_for_two_capabilities() -> None:
    for name in tables.gpu_names():
        found = tables.gpu(name)
        assert found is not None
        assert found.name == name


def conda_forge() -> tables.Provider:
    return tables.provider("conda-forge")


def pytorch_channel() -> tables.Provider:
    return tables.provider("pytorch")


# Build strings of real records in the channels, with what they are.
CONDA_FORGE_BUILDS = [
    ("cuda129_mkl_py313_h54d9d63_305", "gpu", "12.9"),
    ("cuda129_generic_py310_h340c4bc_201", "gpu", "12.9"),
    ("cuda112py39h1ecdb5d_304", "gpu", "11.2"),
    ("cuda118_py310h920319e_303", "gpu", "11.8"),
    ("cuda130_generic_hfd4fa11_200", "gpu", "13.0"),
    ("cuda128_mkl_h00a410d_300", "gpu", "12.8"),
    ("cuda_py313_h6be0d2c_2", "gpu", None),
    ("cuda_126py312h955da1a_0", "gpu", "12.6"),
    ("cuda126ha999a5f_305", "gpu", "12.6"),
    ("cuda126py310h05ca3d0_1", "gpu", "12.6"),
    ("cuda12_py310ha3bd488_0", "gpu", None),
    ("cuda12.9_h14fae2a_", "gpu", "12.9"),
    ("py311cuda112h9171b99_0_cuda", "gpu", "11.2"),
    ("he83aaa8_200_cuda129", "gpu", "12.9"),
    ("h019e7cd_16_cuda", "gpu", None),
    ("gpuhc530687_103", "gpu", None),
    ("cpu_mkl_py314_hfc2ca84_101", "cpu", None),
    ("cpu_generic_h00f31c6_3", "cpu", None),
    ("cpu_py312h254f4b0_1", "cpu", None),
    ("h3e48024_9_cpu", "cpu", None),
    ("py313h98bfbea_0_cpu", "cpu", None),
    ("nocuda_h15da153_1008", "cpu", None),
    ("default_h049141e_1000", None, None),
    ("h8ddcf88_101_cp313", None, None),
    ("hd1323d7_1_cpython", None, None),
    ("pyhd8ed1ab_0", None, None),
    ("7_kmp_llvm", None, None),
]

PYTORCH_BUILDS = [
    ("py3.10_cuda12.1_cudnn8.9.2_0", "gpu", "12.1"),
    ("py3.10_cuda11.8_cudnn8.7.0_0", "gpu", "11.8"),
    ("py3.7_cuda10.1.243_cudnn7.6.3_0", "gpu", "10.1"),
    ("py3.9_cuda9.2.148_cudnn7.6.3_0", "gpu", "9.2"),
    ("py310_cu121", "gpu", "12.1"),
    ("py39_cu118", "gpu", "11.8"),
    ("py35_cu92", "gpu", "9.2"),
    ("cuda", "gpu", None),
    ("h13c3c6d_0_cuda11.4", "gpu", "11.4"),
    ("py3.10_cpu_0", "cpu", None),
    ("py310_cpu", "cpu", None),
    ("cpu", "cpu", None),
    ("py310", None, None),
    ("py3.11_0", None, None),
    ("ha16c6d3_6", None, None),
    ("cuda120_py312hf8d5e09_302", "gpu", "12.0"),
]


@pytest.mark.parametrize(("build", "flavour", "cuda"), CONDA_FORGE_BUILDS)
def test_conda_forge_build_strings_tell_flavour_and_cuda(build: str, flavour: str | None, cuda: str | None) -> None:
    assert conda_forge().flavour(build) == flavour
    assert conda_forge().cuda_of(build) == cuda


@pytest.mark.parametrize(("build", "flavour", "cuda"), PYTORCH_BUILDS)
def test_pytorch_channel_build_strings_tell_flavour_and_cuda(build: str, flavour: str | None, cuda: str | None) -> None:
    assert pytorch_channel().flavour(build) == flavour
    assert pytorch_channel().cuda_of(build) == cuda


@pytest.mark.parametrize(
    ("channels", "name"),
    [
        (["https://conda.anaconda.org/conda-forge"], "conda-forge"),
        (["https://conda.anaconda.org/pytorch", "https://conda.anaconda.org/conda-forge"], "pytorch"),
        (["https://conda.anaconda.org/conda-forge", "https://conda.anaconda.org/pytorch"], "conda-forge"),
        (["https://conda.anaconda.org/nvidia", "https://conda.anaconda.org/pytorch/"], "pytorch"),
        (["https://mirror.example/conda-forge"], "conda-forge"),
        (["pytorch", "nvidia", "conda-forge"], "pytorch"),
        (["https://conda.example/own"], "conda-forge"),
        ([], "conda-forge"),
    ],
)
def test_the_first_channel_that_has_its_ways_decides(channels: list[str], name: str) -> None:
    assert tables.provider_for(channels).name == name


def test_build_globs_follow_the_channel_and_the_platform() -> None:
    assert conda_forge().build_glob("gpu", "linux-64") == "cuda*"
    assert conda_forge().build_glob("cpu", "osx-arm64") == "cpu*"
    assert pytorch_channel().build_glob("gpu", "linux-64") == "*cuda*"
    assert pytorch_channel().build_glob("cpu", "osx-arm64") is None


def test_the_toolkit_package_is_named() -> None:
    assert (conda_forge().toolkit_package, conda_forge().toolkit_role) == ("cuda-version", "constraint")
    assert (pytorch_channel().toolkit_package, pytorch_channel().toolkit_role) == ("pytorch-cuda", "requirement")


def test_companions_must_match_and_exempt_packages_need_not() -> None:
    torchaudio = conda_forge().companion("torchaudio")
    assert torchaudio is not None
    assert (torchaudio.gpu, torchaudio.cpu) == ("cuda*", "cpu*")
    triton = conda_forge().companion("triton")
    assert triton is not None
    assert triton.cpu is None
    assert conda_forge().companion("pandas") is None
    for name in ("libarrow", "libarrow-dataset", "pyarrow-core", "libparquet", "kaldi"):
        assert conda_forge().exemption(name, listed=False), name
        assert conda_forge().exemption(name, listed=True), name
    assert conda_forge().exemption("torchaudio", listed=False) is None


@pytest.mark.parametrize("name", ["faiss", "lightgbm", "xgboost", "onnxruntime", "tensorflow"])
def test_a_package_that_computes_is_exempt_only_where_others_bring_it_in(name: str) -> None:
    assert conda_forge().exemption(name, listed=False)
    assert conda_forge().exemption(name, listed=True) is None


@pytest.mark.parametrize("name", ["faiss-cpu", "tensorflow-cpu"])
def test_a_package_with_cpu_in_its_name_is_exempt_where_it_is_listed_too(name: str) -> None:
    assert conda_forge().exemption(name, listed=True)


def test_no_package_is_both_companion_and_exempt() -> None:
    for provider in tables.providers():
        assert [row.name for row in provider.companions if provider.exemption(row.name, listed=False)] == []


def capabilities(provider: tables.Provider, pytorch: str, cuda: str, platform: str = "linux-64") -> tables.Capabilities:
    found = provider.capabilities(pytorch, cuda, platform)
    assert found is not None
    return found


def device(name: str) -> tables.Gpu:
    found = tables.gpu(name)
    assert found is not None
    return found


def test_conda_forge_for_cuda_12_keeps_old_gpus_and_for_13_does_not() -> None:
    twelve = capabilities(conda_forge(), "2.9.1", "12.9")
    assert twelve.compiled == ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0")
    assert twelve.ptx == "12.0"
    thirteen = capabilities(conda_forge(), "2.12.0", "13.0")
    assert thirteen.compiled == ("7.5", "8.0", "8.6", "9.0", "10.0", "11.0", "12.0")
    assert "8.7" in capabilities(conda_forge(), "2.12.0", "13.0", "linux-aarch64").compiled
    assert twelve.covers(device("V100")) == "native"
    assert thirteen.covers(device("V100")) is None


def test_what_was_never_built_has_no_capabilities() -> None:
    assert conda_forge().capabilities("2.9.1", "12.1", "linux-64") is None
    assert conda_forge().capabilities("2.9.1", "13.0", "linux-64") is None
    assert conda_forge().capabilities("2.99", "12.9", "linux-64") is None


@pytest.mark.parametrize(
    ("pytorch", "cuda", "gpu", "how"),
    [
        ("2.9.1", "12.9", "H200", "native"),
        ("2.9.1", "12.9", "L40S", "native"),
        ("2.9.1", "12.9", "P40", "native"),
        ("2.9.1", "12.9", "GB10", "native"),
        ("2.9.1", "12.9", "K80", None),
        ("2.9.1", "12.9", "Jetson Orin", None),
        ("2.12.0", "13.0", "T4", "native"),
        ("2.12.0", "13.0", "GTX 1080 Ti", None),
        ("2.6.0", "12.6", "B200", "ptx"),
        ("2.4.1", "12.0", "RTX 5090", "ptx"),
        ("2.4.0", "11.8", "H100", "ptx"),
        ("2.4.0", "11.8", "K40", "native"),
    ],
)
def test_a_build_covers_a_gpu_natively_through_ptx_or_not(pytorch: str, cuda: str, gpu: str, how: str | None) -> None:
    assert capabilities(conda_forge(), pytorch, cuda).covers(device(gpu)) == how


def test_the_pytorch_channel_pairs_pytorch_with_cuda() -> None:
    assert pytorch_channel().cuda_builds("2.0.1", "linux-64") == ("11.7", "11.8")
    assert pytorch_channel().cuda_builds("2.1.0", "linux-64") == ("11.8", "12.1")
    assert pytorch_channel().cuda_builds("2.5.1", "linux-64") == ("11.8", "12.1", "12.4")
    assert pytorch_channel().cuda_builds("2.6.0", "linux-64") == ()
    assert not pytorch_channel().carries("2.6.0")
    assert capabilities(pytorch_channel(), "2.1.0", "12.1").covers(device("H100")) == "native"


def test_conda_forge_says_which_cuda_a_pytorch_was_built_for() -> None:
    assert conda_forge().cuda_builds("2.9.1", "linux-64") == ("12.9",)
    assert conda_forge().cuda_builds("2.9.1", "win-64") == ("12.8",)
    assert conda_forge().cuda_builds("2.5.1", "linux-64") == ("11.8", "12.0", "12.6")
    assert conda_forge().cuda_builds("2.12.0", "linux-64") == ("12.9", "13.0")
    assert conda_forge().cuda_builds("2.2.1", "linux-64") == ()
    assert conda_forge().pytorch_with("12.0", "linux-64")[0].pytorch_min == "2.5"
    assert conda_forge().pytorch_with("12.1", "linux-64") == ()


def test_wheels_near_a_wish_are_named_with_their_state() -> None:
    near = [(one.pytorch, one.cuda, one.state) for one in tables.wheel_choices("2.9.1", "12.1")]
    assert near == [
        ("2.9", "12.6", "stable"),
        ("2.9", "12.8", "stable"),
        ("2.9", "12.9", "unsupported"),
        ("2.5", "12.1", "stable"),
    ]
    assert tables.wheel_choices("2.7", "11.8")[0].cuda == "11.8"
    assert tables.wheel_choices("9.9", "99.9") == ()


def test_the_default_wheel_is_one_of_the_stable_ones() -> None:
    defaults = {row.pytorch: row.default for row in tables.wheel_rows()}
    assert (defaults["2.1"], defaults["2.5"], defaults["2.9"], defaults["2.11"]) == ("12.1", "12.4", "12.8", "13.0")
    assert all(row.default in row.stable for row in tables.wheel_rows())


def faults(packages: list[tuple[str, str]], platform: str) -> dict[str, list[str]]:
    found = {group.name: [one.name for one in group.present(packages, platform)] for group in tables.singleton_groups()}
    return {name: present for name, present in found.items() if len(present) > 1}


# Packages of real solutions, as far as the groups look at them.
GOOD = {
    "conda-forge GPU": [
        ("_openmp_mutex", "7_kmp_llvm"),
        ("llvm-openmp", "h4922eb0_0"),
        ("libblas", "6_h5875eb1_mkl"),
        ("mkl", "h0e700b2_12"),
        ("cuda-cudart", "h5888daf_0"),
        ("libcublas", "h676940d_0"),
    ],
    "conda-forge GPU with a compiler": [
        ("_openmp_mutex", "7_kmp_llvm"),
        ("llvm-openmp", "h4922eb0_0"),
        ("libgomp", "he0feb66_3"),
        ("libblas", "6_h5875eb1_mkl"),
        ("mkl", "h0e700b2_12"),
    ],
    "conda-forge CPU without MKL": [
        ("_openmp_mutex", "20_gnu"),
        ("libgomp", "he0feb66_1"),
        ("libblas", "9_h4a7cf45_openblas"),
        ("libopenblas", "pthreads_h94d23a6_0"),
    ],
    "pytorch channel": [
        ("_openmp_mutex", "7_kmp_llvm"),
        ("llvm-openmp", "h0cdce71_0"),
        ("blas", "mkl"),
        ("libblas", "20_linux64_mkl"),
        ("mkl", "ha770c72_50498"),
        ("cuda-cudart", "0"),
        ("libcublas", "0"),
    ],
    "CUDA 11.8 of conda-forge": [("cudatoolkit", "h4ba93d1_13"), ("cuda-version", "h70ddcb2_3")],
}


@pytest.mark.parametrize("name", sorted(GOOD))
def test_good_environments_hold_one_of_each(name: str) -> None:
    assert faults(GOOD[name], "linux-64") == {}


def test_two_of_a_kind_are_found_with_the_constraint_that_mends_it() -> None:
    packages = [
        ("_openmp_mutex", "20_gnu"),
        ("llvm-openmp", "h4922eb0_0"),
        ("libblas", "9_h4a7cf45_openblas"),
        ("libopenblas", "pthreads_h94d23a6_0"),
        ("mkl", "ha770c72_50498"),
        ("cudatoolkit", "h4ba93d1_13"),
        ("libcublas", "h676940d_0"),
    ]
    assert faults(packages, "linux-64") == {
        "openmp": ["llvm-openmp", "libgomp"],
        "blas": ["mkl", "openblas"],
        "cuda": ["separate CUDA packages", "cudatoolkit"],
    }
    openmp, blas, _ = tables.singleton_groups()
    keep_openmp, keep_blas = openmp.present(packages, "linux-64")[0], blas.present(packages, "linux-64")[0]
    assert keep_openmp.steer_on("linux-64") == "_openmp_mutex * *_llvm"
    assert keep_openmp.steer_on("win-64") is None
    assert keep_blas.steer_on("linux-64") == "libblas * *mkl"
    assert blas.providers[1].packages_in(packages) == ("libblas", "libopenblas")


def test_windows_may_hold_both_of_its_openmp_runtimes() -> None:
    packages = [("llvm-openmp", "h4fa8253_1"), ("intel-openmp", "h57928b3_1083"), ("_openmp_mutex", "2_gnu")]
    assert faults(packages, "win-64") == {}


def test_default_systems_are_named_as_virtual_packages() -> None:
    linux = ("__archspec=1=x86_64", "__glibc=2.28=0", "__linux=4.18=0", "__unix=0=0")
    assert tables.default_virtual_packages("linux-64") == linux
    assert tables.default_virtual_packages("osx-arm64") == ("__archspec=1=m1", "__osx=13.0=0", "__unix=0=0")
    assert tables.default_virtual_packages("win-64") == ("__archspec=1=x86_64", "__win=10.0.17763=0")
    assert tables.default_virtual_packages("linux-32") is None
    assert tables.platforms() == ("linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64")


@pytest.mark.parametrize(
    ("name", "platforms"),
    [
        ("linux-arm64", ("linux-aarch64",)),
        ("linux/amd64", ("linux-64",)),
        ("linux-x86_64", ("linux-64",)),
        ("macOS", ("osx-arm64", "osx-64")),
        ("win", ("win-64",)),
        ("linux-64", ()),
        ("plan9", ()),
    ],
)
def test_a_platform_is_known_by_the_names_of_others(name: str, platforms: tuple[str, ...]) -> None:
    assert tables.platforms_meant(name) == platforms


def test_what_others_call_a_platform_is_no_platform_and_means_platforms() -> None:
    for row in facts("systems.toml").tables("also"):
        assert not set(row.texts("names")) & set(tables.platforms())
        assert set(row.texts("platforms")) <= set(tables.platforms())


@pytest.mark.parametrize(
    ("written", "same", "meant"),
    [
        ("torch", "pytorch", "pytorch"),
        ("opencv-python", "py-opencv", "py-opencv"),
        ("Typing.Extensions", "typing_extensions", "typing_extensions"),
        ("sklearn", None, "scikit-learn"),
        ("faiss-gpu", None, "faiss"),
        ("pillow-simd", None, "pillow"),
        ("numpy", None, None),
    ],
)
def test_names_of_wheels_lead_to_conda_packages(written: str, same: str | None, meant: str | None) -> None:
    assert (tables.conda_name(written), tables.conda_name_for(written)) == (same, meant)


def test_apple_has_no_cuda() -> None:
    assert [platform for platform in tables.platforms() if not tables.has_cuda(platform)] == ["osx-64", "osx-arm64"]


def test_images_are_pinned_by_a_whole_digest() -> None:
    for image in tables.images():
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", image.digest), image.name
        assert image.pinned == f"{image.reference}@{image.digest}"
    assert len({image.digest for image in tables.images()}) == len(tables.images())


def test_the_default_image_and_the_installer() -> None:
    debian = tables.image("debian-bookworm-slim")
    assert debian is not None
    digest = "7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587"
    assert debian.pinned == f"docker.io/library/debian:bookworm-slim@sha256:{digest}"
    assert (debian.glibc, debian.role) == ("2.36", "base")
    micromamba = tables.image("micromamba")
    assert micromamba is not None
    assert micromamba.role == "installer"
    assert tables.image("alpine") is None


def test_the_extra_nlp_holds_what_it_promises() -> None:
    nlp = tables.extra("nlp")
    assert nlp is not None
    assert [row.spec for row in nlp.packages] == [
        "transformers",
        "tokenizers",
        "datasets",
        "accelerate",
        "safetensors",
        "tensorboard",
        "pandas",
        "scikit-learn",
        "torchvision",
    ]
    assert "sklearn" in [module for row in nlp.packages for module in row.imports]
    assert tables.extra("npl") is None


def test_an_extra_does_not_make_torchaudio_mandatory() -> None:
    audio = tables.extra("audio")
    assert audio is not None
    assert {row.spec: row.optional for row in audio.packages}["torchaudio"]


def test_packages_for_cuda_are_left_out_without_it() -> None:
    llm = tables.extra("llm")
    assert llm is not None
    assert [row.spec for row in llm.packages_on("osx-arm64", cuda=False)] == ["accelerate", "peft", "trl"]
    assert "flash-attn" in [row.spec for row in llm.packages_on("linux-64", cuda=True)]
    assert "flash-attn" not in [row.spec for row in llm.packages_on("linux-64", cuda=False)]


@pytest.mark.parametrize("name", tables.extra_names())
def test_an_extra_has_readable_specs_reasons_and_known_platforms(name: str) -> None:
    rattler = pytest.importorskip("rattler")
    extra = tables.extra(name)
    assert extra is not None
    assert extra.name == name
    assert extra.source
    for row in extra.packages:
        assert rattler.MatchSpec(row.spec, strict=True).name is not None
        assert set(row.platforms or ()) <= set(tables.platforms())
        assert all(part.isidentifier() for module in row.imports for part in module.split("."))
    assert len({row.spec for row in extra.packages}) == len(extra.packages)


def test_every_match_spec_of_the_data_is_readable() -> None:
    rattler = pytest.importorskip("rattler")
    globs = [
        f"{row.name} * {glob}"
        for one in tables.providers()
        for row in one.companions
        for glob in (row.gpu, row.cpu)
        if glob
    ]
    steers = [row.steer for group in tables.singleton_groups() for row in group.providers if row.steer]
    for spec in globs + steers:
        assert rattler.MatchSpec(spec, strict=True).build is not None


def test_services_come_with_a_port() -> None:
    ports = {
        service.name: service.port
        for name in tables.extra_names()
        for service in getattr(tables.extra(name), "services", ())
    }
    assert ports == {"jupyter": 8888, "ssh": 2222, "vscode": 8080}


OWN = 'name = "own"\nsummary = "ours"\n\n[[package]]\nspec = "polars >=1"\nreason = "tables"\n'


def test_a_users_own_extra_needs_no_source() -> None:
    own = tables.load_extra(OWN, "own.toml")
    assert (own.name, own.source, own.packages[0].spec, own.packages[0].imports) == ("own", None, "polars >=1", ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            OWN + "importz = []\n",
            "own.toml:7:1: `importz` in an extra: unknown key, expected one of spec, reason, imports, platforms, cuda,"
            " optional\n  7 | importz = []\n    | ^^^^^^^\n  hint: did you mean `imports`?",
        ),
        (
            OWN.replace('"tables"', "3"),
            "own.toml:6:1: `reason` in an extra: expected a text\n  6 | reason = 3\n    | ^^^^^^",
        ),
        (
            'name = "own"\nsummary = "ours"\n',
            'own.toml:1:1: `package` in an extra: is missing\n  1 | name = "own"\n    | ^',
        ),
        ("name = \n", "own.toml:1:8: not valid TOML: invalid value\n  1 | name = \n    |        ^"),
    ],
)
def test_a_mistake_in_an_own_extra_is_shown_at_its_place(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        tables.load_extra(text, "own.toml")
    assert str(caught.value) == message


def test_a_fact_of_the_wrong_type_names_file_and_key() -> None:
    row = Table(file="cuda.toml", values={"major": True, "cuda": " "})
    with pytest.raises(FactError, match=re.escape("cuda.toml: `major`: expected a whole number")):
        row.integer("major")
    with pytest.raises(FactError, match=re.escape("cuda.toml: `cuda`: is empty")):
        row.text("cuda")
    with pytest.raises(FactError, match=re.escape("cuda.toml: `driver`: is missing")):
        row.text("driver")


def test_every_pytorch_in_the_shared_channel_is_described() -> None:
    """Each real GPU build of pytorch has a CUDA, a row of builds and a row of capabilities."""
    zstandard = pytest.importorskip("zstandard")
    if not CHANNEL.exists():
        pytest.skip("no shared channel metadata beside the repository")
    provider = conda_forge()
    for platform in ("linux-64", "linux-aarch64", "win-64"):
        packed = (CHANNEL / platform / "repodata.json.zst").read_bytes()
        repodata = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
        records = [row for key in ("packages", "packages.conda") for row in repodata[key].values()]
        builds = {(row["version"], row["build"]) for row in records if row["name"] == "pytorch"}
        gpu_builds = {pair for pair in builds if provider.flavour(pair[1]) == "gpu"}
        assert gpu_builds
        assert {provider.flavour(build) for _, build in builds} == {"gpu", "cpu"}
        for version, build in gpu_builds:
            cuda = provider.cuda_of(build)
            assert cuda in provider.cuda_builds(version, platform), (version, build, platform)
            assert provider.capabilities(version, cuda, platform), (version, build, platform)
