"""What lockgen itself puts into an image: activation, entry point, services and how they are asked for their health."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from posixpath import basename, dirname

from jinja2 import Environment, PackageLoader, StrictUndefined

from lockgen.image.model import Folder, Health, ImageFile
from lockgen.knowledge.extra import Service
from lockgen.knowledge.program import Program, program, programs
from lockgen.lock.model import CudaFacts

HERE = "/opt/lockgen"
ACTIVATE = f"{HERE}/activate.sh"
ENTRYPOINT = f"{HERE}/entrypoint"
SERVE = f"{HERE}/serve"
HEALTH = f"{HERE}/health"
SCRIPTS = f"{HERE}/services"
SUPERVISOR_CONFIGURATION = f"{HERE}/supervisord.conf"
SSHD_CONFIGURATION = f"{HERE}/sshd_config"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Files and folders beside the packages, and how a container starts."""

    files: tuple[ImageFile, ...]
    """Sorted by path."""
    folders: tuple[Folder, ...]
    """Sorted by path."""
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    health: Health | None
    ports: tuple[int, ...]
    """What the services listen on for others, sorted."""
    env: tuple[tuple[str, str], ...]
    distribution: tuple[str, ...]
    """Packages of the base's distribution to install, sorted."""
    needs: tuple[str, ...]
    """Paths without which a service cannot start, sorted."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a program comes from."""

    path: str
    """Absolute."""
    package: str | None
    """Of the base's distribution; None: it is in the lock."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A service that the image can start, and its program."""

    service: Service
    source: _Source


def contents(
    *,
    packages: frozenset[str],
    services: Sequence[Service],
    prefix: str,
    user: str,
    login: str,
    home: str,
    workdir: str,
    cuda: CudaFacts | None,
    family: str,
) -> Contents:
    """
    The files, folders and settings that make an image of an environment.

    Args:
        packages: names in the lock.
        services: in any order; one whose program neither the lock nor the base's distribution has is left out, said
            in a note.
        prefix: where the environment lies.
        user: ids of the image's user, `1000:1000`.
        login: the user's name.
        cuda: None for a lock without CUDA: then nobody is told that a GPU is missing.
        family: the base's distribution, `debian`.
    """
    found = {service.name: _source(service.command[0], packages, prefix, family) for service in services}
    running = [_Running(one, source) for one in _ordered(services) if (source := found[one.name])]
    supervisor = _by_role("supervisor", packages, prefix, family) if len(running) > 1 else None
    init = _by_role("init", packages, prefix, family) if running else None
    sources = [*(one.source for one in running), *([supervisor] if supervisor else [])]
    system = [one for one in sources if one.package]
    asked = [*system, *([init] if init and init.package else [])]
    return Contents(
        files=_files(running, supervisor, prefix, workdir, cuda),
        folders=_folders(running, home, workdir),
        entrypoint=(ENTRYPOINT,),
        command=(SERVE,) if running else ("python",) if "python" in packages else ("bash",),
        health=Health(command=(HEALTH,)) if running else None,
        ports=tuple(sorted({one.service.port for one in running if not one.service.bind})),
        env=(("ENV", ACTIVATE), ("BASH_ENV", ACTIVATE), *((("SHELL", "/bin/bash"),) if running else ())),
        distribution=tuple(sorted({one.package for one in asked if one.package})),
        needs=tuple(sorted({one.path for one in system})),
        notes=_notes(running, [one for one in _ordered(services) if not found[one.name]], asked, family, user),
    )


def _ordered(services: Sequence[Service]) -> list[Service]:
    """By name, each once."""
    return sorted({one.name: one for one in services}.values(), key=lambda one: one.name)


def _source(name: str, packages: frozenset[str], prefix: str, family: str) -> _Source | None:
    """Where a program comes from: the lock first; one that is not known is in the environment, by its author's word."""
    known = program(name)
    if known is None:
        return _Source(name if name.startswith("/") else f"{prefix}/bin/{name}", None)
    return _of(known, packages, prefix, family)


def _by_role(role: str, packages: frozenset[str], prefix: str, family: str) -> _Source | None:
    """The first of the programs with a role that the lock has, else the first that the base's distribution has."""
    found = [_of(one, packages, prefix, family) for one in programs() if one.role == role]
    there = [one for one in found if one]
    return next((one for one in there if one.package is None), there[0] if there else None)


def _of(known: Program, packages: frozenset[str], prefix: str, family: str) -> _Source | None:
    if known.conda in packages:
        return _Source(f"{prefix}/{known.path}", None)
    if known.system and family in known.system.families:
        return _Source(known.system.path, known.system.package)
    return None


