"""Each check fails when the environment is broken in its way, and then only that check; a whole one passes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import fake_prefix
import pytest
from fake_prefix import FakePrefix

from lockgen.verify import plan as planning
from lockgen.verify import run as running
from lockgen.verify.evidence import CheckResult, Evidence
from lockgen.verify.plan import Settings

WITHOUT_TRAINING = ("lock", "imports", "libraries", "versions", "cuda")

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the checks look into /proc")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> FakePrefix:
    return fake_prefix.make(tmp_path_factory.mktemp("whole") / "prefix")


@pytest.fixture
def prefix(whole: FakePrefix, tmp_path: Path) -> FakePrefix:
    """A copy of the whole environment, to be broken."""
    shutil.copytree(whole.path, tmp_path / "prefix", symlinks=True)
    return FakePrefix(path=tmp_path / "prefix", lock=whole.lock)


def proved(prefix: FakePrefix, *only: str, require_gpu: bool = False, seconds: float = 20.0) -> Evidence:
    settings = Settings(only=only or WITHOUT_TRAINING, require_gpu=require_gpu)
    plan = planning.plan(prefix.lock, prefix.lock.platforms[0], str(prefix.path), settings)
    plan["imports"]["seconds"] = seconds
    return running.run(plan, prefix.python, prefix.path.parent / "evidence.json", lambda _: None)


def failed(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    return {check.name: check.problems for check in evidence.checks if check.status == "failed"}


def test_a_whole_environment_passes(whole: FakePrefix) -> None:
    evidence = proved(whole)
    assert failed(evidence) == {}
    assert [(check.name, check.status) for check in evidence.checks] == [
        ("lock", "passed"),
        ("imports", "passed"),
        ("libraries", "passed"),
        ("versions", "passed"),
        ("cuda", "skipped"),
    ]
    assert evidence.fingerprint == whole.lock.fingerprint()
    assert evidence.passed


def test_modules_are_found_in_the_lists_of_files_and_tests_are_left_out_with_a_reason(whole: FakePrefix) -> None:
    found = check(proved(whole, "imports"), "imports").facts
    assert sorted(name for name, _ in found["slowest"]) == [
        "alpha", "beta", "gamma", "space.beta", "torch", "torchgen", "transformers",
    ]  # fmt: skip
    assert found["skipped"] == {"tests": "a package's own tests, which it installs at the top level"}


def check(evidence: Evidence, name: str) -> CheckResult:
    found = evidence.check(name)
    assert found is not None
    return found


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def delete_a_file(prefix: FakePrefix) -> None:
    (prefix.site / "alpha-1.0.dist-info" / "METADATA").unlink()


def put_a_foreign_file(prefix: FakePrefix) -> None:
    (prefix.site / "stray.txt").write_text("")


def install_another_build(prefix: FakePrefix) -> None:
    file = prefix.path / "conda-meta" / "beta-1.0-cpu_0.json"
    file.write_text(file.read_text().replace("cpu_0", "cuda_0"))


def forget_a_package(prefix: FakePrefix) -> None:
    (prefix.path / "conda-meta" / "llvm-openmp-1.0-cpu_0.json").unlink()


def raise_on_import(prefix: FakePrefix) -> None:
    (prefix.site / "alpha" / "__init__.py").write_text("raise RuntimeError('no good')")
    (prefix.site / "beta.py").write_text("")


def hang_on_import(prefix: FakePrefix) -> None:
    (prefix.site / "gamma" / "__init__.py").write_text("import time\ntime.sleep(600)")


def crash_on_import(prefix: FakePrefix) -> None:
    (prefix.site / "gamma" / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")


def leave_on_import(prefix: FakePrefix) -> None:
    (prefix.site / "gamma" / "__init__.py").write_text("import os\nos._exit(0)")


def swap_a_library(prefix: FakePrefix) -> None:
    shutil.copyfile(fake_prefix.OBJECTS[1], prefix.path / "lib" / "libomp.so")


def link_a_library_from_outside(prefix: FakePrefix) -> None:
    outside = prefix.path.parent / "libgomp.so.1"
    library = prefix.path / "lib" / "libgomp.so.1"
    library.rename(outside)
    library.symlink_to(outside)


def load_a_second_openmp(prefix: FakePrefix) -> None:
    append(prefix.site / "torch" / "__init__.py", '_map("libomp.so")\n')


def need_what_is_nowhere(prefix: FakePrefix) -> None:
    library = prefix.path / "lib" / "libomp.so"
    library.write_bytes(library.read_bytes().replace(b"libc.so.6\0", b"libx.so.6\0"))
    fake_prefix.record(prefix.path, package_of(prefix, "llvm-openmp"), ["lib/libomp.so"])


def cut_a_library_short(prefix: FakePrefix) -> None:
    library = prefix.path / "lib" / "libomp.so"
    library.write_bytes(library.read_bytes()[:900])
    fake_prefix.record(prefix.path, package_of(prefix, "llvm-openmp"), ["lib/libomp.so"])


def package_of(prefix: FakePrefix, name: str) -> fake_prefix.LockedPackage:
    return next(one for one in prefix.lock.platforms[0].packages if one.name == name)


def have_another_torch(prefix: FakePrefix) -> None:
    append(prefix.site / "torch" / "__init__.py", '__version__ = "2.9.0+cu128"\n')


def have_a_cuda_torch(prefix: FakePrefix) -> None:
    append(
        prefix.site / "torch" / "__init__.py",
        "distributed = _Names(is_available=lambda: False)\n"
        "version.cuda = '12.8'\n"
        "cuda.get_arch_list = lambda: ['sm_90']\n",
    )


BROKEN: list[tuple[Callable[[FakePrefix], None], str, str]] = [
    (delete_a_file, "lock", f"file missing: {fake_prefix.SITE}/alpha-1.0.dist-info/METADATA (alpha)"),
    (put_a_foreign_file, "lock", f"not of any package: {fake_prefix.SITE}/stray.txt"),
    (install_another_build, "lock", "beta: locked 1.0 cpu_0, installed 1.0 cuda_0"),
    (forget_a_package, "lock", "llvm-openmp 1.0 is in the lock and not installed"),
    (raise_on_import, "imports", "import alpha (alpha): RuntimeError: no good"),
    (hang_on_import, "imports", "import gamma (gamma): no end within 1.5 s"),
    (crash_on_import, "imports", "import gamma (gamma): the process killed by SIGSEGV"),
    (leave_on_import, "imports", "import gamma (gamma): the process ended with exit code 0"),
    (swap_a_library, "libraries", "lib/libomp.so is not the file that llvm-openmp installed"),
    (link_a_library_from_outside, "libraries", "{outside}/libgomp.so.1 is loaded from outside the environment"),
    (load_a_second_openmp, "libraries", "2 OpenMP runtimes in one process: {lib}/libgomp.so.1, {lib}/libomp.so"),
    (need_what_is_nowhere, "libraries", "lib/libomp.so (llvm-openmp) needs libx.so.6, which is nowhere"),
    (cut_a_library_short, "libraries", "lib/libomp.so (llvm-openmp): the file is cut short"),
    (have_another_torch, "versions", "torch: locked 2.9.1, found 2.9.0"),
    (have_a_cuda_torch, "versions", "cuda: the lock holds a build without it, found 12.8"),
]


@pytest.mark.parametrize(("break_it", "name", "problem"), BROKEN, ids=[row[0].__name__ for row in BROKEN])
def test_what_is_broken_fails_its_check_and_no_other(
    prefix: FakePrefix, break_it: Callable[[FakePrefix], None], name: str, problem: str
) -> None:
    break_it(prefix)
    evidence = proved(prefix, seconds=1.5)
    real = prefix.path.resolve()
    wanted = problem.format(outside=real.parent, lib=real / "lib")
    assert failed(evidence) == {name: (wanted,)}
    assert not evidence.passed


def test_a_gpu_that_is_required_and_not_there_is_a_failure(whole: FakePrefix) -> None:
    evidence = proved(whole, require_gpu=True)
    assert failed(evidence) == {"cuda": ("a GPU is required, and PyTorch (a CPU build) sees none",)}


def test_a_module_that_imports_only_by_itself_passes(prefix: FakePrefix) -> None:
    (prefix.site / "torch" / "__init__.py").write_text("import sys\nassert 'alpha' not in sys.modules\n")
    (prefix.site / "space" / "beta" / "__init__.py").write_text("import alpha\n")
    (prefix.site / "gamma" / "__init__.py").write_text("import alpha\n")
    evidence = proved(prefix, "imports")
    assert evidence.passed
    assert check(evidence, "imports").facts["only in a process of its own"] in (["torch"], [])


def test_a_check_that_hangs_is_ended_and_the_others_go_on(prefix: FakePrefix) -> None:
    """What the check started, out of its process group, is ended too."""
    marker = prefix.path.parent / "child"
    append(prefix.site / "torch" / "__init__.py", f"""
import subprocess, time
if any("main.py" in word for word in sys.argv):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    open({str(marker)!r}, "w").write(str(child.pid))
    time.sleep(600)
""")  # fmt: skip
    plan = planning.plan(
        prefix.lock, prefix.lock.platforms[0], str(prefix.path), Settings(only=("lock", "imports", "versions", "cuda"))
    )
    plan["limits"] = {"versions": 1.0, "cuda": 1.0}
    started = time.monotonic()
    evidence = running.run(plan, prefix.python, prefix.path.parent / "evidence.json", lambda _: None)
    assert failed(evidence) == {"versions": ("no answer within 1 s",), "cuda": ("no answer within 1 s",)}
    assert time.monotonic() - started < 20
    while is_running(marker.read_text()):
        assert time.monotonic() - started < 20


def is_running(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
