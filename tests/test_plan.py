"""From a spec to what the solver is asked."""

from __future__ import annotations

import pytest
from spec_text import error, here, notes, planned, write

from lockgen.request import CudaAsk, Request, Requirement

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")
FORGE = "https://conda.anaconda.org/conda-forge"


def request(text: str) -> Request:
    (one,) = planned(f"name: a\n{text}").planned
    return one.request


def specs(found: tuple[Requirement, ...]) -> list[str]:
    return [one.spec for one in found]


def test_the_least_spec_asks_for_nothing_on_the_default_system() -> None:
    assert request("") == Request(
        platform="linux-64",
        channels=(FORGE,),
        provider="conda-forge",
        requirements=(),
        constraints=(Requirement(spec="pytorch * cpu*", because="CPU builds only", key="cuda"),),
        virtual_packages=("__archspec=1=x86_64", "__glibc=2.28=0", "__linux=4.18=0", "__unix=0=0"),
    )


def test_compatible_cuda_asks_for_gpu_builds_of_the_same_major() -> None:
    found = request('python: "3.13"\npytorch: "2.9"\ncuda: "12.1"\n')
    assert found.requirements == (
        Requirement(spec="python 3.13.*", because="python: 3.13", key="python"),
        Requirement(spec="pytorch 2.9.* cuda*", because="pytorch: 2.9", key="pytorch"),
    )
    assert "cuda-version >=12,<13" in specs(found.constraints)
    assert "__cuda=12.1=0" in found.virtual_packages
    assert found.cuda == CudaAsk(version="12.1", match="compatible")


def test_exact_cuda_asks_for_the_toolkit_itself() -> None:
    found = request("pytorch: 2.9.1\ncuda: {version: 12.6, match: exact}\n")
    assert specs(found.requirements) == ["pytorch ==2.9.1 cuda*", "cuda-version 12.6.*"]
    assert found.requirements[1].because == "cuda: 12.6 (exact)"
    assert "cuda-version >=12,<13" not in specs(found.constraints)


def test_the_pytorch_channel_says_cuda_its_own_way() -> None:
    text = "python: 3.10\npytorch: 2.1\ncuda: {version: 12.1, match: exact}\nchannels: [pytorch, nvidia, conda-forge]\n"
    found = request(text)
    assert found.provider == "pytorch"
    assert found.channels == tuple(
        f"https://conda.anaconda.org/{name}" for name in ("pytorch", "nvidia", "conda-forge")
    )
    assert "pytorch-cuda 12.1.*" in specs(found.requirements)
    assert found.requirements[0].spec == "python 3.10.*"


def test_cpu_asks_for_cpu_builds_and_no_cuda() -> None:
    found = request("pytorch: 2.9\ncuda: none\n")
    assert specs(found.requirements) == ["pytorch 2.9.* cpu*"]
    assert found.cuda is None
    assert not any(one.startswith("__cuda") for one in found.virtual_packages)


def test_gpus_become_compute_capabilities_in_order() -> None:
    found = request("cuda: 12.6\ngpus: [H200, V100, '10.0', NVIDIA H100 80GB HBM3, sm_70]\ndriver: '>=560'\n")
    assert found.cuda == CudaAsk(version="12.6", match="compatible", gpus=("7.0", "9.0", "10.0"), driver="560")


def test_extras_dependencies_and_constraints_keep_their_reasons_and_places() -> None:
    write('name = "own"\nsummary = "x"\n[[package]]\nspec = "our-tool >=1"\nreason = "we need it"\n', "extras/own.toml")
    text = "extras: [{name: own, optional: true}]\ndependencies: [numpy >=1.26]\nconstraints: [scipy <2]\n"
    found = request(text)
    assert found.requirements == (
        Requirement(spec="our-tool >=1", because="extra own: we need it", key="extras.0", optional=True),
        Requirement(spec="numpy >=1.26", because="dependencies: numpy >=1.26", key="dependencies.0"),
    )
    assert found.constraints[-1] == Requirement(spec="scipy <2", because="constraints: scipy <2", key="constraints.0")


