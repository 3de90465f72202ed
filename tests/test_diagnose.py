"""Why a spec has no answer: the lines that exclude it, and choices that really solve."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import rattler
import yaml
from fake_channel import by_name, cuda_version, gpu_channel, only, python, pytorch, record, resolved, snapshot

from lockgen.errors import AnswerError, LockgenError, Problem, Unsolvable

EXACT = 'name: t\npython: "3.13"\npytorch: "2.9"\ncuda: {version: "12.1", match: exact}\n'
CPU_ONLY = "no GPU build answers the spec on linux-64, only CPU builds do: they are not taken silently"


def refusal(text: str, folder: Path, kind: type[LockgenError] = Unsolvable) -> Problem:
    with pytest.raises(kind) as error:
        resolved(text, folder)
    assert error.value.exit_code == 2
    (problem,) = error.value.problems
    return problem


def choices(problem: Problem) -> list[tuple[str, str, bool]]:
    """What is offered: what to write, what it gives, and whether it was solved."""
    found = re.findall(r"^- (.*)\n    → (.*) \((solved|not confirmed)\)$", problem.detail or "", re.MULTILINE)
    return [(write, gives, how == "solved") for write, gives, how in found]


def with_choice(text: str, write: str) -> str:
    """The spec with the keys of a choice written over its own."""
    return yaml.safe_dump(yaml.safe_load(text) | yaml.safe_load("{" + write + "}"))


# exactly one toolkit


def test_exact_refuses_what_was_never_built_and_names_both_lines(shared_channels: Path) -> None:
    assert (
        str(refusal(EXACT, shared_channels))
        == """\
spec.yaml:4:7: no pytorch 2.9 on linux-64 goes with exactly CUDA 12.1
  4 | cuda: {version: "12.1", match: exact}
    |       ^
  spec.yaml:3:10: asks for pytorch 2.9
  spec.yaml:4:7: asks for CUDA 12.1, exactly

  ├─ cuda-version 12.1.* can be installed with any of the following options:
  │  └─ cuda-version 12.1
  └─ pytorch 2.9.* cuda* cannot be installed because there are no viable options:
     └─ pytorch 2.9.1 would require
        └─ cuda-version >=12.9,<13, which cannot be installed because there are no viable options:
           └─ cuda-version 12.9, which conflicts with the versions reported above.

  the nearest real choices:
  - cuda: "12.1"
      → pytorch 2.9.1 cuda129_mkl_py313_h54d9d63_305, python 3.13.15, CUDA 12.9, driver 525.60.13 or newer, \
from conda-forge (solved)
  - cuda: {version: "12.9", match: exact}
      → pytorch 2.9.1 cuda129_mkl_py313_h54d9d63_305, python 3.13.15, CUDA 12.9, driver 525.60.13 or newer, \
from conda-forge (solved)
  - pytorch: "2.4", python: "3.11"
      → pytorch 2.4.1 cuda120_mkl_py311_h0003bf8_306, python 3.11.15, CUDA 12.1, driver 525.60.13 or newer, \
from conda-forge (solved)
  - channels: [pytorch, nvidia, conda-forge], pytorch: "2.5", python: "3.11"
      → pytorch 2.5.1 py3.11_cuda12.1_cudnn9.1.0_0, python 3.11.15, CUDA 12.1, driver 525.60.13 or newer, \
