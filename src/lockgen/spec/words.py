"""Faults of a spec's values, pydantic's and our own, in our words and at their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from lockgen.errors import Problem, Where, closest
from lockgen.spec.model import Overlay, Settings, SpecModel
from lockgen.spec.secret import has_credential
from lockgen.spec.source import Node, shown

_KINDS = {
    "string_type": "text",
    "list_type": "a list, such as `[a, b]`",
    "dict_type": "a mapping of `key: value` lines",
    "model_type": "a mapping of `key: value` lines",
    "model_attributes_type": "a mapping of `key: value` lines",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_parsing_size": "a smaller number",
    "bool_parsing": "`true` or `false`",
    "bool_type": "`true` or `false`",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
}
_NAMING = ("channels", "dependencies", "constraints")
"""Keys whose text may name a channel without a URL."""
_EXPECTED = {
    ("cuda",): "a version, `none` or a mapping with `version` and `match`",
    ("extras", "*"): "a name or a mapping with `name` and `optional`",
}


def validated(kind: type[Settings], node: Node) -> tuple[Settings | None, list[Problem]]:
    """The node as a model, or what is wrong with it. What has no value is left to `flaws`."""
    try:
        return kind.model_validate(node.plain()), []
    except ValidationError as error:
        found: list[dict[str, Any]] = [dict(one) for one in error.errors(include_url=False)]
        typos = {(*one["loc"][:-1], _meant(one, kind)) for one in found if one["type"] == "extra_forbidden"}
        kept = [one for one in found if one["type"] != "missing" or one["loc"] not in typos]
        return None, [_problem(node, kind, one) for one in kept if one["type"] == "missing" or one["input"] is not None]


def flaws(node: Node, path: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Keys and items without a value, and credentials: wrong wherever they stand."""
    key = next(reversed(path), "")
    if isinstance(node.value, Mapping):
        for name, entry in node.value.items():
            if entry.node.value is None:
                hint = "write a value, or leave the key out"
                yield Problem(message=f"`{shown(name)}` has no value", where=entry.where, hint=hint)
            yield from flaws(entry.node, (*path, name))
    elif isinstance(node.value, tuple):
        for item in node.value:
            if item.value is None:
                hint = "write a value, or leave the item out"
                yield Problem(message=f"an item of `{shown(key)}` has no value", where=item.where, hint=hint)
            yield from flaws(item, path)
    elif isinstance(node.value, str) and has_credential(node.value, names=key in _NAMING):
        owner = "a channel" if key == "channels" else f"`{shown(key)}`"
        yield Problem(
            message=f"a credential in {owner}: `{shown(node.value)}`",
            where=node.where,
            hint="keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`",
        )


def _problem(node: Node, kind: type[Settings], error: dict[str, Any]) -> Problem:
    """One of pydantic's errors, in our words and at the place in the file."""
    path = [part for part in error["loc"] if part != "[key]"]
    of_key = error["type"] == "extra_forbidden" or "[key]" in error["loc"]
    where = node.place(path, of_key=of_key)
    message, hint = _words(error, path, kind, where)
    return Problem(message=message, where=where, hint=hint)


def _words(error: dict[str, Any], path: list[str | int], kind: type[Settings], where: Where) -> tuple[str, str | None]:
    what, found = error["type"], error.get("input")
    key = shown(str(path[-1])) if path else ""
    name = _named(path)
    if what == "lockgen":
        return error["ctx"]["message"], error["ctx"]["hint"]
    if what == "extra_forbidden":
        return f"unknown key `{key}`", _unknown_key_hint(str(path[-1]), path[:-1], kind)
    if what == "missing":
        return f"missing key `{key}`", f"add `{key}: …`"
    if what in ("too_short", "list_too_short"):
        return f"{name} is empty", "leave the key out to get the default"
    if what == "literal_error":
        return f"{name} cannot be `{_plain(found)}`", f"expected {error['ctx']['expected']}".replace("'", "`")
    if what in _KINDS:
        expected = _EXPECTED.get(_shape(path)) or _KINDS[what].format(**error.get("ctx", {}))
        return f"{name} is {_seen(found, where)}, expected {expected}", _kind_hint(what, found, path)
    return f"{name} is {_seen(found, where)}: {error['msg'][:1].lower()}{error['msg'][1:]}", None


def _named(path: list[str | int]) -> str:
    """`python`, or for one of several values: an item of `channels`."""
    name = next((shown(part) for part in reversed(path) if isinstance(part, str)), "")
    return f"an item of `{name}`" if path and isinstance(path[-1], int) else f"`{name}`"


def _shape(path: list[str | int]) -> tuple[str, ...]:
    """The end of a path, an item as `*`: `("extras", "*")`."""
    named = tuple("*" if isinstance(part, int) else part for part in path)
    return named[-2:] if named[-1:] == ("*",) else named[-1:]


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else shown(str(value))


def _seen(value: Any, where: Where) -> str:
    """A value as it was written: `no`, which YAML reads as false."""
    if isinstance(value, bool):
        word = where.text[where.column - 1 : where.column - 1 + where.width]
        return f"`{_plain(value)}`" if word == _plain(value) else f"`{word}`, which YAML reads as {_plain(value)}"
    return {"list": "a list", "dict": "a mapping"}.get(type(value).__name__, f"`{_plain(value)}`")


def _kind_hint(what: str, found: Any, path: list[str | int]) -> str | None:
    if isinstance(found, bool) and what != "list_type":
        return "write `none` for CPU builds" if _shape(path) == ("cuda",) else "put it in quotes if it is text"
    if what == "list_type" and isinstance(found, str):
        return f"write `[{shown(found)}]`"
    if isinstance(found, list) and path in (["python"], ["pytorch"], ["cuda"]):
        return f"several versions? write `matrix: {{{path[-1]}: [{', '.join(_plain(one) for one in found)}]}}`"
    if isinstance(found, dict) and path[:-1] == ["dependencies"] and "pip" in found:
        return _PIP
    return None


_PIP = "lockgen locks conda packages: look for the package's conda name and list it in `dependencies`"


def _meant(error: dict[str, Any], kind: type[Settings]) -> str | None:
    """The key that an unknown key is a slip of."""
    *above, key = error["loc"]
    near = closest(str(key), _keys_at(above, kind))
    return near.split("`")[1] if near else None


def _unknown_key_hint(key: str, above: list[str | int], kind: type[Settings]) -> str:
    """The nearest key of the same mapping; or that the key belongs to the top of the file."""
    known = _keys_at(above, kind)
    near = closest(key, known)
    if above and key in _keys_at([], SpecModel):
        return f"`{key}` can be set only at the top of the spec"
    if near:
        return near
    return _PIP if key == "pip" else f"known keys: {', '.join(sorted(known))}"


def _keys_at(path: list[str | int], kind: type[Any]) -> list[str]:
    """The keys that a mapping at a path may have."""
    model: Any = kind
    for part in path:
        if not isinstance(part, str) or model is None:
            continue
        if issubclass(model, Settings) and part in ("platform", "variants"):
            model = Overlay
            continue
        field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        model = _model_in(field.annotation) if field else model
    fields = model.model_fields.items() if model else ()
    keys = [field.alias or name for name, field in fields]
    return [*keys, "pytorch-cuda"] if "channels" in keys else keys


def _model_in(annotation: Any) -> Any:
    """The model inside `Annotated[Cuda, …] | None` or `list[Extra]`."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part))), None)
