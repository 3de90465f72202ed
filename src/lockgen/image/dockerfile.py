"""A Dockerfile and the files of its build context, from the plans of one image on one or more platforms. Pure text."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from lockgen.errors import Problem
from lockgen.image.account import group_line, ids, passwd_line
from lockgen.image.model import Folder, ImageFile, ImagePlan
from lockgen.image.plan import SOURCES, ImageError
from lockgen.knowledge import tables
from lockgen.lock.codec import suffixed
from lockgen.lock.codecs.explicit import filename as explicit_filename
from lockgen.lock.model import Lock

INSTALLERS = ("micromamba", "pixi", "conda-lock", "lockgen")
"""Each is a template of the build stage; the first is the one that is taken where none is named."""
FOLDER = "image"
OWN = "own"
"""Where the build stage keeps lockgen's own files; no layer of packages has a name without a number or a package."""
_TIME = 315532800
"""1980-01-01: no file is older for those who count from there."""
_PATH = re.compile(r"(/[A-Za-z0-9_.@+-]+)+/?", re.ASCII)
_FORMS = {
    "variant": re.compile(r"[a-z0-9]+(-[a-z0-9]+)*"),
    "user": re.compile(r"[0-9]+:[0-9]+"),
    "login": re.compile(r"[a-z_][a-z0-9_-]*"),
    "layer": re.compile(r"[a-z0-9-]+"),
    "package of the distribution": re.compile(r"[a-z0-9][a-z0-9.+-]*"),
    "variable": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
    "base": re.compile(r"[\w./:-]+(@sha256:[0-9a-f]{64})?", re.ASCII),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """How the Dockerfile goes about it; what comes out does not depend on it."""

    installer: str = INSTALLERS[0]
    context: str = ""
    """Path from the build context to the folder of the files, with a trailing slash; empty where they are the same."""
    version: str | None = None
    """Of lockgen, for the installer of that name."""


def render(lock: Lock, plans: Sequence[ImagePlan], build: Build | None = None) -> dict[str, str]:
    """
    The Dockerfile, the script that splits the environment into layers, the groups, and lockgen's own files.

    Args:
        lock: what the plans were made from.
        plans: one for each Linux platform, at least one; they differ in packages, and perhaps in files.
        build: how it is built.

    Returns:
        Text by path below the lock's folder: `Dockerfile`, `image/groups.json`, `image/files/…`.

    Raises:
        ImageError: a value that a Dockerfile cannot hold.
    """
    build = build or Build()
    for plan in plans:
        _refuse(plan)
    names = {suffixed("Dockerfile", lock): _template().render(_values(lock, plans, build))}
    folder = suffixed(FOLDER, lock)
    names[f"{folder}/stage.py"] = files("lockgen.image").joinpath("payload/stage.py").read_text(encoding="utf-8")
    for plan in plans:
        own = f"{folder}/{plan.architecture}" if len(plans) > 1 else folder
        names[f"{own}/groups.json"] = _groups(plan, _layers(plans))
        names |= {f"{own}/files{file.path}": file.text for file in plan.files}
    return names


def lock_files(lock: Lock, installer: str) -> tuple[str, ...]:
    """The files of a lock that an installer reads, sorted."""
    if installer == "pixi":
        return ("pixi.lock", "pixi.toml")
    if installer == "micromamba":
        return tuple(
            explicit_filename(lock, one.platform) for one in lock.platforms if one.platform.startswith("linux-")
        )
    return (suffixed("conda-lock.yml", lock),)


def _values(lock: Lock, plans: Sequence[ImagePlan], build: Build) -> dict[str, Any]:
    """What the template is filled with."""
    plan = plans[0]
    user, group = ids(plan)
    has_python = all("python" in {name for layer in one.layers for name in layer.packages} for one in plans)
    return {
        "lock_file": suffixed("conda-lock.yml", lock),
        "file": suffixed("Dockerfile", lock),
        "folder": suffixed(FOLDER, lock),
        "tag": lock.name.lower(),
        "base": plan.base.pinned,
        "created": max(one.created for one in plans),
        "several": len(plans) > 1,
        "context": build.context,
        "prefix": plan.prefix,
        "layers": _layers(plans) if has_python else (),
        "own": OWN,
        "time": _TIME,
        "placed": tuple(_placed(plans)),
        "has_files": any(each.folders or each.files for each in plans),
        "owned": tuple((number, parent) for number, parent in enumerate(_parents(plans), start=1)),
        "distribution": sorted({name for one in plans for name in one.distribution}),
        "needs": list(dict.fromkeys(path for one in plans for path in one.needs)),
        "user": plan.user,
        "uid": user,
        "gid": group,
        "login": plan.login,
        "passwd": passwd_line(plan),
        "group": group_line(plan),
        "env": _united(plans, "env"),
        "labels": sorted(_united(plans, "labels")),
        "driver": dict(_united(plans, "labels")).get("io.lockgen.min-driver"),
        "ports": sorted({port for one in plans for port in one.ports}),
        "workdir": plan.workdir,
        "health": plan.health,
        "entrypoint": plan.entrypoint,
        "command": plan.command,
        **_installing(lock, plans, build),
    }


def _installing(lock: Lock, plans: Sequence[ImagePlan], build: Build) -> dict[str, Any]:
    """What the build stage is filled with."""
    known = tables.image(build.installer)
    image = known if known and known.role == "installer" else tables.default_image("base")
    prefix = PurePosixPath(plans[0].prefix)
    return {
        "installer": build.installer,
        "installer_image": image.pinned,
        "packages": image.packages,
        "requirement": f"lockgen=={build.version}" if build.version else "lockgen",
        "environment": lock.environment,
        "prefix_parent": str(prefix.parent),
        "prefix_name": prefix.name,
        "sources": [f"{build.context}{name}" for name in lock_files(lock, build.installer)],
        "architectures": [(one.architecture, explicit_filename(lock, one.platform)) for one in plans],
    }


def _layers(plans: Sequence[ImagePlan]) -> tuple[str, ...]:
    """Names of the layers of all platforms, in an order that agrees with each."""
    after: dict[str, set[str]] = {}
    for plan in plans:
        names = [layer.name for layer in plan.layers]
        for name in names:
            after.setdefault(name, set())
        for before, name in pairwise(names):
            after[name].add(before)
    found: list[str] = []
    while len(found) < len(after):
        free = [name for name in after if name not in found and after[name] <= set(found)]
        found.append(free[0] if free else next(name for name in after if name not in found))
    return tuple(found)


def _groups(plan: ImagePlan, names: Sequence[str]) -> str:
    """Packages by layer, in the order of the layers; a layer that only another platform has is empty."""
    packages = {layer.name: list(layer.packages) for layer in plan.layers}
    rows = [{"name": name, "packages": packages.get(name, [])} for name in names]
    return json.dumps({"layers": rows}, indent=1, ensure_ascii=True) + "\n"


def _united(plans: Sequence[ImagePlan], field: str) -> tuple[tuple[str, str], ...]:
    """The pairs of all platforms; where two differ, the first platform's."""
    found: dict[str, str] = {}
    for plan in plans:
        pairs: tuple[tuple[str, str], ...] = getattr(plan, field)
        found = found | {key: value for key, value in pairs if key not in found}
    return tuple(found.items())


# files and folders: made in the build stage with the right mode, and copied with the right owner


def _placed(plans: Sequence[ImagePlan]) -> Iterator[str]:
    """Commands of the build stage, one for each folder and file."""
    folders = {one.path: one for plan in reversed(plans) for one in plan.folders}
    found = {one.path: one for plan in reversed(plans) for one in plan.files}
    for path in sorted(folders):
        if folders[path].owned:  # once as root's, so that copying it with its owner leaves the folder above as it is
            yield f"install -d /layers/{OWN}/system{path}"
        yield f"install -d -m {folders[path].mode:04o} {_destination(folders[path], plans)}"
    everywhere = set.intersection(*({one.path for one in plan.files} for plan in plans))
    for path in sorted(found):
        command = f"install -D -m {found[path].mode:04o} files{path} {_destination(found[path], plans)}"
        yield command if path in everywhere else f"if [ -e files{path} ]; then {command}; fi"


def _things(plan: ImagePlan) -> tuple[Folder | ImageFile, ...]:
    """What lockgen puts into the image beside the environment."""
    return (*plan.folders, *plan.files)


def _destination(one: Folder | ImageFile, plans: Sequence[ImagePlan]) -> str:
    """Where the build stage puts it: with root's, or below the folder that the topmost of the user's own lies in."""
    if not one.owned:
        return f"/layers/{OWN}/system{one.path}"
    parents = _parents(plans)
    parent = next(each for each in _above(one.path) if each in parents)
    return f"/layers/{OWN}/user-{parents.index(parent) + 1}/{one.path.removeprefix(parent).lstrip('/')}"


def _parents(plans: Sequence[ImagePlan]) -> list[str]:
    """Folders of the base that something of the user lies in, each with a trailing slash, sorted: `/`, `/home/`."""
    owned = {one.path for plan in plans for one in _things(plan) if one.owned}
    own_folders = {f"{one.path}/" for plan in plans for one in plan.folders if one.owned}
    tops = {path for path in owned if not any(above in own_folders for above in _above(path))}
    return sorted({next(iter(_above(path))) for path in tops})


def _above(path: str) -> Iterator[str]:
    """The folders above a path, nearest first, each with a trailing slash."""
    for parent in PurePosixPath(path).parents:
        yield f"{parent}/" if str(parent) != "/" else "/"


# what a Dockerfile cannot hold


def _refuse(plan: ImagePlan) -> None:
    """
    Refuse a plan with a value that would end its line or its word: none comes from a spec, some may from a lock.

    Raises:
        ImageError: with the value.
    """
    if plan.base.reference.startswith(SOURCES):
        message = f"a Dockerfile cannot begin with `{plan.base.reference}`: it takes images of a registry"
        raise ImageError(Problem(message=message, hint="`lockgen image build` takes files and folders"))
    paths = (plan.prefix, plan.home, plan.workdir, *plan.needs, *(one.path for one in _things(plan)))
    words = [
        ("base", plan.base.pinned),
        ("user", plan.user),
        ("login", plan.login),
        *((("variant", plan.variant),) if plan.variant is not None else ()),
        *(("layer", layer.name) for layer in plan.layers),
        *(("package of the distribution", name) for name in plan.distribution),
        *(("variable", name) for name, _ in plan.env),
    ]
    wrong = [f"{kind}: `{text}`" for kind, text in words if not _FORMS[kind].fullmatch(text)]
    wrong += [f"path: `{path}`" for path in paths if not _PATH.fullmatch(path)]
    health = plan.health.command if plan.health else ()
    values = [plan.name, *(text for pair in (*plan.env, *plan.labels) for text in pair)]
    values += [*plan.entrypoint, *plan.command, *health]
    wrong += [f"value of one line: {text!r}" for text in values if _is_broken(text)]
    if wrong:
        raise ImageError(*(Problem(message=f"not fit for a Dockerfile: {each}") for each in wrong))


def _is_broken(text: str) -> bool:
    """Whether a text has a line end, a control character or half a character in it."""
    return any(ord(one) < 32 or one in "\x7f\x85\u2028\u2029" or 0xD800 <= ord(one) < 0xE000 for one in text)


def quoted(text: str) -> str:
    """
    A value in double quotes as Dockerfile's ENV and LABEL read it: backslash, quote and dollar escaped.

    Line ends cannot be written in one; the spec refuses them.
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


def array(words: Sequence[str]) -> str:
    """A command as a JSON array, which no shell reads."""
    return json.dumps(list(words), ensure_ascii=False)


def argument(package: str) -> str:
    """The name of a build argument that pins a package: `pixi-pack==0.7.6` → `PIXI_PACK`."""
    return re.sub(r"[^A-Z0-9]", "_", re.split(r"[=<> ]", package)[0].upper())


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("lockgen", "image/templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"quoted": quoted, "array": array, "argument": argument, "shell": shlex.quote}
    return environment.get_template("Dockerfile.j2")
