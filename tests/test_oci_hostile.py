"""Bases and targets that are damaged, odd or somebody else's: one clear error, or the right image, and nothing lost."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_oci import NO_SBOM, ROOT, _own_cache, blob, image_plan, locked, members, root_tar, written

from lockgen.errors import LockgenError, UsageError
from lockgen.image.model import Base
from lockgen.image.oci import layout
from lockgen.image.oci.build import Built, Options, build
from lockgen.image.oci.layout import Target
from lockgen.install.progress import Quiet

__all__ = ["_own_cache"]


def made(folder: Path, named: str, tag: str = "t", options: Options = NO_SBOM, **fields: Any) -> Built:
    """The image of a small lock on some base, in the layout `image` of a folder."""
    folder.mkdir(exist_ok=True)
    lock = locked(folder.parent / "channel")
    part = (lock, lock.platforms[0], image_plan(lock, **fields))
    return build([part], named, Target(kind="oci", place=str(folder / "image"), tag=tag), options, Quiet())


def refusal(folder: Path, named: str, **fields: Any) -> str:
    with pytest.raises(LockgenError) as caught:
        made(folder, named, **fields)
    return str(caught.value)


def tags(folder: Path) -> dict[str, str]:
    """Tag → digest of a layout, documents under their digest."""
    entries = json.loads((folder / "index.json").read_bytes())["manifests"]
    return {one.get("annotations", {}).get(layout.TAG, one["digest"]): one["digest"] for one in entries}


def root(tmp_path: Path) -> str:
    return f"scratch-debian:{root_tar(tmp_path / 'root.tar')}"


def test_a_tag_that_is_built_anew_leaves_another_one_of_the_same_image(tmp_path: Path) -> None:
    base, both = root(tmp_path), Options(sbom=True)
    first = made(tmp_path / "one", base, "a", both)
    assert made(tmp_path / "one", base, "b", both).digest == first.digest
    again = made(tmp_path / "one", base, "a", Options(sbom=True, compression="gzip"))
    found = tags(tmp_path / "one/image")
    assert (found["a"], found["b"]) == (again.digest, first.digest)
    documents = [
        json.loads(blob(tmp_path / "one/image", each)) for name, each in found.items() if name not in ("a", "b")
    ]
    assert sorted(one["subject"]["digest"] for one in documents) == sorted([first.digest, again.digest] * 2)
    manifest = json.loads(blob(tmp_path / "one/image", first.digest))
    for one in (manifest["config"], *manifest["layers"]):
        assert len(blob(tmp_path / "one/image", one["digest"])) == one["size"]


def test_packages_go_where_a_link_of_the_base_leads(tmp_path: Path) -> None:
    linked = root_tar(tmp_path / "linked.tar", {**ROOT, "var/opt/vendor": "x"}, {"opt": "var/opt"})
    digest = made(tmp_path / "one", f"scratch-debian:{linked}").digest
    manifest = json.loads(blob(tmp_path / "one/image", digest))
    above = [set(members(blob(tmp_path / "one/image", each["digest"]))) for each in manifest["layers"][1:]]
    names = set().union(*above)
    assert {"var/opt/env/bin/python", "var/opt/env/lib/libx.so.1", "var/opt/lockgen/run"} <= names
    assert not [name for name in names if name == "opt" or name.startswith("opt/")]


def test_documents_are_the_same_wherever_a_base_lies_and_name_it_by_its_digest(tmp_path: Path) -> None:
    found = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        base = root(tmp_path / name)
        place = Base(reference=base, digest=None, glibc=None)
        made(tmp_path / f"out-{name}", base, options=Options(sbom=True), base=place)
        found.append(tmp_path / f"out-{name}/image")
    assert tags(found[0]) == tags(found[1])
    blobs = [path.read_bytes() for path in (found[0] / "blobs/sha256").iterdir()]
    assert not [one for one in blobs if str(tmp_path / "here").encode() in one]
    (statement,) = (json.loads(one) for one in blobs if one.startswith(b'{\n  "_type": "https://in-toto.io'))
    config = json.loads(blob(found[0], json.loads(blob(found[0], tags(found[0])["t"]))["config"]["digest"]))
    layer = config["rootfs"]["diff_ids"][0].removeprefix("sha256:")
    assert statement["predicate"]["buildDefinition"]["resolvedDependencies"][0] == {
        "name": "base",
        "digest": {"sha256": layer},
    }


def test_a_base_whose_blobs_are_links_is_read_and_copied(tmp_path: Path) -> None:
    made(tmp_path / "one", root(tmp_path))
    blobs, real = tmp_path / "one/image/blobs/sha256", tmp_path / "one/real"
    shutil.move(blobs, real)
    blobs.mkdir()
    for path in real.iterdir():
        (blobs / path.name).symlink_to(path)
    made(tmp_path / "two", f"oci:{tmp_path / 'one/image'}:t")
    found = list((tmp_path / "two/image/blobs/sha256").iterdir())
    assert all(path.is_file() and not path.is_symlink() and path.stat().st_nlink == 1 for path in found)


def test_a_base_that_ends_too_early_is_said_to(tmp_path: Path) -> None:
    whole = gzip.compress(root_tar(tmp_path / "root.tar").read_bytes())
    (tmp_path / "cut.tgz").write_bytes(whole[:120])
    base = f"scratch-debian:{tmp_path / 'cut.tgz'}"
    assert refusal(tmp_path / "one", base) == f"cannot read the base `{base}`: it is damaged, or ends too early"


FORM = "{}/index.json is not the index of an OCI layout: its `manifests` are no list of descriptors"


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("[]", "not a JSON object: what is stored as `{}/index.json`"),
        ('{"manifests": null}', FORM),
        ('{"manifests": [{"digest": 5}]}', FORM),
        (None, "{} is no whole OCI layout: `index.json`: no such file or directory"),
    ],
)
def test_a_layout_of_another_form_is_refused_as_base_and_as_target(
    index: str | None, words: str, tmp_path: Path
) -> None:
    base, place = root(tmp_path), tmp_path / "odd/image"
    (place / "blobs/sha256").mkdir(parents=True)
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    if index is not None:
        (place / "index.json").write_text(index)
    assert refusal(tmp_path / "odd", base) == words.format(place)
    assert list((place / "blobs/sha256").iterdir()) == []
    assert refusal(tmp_path / "out", f"oci:{place}") == words.format(place)


@pytest.mark.parametrize("listed", ['[{"Config": "c"}]', "{}", "[5]"])
def test_an_archive_of_another_form_is_refused(listed: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.tar"
    with tarfile.open(file, "w") as tar:
        for name, text in {"manifest.json": listed, "c": '{"os": "linux", "architecture": "amd64"}'}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    base = f"docker-archive:{file}"
    assert refusal(tmp_path / "one", base) == f"cannot read the base `{base}`: it is not of the form of an image"


def test_an_archive_of_an_image_is_no_root_file_system(tmp_path: Path) -> None:
    file = root_tar(tmp_path / "image.tar", {"manifest.json": "[]"})
    assert refusal(tmp_path / "one", f"scratch-debian:{file}").startswith(
        "the base is an archive of an image, not a root file system\n"
    )


def test_a_layout_that_holds_a_part_of_an_image_keeps_it(tmp_path: Path) -> None:
    base = root(tmp_path)
    first = made(tmp_path / "one", base, "whole")
    place = tmp_path / "one/image"
    manifest = json.loads(blob(place, first.digest))
    gone = manifest["layers"][0]["digest"].removeprefix("sha256:")
    (place / "blobs/sha256" / first.digest.removeprefix("sha256:")).rename(tmp_path / "kept")
    second = made(tmp_path / "one", base, "more", created=1_700_000_001)
    assert tags(place) == {"whole": first.digest, "more": second.digest}
    assert (place / "blobs/sha256" / gone).is_file()


def test_an_empty_folder_and_a_link_to_a_folder_can_be_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, lock = root(tmp_path), locked(tmp_path / "channel")
    (tmp_path / "here").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "here")
    for place in (".", "../link"):
        part = (lock, lock.platforms[0], image_plan(lock))
        build([part], base, Target(kind="oci", place=place, tag="t"), NO_SBOM, Quiet())
    assert tags(tmp_path / "here") == tags(tmp_path / "real")
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir()) == ["blobs", "index.json", "oci-layout"]


def test_a_tag_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        layout.parse("oci:out:bad tag")
    assert str(caught.value).startswith("not a tag: `bad tag`\n")
    assert layout.parse("oci:a:b/c") == Target(kind="oci", place="a:b/c", tag="latest")


def test_what_a_layer_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "one/opt").mkdir(parents=True)
    (tmp_path / "one/opt/.wh.bash").touch()
    with pytest.raises(LockgenError, match=r"^`/opt/\.wh\.bash` cannot be in a layer, where a name that begins with"):
        written(tmp_path / "one", tmp_path / "blobs")
    (tmp_path / "two").mkdir()
    os.mkfifo(tmp_path / "two/pipe")
    with pytest.raises(LockgenError, match=r"^`/pipe` is neither a file nor a folder nor a link"):
        written(tmp_path / "two", tmp_path / "blobs")


def test_what_a_base_lacks_and_the_image_can_do_without_is_said(tmp_path: Path) -> None:
    class Heard(Quiet):
        def __init__(self) -> None:
            super().__init__()
            self.lines: list[str] = []

        def say(self, line: str) -> None:
            self.lines.append(line)

    heard, lock = Heard(), locked(tmp_path / "channel")
    plan = replace(image_plan(lock), distribution=("tini",))
    target = Target(kind="oci", place=str(tmp_path / "image"), tag="t")
    build([(lock, lock.platforms[0], plan)], root(tmp_path), target, NO_SBOM, heard)
    assert "the base has no `tini`: the image starts without it" in heard.lines
    assert tarfile.is_tarfile(tmp_path / "root.tar")
