"""Every way a spec can be refused, with the exact text that people read."""
# ruff: noqa: E501 - messages stand here as they are shown

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spec_text import error, here, problems, read, write

from lockgen.errors import LockgenError, SpecError
from lockgen.plan import plan
from lockgen.spec.parse import MOST_PROBLEMS, load

__all__ = ["here"]

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in itertools.pairwise("abcdefghi")
)

UNKNOWN_KEYS = {
    "near": (
        "name: a\npytroch: 2.9\n",
        """\
s.yaml:2:1: unknown key `pytroch`
  2 | pytroch: 2.9
    | ^^^^^^^
  hint: did you mean `pytorch`?""",
    ),
    "far": (
        "name: a\nzzzzz: 2.9\n",
        """\
s.yaml:2:1: unknown key `zzzzz`
  2 | zzzzz: 2.9
    | ^^^^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify""",
    ),
    "underscore": (
        "name: a\nchannel_priority: strict\nas_of: 2026-11-30\n",
        """\
s.yaml:2:1: unknown key `channel_priority`
  2 | channel_priority: strict
    | ^^^^^^^^^^^^^^^^
  hint: did you mean `channel-priority`?

s.yaml:3:1: unknown key `as_of`
  3 | as_of: 2026-11-30
    | ^^^^^
  hint: did you mean `as-of`?""",
    ),
    "cuda": (
        "name: a\ncuda: {verson: 12.1}\n",
        """\
s.yaml:2:8: unknown key `verson`
  2 | cuda: {verson: 12.1}
    |        ^^^^^^
  hint: did you mean `version`?""",
    ),
    "system": (
        "name: a\nsystem: {glib: 2.28}\n",
        """\
s.yaml:2:10: unknown key `glib`
  2 | system: {glib: 2.28}
    |          ^^^^
  hint: did you mean `glibc`?""",
    ),
    "image": (
        "name: a\nimage: {bas: ubuntu-24.04}\n",
        """\
s.yaml:2:9: unknown key `bas`
  2 | image: {bas: ubuntu-24.04}
    |         ^^^
  hint: did you mean `base`?""",
    ),
    "verify": (
        "name: a\nverify: {step: 3, seq_len: 8}\n",
        """\
s.yaml:2:10: unknown key `step`
  2 | verify: {step: 3, seq_len: 8}
    |          ^^^^
  hint: did you mean `steps`?

s.yaml:2:19: unknown key `seq_len`
  2 | verify: {step: 3, seq_len: 8}
    |                   ^^^^^^^
  hint: did you mean `seq-len`?""",
    ),
    "matrix": (
        "name: a\nmatrix: {pyton: [3.12]}\n",
        """\
s.yaml:2:10: unknown key `pyton`
  2 | matrix: {pyton: [3.12]}
    |          ^^^^^
  hint: did you mean `python`?""",
    ),
    "extra": (
        "name: a\nextras: [{nam: nlp}]\n",
        """\
s.yaml:2:11: unknown key `nam`
  2 | extras: [{nam: nlp}]
    |           ^^^
  hint: did you mean `name`?""",
    ),
    "platform": (
        "name: a\nplatform: {linux-64: {cudaa: none}}\n",
        """\
s.yaml:2:23: unknown key `cudaa`
  2 | platform: {linux-64: {cudaa: none}}
    |                       ^^^^^
  hint: did you mean `cuda`?""",
    ),
    "variant": (
        "name: a\nvariants: {cpu: {cudaa: none, platforms: [linux-64]}}\n",
        """\
s.yaml:2:18: unknown key `cudaa`
  2 | variants: {cpu: {cudaa: none, platforms: [linux-64]}}
    |                  ^^^^^
  hint: did you mean `cuda`?

s.yaml:2:31: unknown key `platforms`
  2 | variants: {cpu: {cudaa: none, platforms: [linux-64]}}
    |                               ^^^^^^^^^
  hint: `platforms` can be set only at the top of the spec""",
    ),
    "top-only": (
        "name: a\nplatform: {linux-64: {name: b}}\n",
        """\
s.yaml:2:23: unknown key `name`
  2 | platform: {linux-64: {name: b}}
    |                       ^^^^
  hint: `name` can be set only at the top of the spec""",
    ),
    "pip": (
        "name: a\npip: [vllm]\n",
        """\
s.yaml:2:1: unknown key `pip`
  2 | pip: [vllm]
    | ^^^
  hint: lockgen locks conda packages: look for the package's conda name and list it in `dependencies`""",
    ),
    "no-name": (
        "python: 3.12\n",
        """\
s.yaml:1:1: missing key `name`
  1 | python: 3.12
    | ^
  hint: add `name: …`""",
    ),
    "no-version": (
        "name: a\ncuda: {match: exact}\n",
        """\
s.yaml:2:7: missing key `version`
  2 | cuda: {match: exact}
    |       ^
  hint: add `version: …`""",
    ),
    "no-extra-name": (
        "name: a\nextras: [{optional: true}]\n",
        """\
s.yaml:2:10: missing key `name`
  2 | extras: [{optional: true}]
    |          ^
  hint: add `name: …`""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), UNKNOWN_KEYS.values(), ids=UNKNOWN_KEYS)
@pytest.mark.usefixtures("here")
def test_unknown_keys(text: str | bytes, expected: str) -> None:
    """Unknown keys at every level, with the nearest known one."""
    assert error(text) == expected


WRONG_TYPES = {
    "text": (
        "name: a\ndescription: [a]\ndriver: {a: b}\n",
        """\
s.yaml:2:14: `description` is a list, expected text
  2 | description: [a]
    |              ^

s.yaml:3:9: `driver` is a mapping, expected text
  3 | driver: {a: b}
    |         ^""",
    ),
    "several-versions": (
        "name: a\npython: [3.12, 3.13]\n",
        """\
s.yaml:2:9: `python` is a list, expected text
  2 | python: [3.12, 3.13]
    |         ^
  hint: several versions? write `matrix: {python: [3.12, 3.13]}`""",
    ),
    "several-cuda": (
        "name: a\ncuda: [12.1, 12.6]\n",
        """\
s.yaml:2:7: `cuda` is a list, expected a version, `none` or a mapping with `version` and `match`
  2 | cuda: [12.1, 12.6]
    |       ^
  hint: several versions? write `matrix: {cuda: [12.1, 12.6]}`""",
    ),
    "list": (
        "name: a\nchannels: conda-forge\nextras: nlp\nplatforms: linux-64\ngpus: V100\nextends: base.yaml\n",
        """\
s.yaml:2:11: `channels` is `conda-forge`, expected a list, such as `[a, b]`
  2 | channels: conda-forge
    |           ^^^^^^^^^^^
  hint: write `[conda-forge]`

s.yaml:3:9: `extras` is `nlp`, expected a list, such as `[a, b]`
  3 | extras: nlp
    |         ^^^
  hint: write `[nlp]`

s.yaml:4:12: `platforms` is `linux-64`, expected a list, such as `[a, b]`
  4 | platforms: linux-64
    |            ^^^^^^^^
  hint: write `[linux-64]`

s.yaml:5:7: `gpus` is `V100`, expected a list, such as `[a, b]`
  5 | gpus: V100
    |       ^^^^
  hint: write `[V100]`

s.yaml:6:10: `extends` is `base.yaml`, expected a list, such as `[a, b]`
  6 | extends: base.yaml
    |          ^^^^^^^^^
  hint: write `[base.yaml]`""",
    ),
    "list-from-mapping": (
        "name: a\ndependencies: {numpy: 1}\n",
        """\
s.yaml:2:15: `dependencies` is a mapping, expected a list, such as `[a, b]`
  2 | dependencies: {numpy: 1}
    |               ^""",
    ),
    "mapping": (
        "name: a\nsystem: 3\nimage: x\nverify: [1]\nmatrix: x\nvariants: [cpu]\nplatform: x\n",
        """\
s.yaml:2:9: `system` is `3`, expected a mapping of `key: value` lines
  2 | system: 3
    |         ^

s.yaml:3:8: `image` is `x`, expected a mapping of `key: value` lines
  3 | image: x
    |        ^

s.yaml:4:9: `verify` is a list, expected a mapping of `key: value` lines
  4 | verify: [1]
    |         ^

s.yaml:5:9: `matrix` is `x`, expected a mapping of `key: value` lines
  5 | matrix: x
    |         ^

s.yaml:6:11: `variants` is a list, expected a mapping of `key: value` lines
  6 | variants: [cpu]
    |           ^

s.yaml:7:11: `platform` is `x`, expected a mapping of `key: value` lines
  7 | platform: x
    |           ^""",
    ),
    "number": (
        "name: a\nverify: {steps: abc, batch: 1.5}\n",
        """\
s.yaml:2:17: `steps` is `abc`, expected a whole number
  2 | verify: {steps: abc, batch: 1.5}
    |                 ^^^

s.yaml:2:29: `batch` is `1.5`, expected a whole number
  2 | verify: {steps: abc, batch: 1.5}
    |                             ^^^""",
    ),
    "bounds": (
        "name: a\nverify: {steps: 0, seq-len: 513}\nimage: {ports: [0, 99999]}\n",
        """\
s.yaml:2:17: `steps` is `0`, expected 1 or more
  2 | verify: {steps: 0, seq-len: 513}
    |                 ^

s.yaml:2:29: `seq-len` is `513`, expected 512 or less
  2 | verify: {steps: 0, seq-len: 513}
    |                             ^^^

s.yaml:3:17: an item of `ports` is `0`, expected 1 or more
  3 | image: {ports: [0, 99999]}
    |                 ^

s.yaml:3:20: an item of `ports` is `99999`, expected 65535 or less
  3 | image: {ports: [0, 99999]}
    |                    ^^^^^""",
    ),
    "huge": (
        "name: a\nverify: {steps: 99999999999999999999999}\n",
        """\
s.yaml:2:17: `steps` is `99999999999999999999999`, expected 10000000 or less
  2 | verify: {steps: 99999999999999999999999}
    |                 ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "yes-or-no": (
        "name: a\nverify: {require-gpu: maybe}\nextras: [{name: nlp, optional: 3}]\n",
        """\
s.yaml:2:23: `require-gpu` is `maybe`, expected `true` or `false`
  2 | verify: {require-gpu: maybe}
    |                       ^^^^^

s.yaml:3:32: `optional` is `3`, expected `true` or `false`
  3 | extras: [{name: nlp, optional: 3}]
    |                                ^""",
    ),
    "booleans": (
        "name: yes\ndescription: off\nchannels: [on]\nverify: {model: true}\n",
        """\
s.yaml:1:7: `name` is `yes`, which YAML reads as true, expected text
  1 | name: yes
    |       ^^^
  hint: put it in quotes if it is text

s.yaml:2:14: `description` is `off`, which YAML reads as false, expected text
  2 | description: off
    |              ^^^
  hint: put it in quotes if it is text

s.yaml:3:12: an item of `channels` is `on`, which YAML reads as true, expected text
  3 | channels: [on]
    |            ^^
  hint: put it in quotes if it is text

s.yaml:4:17: `model` is `true`, expected text
  4 | verify: {model: true}
    |                 ^^^^
  hint: put it in quotes if it is text""",
    ),
    "cuda-no": (
        "name: a\ncuda: no\n",
        """\
s.yaml:2:7: `cuda` is `no`, which YAML reads as false, expected a version, `none` or a mapping with `version` and `match`
  2 | cuda: no
    |       ^^
  hint: write `none` for CPU builds""",
    ),
    "extras": (
        "name: a\nextras: [[nlp], no]\n",
        """\
s.yaml:2:10: an item of `extras` is a list, expected a name or a mapping with `name` and `optional`
  2 | extras: [[nlp], no]
    |          ^

s.yaml:2:17: an item of `extras` is `no`, which YAML reads as false, expected a name or a mapping with `name` and `optional`
  2 | extras: [[nlp], no]
    |                 ^^
  hint: put it in quotes if it is text""",
    ),
    "pip-section": (
        "name: a\ndependencies:\n  - pip:\n    - vllm\n",
        """\
s.yaml:3:5: an item of `dependencies` is a mapping, expected text
  3 |   - pip:
    |     ^
  hint: lockgen locks conda packages: look for the package's conda name and list it in `dependencies`""",
    ),
    "empty-lists": (
        "name: a\nchannels: []\nplatforms: []\n",
        """\
s.yaml:2:11: `channels` is empty
  2 | channels: []
    |           ^
  hint: leave the key out to get the default

s.yaml:3:12: `platforms` is empty
  3 | platforms: []
    |            ^
  hint: leave the key out to get the default""",
    ),
    "priority": (
        "name: a\nchannel-priority: flexible\n",
        """\
s.yaml:2:19: `channel-priority` cannot be `flexible`
  2 | channel-priority: flexible
    |                   ^^^^^^^^
  hint: expected `strict` or `disabled`""",
    ),
    "match": (
        "name: a\ncuda: {version: 12.1, match: exakt}\n",
        """\
s.yaml:2:30: `match` cannot be `exakt`
  2 | cuda: {version: 12.1, match: exakt}
    |                              ^^^^^
  hint: expected `compatible` or `exact`""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG_TYPES.values(), ids=WRONG_TYPES)
@pytest.mark.usefixtures("here")
def test_wrong_types(text: str | bytes, expected: str) -> None:
    """A value of another kind than the key takes."""
    assert error(text) == expected


WRONG_VALUES = {
    "python": (
        "name: a\npython: three\n",
        """\
s.yaml:2:9: not a version of python: `three`
  2 | python: three
    |         ^^^^^
  hint: write `3.13`, exact `3.13.1`, or a range such as `>=3.12,<3.14`""",
    ),
    "pytorch": (
        "name: a\npytorch: '>=2.9,<'\n",
        """\
s.yaml:2:10: not a version of pytorch: `>=2.9,<`
  2 | pytorch: '>=2.9,<'
    |          ^^^^^^^^^
  hint: write `2.9`, exact `2.9.1`, or a range such as `>=2.8,<2.10`""",
    ),
    "rocm": (
        "name: a\npytorch: 2.9.0+rocm6.2\n",
        """\
s.yaml:2:10: conda has no `+…` versions of pytorch: `2.9.0+rocm6.2`
  2 | pytorch: 2.9.0+rocm6.2
    |          ^^^^^^^^^^^^^
  hint: write `2.9.0`; `cuda` is a key of its own""",
    ),
    "huge-version": (
        "name: a\n"
        "python: 99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999\n",
        """\
s.yaml:2:9: not a version of python: `99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999`
  2 | python: 99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999…
    |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: write `3.13`, exact `3.13.1`, or a range such as `>=3.12,<3.14`""",
    ),
    "unknown-cuda": (
        "name: a\ncuda: 12.7\n",
        """\
s.yaml:2:7: unknown CUDA version: `12.7`
  2 | cuda: 12.7
    |       ^^^^
  hint: known: 11.7, 11.8, 12.0, 12.1, 12.2, 12.3, 12.4, 12.5, 12.6, 12.8, 12.9, 13.0, 13.1, 13.2""",
    ),
    "not-cuda": (
        "name: a\ncuda: cu121\n",
        """\
s.yaml:2:7: not a CUDA version: `cu121`
  2 | cuda: cu121
    |       ^^^^^
  hint: write `"12.1"`, or `none` for CPU builds""",
    ),
    "cuda-range": (
        "name: a\ncuda: {version: '>=12.1'}\n",
        """\
s.yaml:2:17: not a CUDA version: `>=12.1`
  2 | cuda: {version: '>=12.1'}
    |                 ^^^^^^^^
  hint: write `"12.1"`, or `none` for CPU builds""",
    ),
    "driver": (
        "name: a\ncuda: 12.1\ndriver: '<535'\n",
        """\
s.yaml:3:9: not a driver version: `<535`
  3 | driver: '<535'
    |         ^^^^^^
  hint: write `">=535"`, the oldest NVIDIA driver of the machines""",
    ),
    "gpu": (
        "name: a\ncuda: 12.1\ngpus: [H20O, '99.9']\n",
        """\
s.yaml:3:8: unknown GPU: `H20O`
  3 | gpus: [H20O, '99.9']
    |        ^^^^
  hint: did you mean `H20`?

s.yaml:3:14: unknown GPU: `99.9`
  3 | gpus: [H20O, '99.9']
    |              ^^^^^^
  hint: write a name such as `H200`, or a compute capability: `9.0`""",
    ),
    "platforms": (
        "name: a\nplatforms: [linux64, plan9]\n",
        """\
s.yaml:2:13: unknown platform: `linux64`
  2 | platforms: [linux64, plan9]
    |             ^^^^^^^
  hint: did you mean `linux-64`?

s.yaml:2:22: unknown platform: `plan9`
  2 | platforms: [linux64, plan9]
    |                      ^^^^^
  hint: known: linux-64, linux-aarch64, osx-64, osx-arm64, win-64""",
    ),
    "platform": (
        "name: a\nplatform: {osx-arm: {cuda: none}}\n",
        """\
s.yaml:2:12: unknown platform: `osx-arm`
  2 | platform: {osx-arm: {cuda: none}}
    |            ^^^^^^^
  hint: did you mean `osx-arm64`?""",
    ),
    "image": (
        "name: a\nimage: {base: debian-bookworm}\n",
        """\
s.yaml:2:15: unknown base image: `debian-bookworm`
  2 | image: {base: debian-bookworm}
    |               ^^^^^^^^^^^^^^^
  hint: did you mean `debian-bookworm-slim`?""",
    ),
    "image-digest": (
        "name: a\nimage: {base: 'example.org/base@sha256:abc'}\n",
        """\
s.yaml:2:15: unknown base image: `example.org/base@sha256:abc`
  2 | image: {base: 'example.org/base@sha256:abc'}
    |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: known: debian-bookworm-slim, debian-trixie-slim, nvidia-cuda-12.1-base, nvidia-cuda-12.8-base, nvidia-cuda-13.0-base, ubuntu-24.04; or a reference with its digest: `name@sha256:…`""",
    ),
    "image-keys": (
        'name: a\nimage: {user: root, workdir: rel, env: {1A: x}, labels: {a: "b\\nc"}}\n',
        """\
s.yaml:2:15: not a user and a group: `root`
  2 | image: {user: root, workdir: rel, env: {1A: x}, labels: {a: "b\\nc"}}
    |               ^^^^
  hint: write two numbers: `"1000:1000"`

s.yaml:2:30: not a folder of the image: `rel`
  2 | image: {user: root, workdir: rel, env: {1A: x}, labels: {a: "b\\nc"}}
    |                              ^^^
  hint: write an absolute path: `/work`, without spaces

s.yaml:2:41: not a name of a variable: `1A`
  2 | image: {user: root, workdir: rel, env: {1A: x}, labels: {a: "b\\nc"}}
    |                                         ^^
  hint: letters, digits and `_`, no digit first

s.yaml:2:61: a line end or a control character in a value of the image
  2 | image: {user: root, workdir: rel, env: {1A: x}, labels: {a: "b\\nc"}}
    |                                                             ^^^^^^
  hint: write it in one line""",
    ),
    "system": (
        "name: a\nsystem: {glibc: 2.x, linux: new, macos: 11.a, archspec: X86}\n",
        """\
s.yaml:2:17: not a glibc version: `2.x`
  2 | system: {glibc: 2.x, linux: new, macos: 11.a, archspec: X86}
    |                 ^^^
  hint: write two numbers: `2.28`

s.yaml:2:29: not a version: `new`
  2 | system: {glibc: 2.x, linux: new, macos: 11.a, archspec: X86}
    |                             ^^^
  hint: write numbers: `5.10`

s.yaml:2:41: not a version: `11.a`
  2 | system: {glibc: 2.x, linux: new, macos: 11.a, archspec: X86}
    |                                         ^^^^
  hint: write numbers: `5.10`

s.yaml:2:57: not a microarchitecture: `X86`
  2 | system: {glibc: 2.x, linux: new, macos: 11.a, archspec: X86}
    |                                                         ^^^
  hint: write a name such as `x86_64_v3`""",
    ),
    "date": (
        "name: a\nas-of: yesterday\n",
        """\
s.yaml:2:8: not a date: `yesterday`
  2 | as-of: yesterday
    |        ^^^^^^^^^
  hint: write `2026-11-30` or `2026-11-30T12:00:00Z`""",
    ),
    "no-such-day": (
        "name: a\nas-of: 2026-02-30\n",
        """\
s.yaml:2:8: not a date: `2026-02-30`
  2 | as-of: 2026-02-30
    |        ^^^^^^^^^^
  hint: write `2026-11-30` or `2026-11-30T12:00:00Z`""",
    ),
    "after-time": (
        "name: a\nas-of: '9999-12-31T23:59:59-23:00'\n",
        """\
s.yaml:2:8: not a date: `9999-12-31T23:59:59-23:00`
  2 | as-of: '9999-12-31T23:59:59-23:00'
    |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: write `2026-11-30` or `2026-11-30T12:00:00Z`""",
    ),
    "week": (
        "name: a\nas-of: 2026-W01\n",
        """\
s.yaml:2:8: not a date: `2026-W01`
  2 | as-of: 2026-W01
    |        ^^^^^^^^
  hint: write `2026-11-30` or `2026-11-30T12:00:00Z`""",
    ),
    "channel": (
        "name: a\nchannels: [a b, '']\n",
        """\
s.yaml:2:12: not a channel: `a b`
  2 | channels: [a b, '']
    |            ^^^
  hint: write a name, a URL or a path

s.yaml:2:17: not a channel: ``
  2 | channels: [a b, '']
    |                 ^^
  hint: write a name, a URL or a path""",
    ),
    "name": (
        "name: ../../etc/passwd\n",
        """\
s.yaml:1:7: not a name: `../../etc/passwd`
  1 | name: ../../etc/passwd
    |       ^^^^^^^^^^^^^^^^
  hint: letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first""",
    ),
    "long-name": (
        "name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
        """\
s.yaml:1:7: not a name: `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`
  1 | name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…
    |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first""",
    ),
    "platforms-of-others": (
        "name: a\nplatforms: [linux-arm64, macos, windows, Linux/amd64, win, linux-x86_64]\n",
        "\n\n".join(
            f"s.yaml:2:{column}: unknown platform: `{name}`\n"
            "  2 | platforms: [linux-arm64, macos, windows, Linux/amd64, win, linux-x86_64]\n"
            f"    | {' ' * (column - 1)}{'^' * len(name)}\n"
            f"  hint: conda calls it {meant}"
            for column, name, meant in [
                (13, "linux-arm64", "`linux-aarch64`"),
                (26, "macos", "`osx-arm64` or `osx-64`"),
                (33, "windows", "`win-64`"),
                (42, "Linux/amd64", "`linux-64`"),
                (55, "win", "`win-64`"),
                (60, "linux-x86_64", "`linux-64`"),
            ]
        ),
    ),
    "cuda-exact": (
        'name: a\ncuda: "12.1 exact"\nvariants: {one: {cuda: "12.1 (exact)"}}\n',
        """\
s.yaml:2:7: not a CUDA version: `12.1 exact`
  2 | cuda: "12.1 exact"
    |       ^^^^^^^^^^^^
  hint: write `cuda: {version: "12.1", match: exact}`

s.yaml:3:24: not a CUDA version: `12.1 (exact)`
  3 | variants: {one: {cuda: "12.1 (exact)"}}
    |                        ^^^^^^^^^^^^^^
  hint: write `cuda: {version: "12.1", match: exact}`""",
    ),
    "name-escape": (
        'name: "a\\e[31mb"\n',
        """\
s.yaml:1:7: not a name: `a\\x1b[31mb`
  1 | name: "a\\e[31mb"
    |       ^^^^^^^^^^
  hint: letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first""",
    ),
    "variants": (
        "name: a\nvariants: {My Box: {cuda: none}, default: {cuda: none}}\n",
        """\
s.yaml:2:12: not a variant's name: `My Box`
  2 | variants: {My Box: {cuda: none}, default: {cuda: none}}
    |            ^^^^^^
  hint: write `my-box`: lower-case letters and digits, with `-` between them

s.yaml:2:34: `default` is not free as a variant's name
  2 | variants: {My Box: {cuda: none}, default: {cuda: none}}
    |                                  ^^^^^^^""",
    ),
    "matrix": (
        "name: a\nmatrix: {python: 3.12, cuda: [abc]}\n",
        """\
s.yaml:2:18: `python` is `3.12`, expected a list, such as `[a, b]`
  2 | matrix: {python: 3.12, cuda: [abc]}
    |                  ^^^^
  hint: write `[3.12]`

s.yaml:2:31: not a CUDA version: `abc`
  2 | matrix: {python: 3.12, cuda: [abc]}
    |                               ^^^
  hint: write `"12.1"`, or `none` for CPU builds""",
    ),
    "matrix-twice": (
        "name: a\nmatrix: {python: [3.12, '3.12']}\n",
        """\
s.yaml:2:25: two variants are named `py312`
  2 | matrix: {python: [3.12, '3.12']}
    |                         ^^^^^^
  hint: each combination of the matrix needs a name that no other variant has""",
    ),
    "matrix-and-variants": (
        "name: a\nvariants: {py312: {}}\nmatrix: {python: [3.12]}\n",
        """\
s.yaml:3:19: two variants are named `py312`
  3 | matrix: {python: [3.12]}
    |                   ^^^^
  hint: each combination of the matrix needs a name that no other variant has""",
    ),
    "matrix-size": (
        "name: a\n"
        "matrix: {python: [3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 3.10], cuda: [12.1, 12.1, 12.1, 12.1, 12.1, 12.1, 12.1, 12.1, 12.1, 12.1]}\n",
        """\
s.yaml:2:1: the matrix makes 110 variants, at most 100 are locked
  2 | matrix: {python: [3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 3.10], cuda: [12.1, 12.1, 12.1, …
    | ^^^^^^""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG_VALUES.values(), ids=WRONG_VALUES)
@pytest.mark.usefixtures("here")
def test_wrong_values(text: str | bytes, expected: str) -> None:
    """Values that mean nothing."""
    assert error(text) == expected


MATCH_SPECS = {
    "pip-options": (
        "name: a\ndependencies:\n  - -e .\n  - -r requirements.txt\n",
        """\
s.yaml:3:5: bad match spec `-e .`: unable to parse version spec: .
  3 |   - -e .
    |     ^^^^
  hint: that is an option of pip: list each package by its conda name

s.yaml:4:5: bad match spec `-r requirements.txt`: missing range specifier for 'requirements.txt'. Did you mean '==requirements.txt' or 'requirements.txt.*'?
  4 |   - -r requirements.txt
    |     ^^^^^^^^^^^^^^^^^^^
  hint: that is an option of pip: list each package by its conda name""",
    ),
    "pip-source": (
        "name: a\ndependencies:\n  - git+https://example.org/a\n",
        """\
s.yaml:3:5: bad match spec `git+https://example.org/a`: invalid package name '//example.org/a': '//example.org/a' is not a valid package name. Package names can only contain 0…
  3 |   - git+https://example.org/a
    |     ^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: that is pip's way to name a source: list a package that a channel has; `lockgen channel build` makes a channel of your own from wheels""",
    ),
    "pip-extra-with-version": (
        "name: a\ndependencies:\n  - a[b]>=4\n",
        """\
s.yaml:3:5: bad match spec `a[b]>=4`: invalid package name 'a[b]': 'a[b]' is not a valid package name. Package names can only contain 0-9, a-z, A-Z, -, _, or…
  3 |   - a[b]>=4
    |     ^^^^^^^
  hint: conda packages have no extras in brackets: list what the extra needs as packages""",
    ),
    "bare": (
        "name: a\ndependencies:\n  - numpy 1.26\n",
        """\
s.yaml:3:5: bad match spec `numpy 1.26`: missing range specifier for '1.26'. Did you mean '==1.26' or '1.26.*'?
  3 |   - numpy 1.26
    |     ^^^^^^^^^^
  hint: write `numpy 1.26.*`, or `==` before an exact version""",
    ),
    "brackets": (
        "name: a\ndependencies:\n  - transformers[torch]\n",
        """\
s.yaml:3:5: bad match spec `transformers[torch]`: invalid bracket
  3 |   - transformers[torch]
    |     ^^^^^^^^^^^^^^^^^^^
  hint: conda packages have no extras in brackets: list what the extra needs as packages""",
    ),
    "range": (
        "name: a\ndependencies:\n  - foo >=1,<\n",
        """\
s.yaml:3:5: bad match spec `foo >=1,<`: unable to parse version spec: >=1,<
  3 |   - foo >=1,<
    |     ^^^^^^^^^
  hint: the form is `name`, `name >=1.2,<2` or `name 1.2.* build*`""",
    ),
    "empty": (
        "name: a\ndependencies: ['']\n",
        """\
s.yaml:2:16: bad match spec ``: it names no package
  2 | dependencies: ['']
    |                ^^
  hint: the form is `name`, `name >=1.2,<2` or `name 1.2.* build*`""",
    ),
    "glob": (
        "name: a\ndependencies: ['*']\n",
        """\
s.yaml:2:16: bad match spec `*`: "*" looks like a glob but only exact package names are allowed, package names can only contain 0-9, a-z, A-Z, -, _, or .
  2 | dependencies: ['*']
    |                ^^^
  hint: the form is `name`, `name >=1.2,<2` or `name 1.2.* build*`""",
    ),
    "constraint": (
        "name: a\nconstraints: [a b c d]\n",
        """\
s.yaml:2:15: bad match spec `a b c d`: the build string 'c d' is not valid, it can only contain alphanumeric characters and underscores
  2 | constraints: [a b c d]
    |               ^^^^^^^
  hint: the form is `name`, `name >=1.2,<2` or `name 1.2.* build*`""",
    ),
    "license": (
        "name: a\ndependencies: ['numpy[license=MIT]']\n",
        """\
s.yaml:2:16: bad match spec `numpy[license=MIT]`: unsupported bracket key: `license`
  2 | dependencies: ['numpy[license=MIT]']
    |                ^^^^^^^^^^^^^^^^^^^^
  hint: the keys are `version`, `build`, `build_number`, `channel`, `subdir`, `url`, `md5`, `sha256`""",
    ),
    "file-name": (
        "name: a\ndependencies: ['numpy[fn=numpy-2.0-0.conda]']\n",
        """\
s.yaml:2:16: bad match spec `numpy[fn=numpy-2.0-0.conda]`: unsupported bracket key: `fn`
  2 | dependencies: ['numpy[fn=numpy-2.0-0.conda]']
    |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: the keys are `version`, `build`, `build_number`, `channel`, `subdir`, `url`, `md5`, `sha256`""",
    ),
    "namespace": (
        "name: a\ndependencies: ['conda-forge:ns:numpy']\n",
        """\
s.yaml:2:16: bad match spec `conda-forge:ns:numpy`: unsupported bracket key: `namespace`
  2 | dependencies: ['conda-forge:ns:numpy']
    |                ^^^^^^^^^^^^^^^^^^^^^^
  hint: the keys are `version`, `build`, `build_number`, `channel`, `subdir`, `url`, `md5`, `sha256`""",
    ),
    "optional": (
        "name: a\ndependencies: ['numpy[optional=true]']\n",
        """\
s.yaml:2:16: bad match spec `numpy[optional=true]`: invalid bracket key: optional
  2 | dependencies: ['numpy[optional=true]']
    |                ^^^^^^^^^^^^^^^^^^^^^^
  hint: the keys are `version`, `build`, `build_number`, `channel`, `subdir`, `url`, `md5`, `sha256`""",
    ),
    "when": (
        "name: a\ndependencies: ['numpy[when=\"python >=3\"]']\n",
        """\
s.yaml:2:16: bad match spec `numpy[when="python >=3"]`: unsupported bracket key: `when`
  2 | dependencies: ['numpy[when="python >=3"]']
    |                ^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: list what one platform or variant needs under `platform` or `variants`""",
    ),
    "extras": (
        "name: a\ndependencies: ['numpy[extras=[a,b]]']\n",
        """\
s.yaml:2:16: bad match spec `numpy[extras=[a,b]]`: unsupported bracket key: `extras`
  2 | dependencies: ['numpy[extras=[a,b]]']
    |                ^^^^^^^^^^^^^^^^^^^^^
  hint: conda packages have no extras in brackets: list what the extra needs as packages""",
    ),
    "glibc": (
        "name: a\ndependencies: ['__glibc >=2.17']\n",
        """\
s.yaml:2:16: bad match spec `__glibc >=2.17`: it is a virtual package, which no channel has
  2 | dependencies: ['__glibc >=2.17']
    |                ^^^^^^^^^^^^^^^^
  hint: set the key `system.glibc`""",
    ),
    "win": (
        "name: a\ndependencies: ['__win']\n",
        """\
s.yaml:2:16: bad match spec `__win`: it is a virtual package, which no channel has
  2 | dependencies: ['__win']
    |                ^^^^^^^
  hint: virtual packages follow from `platforms`, `cuda` and `system`""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), MATCH_SPECS.values(), ids=MATCH_SPECS)
@pytest.mark.usefixtures("here")
def test_match_specs(text: str | bytes, expected: str) -> None:
    """Match specs, checked by the solver's own parser."""
    assert error(text) == expected


UNKNOWN_EXTRAS = {
    "near": (
        "name: a\nextras: [npl]\n",
        """\
s.yaml:2:10: unknown extra: `npl`
  2 | extras: [npl]
    |          ^^^
  hint: did you mean `nlp`?""",
    ),
    "far": (
        "name: a\nextras: [{name: quantum}]\n",
        """\
s.yaml:2:17: unknown extra: `quantum`
  2 | extras: [{name: quantum}]
    |                 ^^^^^^^
  hint: known: audio, jupyter, llm, monitor, nlp, nlp-zh, profile, serve, ssh, tools, vscode; one of your own is a file `extras/quantum.toml` beside the spec""",
    ),
    "path": (
        "name: a\nextras: [../../etc/passwd]\n",
        """\
s.yaml:2:10: unknown extra: `../../etc/passwd`
  2 | extras: [../../etc/passwd]
    |          ^^^^^^^^^^^^^^^^
  hint: known: audio, jupyter, llm, monitor, nlp, nlp-zh, profile, serve, ssh, tools, vscode""",
    ),
    "in-overlays": (
        "name: a\nplatform: {linux-64: {extras: [npl]}}\nvariants: {x: {extras: [jupiter]}}\n",
        """\
s.yaml:2:32: unknown extra: `npl`
  2 | platform: {linux-64: {extras: [npl]}}
    |                                ^^^
  hint: did you mean `nlp`?

s.yaml:3:25: unknown extra: `jupiter`
  3 | variants: {x: {extras: [jupiter]}}
    |                         ^^^^^^^
  hint: did you mean `jupyter`?""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), UNKNOWN_EXTRAS.values(), ids=UNKNOWN_EXTRAS)
@pytest.mark.usefixtures("here")
def test_unknown_extras(text: str | bytes, expected: str) -> None:
    """Extras that nobody knows."""
    assert error(text) == expected


NO_VALUE = {
    "keys": (
        "name:\n"
        "python:\n"
        "pytorch:\n"
        "cuda:\n"
        "driver:\n"
        "gpus:\n"
        "channels:\n"
        "channel-priority:\n"
        "extras:\n"
        "dependencies:\n"
        "constraints:\n"
        "as-of:\n"
        "system:\n"
        "image:\n"
        "verify:\n"
        "description:\n"
        "extends:\n"
        "platforms:\n"
        "platform:\n"
        "variants:\n"
        "matrix:\n",
        """\
s.yaml:1:1: `name` has no value
  1 | name:
    | ^^^^
  hint: write a value, or leave the key out

s.yaml:2:1: `python` has no value
  2 | python:
    | ^^^^^^
  hint: write a value, or leave the key out

s.yaml:3:1: `pytorch` has no value
  3 | pytorch:
    | ^^^^^^^
  hint: write a value, or leave the key out

s.yaml:4:1: `cuda` has no value
  4 | cuda:
    | ^^^^
  hint: write a value, or leave the key out

s.yaml:5:1: `driver` has no value
  5 | driver:
    | ^^^^^^
  hint: write a value, or leave the key out

s.yaml:6:1: `gpus` has no value
  6 | gpus:
    | ^^^^
  hint: write a value, or leave the key out

s.yaml:7:1: `channels` has no value
  7 | channels:
    | ^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:8:1: `channel-priority` has no value
  8 | channel-priority:
    | ^^^^^^^^^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:9:1: `extras` has no value
  9 | extras:
    | ^^^^^^
  hint: write a value, or leave the key out

s.yaml:10:1: `dependencies` has no value
  10 | dependencies:
     | ^^^^^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:11:1: `constraints` has no value
  11 | constraints:
     | ^^^^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:12:1: `as-of` has no value
  12 | as-of:
     | ^^^^^
  hint: write a value, or leave the key out

s.yaml:13:1: `system` has no value
  13 | system:
     | ^^^^^^
  hint: write a value, or leave the key out

s.yaml:14:1: `image` has no value
  14 | image:
     | ^^^^^
  hint: write a value, or leave the key out

s.yaml:15:1: `verify` has no value
  15 | verify:
     | ^^^^^^
  hint: write a value, or leave the key out

s.yaml:16:1: `description` has no value
  16 | description:
     | ^^^^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:17:1: `extends` has no value
  17 | extends:
     | ^^^^^^^
  hint: write a value, or leave the key out

s.yaml:18:1: `platforms` has no value
  18 | platforms:
     | ^^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:19:1: `platform` has no value
  19 | platform:
     | ^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:20:1: `variants` has no value
  20 | variants:
     | ^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:21:1: `matrix` has no value
  21 | matrix:
     | ^^^^^^
  hint: write a value, or leave the key out""",
    ),
    "alias": (
        "name: a\npytorch-cuda: ~\n",
        """\
s.yaml:2:1: `pytorch-cuda` has no value
  2 | pytorch-cuda: ~
    | ^^^^^^^^^^^^
  hint: write a value, or leave the key out""",
    ),
    "nested": (
        "name: a\ncuda: {version: null}\nvariants: {cpu: }\nplatform: {linux-64: }\nimage: {env: {A: }}\n",
        """\
s.yaml:2:8: `version` has no value
  2 | cuda: {version: null}
    |        ^^^^^^^
  hint: write a value, or leave the key out

s.yaml:3:12: `cpu` has no value
  3 | variants: {cpu: }
    |            ^^^
  hint: write a value, or leave the key out

s.yaml:4:12: `linux-64` has no value
  4 | platform: {linux-64: }
    |            ^^^^^^^^
  hint: write a value, or leave the key out

s.yaml:5:15: `A` has no value
  5 | image: {env: {A: }}
    |               ^
  hint: write a value, or leave the key out""",
    ),
    "items": (
        "name: a\ndependencies: [~, null]\n",
        """\
s.yaml:2:16: an item of `dependencies` has no value
  2 | dependencies: [~, null]
    |                ^
  hint: write a value, or leave the item out

s.yaml:2:19: an item of `dependencies` has no value
  2 | dependencies: [~, null]
    |                   ^^^^
  hint: write a value, or leave the item out""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), NO_VALUE.values(), ids=NO_VALUE)
@pytest.mark.usefixtures("here")
def test_no_value(text: str | bytes, expected: str) -> None:
    """Keys and items without a value."""
    assert error(text) == expected


BROKEN_YAML = {
    "duplicate": (
        "name: a\npython: 3.12\npython: 3.13\npython: 3.14\n",
        """\
s.yaml:3:1: duplicate key `python`
  3 | python: 3.13
    | ^^^^^^
  hint: it is already set on line 2

s.yaml:4:1: duplicate key `python`
  4 | python: 3.14
    | ^^^^^^
  hint: it is already set on line 2""",
    ),
    "duplicate-below": (
        "name: a\nsystem: {glibc: 2.28, glibc: 2.17}\n",
        """\
s.yaml:2:23: duplicate key `glibc`
  2 | system: {glibc: 2.28, glibc: 2.17}
    |                       ^^^^^
  hint: it is already set on line 2""",
    ),
    "tab-indentation": (
        "name: a\nsystem:\n\tglibc: 2.28\n",
        """\
s.yaml:3:1: a tab in the indentation
  3 |  glibc: 2.28
    | ^
  hint: YAML takes spaces only""",
    ),
    "tab-after-colon": (
        "name: a\npython:\t3.13\n",
        """\
s.yaml:2:8: not YAML: a tab
  2 | python: 3.13
    |        ^
  hint: YAML takes spaces only""",
    ),
    "tab-elsewhere": (
        "name: 'a\tb'\nb: [\n",
        """\
s.yaml:2:5: not YAML: the text ends where a value is expected
  2 | b: [
    |     ^
  hint: a bracket without its pair?""",
    ),
    "bomb": (
        BOMB,
        """\
s.yaml:1:24: more than 5,000 values, which is too much for a spec
  1 | a: &a [x,x,x,x,x,x,x,x,x,x]
    |                        ^
  hint: are there anchors that repeat each other?""",
    ),
    "recursive-list": (
        "name: &a [*a]\n",
        """\
s.yaml:1:7: an anchor that contains itself
  1 | name: &a [*a]
    |       ^
  hint: write the value out in place of the alias `*…`""",
    ),
    "recursive-mapping": (
        "name: &a {b: *a}\n",
        """\
s.yaml:1:7: an anchor that contains itself
  1 | name: &a {b: *a}
    |       ^
  hint: write the value out in place of the alias `*…`""",
    ),
    "deep": (
        "name: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
        """\
s.yaml:1:56: more than 50 levels, which is too much for a spec
  1 | name: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
    |                                                        ^""",
    ),
    "deep-mapping": (
        "name: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: }}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}\n",
        """\
s.yaml:1:200: more than 50 levels, which is too much for a spec
  1 | … {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: }}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}
    |                                        ^""",
    ),
    "alias": (
        "name: *foo\n",
        """\
s.yaml:1:7: not YAML: the alias `*foo` has no anchor `&foo`
  1 | name: *foo
    |       ^
  hint: put the value in quotes if it is text""",
    ),
    "star": (
        "dependencies: [*]\n",
        """\
s.yaml:1:16: not YAML: a value cannot start with `*`, which names an alias
  1 | dependencies: [*]
    |                ^
  hint: put the value in quotes""",
    ),
    "ampersand": (
        "dependencies: [&]\n",
        """\
s.yaml:1:16: not YAML: a value cannot start with `&`, which sets an anchor
  1 | dependencies: [&]
    |                ^
  hint: put the value in quotes""",
    ),
    "two-documents": (
        "name: a\n---\nname: b\n",
        """\
s.yaml:2:1: not YAML: a second document
  2 | ---
    | ^
  hint: a spec is one document: take out the line `---`""",
    ),
    "empty": (
        "",
        """\
s.yaml:1:1: the file is empty
  hint: to start one, run `lockgen init`""",
    ),
    "blank": (
        "  \n\n",
        """\
s.yaml:1:1: the file is empty
  hint: to start one, run `lockgen init`""",
    ),
    "comments": (
        "# one\n# two\n",
        """\
s.yaml:1:1: the file is empty
  hint: to start one, run `lockgen init`""",
    ),
    "marks": (
        "---\n...\n",
        """\
s.yaml:1:1: the file is empty
  hint: to start one, run `lockgen init`""",
    ),
    "list": (
        "- a\n- b\n",
        """\
s.yaml:1:1: expected `key: value` lines
  1 | - a
    | ^
  hint: a spec starts with a line such as `name: my-env`: a key, a colon, a space and a value""",
    ),
    "scalar": (
        "hello\n",
        """\
s.yaml:1:1: expected `key: value` lines
  1 | hello
    | ^^^^^
  hint: a spec starts with a line such as `name: my-env`: a key, a colon, a space and a value""",
    ),
    "null": (
        "null\n",
        """\
s.yaml:1:1: expected `key: value` lines
  1 | null
    | ^^^^
  hint: a spec starts with a line such as `name: my-env`: a key, a colon, a space and a value""",
    ),
    "no-space": (
        "name:a\npython:3.13\n",
        """\
s.yaml:1:1: expected `key: value` lines
  1 | name:a
    | ^
  hint: a spec starts with a line such as `name: my-env`: a key, a colon, a space and a value""",
    ),
    "no-space-later": (
        "name: a\npython:3.13\n",
        """\
s.yaml:2:1: not YAML: expected `key: value`
  2 | python:3.13
    | ^
  hint: a key is followed by a colon and a space""",
    ),
    "quote": (
        "name: 'abc\npython: 3.13\n",
        """\
s.yaml:1:7: not YAML: the quote is never closed
  1 | name: 'abc
    |       ^""",
    ),
    "bracket": (
        "name: a\ngpus: [V100,\n",
        """\
s.yaml:2:13: not YAML: the text ends where a value is expected
  2 | gpus: [V100,
    |             ^
  hint: a bracket without its pair?""",
    ),
    "brace": (
        "name: {a\n",
        """\
s.yaml:1:7: not YAML: `{` is never closed
  1 | name: {a
    |       ^""",
    ),
    "comma": (
        "gpus: [V100 'H200']\n",
        """\
s.yaml:1:1: missing key `name`
  1 | gpus: [V100 'H200']
    | ^
  hint: add `name: …`

s.yaml:1:8: unknown GPU: `V100 'H200'`
  1 | gpus: [V100 'H200']
    |        ^^^^^^^^^^^
  hint: write a name such as `H200`, or a compute capability: `9.0`""",
    ),
    "comma-in-mapping": (
        "cuda: {version: '12.1' match: exact}\n",
        """\
s.yaml:1:24: not YAML: a `,` or the closing `}` is missing here
  1 | cuda: {version: '12.1' match: exact}
    |                        ^""",
    ),
    "colon": (
        "name: a: b\n",
        """\
s.yaml:1:8: not YAML: a `:` where no key can stand
  1 | name: a: b
    |        ^
  hint: put a value that holds `: ` in quotes; the keys of one mapping, and the items of one list, start in the same column""",
    ),
    "indentation": (
        "name: a\n  python: 3.13\n",
        """\
s.yaml:2:9: not YAML: a `:` where no key can stand
  2 |   python: 3.13
    |         ^
  hint: put a value that holds `: ` in quotes; the keys of one mapping, and the items of one list, start in the same column""",
    ),
    "dedent": (
        "name: a\nsystem:\n    glibc: 2.28\n  linux: 5.10\n",
        """\
s.yaml:4:3: not YAML: this does not belong to the lines above
  4 |   linux: 5.10
    |   ^
  hint: quotes go around a whole value; the keys of one mapping, and the items of one list, start in the same column""",
    ),
    "item": (
        "name: - a\n",
        """\
s.yaml:1:7: not YAML: an item or a key where none can stand
  1 | name: - a
    |       ^
  hint: the keys of one mapping, and the items of one list, start in the same column""",
    ),
    "after-quotes": (
        'name: "a" b\n',
        """\
s.yaml:1:11: not YAML: this does not belong to the lines above
  1 | name: "a" b
    |           ^
  hint: quotes go around a whole value; the keys of one mapping, and the items of one list, start in the same column""",
    ),
    "percent": (
        "name: %a\n",
        """\
s.yaml:1:7: not YAML: a value cannot start with `%`
  1 | name: %a
    |       ^
  hint: put the value in quotes""",
    ),
    "at": (
        "name: @a\n",
        """\
s.yaml:1:7: not YAML: a value cannot start with `@`
  1 | name: @a
    |       ^
  hint: put the value in quotes""",
    ),
    "backtick": (
        "name: `a`\n",
        """\
s.yaml:1:7: not YAML: a value cannot start with a backtick
  1 | name: `a`
    |       ^
  hint: put the value in quotes""",
    ),
    "escape": (
        'name: "C:\\my"\n',
        """\
s.yaml:1:11: not YAML: unknown escape `\\m`
  1 | name: "C:\\my"
    |           ^
  hint: write `\\\\`, or use single quotes""",
    ),
    "escape-number": (
        'name: "\\UFFFFFFFF"\n',
        """\
s.yaml:1:1: not YAML: an escape or a directive with a number that does not exist
  1 | name: "\\UFFFFFFFF"
    | ^""",
    ),
    "surrogate": (
        'name: "\\ud800"\n',
        """\
s.yaml:1:7: not a character: `\\ud800`
  1 | name: "\\ud800"
    |       ^^^^^^^^
  hint: write the character itself""",
    ),
    "directive": (
        "%YAML 3.0\n---\nname: a\n",
        """\
s.yaml:1:1: not YAML: found incompatible YAML document (version 1.* is required)
  1 | %YAML 3.0
    | ^""",
    ),
    "keys": (
        "? [a, b]\n: x\n? {x: y}\n: 3\nname: a\n",
        """\
s.yaml:1:3: a list as a key, expected a word
  1 | ? [a, b]
    |   ^
  hint: `key: value` is the form of every line

s.yaml:3:3: a mapping as a key, expected a word
  3 | ? {x: y}
    |   ^
  hint: `key: value` is the form of every line""",
    ),
    "empty-key": (
        "name: a\n: y\n",
        """\
s.yaml:2:1: not YAML: this does not belong to the lines above
  2 | : y
    | ^
  hint: quotes go around a whole value; the keys of one mapping, and the items of one list, start in the same column""",
    ),
    "empty-key-quoted": (
        "name: a\n'': y\n",
        """\
s.yaml:2:1: no key before the `:`
  2 | '': y
    | ^^""",
    ),
    "empty-key-alone": (
        "{name: a, : y}\n",
        """\
s.yaml:1:11: not YAML: expected a value, found `:`
  1 | {name: a, : y}
    |           ^""",
    ),
    "words-as-keys": (
        "name: a\n~: x\ntrue: 3\n1: 4\n",
        """\
s.yaml:2:1: unknown key `~`
  2 | ~: x
    | ^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify

s.yaml:3:1: unknown key `true`
  3 | true: 3
    | ^^^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify

s.yaml:4:1: unknown key `1`
  4 | 1: 4
    | ^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify""",
    ),
    "tags": (
        "name: a\n"
        "python: !!python/object/apply:os.system [ls]\n"
        "description: !!binary aGk=\n"
        "system: !!set {glibc: x}\n"
        "image: !mine {}\n",
        """\
s.yaml:2:9: the tag `!!python/object/apply:os.system` is not taken
  2 | python: !!python/object/apply:os.system [ls]
    |         ^
  hint: write the plain value

s.yaml:3:14: the tag `!!binary` is not taken
  3 | description: !!binary aGk=
    |              ^^^^^^^^^^^^^
  hint: write the plain value

s.yaml:4:9: the tag `!!set` is not taken
  4 | system: !!set {glibc: x}
    |         ^
  hint: write the plain value

s.yaml:4:23: not a glibc version: `x`
  4 | system: !!set {glibc: x}
    |                       ^
  hint: write two numbers: `2.28`

s.yaml:5:8: the tag `!mine` is not taken
  5 | image: !mine {}
    |        ^
  hint: write the plain value""",
    ),
    "tag-top": (
        "!!python/object:x\nname: a\n",
        """\
s.yaml:1:1: the tag `!!python/object:x` is not taken
  1 | !!python/object:x
    | ^
  hint: write the plain value""",
    ),
    "unquoted-range": (
        "name: a\npython: !=3.12.1\n",
        """\
s.yaml:2:9: the tag `!=3.12.1` is not taken
  2 | python: !=3.12.1
    |         ^^^^^^^^
  hint: put the value in quotes""",
    ),
    "tag-null": (
        "name: !!null x\n",
        """\
s.yaml:1:7: the tag `!!null` is not taken
  1 | name: !!null x
    |       ^^^^^^^^
  hint: write the plain value""",
    ),
    "merge-key": (
        "name: a\nvariants:\n  cpu: &c {cuda: none}\n  b:\n    <<: *c\n    python: 3.12\n",
        """\
s.yaml:5:5: `<<` is not taken
  5 |     <<: *c
    |     ^^
  hint: write the keys out; `extends` merges whole files""",
    ),
    "range-without-quotes": (
        "name: a\npython: >=3.12\n",
        """\
s.yaml:2:10: not YAML: a value cannot start with `>` or `|`
  2 | python: >=3.12
    |          ^
  hint: put the value in quotes: `">=2.8,<2.10"`""",
    ),
    "long-value": (
        "name: a\n"
        "python: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
        """\
s.yaml:2:9: not a version of python: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
  2 | python: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
    |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: write `3.13`, exact `3.13.1`, or a range such as `>=3.12,<3.14`""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), BROKEN_YAML.values(), ids=BROKEN_YAML)
@pytest.mark.usefixtures("here")
def test_broken_yaml(text: str | bytes, expected: str) -> None:
    """Text that is not YAML, or more of it than a spec takes."""
    assert error(text) == expected


BROKEN_BYTES = {
    "utf-16": (
        b"\xff\xfen\x00a\x00m\x00e\x00:\x00 \x00a\x00\n\x00",
        """\
s.yaml:1:1: the file is not UTF-8: byte 0xff
  1 | ��n�a�m�e�:� �a�
    | ^
  hint: save it as UTF-8""",
    ),
    "latin-1": (
        b"name: a\ndescription: caf\xe9 au lait\n",
        """\
s.yaml:2:17: the file is not UTF-8: byte 0xe9
  2 | description: caf� au lait
    |                 ^
  hint: save it as UTF-8""",
    ),
    "cut": (
        b"name: a\n# \xe4\xb8",
        """\
s.yaml:2:3: the file is not UTF-8: byte 0xe4
  2 | # �
    |   ^
  hint: save it as UTF-8""",
    ),
    "after-bom": (
        b"\xef\xbb\xbfname: a\nq: caf\xe9\n",
        """\
s.yaml:2:7: the file is not UTF-8: byte 0xe9
  2 | q: caf�
    |       ^
  hint: save it as UTF-8""",
    ),
    "after-windows-ends": (
        b"name: a\r\n\r\nq: caf\xe9\r\n",
        """\
s.yaml:3:7: the file is not UTF-8: byte 0xe9
  3 | q: caf�
    |       ^
  hint: save it as UTF-8""",
    ),
    "surrogate": (
        b"name: \xed\xa0\x80\n",
        """\
s.yaml:1:7: the file is not UTF-8: byte 0xed
  1 | name: ���
    |       ^
  hint: save it as UTF-8""",
    ),
    "nul": (
        "name: a\x00b\n",
        """\
s.yaml:1:8: a character that YAML does not allow: U+0000
  1 | name: a�b
    |        ^""",
    ),
    "control": (
        "# ok\r\nname: a\x01b\n",
        """\
s.yaml:2:8: a character that YAML does not allow: U+0001
  2 | name: a�b
    |        ^""",
    ),
    "delete": (
        "name: \x7f\n",
        """\
s.yaml:1:7: a character that YAML does not allow: U+007F
  1 | name: �
    |       ^""",
    ),
    "large": (
        b"#" + b"x" * 200_000,
        """\
s.yaml:1:1: the file is too large: a spec has at most 200,000 bytes""",
    ),
    "bom": (
        "\ufeffname: a\nbad: 1\n",
        """\
s.yaml:2:1: unknown key `bad`
  2 | bad: 1
    | ^^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify""",
    ),
    "windows": (
        "name: a\r\nbad: x\r\n",
        """\
s.yaml:2:1: unknown key `bad`
  2 | bad: x
    | ^^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify""",
    ),
    "mac": (
        "name: a\rbad: x\r",
        """\
s.yaml:2:1: unknown key `bad`
  2 | bad: x
    | ^^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify""",
    ),
    "unicode-ends": (
        "name: a\u2028bad: 1\x85worse: 2\n",
        """\
s.yaml:2:1: unknown key `bad`
  2 | bad: 1
    | ^^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify

s.yaml:3:1: unknown key `worse`
  3 | worse: 2
    | ^^^^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), BROKEN_BYTES.values(), ids=BROKEN_BYTES)
@pytest.mark.usefixtures("here")
def test_broken_bytes(text: str | bytes, expected: str) -> None:
    """Bytes that are no text."""
    assert error(text) == expected


CREDENTIALS = {
    "user": (
        "name: a\nchannels: ['https://me:s3cret@conda.example.com/team']\n",
        """\
s.yaml:2:12: a credential in a channel: `https://***@conda.example.com/team`
  2 | channels: ['https://***@conda.example.com/team']
    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "token": (
        "name: a\nchannels: ['https://conda.example.com/t/s3cret/team', conda-forge]\n",
        """\
s.yaml:2:12: a credential in a channel: `https://conda.example.com/t/***/team`
  2 | channels: ['https://conda.example.com/t/***/team', conda-forge]
    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "query": (
        "name: a\nchannels: ['https://example.com/x?token=s3cret', 's3://key:s3cret@bucket/x']\n",
        """\
s.yaml:2:12: a credential in a channel: `https://example.com/x?***`
  2 | channels: ['https://example.com/x?***', 's3://***@bucket/x']
    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`

s.yaml:2:41: a credential in a channel: `s3://***@bucket/x`
  2 | channels: ['https://example.com/x?***', 's3://***@bucket/x']
    |                                         ^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "odd-password": (
        "name: a\nchannels: ['https://me:s3/cr@s3cret@example.com/x', nope nope]\n",
        """\
s.yaml:2:12: a credential in a channel: `https://***@example.com/x`
  2 | channels: ['https://***@example.com/x', nope nope]
    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`

s.yaml:2:41: not a channel: `nope nope`
  2 | channels: ['https://***@example.com/x', nope nope]
    |                                         ^^^^^^^^^
  hint: write a name, a URL or a path""",
    ),
    "dependency": (
        "name: a\n"
        "dependencies: ['https://me:s3cret@example.com/c::numpy', 'numpy[channel=\"https://x/t/s3cret/c\"]']\n",
        """\
s.yaml:2:16: a credential in `dependencies`: `https://***@example.com/c::numpy`
  2 | dependencies: ['https://***@example.com/c::numpy', 'numpy[channel="https://x/t/***/c"]']
    |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`

s.yaml:2:52: a credential in `dependencies`: `numpy[channel="https://x/t/***/c"]`
  2 | dependencies: ['https://***@example.com/c::numpy', 'numpy[channel="https://x/t/***/c"]']
    |                                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "token-in-a-name": (
        "name: a\nchannels: ['t/s3cret/team']\n",
        """\
s.yaml:2:12: a credential in a channel: `t/***/team`
  2 | channels: ['t/***/team']
    |            ^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "token-in-a-match-spec": (
        "name: a\ndependencies: ['t/s3cret/team::numpy >=2']\n",
        """\
s.yaml:2:16: a credential in `dependencies`: `t/***/team::numpy >=2`
  2 | dependencies: ['t/***/team::numpy >=2']
    |                ^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "escaped-token": (
        "name: a\nconstraints: ['t%2Fs3cret%2Fteam::numpy']\n",
        """\
s.yaml:2:15: a credential in `constraints`: `t%2F***%2Fteam::numpy`
  2 | constraints: ['t%2F***%2Fteam::numpy']
    |               ^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "escaped-token-in-a-url": (
        "name: a\nchannels: ['https://x/t%2Fs3cret%2Fteam']\n",
        """\
s.yaml:2:12: a credential in a channel: `https://x/t%2F***%2Fteam`
  2 | channels: ['https://x/t%2F***%2Fteam']
    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "anywhere": (
        "name: https://me:s3cret@x/y\n"
        "python: https://me:s3cret@x/y\n"
        "cuda: https://me:s3cret@x/y\n"
        "image: {env: {A: 'https://me:s3cret@x/y'}}\n",
        """\
s.yaml:1:7: a credential in `name`: `https://***@x/y`
  1 | name: https://***@x/y
    |       ^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`

s.yaml:2:9: a credential in `python`: `https://***@x/y`
  2 | python: https://***@x/y
    |         ^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`

s.yaml:3:7: a credential in `cuda`: `https://***@x/y`
  3 | cuda: https://***@x/y
    |       ^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`

s.yaml:4:18: a credential in `A`: `https://***@x/y`
  4 | image: {env: {A: 'https://***@x/y'}}
    |                  ^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`""",
    ),
    "extends": (
        "name: a\nextends: ['https://me:s3cret@x/y']\n",
        """\
s.yaml:2:11: not a file: `https://***@x/y`
  2 | extends: ['https://***@x/y']
    |           ^^^^^^^^^^^^^^^^^
  hint: write the path of a file, beside this one""",
    ),
    "beside": (
        "name: a\nchannels: ['https://me:s3cret@x/y', 3 4] # https://me:s3cret@x\n",
        """\
s.yaml:2:12: a credential in a channel: `https://***@x/y`
  2 | channels: ['https://***@x/y', 3 4] # https://***@x
    |            ^^^^^^^^^^^^^^^^^
  hint: keep it out of the spec; it is read from the keyring, from netrc or from `rattler auth login`

s.yaml:2:31: not a channel: `3 4`
  2 | channels: ['https://***@x/y', 3 4] # https://***@x
    |                               ^^^
  hint: write a name, a URL or a path""",
    ),
    "key": (
        "name: a\nchannels: {'https://me:s3cret@x/y': 1}\n",
        """\
s.yaml:2:11: `channels` is a mapping, expected a list, such as `[a, b]`
  2 | channels: {'https://***@x/y': 1}
    |           ^""",
    ),
    "syntax": (
        "channels: ['https://me:s3cret@x/y'\n",
        """\
s.yaml:1:11: not YAML: `[` is never closed
  1 | channels: ['https://***@x/y'
    |           ^""",
    ),
    "syntax-inside": (
        "name: a\nchannels: https://me:s3: cret@x/y\n",
        """\
s.yaml:2:22: not YAML: a `:` where no key can stand
  2 | channels: https://***@x/y
    |                      ^
  hint: put a value that holds `: ` in quotes; the keys of one mapping, and the items of one list, start in the same column""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CREDENTIALS.values(), ids=CREDENTIALS)
@pytest.mark.usefixtures("here")
def test_credentials(text: str | bytes, expected: str) -> None:
    """Credentials: refused, and never repeated."""
    assert error(text) == expected


CONTRADICTIONS = {
    "gpus-without-cuda": (
        "name: a\ngpus: [V100]\n",
        """\
s.yaml:2:7: `gpus` is set, but no `cuda`
  2 | gpus: [V100]
    |       ^
  hint: add the CUDA version that the machines' driver supports, such as `cuda: "12.1"`""",
    ),
    "old-driver": (
        "name: a\ncuda: 13.0\ndriver: '>=535'\n",
        """\
s.yaml:3:9: CUDA 13.0 needs driver 580 or newer, but the spec allows 535
  3 | driver: '>=535'
    |         ^^^^^^^
  hint: driver 535 runs CUDA 12.2: set `cuda: "12.2"`""",
    ),
    "two-cuda": (
        "name: a\ncuda: 12.1\npytorch-cuda: 12.6\n",
        """\
s.yaml:3:15: two answers to which CUDA: `12.6` and `12.1`
  3 | pytorch-cuda: 12.6
    |               ^^^^
  hint: line 2 says it already: keep one of them""",
    ),
    "two-cuda-dependency": (
        "name: a\ncuda: 12.4\ndependencies: [pytorch-cuda=12.1]\n",
        """\
s.yaml:3:16: two answers to which CUDA: `12.1` and `12.4`
  3 | dependencies: [pytorch-cuda=12.1]
    |                ^^^^^^^^^^^^^^^^^
  hint: line 2 says it already: keep one of them""",
    ),
    "two-cuda-dependencies": (
        "name: a\ndependencies: [pytorch-cuda=12.1, cuda-version=12.9]\n",
        """\
s.yaml:2:35: two answers to which CUDA: `12.9` and `12.1`
  2 | dependencies: [pytorch-cuda=12.1, cuda-version=12.9]
    |                                   ^^^^^^^^^^^^^^^^^
  hint: line 2 says it already: keep one of them""",
    ),
    "two-cuda-wheel": (
        "name: a\npytorch: 2.9.0+cu121\ncuda: {version: 12.6, match: exact}\n",
        """\
s.yaml:2:10: two answers to which CUDA: `12.1` and `12.6`
  2 | pytorch: 2.9.0+cu121
    |          ^^^^^^^^^^^
  hint: line 3 says it already: keep one of them""",
    ),
    "wheel-cuda-unknown": (
        "name: a\npytorch: 2.9.0+cu999\n",
        """\
s.yaml:2:10: unknown CUDA version: `99.9`
  2 | pytorch: 2.9.0+cu999
    |          ^^^^^^^^^^^
  hint: known: 11.7, 11.8, 12.0, 12.1, 12.2, 12.3, 12.4, 12.5, 12.6, 12.8, 12.9, 13.0, 13.1, 13.2""",
    ),
    "two-cuda-kind": (
        "name: a\ncuda: [12.1]\npytorch-cuda: 12.6\n",
        """\
s.yaml:2:7: `cuda` is a list, expected a version, `none` or a mapping with `version` and `match`
  2 | cuda: [12.1]
    |       ^
  hint: several versions? write `matrix: {cuda: [12.1]}`

s.yaml:3:15: two answers to which CUDA: `12.6` and a value that is no version
  3 | pytorch-cuda: 12.6
    |               ^^^^
  hint: line 2 says it already: keep one of them""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
@pytest.mark.usefixtures("here")
def test_contradictions(text: str | bytes, expected: str) -> None:
    """What contradicts itself or the facts."""
    assert error(text) == expected


TOGETHER = {
    "several": (
        "name: a b\n"
        "zz: 1\n"
        "python: x\n"
        "python: y\n"
        "cuda: !!float 12.7\n"
        "dependencies: [numpy 1]\n"
        "extras: [npl]\n"
        "description: !!binary aGk=\n"
        "gpus:\n"
        "platforms: [foo]\n"
        "extends: [nope.yaml]\n",
        """\
s.yaml:1:7: not a name: `a b`
  1 | name: a b
    |       ^^^
  hint: letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first

s.yaml:2:1: unknown key `zz`
  2 | zz: 1
    | ^^
  hint: known keys: as-of, channel-priority, channels, constraints, cuda, dependencies, description, driver, extends, extras, gpus, image, matrix, name, platform, platforms, python, pytorch, pytorch-cuda, system, variants, verify

s.yaml:3:9: not a version of python: `x`
  3 | python: x
    |         ^
  hint: write `3.13`, exact `3.13.1`, or a range such as `>=3.12,<3.14`

s.yaml:4:1: duplicate key `python`
  4 | python: y
    | ^^^^^^
  hint: it is already set on line 3

s.yaml:5:7: unknown CUDA version: `12.7`
  5 | cuda: !!float 12.7
    |       ^^^^^^^^^^^^
  hint: known: 11.7, 11.8, 12.0, 12.1, 12.2, 12.3, 12.4, 12.5, 12.6, 12.8, 12.9, 13.0, 13.1, 13.2

s.yaml:6:16: bad match spec `numpy 1`: missing range specifier for '1'. Did you mean '==1' or '1.*'?
  6 | dependencies: [numpy 1]
    |                ^^^^^^^
  hint: write `numpy 1.*`, or `==` before an exact version

s.yaml:7:10: unknown extra: `npl`
  7 | extras: [npl]
    |          ^^^
  hint: did you mean `nlp`?

s.yaml:8:14: the tag `!!binary` is not taken
  8 | description: !!binary aGk=
    |              ^^^^^^^^^^^^^
  hint: write the plain value

s.yaml:9:1: `gpus` has no value
  9 | gpus:
    | ^^^^
  hint: write a value, or leave the key out

s.yaml:10:13: unknown platform: `foo`
  10 | platforms: [foo]
     |             ^^^
  hint: known: linux-64, linux-aarch64, osx-64, osx-arm64, win-64

s.yaml:11:11: no such file: nope.yaml
  11 | extends: [nope.yaml]
     |           ^^^^^^^^^""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), TOGETHER.values(), ids=TOGETHER)
@pytest.mark.usefixtures("here")
def test_together(text: str | bytes, expected: str) -> None:
    """All problems of a file at once, in its order."""
    assert error(text) == expected


SECRETS = [text for text, _ in CREDENTIALS.values()]


@pytest.mark.parametrize("text", SECRETS, ids=CREDENTIALS)
@pytest.mark.usefixtures("here")
def test_no_secret_is_repeated(text: str) -> None:
    shown = "".join(repr(problem) for problem in problems(text))
    assert "s3cret" not in shown
    assert "cret@" not in shown
    assert "s3/cr" not in shown


@pytest.mark.usefixtures("here")
def test_a_hundred_problems_are_not_shown_one_by_one() -> None:
    found = problems("name: a\n" + "".join(f"zz{number}: 1\n" for number in range(100)))
    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1].message == "and 50 more problems"
    assert str(found[-1].where) == "s.yaml:52:1"


@pytest.mark.usefixtures("here")
def test_no_such_file() -> None:
    with pytest.raises(SpecError) as caught:
        load(Path("nope.yaml"))
    assert str(caught.value) == "no such file: nope.yaml\n  hint: to start one, run `lockgen init`"


def test_a_folder_is_no_spec(here: Path) -> None:
    (here / "envs").mkdir()
    with pytest.raises(SpecError) as caught:
        load(Path("envs"))
    assert str(caught.value) == "a folder, not a spec: envs"


def test_a_file_that_cannot_be_read() -> None:
    def forbidden(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with pytest.raises(SpecError) as caught:
        load(Path("s.yaml"), forbidden)
    assert str(caught.value) == "cannot read s.yaml: permission denied"


@pytest.mark.usefixtures("here")
def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(SpecError) as caught:
        load(Path("/dev/zero"))
    assert str(caught.value) == "/dev/zero:1:1: the file is too large: a spec has at most 200,000 bytes"


@pytest.mark.parametrize("special", ["pipe", "/dev/zero"])
def test_a_pipe_or_a_device_is_not_waited_for(special: str, here: Path) -> None:
    os.mkfifo("pipe")
    (here / "extras").mkdir()
    for name in ("base.yaml", "extras/own.toml"):
        (here / name).symlink_to(here / special)  # an absolute path stays as it is
    assert error("name: a\nextends: [base.yaml]\nextras: [own]\n") == (
        """\
s.yaml:2:11: not a regular file: base.yaml
  2 | extends: [base.yaml]
    |           ^^^^^^^^^
  hint: a pipe or a device is not read here

s.yaml:3:10: not a regular file: extras/own.toml
  3 | extras: [own]
    |          ^^^
  hint: a pipe or a device is not read here"""
    )


def test_files_that_cannot_be_extended(here: Path) -> None:
    (here / "sub").mkdir()
    text = "extends:\n  - nope.yaml\n  - sub\n  - ''\n  - \"a\\0b\"\n  - ../x/../nope.yaml\npython: x\n"
    assert error(text) == (
        """\
s.yaml:2:5: no such file: nope.yaml
  2 |   - nope.yaml
    |     ^^^^^^^^^

s.yaml:3:5: a folder, not a spec: sub
  3 |   - sub
    |     ^^^

s.yaml:4:5: not a file: ``
  4 |   - ''
    |     ^^
  hint: write the path of a file, beside this one

s.yaml:5:5: not a file: `a\\x00b`
  5 |   - "a\\0b"
    |     ^^^^^^
  hint: write the path of a file, beside this one

s.yaml:6:5: no such file: ../nope.yaml
  6 |   - ../x/../nope.yaml
    |     ^^^^^^^^^^^^^^^^^

s.yaml:7:9: not a version of python: `x`
  7 | python: x
    |         ^
  hint: write `3.13`, exact `3.13.1`, or a range such as `>=3.12,<3.14`"""
    )


@pytest.mark.usefixtures("here")
def test_specs_in_a_circle() -> None:
    write("name: b\nextends: [s.yaml]\n", "b.yaml")
    assert error("name: a\nextends: [b.yaml]\n") == (
        """\
b.yaml:2:11: specs extend each other in a circle: s.yaml → b.yaml → s.yaml
  2 | extends: [s.yaml]
    |           ^^^^^^
  hint: take one of these lines out"""
    )


@pytest.mark.usefixtures("here")
def test_a_spec_that_extends_itself() -> None:
    assert error("name: a\nextends: [./s.yaml]\n") == (
        """\
s.yaml:2:11: specs extend each other in a circle: s.yaml → s.yaml
  2 | extends: [./s.yaml]
    |           ^^^^^^^^
  hint: take one of these lines out"""
    )


def test_a_circle_through_a_link_ends(here: Path) -> None:
    (here / "loop").symlink_to(".")
    (found,) = problems("name: a\nextends: [loop/s.yaml]\n")
    assert found.message.startswith("cannot read loop/loop/")
    assert found.message.endswith("s.yaml: too many levels of symbolic links")


@pytest.mark.usefixtures("here")
def test_problems_of_an_extended_file_name_that_file() -> None:
    write("python: 3.x\nzz: 1\n", "envs/base.yaml")
    assert [str(one).splitlines()[0] for one in problems("extends: [envs/base.yaml]\ncuda: 12.7\n")] == [
        "envs/base.yaml:1:9: not a version of python: `3.x`",
        "envs/base.yaml:2:1: unknown key `zz`",
        "s.yaml:1:1: missing key `name`",
        "s.yaml:2:7: unknown CUDA version: `12.7`",
    ]


OWN_EXTRAS = {
    "unknown-key": (
        'name = "own"\nsummry = "x"\n',
        """\
extras/own.toml:2:1: `summry` in an extra: unknown key, expected one of name, summary, source, checked, package, service
  2 | summry = "x"
    | ^^^^^^
  hint: did you mean `summary`?""",
    ),
    "toml": (
        "name = x\n",
        """\
extras/own.toml:1:8: not valid TOML: invalid value
  1 | name = x
    |        ^""",
    ),
    "utf-8": (b'name = "\xff"\n', "extras/own.toml:1:1: the file is not UTF-8"),
    "deep": ("a = " + "[" * 5000, "extras/own.toml:1:1: the file nests too deep"),
    "specs": (
        'name = "own"\nsummary = "x"\n[[package]]\nspec = "numpy 1.26"\nreason = "r"\nplatforms = ["linux64"]\n',
        """\
extras/own.toml:4:8: bad match spec `numpy 1.26`: missing range specifier for '1.26'. Did you mean '==1.26' or '1.26.*'?
  4 | spec = "numpy 1.26"
    |        ^^^^^^^^^^^^

extras/own.toml:6:14: unknown platform: `linux64`
  6 | platforms = ["linux64"]
    |              ^^^^^^^^^
  hint: did you mean `linux-64`?""",
    ),
    "credential": (
        'name = "own"\nsummary = "x"\n[[package]]\nspec = "https://me:s3cret@example.com/c::x"\nreason = "r"\n',
        """\
extras/own.toml:4:8: a credential in an extra: `https://***@example.com/c::x`
  4 | spec = "https://***@example.com/c::x"
    |        ^""",
    ),
}


@pytest.mark.parametrize(("toml", "expected"), OWN_EXTRAS.values(), ids=OWN_EXTRAS)
@pytest.mark.usefixtures("here")
def test_an_extra_of_ones_own_is_checked(toml: str | bytes, expected: str) -> None:
    write(toml, "extras/own.toml")
    assert error("name: a\nextras: [own]\n") == expected


VALID = """\
name: whole
description: everything
python: "3.13"
pytorch: 2.9.0+cu121
cuda: {version: "12.1", match: compatible}
driver: ">=535"
gpus: [V100, H200]
channels: [conda-forge, ./own, "https://example.com/c"]
channel-priority: strict
extras: [nlp, {name: jupyter, optional: true}]
dependencies: ["numpy >=1.26,<3", &s scipy, pytorch-cuda=12.1]
constraints: [*s]
as-of: 2026-11-30
system: {glibc: "2.28", linux: "5.10"}
image: {base: ubuntu-24.04, env: {A: b}, ports: [80]}
verify: {steps: 3}
platforms: [linux-64, osx-arm64]
platform: {osx-arm64: {cuda: none}}
variants: {cpu: {cuda: none}, gpu: {}}
matrix: {python: [3.12, 3.13]}
"""
PIECES = [
    *"\n\t :-[]{}&*!|>'\"%@#,?~\\\0\x1b\x85\u2028\ufeff\xe9中9",
    *(
        "<<",
        "!!set",
        "null",
        "yes",
        "3.10",
        "  ",
        "\r\n",
        ": ",
        "- ",
        "---\n",
        "\\ud800",
        "//u:p@h",
        "name",
        "cuda",
        "*a",
        "&a ",
    ),
]


def test_the_valid_spec_is_valid(here: Path) -> None:
    assert len(read(VALID).targets) == 8


def refused_or_read(data: bytes) -> None:
    """Only LockgenError comes out, and every place lies in the text."""
    lines = [len(line) for line in data.decode(errors="replace").removeprefix("\ufeff").splitlines()] or [0]

    def reading(path: Path) -> bytes:
        if path != Path("s.yaml"):
            raise FileNotFoundError(2, "No such file", str(path))
        return data

    try:
        plan(load(Path("s.yaml"), reading))
    except LockgenError as refused:
        str(refused).encode()
        for problem in refused.problems:
            if problem.where:
                assert 1 <= problem.where.line <= len(lines)
                assert 1 <= problem.where.column <= max(lines[problem.where.line - 1], len(problem.where.text)) + 1


FEW = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


@FEW
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    refused_or_read("".join(pieces).encode())


@FEW
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    refused_or_read(data)


@FEW
@given(st.integers(0, len(VALID)), st.integers(0, 12), st.lists(st.sampled_from(PIECES), max_size=4))
def test_any_slip_in_a_valid_spec_is_read_or_refused(start: int, length: int, pieces: list[str]) -> None:
    refused_or_read((VALID[:start] + "".join(pieces) + VALID[start + length :]).encode())


KEYS = [line.split(":")[0] for line in VALID.splitlines()]
ANYTHING = st.recursive(
    st.sampled_from(["''", "x", "3.10", "~", "yes", "[]", "'a b'", "2026-11-30", "-1", "'\\u0663'"])
    | st.text(max_size=6).map(repr),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(found)}]")
        | st.dictionaries(st.sampled_from([*KEYS, "version", "name"]), inner, max_size=3).map(
            lambda found: "{" + ", ".join(f"{key}: {value}" for key, value in found.items()) + "}"
        )
    ),
    max_leaves=4,
)


@FEW
@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=5))
def test_any_value_of_any_key_is_read_or_refused(found: dict[str, str]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in found.items())
    refused_or_read(text.encode("utf-8", "replace"))
