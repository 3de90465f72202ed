"""From the text of a spec to its value: every problem of the file at once, each with its place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lockgen.errors import Problem, SpecError, Where, error_from
from lockgen.knowledge import tables
from lockgen.spec.files import Files, Reading, first_bytes
from lockgen.spec.idioms import Note
from lockgen.spec.model import Settings, SpecModel
from lockgen.spec.source import Entry, Node, merge, shown
from lockgen.spec.words import flaws, validated

MOST_VARIANTS = 100
MOST_PROBLEMS = 50
_AXES = ("python", "pytorch", "cuda")
_SETTINGS = frozenset(field.alias or name for name, field in Settings.model_fields.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the spec says for one variant on one platform, overlays applied."""

    variant: str | None
    platform: str
    settings: Settings
    extras: tuple[tables.Extra, ...]
    """In the order of `settings.extras`."""
    node: Node

    @property
    def services(self) -> tuple[tables.Service, ...]:
        """What an image of it can run, in the order of the extras; each name once."""
        found: dict[str, tables.Service] = {}
        for service in (one for extra in self.extras for one in extra.services):
            found.setdefault(service.name, service)
        return tuple(found.values())

    def where(self, key: str) -> Where:
        """The place of a dotted key, `extras.0`."""
        return self.node.place(int(part) if part.isdigit() else part for part in key.split("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A spec that was read: one target for each variant and platform."""

    name: str
    description: str | None
    file: str
    targets: tuple[Target, ...]
    notes: tuple[Note, ...] = ()


def load(path: Path, reading: Reading = first_bytes) -> Spec:
    """
    Read a spec from disk, with the files that it extends and the extras beside it.

    Raises:
        SpecError: with every problem of the file, each with its place.
    """
    files = Files(reading=reading)
    root = files.spec(path)
    model, found = validated(SpecModel, root)
    if files.incomplete:
        found = [problem for problem in found if not problem.message.startswith("missing key")]
    for name, where in _extras_in(root):
        files.extra(name, where, path)
    _refuse([*files.problems, *flaws(root), *found])
    assert isinstance(model, SpecModel)
    overlays = _variants(model, root)
    targets = [
        _target(files, path, root, variant, overlays[variant], platform)
        for variant in overlays
        for platform in sorted(set(model.platforms))
    ]
    return Spec(
        name=model.name,
        description=model.description,
        file=str(path),
        targets=tuple(targets),
        notes=(*files.notes, *_unused_platforms(model, root)),
    )


def _refuse(problems: Iterable[Problem]) -> None:
    """Raise all problems in the order of the file; the first one said about a value is enough."""

    def order(problem: Problem) -> tuple[str, int, int]:
        where = problem.where
        return (where.file, where.line, where.column) if where else ("", 0, 0)

    first: dict[object, Problem] = {}
    for problem in problems:
        missing = problem.message if problem.message.startswith("missing key") else ""
        first.setdefault((order(problem), missing), problem)
    found = sorted(first.values(), key=order)
    if len(found) > MOST_PROBLEMS:
        more = len(found) - MOST_PROBLEMS
        found = [
            *found[:MOST_PROBLEMS],
            Problem(message=f"and {more:,} more problems", where=found[MOST_PROBLEMS].where),
        ]
    error_from(SpecError, found)


def _extras_in(root: Node) -> Iterator[tuple[str, Where]]:
    """Every extra that is named: at the top, for a platform, in a variant."""
    groups = [group for name in ("platform", "variants") if (group := root.get(name))]
    for settings in (root, *(entry.node for group in groups for entry in group.entries().values())):
        listed = settings.get("extras")
        for item in listed.value if listed and isinstance(listed.value, tuple) else ():
            name = item.get("name") or item
            if isinstance(name.value, str):
                yield name.value, name.where


def _variants(model: SpecModel, root: Node) -> dict[str | None, Node | None]:
    """The overlays by name; one without a name where the spec has no variants."""
    written = root.get("variants")
    overlays: dict[str | None, Node | None] = {name: written.get(name) if written else None for name in model.variants}
    matrix = root.get("matrix")
    axes = [
        [(key, item) for item in node.value]
        for key in _AXES
        if matrix and (node := matrix.get(key)) and isinstance(node.value, tuple) and node.value
    ]
    count = math.prod(len(axis) for axis in axes) if axes else 0
    if count > MOST_VARIANTS:
        message = f"the matrix makes {count:,} variants, at most {MOST_VARIANTS} are locked"
        raise SpecError(Problem(message=message, where=root.place(["matrix"], of_key=True)))
    problems = []
    for choice in itertools.product(*axes) if matrix and axes else ():
        assert matrix
        name = "-".join(_variant_name(key, str(item.value)) for key, item in choice)
        if name in overlays:
            hint = "each combination of the matrix needs a name that no other variant has"
            where = choice[-1][1].where
            problems.append(Problem(message=f"two variants are named `{shown(name)}`", where=where, hint=hint))
        overlays[name] = matrix.with_entries({key: Entry(item.where, item) for key, item in choice})
    _refuse(problems)
    return dict(sorted(overlays.items(), key=lambda pair: str(pair[0]))) or {None: None}


def _variant_name(key: str, value: str) -> str:
    """`python` 3.12 → `py312`, `cuda` 12.6 → `cuda126`, `cuda` none → `cpu`."""
    if key == "cuda" and value.lower() == "none":
        return "cpu"
    digits = "".join(character for character in value.lower() if character.isalnum())
    return {"python": "py", "pytorch": "torch", "cuda": "cuda"}[key] + digits


def _target(files: Files, path: Path, root: Node, variant: str | None, overlay: Node | None, platform: str) -> Target:
    """The spec with a variant's and a platform's overlays on it."""
    for_platform = root.get("platform")
    node = root
    for one in (overlay, for_platform.get(platform) if for_platform else None):
        node = merge(node, one) if one else node
    node = root.with_entries({key: entry for key, entry in node.entries().items() if key in _SETTINGS})
    settings, problems = validated(Settings, node)
    _refuse(problems)
    assert settings
    names = [(use.name, node.place(["extras", position, "name"])) for position, use in enumerate(settings.extras)]
    extras = [files.extra(name, where, path) for name, where in names]
    return Target(
        variant=variant,
        platform=platform,
        settings=settings,
        extras=tuple(extra for extra in extras if extra),
        node=node,
    )


def _unused_platforms(model: SpecModel, root: Node) -> tuple[Note, ...]:
    return tuple(
        Note(
            message=f"`platform: {name}` has no effect: `platforms` does not list it",
            where=root.place(["platform", name], of_key=True),
        )
        for name in model.platform
        if name not in model.platforms
    )
