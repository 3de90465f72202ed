"""The keys of a spec: their types, their defaults and their documentation, in one pydantic model."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from lockgen import matchspec
from lockgen.errors import closest
from lockgen.knowledge import tables
from lockgen.spec.source import shown

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
VARIANT = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_PLAIN_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*(\.\*)?")
_LONGEST_VERSION = 100
_KEY_OF_VIRTUAL = {
    "__glibc": "system.glibc",
    "__linux": "system.linux",
    "__osx": "system.macos",
    "__archspec": "system.archspec",
    "__cuda": "cuda",
}
_SYSTEM_FOLDERS = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys", "usr")
)
_SHARED_FOLDERS = {"home": 2, "opt": 2, "tmp": 2, "var": 3}
"""Folders in which a path of so many parts may be a folder of one's own."""
_DATE = re.compile(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(rf"{_DATE.pattern}([Tt ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}})?([Zz]|[+-][0-9]{{2}}:[0-9]{{2}})?)?")


def _wrong(what: str, value: str | None = None, hint: str | None = None) -> PydanticCustomError:
    """A problem of a value, in our words."""
    message = what if value is None else f"{what}: `{shown(value)}`"
    return PydanticCustomError("lockgen", "{message}", {"message": message, "hint": hint})


def _like(pattern: str, what: str, hint: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Text of one form: checked, told in words, and known to editors."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern.removeprefix("^").removesuffix("$"), text, re.ASCII):
            raise _wrong(f"not {what}", text, hint)
        return text

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": pattern})


def _version_of(package: str, short: str, exact: str, between: str) -> AfterValidator:
    """A version, exact or not, or a range; stays as it was written."""
    hint = f"write `{short}`, exact `{exact}`, or a range such as `{between}`"

    def check(text: str) -> str:
        if len(text) <= _LONGEST_VERSION and _PLAIN_VERSION.fullmatch(text):
            return text
        if "+" in text:
            plain = text.partition("+")[0].lstrip("=<>!~ ") or short
            raise _wrong(
                f"conda has no `+…` versions of {package}", text, f"write `{plain}`; `cuda` is a key of its own"
            )
        ranged = len(text) <= _LONGEST_VERSION and text.isascii() and re.match(r"[<>=!~]", text)
        if not ranged or matchspec.version_flaw(text):
            raise _wrong(f"not a version of {package}", text, hint)
        return text

    return AfterValidator(check)


def version_spec(text: str) -> str:
    """`2.9` → `2.9.*`; `2.9.1` → `==2.9.1`; a range stays."""
    if not _PLAIN_VERSION.fullmatch(text) or text.endswith("*"):
        return text
    return f"=={text}" if text.count(".") >= 2 else f"{text}.*"


def _match_spec(text: str) -> str:
    flaw = matchspec.flaw(text) if text.strip() else "it names no package"
    if flaw:
        raise _wrong(
            f"bad match spec `{shown(text)}`: {shown(flaw.splitlines()[0])}", hint=_match_spec_hint(text, flaw)
        )
    return text


_PACKAGED = "list a package that a channel has; `lockgen channel build` makes a channel of your own from wheels"


def _match_spec_hint(text: str, flaw: str) -> str | None:
    name = matchspec.name_of(text)
    if name.startswith("__"):
        key = _KEY_OF_VIRTUAL.get(name)
        return f"set the key `{key}`" if key else "virtual packages follow from `platforms`, `cuda` and `system`"
    if text.startswith("-"):
        return "that is an option of pip: list each package by its conda name"
    if re.match(r"(git|hg|svn|bzr)\+|\.{0,2}/", text) or re.search(r" @ |\.whl$", text):
        return f"that is pip's way to name a source: {_PACKAGED}"
    if re.match(r"[A-Za-z0-9_.-]+\[[A-Za-z0-9_,-]+\]", text) or "`extras`" in flaw:
        return "conda packages have no extras in brackets: list what the extra needs as packages"
    if "`when`" in flaw:
        return "list what one platform or variant needs under `platform` or `variants`"
    if "bracket key" in flaw:
        return f"the keys are {', '.join(f'`{key}`' for key in matchspec.KEYS)}"
    bare = re.fullmatch(r"(\S+) (\d[\w.]*)( \S+)?", text)
    if bare:
        return f"write `{bare[1]} {bare[2]}.*{bare[3] or ''}`, or `==` before an exact version"
    return "the form is `name`, `name >=1.2,<2` or `name 1.2.* build*`"


def _cuda_version(text: str) -> str:
    exactly = re.fullmatch(r"([0-9]{1,4}\.[0-9]{1,4})[ ,]*\(?exact(?:ly)?\)?", text.strip(), re.IGNORECASE)
    if exactly:
        raise _wrong("not a CUDA version", text, f'write `cuda: {{version: "{exactly[1]}", match: exact}}`')
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}", text):
        raise _wrong("not a CUDA version", text, 'write `"12.1"`, or `none` for CPU builds')
    major, minor = ([*text.split("."), "0"])[:2]
    known = [toolkit.cuda for toolkit in tables.toolkits()]
    if f"{major}.{minor}" not in known:
        raise _wrong("unknown CUDA version", text, f"known: {', '.join(known)}")
    return f"{major}.{minor}"


def _cuda(value: Any) -> Any:
    """`"12.1"` and `none` are short for a mapping."""
    return {"version": value} if isinstance(value, str) else value


def _cuda_or_none(text: str) -> str:
    return "none" if text.lower() == "none" else _cuda_version(text)


def _driver(text: str) -> str:
    match = re.fullmatch(r"(?:>=)?\s*([0-9]{3,4}(?:\.[0-9]{1,4}){0,2})", text)
    if not match:
        raise _wrong("not a driver version", text, 'write `">=535"`, the oldest NVIDIA driver of the machines')
    return match[1]


def _gpu(text: str) -> str:
    if tables.gpu(text) is None:
        near = closest(text, tables.gpu_names())
        raise _wrong("unknown GPU", text, near or "write a name such as `H200`, or a compute capability: `9.0`")
    return text


def _platform(text: str) -> str:
    if text not in tables.platforms():
        raise _wrong("unknown platform", text, platform_hint(text))
    return text


def platform_hint(text: str) -> str:
    """The platform that another name stands for, else the nearest, else all."""
    meant = " or ".join(f"`{one}`" for one in tables.platforms_meant(text))
    if meant:
        return f"conda calls it {meant}"
    return closest(text, tables.platforms()) or f"known: {', '.join(tables.platforms())}"


def _base_image(text: str) -> str:
    known = [image.name for image in tables.images() if image.role == "base"]
    if text not in known and not re.fullmatch(r"[\w./:-]+@sha256:[0-9a-f]{64}", text, re.ASCII):
        near = closest(text, known)
        hint = near or f"known: {', '.join(known)}; or a reference with its digest: `name@sha256:…`"
        raise _wrong("unknown base image", text, hint)
    return text


def _channel(text: str) -> str:
    if not re.fullmatch(r"[\w./:~+@%-]+", text, re.ASCII):
        raise _wrong("not a channel", text, "write a name, a URL or a path")
    return text.rstrip("/") or "/"


def _variant(text: str) -> str:
    if text == "default":
        raise _wrong("`default` is not free as a variant's name")
    if not re.fullmatch(VARIANT.removeprefix("^").removesuffix("$"), text):
        lower = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        hint = f"write `{lower}`: " if lower else ""
        raise _wrong("not a variant's name", text, f"{hint}lower-case letters and digits, with `-` between them")
    return text


def _instant(text: str) -> str:
    """A date means its last moment; a time without an offset is UTC."""
    try:
        moment = datetime.fromisoformat(text.upper()) if _MOMENT.fullmatch(text) else None
        if moment and _DATE.fullmatch(text):
            moment = moment.replace(hour=23, minute=59, second=59)
        if moment:
            moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
            return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        pass
    raise _wrong("not a date", text, "write `2026-11-30` or `2026-11-30T12:00:00Z`")


def _one_line(text: str) -> str:
    if any(ord(character) < 32 or character in "\x7f\x85\u2028\u2029" for character in text):
        raise _wrong("a line end or a control character in a value of the image", hint="write it in one line")
    return text


def _env_name(name: str) -> str:
    """The image's own variables stay: they say where the environment is, and what the machine has."""
    if name in ("PATH", "CONDA_PREFIX") or name.startswith(("CONDA_OVERRIDE_", "NVIDIA_REQUIRE_")):
        raise _wrong(f"`{name}` is not for `image.env`", hint="the image sets it itself: leave it out")
    return name


def _label(name: str) -> str:
    if name.startswith("io.lockgen."):
        raise _wrong(f"the label `{shown(name)}` is written by lockgen", hint="take another name: `org.example.name`")
    return name


def _user(text: str) -> str:
    if int(text.partition(":")[0]) == 0:
        raise _wrong("the image's processes do not run as root", text, 'write a user of their own: `"1000:1000"`')
    return text


def _workdir(text: str) -> str:
    """The folder is given to the image's user, so it is none of the system's."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    system = bool(parts) and (parts[0] in _SYSTEM_FOLDERS or len(parts) < _SHARED_FOLDERS.get(parts[0], 1))
    if not parts or ".." in parts or system:
        raise _wrong("not a folder to work in", text, "write a folder of its own: `/work`")
    return text


def _extra(value: Any) -> Any:
    """A name is short for a mapping."""
    return {"name": value} if isinstance(value, str) else value


_VERSION_SCHEMA = WithJsonSchema({"type": "string", "pattern": "^[0-9<>=!~]"})
_CUDA_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^([0-9]+(\.[0-9]+){0,2}|[Nn][Oo][Nn][Ee])$"})
_DRIVER_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^(>=)?\s*[0-9]{3}"})
_MOMENT_SCHEMA = WithJsonSchema({"type": "string", "pattern": f"^{_DATE.pattern}"})
PythonVersion = Annotated[str, _version_of("python", "3.13", "3.13.1", ">=3.12,<3.14"), _VERSION_SCHEMA]
PytorchVersion = Annotated[str, _version_of("pytorch", "2.9", "2.9.1", ">=2.8,<2.10"), _VERSION_SCHEMA]
CudaVersion = Annotated[str, AfterValidator(_cuda_or_none), _CUDA_SCHEMA]
Driver = Annotated[str, AfterValidator(_driver), _DRIVER_SCHEMA]
Moment = Annotated[str, AfterValidator(_instant), _MOMENT_SCHEMA]
MatchSpecText = Annotated[str, AfterValidator(_match_spec)]
Platform = Annotated[
    str, AfterValidator(_platform), WithJsonSchema({"type": "string", "enum": list(tables.platforms())})
]
Channel = Annotated[str, AfterValidator(_channel)]
Gpu = Annotated[str, AfterValidator(_gpu)]
OneLine = Annotated[str, AfterValidator(_one_line)]
Label = Annotated[str, AfterValidator(_one_line), AfterValidator(_label)]
VariantName = Annotated[str, AfterValidator(_variant), WithJsonSchema({"type": "string", "pattern": VARIANT})]
Name = Annotated[str, *_like(NAME, "a name", "letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first")]
Glibc = Annotated[str, *_like(r"^[0-9]{1,4}\.[0-9]{1,4}$", "a glibc version", "write two numbers: `2.28`")]
Release = Annotated[str, *_like(r"^[0-9]{1,4}(\.[0-9]{1,4}){0,3}$", "a version", "write numbers: `5.10`")]
Archspec = Annotated[str, *_like(r"^[a-z0-9_]+$", "a microarchitecture", "write a name such as `x86_64_v3`")]
User = Annotated[
    str, *_like(r"^[0-9]+:[0-9]+$", "a user and a group", 'write two numbers: `"1000:1000"`'), AfterValidator(_user)
]
Folder = Annotated[
    str,
    *_like(r"^/[A-Za-z0-9_./-]*$", "a folder of the image", "write an absolute path: `/work`, without spaces"),
    AfterValidator(_workdir),
]
EnvName = Annotated[
    str,
    *_like(r"^[A-Za-z_][A-Za-z0-9_]*$", "a name of a variable", "letters, digits and `_`, no digit first"),
    AfterValidator(_env_name),
]


class Keys(BaseModel):
    """Every mapping of a spec: unknown keys are refused, and nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cuda(Keys):
    """The CUDA that is asked for."""

    version: CudaVersion = Field(description="CUDA version, or `none` for CPU builds", examples=["12.1", "none"])
    match: Literal["compatible", "exact"] = Field(
        "compatible",
        description="`compatible` takes any build of the same major that runs on a driver for this version; "
        "`exact` takes this toolkit only",
    )


class Extra(Keys):
    """A named group of packages."""

    name: str = Field(description="Name of the extra")
    optional: bool = Field(False, description="Leave out the packages that cannot be had, and say so")


class System(Keys):
    """The oldest system that the environment must run on."""

    glibc: Glibc | None = Field(
        None, description="glibc of the system; the base image's own when `image.base` is named"
    )
    linux: Release | None = Field(None, description="Version of the Linux kernel")
    macos: Release | None = Field(None, description="Version of macOS")
    archspec: Archspec | None = Field(None, description="Microarchitecture, such as `x86_64_v3`")


class Image(Keys):
    """The container image."""

    base: Annotated[str, AfterValidator(_base_image)] | None = Field(
        None, description="Base image: a known name, or a reference with its digest"
    )
    user: User = Field("1000:1000", description="User and group ids of the image's processes")
    workdir: Folder = Field("/work", description="Folder that commands start in")
    env: dict[EnvName, OneLine] = Field(default={}, description="Environment variables set in the image")
    labels: dict[Label, OneLine] = Field(default={}, description="Labels of the image")
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(
        default=[], description="TCP ports that the image serves"
    )


class Verify(Keys):
    """How the installed environment is proved."""

    model: str = Field("tiny", description="`tiny`, `base`, a folder or a hub id of a BERT to fine-tune")
    steps: int = Field(200, ge=1, le=10_000_000, description="Training steps")
    batch: int = Field(32, ge=1, le=100_000, description="Examples a step")
    seq_len: int = Field(64, ge=8, le=512, alias="seq-len", description="Tokens an example")
    imports: list[str] = Field(default=[], description="More modules that must import")
    skip_imports: list[str] = Field(default=[], alias="skip-imports", description="Modules that need not import")
    require_gpu: bool = Field(False, alias="require-gpu", description="Fail on a machine without a GPU")


class Settings(Keys):
    """The keys that variants and platforms may set again."""

    python: PythonVersion | None = Field(
        None, description="Python version: `3.13`, exact `3.13.1`, or a range", examples=["3.13"]
    )
    pytorch: PytorchVersion | None = Field(
        None, description="PyTorch version: `2.9`, exact `2.9.1`, or a range `>=2.8,<2.10`", examples=["2.9"]
    )
    cuda: Annotated[Cuda, BeforeValidator(_cuda)] | None = Field(
        None,
        description="CUDA to support: a version, a mapping with `version` and `match`, or `none` for CPU builds. "
        "Without it, CPU builds are locked and the screen says so",
    )
    driver: Driver | None = Field(
        None, description="Oldest NVIDIA driver of the machines it must run on", examples=[">=535"]
    )
    gpus: list[Gpu] = Field(
        default=[], description="GPUs it must run on: names or compute capabilities", examples=[["V100", "H200"]]
    )
    channels: list[Channel] = Field(
        default=["conda-forge"], min_length=1, description="Channels, highest priority first: names, URLs or paths"
    )
    channel_priority: Literal["strict", "disabled"] = Field(
        "strict", alias="channel-priority", description="`strict`: a package comes from the first channel that has it"
    )
    extras: list[Annotated[Extra, BeforeValidator(_extra)]] = Field(
        default=[],
        description="Named groups of packages, each a name or a mapping with `name` and `optional`",
    )
    dependencies: list[MatchSpecText] = Field(default=[], description="More packages, as conda match specs")
    constraints: list[MatchSpecText] = Field(
        default=[], description="Match specs that hold if the package is installed, without asking for it"
    )
    as_of: Moment | None = Field(
        None,
        alias="as-of",
        description="Ignore packages built after this date or moment (UTC)",
        examples=["2026-11-30"],
    )
    system: System = Field(default=System(), description="The oldest system to support")
    image: Image = Field(default=Image(), description="The container image")
    verify: Verify = Field(default=Verify(), description="How the installed environment is proved")


class Overlay(Settings):
    """What a variant or a platform sets again: mappings are merged, any other value replaces."""


class Matrix(Keys):
    """A short way to write variants: one for each combination."""

    python: list[PythonVersion] = Field(default=[], description="Python versions")
    pytorch: list[PytorchVersion] = Field(default=[], description="PyTorch versions")
    cuda: list[Annotated[str, AfterValidator(_cuda_or_none)]] = Field(
        default=[], description="CUDA versions, or `none`"
    )


class SpecModel(Settings):
    """A lockgen spec."""

    name: Name = Field(description="Name of the environment; the folder is named after the file")
    description: str | None = Field(None, description="What it is for")
    extends: list[str] = Field(
        default=[], description="Specs that this one builds on, as paths beside it; later ones win, this one last"
    )
    platforms: list[Platform] = Field(default=["linux-64"], min_length=1, description="Subdirs to lock")
    platform: dict[Platform, Overlay] = Field(default={}, description="Keys set again for one platform")
    variants: dict[VariantName, Overlay] = Field(
        default={}, description="Named overlays, each locked beside the others"
    )
    matrix: Matrix = Field(default=Matrix(), description="Variants from combinations")


def schema() -> dict[str, Any]:
    """The JSON Schema of a spec, for editors: keys as they are written, numbers taken where people leave out quotes."""
    found = _without_null(SpecModel.model_json_schema(by_alias=True))
    for owner in (found, found["$defs"]["Overlay"]):
        keys = owner["properties"]
        short = found["$defs"]["Cuda"]["properties"]["version"]
        _also_number(short)
        keys["cuda"]["anyOf"] = [{key: short[key] for key in ("type", "pattern")}, {"$ref": "#/$defs/Cuda"}]
        keys["cuda"].pop("$ref", None)
        keys["extras"]["items"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Extra"}]}
        keys["pytorch-cuda"] = keys["cuda"] | {"description": "Another name of `cuda`"}
        for key in ("python", "pytorch", "as-of", "driver"):
            _also_number(keys[key])
        _also_number(keys["gpus"]["items"])
    for part in ("glibc", "linux", "macos"):
        _also_number(found["$defs"]["System"]["properties"][part])
    for key in ("python", "pytorch", "cuda"):
        _also_number(found["$defs"]["Matrix"]["properties"][key]["items"])
    found["properties"]["variants"] |= {"propertyNames": {"pattern": VARIANT}}
    found["$defs"]["Image"]["properties"]["env"] |= {"additionalProperties": False}
    for value in found["$defs"]["Image"]["properties"]["env"]["patternProperties"].values():
        _also_number(value)
    _also_number(found["$defs"]["Image"]["properties"]["labels"]["additionalProperties"])
    _also_number(found["properties"]["name"])
    _also_number(found["properties"]["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "lockgen spec"}


def _without_null(part: Any) -> Any:
    """A key is left out rather than null: neither the type nor the default is for people to write."""
    if isinstance(part, list):
        return [_without_null(one) for one in part if one != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    kept = {key: _without_null(value) for key, value in part.items() if not (key == "default" and value is None)}
    return kept | kept.pop("anyOf")[0] if len(kept.get("anyOf", ())) == 1 else kept


def _also_number(schema: dict[str, Any]) -> None:
    """YAML editors read an unquoted `2.9` as a number; lockgen keeps its text."""
    if schema.get("type") == "string":
        schema["type"] = ["string", "number"]
