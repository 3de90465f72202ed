"""The lock formats: what is written is what other tools read, and the canonical one gives the value back."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import lock_values as values
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lockgen.errors import LockError, UsageError
from lockgen.lock import registry
from lockgen.lock.codecs import conda_lock_v1, pixi_toml
from lockgen.lock.codecs._matchspec import words
from lockgen.lock.codecs._shared import dependencies_first, joined
from lockgen.lock.model import Lock, LockedPackage
from lockgen.lock.yamltext import comment, scalar

GOLDEN = Path(__file__).parent / "golden" / "codecs"
CHANNELS = Path(__file__).parents[2] / "shared" / "channels"
WITHOUT_V6 = ("conda-lock-v1", "environment-yml", "explicit", "pixi-toml", "pixi-v7")


def conda_lock_text(lock: Lock = values.PLAIN) -> str:
    (text,) = conda_lock_v1.dump((lock,)).values()
    return text


def read_back(text: str) -> Lock:
    (lock,) = conda_lock_v1.load(text, "conda-lock.yml")
    return lock


def refusal(text: str) -> str:
    with pytest.raises(LockError) as caught:
        read_back(text)
    return str(caught.value)


# registry


def test_every_format_is_found() -> None:
    assert list(registry.codecs()) == [
        "conda-lock-v1", "environment-yml", "explicit", "pixi-toml", "pixi-v6", "pixi-v7",
    ]  # fmt: skip


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        registry.codec("pixi-v9")
    assert str(caught.value) == (
        "unknown lock format: `pixi-v9`\n"
        "  hint: the formats are `conda-lock-v1`, `environment-yml`, `explicit`, `pixi-toml`, `pixi-v6`, `pixi-v7`"
    )


def test_two_formats_for_one_file_are_refused() -> None:
    with pytest.raises(UsageError, match=r"formats `pixi-v7` and `pixi-v6` both write `pixi\.lock`"):
        registry.dump_all((values.PLAIN,), ["pixi-v7", "pixi-v6"])


def test_the_files_of_a_plain_lock() -> None:
    assert sorted(registry.dump_all((values.PLAIN,), WITHOUT_V6)) == [
        "conda-lock.yml", "environment.yml", "linux-64.explicit.lock", "pixi.lock", "pixi.toml",
    ]  # fmt: skip


@pytest.mark.parametrize("name", registry.codecs())
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    folder = GOLDEN / name
    files = registry.dump_all(values.VARIANTS, [name])
    if request.config.getoption("--update-golden", default=False):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for filename, text in files.items():
            (folder / filename).write_text(text, encoding="utf-8", newline="")
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == files


@pytest.mark.parametrize("name", registry.codecs())
def test_the_order_of_packages_and_platforms_does_not_matter(name: str) -> None:
    def shuffled(lock: Lock, seed: int) -> Lock:
        mixed = random.Random(seed)
        platforms = [
            dataclasses.replace(each, packages=tuple(mixed.sample(each.packages, len(each.packages))))
            for each in lock.platforms
        ]
        return dataclasses.replace(lock, platforms=tuple(mixed.sample(platforms, len(platforms))))

    expected = registry.codec(name).dump(values.VARIANTS)
    for seed in range(5):
        assert registry.codec(name).dump(tuple(shuffled(lock, seed) for lock in values.VARIANTS)) == expected


@pytest.mark.parametrize("name", registry.codecs())
def test_text_ends_in_one_newline_and_has_no_other_line_ends(name: str) -> None:
    for text in registry.codec(name).dump(values.VARIANTS).values():
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert "\r" not in text


# credentials


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://host.example/t/tk-1234-secret/main", "https://host.example/t/***/main"),
        ("https://user:secret@host.example/main", "https://***@host.example/main"),
        ("https://secret@host.example/main", "https://***@host.example/main"),
        ("https://host.example/main?token=secret", "https://host.example/main?***"),
    ],
)
def test_a_credential_in_a_channel_is_refused_and_masked(url: str, masked: str) -> None:
    (answer,) = values.PLAIN.platforms
    asked = dataclasses.replace(answer.request, channels=(url,))
    lock = dataclasses.replace(values.PLAIN, platforms=(dataclasses.replace(answer, request=asked),))
    with pytest.raises(LockError) as caught:
        registry.dump_all((lock,), WITHOUT_V6)
    assert str(caught.value) == (
        f"`{masked}` holds a credential, which is never written\n"
        "  hint: leave it out of the URL: the credential is taken from the keyring, netrc or rattler's own store"
    )


@pytest.mark.parametrize("field", ["url", "channel"])
def test_a_credential_in_a_package_is_refused(field: str) -> None:
    (answer,) = values.PLAIN.platforms
    secret = "https://user:secret@host.example/main/linux-64/a-1-0.conda"
    packages = tuple(dataclasses.replace(each, **{field: secret}) for each in answer.packages)
    lock = dataclasses.replace(values.PLAIN, platforms=(dataclasses.replace(answer, packages=packages),))
    with pytest.raises(LockError) as caught:
        registry.dump_all((lock,), WITHOUT_V6)
    assert "secret" not in str(caught.value)


def test_a_credential_in_a_match_spec_is_refused() -> None:
    (answer,) = values.PLAIN.platforms
    wanted = values.requirement("https://host.example/t/tk-secret/main::numpy")
    asked = dataclasses.replace(answer.request, requirements=(wanted,))
    lock = dataclasses.replace(values.PLAIN, platforms=(dataclasses.replace(answer, request=asked),))
    with pytest.raises(LockError) as caught:
        registry.dump_all((lock,), WITHOUT_V6)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("t/tk-secret/main::numpy >=2", "t/***/main::numpy"),
        ("t%2Ftk-secret%2Fmain::numpy", "t%2F***%2Fmain::numpy"),
        ("https://host.example/t/tk-secret/main::numpy", "https://host.example/t/***/main::numpy"),
    ],
)
def test_a_token_in_a_match_spec_is_refused(spec: str, shown: str) -> None:
    (answer,) = values.PLAIN.platforms
    asked = dataclasses.replace(
        answer.request, requirements=(dataclasses.replace(values.requirement(spec), because="x"),)
    )
    lock = dataclasses.replace(values.PLAIN, platforms=(dataclasses.replace(answer, request=asked),))
    with pytest.raises(LockError) as caught:
        registry.dump_all((lock,), WITHOUT_V6)
    assert str(caught.value).splitlines()[0] == f"`{shown}` holds a credential, which is never written"


@pytest.mark.parametrize("channel", ["https://host.example/t", "file:///home/t/one/two"])
def test_a_channel_or_a_folder_that_is_called_t_is_no_credential(channel: str) -> None:
    registry.refuse_credentials([moved(values.PLAIN, channel)])


# conda-lock.yml


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(values.locks())
def test_conda_lock_gives_the_lock_back(lock: Lock) -> None:
    assert read_back(conda_lock_text(lock)) == lock


@pytest.mark.parametrize("lock", [values.PLAIN, *values.VARIANTS])
def test_conda_lock_gives_a_usual_lock_back(lock: Lock) -> None:
    assert read_back(conda_lock_text(lock)) == lock


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(values.locks())
def test_conda_lock_is_plain_yaml(lock: Lock) -> None:
    document = yaml.safe_load(conda_lock_text(lock))
    entries = {(each["platform"], each["name"]): each for each in document["package"]}
    for answer in lock.platforms:
        for package in answer.packages:
            entry = entries[answer.platform, package.name]
            assert (entry["version"], entry["url"]) == (package.version, package.url)
            assert entry["hash"] == {"md5": package.md5, "sha256": package.sha256}


def test_two_match_specs_on_one_name_are_joined_for_conda_lock() -> None:
    document = yaml.safe_load(conda_lock_text())
    (pytorch,) = [each for each in document["package"] if each["name"] == "pytorch"]
    assert pytorch["dependencies"]["_openmp_mutex"] == ">=4.5 *_llvm"


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("* *_llvm", ">=4.5", ">=4.5 *_llvm"),
        (">=1", "<2", ">=1,<2"),
        (">=1|0.9", "<2", "(>=1|0.9),<2"),
        ("", "", ""),
        ("*", "", "*"),
        (">=1", ">=1", ">=1"),
        ("1.0 h_0", "", "1.0 h_0"),
    ],
)
def test_joined(first: str, second: str, both: str) -> None:
    assert joined(first, second) == ("" if both == "*" else both)


def test_text_that_is_no_yaml() -> None:
    assert refusal("a: [1\nb: 2\n") == (
        "conda-lock.yml:2:2: not YAML: did not find expected ',' or ']'\n"
        "  2 | b: 2\n"
        "    |  ^\n"
        "  hint: to write it anew, run `lockgen resolve` on its spec"
    )


def test_a_merge_conflict_is_named() -> None:
    text = conda_lock_text().replace("package:\n", "<<<<<<< HEAD\npackage:\n", 1)
    assert "hint: it has the marks of a merge conflict; to write it anew" in refusal(text)


@pytest.mark.parametrize("text", ["", "[]", "a: 1", "version: 1\nmetadata: 2\npackage: 3\n"])
def test_a_file_that_is_no_conda_lock_file(text: str) -> None:
    assert "not a conda-lock file: expected " in refusal(text)


def test_another_version_of_conda_lock() -> None:
    assert refusal(conda_lock_text().replace("version: 1\n", "version: 2\n", 1)).startswith(
        "conda-lock.yml:5:1: a conda-lock file of another version: found `2`, expected `1`\n  5 | version: 2\n"
    )


def test_a_lock_that_conda_lock_wrote() -> None:
    text = "version: 1\nmetadata:\n  content_hash: {}\n  channels: []\n  platforms: []\n  sources: []\npackage: []\n"
    assert refusal(text) == (
        "conda-lock.yml:2:1: not written by lockgen: `metadata.custom_metadata` has no `lockgen.format`\n"
        "  2 | metadata:\n"
        "    | ^^^^^^^^\n"
        "  hint: to write it anew, run `lockgen resolve` on its spec"
    )


def test_a_format_of_the_future() -> None:
    message = refusal(conda_lock_text().replace("lockgen.format: '1'", "lockgen.format: '2'"))
    assert "written in a format that this lockgen does not know: found `2`, expected `1`" in message
    assert message.endswith("hint: is a newer lockgen needed?")


def test_a_version_that_was_edited_by_hand() -> None:
    message = refusal(conda_lock_text().replace("version: 3.4.0", "version: 3.4.1"))
    assert message.splitlines()[0].endswith(
        "package `openssl` was edited by hand: version `3.4.1` is not that of openssl-3.4.0-hb9d3cd8_1.conda"
    )
    assert re.match(r"conda-lock\.yml:\d+:3: ", message)


def test_a_hash_that_was_edited_by_hand() -> None:
    text = conda_lock_text()
    sha256 = values.PLAIN.platforms[0].packages[0].sha256
    message = refusal(text.replace(sha256, "0" * 64))
    line = 1 + text[: text.index("lockgen.fingerprint")].count("\n")
    assert message.startswith(
        f"conda-lock.yml:{line}:5: `conda-lock.yml` was edited by hand: its fingerprint is not that of what it holds\n"
    )


def test_a_package_that_was_added_by_hand() -> None:
    text = conda_lock_text()
    entry = text[text.index("- name: openssl") : text.index("- name: pip")].replace("openssl", "extra")
    message = refusal(text + entry)
    assert "package `extra` was added by hand" in message
    assert "`lockgen.package.linux-64.extra`" in message


def test_a_package_that_was_removed_by_hand() -> None:
    text = conda_lock_text()
    entry = text[text.index("- name: openssl") : text.index("- name: pip")]
    assert "was edited by hand" in refusal(text.replace(entry, ""))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["package"].append(1),
        lambda document: document["package"][0].pop("hash"),
        lambda document: document["package"][0].update(version=1.0),
        lambda document: document["package"][0].update(platform="osx-64"),
        lambda document: document["package"][0].update(dependencies=[1]),
        lambda document: document["metadata"].update(platforms=[1]),
        lambda document: document["metadata"].pop("platforms"),
        lambda document: document["metadata"]["custom_metadata"].pop("lockgen.name"),
        lambda document: document["metadata"]["custom_metadata"].pop("lockgen.fingerprint"),
        lambda document: document["metadata"]["custom_metadata"].pop("lockgen.request.linux-64"),
        lambda document: document["metadata"]["custom_metadata"].update({"lockgen.request.linux-64": "{"}),
        lambda document: document["metadata"]["custom_metadata"].update({"lockgen.request.linux-64": '{"a": 1}'}),
        lambda document: document["metadata"]["custom_metadata"].update({"lockgen.cuda.linux-64": "{}"}),
        lambda document: document["metadata"]["custom_metadata"].update({"lockgen.name": 1}),
        lambda document: document["metadata"]["custom_metadata"].update({"lockgen.package.linux-64.pip": "[]"}),
        lambda document: document["metadata"]["custom_metadata"].update({"lockgen.package.linux-64.pip": '{"x":1}'}),
    ],
)
def test_any_change_by_hand_is_an_error_with_a_place(change) -> None:  # type: ignore[no-untyped-def]
    document = yaml.safe_load(conda_lock_text())
    change(document)
    assert re.match(r"conda-lock\.yml:\d+:\d+: ", refusal(yaml.safe_dump(document, sort_keys=False)))


def test_a_round_through_another_yaml_writer_keeps_the_lock() -> None:
    text = yaml.safe_dump(yaml.safe_load(conda_lock_text()), sort_keys=False, width=1000)
    assert read_back(text) == values.PLAIN


@pytest.fixture(scope="module")
def conda_lock_command() -> str:
    beside = Path(sys.executable).with_name("conda-lock")
    found = str(beside) if beside.exists() else shutil.which("conda-lock")
    if not found:
        pytest.skip("conda-lock is not installed")
    return found


@pytest.mark.parametrize("lock", [values.PLAIN, *values.VARIANTS])
def test_conda_lock_itself_reads_the_file(lock: Lock, tmp_path: Path) -> None:
    conda_lock = pytest.importorskip("conda_lock.lockfile", reason="conda-lock is not installed")
    path = tmp_path / "conda-lock.yml"
    path.write_text(conda_lock_text(lock), encoding="utf-8")
    parsed = conda_lock.parse_conda_lock_file(path)
    assert sorted((each.platform, each.name, each.version, each.url, each.hash.sha256) for each in parsed.package) == [
        (answer.platform, each.name, each.version, each.url, each.sha256)
        for answer in lock.platforms
        for each in answer.packages
    ]
    assert parsed.metadata.custom_metadata["lockgen.fingerprint"] == lock.fingerprint()


def test_conda_lock_renders_the_file_as_an_explicit_one(conda_lock_command: str, tmp_path: Path) -> None:
    (tmp_path / "conda-lock.yml").write_text(conda_lock_text(), encoding="utf-8")
    command = [conda_lock_command, "render", "-k", "explicit", "-p", "linux-64", "conda-lock.yml"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    rendered = (tmp_path / "conda-linux-64.lock").read_text(encoding="utf-8")
    lines = [line for line in rendered.splitlines() if line.startswith("https://")]
    assert sorted(lines) == sorted(f"{each.url}#{each.md5}" for each in values.PLAIN.platforms[0].packages)


# pixi.lock


@pytest.mark.parametrize("name", ["pixi-v6", "pixi-v7"])
def test_rattler_reads_pixi_lock(name: str, tmp_path: Path) -> None:
    rattler = pytest.importorskip("rattler")
    path = tmp_path / "pixi.lock"
    path.write_text(registry.codec(name).dump(values.VARIANTS)["pixi.lock"], encoding="utf-8")
    found = dict(rattler.LockFile.from_path(path).environments())
    assert sorted(found) == ["cpu", "default", "gpu"]
    for environment, lock in {"default": values.GPU, "gpu": values.GPU, "cpu": values.CPU}.items():
        for platform in found[environment].platforms():
            (answer,) = [each for each in lock.platforms if each.platform == str(platform.subdir)]
            records = found[environment].conda_repodata_records_for_platform(platform)
            assert sorted((_plain(each) for each in records), key=lambda each: each.name) == list(answer.packages)


def moved(lock: Lock, channel: str) -> Lock:
    """The lock as if it came from another channel."""
    platforms = tuple(
        dataclasses.replace(
            each,
            request=dataclasses.replace(each.request, channels=(channel,)),
            packages=tuple(
                dataclasses.replace(one, channel=channel, url=one.url.replace(one.channel, channel))
                for one in each.packages
            ),
        )
        for each in lock.platforms
    )
    return dataclasses.replace(lock, platforms=platforms)


@pytest.mark.parametrize("name", ["pixi-v6", "pixi-v7"])
def test_rattler_reads_packages_of_a_channel_in_a_folder(name: str, tmp_path: Path) -> None:
    rattler = pytest.importorskip("rattler")
    lock = moved(values.PLAIN, "file:///opt/my%20channel")
    path = tmp_path / "pixi.lock"
    path.write_text(registry.codec(name).dump((lock,))["pixi.lock"], encoding="utf-8")
    environment = rattler.LockFile.from_path(path).default_environment()
    (platform,) = environment.platforms()
    records = environment.conda_repodata_records_for_platform(platform)
    assert sorted((_plain(each) for each in records), key=lambda each: each.name) == list(lock.platforms[0].packages)


@pytest.mark.parametrize("lock", [values.PLAIN, values.CPU])
def test_rattler_writes_the_same_version_7(lock: Lock, tmp_path: Path) -> None:
    rattler = pytest.importorskip("rattler")
    path = tmp_path / "pixi.lock"
    text = registry.codec("pixi-v7").dump((lock,))["pixi.lock"]
    path.write_text(text, encoding="utf-8")
    rattler.LockFile.from_path(path).to_path(path)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"build_number": 3}, "  build_number: 3"),
        ({"build": "h1", "build_number": 0}, "  build: h1"),
        ({"version": "2"}, "  version: '2'"),
        ({"name": "b"}, "  name: b"),
        ({"subdir": "noarch"}, "  subdir: noarch"),
        ({"noarch": "python"}, "  noarch: python"),
        ({"channel": "https://other.example/main"}, "  channel: https://other.example/main"),
    ],
)
def test_pixi_lock_says_what_the_url_does_not(fields: dict[str, object], line: str, tmp_path: Path) -> None:
    rattler = pytest.importorskip("rattler")
    odd: LockedPackage = dataclasses.replace(values.package("a"), **fields)  # type: ignore[arg-type]
    answer = dataclasses.replace(values.PLAIN.platforms[0], packages=(odd,))
    text = registry.codec("pixi-v7").dump((dataclasses.replace(values.PLAIN, platforms=(answer,)),))["pixi.lock"]
    assert line in text.splitlines()
    (tmp_path / "pixi.lock").write_text(text, encoding="utf-8")
    environment = rattler.LockFile.from_path(tmp_path / "pixi.lock").default_environment()
    (record,) = environment.conda_repodata_records_for_platform(environment.platforms()[0])
    assert _plain(record) == odd


def test_variants_with_other_virtual_packages_are_other_platforms_in_version_7() -> None:
    document = yaml.safe_load(registry.codec("pixi-v7").dump(values.VARIANTS)["pixi.lock"])
    assert [(each["name"], each.get("subdir")) for each in document["platforms"]] == [
        ("linux-64", None), ("linux-64-2", "linux-64"), ("osx-arm64", None),
    ]  # fmt: skip
    assert document["platforms"][1]["virtual-packages"] == [
        "__archspec=0=x86_64", "__cuda=12.1", "__glibc=2.28", "__linux=4.18", "__unix=0=0",
    ]  # fmt: skip
    assert list(document["environments"]["gpu"]["packages"]) == ["linux-64-2"]


@pytest.mark.parametrize("name", ["pixi-v6", "pixi-v7", "environment-yml"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(lock=values.locks())
def test_yaml_formats_stay_yaml_whatever_the_strings(name: str, lock: Lock) -> None:
    for text in registry.codec(name).dump((lock,)).values():
        assert isinstance(yaml.safe_load(text), dict)


def _plain(record) -> LockedPackage:  # type: ignore[no-untyped-def]
    """A rattler record as a value, read from its JSON."""
    fields = json.loads(record.to_json())
    known = {field.name for field in dataclasses.fields(LockedPackage)}
    found = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items() if key in known}
    if isinstance(found.get("track_features"), str):
        found["track_features"] = tuple(found["track_features"].split())
    return LockedPackage(**{**found, "channel": record.channel.rstrip("/"), "url": record.url})


REAL = {
    "linux-64": (
        "python 3.13.*", "pytorch 2.9.*", "pytorch * cuda*", "torchvision", "transformers", "tokenizers", "datasets",
        "accelerate", "safetensors", "tensorboard", "pandas", "scikit-learn",
    ),
    "osx-arm64": ("python", "pytorch", "numpy", "transformers"),
}  # fmt: skip
REAL_SYSTEM = {
    "linux-64": ("__archspec=1=x86_64", "__cuda=12.1=0", "__glibc=2.28=0", "__linux=4.18=0", "__unix=0=0"),
    "osx-arm64": ("__archspec=1=m1", "__osx=13.0=0", "__unix=0=0"),
}


@pytest.fixture(scope="module")
def real_records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:  # type: ignore[type-arg]
    """Records that rattler solved from the shared conda-forge metadata: the flagship, and CPU packages for macOS."""
    if not CHANNELS.is_dir():
        pytest.skip("../shared/channels is not here")
    import rattler
    import zstandard
    from rattler.repo_data.sparse import SparseRepoData

    folder = tmp_path_factory.mktemp("channels")
    channel = rattler.Channel("https://conda.anaconda.org/conda-forge")
    sources = {}
    for subdir in (*REAL, "noarch"):
        path = folder / f"{subdir}.json"
        with (CHANNELS / "conda-forge" / subdir / "repodata.json.zst").open("rb") as packed, path.open("wb") as plain:
            zstandard.ZstdDecompressor().copy_stream(packed, plain)
        sources[subdir] = SparseRepoData(channel, subdir, path)

    async def solve(platform: str) -> list:  # type: ignore[type-arg]
        virtual = [text.split("=", 2) for text in REAL_SYSTEM[platform]]
        return await rattler.solve_with_sparse_repodata(
            specs=list(REAL[platform]),
            sparse_repodata=[sources[platform], sources["noarch"]],
            virtual_packages=[
                rattler.GenericVirtualPackage(
                    rattler.PackageName(name), rattler.Version(version), rattler.BuildString(build)
                )
                for name, version, build in virtual
            ],
        )

    return {platform: asyncio.run(solve(platform)) for platform in REAL}


@pytest.fixture(scope="module")
def real_lock(real_records: dict[str, list]) -> Lock:  # type: ignore[type-arg]
    answers = []
    for platform, records in real_records.items():
        packages = tuple(sorted(map(_plain, records), key=lambda each: each.name))
        asked = dataclasses.replace(values.request(platform, *REAL[platform]), virtual_packages=REAL_SYSTEM[platform])
        answers.append(dataclasses.replace(values.PLAIN.platforms[0], request=asked, packages=packages, cuda=None))
    return Lock(name="real", platforms=tuple(answers))


@pytest.mark.parametrize("name", ["pixi-v6", "pixi-v7"])
def test_real_records_come_back_equal_in_every_field(
    name: str,
    real_lock: Lock,
    real_records: dict[str, list],  # type: ignore[type-arg]
    tmp_path: Path,
) -> None:
    import rattler

    path = tmp_path / "pixi.lock"
    path.write_text(registry.codec(name).dump((real_lock,))["pixi.lock"], encoding="utf-8")
    environment = rattler.LockFile.from_path(path).default_environment()
    assert {each.name for each in environment.platforms()} == set(REAL)
    for platform in environment.platforms():
        read = environment.conda_repodata_records_for_platform(platform)
        solved = real_records[platform.name]
        assert {each.url: _fields(each) for each in read} == {each.url: _fields(each) for each in solved}


def _fields(record) -> dict[str, object]:  # type: ignore[no-untyped-def]
    """Every field of a record but the two that rattler derives from the subdir when it reads any lock."""
    return {key: value for key, value in json.loads(record.to_json()).items() if key not in ("arch", "platform")}


def test_real_version_7_is_what_rattler_writes(
    real_lock: Lock,
    real_records: dict[str, list],  # type: ignore[type-arg]
    tmp_path: Path,
) -> None:
    import rattler

    rows = {row["name"]: row["virtual-packages"] for row in _rows(real_lock)}
    platforms = {name: rattler.LockPlatform(name, virtual_packages=virtual) for name, virtual in rows.items()}
    theirs = rattler.LockFile(list(platforms.values()))
    theirs.set_channels("default", [rattler.LockChannel(f"{values.CHANNEL}/")])
    for name, records in real_records.items():
        for record in records:
            theirs.add_conda_package("default", platforms[name], record)
    theirs.to_path(tmp_path / "pixi.lock")
    ours = registry.codec("pixi-v7").dump((real_lock,))["pixi.lock"]
    assert ours == (tmp_path / "pixi.lock").read_text(encoding="utf-8")


def _rows(lock: Lock) -> list[dict[str, list[str]]]:
    document = yaml.safe_load(registry.codec("pixi-v7").dump((lock,))["pixi.lock"])
    return document["platforms"]  # type: ignore[no-any-return]


def test_a_real_lock_comes_back_from_conda_lock_yml(real_lock: Lock) -> None:
    assert read_back(conda_lock_text(real_lock)) == real_lock


# pixi.toml


def test_pixi_toml_of_variants() -> None:
    document = tomllib.loads(registry.codec("pixi-toml").dump(values.VARIANTS)["pixi.toml"])
    assert document["workspace"] == {
        "name": "small", "channels": [values.CHANNEL], "platforms": ["linux-64", "osx-arm64"],
    }  # fmt: skip
    assert document["environments"] == {
        "cpu": {"features": ["cpu"], "no-default-feature": True},
        "default": {"features": ["gpu"], "no-default-feature": True},
        "gpu": {"features": ["gpu"], "no-default-feature": True},
    }
    gpu, cpu = document["feature"]["gpu"], document["feature"]["cpu"]
    assert gpu["platforms"] == ["linux-64"]
    assert gpu["dependencies"] == {"python": "3.13.*", "pytorch": {"version": "2.9.*", "build": "cuda*"}}
    assert gpu["constraints"] == {"libtorch": {"version": "*", "build": "cuda*"}}
    assert gpu["system-requirements"] == {
        "archspec": "x86_64",
        "cuda": "12.1",
        "libc": {"family": "glibc", "version": "2.28"},
        "linux": "4.18",
    }
    assert "cuda" not in cpu["system-requirements"]
    assert cpu["dependencies"] == {"python": "3.13.*", "pytorch": "2.9.*"}


def test_pixi_toml_leaves_out_an_optional_package_that_is_not_locked() -> None:
    assert "jieba" not in registry.codec("pixi-toml").dump((values.CPU,))["pixi.toml"]


def test_pixi_toml_has_a_table_for_each_platform_where_they_differ() -> None:
    linux = dataclasses.replace(values.CPU.platforms[0], request=values.request("linux-64", "python 3.13.*", "numpy"))
    mac = dataclasses.replace(values.CPU.platforms[1], request=values.request("osx-arm64", "python 3.12.*", "numpy"))
    lock = Lock(name="two", platforms=(linux, mac))
    document = tomllib.loads(registry.codec("pixi-toml").dump((lock,))["pixi.toml"])
    assert document["dependencies"] == {"numpy": "*"}
    assert document["target"] == {
        "linux-64": {"dependencies": {"python": "3.13.*"}},
        "osx-arm64": {"dependencies": {"python": "3.12.*"}},
    }


def test_pixi_toml_carries_priority_and_cutoff() -> None:
    asked = dataclasses.replace(
        values.PLAIN.platforms[0].request, channel_priority="disabled", cutoff="2026-11-30T23:59:59Z"
    )
    lock = dataclasses.replace(values.PLAIN, platforms=(dataclasses.replace(values.PLAIN.platforms[0], request=asked),))
    workspace = tomllib.loads(registry.codec("pixi-toml").dump((lock,))["pixi.toml"])["workspace"]
    assert workspace["channel-priority"] == "disabled"
    assert workspace["exclude-newer"] == "2026-11-30T23:59:59Z"


def test_pixi_toml_gives_each_variant_its_own_channels_and_priority_where_they_differ() -> None:
    gpu, cpu = values.VARIANTS
    own = "https://host.example/own"
    asked = dataclasses.replace(
        cpu.platforms[0].request, channels=(own, values.CHANNEL), channel_priority="disabled"
    )  # fmt: skip
    cpu = dataclasses.replace(cpu, platforms=(dataclasses.replace(cpu.platforms[0], request=asked),))
    document = tomllib.loads(registry.codec("pixi-toml").dump((gpu, cpu))["pixi.toml"])
    assert document["feature"][gpu.environment]["channels"] == [values.CHANNEL]
    assert document["feature"][gpu.environment]["channel-priority"] == "strict"
    assert document["feature"][cpu.environment]["channels"] == [own, values.CHANNEL]
    assert document["feature"][cpu.environment]["channel-priority"] == "disabled"
    assert document["workspace"]["channels"] == [values.CHANNEL, own]
    assert "channel-priority" not in document["workspace"]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            f"{values.CHANNEL}/linux-64/numpy-2.3.5-py313h_0.conda",
            {"url": f"{values.CHANNEL}/linux-64/numpy-2.3.5-py313h_0.conda"},
        ),
        ("conda-forge/linux-64::numpy", {"version": "*", "channel": "conda-forge", "subdir": "linux-64"}),
        ("numpy[build_number='>=1']", {"version": "*", "build-number": ">=1"}),
    ],
)
def test_pixi_toml_has_a_table_for_what_is_more_than_a_version(spec: str, wanted: dict[str, str]) -> None:
    answer = dataclasses.replace(values.PLAIN.platforms[0], request=values.request("linux-64", spec))
    lock = dataclasses.replace(values.PLAIN, platforms=(answer,))
    document = tomllib.loads(registry.codec("pixi-toml").dump((lock,))["pixi.toml"])
    assert document["dependencies"] == {"numpy": wanted}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(values.locks(), values.locks())
def test_pixi_toml_stays_toml_whatever_the_strings(first: Lock, second: Lock) -> None:
    pair = (dataclasses.replace(first, variant="a"), dataclasses.replace(second, variant="b\n'\"]"))
    for locks in ((dataclasses.replace(first, variant=None),), pair):
        document = tomllib.loads(registry.codec("pixi-toml").dump(locks)["pixi.toml"])
        assert document["workspace"]["name"] == first.name


@given(values.hostile)
def test_toml_strings(value: str) -> None:
    assert tomllib.loads(f"a = {pixi_toml.text(value)}") == {"a": value}


@pytest.mark.parametrize(
    ("spec", "name", "version", "build", "channel"),
    [
        ("pytorch", "pytorch", "*", None, None),
        ("pytorch 2.9.* cuda*", "pytorch", "2.9.*", "cuda*", None),
        ("python=3.13", "python", "3.13.*", None, None),
        ("python=3.13.1=h5_100_cp313", "python", "==3.13.1", "h5_100_cp313", None),
        ("numpy>=2,<3", "numpy", ">=2,<3", None, None),
        ("numpy >=2, <3", "numpy", ">=2,<3", None, None),
        ("numpy >= 2", "numpy", ">=2", None, None),
        ("conda-forge::numpy 2.*", "numpy", "2.*", None, "conda-forge"),
        ("jinja2[version='>=3,<4', build=py_0]", "jinja2", ">=3,<4", "py_0", None),
        ("numpy ==2.1", "numpy", "==2.1", None, None),
        ("NumPy 2.*", "numpy", "2.*", None, None),
        ("https://conda.anaconda.org/conda-forge::numpy", "numpy", "*", None, "conda-forge"),
        ("conda-forge/linux-64::numpy", "numpy", "*", None, "conda-forge"),
        ("numpy[channel='https://host.example/c']", "numpy", "*", None, "https://host.example/c"),
        (f"{values.CHANNEL}/linux-64/numpy-2.3.5-py313h_0.conda", "numpy", "*", None, None),
    ],
)
def test_words_of_a_match_spec(spec: str, name: str, version: str, build: str | None, channel: str | None) -> None:
    asked = words(spec)
    assert (asked.name, asked.version, asked.build, asked.channel) == (name, version, build, channel)


# explicit and environment.yml


def test_explicit_has_dependencies_first_even_in_a_circle() -> None:
    text = registry.codec("explicit").dump((values.PLAIN,))["linux-64.explicit.lock"]
    names = [line.rsplit("/", 1)[-1].rsplit("-", 2)[0] for line in text.splitlines() if line.startswith("https")]
    assert names == ["llvm-openmp", "_openmp_mutex", "openssl", "python", "pip", "pytorch"]


def test_explicit_lines_have_url_and_sha256() -> None:
    text = registry.codec("explicit").dump((values.PLAIN,))["linux-64.explicit.lock"]
    lines = text.splitlines()
    assert lines[lines.index("@EXPLICIT") - 1] == "# platform: linux-64"
    for package in values.PLAIN.platforms[0].packages:
        assert f"{package.url}#sha256:{package.sha256}" in lines


def test_rattler_reads_the_explicit_file(tmp_path: Path) -> None:
    rattler = pytest.importorskip("rattler.explicit_environment")
    path = tmp_path / "linux-64.explicit.lock"
    path.write_text(registry.codec("explicit").dump((values.PLAIN,))[path.name], encoding="utf-8")
    read = rattler.ExplicitEnvironmentSpec.from_path(path)
    assert str(read.platform) == "linux-64"
    expected = [f"{each.url}#sha256:{each.sha256}" for each in dependencies_first(values.PLAIN.platforms[0].packages)]
    assert [each.url for each in read.packages] == expected


@settings(max_examples=60, deadline=None)
@given(st.permutations(values.PLAIN.platforms[0].packages))
def test_dependency_order_does_not_depend_on_the_order_given(packages: list[LockedPackage]) -> None:
    assert dependencies_first(packages) == dependencies_first(values.PLAIN.platforms[0].packages)


def test_environment_yml_pins_version_and_build() -> None:
    document = yaml.safe_load(registry.codec("environment-yml").dump((values.PLAIN,))["environment.yml"])
    assert document == {
        "name": "small",
        "channels": [values.CHANNEL, "nodefaults"],
        "dependencies": [
            "_openmp_mutex=4.5=7_kmp_llvm", "llvm-openmp=19.1.7=h024ca30_0", "openssl=3.4.0=hb9d3cd8_1",
            "pip=24.3.1=pyh145f28c_2", "python=3.13.1=h5_100_cp313", "pytorch=2.9.1=cuda129_py313_1",
        ],
    }  # fmt: skip


# YAML scalars


@settings(max_examples=400, deadline=None)
@given(values.hostile)
@example("0b1")
@example("a" * 200)
def test_a_scalar_is_read_as_the_string_it_was(text: str) -> None:
    line = scalar(text)
    assert "\n" not in line
    assert yaml.safe_load(f"- {line}") == [text]
    assert yaml.safe_load(f"{line}: {line}") == {text: text}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("numpy", "numpy"),
        ("__glibc >=2.17,<3.0.a0", "__glibc >=2.17,<3.0.a0"),
        ("https://conda.anaconda.org/conda-forge", "https://conda.anaconda.org/conda-forge"),
        ("3.13.1", "3.13.1"),
        ("0BSD", "0BSD"),
        ("3.10", "'3.10'"),
        ("12", "'12'"),
        ("1e5", "'1e5'"),
        ("No", "'No'"),
        (">=1", "'>=1'"),
        ("it's: so", "'it''s: so'"),
        ("", "''"),
        ("a\nb", '"a\\nb"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_scalars_are_quoted_only_where_they_must_be(text: str, line: str) -> None:
    assert scalar(text) == line


def test_a_comment_stays_on_its_line() -> None:
    assert comment("a\nb\x85c") == "a?b?c"
