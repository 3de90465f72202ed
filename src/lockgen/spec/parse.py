"""From the text of a spec to its value: every problem of the file at once, each with its place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lockgen.errors import LockgenError, Problem, SpecError, Where, error_from
from lockgen.knowledge import tables
from lockgen.spec.idioms import Note, Rewriter
from lockgen.spec.model import Overlay, Settings, SpecModel, masked
from lockgen.spec.source import Entry, Node, closest, merge, read

Reading = Callable[[Path], bytes]
_KINDS = {
    "string_type": "text",
    "list_type": "a list, such as `[a, b]`",
    "dict_type": "a mapping of `key: value` lines",
    "model_type": "a mapping of `key: value` lines",
    "model_attributes_type": "a mapping of `key: value` lines",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "bool_parsing": "`true` or `false`",
    "bool_type": "`true` or `false`",
}
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


def load(path: Path, reading: Reading = Path.read_bytes) -> Spec:
    """
    Read a spec from disk, with the files that it extends and the extras beside it.

    Raises:
        SpecError: with every problem of the file, each with its place.
    """
    root = _extended(path, reading, ())
    rewriter = Rewriter()
    root = rewriter.spec(root)
    model, problems = _validated(SpecModel, root)
    error_from(SpecError, _sorted([*rewriter.problems, *problems]))
    assert isinstance(model, SpecModel)
    overlays = _variants(model, root)
    targets = [_target(root, overlays, variant, platform, path, reading) for variant in overlays for platform in sorted(set(model.platforms))]
    error_from(SpecError, _sorted({str(p): p for _, found in targets for p in found}.values()))
    return Spec(
        name=model.name,
        description=model.description,
        file=str(path),
        targets=tuple(target for target, _ in targets if target),
        notes=tuple(rewriter.notes),
    )


def _bytes(path: Path, reading: Reading, asked_at: Where | None) -> bytes:
    try:
        return reading(path)
    except FileNotFoundError:
        hint = None if asked_at else "to start one, run `lockgen init`"
        raise SpecError(Problem(message=f"no such file: {path}", where=asked_at, hint=hint)) from None
    except IsADirectoryError:
        raise SpecError(Problem(message=f"a folder, not a spec: {path}", where=asked_at)) from None
    except OSError as error:
        raise SpecError(Problem(message=f"cannot read {path}: {error.strerror}", where=asked_at)) from None


def _extended(path: Path, reading: Reading, above: tuple[Path, ...], asked_at: Where | None = None) -> Node:
    """The file's own keys over those of the files it extends; each file is read as a spec of its own."""
    if path in above:
        chain = " → ".join(str(one) for one in (*above[above.index(path) :], path))
        raise SpecError(Problem(message=f"specs extend each other in a circle: {chain}", where=asked_at))
    own = read(_bytes(path, reading, asked_at), str(path))
    bases = own.get("extends")
    if bases is None or not isinstance(bases.value, tuple):
        return own
    merged: Node | None = None
    for item in bases.value:
        if isinstance(item.value, str):
            base = _extended(_beside(path, item.value), reading, (*above, path), item.where).without("extends")
            merged = merge(merged, base) if merged else base
    return merge(merged, own) if merged else own


def _beside(path: Path, name: str) -> Path:
    """A path written in a spec, without `..` and `.` where they can be resolved by their text."""
    joined = path.parent / name
    parts: list[str] = []
    for part in joined.parts:
        if part == ".." and parts and parts[-1] not in ("..", joined.anchor):
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts)


def _variants(model: SpecModel, root: Node) -> dict[str | None, Node | None]:
    """The overlays by name; one without a name where the spec has no variants."""
    written = root.get("variants")
    overlays: dict[str | None, Node | None] = {name: written.get(name) if written else None for name in model.variants}
    matrix = root.get("matrix")
    axes = [
        [(key, item) for item in node.value]
        for key in ("python", "pytorch", "cuda")
        if matrix and (node := matrix.get(key)) and isinstance(node.value, tuple) and node.value
    ]
    for choice in itertools.product(*axes) if axes else ():
        name = "-".join(_variant_name(key, str(item.value)) for key, item in choice)
        if matrix is None or name in overlays or not name:
            where = root.place(["matrix"], of_key=True)
            raise SpecError(Problem(message=f"two variants have one name: `{name}`", where=where))
        overlays[name] = matrix.with_entries({key: Entry(item.where, item) for key, item in choice})
    if "default" in overlays:
        where = root.place(["variants", "default"], of_key=True)
        raise SpecError(Problem(message="`default` is not free as a variant's name", where=where))
    return dict(sorted(overlays.items(), key=lambda pair: str(pair[0]))) or {None: None}


def _variant_name(key: str, value: str) -> str:
    """`python` 3.12 → `py312`, `cuda` 12.6 → `cuda126`, `cuda` none → `cpu`."""
    if key == "cuda" and value.lower() == "none":
        return "cpu"
    digits = "".join(character for character in value if character.isalnum())
    return {"python": "py", "pytorch": "torch", "cuda": "cuda"}[key] + digits