def test_the_system_is_the_specs_own_else_the_images_else_the_default() -> None:
    def glibc(text: str) -> list[str]:
        return [one for one in request(text).virtual_packages if one.startswith("__glibc")]

    assert glibc("") == ["__glibc=2.28=0"]
    assert glibc("image: {base: debian-bookworm-slim}\n") == ["__glibc=2.36=0"]
    assert glibc("image: {base: debian-bookworm-slim}\nsystem: {glibc: 2.17}\n") == ["__glibc=2.17=0"]


def test_the_rest_of_the_system() -> None:
    found = request("system: {linux: 5.14, archspec: x86_64_v3, macos: 12}\n").virtual_packages
    assert "__linux=5.14=0" in found
    assert "__archspec=1=x86_64_v3" in found
    assert not any(one.startswith("__osx") for one in found)


def test_the_cut_off_date_and_the_priority_are_passed_on() -> None:
    found = request("as-of: 2026-11-30\nchannel-priority: disabled\n")
    assert (found.cutoff, found.channel_priority) == ("2026-11-30T23:59:59Z", "disabled")


def test_one_channel_twice_is_asked_once() -> None:
    assert request(f"channels: [conda-forge, {FORGE}/]\n").channels == (FORGE,)


def test_each_variant_and_platform_is_one_request() -> None:
    text = "name: a\nplatforms: [osx-arm64, linux-64]\nvariants: {cpu: {cuda: none}, gpu: {cuda: 12.6}}\n"
    assert [
        (one.target.variant, one.request.platform, one.request.cuda is not None) for one in planned(text).planned
    ] == [
        ("cpu", "linux-64", False),
        ("cpu", "osx-arm64", False),
        ("gpu", "linux-64", True),
        ("gpu", "osx-arm64", False),
    ]


def test_cuda_is_dropped_where_there_is_none_and_this_is_said() -> None:
    text = "name: a\npytorch: 2.9\ncuda: 12.6\nplatforms: [linux-64, osx-arm64]\n"
    assert notes(text) == ["s.yaml:3:7: osx-arm64 has no CUDA: CPU builds are locked there"]
    mac = planned(text).planned[1].request
    assert (mac.platform, mac.cuda, mac.requirements[0].spec) == ("osx-arm64", None, "pytorch 2.9.* cpu*")


def test_no_cuda_at_all_means_cpu_and_this_is_said_once() -> None:
    text = "name: a\npytorch: 2.9\nplatforms: [linux-64, linux-aarch64, osx-arm64]\n"
    assert notes(text) == ["no `cuda` in the spec: CPU builds are locked"]


def test_cuda_none_is_said_by_the_spec_itself() -> None:
    assert notes("name: a\ncuda: none\n") == []


def test_an_older_driver_lowers_what_the_oldest_machine_reports() -> None:
    """Driver 535 came with CUDA 12.2: NVIDIA's table of toolkits and drivers."""
    assert "__cuda=12.2=0" in request('cuda: "12.9"\ndriver: ">=535"\n').virtual_packages
    assert "__cuda=12.1=0" in request('cuda: "12.1"\ndriver: ">=535"\n').virtual_packages


def test_a_driver_below_the_floor_is_refused_once_for_all_platforms() -> None:
    text = 'name: a\ncuda: "13.0"\ndriver: ">=535"\nplatforms: [linux-64, linux-aarch64]\n'
    assert (
        error(text)
        == """\
s.yaml:3:9: CUDA 13.0 needs driver 580 or newer, but the spec allows 535
  3 | driver: ">=535"
    |         ^^^^^^^
  hint: driver 535 runs CUDA 12.2: set `cuda: "12.2"`"""
    )


def test_a_jetson_module_is_refused_on_x86() -> None:
    assert (
        error('name: a\ncuda: "13.0"\ngpus: [H200, Thor]\n')
        == """\
s.yaml:3:14: `Thor` is a Jetson module, there is none in a linux-64 machine
  3 | gpus: [H200, Thor]
    |              ^^^^
  hint: set `gpus` below `platform: {linux-aarch64: …}`"""
    )


def test_gpus_or_a_driver_without_cuda_are_refused() -> None:
    assert (
        error("name: a\ngpus: [H200]\ndriver: 535\n")
        == """\
s.yaml:2:7: `gpus` is set, but no `cuda`
  2 | gpus: [H200]
    |       ^
  hint: add the CUDA version that the machines' driver supports, such as `cuda: "12.1"`

s.yaml:3:9: `driver` is set, but no `cuda`
  3 | driver: 535
    |         ^^^
  hint: add the CUDA version that the machines' driver supports, such as `cuda: "12.1"`"""
    )


