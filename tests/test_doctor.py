"""What a machine is, from data as real machines give it, and what it can do with a lock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from conftest import ROOT
from installing import lockgen
from lock_values import package

from lockgen import host
from lockgen.host import Device, Gpus, Host, virtual_packages
from lockgen.install.host_check import assess, judged
from lockgen.lock.foreign import Part
from lockgen.report import machine, text

BANNER = """\
Mon Nov 30 09:12:44 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
"""
ROWS = "NVIDIA H200, 9.0, 143771, 570.133.20\nNVIDIA H200, 9.0, 143771, 570.133.20\n"
FAILED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)
CHANNEL = "https://conda.anaconda.org/conda-forge"


def smi(folder: Path, script: str) -> tuple[str, ...]:
    """A command that stands for nvidia-smi."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return (str(path),)


def answering(folder: Path, rows: str = ROWS) -> tuple[str, ...]:
    (folder / "banner").write_text(BANNER)
    (folder / "rows").write_text(rows)
    return smi(folder, f"if [ $# -eq 0 ]; then cat {folder}/banner; else cat {folder}/rows; fi")


def no_nvml() -> object:
    raise ImportError


# nvidia-smi


def test_nvidia_smi_is_read(tmp_path: Path) -> None:
    found = host.read_gpus(no_nvml, answering(tmp_path))
    one = Device(name="NVIDIA H200", capability="9.0", memory=143771 << 20)
    assert found == Gpus(driver="570.133.20", cuda="12.8", devices=(one, one), source="nvidia-smi")


def test_a_driver_too_old_for_capabilities_still_names_itself(tmp_path: Path) -> None:
    found = host.read_gpus(no_nvml, answering(tmp_path, "Tesla K80, [N/A], 11441, 470.256.02\n"))
    assert found.devices == (Device(name="Tesla K80", capability=None, memory=11441 << 20),)


def test_a_driver_without_a_gpu(tmp_path: Path) -> None:
    found = host.read_gpus(no_nvml, answering(tmp_path, "No devices were found\n"))
    assert (found.driver, found.cuda, found.devices) == ("570.133.20", "12.8", ())


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (f'echo "{FAILED}"; exit 9', f"nvidia-smi: {FAILED}"),
        ("exec sleep 30", "nvidia-smi: no answer in 0.2 s"),
        ("echo nonsense", "nvidia-smi: its answer cannot be read"),
    ],
)
def test_nvidia_smi_that_does_not_answer_is_an_answer(tmp_path: Path, script: str, why: str) -> None:
    assert host.by_nvidia_smi(smi(tmp_path, script), 0.2) == Gpus(source=None, why_none=why)


def test_no_driver_at_all_says_what_was_tried() -> None:
    found = host.read_gpus(no_nvml, ("no-such-nvidia-smi",))
    assert found.driver is None
    assert found.why_none == "NVML: the Python package nvidia-ml-py is not installed; nvidia-smi: not found"


# NVML: an object with the calls of pynvml, answering as the library does


class NvmlError(Exception):
    pass


def nvml(**calls: object) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "NVMLError": NvmlError,
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
            "nvmlSystemGetDriverVersion": lambda: b"570.133.20",
            "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=150_754_820_096),
            "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
            **calls,
        }
    )


def test_nvml_comes_first() -> None:
    found = host.read_gpus(nvml, ("no-such-nvidia-smi",))
    card = Device(name="NVIDIA H200", capability="9.0", memory=150_754_820_096)
    assert found == Gpus(driver="570.133.20", cuda="12.8", devices=(card,), source="NVML")


def test_nvidia_smi_is_asked_where_nvml_fails(tmp_path: Path) -> None:
    def fails() -> None:
        raise NvmlError("Driver Not Loaded")

    assert host.read_gpus(lambda: nvml(nvmlInit=fails), answering(tmp_path)).source == "nvidia-smi"
    found = host.read_gpus(lambda: nvml(nvmlInit=fails), ("no-such-nvidia-smi",))
    assert found.why_none == "NVML: driver not loaded; nvidia-smi: not found"


def test_nvml_that_hangs_is_given_up(tmp_path: Path) -> None:
    found = host.read_gpus(lambda: nvml(nvmlInit=Event().wait), ("no-such-nvidia-smi",), 0.2)
    assert found.why_none == "NVML: no answer in 0.2 s; nvidia-smi: not found"


# the system


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) (gcc 11.2.0)", "WSL2"),
        ("Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0)", "WSL1"),
        ("Linux version 6.1.0-28-amd64 (debian-kernel@lists.debian.org)", None),
    ],
)
def test_wsl_is_told_from_the_kernels_version(tmp_path: Path, version: str, kind: str | None) -> None:
    (tmp_path / "version").write_text(version)
    assert host.wsl(tmp_path / "version") == kind


