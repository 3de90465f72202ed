"""Solving on channels made up for the purpose: optional packages, determinism, nothing of the host."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fake_channel import TIMESTAMP, by_name, gpu_channel, only, planned, python, record, resolved, snapshot

from lockgen.channels import Channels
from lockgen.errors import ChannelError, Unsolvable
from lockgen.lock.codecs.conda_lock_v1 import CODEC
from lockgen.resolve import resolve

GPU = 'name: t\npython: "3.13"\npytorch: "2.9"\ncuda: "12.1"\n'
OWN_EXTRA = """name = "own"
summary = "Tools of our own"
source = "https://example.org"
checked = 2026-11-30

[[package]]
spec = "here"
reason = "there"
imports = []

[[package]]
spec = "absent"
reason = "not there"
imports = []
"""


def refusal(text: str, folder: Path) -> str:
    with pytest.raises(Unsolvable) as error:
        resolved(text, folder)
    assert error.value.exit_code == 2
    return str(error.value)


@pytest.fixture
def own_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an extra of two packages, of which the channel has one."""
    (tmp_path / "extras").mkdir()
    (tmp_path / "extras" / "own.toml").write_text(OWN_EXTRA)
    monkeypatch.chdir(tmp_path)
    return snapshot(tmp_path / "snapshot", conda_forge=[python(), record("here")])


def test_a_package_of_an_extra_that_the_channel_lacks_is_an_error_at_the_extra(own_extra: Path) -> None:
    assert refusal('name: t\npython: "3.13"\nextras: [own]\n', own_extra) == (
        "spec.yaml:3:10: `absent`: no record in conda-forge for linux-64\n"
        "  3 | extras: [own]\n"
        "    |          ^^^\n"
        "  hint: `{name: own, optional: true}` leaves out what the channel lacks, and says so"
    )


def test_an_optional_extra_leaves_out_what_the_channel_lacks_and_says_so(own_extra: Path) -> None:
    answer = only(resolved('name: t\npython: "3.13"\nextras: [{name: own, optional: true}]\n', own_extra))
    assert [package.name for package in answer.packages] == ["here", "python"]
    assert answer.left_out == ("absent: no record in conda-forge for linux-64",)


def test_a_dependency_that_the_channel_lacks_is_an_error_at_its_line(own_extra: Path) -> None:
    assert refusal("name: t\ndependencies:\n  - python\n  - transfomers >=4\n", own_extra) == (
        "spec.yaml:4:5: `transfomers`: no record in conda-forge for linux-64\n"
        "  4 |   - transfomers >=4\n"
        "    |     ^^^^^^^^^^^^^^^\n"
        "  hint: is it spelled as the channel spells it?"
    )


def test_all_absent_packages_are_named_at_once(own_extra: Path) -> None:
    text = refusal("name: t\ndependencies: [zlib, python, abseil]\n", own_extra)
    assert [line.split(": ")[1] for line in text.splitlines() if "no record" in line] == ["`abseil`", "`zlib`"]


def test_optional_packages_that_do_not_go_with_the_rest_are_left_out_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["first", "second", "third"]
    packages = "".join(f'[[package]]\nspec = "{name}"\nreason = "r"\nimports = []\noptional = true\n' for name in names)
    (tmp_path / "extras").mkdir()
    head = 'name = "own"\nsummary = "s"\nsource = "https://example.org"\nchecked = 2026-11-30\n'
    (tmp_path / "extras" / "own.toml").write_text(head + packages)
    monkeypatch.chdir(tmp_path)
    records = [
        python(), record("base", "1.0"), record("base", "2.0"),
        record("first", depends=["base 1.*"]), record("second", depends=["base 2.*"]), record("third"),
    ]  # fmt: skip
    folder = snapshot(tmp_path / "snapshot", conda_forge=records)
    answer = only(resolved('name: t\npython: "3.13"\nextras: [own]\n', folder))
    assert [package.name for package in answer.packages] == ["base", "first", "python", "third"]
    assert answer.left_out == ("second: no build goes with the rest",)