from pytorch (solved)
  - wheels, outside conda: torch 2.9 for CUDA 12.6, 12.8, 12.9 (unsupported); torch 2.5 for CUDA 12.1
      → lockgen does not lock wheels (not confirmed)
  hint: take one of the choices above; the first keeps both the PyTorch and the machines that were asked for"""
    )


@pytest.mark.parametrize("more", ["", "extras: [nlp]\n"])
def test_every_choice_that_is_called_solved_solves(shared_channels: Path, more: str) -> None:
    offered = choices(refusal(EXACT + more, shared_channels))
    solved = [(write, gives) for write, gives, confirmed in offered if confirmed]
    assert len(solved) == 4
    for write, gives in solved:
        found = by_name(only(resolved(with_choice(EXACT + more, write), shared_channels)))
        torch, interpreter = found["pytorch"], found["python"]
        assert gives.startswith(f"pytorch {torch.version} {torch.build}, python {interpreter.version}, CUDA 12.")


def test_a_choice_of_a_channel_that_cannot_be_asked_is_marked(shared_channels: Path, tmp_path: Path) -> None:
    (tmp_path / "conda-forge").symlink_to(shared_channels / "conda-forge")
    elsewhere = [one for one in choices(refusal(EXACT, tmp_path)) if one[0].startswith("channels:")]
    assert elsewhere == [
        (
            'channels: [pytorch, nvidia, conda-forge], pytorch: "2.4"',
            "a build that pytorch is known to have",
            False,
        )
    ]


def test_exact_of_another_major_offers_choices_too(shared_channels: Path) -> None:
    text = EXACT.replace("12.1", "13.0").replace('"3.13"', '"3.14"').replace('"2.9"', '"2.10"')
    problem = refusal(text, shared_channels)
    assert problem.message == "no pytorch 2.10 on linux-64 goes with exactly CUDA 13.0"
    assert [(write, confirmed) for write, _, confirmed in choices(problem)][:2] == [
        ('cuda: {version: "12.9", match: exact}', True),
        ('pytorch: "2.12"', True),
    ]
    assert problem.hint == "take one of the choices above"


def test_exact_without_pytorch_speaks_of_no_pytorch(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=[python(), cuda_version("12.9"), record("tool")])
    text = 'name: t\ncuda: {version: "12.1", match: exact}\ndependencies: [tool]\n'
    assert (
        str(refusal(text, folder))
        == """\
spec.yaml:2:7: nothing on linux-64 goes with exactly CUDA 12.1
  2 | cuda: {version: "12.1", match: exact}
    |       ^
  spec.yaml:2:7: asks for CUDA 12.1, exactly

  No candidates were found for cuda-version 12.1.*.

  the nearest real choices:
  - cuda: "12.1"
      →  (solved)
  hint: take one of the choices above; the first keeps the machines that were asked for"""
    )


# only CPU builds


def test_gpu_asked_and_only_cpu_builds_exist(tmp_path: Path) -> None:
    """PyTorch for CUDA is built for Python 3.13 only, for the CPU for 3.14 too."""
    records = [*gpu_channel(), python("3.14.0"), *pytorch("2.9.1", cuda=None, python="3.14")]
    folder = snapshot(tmp_path, conda_forge=records)
    assert (
        str(refusal('name: t\npython: "3.14"\npytorch: "2.9"\ncuda: "12.1"\n', folder))
        == f"""\
spec.yaml:2:9: {CPU_ONLY}
  2 | python: "3.14"
    |         ^^^^^^
  ├─ python 3.14.* can be installed with any of the following options:
  │  └─ python 3.14.0
  └─ pytorch 2.9.* cuda* cannot be installed because there are no viable options:
     └─ pytorch 2.9.1 would require
        └─ python 3.13.*, which cannot be installed because there are no viable options:
           └─ python 3.13.1, which conflicts with the versions reported above.
  hint: line 2 excludes the candidates: `python: "3.14"`; without it, it solves with python 3.13.1"""
    )


def test_a_version_without_gpu_builds_is_named_with_those_that_have_them(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=gpu_channel(*pytorch("2.12.0", cuda=None)))
    problem = refusal('name: t\npython: "3.13"\npytorch: "2.12"\ncuda: "12.1"\n', folder)
    assert problem.message == CPU_ONLY
    assert problem.hint == (
        'line 3 excludes the candidates: `pytorch: "2.12"`; without it, it solves with pytorch 2.9.1\n'
        "line 3: no build matches `pytorch 2.12.* cuda*`; the channel has `cuda*` builds of pytorch 2.9.1"
    )


def test_another_cuda_is_named_as_the_line_that_excludes(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=gpu_channel())
    problem = refusal('name: t\npython: "3.13"\npytorch: "2.9"\ncuda: "13.0"\n', folder)
    assert problem.message == CPU_ONLY
    assert problem.where is not None
    assert problem.where.line == 4
    assert problem.hint == (
        'line 4 excludes the candidates: `cuda: "13.0"`; without it, it solves with pytorch 2.9.1, cuda-version 12.9'
    )


# other lines


def test_a_dependency_that_excludes_is_named(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=[python(), record("tool", "1.0", depends=["python <3.13"])])
    assert (
        str(refusal('name: t\npython: "3.13"\ndependencies:\n  - tool\n', folder))
        == """\
