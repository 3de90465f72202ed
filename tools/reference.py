"""Write what is generated in docs/: reference pages, tables, and the output of commands; `--check` only compares."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import urlsplit

import typer
import yaml

from lockgen.cli.main import app
from lockgen.knowledge import tables
from lockgen.lock.registry import codecs
from lockgen.spec.model import schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CHANNELS = ROOT.parent / "shared" / "channels"
HEAD = "<!-- Made by tools/reference.py; do not edit. -->\n"
EXAMPLE = DOCS / "reference" / "example.yaml"
COLUMNS = "100"

MARK = re.compile(
    r"<!-- (?P<kind>table|console): (?P<what>[^\n]+) -->\n(?P<old>.*?)<!-- end -->"
    r"|<!-- run: (?P<run>[^\n]+) -->"
    r"|<!-- file: (?P<file>\S+) -->\n```\w*\n(?P<text>.*?)```",
    re.DOTALL,
)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


# --- Markdown -----------------------------------------------------------------------------------------------------


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; `|` and line ends in a cell are escaped."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip() or "–"


def code(*values: str) -> str:
    """Values as code, with commas between."""
    return ", ".join(f"`{value}`" for value in values)


def origin(row: Any) -> tuple[str, str]:
    """The last two cells of a fact: its source and when it was checked."""
    source = row.source or ""
    host = urlsplit(source).hostname
    return f"[{host}]({source})" if host else source, str(row.checked or "")


# --- The spec -----------------------------------------------------------------------------------------------------


def spec_page() -> str:
    """Every key of the model: type, default, meaning, example."""
    whole = schema()
    full = EXAMPLE.read_text(encoding="utf-8")
    example = yaml.safe_load(full)
    text = HEAD + (
        "# Keys of a spec\n\n"
        "A spec is one YAML file. Only `name` is required. Numbers stay the text that you wrote: "
        "`python: 3.10` is 3.10. "
        "`lockgen schema` prints the same as a JSON Schema for your editor. "
        "[A spec with every key](#a-spec-with-every-key) is at the end of this page. "
        "`verify` is read and checked today; nothing uses it yet.\n\n"
        "## Top of the file\n\n"
    )
    text += _keys(whole, whole["$defs"], example)
    for name, part in whole["$defs"].items():
        text += f"\n## {name}\n\n{part.get('description', '')}\n\n"
        if name == "Overlay":
            text += f"It takes these keys of the top of the file: {code(*part['properties'])}.\n"
        else:
            text += _keys(part, whole["$defs"], _example_for(name, example))
    return f"{text}\n## A spec with every key\n\n```yaml\n{full}```\n"


def _keys(part: Mapping[str, Any], parts: Mapping[str, Any], example: Mapping[str, Any]) -> str:
    rows = []
    order = {key: place for place, key in enumerate(example)}
    for key, value in sorted(part["properties"].items(), key=lambda pair: order.get(pair[0], len(order))):
        needed = key in part.get("required", ())
        default = "required" if needed else _default(value)
        shown = {key: example[key]} if key in example else {}
        rows.append((f"`{key}`", _type(value, parts), default, value.get("description", ""), _flow(shown)))
    return table(("key", "type", "default", "meaning", "example"), rows)


def _example_for(part: str, example: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping in the example that shows the keys of one part of the model."""
    if part == "Extra":
        return next(item for item in example["extras"] if isinstance(item, dict))
    found = example[part.lower()]
    assert isinstance(found, dict), part
    return found


def _flow(value: Mapping[str, Any]) -> str:
    if not value:
        return ""
    return f"`{_yaml(value)[1:-1]}`"


def _yaml(value: Any) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True)
    return text.removesuffix("...\n").strip().replace("'", '"')


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if default is None or isinstance(default, dict):
        return ""
    return f"`{_yaml(default)}`"


