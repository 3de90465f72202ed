"""The last layer: lockgen's own files, the folders of the user, and the user's account. Pure."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from lockgen.image.account import group_line, ids, passwd_line
from lockgen.image.model import ImagePlan
from lockgen.image.oci.base import Tree
from lockgen.image.oci.layer import Entry


def entries(plan: ImagePlan, tree: Tree) -> list[Entry]:
    """The plan's files and folders, the user's account, and the folders above them that the base lacks."""
    user, group = ids(plan)
    owner = (int(user), int(group))
    found = {
        tree.real(one.path): Entry(
            name=tree.real(one.path), kind=tarfile.DIRTYPE, mode=one.mode, owner=owner if one.owned else (0, 0)
        )
        for one in plan.folders
    }
    texts = [(one.path, one.text, one.mode, owner if one.owned else (0, 0)) for one in plan.files]
    for path, text, mode, whose in (*texts, *_account(plan, tree)):
        data = text.encode("utf-8", "surrogateescape")
        name = tree.real(path)
        found[name] = Entry(name=name, kind=tarfile.REGTYPE, mode=mode, owner=whose, size=len(data), source=data)
    for name in list(found):
        for parent in map(str, list(PurePosixPath(name).parents)[:-1]):
            if parent not in found and not tree.has(parent):
                found[parent] = Entry(name=parent, kind=tarfile.DIRTYPE, mode=0o755)
    return sorted(found.values(), key=lambda one: one.name.split("/"))


def placed(packages: Iterable[Entry], tree: Tree) -> list[Entry]:
    """
    Entries of packages where the base's links lead: below `/opt`, where that is a link to `var/opt`, in `var/opt`.

    A folder of the base that such a link leads to stays the base's own.
    """
    found = []
    for one in packages:
        name = tree.real(one.name)
        if name == one.name:
            found.append(one)
        elif one.kind != tarfile.DIRTYPE or name not in tree.folders:
            target = tree.real(one.target) if one.kind == tarfile.LNKTYPE else one.target
            found.append(replace(one, name=name, target=target))
    return sorted(found, key=lambda one: one.name.split("/"))


def _account(plan: ImagePlan, tree: Tree) -> Iterator[tuple[str, str, int, tuple[int, int]]]:
    """The base's list of users with the image's one in it, and the list of groups."""
    user, group = ids(plan)
    users = [one for one in tree.texts.get("etc/passwd", "").splitlines() if not _is(one, plan.login, user)]
    groups = [one for one in tree.texts.get("etc/group", "").splitlines() if not _is(one, plan.login, None)]
    if not any(_is(one, None, group) for one in groups):
        groups.append(group_line(plan))
    yield "/etc/passwd", "".join(f"{line}\n" for line in (*users, passwd_line(plan))), 0o644, (0, 0)
    yield "/etc/group", "".join(f"{line}\n" for line in groups), 0o644, (0, 0)


def _is(line: str, name: str | None, number: str | None) -> bool:
    """Whether a line of these files is of a name or a number."""
    fields = line.split(":")
    return fields[0] == name or (number is not None and len(fields) > 2 and fields[2] == number)