def test_containers_are_told_by_their_marks(tmp_path: Path) -> None:
    assert host.container(tmp_path, {}) is None
    assert host.container(tmp_path, {"SINGULARITY_CONTAINER": "/x.sif"}) == "Apptainer"
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/cgroup").write_text("12:pids:/kubepods/burstable/pod1/abc\n")
    assert host.container(tmp_path, {}) == "kubepods"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").touch()
    assert host.container(tmp_path, {}) == "Podman"
    (tmp_path / ".dockerenv").touch()
    assert host.container(tmp_path, {}) == "Docker"


def test_numbers_of_the_system(tmp_path: Path) -> None:
    assert host.kernel("5.15.0-1034-aws") == "5.15.0"
    (tmp_path / "meminfo").write_text("MemTotal:       65843172 kB\nMemFree:  1 kB\n")
    assert host.memory(tmp_path / "meminfo") == 65843172 * 1024
    (tmp_path / "os-release").write_text('ID=ubuntu\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n')
    assert host.system_name(tmp_path / "os-release") == "Ubuntu 24.04.1 LTS"


def test_disk_space_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    room = host.room("cache", tmp_path / "not/yet")
    assert 0 < room.free <= room.total


# verdicts

H200 = Device(name="NVIDIA H200", capability="9.0", memory=143771 << 20)
V100 = Device(name="Tesla V100-SXM2-16GB", capability="7.0", memory=16 << 30)
P100 = Device(name="Tesla P100-PCIE-16GB", capability="6.0", memory=16 << 30)
SERVER = Host(
    platform="linux-64",
    machine="x86_64",
    system="Ubuntu 24.04.1 LTS",
    kernel="6.8.0",
    glibc="2.39",
    macos=None,
    gpus=Gpus(driver="570.133.20", cuda="12.8", devices=(H200,), source="NVML"),
    wsl=None,
    container=None,
    cores=16,
    memory=128 << 30,
    shm=64 << 30,
)


def pytorch(version: str, cuda: str | None, *depends: str) -> Part:
    """A lock of one PyTorch as conda-forge names its builds."""
    tag = f"cuda{cuda.replace('.', '')}" if cuda else "cpu"
    needs = ["__glibc >=2.17,<3.0.a0", *(["__cuda"] if cuda else []), *depends]
    toolkit = (
        package("cuda-version", cuda, "h0_3", subdir="noarch", constrains=(f"__cuda >={cuda.split('.')[0]}",))
        if cuda
        else None
    )
    made = package("pytorch", version, f"{tag}_generic_py313_h0_0", depends=needs)
    return Part(
        environment="gpu" if cuda else "cpu",
        platform="linux-64",
        packages=(*((toolkit,) if toolkit else ()), made),
        channels=(CHANNEL,),
    )


def with_gpus(driver: str, cuda: str, *devices: Device) -> Host:
    return replace(SERVER, gpus=Gpus(driver=driver, cuda=cuda, devices=devices, source="NVML"))


def test_a_lock_that_fits_runs() -> None:
    verdict = assess(pytorch("2.9.1", "12.8"), SERVER)
    assert (verdict.runs, verdict.lacks, verdict.notes) == (True, (), ())


def test_a_driver_of_the_same_major_runs_it_with_a_note() -> None:
    verdict = assess(pytorch("2.9.1", "12.9"), with_gpus("535.183.01", "12.2", V100))
    assert verdict.runs
    assert verdict.notes[0].startswith(
        "CUDA 12.9 runs on this driver, which is for CUDA 12.2, by minor-version compatibility; "
    )


def test_a_driver_of_an_older_major_is_told_the_build_that_would_do() -> None:
    verdict = assess(pytorch("2.10.0", "13.0"), SERVER)
    (lack,) = verdict.lacks
    assert lack.message == "`cuda-version` asks for `__cuda >=13`, this machine has CUDA 12.8"
    assert lack.nearest[-1] == "driver 580 or newer (here: 570.133.20) runs this lock"
    assert lack.nearest[0].startswith("pytorch 2.10.0 was also built for CUDA 12.")


def test_without_a_gpu_the_cpu_environment_of_the_same_lock_is_named() -> None:
    laptop = replace(SERVER, gpus=Gpus(why_none="nvidia-smi: not found"))
    parts = (pytorch("2.9.1", "12.9"), pytorch("2.9.1", None))
    (_, gpu), (_, cpu) = judged(parts, laptop, None, "x.lock")
    assert cpu.runs
    (lack,) = gpu.lacks
    assert lack.message == "`pytorch` asks for `__cuda`, this machine has no NVIDIA driver (nvidia-smi: not found)"
    assert lack.nearest == (
        "environment `cpu` of the same lock runs here",
        "lock it with `cuda: none` in the spec: it then runs on the CPU",
        "an NVIDIA GPU with driver 525.60.13 or newer runs this lock",
    )


