"""`conda-lock.yml`, version 1: the canonical lock, read by conda-lock and held complete for lockgen itself."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from lockgen import matchspec
from lockgen.errors import LockError, Problem, Where
from lockgen.lock.codec import Codec, Files, suffixed
from lockgen.lock.codecs._shared import build_in, environment_name, joined, ordered, url_parts
from lockgen.lock.model import CudaFacts, Lock, LockedPackage, PlatformLock
from lockgen.lock.yamltext import comment, scalar
from lockgen.request import CudaAsk, Request, Requirement

_FORMAT = "1"
_KEY = "lockgen."
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_AGAIN = "to write it anew, run `lockgen resolve` on its spec"


def dump(locks: tuple[Lock, ...]) -> Files:
    """One file a lock: conda-lock's own fields, and under `custom_metadata` all that it has no field for."""
    return {suffixed("conda-lock.yml", lock): _text(ordered(lock)) for lock in locks}


def load(text: str, filename: str) -> tuple[Lock, ...]:
    """The lock in a file that `dump` wrote; anything else, and anything changed since, is a LockError."""
    source = _Source(text, filename)
    document = source.document()
    lock = _Reader(source, document).lock()
    stored = document["metadata"]["custom_metadata"].get(f"{_KEY}fingerprint")
    if stored != lock.fingerprint():
        path = ("metadata", "custom_metadata", f"{_KEY}fingerprint")
        raise source.error(f"`{filename}` was edited by hand: its fingerprint is not that of what it holds", path)
    return (lock,)


# writing


def _text(lock: Lock) -> str:
    """The whole file."""
    packages = [(package, answer.platform) for answer in lock.platforms for package in answer.packages]
    packages.sort(key=lambda pair: (pair[0].name, pair[1]))
    lines = [*_header(lock), "version: 1", *_metadata(lock), "package:" if packages else "package: []"]
    for package, platform in packages:
        lines += _package(package, platform)
    return "\n".join(lines) + "\n"


def _header(lock: Lock) -> list[str]:
    """What the file is, for the person who opens it."""
    name = shlex.quote(environment_name(lock))
    file = shlex.quote(suffixed("conda-lock.yml", lock))
    return [
        f"# Locked by lockgen from the spec {comment(lock.name)}. Not to be edited: `lockgen resolve` writes it.",
        "#",
        "# Install it with conda-lock:",
        f"#     conda-lock install -n {comment(name)} {comment(file)}",
    ]


def _metadata(lock: Lock) -> list[str]:
    """The `metadata` table."""
    channels = list(dict.fromkeys(url for answer in lock.platforms for url in answer.request.channels))
    hashes = [f"    {scalar(each.platform)}: {_request_hash(each.request)}" for each in lock.platforms]
    return [
        "metadata:",
        "  content_hash:" if hashes else "  content_hash: {}",
        *hashes,
        "  channels:" if channels else "  channels: []",
        *(line for url in channels for line in (f"  - url: {scalar(url)}", "    used_env_vars: []")),
        "  platforms:" if hashes else "  platforms: []",
        *(f"  - {scalar(each.platform)}" for each in lock.platforms),
        "  sources:",
        f"  - {scalar('lockgen spec ' + lock.name)}",
        "  custom_metadata:",
        *(f"    {scalar(_KEY + key)}: {scalar(value)}" for key, value in _custom(lock).items()),
    ]


def _custom(lock: Lock) -> dict[str, str]:
    """What conda-lock has no field for, one fact a key."""
    facts = {"format": _FORMAT, "fingerprint": lock.fingerprint(), "name": lock.name}
    if lock.variant is not None:
        facts["variant"] = lock.variant
    for answer in lock.platforms:
        facts[f"request.{answer.platform}"] = _json(_request_facts(answer.request))
        if answer.cuda is not None:
            facts[f"cuda.{answer.platform}"] = _json(dataclasses.asdict(answer.cuda))
        if answer.left_out:
            facts[f"left-out.{answer.platform}"] = _json(answer.left_out)
    for answer in lock.platforms:
        for package in answer.packages:
            facts[f"package.{answer.platform}.{package.name}"] = _json(_package_facts(package))
    return facts


def _json(value: object) -> str:
    """Compact and ASCII, so that a reader with any encoding gets it right."""
    return json.dumps(value, separators=(",", ":"))


def _request_facts(request: Request) -> dict[str, Any]:
    """The request without its platform, which is in the key, and without what is empty."""
    facts = dataclasses.asdict(request)
    del facts["platform"]
    return {key: value for key, value in facts.items() if value not in (None, ())}


def _request_hash(request: Request) -> str:
    """Hex SHA-256 of the question that was asked."""
    return hashlib.sha256(json.dumps(dataclasses.asdict(request), sort_keys=True).encode()).hexdigest()


