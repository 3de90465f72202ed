"""Old ways of asking for CUDA: understood, said, and never copied blindly."""

from __future__ import annotations

import pytest
from spec_text import here, notes, read, settings

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")


def asked(text: str, variant: str | None = None) -> tuple[str | None, str | None]:
    found = settings(f"name: a\n{text}", variant)
    return found.pytorch, found.cuda.version if found.cuda else None


@pytest.mark.parametrize(
    ("written", "version", "cuda"),
    [
        ("2.9.0+cu121", "2.9.0", "12.1"),
        ("'2.9.0+cu130'", "2.9.0", "13.0"),
        ("2.0.1+cu118", "2.0.1", "11.8"),
        ("2.9+cpu", "2.9", "none"),
        ("==2.9.0+cu121", "2.9.0", "12.1"),
        ("=2.9.0+cu121", "2.9.0", "12.1"),
    ],
)
def test_a_wheels_version_is_read_as_version_and_cuda(written: str, version: str, cuda: str) -> None:
    assert asked(f"pytorch: {written}\n") == (version, cuda)
    plain = written.strip("'")
    assert notes(f"name: a\npytorch: {written}\n") == [
        f"s.yaml:2:10: `{plain}` is how wheels are named: read as pytorch {version} and cuda {cuda}"
    ]


@pytest.mark.parametrize(
    ("written", "cuda"),
    [
        ("pytorch-cuda=12.1", "12.1"),
        ("pytorch-cuda==12.1", "12.1"),
        ("pytorch-cuda 12.1.*", "12.1"),
        ("pytorch-cuda=12.1.*", "12.1"),
        ("cudatoolkit=11.8", "11.8"),
        ("cuda-version=12.9", "12.9"),
    ],
)
def test_a_cuda_package_among_the_dependencies_is_moved(written: str, cuda: str) -> None:
    text = f"name: a\ndependencies: [numpy, {written}, scipy]\n"
    found = settings(text)
    assert found.cuda
    assert (found.cuda.version, found.cuda.match, found.dependencies) == (cuda, "compatible", ["numpy", "scipy"])
    assert notes(text) == [f"s.yaml:2:23: `{written}` in `dependencies` is read as `cuda: {cuda}`"]


def test_what_is_no_version_of_cuda_stays_a_dependency() -> None:
    found = settings("name: a\ndependencies: [pytorch-cuda, cuda-version >=12, cuda-nvcc=12.1]\n")
    assert (found.cuda, found.dependencies) == (None, ["pytorch-cuda", "cuda-version >=12", "cuda-nvcc=12.1"])


@pytest.mark.parametrize(
    "text",
    [
        "pytorch: 2.9.0+cu121\ncuda: 12.1\n",
        "pytorch: 2.9.0+cu121\ncuda: {version: 12.1.0, match: compatible}\n",
        "pytorch: 2.9.0+cu121\npytorch-cuda: 12.1\n",
        "pytorch: 2.9.0+cu121\ndependencies: [pytorch-cuda=12.1]\n",
    ],
)
def test_the_same_answer_twice_is_one_answer(text: str) -> None:
    assert asked(text) == ("2.9.0", "12.1")


def test_cpu_twice_is_one_answer() -> None:
    assert asked("pytorch: 2.9.0+cpu\ncuda: None\n") == ("2.9.0", "none")


def test_exact_stays_exact() -> None:
    found = settings("name: a\npytorch: 2.9.0+cu121\ncuda: {version: 12.1, match: exact}\n")
    assert found.cuda
    assert found.cuda.match == "exact"


def test_a_variant_may_say_it_its_own_way() -> None:
    text = "cuda: 12.1\nvariants: {new: {pytorch: 2.9.0+cu128}, old: {dependencies: [pytorch-cuda=11.8]}, same: {}}\n"
    assert [asked(text, one) for one in ("new", "old", "same")] == [("2.9.0", "12.8"), (None, "11.8"), (None, "12.1")]


def test_a_platform_may_say_it_its_own_way() -> None:
    text = "name: a\ncuda: 12.1\nplatform: {linux-64: {pytorch-cuda: 12.6}}\n"
    found = settings(text)
    assert found.cuda
    assert found.cuda.version == "12.6"


def test_the_place_of_cuda_is_where_it_was_said() -> None:
    (target,) = read("name: a\npytorch: 2.9.0+cu121\n").targets
    assert str(target.where("cuda")) == "s.yaml:2:10"
    (target,) = read("name: a\ndependencies: [numpy, pytorch-cuda=12.1, scipy]\n").targets
    assert str(target.where("cuda")) == "s.yaml:2:23"
    assert str(target.where("dependencies.1")) == "s.yaml:2:42"
