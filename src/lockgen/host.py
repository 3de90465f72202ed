"""What this machine is: driver and CUDA, GPUs, C library, kernel, room. Every reader takes what it reads from."""

from __future__ import annotations

import csv
import io
import os
import platform as python_platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

NVIDIA_SMI = ("nvidia-smi",)
PATIENCE = 10.0
"""Seconds that a driver's tool may take; one that hangs is as good as none."""
_QUERY = ("--query-gpu=name,compute_cap,memory.total,driver_version", "--format=csv,noheader,nounits")
_SUBDIRS = {
    ("Linux", "x86_64"): "linux-64",
    ("Linux", "aarch64"): "linux-aarch64",
    ("Linux", "ppc64le"): "linux-ppc64le",
    ("Darwin", "x86_64"): "osx-64",
    ("Darwin", "arm64"): "osx-arm64",
    ("Windows", "AMD64"): "win-64",
    ("Windows", "ARM64"): "win-arm64",
}
_CONTAINERS = re.compile(r"(docker|kubepods|containerd|libpod|lxc)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU."""

    name: str
    """As the driver calls it: `NVIDIA H200`."""
    capability: str | None
    """`9.0`."""
    memory: int | None
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The NVIDIA driver and its GPUs, or why there are none."""

    driver: str | None = None
    """`570.133.20`."""
    cuda: str | None = None
    """Newest CUDA that the driver supports, by its own word: `12.8`."""
    devices: tuple[Device, ...] = ()
    source: str | None = None
    """`NVML` or `nvidia-smi`."""
    why_none: str | None = None
    """What was tried, where nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Free space for one thing."""

    what: str
    path: str
    free: int
    """Bytes."""
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine. None stands for what it does not have, or does not say."""

    platform: str
    """Subdir: `linux-64`; the two words of the system where conda has no name for it."""
    machine: str
    system: str
    """`Debian GNU/Linux 12 (bookworm)`."""
    kernel: str | None
    """Version of Linux: `6.1.0`."""
    glibc: str | None
    """`2.36`."""
    macos: str | None
    gpus: Gpus
    wsl: str | None
    """`WSL2` under Windows."""
    container: str | None
    """Kind of the container that this runs in."""
    cores: int
    memory: int | None
    """Bytes."""
    shm: int | None
    """Size of /dev/shm in bytes."""
    rooms: tuple[Room, ...] = ()


def read_host(rooms: Mapping[str, Path], environ: Mapping[str, str] = os.environ) -> Host:
    """
    This machine.

    Args:
        rooms: name → folder whose disk is looked at.
        environ: `CONDA_OVERRIDE_CUDA`, `CONDA_OVERRIDE_GLIBC` and `CONDA_OVERRIDE_OSX` speak for the machine.
    """
    system, machine = python_platform.system(), python_platform.machine()
    return Host(
        platform=_SUBDIRS.get((system, machine), f"{system} {machine}".lower()),
        machine=machine,
        system=system_name(Path("/etc/os-release")),
        kernel=kernel(python_platform.release()) if system == "Linux" else None,
        glibc=environ.get("CONDA_OVERRIDE_GLIBC") or glibc(),
        macos=environ.get("CONDA_OVERRIDE_OSX") or python_platform.mac_ver()[0] or None,
        gpus=read_gpus(),
        wsl=wsl(Path("/proc/version")),
        container=container(Path("/"), environ),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory=memory(Path("/proc/meminfo")),
        shm=shared_memory(Path("/dev/shm")),
        rooms=tuple(room(what, path) for what, path in rooms.items()),
    )


def here() -> str:
    """The subdir of this machine."""
    system, machine = python_platform.system(), python_platform.machine()
    return _SUBDIRS.get((system, machine), f"{system} {machine}".lower())


def virtual_packages(host: Host, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What the machine offers to conda's solver: `name=version=build`, sorted."""
    cuda = environ.get("CONDA_OVERRIDE_CUDA", host.gpus.cuda)
    versions = {
        "__unix": None if host.platform.startswith("win") else "0",
        "__win": "0" if host.platform.startswith("win") else None,
        "__linux": host.kernel,
        "__glibc": host.glibc,
        "__osx": host.macos,
        "__cuda": cuda or None,
    }
    return tuple(sorted(f"{name}={version}=0" for name, version in versions.items() if version))


# GPUs


def read_gpus(
    nvml: Callable[[], Any] | None = None, smi: Sequence[str] = NVIDIA_SMI, patience: float = PATIENCE
) -> Gpus:
    """
    The driver and its GPUs by NVML, else by nvidia-smi.

    Args:
        nvml: gives the module `pynvml`, or raises ImportError.
        smi: the command of nvidia-smi, without its options.
        patience: seconds that each may take.
    """
    first = _by_nvml(nvml or _pynvml, patience)
    if first.driver:
        return first
    second = by_nvidia_smi(smi, patience)
    if second.driver:
        return second
    reasons = dict.fromkeys(text for text in (first.why_none, second.why_none) if text)
    return Gpus(why_none="; ".join(reasons))


def _pynvml() -> Any:
    import pynvml  # type: ignore[import-untyped]

    return pynvml


def _by_nvml(module: Callable[[], Any], patience: float) -> Gpus:
    """NVML runs in this process: a thread that hangs in the driver is left behind."""
    found: list[Gpus] = []
    thread = Thread(target=lambda: found.append(_ask_nvml(module)), daemon=True)
    thread.start()
    thread.join(patience)
    return found[0] if found else Gpus(why_none=f"NVML: no answer in {patience:g} s")


def _ask_nvml(module: Callable[[], Any]) -> Gpus:
    try:
        nvml = module()
    except ImportError:
        return Gpus(why_none="NVML: the Python package nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Gpus(why_none=f"NVML: {_plain(error)}")
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        level = nvml.nvmlSystemGetCudaDriverVersion_v2()
        return Gpus(
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda=f"{level // 1000}.{level % 1000 // 10}",
            devices=tuple(_nvml_device(nvml, handle) for handle in handles),
            source="NVML",
        )
    except nvml.NVMLError as error:
        return Gpus(why_none=f"NVML: {_plain(error)}")
    finally:
        nvml.nvmlShutdown()


def _nvml_device(nvml: Any, handle: Any) -> Device:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    try:
        memory_bytes = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:  # a MIG parent or a unified memory says nothing
        memory_bytes = None
    return Device(name=_text(nvml.nvmlDeviceGetName(handle)), capability=f"{major}.{minor}", memory=memory_bytes)


def _plain(error: Exception) -> str:
    return str(error).strip().lower() or type(error).__name__


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def by_nvidia_smi(command: Sequence[str], patience: float = PATIENCE) -> Gpus:
    """What nvidia-smi says; its own words, or the time limit, where it says nothing."""
    try:
        table = _said([*command, *_QUERY], patience)
        banner = _said(list(command), patience)
    except FileNotFoundError:
        return Gpus(why_none="nvidia-smi: not found")
    except subprocess.TimeoutExpired:
        return Gpus(why_none=f"nvidia-smi: no answer in {patience:g} s")
    except (OSError, subprocess.CalledProcessError) as error:
        words = (getattr(error, "stdout", None) or str(error)).strip().splitlines()
        return Gpus(why_none=f"nvidia-smi: {words[0] if words else 'failed'}")
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(table)) if len(row) == 4]
    level = re.search(r"CUDA Version:\s*(\d+\.\d+)", banner)
    driver = re.search(r"Driver Version:\s*(\d+(?:\.\d+)*)", banner)
    if not rows and not driver:
        return Gpus(why_none="nvidia-smi: its answer cannot be read")
    return Gpus(
        driver=rows[0][3] if rows else driver[1] if driver else None,
        cuda=level[1] if level else None,
        devices=tuple(_smi_device(row) for row in rows),
        source="nvidia-smi",
    )


def _smi_device(row: Sequence[str]) -> Device:
    name, capability, mebibytes, _ = row
    return Device(
        name=name,
        capability=capability if re.fullmatch(r"\d+\.\d+", capability) else None,
        memory=int(mebibytes) << 20 if mebibytes.isdigit() else None,
    )


def _said(command: list[str], patience: float) -> str:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=True,
        timeout=patience,
    ).stdout  # fmt: skip


