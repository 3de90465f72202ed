"""What becomes of a wheel: name, platform, dependencies, files."""

from __future__ import annotations

import calendar
from pathlib import Path

import pytest
from channel_wheels import HERE, WRITTEN, sha256, write_wheel
from packaging.requirements import Requirement

from lockgen.channel.archive import PLACEHOLDER, Package
from lockgen.channel.errors import BuildError
from lockgen.channel.wheel import Changes, Context, match_spec, opened

CONTEXT = Context(here=HERE, names={}, epoch=1_700_000_000)
MACHINE = HERE.subdir.replace("linux-64", "x86_64").replace("linux-aarch64", "aarch64")


def _packed(wheel: Path, **changes: object) -> tuple[Package, dict[str, bytes]]:
    """The package, and its files by path."""
    with opened(wheel, sha256(wheel), Changes(**changes), CONTEXT) as package:  # type: ignore[arg-type]
        return package, {one.path: one.open().read() for one in package.files if not one.target}


def test_a_pure_wheel_becomes_noarch_python(tmp_path: Path) -> None:
    wheel = write_wheel(
        tmp_path,
        "typing-extensions",
        "4.0",
        metadata=["Requires-Python: >=3.9", "License-Expression: PSF-2.0", "Summary: Types"],
        info={"licenses/LICENSE": b"text"},
    )
    package, files = _packed(wheel)
    assert (package.name, package.version, package.subdir, package.noarch) == (
        "typing_extensions", "4.0", "noarch", "python",
    )  # fmt: skip
    assert package.depends == ("python >=3.9",)
    assert package.build.startswith("pyh")
    assert package.build.endswith("_0")
    assert (package.license, package.summary, package.licenses) == ("PSF-2.0", "Types", {"LICENSE": b"text"})
    assert files["site-packages/typing_extensions/__init__.py"] == b"VERSION = '4.0'\n"
    assert files["site-packages/typing_extensions-4.0.dist-info/INSTALLER"] == b"conda\n"


def test_its_time_is_that_of_its_newest_file(tmp_path: Path) -> None:
    package, _ = _packed(write_wheel(tmp_path, "one"))
    assert package.timestamp == calendar.timegm(WRITTEN)


def test_a_wheel_for_this_interpreter_asks_for_it_and_for_the_c_library_of_its_tag(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "fast", tag=f"{HERE.abi}-{HERE.abi}-manylinux_2_28_{MACHINE}")
    package, files = _packed(wheel)
    major, minor = HERE.minor.split(".")
    assert package.subdir == HERE.subdir
    assert package.noarch is None
    assert package.depends == (
        f"python >={HERE.minor},<{major}.{int(minor) + 1}.0a0",
        f"python_abi {HERE.minor}.* *_{HERE.abi}",
        "__glibc >=2.28,<3.0.a0",
    )
    assert f"lib/python{HERE.minor}/site-packages/fast/__init__.py" in files


def test_of_several_tags_the_oldest_c_library_counts(tmp_path: Path) -> None:
    platforms = f"manylinux2014_{MACHINE}.manylinux_2_17_{MACHINE}.manylinux_2_28_{MACHINE}"
    package, _ = _packed(write_wheel(tmp_path, "fast", tag=f"{HERE.abi}-{HERE.abi}-{platforms}"))
    assert package.depends[-1] == "__glibc >=2.17,<3.0.a0"


def test_a_wheel_for_all_later_interpreters_is_noarch_on_its_platform(tmp_path: Path) -> None:
    package, files = _packed(write_wheel(tmp_path, "fast", tag=f"cp310-abi3-manylinux_2_17_{MACHINE}"))
    assert (package.subdir, package.noarch) == (HERE.subdir, "python")
    assert package.depends == ("python >=3.10", "__glibc >=2.17,<3.0.a0")
    assert "site-packages/fast/__init__.py" in files


def test_a_pure_wheel_of_one_interpreter_needs_at_least_that(tmp_path: Path) -> None:
    package, _ = _packed(write_wheel(tmp_path, "one", tag="py311-none-any", metadata=["Requires-Python: >=3.9"]))
    assert package.depends == ("python >=3.11",)