def test_deepspeed_is_left_out_of_pytorch_2_9_and_comes_with_2_8(shared_channels: Path) -> None:
    """The real channel has one deepspeed, which needs PyTorch 2.8."""

    def llm(version: str) -> tuple[tuple[str, ...], set[str]]:
        text = f'name: t\npython: "3.13"\npytorch: "{version}"\ncuda: "12.1"\nextras: [{{name: llm, optional: true}}]\n'
        answer = only(resolved(text, shared_channels))
        return answer.left_out, {package.name for package in answer.packages}

    left_out, names = llm("2.9")
    assert left_out == (
        "trl: no record in conda-forge for linux-64",
        "deepspeed: no build goes with the rest",
        "flash-attn: no build goes with the rest",
    )
    assert {"peft", "accelerate", "bitsandbytes"} <= names
    left_out, names = llm("2.8")
    assert left_out == ("trl: no record in conda-forge for linux-64", "flash-attn: no build goes with the rest")
    assert "deepspeed" in names


def test_nothing_of_the_host_enters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old system by spec, new one by environment: the package for the new one is not taken."""
    records = gpu_channel(
        record("tool", "1.0", depends=["__glibc >=2.17"]), record("tool", "2.0", depends=["__glibc >=2.34"])
    )
    folder = snapshot(tmp_path, conda_forge=records)
    plain = CODEC.dump(resolved(GPU + "dependencies: [tool]\n", folder))
    for name, value in (("CUDA", "99"), ("GLIBC", "99"), ("LINUX", "99"), ("ARCHSPEC", "zen4"), ("OSX", "99")):
        monkeypatch.setenv(f"CONDA_OVERRIDE_{name}", value)
    monkeypatch.setenv("CONDA_CHANNEL_PRIORITY", "disabled")
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    locks = resolved(GPU + "dependencies: [tool]\n", folder)
    assert by_name(only(locks))["tool"].version == "1.0"
    assert CODEC.dump(locks) == plain
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "")
    assert CODEC.dump(resolved(GPU + "dependencies: [tool]\n", folder)) == plain


def test_the_order_of_records_and_of_keys_does_not_matter(tmp_path: Path) -> None:
    tools = [record("tool", "1.0", f"h{n}_0", ["python"], timestamp=TIMESTAMP + n) for n in range(6)]
    records = gpu_channel(*tools)
    lines = [*GPU.splitlines(), "dependencies: [tool]", "platforms: [linux-64]", "gpus: [V100, H200]"]
    dumped = set()
    for seed in range(5):
        order = random.Random(seed)
        order.shuffle(records)
        order.shuffle(lines)
        folder = snapshot(tmp_path / str(seed), conda_forge=records)
        dumped.add(str(CODEC.dump(resolved("\n".join(lines), folder))))
    assert len(dumped) == 1


def test_platforms_and_variants_keep_their_order(tmp_path: Path) -> None:
    records = [python(), *(record("python", "3.13.1", subdir=subdir) for subdir in ("osx-arm64", "linux-aarch64"))]
    folder = snapshot(tmp_path, conda_forge=records)
    text = 'name: t\npython: "3.13"\nplatforms: [osx-arm64, linux-64, linux-aarch64]\nvariants: {b: {}, a: {}}\n'
    locks = resolved(text, folder)
    assert [lock.variant for lock in locks] == ["a", "b"]
    for lock in locks:
        assert [one.platform for one in lock.platforms] == ["linux-64", "linux-aarch64", "osx-arm64"]
        assert {package.subdir for one in lock.platforms for package in one.packages} == {
            "linux-64", "linux-aarch64", "osx-arm64",
        }  # fmt: skip


def test_the_problems_of_all_platforms_are_told_at_once(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=[python(), record("python", "3.13.1", subdir="osx-arm64")])
    text = refusal("name: t\nplatforms: [linux-64, osx-arm64]\ndependencies: [python, absent]\n", folder)
    assert "`absent`: no record in conda-forge for linux-64" in text
    assert "`absent`: no record in conda-forge for osx-arm64" in text


def test_a_platform_that_the_channel_does_not_have_is_solved_from_its_noarch(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=[record("data", noarch="generic")])
    answer = only(resolved("name: t\nplatforms: [osx-64]\ndependencies: [data]\n", folder))
    assert [package.subdir for package in answer.packages] == ["noarch"]


def test_one_set_of_channels_serves_many_solves(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, conda_forge=gpu_channel())
    channels = Channels(snapshot=folder)
    several = GPU + f"variants: {{{', '.join(f'v{number}: {{}}' for number in range(40))}}}\n"
    first, second = resolve(planned(several), channels), resolve(planned(several), channels)
    assert first == second


def test_an_error_of_a_channel_is_not_taken_for_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="the snapshot has no channel `nvidia`"):
        resolved(GPU + "channels: [conda-forge, nvidia]\n", snapshot(tmp_path, conda_forge=gpu_channel()))
