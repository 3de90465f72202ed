"""From what a spec says to what is asked of the solver: one request for each variant and platform. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lockgen.channelname import base_url
from lockgen.errors import PlanError, Problem, error_from
from lockgen.knowledge import tables
from lockgen.request import CudaAsk, Request, Requirement
from lockgen.spec.idioms import Note
from lockgen.spec.model import version_spec
from lockgen.spec.parse import Spec, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One request and the part of the spec it comes from."""

    target: Target
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that has to be solved for a spec."""

    name: str
    file: str
    planned: tuple[Planned, ...]
    notes: tuple[Note, ...] = ()


def plan(spec: Spec) -> Plan:
    """
    Turn a spec into requests.

    Raises:
        PlanError: the spec contradicts itself or the facts; every contradiction, with its place.
    """
    problems = {str(problem): problem for target in spec.targets for problem in _contradictions(target)}
    error_from(PlanError, problems.values())
    planned = tuple(Planned(target=target, request=request_for(target)) for target in spec.targets)
    notes = dict.fromkeys(note for target in spec.targets for note in _notes(target))
    return Plan(name=spec.name, file=spec.file, planned=planned, notes=(*spec.notes, *notes))


def request_for(target: Target) -> Request:
    """One platform's request. Nothing in it depends on the machine that asks."""
    settings = target.settings
    folder = Path(target.where("channels").file).parent
    channels = tuple(dict.fromkeys(base_url(channel, folder) for channel in settings.channels))
    provider = tables.provider_for(channels)
    cuda = cuda_ask(target)
    return Request(
        platform=target.platform,
        channels=channels,
        channel_priority=settings.channel_priority,
        provider=provider.name,
        requirements=(*_core(target, provider, cuda), *_extras(target, cuda), *_listed(target, "dependencies")),
        constraints=(*_flavour(target, provider, cuda), *_older_libraries(cuda), *_listed(target, "constraints")),
        virtual_packages=_virtual_packages(target, cuda),
        cutoff=settings.as_of,
        cuda=cuda,
    )


def cuda_ask(target: Target) -> CudaAsk | None:
    """The CUDA asked for, None where CPU builds are: by the spec, or by a platform that has no CUDA."""
    settings = target.settings
    if settings.cuda is None or settings.cuda.version == "none" or not tables.has_cuda(target.platform):
        return None
    capabilities = {gpu.capability for name in settings.gpus if (gpu := tables.gpu(name))}
    return CudaAsk(
        version=settings.cuda.version,
        match=settings.cuda.match,
        gpus=tuple(sorted(capabilities, key=lambda text: [int(part) for part in text.split(".")])),
        driver=settings.driver,
    )


def _core(target: Target, provider: tables.Provider, cuda: CudaAsk | None) -> list[Requirement]:
    """Python, PyTorch in the right flavour, and the toolkit where it is asked for by name."""
    settings = target.settings
    found = []
    if settings.python:
        spec = f"python {version_spec(settings.python)}"
        found.append(Requirement(spec=spec, because=f"python: {settings.python}", key="python"))
    if settings.pytorch:
        build = provider.build_glob("gpu" if cuda else "cpu", target.platform) or ""
        spec = f"pytorch {version_spec(settings.pytorch)} {build}".strip()
        found.append(Requirement(spec=spec, because=f"pytorch: {settings.pytorch}", key="pytorch"))
    if cuda and (cuda.match == "exact" or provider.toolkit_role == "requirement"):
        wanted = f"{cuda.version}.*" if cuda.match == "exact" else same_major(cuda.version)
        because = f"cuda: {cuda.version} ({cuda.match})"
        found.append(Requirement(spec=f"{provider.toolkit_package} {wanted}", because=because, key="cuda"))
    return found


def same_major(cuda: str) -> str:
    """The versions that minor-version compatibility spans: `12.1` → `>=12,<13`."""
    major = int(cuda.split(".")[0])
    return f">={major},<{major + 1}"


def _flavour(target: Target, provider: tables.Provider, cuda: CudaAsk | None) -> list[Requirement]:
    """Constraints that keep every companion of PyTorch in one flavour, and CUDA in one major."""
    if cuda is None:
        build = provider.build_glob("cpu", target.platform)
        if target.settings.pytorch or build is None:
            return []
        return [Requirement(spec=f"pytorch * {build}", because="CPU builds only", key="cuda")]
    because = f"cuda: {cuda.version}"
    found = [
        Requirement(spec=f"{companion.name} * {companion.gpu}", because=f"{because}, GPU builds only", key="cuda")
        for companion in provider.companions
        if companion.gpu and not (companion.name == "pytorch" and target.settings.pytorch)
    ]
    if cuda.match == "compatible" and provider.toolkit_role == "constraint":
        spec = f"{provider.toolkit_package} {same_major(cuda.version)}"
        found.append(Requirement(spec=spec, because=f"{because}, same major", key="cuda"))
    return found


def _older_libraries(cuda: CudaAsk | None) -> list[Requirement]:
    """Libraries that dropped one of the GPUs, held to versions that still run on it."""
    return [
        Requirement(spec=f"{name} <{library.below}", because=f"gpus: {library.reason}", key="gpus")
        for library in tables.gpu_libraries()
        if cuda and library.matters_for(cuda.version) and any(library.drops(capability) for capability in cuda.gpus)
        for name in library.packages
    ]


def _extras(target: Target, cuda: CudaAsk | None) -> list[Requirement]:
    found = []
    for position, (use, extra) in enumerate(zip(target.settings.extras, target.extras, strict=True)):
        for wanted in extra.packages_on(target.platform, cuda=cuda is not None):
            because = f"extra {use.name}: {wanted.reason}"
            key = f"extras.{position}"
            found.append(
                Requirement(spec=wanted.spec, because=because, key=key, optional=use.optional or wanted.optional)
            )
    return found