def _type(value: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """A JSON Schema type in words."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_type(one, parts) for one in value["anyOf"] if one.get("type") != "null"))
    if "enum" in value or "const" in value:
        return " or ".join(f"`{one}`" for one in value.get("enum", [value.get("const")]))
    kind = value.get("type")
    if kind == "array":
        return f"list of {_type(value['items'], parts)}"
    if kind == "object":
        held: Mapping[str, Any] = value.get("additionalProperties") or next(
            iter(value.get("patternProperties", {}).values()), {}
        )
        return f"mapping of names to {_type(held, parts)}"
    if kind == "integer":
        low, high = value.get("minimum"), value.get("maximum")
        bounds = f", {low} to {high}" if high is not None else f", {low} or more" if low is not None else ""
        return f"whole number{bounds}"
    return {"boolean": "`true` or `false`"}.get(str(kind), "text")


# --- The command line ---------------------------------------------------------------------------------------------


def cli_page() -> str:
    """Every command with its arguments and options."""
    root = typer.main.get_command(app)
    commands = dict(_commands(root))
    listed = [
        (f"[`lockgen {name}`](#lockgen-{name.replace(' ', '-')})", _summary(command))
        for name, command in commands.items()
    ]
    text = HEAD + "# Commands\n\n" + table(("command", "what it does"), listed)
    text += "\n`lockgen --version` prints the version; every command takes `--help`. "
    text += "What the exit codes mean: [Exit codes and streams](../exit-codes.md).\n"
    return text + "".join(_command(name, command) for name, command in commands.items())


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Each command by its whole name, those of groups among them: `image build`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _summary(command: Any) -> str:
    return " ".join((command.help or "").split())


def _command(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    usage = " ".join([f"lockgen {name}", *(["[OPTIONS]"] if options else []), *(_argument(one) for one in arguments)])
    text = f"\n## lockgen {name}\n\n{_summary(command)}\n\n```text\n{usage}\n```\n"
    if arguments:
        text += "\n" + table(("argument", "meaning"), [(f"`{_argument(one)}`", one.help or "") for one in arguments])
    if options:
        kinds = get_type_hints(_function(name.split()))
        text += "\n" + table(
            ("option", "value", "default", "meaning"), [_option(one, kinds[one.name]) for one in options]
        )
    return text


def _function(names: Sequence[str]) -> Callable[..., Any]:
    owner = app
    for name in names[:-1]:
        owner = next(one.typer_instance for one in owner.registered_groups if one.name == name and one.typer_instance)
    callbacks = {one.name or one.callback.__name__: one.callback for one in owner.registered_commands if one.callback}
    return callbacks[names[-1]]


def _argument(param: Any) -> str:
    name = str(param.name).upper()
    return name if param.required else f"[{name}]"


def _option(param: Any, kind: Any) -> tuple[str, str, str, str]:
    default = getattr(param.default, "value", param.default)
    shown = "" if default is None or param.is_flag else code(str(default))
    help_text = f"{param.help} Also `{param.envvar}`." if param.envvar else param.help
    return code(*param.opts), "" if param.is_flag else _value(param, kind), shown, help_text


def _value(param: Any, kind: Any) -> str:
    """What an option takes, from the annotation of the command's parameter."""
    kind = next((one for one in get_args(kind) if one is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return code(*(one.value for one in kind))
    if param.metavar:
        return code(*param.metavar.split("|"))
    return "path" if kind is Path else "text"


# --- Facts --------------------------------------------------------------------------------------------------------


def extras_page() -> str:
    """Every extra with its packages and services."""
    found = [extra for name in tables.extra_names() if (extra := tables.extra(name))]
    text = HEAD + (
        "# Extras\n\nAn extra is a named set of packages. "
        "[You can write your own](../how-to.md#write-an-extra-of-your-own).\n\n"
    )
    text += table(("extra", "what it is for"), [(f"[`{one.name}`](#{one.name})", one.summary) for one in found])
    return text + "".join(_extra(one) for one in found)


def _extra(extra: tables.Extra) -> str:
    rows = []
    for one in extra.packages:
        limits = [f"only on {code(*one.platforms)}"] if one.platforms else []
        limits += ["only with CUDA"] * one.cuda + ["left out where it cannot be had"] * one.optional
        rows.append((f"`{one.spec}`", one.reason, code(*one.imports), "; ".join(limits)))
    source, checked = origin(extra)
    text = f"\n## {extra.name}\n\n{extra.summary}. Source: {source}, checked {checked}.\n\n"
    text += table(("package", "why", "imports to verify", "limits"), rows)
    if extra.services:
        services = [
            (
                one.name,
                f"`{' '.join(one.command)}`",
                f"{one.port} on 127.0.0.1, or `${one.bind}`" if one.bind else str(one.port),
                f"`{one.health}` answers 200" if one.health else "the port listens",
            )
            for one in extra.services
        ]
        text += "\nServices of an image:\n\n"
        text += table(("service", "command", "port", "healthy while"), services)
    return text


def knowledge_page() -> str:
    """The facts about the world that lockgen decides by."""
    sections = (
        ("CUDA toolkits and drivers", "The driver that each toolkit came with.", toolkits()),
        ("Driver floors", "The oldest driver that runs code of any toolkit of one major.", drivers()),
        ("Limits of an older driver", "What a driver that is older than the toolkit does not give.", limits()),
        ("GPUs", "Names that `gpus` takes, and their compute capability.", gpus()),
        *((f"GPUs covered by {p.name}", _COVERED, capabilities(p)) for p in tables.providers()),
        *((f"CUDA builds in {p.name}", _BUILDS, builds(p)) for p in tables.providers()),
        *((f"Companions of PyTorch in {p.name}", _COMPANIONS, companions(p)) for p in tables.providers()),
        *((f"CPU builds that are right beside a GPU in {p.name}", _EXEMPT, exempt(p)) for p in tables.providers()),
        ("Only one of each", "Things of which an environment may hold one only.", singletons()),
        ("Base images", "Names that `image.base` takes, and the image of the build stage.", images()),
        ("Default systems", "The oldest system that a lock supports where the spec says nothing.", systems()),
        ("Wheels", "Official wheels of torch by CUDA. lockgen names them as choices; it does not lock them.", wheels()),
    )
    text = HEAD + "# Facts\n\nWhat lockgen knows about the world, each row with its source and the day it was checked. "
    text += "These are the tables that it decides by; the channel's own metadata says which builds there are.\n"
    return text + "".join(f"\n## {title}\n\n{what}\n\n{rows}" for title, what, rows in sections)


_COVERED = "Compute capabilities with machine code in a build, and the PTX for newer GPUs."
_BUILDS = "CUDA versions that a PyTorch was built for: used for hints where the channel cannot be asked."
_COMPANIONS = "Packages that must be of PyTorch's kind, by their build strings."
_EXEMPT = "A CPU build of these is not a fault in a GPU environment."
_FACT = ("source", "checked")


def toolkits() -> str:
    """The driver that each toolkit came with."""
    rows = [(one.cuda, one.driver, one.windows_driver or "", *origin(one)) for one in tables.toolkits()]
    return table(("CUDA", "Linux driver", "Windows driver", *_FACT), rows)


def drivers() -> str:
    """The driver floor of each major."""
    rows = [
        (
            f"{one.major}.x",
            f"{one.min_driver} or newer",
            f"{one.windows_min_driver} or newer" if one.windows_min_driver else "not known",
            *origin(one),
        )
        for one in tables.minor_compatibility()
    ]
    return table(("CUDA", "Linux driver", "Windows driver", *_FACT), rows)


def limits() -> str:
    """What an older driver does not give."""
    return table(("limit", *_FACT), [(one.text, *origin(one)) for one in tables.minor_version_limits()])


def gpus() -> str:
    """Names of GPUs by compute capability."""
    by_capability: dict[str, list[str]] = {}
    for name in tables.gpu_names():
        found = tables.gpu(name)
        by_capability.setdefault(found.capability if found else "", []).append(name)
    rows = []
    for capability, names in by_capability.items():
        found = tables.gpu(capability)
        assert found is not None
        kind = f"{found.architecture}, system on a chip" if found.tegra else found.architecture
        rows.append((capability, kind, ", ".join(names), *origin(found)))
    return table(("capability", "architecture", "names", *_FACT), rows)


def capabilities(provider: tables.Provider) -> str:
    """What each build of a provider has code for."""
    rows = [
        (
            f">={one.pytorch_min},<{one.pytorch_below}",
            ", ".join(one.cuda),
            ", ".join(one.platforms or ("all with CUDA",)),
            ", ".join(one.compiled),
            one.ptx or "",
            *origin(one),
        )
        for one in provider.capability_rows
    ]
    return table(("pytorch", "CUDA", "platforms", "compute capabilities", "PTX", *_FACT), rows)


def builds(provider: tables.Provider) -> str:
    """The CUDA that each PyTorch of a provider was built for."""
    rows = [
        (
            f">={one.pytorch_min},<{one.pytorch_below}",
            ", ".join(one.cuda),
            ", ".join(one.python),
            ", ".join(one.platforms),
            *origin(one),
        )
        for one in provider.builds
    ]
    return table(("pytorch", "CUDA", "Python", "platforms", *_FACT), rows)


def companions(provider: tables.Provider) -> str:
    """Packages of PyTorch's kind, by their build strings."""
    rows = [
        (f"`{one.name}`", code(one.gpu) if one.gpu else "", code(one.cpu) if one.cpu else "", *origin(one))
        for one in provider.companions
    ]
    return table(("package", "GPU builds", "CPU builds", *_FACT), rows)


def exempt(provider: tables.Provider) -> str:
    """Packages whose CPU builds are right."""
    return table(("packages", "why", *_FACT), [(code(*one.names), one.reason, *origin(one)) for one in provider.exempt])


def singletons() -> str:
    """Things of which there may be one."""
    rows = [
        (one.title, ", ".join(provider.name for provider in one.providers), one.reason, *origin(one))
        for one in tables.singleton_groups()
    ]
    return table(("what", "providers", "why", *_FACT), rows)


def images() -> str:
    """Base images by digest."""
    rows = [
        (
            f"`{one.name}`{' (default)' if one.default else ''}",
            one.role,
            f"`{one.pinned}`",
            one.glibc,
            one.user,
            one.note,
            *origin(one),
        )
        for one in tables.images()
    ]
    return table(("name", "role", "image", "glibc", "user", "note", *_FACT), rows)


def systems() -> str:
    """The oldest system of each platform."""
    rows = [(f"`{one.platform}`", code(*one.virtual_packages), one.reason, *origin(one)) for one in tables.systems()]
    return table(("platform", "virtual packages", "why", *_FACT), rows)


def wheels() -> str:
    """Official wheels by CUDA."""
    rows = [
        (one.pytorch, one.default, ", ".join(one.stable), ", ".join(one.unsupported), *origin(one))
        for one in tables.wheel_rows()
    ]
    return table(("torch", "default CUDA", "built and promised", "built, not promised", *_FACT), rows)


def recipes() -> str:
    """The recipes for training."""
    found = (one for one in map(tables.recipe, tables.recipe_names()) if one)
    rows = [(f"`{one.name}`", one.summary, f"{one.pytorch} or newer", *origin(one)) for one in found]
    return table(("recipe", "for", "PyTorch", *_FACT), rows)


def formats() -> str:
    """What each lock format cannot hold, in the words of its codec."""
    rows = [
        (f"`{name}`", "yes" if one.load else "no", code(*sorted(one.loses)) or "nothing")
        for name, one in codecs().items()
    ]
    return table(("format", "lockgen reads it back", "fields that it cannot hold"), rows)


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/spec.md": spec_page,
    "reference/cli.md": cli_page,
    "reference/extras.md": extras_page,
    "reference/knowledge.md": knowledge_page,
}
TABLES: Mapping[str, Callable[[], str]] = {
    "drivers": drivers,
    "toolkits": toolkits,
    "limits": limits,
    "formats": formats,
    "recipes": recipes,
}


# --- Marks in pages that people write -----------------------------------------------------------------------------


def rendered(text: str, shell: Callable[[str], str] | None, folder: Path) -> str:
    """
    A page with its tables and outputs made anew.

    `table` marks hold a table, `console` marks a command and what it prints, `run` marks a command that is run unseen,
    and `file` marks stand before a block that is written to `folder`. Without a shell, outputs stay as they are.
    """

    def one(mark: re.Match[str]) -> str:
        if mark["kind"] == "table":
            return f"<!-- table: {mark['what']} -->\n\n{TABLES[mark['what']]()}\n<!-- end -->"
        if mark["kind"] == "console" and shell:
            output = shell(mark["what"])
            return f"<!-- console: {mark['what']} -->\n```console\n$ {mark['what']}\n{output}```\n<!-- end -->"
        if mark["run"] and shell:
            shell(mark["run"])
        if mark["file"]:
            target = folder / mark["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(mark["text"], encoding="utf-8")
        return mark[0]

    return MARK.sub(one, text)


def page(path: Path, *, with_output: bool) -> str:
    """A page as it should be. Its commands run one after another in a folder with the specs of `envs/`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        (folder / "envs").mkdir(parents=True)
        for spec in (ROOT / "envs").glob("*.yaml"):
            shutil.copy(spec, folder / "envs")
        program = Path(name) / "bin" / "lockgen"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lockgen.cli.main "$@"\n', encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        paths = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
        settings = {"PATH": paths, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": COLUMNS, "FORCE_COLOR": "1"}

        def shell(command: str) -> str:
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=folder,
                env={
                    **os.environ,
                    **settings,
                    **({} if "--offline" in command else {"LOCKGEN_SNAPSHOT": str(CHANNELS)}),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            lines = [line.rstrip() for line in ESCAPE.sub("", done.stdout.decode()).splitlines()]
            wrong = next(
                (one for one in ("Traceback", str(ROOT), str(CHANNELS), name) if any(one in line for line in lines)),
                None,
            )
            if wrong:
                raise SystemExit(f"{path}: `{command}` prints `{wrong}`:\n" + "\n".join(lines))
            return "\n".join(lines).strip("\n") + "\n" if any(lines) else ""

        return rendered(path.read_text(encoding="utf-8"), shell if with_output else None, folder)


def everything(*, with_output: bool) -> Iterator[tuple[Path, str]]:
    """Every page that is generated, or holds a mark, with the text it should have."""
    for name, made in PAGES.items():
        yield DOCS / name, made()
    for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))):
        if MARK.search(path.read_text(encoding="utf-8")):
            yield path, page(path, with_output=with_output)


def main() -> int:
    """Write the pages, or with `--check` say which are not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is not current")
    parser.add_argument("--no-output", action="store_true", help="leave the outputs of commands as they are")
    arguments = parser.parse_args()
    with_output = CHANNELS.is_dir() and not arguments.no_output
    if not with_output:
        why = "--no-output" if arguments.no_output else "no ../shared/channels here"
        print(f"outputs of commands are left as they are: {why}", file=sys.stderr)
    stale = 0
    for path, text in everything(with_output=with_output):
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{path.relative_to(ROOT)} {'is not current' if arguments.check else 'written'}")
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
