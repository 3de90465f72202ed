"""What is checked follows from the lock and from what the user wants."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from lock_values import CPU, GPU, package, request, requirement

from lockgen.errors import LockgenError
from lockgen.lock.model import Lock, PlatformLock
from lockgen.verify import run
from lockgen.verify.evidence import EvidenceError, load
from lockgen.verify.plan import Settings, plan, training


def planned(lock: Lock, settings: Settings | None = None) -> dict[str, object]:
    return plan(lock, lock.platforms[0], "/env", settings or Settings())


def with_packages(*names: str) -> Lock:
    packages = tuple(package(name) for name in sorted(names))
    return Lock(name="some", platforms=(PlatformLock(request=request("linux-64"), packages=packages),))


def test_the_plan_names_the_lock_and_its_packages() -> None:
    found = planned(GPU)
    assert found["fingerprint"] == GPU.fingerprint()
    assert (found["environment"], found["variant"], found["platform"]) == ("small", "gpu", "linux-64")
    assert {"name": "openssl", "version": "3.4.0", "build": "hb9d3cd8_1"} in found["packages"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("names", "settings", "checks"),
    [
        (["python"], Settings(), ["lock", "imports", "libraries", "versions"]),
        (["python", "pytorch"], Settings(export=True), ["lock", "imports", "libraries", "versions", "cuda"]),
        (
            ["python", "pytorch", "transformers"],
            Settings(),
            ["lock", "imports", "libraries", "versions", "cuda", "bert"],
        ),
        (
            ["python", "pytorch", "transformers"],
            Settings(distributed=True, export=True),
            ["lock", "imports", "libraries", "versions", "cuda", "bert", "distributed", "export"],
        ),
        (["python"], Settings(only=("export", "lock")), ["lock", "export"]),
    ],
)
def test_the_checks_are_those_that_apply(names: list[str], settings: Settings, checks: list[str]) -> None:
    assert planned(with_packages(*names), settings)["checks"] == checks


def test_a_cuda_lock_promises_its_versions() -> None:
    packages = (
        package("cudnn", "9.10.1.4"),
        package("nccl", "2.27.3.1"),
        package("python", "3.13.1"),
        package("pytorch", "2.9.1", "cuda129_py313_1"),
    )
    lock = Lock(name="some", platforms=(PlatformLock(request=request("linux-64"), packages=packages),))
    assert planned(lock)["versions"] == {
        "cuda": "12.9", "cudnn": "9.10.1.4", "nccl": "2.27.3.1", "python": "3.13.1", "torch": "2.9.1",
    }  # fmt: skip


def test_a_cpu_lock_promises_that_there_is_no_cuda() -> None:
    assert planned(CPU)["versions"] == {"cuda": None, "python": "3.13.1", "torch": "2.9.1"}


def test_modules_that_an_extra_promises_have_to_import_and_those_the_spec_skips_need_not() -> None:
    wanted = requirement("scikit-learn")
    asked = request("linux-64", requirements=(type(wanted)(spec="scikit-learn", because="extra nlp", key="extras.0"),))
    lock = Lock(name="some", platforms=(PlatformLock(request=asked, packages=(package("scikit-learn"),)),))
    imports = planned(lock, Settings(imports=("mine",), skip_imports=("odd.*",)))["imports"]
    assert imports["more"] == ["mine", "sklearn"]  # type: ignore[index]
    assert {"module": "odd.*", "reason": "the spec says so: `skip-imports`"} in imports["skip"]  # type: ignore[index]


def test_the_plan_of_the_gpu_check_has_what_the_checks_read() -> None:
    found = json.loads((run.PAYLOAD.parent / "gpu-check.json").read_text())
    assert {key: set(value) for key, value in training(Settings()).items()} == {
        key: set(found[key]) for key in ("cuda", "bert")
    }
    assert found["bert"]["model"] == "base"
    assert found["bert"]["require_gpu"]
    assert sum(found["limits"].values()) <= 480
    assert set(found["limits"]) == set(found["checks"])


def test_the_payload_parses_on_python_3_9_and_imports_only_the_standard_library_at_the_top() -> None:
    allowed = sys.stdlib_module_names | {"lockgen_checks"}
    for file in sorted(run.PAYLOAD.parent.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 9))
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= allowed, file
        everywhere = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        assert not any(name.split(".")[0] == "lockgen" for name in everywhere), file


def test_every_check_says_when_it_runs_and_how_long_it_may_take() -> None:
    assert run.check_names() == ("bert", "cuda", "distributed", "export", "imports", "libraries", "lock", "versions")
    for name in run.check_names():
        tree = ast.parse((run.PAYLOAD.parent / "lockgen_checks" / f"{name}.py").read_text(encoding="utf-8"))
        named = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        assert {"ORDER", "SECONDS"} <= named
        assert "check" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_folder_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError) as found:
        run.interpreter(tmp_path)
    assert str(found.value) == (
        f"not a conda environment: {tmp_path}\n  hint: to make one from a lock, run `lockgen install LOCK -p PREFIX`"
    )
    (tmp_path / "conda-meta").mkdir()
    with pytest.raises(EvidenceError, match="no Python in"):
        run.interpreter(tmp_path)


def test_an_interpreter_that_cannot_start_is_an_error_with_its_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'error while loading shared libraries: libpython.so' >&2\nexit 127\n")
    python.chmod(0o755)
    with pytest.raises(LockgenError) as found:
        run.run({"checks": []}, python, tmp_path / "evidence.json", lambda _: None)
    assert str(found.value) == (
        f"{python} ends without any evidence\n  error while loading shared libraries: libpython.so"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "e.json:1: not JSON: expecting property name enclosed in double quotes"),
        ("[]", "e.json is not evidence of format 1"),
        ('{"format": 2}', "e.json is not evidence of format 1"),
        ('{"format": 1}', "e.json is not evidence: 'environment'"),
    ],
)
def test_evidence_that_cannot_be_read_is_an_error_with_its_place(text: str, message: str) -> None:
    with pytest.raises(EvidenceError) as found:
        load(text, "e.json")
    assert str(found.value) == message
