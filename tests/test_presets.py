"""The specs in `envs/` on the real channels: what is locked, exactly."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT
from fake_channel import by_name, planned

from lockgen.channels import Channels
from lockgen.lock.codecs.conda_lock_v1 import CODEC
from lockgen.lock.consistency import check
from lockgen.lock.freshness import changes
from lockgen.lock.model import Lock, LockedPackage, PlatformLock
from lockgen.plan import plan
from lockgen.resolve import resolve
from lockgen.spec.parse import load

PRESETS = sorted(path.stem for path in (ROOT / "envs").glob("pytorch-*.yaml"))
"""`local-cpu` needs the channel that is built for it."""


@cache
def locks_of(name: str, folder: Path) -> tuple[Lock, ...]:
    return resolve(plan(load(ROOT / "envs" / f"{name}.yaml")), Channels(snapshot=folder))


def answers(name: str, folder: Path) -> dict[tuple[str | None, str], PlatformLock]:
    return {(lock.variant, one.platform): one for lock in locks_of(name, folder) for one in lock.platforms}


def test_the_presets_are_these() -> None:
    assert PRESETS == [
        "pytorch-2.1-cuda-12.1",
        "pytorch-2.9-nlp",
        "pytorch-2.9-workstation",
        "pytorch-cpu",
        "pytorch-variants",
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_resolves_into_whole_records_of_real_channels(shared_channels: Path, name: str) -> None:
    for answer in answers(name, shared_channels).values():
        assert answer.packages
        names = [package.name for package in answer.packages]
        assert names == sorted(set(names))
        for package in answer.packages:
            assert re.fullmatch(
                r"https://conda\.anaconda\.org/(conda-forge|pytorch|nvidia)/(linux-64|osx-arm64|noarch)/[^/]+\.(conda|tar\.bz2)",
                package.url,
            )
            assert re.fullmatch(r"[0-9a-f]{64}", package.sha256)
            assert re.fullmatch(r"[0-9a-f]{32}", package.md5)
            assert package.size > 0
            assert package.subdir in (answer.platform, "noarch")


@pytest.mark.parametrize("name", PRESETS)
def test_nothing_is_said_of_a_preset_that_was_just_resolved(shared_channels: Path, name: str) -> None:
    """The lock goes through its file first."""
    locks = locks_of(name, shared_channels)
    assert CODEC.load is not None
    read = tuple(lock for filename, text in CODEC.dump(locks).items() for lock in CODEC.load(text, filename))
    asked = plan(load(ROOT / "envs" / f"{name}.yaml")).planned
    assert changes({(one.target.variant, one.request.platform): one.request for one in asked}, read) == ()
    assert {lock.fingerprint() for lock in read} == {lock.fingerprint() for lock in locks}


@pytest.mark.parametrize("name", PRESETS)
def test_two_runs_give_the_same_bytes(shared_channels: Path, name: str) -> None:
    again = resolve(plan(load(ROOT / "envs" / f"{name}.yaml")), Channels(snapshot=shared_channels))
    assert CODEC.dump(again) == CODEC.dump(locks_of(name, shared_channels))


def build(package: LockedPackage) -> str:
    return f"{package.version} {package.build}"


def test_the_flagship(shared_channels: Path) -> None:
    answer = answers("pytorch-2.9-nlp", shared_channels)[None, "linux-64"]
    found = by_name(answer)
    assert build(found["pytorch"]) == "2.9.1 cuda129_mkl_py313_h54d9d63_305"
    assert build(found["libtorch"]).startswith("2.9.1 cuda129_")
    assert build(found["torchvision"]).startswith("0.24")
    assert {found[name].build[:7] for name in ("libtorch", "torchvision", "triton")} == {"cuda129"}
    assert found["cuda-version"].version == "12.9"
    assert found["python"].version.startswith("3.13.")
    assert {"transformers", "tokenizers", "datasets", "accelerate", "safetensors", "tensorboard", "pandas"} <= set(
        found
    )
    assert answer.left_out == ()
    facts = answer.cuda
    assert facts is not None
    assert (facts.asked, facts.locked, facts.min_driver) == ("12.1", "12.9", "525.60.13")
    assert facts.capabilities == ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0")  # cuDNN 9.13 has dropped the older ones
    assert "PTX is not compiled for the GPU at run time: a GPU that only PTX covers fails" in facts.notes
    assert found["libblas"].build.endswith("_mkl")
    assert found["_openmp_mutex"].build.endswith("_llvm")


def test_the_workstation_says_what_it_could_not_have(shared_channels: Path) -> None:
    answer = answers("pytorch-2.9-workstation", shared_channels)[None, "linux-64"]
    found = by_name(answer)
    assert build(found["pytorch"]) == "2.9.1 cuda129_mkl_py313_h54d9d63_305"
    assert {"peft", "bitsandbytes", "jupyterlab", "ipykernel", "openssh", "git", "transformers"} <= set(found)
    assert answer.left_out == (
        "trl: no record in conda-forge for linux-64",
        "deepspeed: no build goes with the rest",
        "flash-attn: no build goes with the rest",
        "tini: no record in conda-forge for linux-64",
        "supervisor: no record in conda-forge for linux-64",
        "tmux: no record in conda-forge for linux-64",
        "htop: no record in conda-forge for linux-64",
    )


def test_exactly_12_1_from_the_pytorch_channel(shared_channels: Path) -> None:
    answer = answers("pytorch-2.1-cuda-12.1", shared_channels)[None, "linux-64"]
    found = by_name(answer)
    assert build(found["pytorch"]) == "2.1.0 py3.10_cuda12.1_cudnn8.9.2_0"
    assert found["pytorch"].channel == "https://conda.anaconda.org/pytorch"
    assert found["pytorch-cuda"].version == "12.1"
    assert found["python"].version.startswith("3.10.")
    facts = answer.cuda
    assert facts is not None
    assert (facts.asked, facts.locked, facts.min_driver) == ("12.1", "12.1", "525.60.13")
    assert facts.notes == ("the CUDA 12.1 toolkit that was asked for; it needs driver 525.60.13 or newer",)


@pytest.mark.parametrize("platform", ["linux-64", "osx-arm64"])
def test_the_cpu_preset_has_nothing_of_a_gpu(shared_channels: Path, platform: str) -> None:
    answer = answers("pytorch-cpu", shared_channels)[None, platform]
    found = by_name(answer)
    assert found["pytorch"].build.startswith("cpu_")
    assert answer.cuda is None
    assert not [one.filename for one in answer.packages if re.search(r"cuda\d|gpu|cudnn|nccl", one.filename)]
    assert "cuda-version" not in found
    assert found["python"].version.startswith("3.12.")


def test_the_variants(shared_channels: Path) -> None:
    found = answers("pytorch-variants", shared_channels)
    assert list(found) == [("cpu", "linux-64"), ("gpu", "linux-64")]
    cpu, gpu = found.values()
    assert by_name(cpu)["pytorch"].build.startswith("cpu_")
    assert by_name(gpu)["pytorch"].build.startswith("cuda129_")
    assert (gpu.cuda and gpu.cuda.asked, gpu.cuda and gpu.cuda.min_driver) == ("12.6", "525.60.13")
    assert gpu.request.cuda is not None
    assert (gpu.request.cuda.gpus, gpu.request.cuda.driver) == (("7.0", "9.0"), "535")


def test_a_date_hides_newer_packages_of_the_real_channel(shared_channels: Path) -> None:
    text = 'name: t\npython: "3.13"\npytorch: ">=2.7"\ncuda: "12.1"\n'

    def version(more: str) -> str:
        (lock,) = resolve(planned(text + more), _channels(shared_channels))
        return by_name(lock.platforms[0])["pytorch"].version

    assert (version(""), version("as-of: 2025-11-01\n")) == ("2.12.0", "2.8.0")


# other specs on the real channels: never a wrong flavour, whatever the combination


@pytest.mark.parametrize("version", ["2.3", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", ">=2.3"])
@pytest.mark.parametrize("cuda", ["none", "12.1"])
def test_every_answer_holds(shared_channels: Path, version: str, cuda: str) -> None:
    text = f'name: t\npython: "3.12"\npytorch: "{version}"\ncuda: "{cuda}"\ndependencies: [numpy]\n'
    (lock,) = resolve(planned(text), _channels(shared_channels))
    (answer,) = lock.platforms
    assert check(answer.request, answer.packages) == ()
    assert by_name(answer)["pytorch"].build.startswith("cpu" if cuda == "none" else "cuda")


@cache
def _channels(folder: Path) -> Channels:
    return Channels(snapshot=folder)