def _package_facts(package: LockedPackage) -> dict[str, Any]:
    """A package's fields that can be read neither from conda-lock's fields nor from its URL."""
    parts = url_parts(package.url)
    facts: dict[str, Any] = {"build_number": package.build_number, "size": package.size}
    if build_in(parts.filename, package.name, package.version) != package.build:
        facts["build"] = package.build
    if parts.subdir != package.subdir:
        facts["subdir"] = package.subdir
    if parts.channel != package.channel:
        facts["channel"] = package.channel
    if _as_depends(_dependencies(package.depends)) != package.depends:
        facts["depends"] = package.depends
    for key in ("constrains", "track_features"):
        if value := getattr(package, key):
            facts[key] = value
    for key in ("noarch", "license", "license_family", "timestamp", "python_site_packages_path"):
        if (value := getattr(package, key)) is not None:
            facts[key] = value
    return facts


def _package(package: LockedPackage, platform: str) -> list[str]:
    """One entry of the `package` list."""
    dependencies = _dependencies(package.depends)
    return [
        f"- name: {scalar(package.name)}",
        f"  version: {scalar(package.version)}",
        "  manager: conda",
        f"  platform: {scalar(platform)}",
        "  dependencies:" if dependencies else "  dependencies: {}",
        *(f"    {scalar(name)}: {scalar(constraint)}" for name, constraint in dependencies.items()),
        f"  url: {scalar(package.url)}",
        "  hash:",
        f"    md5: {scalar(package.md5)}",
        f"    sha256: {scalar(package.sha256)}",
        "  category: main",
        "  optional: false",
    ]


def _dependencies(depends: tuple[str, ...]) -> dict[str, str]:
    """Match specs as conda-lock's mapping of name → constraint; two on one name are joined."""
    found: dict[str, str] = {}
    for spec in depends:
        name, constraint = matchspec.cut(spec)
        found[name] = joined(found[name], constraint) if name in found else constraint
    return found


def _as_depends(dependencies: Mapping[str, str]) -> tuple[str, ...]:
    """The match specs that conda-lock's mapping stands for."""
    return tuple(f"{name} {constraint}" if constraint else name for name, constraint in dependencies.items())


# reading

_Path = tuple[str | int, ...]


class _Source:
    """The text of a file, and errors that point into it."""

    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename

    def document(self) -> dict[str, Any]:
        """The YAML document, known to be a conda-lock file that lockgen wrote."""
        try:
            document = yaml.load(self.text, Loader=_LOADER)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise LockError(self._not_yaml(error)) from None
        if not isinstance(document, dict) or not {"version", "metadata", "package"} <= document.keys():
            raise self.error("not a conda-lock file: expected the keys `version`, `metadata` and `package`", ())
        if document["version"] != 1:
            raise self.error(
                f"a conda-lock file of another version: found `{document['version']}`, expected `1`", ("version",)
            )
        if not isinstance(document["metadata"], dict) or not isinstance(document["package"], list):
            raise self.error("not a conda-lock file: expected a mapping `metadata` and a list `package`", ("metadata",))
        custom = document["metadata"].get("custom_metadata")
        if not isinstance(custom, dict) or f"{_KEY}format" not in custom:
            raise self.error(
                "not written by lockgen: `metadata.custom_metadata` has no `lockgen.format`", ("metadata",)
            )
        if custom[f"{_KEY}format"] != _FORMAT:
            found = custom[f"{_KEY}format"]
            raise self.error(
                f"written in a format that this lockgen does not know: found `{found}`, expected `{_FORMAT}`",
                ("metadata", "custom_metadata", f"{_KEY}format"),
                hint="is a newer lockgen needed?",
            )
        return document

    def _not_yaml(self, error: Exception) -> Problem:
        """What is wrong with text that YAML cannot read."""
        mark = getattr(error, "problem_mark", None)
        words = getattr(error, "problem", None) or str(error).splitlines()[0]
        where = self._where(mark.line, mark.column) if mark else Where(file=self.filename, line=1, column=1)
        conflict = re.search(r"^(<<<<<<<|=======|>>>>>>>)", self.text, re.MULTILINE)
        hint = f"it has the marks of a merge conflict; {_AGAIN}" if conflict else _AGAIN
        return Problem(message=f"not YAML: {words}", where=where, hint=hint)

    def error(self, message: str, path: _Path, hint: str = _AGAIN) -> LockError:
        """An error at the place that `path` leads to, or at the nearest place before it."""
        return LockError(Problem(message=message, where=self._place(path), hint=hint))

    def _place(self, path: _Path) -> Where:
        """The place of a key or an item; reads the text again, which only an error needs."""
        node = yaml.compose(self.text, Loader=_LOADER)
        mark = node.start_mark if node else None
        for step in path:
            if isinstance(node, yaml.MappingNode):
                pairs = {key.value: (key, value) for key, value in node.value}
                if step not in pairs:
                    break
                key, node = pairs[step]
                mark = key.start_mark
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                mark = node.start_mark
        return self._where(mark.line, mark.column) if mark else Where(file=self.filename, line=1, column=1)

    def _where(self, line: int, column: int) -> Where:
        """A place by YAML's count from zero."""
        lines = self.text.split("\n")
        text = lines[line].rstrip("\r") if line < len(lines) else ""
        word = re.match(r"[^\s:]*", text[column:])
        width = len(word.group()) if word else 1
        return Where(file=self.filename, line=line + 1, column=column + 1, text=text, width=max(1, width))