def _files(
    running: Sequence[_Running], supervisor: _Source | None, prefix: str, workdir: str, cuda: CudaFacts | None
) -> tuple[ImageFile, ...]:
    files = [
        ImageFile(path=ACTIVATE, text=_activate(prefix)),
        ImageFile(path="/etc/profile.d/lockgen.sh", text=_render("profile.sh", activate=ACTIVATE)),
        ImageFile(path="/etc/bash.bashrc", text=_render("bash.bashrc", activate=ACTIVATE)),
        ImageFile(path=ENTRYPOINT, text=_entrypoint(prefix, workdir, cuda), mode=0o755),
    ]
    if running:
        services = [one.service for one in running]
        values = {"services": services, "scripts": SCRIPTS, "configuration": SUPERVISOR_CONFIGURATION}
        files += [_script(one, prefix) for one in running]
        files += [
            ImageFile(path=SERVE, text=_serve(services, supervisor), mode=0o755),
            ImageFile(path=HEALTH, text=_render("health", services=services, serve=SERVE), mode=0o755),
        ]
        if len(running) > 1:
            files.append(ImageFile(path=SUPERVISOR_CONFIGURATION, text=_render("supervisord.conf", **values)))
        files += [
            ImageFile(path=SSHD_CONFIGURATION, text=_render("sshd_config", scripts=SCRIPTS, service=one))
            for one in services
            if one.command[0] == "sshd"
        ]
    return tuple(sorted(files, key=lambda one: one.path))


def _activate(prefix: str) -> str:
    return _render(
        "activate.sh", prefix=prefix, bin=f"{prefix}/bin", environment=basename(prefix), python=f"{prefix}/bin/python"
    )


def _entrypoint(prefix: str, workdir: str, cuda: CudaFacts | None) -> str:
    inits = [one for one in programs() if one.role == "init"]
    paths = [f"{prefix}/{one.path}" for one in inits] + [one.system.path for one in inits if one.system]
    driver = cuda.min_driver if cuda and cuda.min_driver[:1].isdigit() else None
    needed = f"driver {driver} or newer" if driver else "a driver for it"
    toolkit = f"CUDA {cuda.locked} of this image needs {needed}" if cuda else ""
    return _render(
        "entrypoint",
        activate=ACTIVATE,
        workdir=workdir,
        inits=paths,
        cuda=cuda,
        min_driver=driver,
        no_gpu=f"no GPU is visible: start the container with --gpus all; {toolkit}",
        too_old=f"{toolkit}; update the driver of the host",
    )


def _serve(services: Sequence[Service], supervisor: _Source | None) -> str:
    return _render(
        "serve",
        services=services,
        supervisor=supervisor.path if supervisor else None,
        configuration=SUPERVISOR_CONFIGURATION,
        scripts=SCRIPTS,
    )


def _script(running: _Running, prefix: str) -> ImageFile:
    """The script that becomes a service; a program that needs more than its command has a template of its name."""
    service, source = running.service, running.source
    own = service.command[0] in ("sshd", "code-server")
    text = _render(
        service.command[0] if own else "service",
        service=service,
        command=shlex.join([source.path, *service.command[1:]]),
        configuration=SSHD_CONFIGURATION,
        program_folder=dirname(source.path),
        set_env=_set_env(prefix),
    )
    return ImageFile(path=f"{SCRIPTS}/{service.name}", text=text, mode=0o755)


def _set_env(prefix: str) -> str:
    """Variables of every session, as sshd reads them: each in double quotes."""
    values = {
        "PATH": f"{prefix}/bin:{_SYSTEM_PATH}",
        "CONDA_PREFIX": prefix,
        "ENV": ACTIVATE,
        "BASH_ENV": ACTIVATE,
    }
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in values.items()}
    return " ".join(f'"{name}={value}"' for name, value in escaped.items())


def _folders(running: Sequence[_Running], home: str, workdir: str) -> tuple[Folder, ...]:
    """Those of the user; a volume at one that exists takes over its owner."""
    ssh = any(one.service.command[0] == "sshd" for one in running)
    private = [Folder(path=f"{home}/{name}", mode=0o700) for name in (".ssh", ".ssh-host")] if ssh else []
    folders = {one.path: one for one in [*private, Folder(path=home), Folder(path=workdir)]}
    return tuple(sorted(folders.values(), key=lambda one: one.path))


def _notes(
    running: Sequence[_Running], missing: Sequence[Service], asked: Sequence[_Source], family: str, user: str
) -> tuple[str, ...]:
    left_out = [
        f"service `{one.name}` is left out: `{one.command[0]}` is neither in the lock nor in {family}"
        for one in missing
    ]
    system = sorted({one.package for one in asked if one.package})
    packages = [f"from the base's distribution, not from the lock: {', '.join(system)}"] if system else []
    local = [
        f"service `{one.service.name}` listens on 127.0.0.1:{one.service.port} unless `{one.service.bind}` is set"
        for one in running
        if one.service.bind
    ]
    careful = ", ".join(f"`{one.service.name}`" for one in running if program(one.service.command[0]))
    root = [f"the image's user is root, and these do not run as root: {careful}"] if careful and _is_root(user) else []
    return (*left_out, *packages, *local, *root)


def _is_root(user: str) -> bool:
    return user.partition(":")[0] in ("0", "root")


def _render(name: str, **values: object) -> str:
    return _templates().get_template(f"{name}.j2").render(values)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("lockgen", "image/templates/contents"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["q"] = shlex.quote
    return environment
