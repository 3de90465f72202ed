"""What an image will be: layers that an update moves few of, a base that fits, variables and labels."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import lockgen
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from lock_values import CPU, GPU, PLAIN, package, request

from lockgen.cli.files import read_locks
from lockgen.image.layers import Moved, group, moved, paired
from lockgen.image.model import Base, ImagePlan, Layer
from lockgen.image.plan import ImageError, Options, licenses_of_note, plan, unpacked
from lockgen.knowledge.extra import extra
from lockgen.lock.model import Lock, LockedPackage, PlatformLock
from lockgen.lock.registry import dump_all
from lockgen.request import Requirement
from lockgen.spec.model import Image

FLAGSHIP = ROOT / "envs" / "pytorch-2.9-nlp"
LARGE = 100_000_000
"""Bytes of archive from which on a package has a layer of its own."""

# layers

names = st.one_of(
    st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True),
    st.sampled_from(["libcublas", "libcudnn", "cuda-nvrtc", "nccl", "libtorch", "pytorch", "torchvision", "python",
                     "numpy", "a.b", "a-b", "a_b", "large", "packages", "cuda-1", "python-2"]),
)  # fmt: skip
sizes = st.one_of(st.integers(0, LARGE - 1), st.integers(LARGE, 2 * 10**9))
budgets = st.integers(1, 40)


@st.composite
def sets(draw: st.DrawFn, most: int = 16) -> tuple[LockedPackage, ...]:
    """Packages with one name each, of any group and size."""
    chosen = draw(st.lists(names, min_size=1, max_size=most, unique=True))
    return tuple(
        package(name, size=draw(sizes), noarch=draw(st.sampled_from([None, "python", "generic"]))) for name in chosen
    )


def contents(layers: Sequence[Layer]) -> dict[str, tuple[str, ...]]:
    return {layer.name: layer.packages for layer in layers}


def changed(before: Sequence[Layer], after: Sequence[Layer]) -> set[str]:
    """Names of the layers that are not the same packages before and after."""
    old, new = contents(before), contents(after)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


@settings(deadline=None)
@given(packages=sets(), budget=budgets)
def test_every_package_is_in_one_layer_and_the_budget_holds(packages: Sequence[LockedPackage], budget: int) -> None:
    layers = group(packages, budget)
    assert sorted(name for layer in layers for name in layer.packages) == sorted(one.name for one in packages)
    assert 1 <= len(layers) <= budget
    assert len({layer.name for layer in layers}) == len(layers)
    assert sum(layer.size for layer in layers) == sum(one.size for one in packages)
    for layer in layers:
        assert re.fullmatch(r"[a-z0-9-]+", layer.name)
        assert layer.packages == tuple(sorted(layer.packages)) != ()


@settings(deadline=None)
@given(packages=sets(), budget=budgets, seed=st.randoms())
def test_the_order_of_the_packages_does_not_matter(
    packages: Sequence[LockedPackage], budget: int, seed: object
) -> None:
    shuffled = list(packages)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert group(shuffled, budget) == group(packages, budget)


@settings(deadline=None)
@given(packages=sets(), budget=budgets, data=st.data())
def test_a_new_version_changes_the_bytes_of_one_layer(
    packages: Sequence[LockedPackage], budget: int, data: st.DataObject
) -> None:
    """Of a size between the same powers of two, and of the same Python: a new Python moves pure packages too."""
    old = data.draw(st.sampled_from(packages))
    low, high = (1 << old.size.bit_length() >> 1, (1 << old.size.bit_length()) - 1)
    low, high = (max(low, LARGE), high) if old.size >= LARGE else (low, min(high, LARGE - 1))
    new = package(old.name, "1.0.1", size=data.draw(st.integers(low, high)), noarch=old.noarch)
    updated = tuple(new if one is old else one for one in packages)
    before, after = group(packages, budget), group(updated, budget)
    assert contents(before) == contents(after)
    (one,) = moved(paired(before, packages), paired(after, updated))
    assert (one.changed, one.added) == ((old.name,), False)
    assert old.name in contents(after)[one.name]


@settings(deadline=None)
@given(packages=sets(), budget=budgets, size=sizes)
def test_a_new_package_leaves_the_other_layers_alone(packages: Sequence[LockedPackage], budget: int, size: int) -> None:
    """It changes the layer that it comes to; one more large package than has room also moves others to `large`."""
    new = package("newcomer", size=size)
    before, after = group(packages, budget), group((*packages, new), budget)
    touched = changed(before, after)
    (home,) = (layer.name for layer in after if "newcomer" in layer.packages)
    assert home in touched
    if "large" in contents(after):
        assert len(touched) <= 4
    else:
        assert touched == {home}


def test_the_groups_come_in_the_order_of_their_pace() -> None:
    packages = [
        package("idna", noarch="python"),
        package("tzdata", noarch="generic"),
        package("python", "3.13.1"),
        package("torchvision"),
        package("cuda-version", noarch="generic"),
        package("libcurl"),
        package("libtorch", size=LARGE),
        package("libcudnn", size=LARGE),
    ]
    names = [re.sub(r"-[0-9]+$", "", layer.name) for layer in group(packages, 24)]
    assert [name for position, name in enumerate(names) if name not in names[:position]] == [
        "libcudnn", "cuda", "libtorch", "pytorch", "compiled", "python",
    ]  # fmt: skip
    found = {name: layer.name for layer in group(packages, 24) for name in layer.packages}
    assert found["libcurl"].startswith("compiled-"), "curl is not of CUDA"
    assert found["tzdata"].startswith("python-")


def test_where_large_packages_are_many_the_smaller_of_them_share_a_layer() -> None:
    """24 layers: 13 for the small packages of all groups, 11 for large ones, the last of them shared."""
    large = [package(f"p{number:02}", size=LARGE << (number % 3)) for number in range(15)]
    layers = group([*large, package("small")], 24)
    alone = [layer.name for layer in layers if layer.packages == (layer.name,)]
    assert alone == ["p01", "p02", "p04", "p05", "p07", "p08", "p10", "p11", "p13", "p14"]
    assert contents(layers)["large"] == ("p00", "p03", "p06", "p09", "p12")
    assert len(group(large[:11], 24)) == 11


def test_who_is_large_enough_for_a_layer_alone_does_not_turn_on_a_few_bytes() -> None:
    """13 large packages for 11 layers: sizes of 110 and 130 MB lie between the same powers of two."""

    def layers(size: int) -> list[tuple[str, tuple[str, ...]]]:
        packages = [package(f"p{number:02}", size=120_000_000) for number in range(12)]
        return [(layer.name, layer.packages) for layer in group([*packages, package("q", size=size)], 24)]

    assert layers(110_000_000) == layers(130_000_000)
    assert ("large", ("p10", "p11", "q")) in layers(110_000_000)


def test_a_budget_below_the_number_of_groups_folds_the_last_ones() -> None:
    packages = [package("nccl"), package("pytorch"), package("numpy"), package("idna", noarch="python")]
    assert contents(group(packages, 1)) == {"packages": ("idna", "nccl", "numpy", "pytorch")}
    assert contents(group(packages, 2)) == {"cuda-1": ("nccl",), "packages": ("idna", "numpy", "pytorch")}
    assert len(group(packages, 4)) == 4


def test_a_new_python_moves_pure_python_packages_too() -> None:
    """They lie in `lib/python3.13/site-packages`; data does not."""

    def layers(python: str) -> tuple[tuple[Layer, tuple[LockedPackage, ...]], ...]:
        packages = [package("python", python), package("idna", noarch="python"), package("tzdata", noarch="generic")]
        return paired(group(packages, 30), packages)

    named = {one.name: one.changed for one in moved(layers("3.13.1"), layers("3.13.2"))}
    assert list(named.values()) == [("python",)]
    found = sorted(name for one in moved(layers("3.13.1"), layers("3.14.0")) for name in one.changed)
    assert found == ["idna", "python"]


def test_an_update_of_a_layer_says_what_is_fetched_again() -> None:
    old = [package("nccl", size=LARGE), package("six", noarch="python"), package("gone", noarch="python")]
    new = [package("nccl", size=LARGE), package("libtorch", size=LARGE), *old[1:2]]
    (first, second) = moved(paired(group(old, 5 + 3), old), paired(group(new, 5 + 3), new))
    assert first == Moved(name="libtorch", size=LARGE, changed=("libtorch",), added=True)
    assert (second.changed, second.added, second.size) == (("gone",), False, new[2].size)


def test_a_torch_bump_of_the_flagship_leaves_cuda_and_pure_python_alone() -> None:
    (lock,) = read_locks(FLAGSHIP)
    old = lock.platforms[0].packages
    bumped = {"pytorch", "libtorch", "torchvision"}
    new = tuple(dataclasses.replace(one, sha256="0" * 64) if one.name in bumped else one for one in old)
    found = moved(paired(group(old, 24), old), paired(group(new, 24), new))
    assert [(one.name, one.changed) for one in found] == [
        ("libtorch", ("libtorch",)),
        ("pytorch-1", ("pytorch", "torchvision")),
    ]


def test_a_pure_python_bump_of_the_flagship_fetches_less_than_a_hundredth() -> None:
    (lock,) = read_locks(FLAGSHIP)
    old = lock.platforms[0].packages
    new = tuple(dataclasses.replace(one, sha256="0" * 64) if one.name == "idna" else one for one in old)
    (one,) = moved(paired(group(old, 24), old), paired(group(new, 24), new))
    assert one.size < sum(package.size for package in old) / 100


# the plan


def planned(lock: Lock = PLAIN, image: Image | None = None, options: Options | None = None, *extras: str) -> ImagePlan:
    services = [service for name in extras for service in extra(name).services]  # type: ignore[union-attr]
    return plan(lock, lock.platforms[0], image or Image(), services, options)


def needing(glibc: str) -> Lock:
    """A lock with one package that needs a C library."""
    packages = (package("libfoo", depends=[f"__glibc >={glibc},<3.0.a0"]), package("python", "3.13.1"))
    return Lock(name="small", platforms=(PlatformLock(request=request("linux-64"), packages=packages),))


def test_the_plan_of_a_lock_with_cuda() -> None:
    found = planned(image=Image(env={"HF_HOME": "/work/hf", "LANG": "de_DE.UTF-8"}, ports=[8888, 6006, 8888]))
    assert found.base == Base(
        reference="docker.io/library/debian:bookworm-slim",
        digest="sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587",
        glibc="2.36",
    )
    assert (found.architecture, found.prefix, found.user) == ("amd64", "/opt/env", "1000:1000")
    assert (found.login, found.home, found.workdir, found.ports) == ("lockgen", "/home/lockgen", "/work", (6006, 8888))
    assert found.fingerprint == PLAIN.fingerprint()
    env = dict(found.env)
    assert env["PATH"].startswith("/opt/env/bin:")
    assert (env["CONDA_PREFIX"], env["HOME"]) == ("/opt/env", "/home/lockgen")
    assert (env["NVIDIA_VISIBLE_DEVICES"], env["NVIDIA_DRIVER_CAPABILITIES"]) == ("all", "compute,utility")
    assert env["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.0"
    assert (env["HF_HOME"], env["LANG"]) == ("/work/hf", "de_DE.UTF-8"), "the spec's own words win"
    assert not any(name.startswith("CONDA_OVERRIDE_") for name in env)
    assert [folder.path for folder in found.folders if folder.owned] == ["/home/lockgen", "/work"]


def test_a_cpu_lock_sets_nothing_of_nvidia() -> None:
    found = planned(CPU)
    assert not [name for name, _ in found.env if name.startswith(("NVIDIA_", "PYTORCH_"))]
    assert not [name for name, _ in found.labels if name in ("io.lockgen.cuda", "io.lockgen.min-driver")]


def with_pytorch(version: str) -> Lock:
    (one,) = PLAIN.platforms
    packages = tuple(
        dataclasses.replace(each, version=version) if each.name == "pytorch" else each for each in one.packages
    )
    return dataclasses.replace(PLAIN, platforms=(dataclasses.replace(one, packages=packages),))


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2.8.0", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"]),
        ("2.9.1", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"]),
        ("2.11.0", ["PYTORCH_ALLOC_CONF"]),
    ],
)
def test_the_allocator_is_set_by_the_name_that_this_pytorch_reads(version: str, names: list[str]) -> None:
    """2.9.1 takes `expandable_segments` from the older name alone, says pytorch/pytorch#183387 and its header."""
    env = planned(with_pytorch(version)).env
    assert [pair for pair in env if "ALLOC" in pair[0]] == [(name, "expandable_segments:True") for name in names]


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_a_spec_that_sets_the_allocator_under_one_name_has_that_one_only(name: str) -> None:
    env = planned(image=Image(env={name: "max_split_size_mb:128"})).env
    assert [pair for pair in env if "ALLOC" in pair[0]] == [(name, "max_split_size_mb:128")]


