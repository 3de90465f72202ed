"""From a channel built here to a proved environment, by the commands that a user types; and what is broken is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_environment import SmallEnvironment, step

from lockgen.lock.codecs.conda_lock_v1 import CODEC


def verified(environment: SmallEnvironment, prefix: Path, folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `lockgen verify`, and its evidence."""
    file = folder / "evidence.json"
    done = step("verify", "small", "-p", prefix, "-o", file, *arguments, cwd=environment.folder)
    assert file.is_file(), done.stderr
    return done.returncode, json.loads(file.read_text(encoding="utf-8"))


def test_an_environment_from_a_channel_of_this_machine_is_proved(
    small_environment: SmallEnvironment, tmp_path: Path
) -> None:
    code, evidence = verified(small_environment, small_environment.prefix, tmp_path)
    found = {check["name"]: check["status"] for check in evidence["checks"]}
    assert found == {
        "lock": "passed",
        "imports": "passed",
        "libraries": "passed",
        "versions": "passed",
        "cuda": "skipped",
        "bert": "passed",
    }, [check["problems"] for check in evidence["checks"]]
    assert code == 0
    assert CODEC.load is not None
    file = small_environment.folder / "small" / "conda-lock.yml"
    (lock,) = CODEC.load(file.read_text(encoding="utf-8"), str(file))
    assert evidence["fingerprint"] == lock.fingerprint()
    bert = next(check["facts"] for check in evidence["checks"] if check["name"] == "bert")
    assert (bert["device"], bert["dtype"], bert["steps"]) == ("cpu", "bfloat16", 400)
    assert bert["held_out"] == 1000
    assert bert["accuracy_after"] >= 0.75


BROKEN = {
    "distributed": (
        "torch/nn/parallel/distributed.py",
        "self.require_backward_grad_sync = True",
        "self.require_backward_grad_sync = False",
        "ddp gives other losses than one process: ",
    ),
    "export": (
        "torch/export/__init__.py",
        "\ndef export(",
        "\ndef export(*_, **__):\n    raise RuntimeError('broken on purpose')\n\n\ndef _export_before(",
        "torch.export: RuntimeError: broken on purpose",
    ),
}
"""Check → the module that is changed, a text of it, what takes its place, and how the check's problem begins."""


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_fails_its_check_and_no_other(
    small_environment: SmallEnvironment, tmp_path: Path, name: str
) -> None:
    prefix = tmp_path / "prefix"
    assert step("install", "small", "-p", prefix, cwd=small_environment.folder).returncode == 0
    module, text, instead, problem = BROKEN[name]
    file = prefix / "lib" / "python3.11" / "site-packages" / module
    content = file.read_text(encoding="utf-8")
    assert content.count(text) == 1
    file.unlink()  # it is a hard link to the cache
    file.write_text(content.replace(text, instead), encoding="utf-8")
    checks = [argument for one in ("versions", *BROKEN) for argument in ("--check", one)]
    code, evidence = verified(small_environment, prefix, tmp_path, "--distributed", "--export", *checks)
    assert code == 1
    assert {check["name"]: check["status"] for check in evidence["checks"]} == {
        "versions": "passed",
        **dict.fromkeys(BROKEN, "passed"),
        name: "failed",
    }
    (found,) = (check["problems"] for check in evidence["checks"] if check["name"] == name)
    assert len(found) == 1
    assert found[0].startswith(problem)