def test_a_gpu_without_code_is_told_the_pytorch_that_has_it() -> None:
    verdict = assess(pytorch("2.10.0", "13.0"), with_gpus("580.95.05", "13.0", V100))
    (lack,) = verdict.lacks
    assert lack.message == (
        "`pytorch 2.10.0 cuda130_generic_py313_h0_0` has no code for Tesla V100-SXM2-16GB (compute capability 7.0)"
    )
    assert lack.nearest == (
        'pytorch >=2.7.1,<2.14 for CUDA 12.8 or 12.9 has code for it: lock it with `gpus: ["7.0"]`',
    )


def test_ptx_needs_a_driver_as_new_as_the_toolkit() -> None:
    future = Device(name="Some GPU", capability="12.1", memory=None)
    old = assess(pytorch("2.5.1", "12.6"), with_gpus("535.183.01", "12.2", future))
    assert [lack.message for lack in old.lacks] == [
        "`pytorch 2.5.1 cuda126_generic_py313_h0_0` has only PTX for Some GPU (compute capability 12.1), "
        "which this driver, for CUDA 12.2, cannot compile"
    ]
    new = assess(pytorch("2.5.1", "12.6"), with_gpus("580.95.05", "13.0", future))
    assert new.runs
    assert new.notes == ("Some GPU is reached through PTX: the first run compiles for minutes",)


def test_an_old_c_library_names_the_package_and_the_key() -> None:
    centos = replace(SERVER, glibc="2.17")
    (lack,) = assess(pytorch("2.9.1", "12.8", "__glibc >=2.28,<3.0.a0"), centos).lacks
    assert lack.message == "`pytorch` asks for `__glibc >=2.28,<3.0.a0`, this machine has glibc 2.17"
    assert lack.nearest == ('lock it with `system: {glibc: "2.17"}` in the spec: older builds may do',)


def test_another_platform() -> None:
    (lack,) = assess(pytorch("2.9.1", None), replace(SERVER, platform="linux-aarch64")).lacks
    assert lack.message == "these are packages for linux-64, this machine is linux-aarch64"


def test_cpu_builds_on_a_gpu_machine_are_noted() -> None:
    verdict = assess(pytorch("2.9.1", None), SERVER)
    assert verdict.runs
    assert verdict.notes == ("these are CPU builds: the GPUs here are not used",)


def test_overrides_speak_for_the_machine() -> None:
    assert "__cuda=11.8=0" in virtual_packages(SERVER, {"CONDA_OVERRIDE_CUDA": "11.8"})
    assert not [one for one in virtual_packages(SERVER, {"CONDA_OVERRIDE_CUDA": ""}) if one.startswith("__cuda")]
    assert virtual_packages(SERVER, {}) == ("__cuda=12.8=0", "__glibc=2.39=0", "__linux=6.8.0=0", "__unix=0=0")


# the screen and the command


def test_the_screen_says_it_in_words() -> None:
    console = text.console(stderr=False)
    gpus = replace(SERVER.gpus, devices=(H200, H200))
    docker = replace(SERVER, container="Docker", shm=64 << 20, gpus=gpus)
    with console.capture() as captured:
        console.print(machine.screen(docker, None, ()))
    rows = [line.rstrip() for line in captured.get().splitlines()]
    assert "system    Ubuntu 24.04.1 LTS in Docker" in rows
    assert "driver    570.133.20, for CUDA 12.8 and older (by NVML)" in rows
    assert "GPUs      2 × NVIDIA H200, compute capability 9.0, 150.75 GB" in rows
    assert (
        "/dev/shm  67.1 MB: too small for data loaders with workers; give the container `--shm-size=8g` or `--ipc=host`"
        in rows
    )


def test_this_machine_is_described_as_json() -> None:
    done = lockgen("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["machine"]
    assert found["platform"].split("-")[0] in ("linux", "osx")
    assert {"driver", "cuda", "devices", "source", "why_none"} == found["gpus"].keys()
    assert [room["what"] for room in found["rooms"]] == ["here", "cache"]


def test_the_flagship_is_judged_and_the_exit_code_says_how() -> None:
    lock = ROOT / "envs/pytorch-2.9-nlp"
    done = lockgen("doctor", lock, "--json", CONDA_OVERRIDE_CUDA="12.8")
    (verdict,) = json.loads(done.stdout)["verdicts"]
    assert (verdict["environment"], verdict["platform"], verdict["runs"]) == ("default", "linux-64", True)
    assert done.returncode == 0
    assert lockgen("doctor", lock, CONDA_OVERRIDE_CUDA="").returncode == 1


def test_an_unknown_environment_is_an_error() -> None:
    done = lockgen("doctor", ROOT / "envs/pytorch-2.9-nlp", "-e", "tpu")
    assert done.returncode == 2
    assert "has no environment `tpu`: it has default" in done.stderr