spec.yaml:4:5: nothing answers the spec on linux-64
  4 |   - tool
    |     ^^^^
  └─ tool * cannot be installed because there are no viable options:
     └─ tool 1.0 would require
        └─ python <3.13, for which no candidates were found.
  hint: line 4 excludes the candidates: `- tool`; without it, it solves"""
    )


def test_versions_that_there_are_stand_beside_one_that_there_is_not(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=[python(), record("tool", "1.0"), record("tool", "1.2")])
    assert refusal('name: t\npython: "3.13"\ndependencies: [tool >=2]\n', folder).hint == (
        "line 3 excludes the candidates: `tool >=2`; without it, it solves\n"
        "line 3: no build matches `tool >=2`; the channel has tool 1.2, 1.0"
    )


def test_a_constraint_that_excludes_is_named(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=[python(), record("tool", "1.0")])
    problem = refusal('name: t\npython: "3.13"\ndependencies: [tool]\nconstraints: [tool >=2]\n', folder)
    assert "line 4 excludes the candidates: `tool >=2`; without it, it solves" in (problem.hint or "")


def test_a_system_that_is_too_old_is_named_with_the_one_that_would_do(tmp_path: Path) -> None:
    newest = record("python", "3.13.9", "h0_100", depends=["__glibc >=2.39"])  # not needed for an answer
    folder = snapshot(tmp_path, conda_forge=[python(), newest, record("tool", depends=["__glibc >=2.34,<3.0.a0"])])
    text = 'name: t\npython: "3.13"\ndependencies: [tool]\n'
    problem = refusal(f'{text}system: {{glibc: "2.17"}}\n', folder)
    assert 'line 4 excludes the candidates: with `system: {glibc: "2.34"}`, it solves' in (problem.hint or "")
    problem = refusal(text, folder)
    assert 'the default of `system` excludes the candidates: with `system: {glibc: "2.34"}`, it solves' in (
        problem.hint or ""
    )


def test_a_date_that_hides_is_named(tmp_path: Path) -> None:
    old = record("python", "3.13.1", "h0_100", timestamp=1_600_000_000_000)
    folder = snapshot(tmp_path, conda_forge=[old, record("tool"), record("tool", "0.1", timestamp=1_600_000_000_000)])
    problem = refusal('name: t\npython: "3.13"\ndependencies: [tool >=1]\nas-of: 2022-01-01\n', folder)
    assert "line 4 excludes the candidates: `as-of: 2022-01-01`; without it, it solves" in (problem.hint or "")


def test_strict_priority_is_named(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, first=[record("tool", "1.0")], second=[python(), record("tool", "2.0")])
    problem = refusal('name: t\npython: "3.13"\nchannels: [first, second]\ndependencies: [tool >=2]\n', folder)
    assert "strict channel priority excludes the candidates: with `channel-priority: disabled`, it solves" in (
        problem.hint or ""
    )


def test_two_lines_to_blame_are_not_told_as_one(tmp_path: Path) -> None:
    one, two = record("one", depends=["python <3.13"]), record("two", depends=["python <3.13"])
    folder = snapshot(tmp_path, conda_forge=[python(), python("3.14.0"), one, two])
    problem = refusal('name: t\npython: "3.13"\ndependencies: [one, two]\n', folder)
    assert problem.hint == "no single line of the spec is to blame: loosen two or more of them"


# GPUs


def test_volta_with_cuda_13_is_refused_with_the_build_that_would_do(shared_channels: Path) -> None:
    text = 'name: t\npython: "3.14"\npytorch: ">=2.10"\ncuda: "13.0"\ngpus: [V100]\n'
    problem = refusal(text, shared_channels, AnswerError)
    assert (
        str(problem)
        == """\
spec.yaml:5:7: linux-64: `pytorch 2.12.0 cuda130_generic_py314_h61e8f04_200` has no code for compute capability 7.0
  5 | gpus: [V100]
    |       ^
  what would do:
  - cuda: "12.9"
      → pytorch 2.12.0 cuda129_mkl_py314_h245c5d3_300, python 3.14.7, CUDA 12.9, driver 525.60.13 or newer, \