def test_gpus_beside_cuda_none_are_said_to_say_nothing() -> None:
    assert notes("name: a\ncuda: none\ngpus: [H200]\n") == [
        "s.yaml:3:7: `gpus` says nothing here: `cuda: none` asks for CPU builds"
    ]


def test_a_long_line_is_shown_around_the_mark_and_wide_characters_take_two_columns() -> None:
    found = error(f"name: a\nextras: [{'nlp, ' * 60}npl]\n").splitlines()
    assert found[1] == f"  2 | …{('nlp, ' * 60 + 'npl]')[-100:]}"
    assert found[2].index("^") == found[1].index("npl")
    wide = error("name: a\ndescription: {中文: 1}\n").splitlines()
    assert wide[1:3] == ["  2 | description: {中文: 1}", "    |              ^"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "image: {base: debian-bookworm-slim}\nsystem: {glibc: 2.39}\n",
            """\
s.yaml:3:17: the spec allows packages for glibc 2.39, but `debian-bookworm-slim` has glibc 2.36
  3 | system: {glibc: 2.39}
    |                 ^^^^
  hint: leave out `system.glibc`: the base image's own then holds""",
        ),
        (
            "platforms: [linux-aarch64]\nsystem: {archspec: x86_64_v3}\n",
            """\
s.yaml:3:20: there is no `x86_64_v3` processor in a linux-aarch64 machine
  3 | system: {archspec: x86_64_v3}
    |                    ^^^^^^^^^
  hint: set it for its own platform, below `platform:`; the default here is `aarch64`""",
        ),
        (
            'platforms: [osx-arm64]\nsystem: {macos: "1.0"}\n',
            """\
s.yaml:3:17: no osx-arm64 machine has macOS 1.0: the first is 11.0
  3 | system: {macos: "1.0"}
    |                 ^^^^^
  hint: write `macos: "11.0"` or a later one""",
        ),
    ],
)
def test_a_system_that_there_is_not_is_refused(text: str, expected: str) -> None:
    assert error(f"name: a\n{text}") == expected


@pytest.mark.parametrize(
    "text",
    [
        "image: {base: debian-bookworm-slim}\nsystem: {glibc: 2.36}\n",
        "platforms: [linux-64]\nsystem: {archspec: zen4}\n",
        "platforms: [osx-arm64]\nsystem: {archspec: m2, macos: '11.0'}\n",
        "system: {archspec: a_processor_of_tomorrow}\n",
    ],
)
def test_a_system_that_there_may_be_is_taken(text: str) -> None:
    assert request(text)


def test_on_windows_the_driver_is_held_to_the_floor_of_its_own_drivers() -> None:
    text = "name: a\nplatforms: [win-64]\ncuda: 12.9\ndriver: '>=527'\n"
    assert (
        error(text)
        == """\
s.yaml:4:9: CUDA 12.9 needs driver 528.33 or newer, but the spec allows 527
  4 | driver: '>=527'
    |         ^^^^^^^
  hint: driver 527 runs CUDA 12.0: set `cuda: "12.0"`"""
    )
    (one,) = planned(text.replace("527", "581").replace("12.9", "13.0")).planned
    assert "__cuda=13.0=0" in one.request.virtual_packages


def test_a_gpu_that_cudnn_dropped_holds_cudnn_back() -> None:
    """cuDNN 9.11 and newer have no code for GPUs before Turing (7.5): NVIDIA's support matrix of cuDNN 9.11."""
    old = request('pytorch: "2.7"\ncuda: "12.2"\ngpus: [H100, V100]\n')
    assert {"cudnn <9.11", "libcudnn <9.11"} <= set(specs(old.constraints))
    new = request('pytorch: "2.7"\ncuda: "12.2"\ngpus: [H100, T4]\n')
    assert not any("cudnn" in one for one in specs(new.constraints))
    thirteen = request('pytorch: "2.10"\ncuda: "13.0"\ngpus: [V100]\n')
    assert not any("cudnn" in one for one in specs(thirteen.constraints))
