"""What the keys of a spec mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_text import here, notes, planned, read, settings, write

from lockgen.spec.model import Cuda, Extra, Settings, version_spec
from lockgen.spec.parse import load
from lockgen.spec.reader import read as read_nodes

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("3.10", "3.10"),
        ("3.1", "3.1"),
        ("3.20", "3.20"),
        ("'3.10'", "3.10"),
        ("3", "3"),
        ("3.12.0", "3.12.0"),
        ("'>=3.11,<3.14'", ">=3.11,<3.14"),
        ("'==3.12.*'", "==3.12.*"),
        ("3.12.*", "3.12.*"),
        ("'!=3.12.1'", "!=3.12.1"),
        ("~=3.12.1", "~=3.12.1"),
    ],
)
def test_numbers_stay_what_was_written(written: str, meant: str) -> None:
    assert settings(f"name: a\npython: {written}\n").python == meant


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("3", "3.*"),
        ("2.9", "2.9.*"),
        ("2.9.1", "==2.9.1"),
        ("2.9.*", "2.9.*"),
        (">=2.8,<2.10", ">=2.8,<2.10"),
        ("==2.9", "==2.9"),
    ],
)
def test_a_short_version_is_a_series_and_a_long_one_is_exact(version: str, spec: str) -> None:
    assert version_spec(version) == spec


def test_only_the_name_is_needed() -> None:
    spec = read("name: a\n")
    (target,) = spec.targets
    assert (spec.name, spec.description, spec.file) == ("a", None, "s.yaml")
    assert (target.variant, target.platform, target.extras) == (None, "linux-64", ())
    assert target.settings == Settings()
    found = target.settings
    assert (found.channels, found.channel_priority) == (["conda-forge"], "strict")
    assert (found.python, found.pytorch, found.cuda, found.driver, found.as_of) == (None,) * 5
    assert (found.gpus, found.extras, found.dependencies, found.constraints) == ([], [], [], [])
    assert (found.image.base, found.image.user, found.image.workdir) == (None, "1000:1000", "/work")
    assert (found.verify.model, found.verify.steps, found.verify.seq_len) == ("tiny", 200, 64)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('cuda: "12.1"', ("12.1", "compatible")),
        ("cuda: 12.1", ("12.1", "compatible")),
        ("cuda: 12", ("12.0", "compatible")),
        ("cuda: 12.1.1", ("12.1", "compatible")),
        ("cuda: none", ("none", "compatible")),
        ("cuda: None", ("none", "compatible")),
        ("cuda: {version: 12.1}", ("12.1", "compatible")),
        ("cuda: {version: 12.1, match: exact}", ("12.1", "exact")),
        ("pytorch-cuda: 12.1", ("12.1", "compatible")),
        ("pytorch-cuda: {version: 12.1, match: exact}", ("12.1", "exact")),
        ("cuda: 12.1\npytorch-cuda: '12.1.0'", ("12.1", "compatible")),
        ("cuda: {version: 12.1, match: exact}\npytorch-cuda: 12.1", ("12.1", "exact")),
    ],
)
def test_the_forms_of_cuda(written: str, meant: tuple[str, str]) -> None:
    assert settings(f"name: a\n{written}\n").cuda == Cuda(version=meant[0], match=meant[1])


@pytest.mark.parametrize(("written", "meant"), [("535", "535"), ("'>=535'", "535"), ("'>= 525.60.13'", "525.60.13")])
def test_the_forms_of_a_driver(written: str, meant: str) -> None:
    assert settings(f"name: a\ncuda: 12.1\ndriver: {written}\n").driver == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-11-30", "2026-11-30T23:59:59Z"),
        ("2026-11-30T12:00", "2026-11-30T12:00:00Z"),
        ("2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z"),
        ("2026-11-30 12:00:00", "2026-11-30T12:00:00Z"),
        ("2026-11-30T01:30:00+02:00", "2026-11-29T23:30:00Z"),
    ],
)
def test_a_date_means_its_last_second_in_utc(written: str, meant: str) -> None:
    assert settings(f"name: a\nas-of: {written}\n").as_of == meant


def test_extras_are_names_or_mappings() -> None:
    found = settings("name: a\nextras: [nlp, {name: jupyter, optional: true}]\n").extras
    assert found == [Extra(name="nlp"), Extra(name="jupyter", optional=True)]


def test_system_image_and_verify() -> None:
    found = settings(
        "name: a\n"
        "system: {glibc: 2.17, linux: 4.18, archspec: x86_64_v3}\n"
        "image: {base: ubuntu-24.04, user: '1001:0', env: {A: 1}, labels: {org.example: x}, ports: [8888]}\n"
        "verify: {model: base, steps: 10, seq-len: 128, skip-imports: [x], require-gpu: true}\n"
    )
    assert (found.system.glibc, found.system.linux, found.system.archspec) == ("2.17", "4.18", "x86_64_v3")
    assert (found.image.base, found.image.user, found.image.env) == ("ubuntu-24.04", "1001:0", {"A": "1"})
    assert (found.image.labels, found.image.ports) == ({"org.example": "x"}, [8888])
    assert (found.verify.model, found.verify.steps, found.verify.seq_len) == ("base", 10, 128)
    assert (found.verify.skip_imports, found.verify.require_gpu) == (["x"], True)


def test_an_image_by_its_digest() -> None:
    reference = f"registry.example.org/team/base:1@sha256:{'0a' * 32}"
    assert settings(f"name: a\nimage: {{base: '{reference}'}}\n").image.base == reference


def test_channels_keep_their_order_and_lose_a_last_slash() -> None:
    found = settings("name: a\nchannels: [pytorch, 'https://example.com/c/', conda-forge/label/x, ./own]\n")
    assert found.channels == ["pytorch", "https://example.com/c", "conda-forge/label/x", "./own"]


def test_each_platform_is_a_target_in_the_order_of_names() -> None:
    assert [one.platform for one in read("name: a\nplatforms: [osx-arm64, linux-64, osx-arm64]\n").targets] == [
        "linux-64",
        "osx-arm64",
    ]


def test_a_platform_overrides() -> None:
    text = (
        "name: a\ncuda: 12.6\npython: 3.12\nsystem: {glibc: 2.28}\nplatforms: [linux-64, linux-aarch64]\n"
        "platform: {linux-aarch64: {python: 3.13, system: {linux: 5.10}, dependencies: [numpy]}}\n"
    )
    arm, intel = settings(text, platform="linux-aarch64"), settings(text)
    assert (arm.python, arm.system.glibc, arm.system.linux, arm.dependencies) == ("3.13", "2.28", "5.10", ["numpy"])
    assert (intel.python, intel.system.glibc, intel.system.linux, intel.dependencies) == ("3.12", "2.28", None, [])


def test_a_platform_that_is_not_listed_is_said() -> None:
    assert notes("name: a\ncuda: none\nplatform: {osx-64: {python: 3.12}}\n") == [
        "s.yaml:3:12: `platform: osx-64` has no effect: `platforms` does not list it"
    ]


def test_variants_are_overlays_in_the_order_of_names() -> None:
    text = (
        "name: a\npython: 3.12\ngpus: [V100]\nvariants: {gpu: {cuda: 12.6}, cpu: {cuda: none, gpus: []}, plain: {}}\n"
    )
    assert [one.variant for one in read(text).targets] == ["cpu", "gpu", "plain"]
    assert settings(text, "cpu").cuda == Cuda(version="none")
    assert settings(text, "gpu").cuda == Cuda(version="12.6")
    assert [settings(text, one).gpus for one in ("cpu", "gpu", "plain")] == [[], ["V100"], ["V100"]]


def test_a_platform_goes_over_a_variant() -> None:
    text = "name: a\nvariants: {x: {python: 3.12}}\nplatform: {linux-64: {python: 3.13}}\n"
    assert settings(text, "x").python == "3.13"


def test_a_matrix_is_every_combination_with_a_name() -> None:
    text = "name: a\nmatrix: {cuda: [none, 12.6], python: [3.10, '>=3.12'], pytorch: [2.9.1]}\n"
    spec = read(text)
    assert [one.variant for one in spec.targets] == [
        "py310-torch291-cpu",
        "py310-torch291-cuda126",
        "py312-torch291-cpu",
        "py312-torch291-cuda126",
    ]
    found = settings(text, "py312-torch291-cuda126")
    assert (found.python, found.pytorch, found.cuda) == (">=3.12", "2.9.1", Cuda(version="12.6"))


def test_a_matrix_stands_beside_variants() -> None:
    text = "name: a\nvariants: {old: {python: 3.9}}\nmatrix: {python: [3.13]}\n"
    assert [(one.variant, one.settings.python) for one in read(text).targets] == [("old", "3.9"), ("py313", "3.13")]


def test_yaml_anchors_work() -> None:
    found = settings("name: a\ndependencies: &d [numpy]\nconstraints: *d\n")
    assert (found.dependencies, found.constraints) == (["numpy"], ["numpy"])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_change_nothing(end: str, bom: str) -> None:
    text = bom + end.join(["name: a", "python: 3.10", "dependencies:", "  - numpy", ""])
    spec = read(text)
    assert (spec.targets[0].settings.python, spec.targets[0].settings.dependencies) == ("3.10", ["numpy"])
    assert str(spec.targets[0].where("dependencies.0")) == "s.yaml:4:5"


def test_a_target_knows_where_each_key_stands() -> None:
    target = read("name: a\npython: 3.12\nextras: [nlp, {name: ssh}]\nvariants: {x: {python: 3.13}}\n").targets[0]
    assert [str(target.where(key)) for key in ("python", "extras.0", "extras.1", "cuda")] == [
        "s.yaml:4:24",
        "s.yaml:3:10",
        "s.yaml:3:15",
        "s.yaml:1:1",
    ]


def test_extends_merges_mappings_and_replaces_lists_and_the_later_wins() -> None:
    write("python: 3.11\nsystem: {glibc: 2.17, linux: 4.18}\ndependencies: [numpy, scipy]\n", "one.yaml")
    write("python: 3.12\npytorch: 2.8\nimage: {env: {A: one, B: one}}\n", "two.yaml")
    found = settings(
        "name: a\nextends: [one.yaml, two.yaml]\npytorch: 2.9\nsystem: {glibc: 2.28}\ndependencies: [pandas]\n"
        "image: {env: {B: mine}}\n"
    )
    assert (found.python, found.pytorch) == ("3.12", "2.9")
    assert (found.system.glibc, found.system.linux) == ("2.28", "4.18")
    assert found.dependencies == ["pandas"]
    assert found.image.env == {"A": "one", "B": "mine"}


def test_extends_of_extends_is_relative_to_each_file() -> None:
    write("python: 3.11\nname: base\n", "common/base/root.yaml")
    write("extends: [base/root.yaml]\npytorch: 2.9\n", "common/team.yaml")
    spec = read("extends: [../common/team.yaml]\n", "envs/s.yaml")
    assert (spec.name, spec.targets[0].settings.python, spec.targets[0].settings.pytorch) == ("base", "3.11", "2.9")
    assert str(spec.targets[0].where("python")) == "common/base/root.yaml:1:9"


def test_one_file_may_be_extended_twice_and_is_read_once() -> None:
    write("python: 3.12\n", "f0.yaml")
    for number in range(1, 40):
        write(f"extends: [f{number - 1}.yaml, f{number - 1}.yaml]\n", f"f{number}.yaml")
    assert settings("name: a\nextends: [f39.yaml]\n").python == "3.12"


def test_cuda_of_an_extended_file_is_replaced_in_every_idiom() -> None:
    write("cuda: 12.1\n", "base.yaml")
    assert settings("name: a\nextends: [base.yaml]\npytorch-cuda: 12.6\n").cuda == Cuda(version="12.6")
    assert settings("name: a\nextends: [base.yaml]\npytorch: 2.9.0+cu128\n").cuda == Cuda(version="12.8")


def test_a_channel_that_is_a_path_lies_beside_the_file_that_names_it(here: Path) -> None:
    write("channels: [./own, ../up]\n", "common/base.yaml")
    plan = planned("name: a\nextends: [common/base.yaml]\n")
    assert plan.planned[0].request.channels == ((here / "common/own").as_uri(), (here / "up").as_uri())


OWN = 'name = "mine"\nsummary = "ours"\n[[package]]\nspec = "our-tool >=1"\nreason = "we need it"\n'


@pytest.mark.parametrize("folder", [".", "common"])
def test_an_extra_of_ones_own_lies_beside_the_spec_or_the_file_that_names_it(folder: str) -> None:
    write("extras: [mine]\n", "common/base.yaml")
    write(OWN, f"{folder}/extras/mine.toml")
    (target,) = read("name: a\nextends: [common/base.yaml]\n").targets
    assert [one.spec for one in target.extras[0].packages] == ["our-tool >=1"]


def test_an_extra_of_ones_own_goes_before_ours() -> None:
    write(OWN.replace("mine", "nlp"), "extras/nlp.toml")
    (target,) = read("name: a\nextras: [nlp]\n").targets
    assert target.extras[0].summary == "ours"


def test_the_places_of_nodes_count_from_one() -> None:
    root, found = read_nodes(b"a: 1\nb: [x, {c: 'd e'}]\n", "f.yaml")
    assert found == []
    place = root.place(["b", 1, "c"])
    assert (place.line, place.column, place.width, place.text) == (2, 12, 5, "b: [x, {c: 'd e'}]")
    assert str(root.place(["b", 1, "c"], of_key=True)) == "f.yaml:2:9"
    assert str(root.place(["b", 7])) == "f.yaml:2:4"


def test_the_presets_are_read() -> None:
    presets = sorted((Path(__file__).parents[1] / "envs").glob("*.yaml"))
    assert {load(path).name for path in presets} == {path.stem for path in presets}