def test_markers_are_answered_for_the_interpreter_and_extras_left_out(tmp_path: Path) -> None:
    requires = [
        "torch>=2.0", 'tomli; python_version < "3.11"', 'colorama; sys_platform == "win32"', 'pytest; extra == "test"',
        'msgpack (>=1.0); platform_system == "Linux"', "huggingface-hub[cli]<3,>=1.2", "unwanted",
    ]  # fmt: skip
    wheel = write_wheel(tmp_path, "one", metadata=[f"Requires-Dist: {line}" for line in requires])
    package, _ = _packed(wheel, drop=("unwanted",), depends=("numpy",))
    assert package.depends == (
        "python", "pytorch >=2.0", "msgpack-python >=1.0", "huggingface_hub <3,>=1.2", "numpy",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("one", "one"),
        ("one==1.2", "one ==1.2"),
        ("one==1.2.*", "one 1.2.*"),
        ("one==2.13.0+cpu", "one ==2.13.0"),
        ("one~=1.4.2", "one 1.4.*,>=1.4.2"),
        ("one>=1,!=1.5,<2", "one !=1.5,<2,>=1"),
        ("Some_Name", "some-name"),
    ],
)
def test_a_requirement_reads_as_conda_says_it(requirement: str, expected: str) -> None:
    assert match_spec(Requirement(requirement), {}) == expected


def test_the_recipes_names_win(tmp_path: Path) -> None:
    assert match_spec(Requirement("nvidia-cublas-cu12==12.8.4.1"), {"nvidia-cublas-cu12": "libcublas"}) == (
        "libcublas ==12.8.4.1"
    )


def test_a_build_string_from_the_recipe_gets_the_hash_and_its_number(tmp_path: Path) -> None:
    package, _ = _packed(write_wheel(tmp_path, "torch", "2.9.1"), build="cuda128_py311_{hash}_200")
    assert package.name == "pytorch"
    assert package.build_number == 200
    prefix, digest, number = package.build.rsplit("_", 2)
    assert (prefix, number, len(digest), digest[0]) == ("cuda128_py311", "200", 8, "h")


def test_a_local_version_is_not_conda_s(tmp_path: Path) -> None:
    package, _ = _packed(write_wheel(tmp_path, "torch", "2.13.0+cpu"))
    assert package.version == "2.13.0"


def test_scripts_and_launchers_hold_a_prefix_that_installing_replaces(tmp_path: Path) -> None:
    wheel = write_wheel(
        tmp_path,
        "fast",
        tag=f"{HERE.abi}-{HERE.abi}-manylinux_2_28_{MACHINE}",
        files={"fast-1.0.data/scripts/old": b"#!python\nprint(1)\n", "fast-1.0.data/data/share/doc.txt": b"doc"},
        info={"entry_points.txt": b"[console_scripts]\nnew = fast.cli:app.run [extra]\n"},
    )
    package, files = _packed(wheel)
    assert files["bin/old"] == f"#!{PLACEHOLDER}/bin/python\nprint(1)\n".encode()
    assert files["bin/new"].startswith(f"#!{PLACEHOLDER}/bin/python\n".encode())
    assert b"from fast.cli import app\n" in files["bin/new"]
    assert b"sys.exit(app.run())" in files["bin/new"]
    assert files["share/doc.txt"] == b"doc"
    marked = {one.path for one in package.files if one.placeholder}
    assert marked == {"bin/old", "bin/new"}


def test_a_file_can_become_a_link_to_another_package_s(tmp_path: Path) -> None:
    wheel = write_wheel(
        tmp_path,
        "fast",
        tag=f"{HERE.abi}-{HERE.abi}-manylinux_2_28_{MACHINE}",
        files={"fast.libs/libgomp-12.so.1": b"library"},
    )
    package, files = _packed(wheel, links=(("fast.libs/libgomp-*.so*", "lib/libgomp.so.1"),))
    linked = {one.path: one.target for one in package.files if one.target}
    site_packages = f"lib/python{HERE.minor}/site-packages"
    assert linked == {f"{site_packages}/fast.libs/libgomp-12.so.1": "../../../../lib/libgomp.so.1"}
    assert b"fast.libs/libgomp-12.so.1,,\n" in files[f"{site_packages}/fast-1.0.dist-info/RECORD"]


def test_a_file_that_others_bring_too_can_be_left_out(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "one", files={"nvidia/__init__.py": b"", "nvidia/lib/__init__.py": b""})
    _, files = _packed(wheel, omit=("nvidia/__init__.py",))
    assert "site-packages/nvidia/__init__.py" not in files
    assert "site-packages/nvidia/lib/__init__.py" in files
    assert b"nvidia/__init__.py" not in files["site-packages/one-1.0.dist-info/RECORD"]


def test_a_truncated_wheel_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "one")
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(BuildError, match=r"^one-1\.0-py3-none-any\.whl is not a whole wheel: File is not a zip file$"):
        _packed(wheel)


def test_a_file_that_would_leave_the_prefix_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "one", files={"../../evil.py": b""})
    with pytest.raises(BuildError, match=r"holds a file outside of its folder: \.\./\.\./evil\.py"):
        _packed(wheel)
