"""Answers are held to one kind of builds, one OpenMP and one BLAS, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_channel import by_name, gpu_channel, only, record, resolved, snapshot

from lockgen.errors import AnswerError, Unsolvable

GPU = 'name: t\npython: "3.13"\npytorch: "2.9"\ncuda: "12.1"\n'
CPU = 'name: t\npython: "3.13"\npytorch: "2.9"\ncuda: none\n'


def builds(text: str, folder: Path) -> dict[str, str]:
    return {name: package.build for name, package in by_name(only(resolved(text, folder))).items()}


def test_a_package_that_no_table_names_is_steered_to_its_gpu_build(tmp_path: Path) -> None:
    """The CPU build is newer, so the solver would take it."""
    folder = snapshot(
        tmp_path, conda_forge=gpu_channel(record("both", "1.0", "cuda129_0"), record("both", "1.1", "cpu_0"))
    )
    assert builds(GPU + "dependencies: [both]\n", folder)["both"] == "cuda129_0"
    assert builds(CPU + "dependencies: [both]\n", folder)["both"] == "cpu_0"


def test_a_package_that_no_table_names_is_steered_to_its_cpu_build(tmp_path: Path) -> None:
    folder = snapshot(
        tmp_path, conda_forge=gpu_channel(record("both", "1.1", "cuda129_0"), record("both", "1.0", "cpu_0"))
    )
    assert builds(CPU + "dependencies: [both]\n", folder)["both"] == "cpu_0"


def test_a_package_that_has_only_a_cpu_build_is_refused(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=gpu_channel(record("only", "1.0", "cpu_0")))
    with pytest.raises(AnswerError) as error:
        resolved(GPU + "dependencies: [only]\n", folder)
    assert error.value.exit_code == 2
    assert str(error.value) == (
        "spec.yaml:4:7: linux-64: `only 1.0 cpu_0` is a CPU build, GPU was asked for\n"
        '  4 | cuda: "12.1"\n'
        "    |       ^^^^^^\n"
        "  ├─ only * can be installed with any of the following options:\n"
        "  │  └─ only 1.0\n"
        "  └─ the constraint only * *cuda* cannot be fulfilled"
    )


def test_what_excludes_the_gpu_build_is_shown(tmp_path: Path) -> None:
    """There is a GPU build of 1.0, but something else asks for 1.1, of which there is none."""
    both = record("both", "1.0", "cuda129_0"), record("both", "1.1", "cpu_0")
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*both, record("strict", depends=["both >=1.1"])))
    with pytest.raises(AnswerError) as error:
        resolved(GPU + "dependencies: [both, strict]\n", folder)
    (problem,) = error.value.problems
    assert problem.message == "linux-64: `both 1.1 cpu_0` is a CPU build, GPU was asked for"
    assert problem.detail is not None
    assert "both >=1.1" in problem.detail
    assert "the constraint both * *cuda* cannot be fulfilled" in problem.detail


def test_one_package_that_cannot_be_steered_does_not_keep_the_others(tmp_path: Path) -> None:
    both = record("both", "1.0", "cuda129_0"), record("both", "1.1", "cpu_0")
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*both, record("only", "1.0", "cpu_0")))
    with pytest.raises(AnswerError) as error:
        resolved(GPU + "dependencies: [both, only]\n", folder)
    assert [problem.message for problem in error.value.problems] == [
        "linux-64: `only 1.0 cpu_0` is a CPU build, GPU was asked for"
    ]


def test_what_comes_with_a_steered_package_is_steered_too(tmp_path: Path) -> None:
    more = [
        record("outer", "1.0", "cuda129_0", ["inner"]), record("outer", "1.1", "cpu_0"),
        record("inner", "1.0", "cuda129_0"), record("inner", "1.1", "cpu_0"),
    ]  # fmt: skip
    found = builds(GPU + "dependencies: [outer]\n", snapshot(tmp_path, conda_forge=gpu_channel(*more)))
    assert (found["outer"], found["inner"]) == ("cuda129_0", "cuda129_0")


def test_an_optional_package_that_has_only_a_cpu_build_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "extras").mkdir()
    (tmp_path / "extras" / "own.toml").write_text(
        'name = "own"\nsummary = "s"\nsource = "https://example.org"\nchecked = 2026-11-30\n'
        '[[package]]\nspec = "only"\nreason = "r"\nimports = []\noptional = true\n'
    )
    monkeypatch.chdir(tmp_path)
    folder = snapshot(tmp_path / "snapshot", conda_forge=gpu_channel(record("only", "1.0", "cpu_0")))
    answer = only(resolved(GPU + "extras: [own]\n", folder))
    assert answer.left_out == ("only: no build goes with the rest",)
    assert "only" not in by_name(answer)


def test_a_cpu_build_of_arrow_beside_pytorch_is_right(tmp_path: Path) -> None:
    folder = snapshot(
        tmp_path,
        conda_forge=gpu_channel(record("libarrow", "22.0", "h1_0_cuda"), record("libarrow", "23.0", "h1_0_cpu")),
    )
    assert builds(GPU + "dependencies: [libarrow]\n", folder)["libarrow"] == "h1_0_cpu"


def test_a_companion_is_never_a_cpu_build(tmp_path: Path) -> None:
    """A range of torchvision is steered to the version that has a GPU build; that version alone is refused."""
    vision = record("torchvision", "0.24.0", "cuda129_0"), record("torchvision", "0.25.0", "cpu_0")
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*vision))
    assert builds(GPU + "dependencies: [torchvision]\n", folder)["torchvision"] == "cuda129_0"
    with pytest.raises(Unsolvable) as error:
        resolved(GPU + 'dependencies: ["torchvision 0.25.*"]\n', folder)
    assert error.value.problems[0].message == (
        "no GPU build answers the spec on linux-64, only CPU builds do: they are not taken silently"
    )


def test_two_blas_libraries_are_steered_to_one(tmp_path: Path) -> None:
    more = [
        record("mkl", "2024.2.2"),
        record("libblas", "3.9.0", "20_linux64_mkl", ["mkl"]),
        record("libblas", "3.9.0", "21_linux64_openblas", ["libopenblas"], build_number=21),
        record("libopenblas", "0.3.30"),
        record("numpy", depends=["libblas"]),
        record("torchlike", depends=["mkl"]),
    ]
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*more))
    assert builds(CPU + "dependencies: [numpy]\n", folder)["libblas"] == "21_linux64_openblas"
    found = builds(CPU + "dependencies: [numpy, torchlike]\n", folder)
    assert found["libblas"] == "20_linux64_mkl"
    assert "libopenblas" not in found


def test_two_openmp_runtimes_are_steered_to_one(tmp_path: Path) -> None:
    more = [
        record("_openmp_mutex", "4.5", "2_gnu", build_number=16),
        record("_openmp_mutex", "4.5", "7_kmp_llvm", ["llvm-openmp"], build_number=7),
        record("llvm-openmp", "19.1.7"),
        record("scipy", depends=["_openmp_mutex"]),
        record("torchlike", depends=["llvm-openmp"]),
    ]
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*more))
    assert builds(CPU + "dependencies: [scipy]\n", folder)["_openmp_mutex"] == "2_gnu"
    assert builds(CPU + "dependencies: [scipy, torchlike]\n", folder)["_openmp_mutex"] == "7_kmp_llvm"


def test_two_sets_of_cuda_libraries_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    more = record("cudatoolkit", "11.8.0"), record("cuda-cudart", "12.9.79")
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*more))
    with pytest.raises(AnswerError) as error:
        resolved(GPU + "dependencies: [cudatoolkit, cuda-cudart]\n", folder)
    assert str(error.value) == (
        "linux-64: more than one set of CUDA libraries: separate CUDA packages (cuda-cudart), cudatoolkit "
        "(cudatoolkit); `cudatoolkit` holds the same libraries as the separate CUDA packages; with both, which one is "
        "loaded is chance"
    )


# real channels


def real(text: str, folder: Path) -> dict[str, str]:
    return {name: f"{one.version} {one.build}" for name, one in by_name(only(resolved(text, folder))).items()}


@pytest.mark.parametrize("version", ["2.3", "2.4"])
def test_real_pytorch_with_mkl_gets_no_openblas_from_numpy(shared_channels: Path, version: str) -> None:
    text = f'name: t\npython: "3.12"\npytorch: "{version}"\ncuda: "12.1"\ndependencies: [numpy, scipy]\n'
    found = real(text, shared_channels)
    assert found["libblas"].endswith("mkl")
    assert "mkl" in found
    assert "libopenblas" not in found


def test_real_torchaudio_is_steered_to_a_gpu_build(shared_channels: Path) -> None:
    """The solver alone pairs PyTorch 2.5.1 for CUDA with a torchaudio for the CPU."""
    text = 'name: t\npython: "3.12"\npytorch: ">=2.5"\ncuda: "12.1"\ndependencies: [torchaudio]\n'
    found = real(text, shared_channels)
    assert found["pytorch"].startswith("2.7.1 cuda129_")
    assert found["torchaudio"].startswith("2.7.1 cuda126_")


def test_real_torchaudio_for_2_5_has_no_gpu_build_and_is_refused(shared_channels: Path) -> None:
    text = 'name: t\npython: "3.12"\npytorch: "2.5"\ncuda: "12.1"\ndependencies: [torchaudio]\n'
    with pytest.raises(Unsolvable) as error:
        resolved(text, shared_channels)
    (problem,) = error.value.problems
    assert problem.message == (
        "no GPU build answers the spec on linux-64, only CPU builds do: they are not taken silently"
    )
    assert problem.where is not None
    assert problem.where.line == 5
    assert problem.hint == (
        "line 5 excludes the candidates: `torchaudio`; without it, it solves\n"
        'line 3 excludes the candidates: `pytorch: "2.5"`; without it, it solves with pytorch 2.7.1'
    )
    assert problem.detail is not None
    assert "the constraint torchaudio * cuda* cannot be fulfilled" in problem.detail


def test_what_the_spec_lists_is_steered_to_its_gpu_build_whatever_is_right_for_others(tmp_path: Path) -> None:
    more = [
        record("lightgbm", "4.5.0", "cuda129_py_0"),
        record("lightgbm", "4.6.0", "cpu_py_0"),
        record("booster", depends=["lightgbm"]),
    ]
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*more))
    assert builds(GPU + "dependencies: [lightgbm]\n", folder)["lightgbm"] == "cuda129_py_0"
    assert builds(GPU + "dependencies: [booster]\n", folder)["lightgbm"] == "cpu_py_0"
    assert builds(GPU + "dependencies: ['lightgbm * *cpu*']\n", folder)["lightgbm"] == "cpu_py_0"


def test_a_listed_package_without_a_gpu_build_is_refused_with_what_takes_the_cpu_build(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=gpu_channel(record("lightgbm", "4.6.0", "cpu_py_0")))
    with pytest.raises(AnswerError) as error:
        resolved(GPU + "dependencies: [lightgbm]\n", folder)
    (problem,) = error.value.problems
    assert problem.message == "linux-64: `lightgbm 4.6.0 cpu_py_0` is a CPU build, GPU was asked for"
    assert problem.hint == "`lightgbm * *cpu*` among the dependencies takes the CPU build knowingly"