def test_the_driver_that_compiles_ptx_is_asked_for_in_full() -> None:
    """560.28.03 came with CUDA 12.6."""
    (one,) = PLAIN.platforms
    assert one.cuda is not None
    ptx = dataclasses.replace(one.cuda, locked="12.6", min_driver="560.28.03")
    lock = dataclasses.replace(PLAIN, platforms=(dataclasses.replace(one, cuda=ptx),))
    assert dict(planned(lock).env)["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.6"


def test_labels_say_what_is_inside() -> None:
    image = Image(labels={"org.example.team": "nlp", "org.opencontainers.image.title": "mine"})
    found = planned(GPU, image, Options(created=1_700_000_000))
    labels = dict(found.labels)
    assert list(found.labels) == sorted(found.labels)
    assert labels == {
        "io.lockgen.cuda": "12.9",
        "io.lockgen.fingerprint": GPU.fingerprint(),
        "io.lockgen.min-driver": "525.60.13",
        "io.lockgen.pytorch": "2.9.1",
        "io.lockgen.spec": "small",
        "io.lockgen.variant": "gpu",
        "org.example.team": "nlp",
        "org.opencontainers.image.base.digest": found.base.digest,
        "org.opencontainers.image.base.name": "docker.io/library/debian:bookworm-slim",
        "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
        "org.opencontainers.image.title": "mine",
    }


def test_the_flagship_names_its_licenses_of_note() -> None:
    (lock,) = read_locks(FLAGSHIP)
    assert dict(planned(lock).labels)["io.lockgen.licenses"] == (
        "GPL-2.0-or-later, GPL-3.0-only, LicenseRef-IntelSimplifiedSoftwareOct2022, "
        "LicenseRef-NVIDIA-End-User-License-Agreement, LicenseRef-cuDNN-Software-License-Agreement"
    )


def test_an_image_is_as_old_as_the_newest_build_in_it() -> None:
    packages = (package("a", timestamp=1_600_000_000_999), package("b", timestamp=None), package("c", timestamp=5))
    lock = Lock(name="small", platforms=(PlatformLock(request=request("linux-64"), packages=packages),))
    assert planned(lock).created == 1_600_000_000
    assert planned(lock, None, Options(created=0)).created == 0


@pytest.mark.parametrize(
    ("license", "noted"),
    [
        ("LicenseRef-NVIDIA-End-User-License-Agreement", True),
        ("LicenseRef-cuDNN-Software-License-Agreement", True),
        ("GPL-3.0-only", True),
        ("MIT AND GPL-2.0-or-later", True),
        ("GPL-3.0-only WITH GCC-exception-3.1", False),
        ("BSD-2-Clause OR GPL-2.0-or-later", False),
        ("LGPL-2.1-or-later", False),
        ("LicenseRef-Public-Domain", False),
        ("Apache-2.0", False),
    ],
)
def test_licenses_of_note(license: str, noted: bool) -> None:
    assert licenses_of_note([package("a", license=license), package("b", license=None)]) == (
        (license,) if noted else ()
    )


# the base


def refused(lock: Lock, base: str, image: Image | None = None) -> str:
    with pytest.raises(ImageError) as error:
        planned(lock, image, Options(base=base))
    return str(error.value)


def test_a_base_with_an_older_glibc_than_the_lock_needs_is_refused() -> None:
    assert refused(needing("2.40"), "ubuntu-24.04") == (
        "`docker.io/library/ubuntu:24.04` has glibc 2.39, which is too old for libfoo (`__glibc >=2.40,<3.0.a0`)\n"
        "  hint: take one of debian-trixie-slim"
    )
    assert planned(needing("2.40"), None, Options(base="debian-trixie-slim")).base.glibc == "2.41"
    assert planned(needing("2.36")).base.glibc == "2.36"
    assert "is too old for libfoo" in refused(needing("2.36.1"), "debian-bookworm-slim")


def test_a_base_of_ones_own_says_which_glibc_it_has_to_have() -> None:
    base = f"registry.example.org:5000/team/base@sha256:{'0' * 64}"
    found = planned(needing("2.28"), None, Options(base=base))
    assert (found.base.reference, found.base.glibc) == ("registry.example.org:5000/team/base", None)
    assert found.base.pinned == base
    assert "glibc of `registry.example.org:5000/team/base` is not known: it has to be 2.28 or newer" in found.notes


def test_a_base_without_a_digest_is_said_to_change() -> None:
    found = planned(CPU, None, Options(base="example.org/base:1"))
    assert "`example.org/base:1` has no digest: another build may find another base" in found.notes


def test_a_known_reference_without_a_digest_takes_the_known_one() -> None:
    known = planned(CPU, None, Options(base="debian-trixie-slim")).base
    assert planned(CPU, None, Options(base="debian:trixie-slim")).base == known
    assert planned(CPU, Image(base=known.pinned)).base == known


def test_a_file_as_a_base_leaves_no_path_in_the_labels() -> None:
    found = planned(CPU, None, Options(base="oci:/home/somebody/base:1"))
    assert found.base == Base(reference="oci:/home/somebody/base:1", digest=None, glibc=None)
    assert "somebody" not in str(found.labels) + str(found.env)


def test_a_second_cuda_in_the_base_is_refused_with_its_size_unless_forced() -> None:
    (lock,) = read_locks(FLAGSHIP)
    text = refused(lock, "nvidia-cuda-12.8-base")
    assert text == (
        "`docker.io/nvidia/cuda:12.8.1-base-ubuntu22.04` carries CUDA 12.8, but the environment brings its own 12.9, "
        "about 4.1 GB: PyTorch never looks at the base's, which comes on top of that\n"
        "  hint: take `--base debian-bookworm-slim`, which has none; `--force-base` takes it all the same"
    )
    assert "carries CUDA 12.4" in refused(PLAIN, "nvidia/cuda:12.4.1-devel-ubuntu22.04")
    assert "nothing in the lock uses it" in refused(CPU, "nvidia-cuda-12.8-base")
    forced = planned(lock, None, Options(base="nvidia-cuda-12.8-base", force_base=True))
    assert forced.base.cuda == "12.8"
    assert any("it only adds to the size" in note for note in forced.notes)


@pytest.mark.parametrize("base", ["debian-bookwrm-slim", "micromamba", "ubuntu", "a b:c", "x:y@sha256:12", ""])
def test_what_is_no_base_is_refused(base: str) -> None:
    assert refused(CPU, base).startswith(f"unknown base image: `{base}`\n  hint: ")


def test_the_specs_base_is_taken_where_the_command_line_names_none() -> None:
    assert planned(CPU, Image(base="ubuntu-24.04")).base.glibc == "2.39"
    assert planned(CPU, Image(base="ubuntu-24.04"), Options(base="debian-trixie-slim")).base.glibc == "2.41"


@pytest.mark.parametrize("budget", [0, 97, 1000])
def test_a_budget_that_no_image_can_have_is_refused(budget: int) -> None:
    with pytest.raises(ImageError, match=f"packages go into 1 to 96 layers, not {budget}"):
        planned(options=Options(budget=budget))
    assert len(planned(options=Options(budget=1)).layers) == 1


@pytest.mark.parametrize("folder", ["/opt/env", "/opt/env/lib", "/opt/lockgen"])
def test_the_user_is_not_given_what_lockgen_writes(folder: str) -> None:
    with pytest.raises(ImageError, match=f"^`{folder}` cannot be the folder to work in: "):
        planned(CPU, Image(workdir=folder))
    assert planned(CPU, Image(workdir="/opt/env2")).workdir == "/opt/env2"


def test_a_credential_among_the_variables_is_noted() -> None:
    found = planned(CPU, Image(env={"HF_TOKEN": "x", "TOKENIZERS_PARALLELISM": "false", "AWS_SECRET_ACCESS_KEY": "y"}))
    assert [note.split("`")[1] for note in found.notes] == ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN"]
    assert found.notes[1].endswith("hand it in when it runs, with `-e HF_TOKEN`")


def test_a_platform_without_images_is_refused() -> None:
    with pytest.raises(ImageError, match="there are no container images for osx-arm64"):
        plan(CPU, CPU.platforms[1], Image(), ())


def test_the_unpacked_size_is_estimated_by_group() -> None:
    """CUDA libraries 1.9 times their archive, pure Python with its byte code 9.2 times."""
    packages = (package("idna", size=1000, noarch="python"), package("nccl", size=1000))
    one = PlatformLock(request=request("linux-64"), packages=packages)
    assert (unpacked(one, ["nccl"]), unpacked(one, ["idna"]), unpacked(one, ["nccl", "idna"])) == (1900, 9200, 11100)


def test_services_bring_their_ports() -> None:
    packages = (package("jupyterlab"), package("python", "3.13.1"))
    lock = Lock(name="small", platforms=(PlatformLock(request=request("linux-64"), packages=packages),))
    found = planned(lock, Image(ports=[6006]), None, "jupyter")
    assert found.ports == (6006, 8888)
    assert found.health is not None


# the command


SPEC = 'name: small\npython: "3.13"\ncuda: none\nimage: {user: "1234:5", ports: [6006]}\n'


def locked(folder: Path, *packages: LockedPackage) -> None:
    """A spec and the folder of its lock, as `lockgen resolve` lays them out."""
    found = tuple(sorted((*packages, package("python", "3.13.1")), key=lambda one: one.name))
    lock = Lock(name="small", platforms=(PlatformLock(request=request("linux-64"), packages=found),))
    (folder / "small").mkdir(parents=True)
    (folder / "small.yaml").write_text(SPEC)
    for name, text in dump_all((lock,), ("conda-lock-v1",)).items():
        (folder / "small" / name).write_text(text)


def test_the_command_shows_layers_and_setup_from_the_spec_beside_the_lock(tmp_path: Path) -> None:
    locked(tmp_path, package("numpy"))
    run = lockgen("image", "plan", "small", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("small for linux/amd64\n\nlayer ")
    assert re.search(r"^compiled-[1-5] .*numpy", run.stdout, re.MULTILINE)
    assert re.search(r"^user +1234:5 \(lockgen\), in /work$", run.stdout, re.MULTILINE)
    assert re.search(r"^ports +6006$", run.stdout, re.MULTILINE)
    assert "under the 8.00 GB that an image should stay below" in run.stdout


def test_the_command_gives_the_plan_as_json(tmp_path: Path) -> None:
    locked(tmp_path, package("numpy", size=5000))
    run = lockgen("image", "plan", "--json", "--layers", "2", cwd=tmp_path, env={"SOURCE_DATE_EPOCH": "1700000000"})
    (found,) = json.loads(run.stdout)
    assert (found["created"], found["user"], found["moved"]) == (1_700_000_000, "1234:5", None)
    (layer,) = found["layers"]
    assert (layer["name"], layer["size"]) == ("packages", found["archives"])
    assert layer["unpacked"] == found["unpacked"] > found["archives"] > 5000


def test_the_command_says_what_an_update_fetches_again(tmp_path: Path) -> None:
    locked(tmp_path / "old", package("numpy", size=5000), package("idna", noarch="python"))
    locked(tmp_path / "new", package("numpy", "2.0", size=6000), package("idna", noarch="python"))
    run = lockgen("image", "plan", "new/small", "--against", "old/small", cwd=tmp_path)
    assert run.returncode == 0
    fates = {
        re.split(r"  +", line)[1]: line.split()[-1]
        for line in run.stdout.splitlines()
        if line[-5:] in ("stays", "again")
    }
    assert fates == {"numpy": "again", "python": "stays", "idna": "stays"}
    assert "the update fetches 1 of 3 layers, 6.0 kB of 8.0 kB (74.6 %), for numpy\n" in run.stdout
    same = lockgen("image", "plan", "new/small", "--against", "new/small", cwd=tmp_path)
    assert "the update fetches nothing: every layer stays\n" in same.stdout


def alone(folder: Path, extra: str) -> None:
    """A lock with one extra, whose spec is not there."""
    asked = Requirement(spec="jupyterlab", because=f"extra {extra}: notebooks", key="extras.0")
    wanted = dataclasses.replace(request("linux-64"), requirements=(asked,))
    packages = (package("jupyterlab", noarch="python"), package("python", "3.13.1"))
    lock = Lock(name="small", platforms=(PlatformLock(request=wanted, packages=packages),))
    for name, text in dump_all((lock,), ("conda-lock-v1",)).items():
        (folder / name).write_text(text)


def test_a_lock_without_its_spec_keeps_the_services_of_its_extras_and_says_what_is_missing(tmp_path: Path) -> None:
    alone(tmp_path, "jupyter")
    run = lockgen("image", "plan", ".", "--json", cwd=tmp_path)
    (found,) = json.loads(run.stdout)
    assert (found["ports"], found["command"]) == ([8888], ["/opt/lockgen/serve"])
    assert found["notes"][-1] == "no spec beside the lock: the keys of `image` have their defaults; `--spec` names it"


def test_a_lock_with_an_extra_of_its_own_needs_its_spec(tmp_path: Path) -> None:
    alone(tmp_path, "mine")
    run = lockgen("image", "plan", ".", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (
        2,
        "error: the lock has an extra of its spec's own, `mine`, and the spec is not beside the lock\n"
        "  hint: `--spec` names the spec, beside which the extra lies\n",
    )


def test_another_spec_than_the_locks_is_refused(tmp_path: Path) -> None:
    locked(tmp_path, package("numpy"))
    (tmp_path / "other.yaml").write_text(SPEC.replace("small", "other"))
    run = lockgen("image", "plan", "small", "--spec", "other.yaml", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (
        2,
        "error: the lock is of the spec `small`, and other.yaml is `other`\n"
        "  hint: `--spec` names the spec that was locked\n",
    )


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (["--base", "nvidia-cuda-12.8-base"], {}, "carries CUDA 12.8, and nothing in the lock uses it"),
        (["--layers", "500"], {}, "packages go into 1 to 96 layers, not 500"),
        (["--platform", "osx-arm64"], {}, "nothing is locked for platform `osx-arm64`"),
        ([], {"SOURCE_DATE_EPOCH": "today"}, "`SOURCE_DATE_EPOCH` is not a number of seconds: `today`"),
    ],
)
def test_what_the_command_cannot_do_is_exit_2(
    arguments: list[str], env: dict[str, str], message: str, tmp_path: Path
) -> None:
    locked(tmp_path)
    run = lockgen("image", "plan", "small", *arguments, cwd=tmp_path, env=env)
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr


def test_a_spec_that_is_not_the_locks_is_not_used(tmp_path: Path) -> None:
    locked(tmp_path)
    (tmp_path / "small.yaml").write_text(
        "name: small\ncuda: none\nvariants: {a: {python: '3.13'}, b: {python: '3.12'}}\n"
    )
    run = lockgen("image", "plan", "small/conda-lock.yml", cwd=tmp_path)
    assert run.returncode == 2
    assert "the lock is of a spec without variants on linux-64, which " in run.stderr
    (tmp_path / "other.yaml").write_text(SPEC.replace("1234:5", "7:8"))
    assert re.search(
        r"^user +7:8 ", lockgen("image", "plan", "small", "--spec", "other.yaml", cwd=tmp_path).stdout, re.M
    )


def test_the_command_opens_the_ports_of_the_specs_services(tmp_path: Path) -> None:
    """One of lockgen's extras, and one of the user's own beside the spec."""
    locked(tmp_path, package("jupyterlab"))
    (tmp_path / "extras").mkdir()
    (tmp_path / "extras" / "mine.toml").write_text(
        'name = "mine"\nsummary = "x"\n[[package]]\nspec = "python"\nreason = "x"\n'
        '[[service]]\nname = "mine"\ncommand = ["serve"]\nport = 9000\n'
    )
    (tmp_path / "small.yaml").write_text(f"{SPEC}extras: [jupyter, mine]\n")
    run = lockgen("image", "plan", "small", cwd=tmp_path)
    assert re.search(r"^ports +6006, 8888, 9000$", run.stdout, re.MULTILINE)
