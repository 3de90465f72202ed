"""The JSON Schema that editors read: current, and of one mind with lockgen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from conftest import ROOT
from spec_text import here, read, write

from lockgen.cli.main import run
from lockgen.errors import LockgenError
from lockgen.spec.model import schema

__all__ = ["here"]
COMMITTED = ROOT / "docs" / "spec.schema.json"


def as_an_editor_reads(text: str) -> Any:
    """Numbers are numbers; dates stay text, as in YAML 1.2."""

    class Editor(yaml.SafeLoader):
        pass

    Editor.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return yaml.load(text, Loader=Editor)


def is_valid(text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(as_an_editor_reads(text)))


def test_the_committed_schema_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert capsys.readouterr().out == COMMITTED.read_text(encoding="utf-8"), (
        "run `lockgen schema > docs/spec.schema.json`"
    )


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", sorted((ROOT / "envs").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_presets_are_valid(path: Path) -> None:
    assert is_valid(path.read_text(encoding="utf-8"))


def described(part: dict[str, Any], path: str) -> list[str]:
    """Keys without a description."""
    keys = part.get("properties", {}).items()
    return [f"{path}.{key}" for key, value in keys if not value.get("description")]


def test_every_key_is_described() -> None:
    whole = schema()
    assert described(whole, "") == []
    assert [key for name, part in whole["$defs"].items() for key in described(part, name)] == []


def test_null_is_never_offered() -> None:
    assert '{"type": "null"}' not in json.dumps(schema())


GOOD = [
    "python: 3.10\n",
    "python: '>=3.12,<3.14'\npytorch: 2\n",
    "cuda: 12.1\n",
    "cuda: '12.1'\n",
    "cuda: 12\n",
    "cuda: none\n",
    "cuda: {version: 12.1, match: exact}\n",
    "pytorch-cuda: 12.1\n",
    "pytorch: 2.9.0+cu121\n",
    "extras: [nlp, {name: jupyter, optional: true}]\n",
    "driver: 535\ncuda: 12.1\ngpus: [V100, 9.0]\n",
    "as-of: 2026-11-30\n",
    "system: {glibc: 2.28, linux: 5.10}\n",
    "image: {base: ubuntu-24.04, env: {A: 1, B: x}, labels: {a.b: 3}, ports: [80]}\n",
    "verify: {steps: 3, seq-len: 8, require-gpu: true}\n",
    "platforms: [linux-64, osx-arm64]\nplatform: {osx-arm64: {cuda: none}}\n",
    "variants: {cpu: {cuda: none}, gpu-2: {pytorch-cuda: 12.6}}\n",
    "matrix: {python: [3.12, 3.13], cuda: [none, 12.6]}\n",
    "channels: [conda-forge, ./own]\nchannel-priority: disabled\n",
    "description: 3\n",
]
BAD = [
    "pytroch: 2.9\n",
    "channel_priority: strict\n",
    "python: three\n",
    "python: [3.12]\n",
    "python:\n",
    "cuda: cu121\n",
    "cuda: {match: exact}\n",
    "cuda: {version: 12.1, match: exakt}\n",
    "cuda: {version: 12.1, mtach: exact}\n",
    "cuda: true\n",
    "extras: nlp\n",
    "extras: [{optional: true}]\n",
    "driver: latest\n",
    "as-of: yesterday\n",
    "system: {glib: 2.28}\n",
    "system: {glibc: new}\n",
    "image: {user: root}\n",
    "image: {env: {1A: x}}\n",
    "image: {ports: [99999]}\n",
    "verify: {steps: 0}\n",
    "platforms: [linux64]\n",
    "platforms: []\n",
    "platform: {osx-arm: {}}\n",
    "variants: {CPU: {}}\n",
    "variants: {cpu: {platforms: [linux-64]}}\n",
    "matrix: {python: 3.12}\n",
    "channels: []\n",
    "channel-priority: flexible\n",
    "name: a b\n",
    "name:\n",
]


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.usefixtures("here")
def test_what_lockgen_reads_is_valid(text: str) -> None:
    read(f"name: a\n{text}")
    assert is_valid(f"name: a\n{text}")


@pytest.mark.parametrize("text", BAD)
@pytest.mark.usefixtures("here")
def test_what_lockgen_refuses_is_not_valid(text: str) -> None:
    whole = text if text.startswith("name") else f"name: a\n{text}"
    write(whole)
    with pytest.raises(LockgenError):
        read(whole)
    assert not is_valid(whole)