def _listed(target: Target, key: str) -> list[Requirement]:
    """The match specs of a list, sorted: their order says nothing. The keys keep their places in the file."""
    listed: list[str] = getattr(target.settings, key)
    found = (Requirement(spec=spec, because=f"{key}: {spec}", key=f"{key}.{i}") for i, spec in enumerate(listed))
    return sorted(found, key=lambda one: one.spec)


def _virtual_packages(target: Target, cuda: CudaAsk | None) -> tuple[str, ...]:
    """The oldest system as virtual packages: the spec's own words, else the base image's, else the defaults."""
    settings = target.settings
    system = tables.system(target.platform)
    assert system is not None
    found = {name: f"{version}=0" for name, version in system.versions} | {"__archspec": f"1={system.archspec}"}
    image = tables.image(settings.image.base) if settings.image.base else None
    said = {
        "__glibc": settings.system.glibc or (image.glibc if image else None),
        "__linux": settings.system.linux,
        "__osx": settings.system.macos,
    }
    found |= {name: f"{version}=0" for name, version in said.items() if version and name in found}
    if settings.system.archspec:
        found["__archspec"] = f"1={settings.system.archspec}"
    if cuda:
        found["__cuda"] = f"{_oldest_cuda(cuda, target.platform)}=0"
    return tuple(sorted(f"{name}={rest}" for name, rest in found.items()))


def _oldest_cuda(cuda: CudaAsk, platform: str) -> str:
    """What the oldest machine reports: the CUDA that is asked for, or less where the spec allows an older driver."""
    supported = tables.driver_supports(cuda.driver, platform) if cuda.driver else None
    if supported is None or tables.compare_versions(supported, cuda.version) > 0:
        return cuda.version
    return supported


def _contradictions(target: Target) -> list[Problem]:
    """What cannot hold, whatever the channels have."""
    settings, cuda = target.settings, cuda_ask(target)
    problems: list[Problem] = []
    problems += [
        Problem(
            message=f"`{key}` is set, but no `cuda`",
            where=target.where(key),
            hint='add the CUDA version that the machines\' driver supports, such as `cuda: "12.1"`',
        )
        for key in ("gpus", "driver")
        if getattr(settings, key) and settings.cuda is None
    ]
    problems += _misplaced_gpus(target) if cuda else []
    problems += _impossible_system(target)
    floor = tables.min_driver(cuda.version, target.platform) if cuda else None
    if cuda and floor and settings.driver and not tables.reaches(settings.driver, floor):
        supported = tables.driver_supports(settings.driver, target.platform)
        problems.append(
            Problem(
                message=f"CUDA {cuda.version} needs driver {floor} or newer, but the spec allows {settings.driver}",
                where=target.where("driver"),
                hint=f'driver {settings.driver} runs CUDA {supported}: set `cuda: "{supported}"`'
                if supported
                else None,
            )
        )
    return problems


def _impossible_system(target: Target) -> list[Problem]:
    """A system that the platform, or the image that is built for it, does not have."""
    said, platform = target.settings.system, target.platform
    facts = tables.system(platform)
    assert facts is not None
    name = target.settings.image.base
    image = tables.image(name) if name else None
    problems = []
    if image and said.glibc and facts.version("__glibc") and tables.compare_versions(said.glibc, image.glibc) > 0:
        problems.append(
            Problem(
                message=f"the spec allows packages for glibc {said.glibc}, but `{name}` has glibc {image.glibc}",
                where=target.where("system.glibc"),
                hint="leave out `system.glibc`: the base image's own then holds",
            )
        )
    if said.archspec and tables.is_foreign(said.archspec, platform):
        problems.append(
            Problem(
                message=f"there is no `{said.archspec}` processor in a {platform} machine",
                where=target.where("system.archspec"),
                hint=f"set it for its own platform, below `platform:`; the default here is `{facts.archspec}`",
            )
        )
    if said.macos and facts.macos_from and tables.compare_versions(said.macos, facts.macos_from) < 0:
        problems.append(
            Problem(
                message=f"no {platform} machine has macOS {said.macos}: the first is {facts.macos_from}",
                where=target.where("system.macos"),
                hint=f'write `macos: "{facts.macos_from}"` or a later one',
            )
        )
    return problems


def _misplaced_gpus(target: Target) -> list[Problem]:
    """Jetson modules are part of an Arm machine."""
    return [
        Problem(
            message=f"`{name}` is a Jetson module, there is none in a {target.platform} machine",
            where=target.where(f"gpus.{position}"),
            hint="set `gpus` below `platform: {linux-aarch64: …}`",
        )
        for position, name in enumerate(target.settings.gpus)
        if (gpu := tables.gpu(name)) and gpu.tegra and target.platform != "linux-aarch64"
    ]


def _notes(target: Target) -> list[Note]:
    settings = target.settings
    if settings.cuda is None:
        if tables.has_cuda(target.platform):
            message = "no `cuda` in the spec: CPU builds are locked"
            return [Note(message=message)]
        return []
    if settings.cuda.version != "none" and not tables.has_cuda(target.platform):
        message = f"{target.platform} has no CUDA: CPU builds are locked there"
        return [Note(message=message, where=target.where("cuda"))]
    return [
        Note(message=f"`{key}` says nothing here: `cuda: none` asks for CPU builds", where=target.where(key))
        for key in ("gpus", "driver")
        if getattr(settings, key) and settings.cuda.version == "none"
    ]
