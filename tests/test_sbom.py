"""The documents about an image: CycloneDX, as its own schema has it, and SLSA provenance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lock_values import GPU, package

from lockgen.image.model import Base, ImagePlan
from lockgen.image.provenance import provenance
from lockgen.image.sbom import debian_packages, sbom
from lockgen.lock.model import PlatformLock

DIGEST = "sha256:" + "7c" * 32
BASE = Base(reference="docker.io/library/debian:bookworm-slim", digest=DIGEST, glibc="2.36")


def plan(**fields: Any) -> ImagePlan:
    """The plan of the lock `GPU`, as far as the documents look at it."""
    values: dict[str, Any] = {
        "name": "small", "variant": "gpu", "platform": "linux-64", "architecture": "amd64",
        "fingerprint": GPU.fingerprint(), "base": BASE, "prefix": "/opt/env", "layers": (), "files": (), "folders": (),
        "env": (), "labels": (), "user": "1000:1000", "login": "user", "home": "/home/user", "workdir": "/work",
        "ports": (), "entrypoint": (), "command": (), "health": None, "distribution": ("openssh-server",),
        "needs": (), "created": 1_700_000_000,
    }  # fmt: skip
    return ImagePlan(**{**values, **fields})


def platform(*packages: Any) -> PlatformLock:
    return PlatformLock(request=GPU.platforms[0].request, packages=packages)


def components(text: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(text)["components"]}


def depends_on(text: str) -> dict[str, list[str]]:
    """The graph, by names."""
    document = json.loads(text)
    names = {each["bom-ref"]: each["name"] for each in document["components"]} | {"image": "image"}
    return {
        names[each["ref"]]: sorted(names[ref] for ref in each.get("dependsOn", [])) for each in document["dependencies"]
    }


TEXT = sbom(plan(), GPU.platforms[0], (("libc6", "2.36-9+deb12u10"), ("openssh-server", "1:9.2p1-2+deb12u6")))


def test_the_document_follows_the_schema_of_cyclonedx() -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(TEXT) is None
    assert validator.validate_str(sbom(plan(base=Base(reference="b", digest=None, glibc=None)), platform())) is None
    assert validator.validate_str(TEXT.replace('"container"', '"barrel"')) is not None


def test_a_conda_package_has_its_purl_hashes_and_licence() -> None:
    wanted = next(each for each in GPU.platforms[0].packages if each.name == "pytorch")
    found = components(TEXT)["pytorch"]
    assert found["purl"] == (
        "pkg:conda/pytorch@2.9.1?build=cuda129_py313_1&channel=conda-forge&subdir=linux-64&type=conda"
    )
    assert found["hashes"] == [{"alg": "MD5", "content": wanted.md5}, {"alg": "SHA-256", "content": wanted.sha256}]
    assert found["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MIT", {"license": {"id": "MIT"}}),
        ("Apache-2.0 WITH LLVM-exception", {"expression": "Apache-2.0 WITH LLVM-exception"}),
        ("(MIT OR Apache-2.0) AND BSD-3-Clause", {"expression": "(MIT OR Apache-2.0) AND BSD-3-Clause"}),
        ("LicenseRef-NVIDIA-EULA AND MIT", {"license": {"name": "LicenseRef-NVIDIA-EULA AND MIT"}}),
        ("LicenseRef-NVIDIA-EULA", {"license": {"name": "LicenseRef-NVIDIA-EULA"}}),
        ("GPL", {"license": {"name": "GPL"}}),
        ("BSD 3-Clause", {"license": {"name": "BSD 3-Clause"}}),
        ("Public-Domain OR MIT", {"license": {"name": "Public-Domain OR MIT"}}),
    ],
)
def test_a_licence_is_an_spdx_identifier_or_expression_or_else_a_name(text: str, expected: object) -> None:
    found = components(sbom(plan(), platform(package("a", license=text))))["a"]
    assert [{key: value for key, value in each.items() if key != "bom-ref"} for each in found["licenses"]] == [expected]


def test_a_package_without_licence_or_with_the_old_archive_says_so() -> None:
    new = package("a", license=None)
    old = replace(new, url=new.url.replace(".conda", ".tar.bz2"))
    found = components(sbom(plan(), platform(old)))["a"]
    assert "licenses" not in found
    assert found["purl"].endswith("&type=tar.bz2")


def test_the_graph_follows_what_packages_depend_on() -> None:
    graph = depends_on(TEXT)
    assert graph["python"] == ["openssl", "pip"]
    assert graph["pip"] == ["python"]
    assert graph["pytorch"] == ["_openmp_mutex", "python"]
    assert graph["_openmp_mutex"] == ["llvm-openmp"]


def test_every_component_is_reached_from_the_image() -> None:
    graph = depends_on(TEXT)
    reached, new = set(), {"image"}
    while new:
        reached |= new
        new = {name for each in new for name in graph[each]} - reached
    assert reached == {"image", *components(TEXT)}


def test_the_base_and_the_packages_of_its_distribution_are_named() -> None:
    found = components(TEXT)
    assert found["debian"]["purl"] == (
        f"pkg:oci/debian@{DIGEST}?arch=amd64&repository_url=docker.io/library/debian&tag=bookworm-slim"
    )
    assert found["libc6"]["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10"
    assert found["openssh-server"]["purl"] == "pkg:deb/debian/openssh-server@1:9.2p1-2%2Bdeb12u6"
    graph = depends_on(TEXT)
    assert graph["debian"] == ["libc6"]
    assert "openssh-server" in graph["image"]


def test_a_distribution_package_whose_version_is_not_known_is_named_all_the_same() -> None:
    ubuntu = Base(reference="docker.io/nvidia/cuda:12.8.1-base-ubuntu22.04", digest=DIGEST, glibc="2.35")
    found = components(sbom(plan(base=ubuntu), GPU.platforms[0]))
    assert found["openssh-server"]["purl"] == "pkg:deb/ubuntu/openssh-server"
    assert "version" not in found["openssh-server"]


def test_a_channel_in_a_folder_shows_its_own_name_only() -> None:
    one = replace(package("a"), channel="file:///home/someone/channels/team")
    text = sbom(plan(), platform(one))
    assert components(text)["a"]["purl"] == "pkg:conda/a@1.0?build=h1_0&channel=team&subdir=linux-64&type=conda"
    assert "someone" not in text


def test_the_same_image_gives_the_same_bytes_in_another_process() -> None:
    script = "import test_sbom, sys; sys.stdout.write(test_sbom.TEXT)"
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo"}
        ran = subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parent,
            env=env,
            capture_output=True,
            check=True,
            text=True,
        )
        assert ran.stdout == TEXT


def test_the_number_and_the_time_come_from_the_image() -> None:
    document = json.loads(TEXT)
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert document["serialNumber"].startswith("urn:uuid:")
    other = json.loads(sbom(plan(created=1_700_000_001), GPU.platforms[0]))
    assert other["serialNumber"] != document["serialNumber"]
    assert document["metadata"]["component"]["name"] == "small-gpu"
    assert document["metadata"]["component"]["version"] == GPU.fingerprint()


def test_the_installed_packages_of_debian_are_read_from_its_status() -> None:
    status = (
        "Package: zlib1g\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:1.2.13.dfsg-1\n"
        "Description: compression library\n Version: 9 is not meant\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1.0\n\n"
        "Package: adduser\nStatus: install ok installed\nVersion: 3.134\n"
    )
    assert debian_packages(status) == (("adduser", "3.134"), ("zlib1g", "1:1.2.13.dfsg-1"))
    distroless = "Package: base-files\nVersion: 12.4+deb12u11\nArchitecture: amd64\n"
    assert debian_packages(distroless) == (("base-files", "12.4+deb12u11"),)
    assert debian_packages("") == ()


def test_the_provenance_names_the_image_the_lock_the_base_and_the_builder() -> None:
    text = provenance(plan(), "0.1.0", "sha256:" + "ab" * 32)
    assert json.loads(text) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "small-gpu", "digest": {"sha256": "ab" * 32}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:lockgen:image-build:1",
                "externalParameters": {
                    "base": f"docker.io/library/debian:bookworm-slim@{DIGEST}",
                    "lock": GPU.fingerprint(),
                    "platform": "linux-64",
                    "prefix": "/opt/env",
                    "sourceDateEpoch": 1_700_000_000,
                    "spec": "small",
                    "variant": "gpu",
                },
                "resolvedDependencies": [
                    {
                        "name": "base",
                        "uri": "docker://docker.io/library/debian:bookworm-slim",
                        "digest": {"sha256": "7c" * 32},
                    },
                    {"name": "lock", "digest": {"sha256": GPU.fingerprint()}},
                ],
            },
            "runDetails": {"builder": {"id": "urn:lockgen:builder", "version": {"lockgen": "0.1.0"}}},
        },
    }
    assert text == provenance(plan(), "0.1.0", "sha256:" + "ab" * 32)


def test_the_provenance_of_a_base_without_a_digest_claims_none() -> None:
    bare = plan(base=Base(reference="localhost/base:1", digest=None, glibc=None), variant=None)
    definition = json.loads(provenance(bare, "0.1.0", DIGEST))["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"][0] == {"name": "base", "uri": "docker://localhost/base:1"}
    assert "variant" not in definition["externalParameters"]
