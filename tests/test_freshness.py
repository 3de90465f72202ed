"""Whether a lock still answers its spec, and the words for every difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake_channel import cuda_version, gpu_channel, planned, python, pytorch, record, resolved, snapshot

from lockgen.lock.codecs.conda_lock_v1 import CODEC
from lockgen.lock.freshness import changes
from lockgen.lock.model import Lock

GPU = 'name: t\npython: "3.13"\npytorch: "2.9"\ncuda: "12.1"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = gpu_channel(
        record("tool"), record("other"), record("python", "3.13.1", subdir="osx-arm64"), python("3.12.9"),
        *pytorch("2.9.1", cuda="12.9", python="3.12"), cuda_version("12.6"),
    )  # fmt: skip
    return snapshot(tmp_path_factory.mktemp("snapshot"), conda_forge=records, nvidia=[])


def differences(text: str, locks: tuple[Lock, ...]) -> tuple[str, ...]:
    asked = {(one.target.variant, one.request.platform): one.request for one in planned(text).planned}
    return changes(asked, locks)


def after(folder: Path, new: str, old: str = GPU) -> tuple[str, ...]:
    """What is said about a lock of an old spec, written and read again, once the spec is new."""
    locks = resolved(old, folder)
    ((name, text),) = [pair for pair in CODEC.dump(locks).items() if pair[0] == "conda-lock.yml"]
    assert CODEC.load is not None
    return differences(new, CODEC.load(text, name))


def test_nothing_is_said_of_a_lock_that_is_current(folder: Path) -> None:
    assert after(folder, GPU) == ()
    assert after(folder, "".join(sorted(GPU.splitlines(keepends=True))) + "# a comment\n") == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('python: "3.12"', "`python` changed: `python 3.13.*` → `python 3.12.*`"),
        ('pytorch: "2.9.1"', "`pytorch` changed: `pytorch 2.9.* cuda*` → `pytorch ==2.9.1 cuda*`"),
        ('pytorch: ">=2.9"', "`pytorch` changed: `pytorch 2.9.* cuda*` → `pytorch >=2.9 cuda*`"),
    ],
)
def test_a_changed_version_is_named(folder: Path, line: str, said: str) -> None:
    key = line.split(":")[0]
    new = "".join(f"{line}\n" if one.startswith(f"{key}:") else one for one in GPU.splitlines(keepends=True))
    assert after(folder, new) == (f"linux-64: {said}",)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("dependencies: [tool]\n", "`dependencies` now asks for `tool`"),
        ("constraints: [tool <3]\n", "constraint `constraints` now asks for `tool <3`"),
        ("channels: [conda-forge, nvidia]\n", "`channels` changed: https://conda.anaconda.org/conda-forge → "
         "https://conda.anaconda.org/conda-forge, https://conda.anaconda.org/nvidia"),
        ("channel-priority: disabled\n", "`channel-priority` changed: `strict` → `disabled`"),
        ("as-of: 2026-11-30\n", "`as-of` changed: none → `2026-11-30T23:59:59Z`"),
        ('system: {glibc: "2.34"}\n', "the system changed: __glibc=2.28=0 → __glibc=2.34=0"),
        ('driver: ">=535"\n', "`driver` changed: none → `535`"),
        ("gpus: [H200, T4]\n", "`gpus` changed: none → 7.5, 9.0"),
    ],
)  # fmt: skip
def test_an_added_key_is_named_and_so_is_its_absence(folder: Path, more: str, said: str) -> None:
    found = after(folder, GPU + more)
    assert found == (f"linux-64: {said}",)
    assert len(after(folder, GPU, old=GPU + more)) == 1


def test_what_is_no_longer_asked_for_is_named(folder: Path) -> None:
    assert after(folder, GPU, old=GPU + "dependencies: [tool]\n") == (
        "linux-64: `dependencies` no longer asks for `tool`",
    )


def test_another_dependency_is_not_taken_for_the_old_one_changed(folder: Path) -> None:
    assert after(folder, GPU + "dependencies: [other]\n", old=GPU + "dependencies: [tool]\n") == (
        "linux-64: `dependencies` no longer asks for `tool`",
        "linux-64: `dependencies` now asks for `other`",
    )
    assert after(folder, GPU + "dependencies: [other, tool >=1]\n", old=GPU + "dependencies: [tool]\n") == (
        "linux-64: `dependencies` changed: `tool` → `tool >=1`",
        "linux-64: `dependencies` now asks for `other`",
    )


def test_the_place_of_a_dependency_in_its_list_does_not_matter(folder: Path) -> None:
    old, new = GPU + "dependencies: [tool, other]\n", GPU + "dependencies: [other, tool]\n"
    assert after(folder, new, old=old) == ()


def test_an_extra_that_went_or_came_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "extras").mkdir()
    for name, packages in (("one", ["a"]), ("two", ["tool", "other"])):
        rows = "".join(f'[[package]]\nspec = "{package}"\nreason = "r"\n' for package in packages)
        (tmp_path / "extras" / f"{name}.toml").write_text(f'name = "{name}"\nsummary = "s"\n{rows}')
    channel = snapshot(tmp_path / "snapshot", conda_forge=[python(), record("tool"), record("other"), record("a")])
    small = 'name: t\npython: "3.13"\n'
    locks = resolved(small + "extras: [two]\n", channel)
    assert differences(small, locks) == ("linux-64: extra `two` is no longer asked for (2 packages)",)
    assert differences(small + "extras: [one, two]\n", locks) == ("linux-64: extra `one` is asked for now (1 package)",)


def test_another_cuda_is_named_with_all_that_follows(folder: Path) -> None:
    found = after(folder, GPU.replace("12.1", "12.6"))
    assert found == (
        "linux-64: the system changed: __cuda=12.1=0 → __cuda=12.6=0",
        "linux-64: `cuda` changed: `12.1` → `12.6`",
    )


def test_another_match_is_named(folder: Path) -> None:
    found = after(folder, GPU.replace('"12.1"', '{version: "12.9", match: exact}'), old=GPU.replace("12.1", "12.9"))
    assert "linux-64: `cuda.match` changed: `compatible` → `exact`" in found


def test_no_cuda_is_named(folder: Path) -> None:
    found = after(folder, GPU.replace('"12.1"', "none"))
    assert "linux-64: `cuda` changed: `12.1` → none" in found


def test_an_extra_that_became_optional_is_named(folder: Path) -> None:
    wanted = GPU + "dependencies: [tool]\n"
    (lock,) = resolved(wanted, folder)
    (answer,) = lock.platforms
    optional = tuple(replace(one, optional=one.spec == "tool") for one in answer.request.requirements)
    changed = replace(lock, platforms=(replace(answer, request=replace(answer.request, requirements=optional)),))
    assert differences(wanted, (changed,)) == ("linux-64: `dependencies` changed: `tool` (optional) → `tool`",)


def test_platforms_and_variants_that_come_and_go_are_named(folder: Path) -> None:
    small = 'name: t\npython: "3.13"\n'
    both = small + "platforms: [linux-64, osx-arm64]\n"
    assert after(folder, both, old=small) == ("osx-arm64: in the spec, but not locked",)
    assert after(folder, small, old=both) == ("osx-arm64: locked, but no longer in the spec",)
    assert after(folder, small + "variants: {cpu: {}}\n", old=small) == (
        "linux-64: locked, but no longer in the spec",
        "linux-64, variant cpu: in the spec, but not locked",
    )


def test_a_fact_about_cuda_that_changed_is_named(folder: Path) -> None:
    (lock,) = resolved(GPU, folder)
    (answer,) = lock.platforms
    assert answer.cuda is not None
    believed = replace(answer.cuda, min_driver="450.80.02", capabilities=("7.0",))
    old = replace(lock, platforms=(replace(answer, cuda=believed),))
    assert differences(GPU, (old,)) == (
        "linux-64: a fact about CUDA changed (`min_driver`): `450.80.02` → `525.60.13`",
        "linux-64: a fact about CUDA changed (`capabilities`): 7.0 → 5.0, 6.0, 7.0, 7.5, 8.0, 8.6, 9.0, 10.0, 12.0",
    )


def test_a_lock_without_answers_is_told_as_such() -> None:
    assert differences('name: t\npython: "3.13"\n', ()) == ("linux-64: in the spec, but not locked",)