# the system


def glibc() -> str | None:
    """Version of the C library, None where it is not glibc."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") if hasattr(os, "confstr") else None
    except (ValueError, OSError):
        return None
    found = re.fullmatch(r"glibc (\d+\.\d+(?:\.\d+)?)", said or "")
    return found[1] if found else None


def kernel(release: str) -> str | None:
    """The numbers of a kernel's release: `5.15.0` of `5.15.0-1034-aws`."""
    found = re.match(r"\d+(?:\.\d+)+", release)
    return found.group() if found else None


def system_name(os_release: Path) -> str:
    """The pretty name of a Linux; elsewhere what Python calls the system."""
    try:
        found = re.search(r'^PRETTY_NAME="?([^"\n]*)', os_release.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else f"{python_platform.system()} {python_platform.release()}"


def wsl(version: Path) -> str | None:
    """`WSL2` or `WSL1` by the kernel's own version text; None on other systems."""
    text = _read(version).lower()
    if "microsoft" not in text:
        return None
    return "WSL2" if "wsl2" in text or "microsoft-standard" in text else "WSL1"


def container(root: Path, environ: Mapping[str, str]) -> str | None:
    """The kind of container by the marks that each leaves; None outside of one."""
    if (root / ".dockerenv").exists():
        return "Docker"
    if (root / "run/.containerenv").exists():
        return "Podman"
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        return "Apptainer"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    if kind := _read(root / "run/systemd/container").strip() or environ.get("container", ""):
        return kind
    found = _CONTAINERS.search(_read(root / "proc/1/cgroup"))
    return found[1] if found else None


def memory(meminfo: Path) -> int | None:
    """Bytes of memory by the kernel's table."""
    found = re.search(r"^MemTotal:\s*(\d+) kB", _read(meminfo), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def shared_memory(folder: Path) -> int | None:
    """Bytes of the file system that processes share memory through."""
    try:
        return shutil.disk_usage(folder).total
    except OSError:
        return None


def room(what: str, path: Path) -> Room:
    """Free space where a folder is, or will be."""
    there = path.absolute()
    while not there.exists():
        there = there.parent
    usage = shutil.disk_usage(there)
    return Room(what=what, path=str(path), free=usage.free, total=usage.total)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
