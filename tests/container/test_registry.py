"""Pushed to a real registry, what it has is not sent again: bytes counted on the wire."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from container.making import Locked, channel_of, locked, registry
from container.proxy import Counter, counting
from container.shell import call, lockgen
from lockgen.channel.serve import serving


@pytest.fixture(scope="module")
def wire(space: Path) -> Iterator[Counter]:
    """The way to a registry, on which bytes are counted."""
    with registry(space / "registry") as port, counting(port) as counter:
        yield counter


@pytest.fixture(scope="module")
def growing(space: Path) -> Iterator[tuple[Path, str]]:
    """A copy of a channel to which packages are added, and its address."""
    folder = space / "growing"
    shutil.copytree(channel_of("services"), folder)
    with serving(folder) as address:
        yield folder, address


def pushed(folder: Path, place: str, base: str, wire: Counter) -> tuple[str, int]:
    """The digest, and how many bytes went to the registry."""
    before = wire.sent
    digest = lockgen("image", "build", folder, "-o", place, "--base", base).split()[-1]
    return digest, wire.sent - before


def layers(place: str, digest: str) -> set[str]:
    """The digests of an image's layers in the registry."""
    named = f"{place.rpartition(':')[0]}@{digest}"
    manifest = json.loads(call("skopeo", "inspect", "--raw", "--tls-verify=false", named))
    return {layer["digest"] for layer in manifest["layers"]}


def test_after_a_bump_of_one_package_one_layer_is_sent(
    growing: tuple[Path, str], base_oci: str, wire: Counter, space: Path
) -> None:
    channel, address = growing
    place = f"docker://127.0.0.1:{wire.port}/team/services:latest"
    old: Locked = locked("local-services", address, space / "old")
    first, whole = pushed(old.folder, place, base_oci, wire)
    again, nothing = pushed(old.folder, place, base_oci, wire)
    call(sys.executable, ROOT / "tools" / "rebuild_package.py", channel, "idna")
    new = locked("local-services", address, space / "new")
    second, little = pushed(new.folder, place, base_oci, wire)
    assert first == again != second
    assert nothing < 100_000
    assert 0 < little < whole / 20
    assert len(layers(place, second) - layers(place, first)) == 1