def _target(
    root: Node, overlays: Mapping[str | None, Node | None], variant: str | None, platform: str, path: Path, reading: Reading
) -> tuple[Target | None, list[Problem]]:
    node = root
    overlay = overlays[variant]
    for one in (overlay, (root.get("platform") or root).get(platform)):
        if one is not None and one.entries():
            node = merge(node, one)
    node = node.with_entries({key: entry for key, entry in node.entries().items() if key in _SETTINGS})
    settings, problems = _validated(Settings, node)
    if settings is None:
        return None, problems
    extras: list[tables.Extra] = []
    for position, use in enumerate(settings.extras):
        where = node.place(["extras", position, "name"])
        try:
            extras.append(_extra(use.name, path, reading, where))
        except LockgenError as error:
            problems += error.problems
    return Target(variant=variant, platform=platform, settings=settings, extras=tuple(extras), node=node), problems


def _extra(name: str, path: Path, reading: Reading, where: Where) -> tables.Extra:
    """An extra of the people's own, in `extras/` beside the spec, goes before one of ours."""
    own = path.parent / "extras" / f"{name}.toml"
    if "/" not in name and "\\" not in name:
        try:
            return tables.load_extra(reading(own).decode(), str(own))
        except UnicodeDecodeError:
            raise SpecError(Problem(message="the file is not UTF-8", where=Where(file=str(own), line=1, column=1))) from None
        except OSError:
            found = tables.extra(name)
            if found is not None:
                return found
    known = tables.extra_names()
    hint = closest(name, known) or f"known: {', '.join(known)}; one of your own is a file `extras/{name}.toml` beside the spec"
    raise SpecError(Problem(message=f"unknown extra: `{name}`", where=where, hint=hint))


def _sorted(problems: Any) -> list[Problem]:
    def order(problem: Problem) -> tuple[str, int, int]:
        where = problem.where
        return (where.file, where.line, where.column) if where else ("", 0, 0)

    return sorted(problems, key=order)


def _validated(kind: type[Settings], node: Node) -> tuple[Settings | None, list[Problem]]:
    try:
        return kind.model_validate(node.plain()), []
    except ValidationError as error:
        return None, [_problem(node, kind, dict(one)) for one in error.errors(include_url=False)]


def _problem(node: Node, kind: type[Settings], error: dict[str, Any]) -> Problem:
    """One of pydantic's errors, in our words and at the place in the file."""
    path = [part for part in error["loc"] if part != "[key]"]
    of_key = error["type"] == "extra_forbidden" or "[key]" in error["loc"]
    where = node.place(path, of_key=of_key)
    where = Where(file=where.file, line=where.line, column=where.column, text=masked(where.text), width=where.width)
    message, hint = _words(error, path, kind)
    return Problem(message=message, where=where, hint=hint)


def _words(error: dict[str, Any], path: list[str | int], kind: type[Settings]) -> tuple[str, str | None]:
    key = str(path[-1]) if path else ""
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
    what, found = error["type"], error.get("input")
    if what == "lockgen":
        return error["ctx"]["message"], error["ctx"]["hint"]
    if what == "extra_forbidden":
        return f"unknown key `{key}`", _unknown_key_hint(key, path[:-1], kind)
    if what == "missing":
        return f"missing key `{key}`", f"add a line `{key}: …`"
    if what in ("too_short", "list_too_short"):
        return f"`{name}` is empty", "leave the key out to get the default"
    if what == "literal_error":
        return f"`{name}` cannot be `{found}`", f"expected {error['ctx']['expected']}".replace("'", "`")
    if what == "string_pattern_mismatch":
        return f"`{found}` is not right for `{name}`", f"it has to match `{error['ctx']['pattern']}`"
    if what in _KINDS:
        return f"`{name}` is {_seen(found)}, expected {_KINDS[what]}", _kind_hint(what, found)
    return f"`{name}`: {error['msg'][:1].lower()}{error['msg'][1:]}, found `{found}`", None


def _seen(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return {"list": "a list", "dict": "a mapping"}.get(type(value).__name__, f"`{value}`")


def _kind_hint(what: str, found: Any) -> str | None:
    if what == "string_type" and isinstance(found, bool):
        return 'YAML reads yes, no, on and off as true and false: put the word in quotes'
    if what == "list_type" and isinstance(found, str):
        return f"write `[{found}]`"
    return None


def _unknown_key_hint(key: str, above: list[str | int], kind: type[Settings]) -> str:
    """The nearest key of the same mapping; or that the key belongs to the top of the file."""
    known = _keys_at(above, kind)
    near = closest(key, known)
    if near:
        return near
    top = _keys_at([], SpecModel)
    if above and key in top:
        return f"`{key}` can be set only at the top of the spec"
    if key == "pip":
        return "lockgen locks conda packages: look for the package's conda name and list it in `dependencies`"
    return f"known keys: {', '.join(sorted(known))}"


def _keys_at(path: list[str | int], kind: type[Any]) -> list[str]:
    """The keys that a mapping at a path may have."""
    model: Any = kind
    for part in path:
        if not isinstance(part, str) or model is None:
            continue
        if model is not None and issubclass(model, Settings) and part in ("platform", "variants"):
            model = Overlay
            continue
        field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        model = _model_in(field.annotation) if field else model
    fields = model.model_fields.items() if model else ()
    keys = [field.alias or name for name, field in fields]
    return [*keys, "pytorch-cuda"] if "cuda" in keys else keys


def _model_in(annotation: Any) -> Any:
    """The model inside `Annotated[Cuda, …] | None` or `list[Extra]`."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _model_in(part)
        if found is not None:
            return found
    return None