class _Reader:
    """A document → its lock."""

    def __init__(self, source: _Source, document: Mapping[str, Any]) -> None:
        self.source = source
        self.packages: list[Any] = document["package"]
        self.custom: dict[str, Any] = document["metadata"]["custom_metadata"]
        self.platforms: Any = document["metadata"].get("platforms")

    def lock(self) -> Lock:
        """The lock, as it was given to `dump`."""
        if not isinstance(self.platforms, list) or not all(isinstance(each, str) for each in self.platforms):
            raise self.source.error("`platforms` must be a list of names", ("metadata", "platforms"))
        packages: dict[str, list[LockedPackage]] = {platform: [] for platform in self.platforms}
        for index, entry in enumerate(self.packages):
            package = self._package(index, entry)
            packages[entry["platform"]].append(package)
        return Lock(
            name=self._text("name"),
            variant=self._text("variant") if f"{_KEY}variant" in self.custom else None,
            platforms=tuple(self._platform(each, packages[each]) for each in sorted(packages)),
        )

    def _platform(self, platform: str, packages: list[LockedPackage]) -> PlatformLock:
        """The answer for one platform."""
        cuda = self._json(f"cuda.{platform}", dict) if f"{_KEY}cuda.{platform}" in self.custom else None
        left_out = self._json(f"left-out.{platform}", list) if f"{_KEY}left-out.{platform}" in self.custom else ()
        request = self._json(f"request.{platform}", dict)
        try:
            return PlatformLock(
                request=_request(platform, request),
                packages=tuple(sorted(packages, key=lambda package: package.name)),
                cuda=None if cuda is None else CudaFacts(**_frozen(cuda)),
                left_out=tuple(left_out),
            )
        except (TypeError, KeyError, AttributeError):
            key = f"{_KEY}request.{platform}"
            raise self.source.error(f"`{key}` was edited by hand", ("metadata", "custom_metadata", key)) from None

    def _package(self, index: int, entry: Any) -> LockedPackage:
        """One package: conda-lock's fields and lockgen's facts, which must agree."""
        try:
            platform, name, version, url = entry["platform"], entry["name"], entry["version"], entry["url"]
            dependencies, sha256, md5 = entry["dependencies"], entry["hash"]["sha256"], entry["hash"]["md5"]
            if platform not in self.platforms:
                raise self.source.error(
                    f"package `{name}`: platform `{platform}` is not in `platforms`", ("package", index)
                )
            facts = self._facts(index, platform, name)
            parts = url_parts(url)
            build = facts.pop("build") if "build" in facts else build_in(parts.filename, name, version)
            if build is None:
                message = f"package `{name}` was edited by hand: version `{version}` is not that of {parts.filename}"
                raise self.source.error(message, ("package", index))
            base = {"channel": parts.channel, "subdir": parts.subdir, "depends": _as_depends(dependencies)}
            return LockedPackage(
                name=name, version=version, build=build, url=url, sha256=sha256, md5=md5, **{**base, **_frozen(facts)}
            )
        except (TypeError, KeyError, AttributeError):
            name = entry.get("name", "?") if isinstance(entry, dict) else "?"
            message = f"package `{name}` was edited by hand: a field is missing or is no text"
            raise self.source.error(message, ("package", index)) from None

    def _facts(self, index: int, platform: str, name: str) -> dict[str, Any]:
        """What lockgen wrote about a package."""
        key = f"package.{platform}.{name}"
        if _KEY + key not in self.custom:
            message = f"package `{name}` was added by hand: `custom_metadata` has no `{_KEY}{key}`"
            raise self.source.error(message, ("package", index))
        facts: dict[str, Any] = self._json(key, dict)
        return facts

    def _text(self, key: str) -> str:
        """A fact that is text."""
        value = self.custom.get(_KEY + key)
        if not isinstance(value, str):
            raise self.source.error(f"`{_KEY}{key}` is missing", ("metadata", "custom_metadata", _KEY + key))
        return value

    def _json(self, key: str, kind: type) -> Any:
        """A fact that is JSON."""
        try:
            value = json.loads(self._text(key))
        except json.JSONDecodeError:
            value = None
        if not isinstance(value, kind):
            path = ("metadata", "custom_metadata", _KEY + key)
            raise self.source.error(f"`{_KEY}{key}` was edited by hand: it is not the JSON that lockgen wrote", path)
        return value


def _frozen(facts: Mapping[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples that values hold."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}


def _request(platform: str, facts: Mapping[str, Any]) -> Request:
    """The request that `_request_facts` took apart."""
    fields = {"requirements": (), "channels": (), "virtual_packages": (), **_frozen(facts)}
    for key in ("requirements", "constraints"):
        fields[key] = tuple(Requirement(**each) for each in fields.get(key, ()))
    if "cuda" in fields:
        fields["cuda"] = CudaAsk(**_frozen(fields["cuda"]))
    return Request(platform=platform, **fields)


CODEC = Codec(name="conda-lock-v1", dump=dump, load=load)