from conda-forge (solved)"""
    )
    ((write, _, _),) = choices(problem)
    assert by_name(only(resolved(with_choice(text, write), shared_channels)))["pytorch"].build.startswith("cuda129_")


def test_blackwell_with_code_for_hopper_only_is_refused(shared_channels: Path) -> None:
    text = 'name: t\npython: "3.12"\npytorch: "2.6"\ncuda: "12.1"\ngpus: [B200]\n'
    problem = refusal(text, shared_channels, AnswerError)
    assert problem.message == (
        "linux-64: `pytorch 2.6.0 cuda126_mkl_py312_hc22452d_303` has only PTX for compute capability 10.0, and a "
        "driver for CUDA 12.1 cannot compile it: that takes one for CUDA 12.9 or newer"
    )
    offered = choices(problem)
    assert [write for write, _, _ in offered] == ['cuda: "12.9"', 'pytorch: "2.10"']
    assert "CUDA 12.9, driver 575.51.03 or newer" in offered[0][1]
    for write, _, _ in offered:
        resolved(with_choice(text, write), shared_channels)


def test_gpus_that_no_build_covers_are_refused_with_that(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=gpu_channel())
    problem = refusal('name: t\npython: "3.13"\npytorch: "2.9"\ncuda: "12.1"\ngpus: [K80]\n', folder, AnswerError)
    assert problem.message == "linux-64: `pytorch 2.9.1 cuda129_py313_h0_0` has no code for compute capability 3.7"
    assert problem.hint == "no build in the channels covers all of these GPUs"


def test_the_variant_is_named(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=gpu_channel())
    text = 'name: t\npython: "3.13"\npytorch: "2.12"\nvariants: {cpu: {cuda: none}}\n'
    assert refusal(text, folder).message == "nothing answers the spec on linux-64 (variant cpu)"


# how much is tried


def test_a_conflict_in_a_long_list_is_found_with_few_solves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of a hundred lines is to blame: the solver's own words say so."""
    names = [f"tool{number}" for number in range(100)]
    records = [python(), *map(record, names), record("culprit", depends=["python <3.13"])]
    folder = snapshot(tmp_path, conda_forge=records)
    counted = _counting(monkeypatch)
    problem = refusal(f'name: t\npython: "3.13"\ndependencies: [{", ".join(names)}, culprit]\n', folder)
    assert problem.hint == "line 3 excludes the candidates: `culprit`; without it, it solves"
    assert len(counted) <= 26


def test_a_version_that_there_is_not_takes_one_more_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"tool{number}" for number in range(30)]
    folder = snapshot(tmp_path, conda_forge=[python(), *map(record, names)])
    counted = _counting(monkeypatch)
    listed = ", ".join([*names[1:], "tool0 <1"])
    problem = refusal(f'name: t\npython: "3.13"\ndependencies: [{listed}]\n', folder)
    assert (problem.hint or "").endswith("line 3: no build matches `tool0 <1`; the channel has tool0 1.0")
    assert len(counted) == 2


def test_one_conflict_on_many_variants_is_looked_into_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = snapshot(tmp_path, conda_forge=[python(), record("tool")])
    counted = _counting(monkeypatch)
    variants = ", ".join(f"v{number}: {{}}" for number in range(9))
    with pytest.raises(Unsolvable) as error:
        resolved(f'name: t\npython: "3.13"\ndependencies: [tool >=2]\nvariants: {{{variants}}}\n', folder)
    first, *others = error.value.problems
    assert first.message == "nothing answers the spec on linux-64 (variant v0)"
    assert [problem.message for problem in others] == [
        f"nothing answers the spec on linux-64 (variant v{number}): the same conflict as on linux-64 (variant v0)"
        for number in range(1, 9)
    ]
    assert len(counted) == 10


def _counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One item for each question that the solver is really asked."""
    counted: list[int] = []
    real = rattler.solve_with_sparse_repodata

    def asked(*arguments: Any, **options: Any) -> Any:
        counted.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(rattler, "solve_with_sparse_repodata", asked)
    return counted


def test_a_gpu_pin_of_another_package_is_not_told_as_a_lack_of_gpu_builds(tmp_path: Path) -> None:
    """PyTorch's GPU builds are fine; the pin asks for an older CUDA, and for CPU builds no CUDA is held."""
    old = record("lightgbm", "4.0", "cuda118_0", ["cuda-version >=11.8,<12"])
    folder = snapshot(tmp_path, conda_forge=gpu_channel(old, cuda_version("11.8"), *pytorch("2.9.1", cuda=None)))
    text = 'name: t\npython: "3.13"\npytorch: "2.9"\ncuda: "12.1"\ndependencies: ["lightgbm * cuda*"]\n'
    problem = refusal(text, folder)
    assert problem.message == "nothing answers the spec on linux-64"
    assert "line 5 excludes the candidates: `lightgbm * cuda*`; without it, it solves" in (problem.hint or "")
    assert (problem.hint or "").endswith("with `cuda: none` it solves too: CPU builds are not taken silently")
