"""What lockgen finds in an answer, whatever the solver said: every finding with its exact words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lock_values import package, request, requirement

from lockgen.lock.consistency import Finding, check, on_cpu, with_cuda
from lockgen.lock.cuda import facts
from lockgen.lock.model import LockedPackage
from lockgen.request import CudaAsk, Request

CUDA = CudaAsk(version="12.1", match="compatible")
TOOLKIT = package("cuda-version", "12.9")
GPU = package("pytorch", "2.9.1", "cuda129_py313_1")
CPU = package("pytorch", "2.9.1", "cpu_py313_1")


def gpu_request(*specs: str, **cuda: object) -> Request:
    return request("linux-64", *specs, cuda=replace(CUDA, **cuda))  # type: ignore[arg-type]


def found(asked: Request, *packages: LockedPackage) -> tuple[Finding, ...]:
    return check(asked, packages)


# records


def test_a_good_answer_has_no_findings() -> None:
    asked = gpu_request("pytorch 2.9.* cuda*")
    assert found(asked, GPU, TOOLKIT, package("libtorch", "2.9.1", "cuda129_h1_1")) == ()


def test_a_package_is_there_once() -> None:
    two = package("numpy", "2.0"), package("numpy", "2.1")
    assert found(request("linux-64", "numpy"), *two) == (("`numpy` is in the answer 2 times", ""),)


@pytest.mark.parametrize("field", ["url", "sha256", "md5", "size"])
def test_every_record_is_complete(field: str) -> None:
    broken = replace(package("numpy"), **{field: 0 if field == "size" else ""})
    name = "numpy-1.0-h1_0.conda" if field != "url" else ""
    assert found(request("linux-64"), broken) == (
        (f"the channel gives no {field} for `{name}`: it cannot be locked", ""),
    )


def test_all_missing_fields_are_in_one_finding() -> None:
    broken = replace(package("numpy"), md5="", size=0)
    assert found(request("linux-64"), broken) == (
        ("the channel gives no md5, size for `numpy-1.0-h1_0.conda`: it cannot be locked", ""),
    )


# relations


def test_an_unmet_requirement_points_at_its_line() -> None:
    assert found(request("linux-64", "numpy >=3"), package("numpy", "2.0")) == (
        ("nothing in the answer matches `numpy >=3`", "dependencies.0"),
    )


def test_a_constraint_holds_only_for_what_is_there() -> None:
    asked = request("linux-64", constraints=(requirement("numpy <2"),))
    assert found(asked, package("scipy")) == ()
    assert found(asked, package("numpy", "2.0")) == (("the answer breaks the constraint `numpy <2`", "dependencies.0"),)


def test_every_dependency_is_there() -> None:
    scipy = package("scipy", depends=["numpy >=1.20", "python"])
    assert found(request("linux-64"), scipy, package("numpy", "1.19"), package("python", "3.13.1")) == (
        ("`scipy 1.0` needs `numpy >=1.20`, which is not in the answer", ""),
    )


def test_what_a_record_constrains_holds() -> None:
    scipy = package("scipy", constrains=["numpy <2", "absent >9"])
    assert found(request("linux-64"), scipy, package("numpy", "2.0")) == (
        ("`scipy 1.0` does not go with what is there: it constrains `numpy <2`", ""),
    )


def test_a_package_for_a_newer_glibc_is_refused_for_the_oldest_system() -> None:
    assert found(request("linux-64"), package("new", depends=["__glibc >=2.34,<3.0.a0"])) == (
        (
            "`new 1.0` cannot run on the oldest system: it needs `__glibc >=2.34,<3.0.a0`, "
            "the spec's system has `__glibc=2.28=0`",
            "system",
        ),
    )


def test_a_package_for_another_system_is_refused() -> None:
    assert found(request("osx-arm64"), package("new", subdir="osx-arm64", depends=["__glibc >=2.17"])) == (
        ("`new 1.0` cannot run on the oldest system: it needs `__glibc >=2.17`, the spec's system has none", "system"),
    )


def test_a_package_for_a_newer_driver_is_refused_at_the_line_of_cuda() -> None:
    assert found(gpu_request(), package("new", "1.0", "h1_0", depends=["__cuda >=12.4"])) == (
        (
            "`new 1.0` cannot run on the oldest system: it needs `__cuda >=12.4`, "
            "the spec's system has `__cuda=12.1=0`",
            "cuda",
        ),
    )


def test_a_toolkit_that_constrains_the_driver_to_its_major_is_right() -> None:
    assert found(gpu_request(), GPU, package("cuda-version", "12.9", constrains=["__cuda >=12"])) == ()
    assert found(request("linux-64"), package("cuda-version", "12.9", constrains=["__cuda >=12"])) == ()


# flavours


def test_a_cpu_build_is_refused_where_gpu_was_asked_for() -> None:
    assert found(gpu_request(), CPU) == (("`pytorch 2.9.1 cpu_py313_1` is a CPU build, GPU was asked for", "cuda"),)


def test_a_gpu_build_is_refused_where_cpu_was_asked_for() -> None:
    assert found(request("linux-64"), GPU) == (
        ("`pytorch 2.9.1 cuda129_py313_1` is a GPU build, CPU was asked for", "cuda"),
    )


def test_a_package_that_no_table_names_is_judged_by_its_build() -> None:
    assert found(gpu_request(), package("other", "1.0", "cpu_h1_0")) == (
        ("`other 1.0 cpu_h1_0` is a CPU build, GPU was asked for", "cuda"),
    )


def test_a_companion_whose_build_says_nothing_is_not_trusted() -> None:
    assert found(gpu_request(), package("torchvision", "0.24.0", "py313_0")) == (
        ("`torchvision 0.24.0 py313_0` is not known to be a GPU build", "cuda"),
    )


def test_builds_whose_names_only_look_like_a_flavour_are_let_be() -> None:
    cupti = package("cuda-cupti", "12.9.79", "h676940d_1")
    assert found(request("linux-64"), cupti, package("psutil", "7.0", "hcpu1_0")) == ()


@pytest.mark.parametrize("name", ["libarrow", "libarrow-acero", "libparquet", "pyarrow-core", "libhwloc", "xgboost"])
def test_a_cpu_build_beside_pytorch_is_right_for_some(name: str) -> None:
    assert found(gpu_request(), GPU, TOOLKIT, package(name, "1.0", "h1_0_cpu")) == ()


# CUDA


def test_another_major_is_refused() -> None:
    assert found(gpu_request(), package("cuda-version", "13.0")) == (
        ("CUDA 13.0 is locked, 12.1 was asked for: another major", "cuda"),
    )


def test_exactly_means_that_toolkit() -> None:
    assert found(gpu_request(match="exact"), TOOLKIT) == (("CUDA 12.9 is locked, exactly 12.1 was asked for", "cuda"),)
    assert found(gpu_request(match="exact"), package("cuda-version", "12.1")) == ()


def test_a_build_for_the_first_minor_takes_any_toolkit_of_its_major() -> None:
    build = package("pytorch", "2.4.1", "cuda120_py312_1")
    assert found(gpu_request(match="exact"), build, package("cuda-version", "12.1")) == ()


@pytest.mark.parametrize("driver", ["525", "525.60.13", "535", "580.65.06"])
def test_a_driver_of_the_majors_floor_is_enough(driver: str) -> None:
    assert found(gpu_request(driver=driver), GPU, TOOLKIT) == ()


@pytest.mark.parametrize("driver", ["525.53", "520", "470.82.01"])
def test_a_driver_below_the_floor_is_refused(driver: str) -> None:
    assert found(gpu_request(driver=driver), GPU, TOOLKIT) == (
        (f"CUDA 12.9 needs driver 525.60.13 or newer, the spec allows {driver}", "driver"),
    )


WINDOWS = replace(request("linux-64", cuda=CUDA), platform="win-64")


@pytest.mark.parametrize(("driver", "is_enough"), [("528.33", True), ("525.60.13", False), ("527.41", False)])
def test_on_windows_the_floor_of_its_own_drivers_holds(driver: str, is_enough: bool) -> None:
    asked = replace(WINDOWS, cuda=replace(CUDA, driver=driver))
    refusal = (f"CUDA 12.9 needs driver 528.33 or newer, the spec allows {driver}", "driver")
    assert found(asked, TOOLKIT) == (() if is_enough else (refusal,))


# GPUs


@pytest.mark.parametrize(
    "gpu",
    [
        "5.2",  # by the code for 5.0: same major
        "6.1", "7.0", "7.5", "8.6", "8.9", "9.0", "10.0",
        "10.3",  # by the code for 10.0
        "12.0", "12.1",
    ],
)  # fmt: skip
def test_conda_forges_build_for_12_9_runs_on_all_of_these(gpu: str) -> None:
    assert found(gpu_request(gpus=(gpu,)), GPU, TOOLKIT) == ()


@pytest.mark.parametrize("gpu", ["3.5", "3.7"])
def test_a_gpu_older_than_all_code_is_refused(gpu: str) -> None:
    assert found(gpu_request(gpus=(gpu,)), GPU, TOOLKIT) == (
        (f"`pytorch 2.9.1 cuda129_py313_1` has no code for compute capability {gpu}", "gpus"),
    )


def test_volta_is_refused_for_cuda_13() -> None:
    asked = gpu_request(version="13.0", gpus=("7.0", "9.0"))
    build = package("pytorch", "2.12.0", "cuda130_py314_0")
    assert found(asked, build, package("cuda-version", "13.0")) == (
        ("`pytorch 2.12.0 cuda130_py314_0` has no code for compute capability 7.0", "gpus"),
    )


BLACKWELL = package("pytorch", "2.6.0", "cuda126_py312_1")
"""Compiled for up to 9.0, with PTX of 9.0."""
OLDER_TOOLKIT = package("cuda-version", "12.6")


def test_ptx_is_not_compiled_by_a_driver_older_than_the_toolkit() -> None:
    assert found(gpu_request(gpus=("10.0",)), BLACKWELL, OLDER_TOOLKIT) == (
        (
            "`pytorch 2.6.0 cuda126_py312_1` has only PTX for compute capability 10.0, and a driver for CUDA "
            "12.1 cannot compile it: that takes one for CUDA 12.6 or newer",
            "gpus",
        ),
    )


def test_ptx_is_compiled_by_a_driver_that_knows_the_toolkit() -> None:
    asked = gpu_request(version="12.6", gpus=("9.0", "10.0"))
    assert found(asked, BLACKWELL, OLDER_TOOLKIT) == ()
    locked = facts(asked, (BLACKWELL, OLDER_TOOLKIT))
    assert locked is not None
    assert (locked.min_driver, locked.ptx) == ("560.28.03", "9.0")
    assert locked.notes[-1] == (
        "no machine code for compute capability 10.0: its driver compiles PTX at the first use, "
        "which takes driver 560.28.03 or newer"
    )
    assert locked.notes[0] == "the CUDA 12.6 toolkit that was asked for; it needs driver 560.28.03 or newer"
    assert not [note for note in locked.notes if "525.60.13" in note]


def test_the_oldest_driver_of_the_spec_decides_about_ptx() -> None:
    asked = gpu_request(version="12.6", gpus=("10.0",), driver="535")
    assert found(asked, BLACKWELL, OLDER_TOOLKIT) == (
        (
            "`pytorch 2.6.0 cuda126_py312_1` has only PTX for compute capability 10.0, and driver 535 cannot "
            "compile it: that takes one for CUDA 12.6 or newer",
            "gpus",
        ),
    )
    assert found(gpu_request(gpus=("10.0",), driver="570.26"), BLACKWELL, OLDER_TOOLKIT) == ()


def test_a_jetson_needs_code_of_its_own() -> None:
    orin = gpu_request(version="12.6", gpus=("8.7",))
    assert found(orin, BLACKWELL, OLDER_TOOLKIT) == (  # although it has code for 8.0 and 8.6
        ("`pytorch 2.6.0 cuda126_py312_1` has no code for compute capability 8.7", "gpus"),
    )


def test_gpus_are_refused_where_it_is_not_known_what_a_build_covers() -> None:
    future = package("pytorch", "9.0.0", "cuda129_py313_0")
    assert found(gpu_request(gpus=("7.0", "9.0")), future, TOOLKIT) == (
        ("which GPUs `pytorch 9.0.0 cuda129_py313_0` covers is not known", "gpus"),
    )


def test_gpus_are_refused_where_a_build_does_not_say_its_cuda() -> None:
    vague = package("pytorch", "2.9.1", "gpu_py313_0")
    assert found(gpu_request(gpus=("9.0",)), vague, TOOLKIT) == (
        ("which GPUs `pytorch 2.9.1 gpu_py313_0` covers is not known", "gpus"),
    )


def test_gpus_without_pytorch_are_said_to_be_unchecked() -> None:
    asked = gpu_request(version="12.9", gpus=("3.7",))
    locked = facts(asked, (TOOLKIT, package("jaxlib", "0.7.0", "cuda129_py313_0")))
    assert locked is not None
    assert locked.notes[-1] == (
        "which GPUs this covers is not known: lockgen knows it of pytorch only, which is not in the answer"
    )


# CPU builds among GPU builds

LIGHTGBM = package("lightgbm", "4.6.0", "cpu_py_0")


def test_a_cpu_build_that_another_package_brings_in_is_right_and_has_a_reason() -> None:
    asked = gpu_request("shapley")
    assert found(asked, LIGHTGBM, package("shapley")) == ()
    assert on_cpu(asked, (LIGHTGBM, GPU)) == {"gradient boosting beside PyTorch, shares no tensors with it": [LIGHTGBM]}


def test_a_cpu_build_of_what_the_spec_lists_is_refused() -> None:
    assert found(gpu_request("lightgbm"), LIGHTGBM) == (
        ("`lightgbm 4.6.0 cpu_py_0` is a CPU build, GPU was asked for", "cuda"),
    )


def test_a_cpu_build_that_the_spec_asks_for_in_so_many_words_is_right() -> None:
    asked = gpu_request("lightgbm * *cpu*")
    assert found(asked, LIGHTGBM) == ()
    assert on_cpu(asked, (LIGHTGBM,)) == {"the spec asks for this build": [LIGHTGBM]}


def test_a_gpu_build_is_never_right_where_cpu_builds_are_asked_for() -> None:
    arrow = package("libarrow", "22.0", "h1_0_cuda")
    assert found(request("linux-64"), arrow) == (
        ("`libarrow 22.0 h1_0_cuda` is a GPU build, CPU was asked for", "cuda"),
    )


def test_what_uses_cuda_is_found_by_its_build_its_name_or_what_it_needs() -> None:
    cupy = package("cupy", "13.0", "py313_0", depends=["cuda-version >=12,<13"])
    assert with_cuda(request("linux-64"), (TOOLKIT, cupy, GPU, package("numpy"))) == [TOOLKIT, cupy, GPU]


# what an environment may hold once

OPENMP = "two OpenMP runtimes in one process fight over threads: slow, and some builds abort"


def test_two_openmp_runtimes_are_refused() -> None:
    gnu, llvm = package("_openmp_mutex", "4.5", "2_gnu"), package("llvm-openmp", "19.1.7")
    assert found(request("linux-64"), gnu, llvm) == (
        (f"more than one OpenMP runtime: llvm-openmp (llvm-openmp), libgomp (_openmp_mutex); {OPENMP}", ""),
    )


def test_libgomp_that_is_never_loaded_is_let_be() -> None:
    llvm = package("_openmp_mutex", "4.5", "7_kmp_llvm"), package("llvm-openmp", "19.1.7")
    assert found(request("linux-64"), *llvm, package("libgomp", "15.1.0")) == ()


def test_two_blas_libraries_are_refused() -> None:
    mkl, openblas = package("mkl", "2024.2.2"), package("libblas", "3.9.0", "37_h1_openblas")
    assert found(request("linux-64"), mkl, openblas) == (
        (
            "more than one BLAS: mkl (mkl), openblas (libblas); two BLAS libraries in one process start two pools of "
            "threads and give results that differ in the last digits",
            "",
        ),
    )


def test_two_sets_of_cuda_libraries_are_refused() -> None:
    both = package("cuda-cudart", "12.9.79"), package("cudatoolkit", "11.8.0")
    assert found(request("linux-64"), *both) == (
        (
            "more than one set of CUDA libraries: separate CUDA packages (cuda-cudart), cudatoolkit (cudatoolkit); "
            "`cudatoolkit` holds the same libraries as the separate CUDA packages; "
            "with both, which one is loaded is chance",
            "",
        ),
    )


# what is said about CUDA


def notes(asked: Request, *packages: LockedPackage) -> tuple[str, ...]:
    found = facts(asked, packages)
    assert found is not None
    return found.notes


def test_a_newer_toolkit_of_the_major_is_explained() -> None:
    assert notes(gpu_request(), GPU, TOOLKIT) == (
        "asked for CUDA 12.1, locked CUDA 12.9: builds of one major run on any driver for that major "
        "(minor-version compatibility), so driver 525.60.13 or newer is enough for CUDA 12.x",
        "PTX is not compiled for the GPU at run time: a GPU that only PTX covers fails",
        "features that are newer than the driver are missing",
    )


def test_ptx_on_a_newer_driver_is_explained_with_one_number() -> None:
    assert notes(gpu_request(gpus=("10.0",), driver="570.26"), BLACKWELL, OLDER_TOOLKIT) == (
        "asked for CUDA 12.1, locked CUDA 12.6; it needs driver 560.28.03 or newer",
        "no machine code for compute capability 10.0: its driver compiles PTX at the first use, "
        "which takes driver 560.28.03 or newer",
    )


def test_on_windows_no_linux_driver_is_named() -> None:
    assert notes(WINDOWS, TOOLKIT)[0].endswith("so driver 528.33 or newer is enough for CUDA 12.x")
    newer = replace(WINDOWS, cuda=replace(CUDA, version="13.0"))
    locked = facts(newer, (package("cuda-version", "13.0"),))
    assert locked is not None
    assert locked.min_driver == "unknown"
    assert locked.notes == ("the CUDA 13.0 toolkit that was asked for; it needs a driver for CUDA 13.0 or newer",)


def test_an_older_toolkit_is_explained() -> None:
    assert notes(gpu_request(version="12.6"), package("cuda-version", "12.1")) == (
        "a driver for CUDA 12.6 runs builds for the older CUDA 12.1",
    )


def test_the_toolkit_that_was_asked_for_needs_no_explanation() -> None:
    assert notes(gpu_request(version="12.9"), GPU, TOOLKIT) == (
        "the CUDA 12.9 toolkit that was asked for; it needs driver 525.60.13 or newer",
    )


def test_a_driver_older_than_the_toolkit_that_was_asked_for_is_explained() -> None:
    assert notes(gpu_request(version="12.9", driver="535"), GPU, TOOLKIT)[:2] == (
        "the CUDA 12.9 toolkit that was asked for; it needs driver 525.60.13 or newer, and runs on driver 535 by "
        "minor-version compatibility",
        "PTX is not compiled for the GPU at run time: a GPU that only PTX covers fails",
    )
    assert len(notes(gpu_request(version="12.9", driver="575.51.03"), GPU, TOOLKIT)) == 1


def test_the_facts_of_the_flagships_build() -> None:
    locked = facts(gpu_request(), (GPU, TOOLKIT))
    assert locked is not None
    assert (locked.asked, locked.locked, locked.min_driver, locked.ptx) == ("12.1", "12.9", "525.60.13", "12.0")
    assert locked.capabilities == ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0")


def test_what_a_build_of_ones_own_channel_covers_is_not_guessed() -> None:
    for channel, covered in (("file:///home/me/channel", ()), ("https://mirror.example.org/conda-forge", "12.0")):
        locked = facts(gpu_request(), (replace(GPU, channel=channel), TOOLKIT))
        assert locked is not None
        assert (locked.locked, locked.min_driver) == ("12.9", "525.60.13")
        assert locked.capabilities[-1:] == ((covered,) if covered else ())


def test_there_are_no_facts_without_cuda() -> None:
    assert facts(request("linux-64"), (CPU,)) is None
    assert facts(gpu_request(), (package("numpy"),)) is None
