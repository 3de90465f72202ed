"""Images written without a daemon: the same bytes everywhere, whole or not at all, as other tools read them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from command_line import lockgen
from package_builder import Recipe, lock_of, noarch_python, write_channel, write_lock

from lockgen.errors import LockgenError
from lockgen.image.model import Base, Folder, Health, ImageFile, ImagePlan, Layer
from lockgen.image.oci import base as bases
from lockgen.image.oci import layer, layout
from lockgen.image.oci.build import Built, Options, build
from lockgen.image.oci.layout import Target
from lockgen.image.payload import stage
from lockgen.install import transaction
from lockgen.install.progress import Quiet
from lockgen.lock.model import Lock

PASSWD = "root:x:0:0:root:/root:/bin/bash\nold:x:1000:1000::/home/old:/bin/sh\n"
ROOT = {"etc/passwd": PASSWD, "etc/group": "root:x:0:\nstaff:x:50:\n", "usr/sbin/sshd": "x", "usr/bin/sh": "x"}
NO_SBOM = Options(sbom=False)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKGEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))  # the one that the program's tests keep


def root_tar(path: Path, files: Mapping[str, str] = ROOT, links: Mapping[str, str] | None = None) -> Path:
    """A root file system in an archive."""
    with tarfile.open(path, "w") as tar:
        for name, target in (links or {"sbin": "usr/sbin"}).items():
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
        for name, text in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def recipes(*, tool: str = "1.0") -> list[Recipe]:
    """Python (this one, behind a script), a module, a compiled library with a file twice, an application."""
    script = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    library = "library" * 20_000
    return [
        Recipe(name="python", version="3.11.4", files={"bin/python": script, "lib/python3.11/os.py": "import sys\n"}),
        Recipe(name="libx", files={"lib/libx.so.1": library, "lib/libx.so.1.0": library, "lib/small": "s"}),
        noarch_python("tool", tool, entry_points=("tool = tool:main",)),
    ]


def locked(folder: Path, **versions: str) -> Lock:
    return lock_of(write_channel(folder, recipes(**versions)).values())


def image_plan(lock: Lock, **fields: Any) -> ImagePlan:
    """A plan of two layers of packages."""
    values: dict[str, Any] = {
        "name": lock.name,
        "variant": None,
        "platform": "linux-64",
        "architecture": "amd64",
        "fingerprint": lock.fingerprint(),
        "base": Base(reference="scratch", digest=None, glibc=None),
        "prefix": "/opt/env",
        "layers": (
            Layer(name="compiled", packages=("libx", "python"), size=2000),
            Layer(name="pure", packages=("tool",), size=1000),
        ),
        "files": (ImageFile(path="/opt/lockgen/run", text="#!/bin/sh\n", mode=0o755),),
        "folders": (Folder(path="/home/lockgen", mode=0o700),),
        "env": (("PATH", "/opt/env/bin:/bin"), ("LANG", "C.UTF-8")),
        "labels": (("io.lockgen.spec", lock.name),),
        "user": "1000:1000",
        "login": "lockgen",
        "home": "/home/lockgen",
        "workdir": "/work",
        "ports": (8888,),
        "entrypoint": ("/opt/lockgen/run",),
        "command": ("python",),
        "health": Health(command=("/opt/lockgen/health",)),
        "distribution": (),
        "needs": (),
        "created": 1_700_000_000,
        **fields,
    }
    return ImagePlan(**values)


def built(folder: Path, lock: Lock, *, options: Options = NO_SBOM, **fields: Any) -> Built:
    """The image of a lock in the layout `image`, tag `t`, of a folder."""
    folder.mkdir(exist_ok=True)
    root = (
        root_tar(folder.parent / "root.tar")
        if not (folder.parent / "root.tar").exists()
        else folder.parent / "root.tar"
    )
    part = (lock, lock.platforms[0], image_plan(lock, **fields))
    return build(
        [part], f"scratch-debian:{root}", Target(kind="oci", place=str(folder / "image"), tag="t"), options, Quiet()
    )


def blob(folder: Path, digest: str) -> bytes:
    return (folder / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(unpacked(data))) as tar:
        return {member.name: member for member in tar.getmembers()}


def unpacked(data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def text(data: bytes, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(unpacked(data))) as tar:
        found = tar.extractfile(name)
        assert found
        return found.read().decode()


# layers


def written(root: Path, blobs: Path, compression: layer.Compression = "zstd") -> layer.Blob:
    blobs.mkdir(exist_ok=True)
    return layer.write("x", layer.entries_below(root), blobs, compression)


def tree(root: Path, names: Sequence[str]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_layer_depends_on_what_is_in_it_alone(tmp_path: Path, compression: layer.Compression) -> None:
    names = ["b", "a/2", "a/1", "a-1/x"]
    one = written(tree(tmp_path / "one", names), tmp_path / "blobs", compression)
    mask = os.umask(0o077)
    try:
        other = tree(tmp_path / "two", names[::-1])
    finally:
        os.umask(mask)
    os.utime(other / "b", (1, 1))
    assert written(other, tmp_path / "others", compression) == one


def test_a_layer_is_a_tar_in_order_of_root_and_of_one_time(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", ["a/x", "a-b", "a/文件", "long/" + "n" * 200])
    (root / "link").symlink_to("a/x")
    (root / "a/x").chmod(0o6711)
    done = written(root, tmp_path / "blobs")
    data = (tmp_path / "blobs" / done.digest.removeprefix("sha256:")).read_bytes()
    found = members(data)
    assert list(found) == ["a", "a/x", "a/文件", "a-b", "link", "long", "long/" + "n" * 200]
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in found.values()} == {
        (0, 0, "", "", 315532800)
    }
    assert oct(found["a/x"].mode) == "0o755"
    assert found["link"].linkname == "a/x"
    assert "sha256:" + hashlib.sha256(unpacked(data)).hexdigest() == done.diff_id
    assert (done.size, done.unpacked) == (len(data), len(unpacked(data)))


def test_gzip_and_zstd_hold_the_same_tar(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", ["a", "b"])
    one, other = written(root, tmp_path / "blobs", "zstd"), written(root, tmp_path / "blobs", "gzip")
    assert one.diff_id == other.diff_id
    assert one.digest != other.digest


def test_large_files_of_one_content_are_stored_once_whatever_the_disk_says(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for file in ("a", "b", "c"):
            (tmp_path / name / file).write_bytes(b"x" * 100_000)
        (tmp_path / name / "c").chmod(0o755)
    (tmp_path / "two/b").unlink()
    os.link(tmp_path / "two/a", tmp_path / "two/b")
    one, two = (written(tmp_path / name, tmp_path / "blobs") for name in ("one", "two"))
    assert one == two
    found = members((tmp_path / "blobs" / one.digest.removeprefix("sha256:")).read_bytes())
    assert {name: (member.islnk(), member.linkname) for name, member in found.items()} == {
        "a": (False, ""),
        "b": (True, "a"),
        "c": (False, ""),
    }


# images


def test_an_image_has_one_digest_in_another_folder_cache_and_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = locked(tmp_path / "channel")
    one = built(tmp_path / "one", lock)
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "another cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "another home"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    mask = os.umask(0o077)
    try:
        other = built(tmp_path / "a folder with a longer name", lock)
    finally:
        os.umask(mask)
    assert other == one


def test_every_blob_of_a_layout_has_its_digest_and_size(tmp_path: Path) -> None:
    done = built(tmp_path / "one", locked(tmp_path / "channel"), options=Options())
    folder = tmp_path / "one/image"
    for path in (folder / "blobs/sha256").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    manifest = json.loads(blob(folder, done.digest))
    config = json.loads(blob(folder, manifest["config"]["digest"]))
    assert [len(blob(folder, one["digest"])) for one in manifest["layers"]] == [
        one["size"] for one in manifest["layers"]
    ]
    tars = [unpacked(blob(folder, one["digest"])) for one in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]
    assert len(config["history"]) == len(tars) == 4
    types = [one.get("artifactType") for one in json.loads((folder / "index.json").read_bytes())["manifests"]]
    assert types == [None, "application/vnd.cyclonedx+json", "application/vnd.in-toto+json"]


def test_a_configuration_says_what_the_plan_says(tmp_path: Path) -> None:
    done = built(tmp_path / "one", locked(tmp_path / "channel"))
    manifest = json.loads(blob(tmp_path / "one/image", done.digest))
    config = json.loads(blob(tmp_path / "one/image", manifest["config"]["digest"]))
    assert manifest["annotations"] == {"io.lockgen.spec": "small"}
    assert (config["os"], config["architecture"], config["created"]) == ("linux", "amd64", "2023-11-14T22:13:20Z")
    assert config["config"] == {
        "Cmd": ["python"],
        "Entrypoint": ["/opt/lockgen/run"],
        "Env": ["PATH=/opt/env/bin:/bin", "LANG=C.UTF-8"],
        "ExposedPorts": {"8888/tcp": {}},
        "Healthcheck": {
            "Test": ["CMD", "/opt/lockgen/health"],
            "Interval": 30_000_000_000,
            "Timeout": 10_000_000_000,
            "StartPeriod": 60_000_000_000,
        },
        "Labels": {"io.lockgen.spec": "small"},
        "User": "1000:1000",
        "WorkingDir": "/work",
    }


def test_packages_lie_in_their_layers_for_their_final_prefix(tmp_path: Path) -> None:
    done = built(tmp_path / "one", locked(tmp_path / "channel"))
    compiled, pure, own = (blob(tmp_path / "one/image", one.digest) for one in done.images[0].layers)
    tag = sys.implementation.cache_tag
    assert [
        name for name in members(pure) if name.startswith(("opt/env/lib/python3.11/site-packages/", "opt/env/bin/"))
    ] == [
        "opt/env/bin/tool",
        "opt/env/lib/python3.11/site-packages/tool",
        "opt/env/lib/python3.11/site-packages/tool/__init__.py",
        "opt/env/lib/python3.11/site-packages/tool/__pycache__",
        f"opt/env/lib/python3.11/site-packages/tool/__pycache__/__init__.{tag}.pyc",
    ]
    assert text(pure, "opt/env/bin/tool").startswith("#!/opt/env/bin/python")
    assert members(compiled)["opt/env/lib/libx.so.1.0"].linkname == "opt/env/lib/libx.so.1"
    assert str(tmp_path / "cache").encode() not in unpacked(compiled) + unpacked(pure) + unpacked(own)


def test_the_user_is_added_to_the_users_of_the_base_and_owns_the_folders(tmp_path: Path) -> None:
    done = built(tmp_path / "one", locked(tmp_path / "channel"))
    own = blob(tmp_path / "one/image", done.images[0].layers[-1].digest)
    assert text(own, "etc/passwd") == (
        "root:x:0:0:root:/root:/bin/bash\nlockgen:x:1000:1000::/home/lockgen:/bin/bash\n"
    )
    assert text(own, "etc/group") == "root:x:0:\nstaff:x:50:\nlockgen:x:1000:\n"
    found = members(own)
    assert (found["home/lockgen"].uid, found["home/lockgen"].gid, oct(found["home/lockgen"].mode)) == (
        1000,
        1000,
        "0o700",
    )
    assert (found["opt/lockgen/run"].uid, oct(found["opt/lockgen/run"].mode)) == (0, "0o755")
    assert list(found) == [
        "etc",
        "etc/group",
        "etc/passwd",
        "home",
        "home/lockgen",
        "opt",
        "opt/lockgen",
        "opt/lockgen/run",
    ]


def test_an_update_of_one_package_moves_its_layer_alone(tmp_path: Path) -> None:
    old = built(tmp_path / "one", locked(tmp_path / "channel"))
    new = built(tmp_path / "two", locked(tmp_path / "channel", tool="1.1"), created=1_800_000_000)
    moved = [one.name for one, other in zip(old.images[0].layers, new.images[0].layers, strict=True) if one != other]
    assert moved == ["pure"]


def test_several_platforms_are_one_index(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    root = root_tar(tmp_path / "root.tar")
    parts = [(lock, lock.platforms[0], image_plan(lock, architecture=one)) for one in ("amd64", "arm64")]
    target = Target(kind="oci", place=str(tmp_path / "image"), tag="t")
    done = build(parts, f"scratch-debian:{root}", target, NO_SBOM, Quiet())
    listed = json.loads(blob(tmp_path / "image", done.digest))["manifests"]
    assert [(one["digest"], one["platform"]) for one in listed] == [
        (done.images[0].digest, {"architecture": "amd64", "os": "linux"}),
        (done.images[1].digest, {"architecture": "arm64", "os": "linux"}),
    ]


# places


def test_an_archive_is_one_that_docker_load_takes(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    root, file = root_tar(tmp_path / "root.tar"), tmp_path / "image.tar"
    part = (lock, lock.platforms[0], image_plan(lock))
    build([part], f"scratch-debian:{root}", layout.parse(f"docker-archive:{file}"), NO_SBOM, Quiet())
    with tarfile.open(file) as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]
    (listed,) = json.loads(content["manifest.json"])
    assert listed["RepoTags"] == ["localhost/small:latest"]
    diff_ids = json.loads(content[listed["Config"]])["rootfs"]["diff_ids"]
    assert [f"sha256:{hashlib.sha256(unpacked(content[one])).hexdigest()}" for one in listed["Layers"]] == diff_ids
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "channel", "image.tar", "root.tar"]


def test_a_layout_keeps_its_other_images_and_nothing_of_the_one_that_is_replaced(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    folder = tmp_path / "one/image"
    first = built(tmp_path / "one", lock, options=Options())
    kept = {path.name for path in (folder / "blobs/sha256").iterdir()}
    root, part = tmp_path / "root.tar", (lock, lock.platforms[0], image_plan(lock, workdir="/other"))
    build([part], f"scratch-debian:{root}", Target(kind="oci", place=str(folder), tag="more"), Options(), Quiet())
    again = replace(part[2], workdir="/third")
    build(
        [(*part[:2], again)],
        f"scratch-debian:{root}",
        Target(kind="oci", place=str(folder), tag="more"),
        NO_SBOM,
        Quiet(),
    )
    entries = json.loads((folder / "index.json").read_bytes())["manifests"]
    names = [one["annotations"]["org.opencontainers.image.ref.name"] for one in entries if "artifactType" not in one]
    assert (names, len(entries)) == (["t", "more"], 4)
    left = {path.name for path in (folder / "blobs/sha256").iterdir()}
    assert first.digest.removeprefix("sha256:") in left
    assert kept <= left
    assert len(left - kept) == 2  # manifest and configuration


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    shutil.rmtree(tmp_path / "channel/noarch")
    with pytest.raises(LockgenError, match="cannot read"):
        built(tmp_path / "one", lock)
    assert list((tmp_path / "one").iterdir()) == []
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.name.startswith("image")] == []


def test_what_is_sure_not_to_fit_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    lock = lock_of(replace(one, size=10**17) for one in lock.platforms[0].packages)
    with pytest.raises(
        LockgenError, match=rf"^the image needs about .* on the disk of {tmp_path}/one, which has .* free"
    ):
        built(tmp_path / "one", lock)
    assert list((tmp_path / "one").iterdir()) == []


def test_a_folder_that_is_no_layout_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "one/image").mkdir(parents=True)
    (tmp_path / "one/image/thesis.tex").write_text("x")
    with pytest.raises(LockgenError, match="is there, and is no OCI layout"):
        built(tmp_path / "one", locked(tmp_path / "channel"))
    assert [path.name for path in (tmp_path / "one/image").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("oci:out", Target(kind="oci", place="out", tag="latest")),
        ("oci:/a/b:v1", Target(kind="oci", place="/a/b", tag="v1")),
        ("oci:a:b/c", Target(kind="oci", place="a:b/c", tag="latest")),
        ("docker-archive:x.tar", Target(kind="docker-archive", place="x.tar", tag="")),
        ("docker-archive:x.tar:me/x:1", Target(kind="docker-archive", place="x.tar", tag="me/x:1")),
        ("docker://127.0.0.1:5000/x:t", Target(kind="docker", place="127.0.0.1:5000/x:t", tag="latest")),
    ],
)
def test_a_place_is_read_as_skopeo_reads_it(said: str, target: Target) -> None:
    assert layout.parse(said) == target


def test_a_place_of_no_known_kind_is_refused_with_the_kinds(tmp_path: Path) -> None:
    with pytest.raises(LockgenError) as refused:
        layout.parse("docker:x")
    assert str(refused.value) == (
        "no place for an image: `docker:x`\n"
        "  hint: name `oci:DIR[:TAG]`, `docker-archive:FILE[:NAME:TAG]` or `docker://HOST/NAME:TAG`"
    )


# bases


def test_an_image_can_be_the_base_of_another(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    first = built(tmp_path / "one", lock)
    part = (lock, lock.platforms[0], image_plan(lock, env=(("MORE", "1"),)))
    target = Target(kind="oci", place=str(tmp_path / "two"), tag="t")
    done = build([part], f"oci:{tmp_path}/one/image:t", target, NO_SBOM, Quiet())
    manifest = json.loads(blob(tmp_path / "two", done.digest))
    config = json.loads(blob(tmp_path / "two", manifest["config"]["digest"]))
    below = json.loads(blob(tmp_path / "one/image", first.digest))["layers"]
    assert manifest["layers"][:4] == below
    assert config["config"]["Env"] == ["PATH=/opt/env/bin:/bin", "LANG=C.UTF-8", "MORE=1"]
    assert len(config["rootfs"]["diff_ids"]) == len(config["history"]) == 7


def test_an_archive_of_docker_can_be_the_base(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    root, file = root_tar(tmp_path / "root.tar"), tmp_path / "image.tar"
    part = (lock, lock.platforms[0], image_plan(lock))
    first = build([part], f"scratch-debian:{root}", layout.parse(f"docker-archive:{file}"), NO_SBOM, Quiet())
    target = Target(kind="oci", place=str(tmp_path / "two"), tag="t")
    done = build([part], f"docker-archive:{file}", target, NO_SBOM, Quiet())
    manifest = json.loads(blob(tmp_path / "two", done.digest))
    assert [one["digest"] for one in manifest["layers"][1:4]] == [one.digest for one in first.images[0].layers]


def test_a_base_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    first = built(tmp_path / "one", lock)
    path = tmp_path / "one/image/blobs/sha256" / first.images[0].layers[0].digest.removeprefix("sha256:")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    part = (lock, lock.platforms[0], image_plan(lock))
    target = Target(kind="oci", place=str(tmp_path / "two"), tag="t")
    with pytest.raises(LockgenError, match=f"the base is not whole: {first.images[0].layers[0].digest}"):
        build([part], f"oci:{tmp_path}/one/image:t", target, NO_SBOM, Quiet())


def test_a_base_that_lacks_what_a_service_needs_is_refused_by_name(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    needs = ("/sbin/sshd", "/usr/bin/tini")
    with pytest.raises(LockgenError) as refused:
        built(tmp_path / "one", lock, needs=needs, distribution=("openssh-server", "tini"))
    assert str(refused.value) == (
        "`scratch` lacks `/usr/bin/tini`\n"
        "  hint: take a base in which openssh-server tini is installed; "
        "a Dockerfile of `lockgen dockerfile` installs it by itself"
    )


def whited(blobs: Path, *layers: Sequence[tuple[str, bytes]]) -> bases.Tree:
    """What a base holds that has some layers of (name, type)."""
    blobs.mkdir()
    described = []
    for entries in layers:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, kind in entries:
                member = tarfile.TarInfo(name)
                member.type = kind
                tar.addfile(member)
        digest = hashlib.sha256(out.getvalue()).hexdigest()
        (blobs / digest).write_bytes(out.getvalue())
        described.append({"digest": f"sha256:{digest}"})
    return bases.look(bases.BaseImage(config={}, layers=tuple(described), digest="sha256:0"), blobs)


def test_whiteouts_take_away_what_lower_layers_have(tmp_path: Path) -> None:
    folder, file = tarfile.DIRTYPE, tarfile.REGTYPE
    lower = [
        ("a", folder),
        ("a/x", file),
        ("ab", file),
        ("b", folder),
        ("b/x", file),
        ("c", folder),
        ("c/x", file),
        ("d", file),
    ]
    upper = [(".wh.a", file), ("b/.wh..wh..opq", file), ("b/y", file), ("c", file), (".wh.d", file), ("d", file)]
    found = whited(tmp_path / "blobs", lower, upper)
    assert sorted(found.links) == ["ab", "b", "b/y", "c", "d"]


# other tools


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        pytest.skip(f"no {name} here")
    return found


def test_skopeo_reads_the_image_as_it_is_meant(tmp_path: Path) -> None:
    command = [tool("skopeo"), "inspect", f"oci:{tmp_path}/one/image:t"]
    done = built(tmp_path / "one", locked(tmp_path / "channel"))
    seen = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert seen["Digest"] == done.digest
    assert (seen["Architecture"], seen["Os"], seen["Created"]) == ("amd64", "linux", "2023-11-14T22:13:20Z")
    assert seen["Layers"][1:] == [one.digest for one in done.images[0].layers]


def test_umoci_unpacks_layers_of_gzip(tmp_path: Path) -> None:
    program = tool("umoci")
    built(tmp_path / "one", locked(tmp_path / "channel"), options=Options(compression="gzip", sbom=False))
    command = [program, "unpack", "--rootless", "--image", f"{tmp_path}/one/image:t", str(tmp_path / "bundle")]
    subprocess.run(command, capture_output=True, check=True)
    prefix = tmp_path / "bundle/rootfs/opt/env"
    assert os.path.samefile(prefix / "lib/libx.so.1", prefix / "lib/libx.so.1.0")
    assert stat.S_IMODE((prefix / "bin/tool").stat().st_mode) == 0o755
    assert (
        (tmp_path / "bundle/rootfs/etc/passwd").read_text().endswith("lockgen:x:1000:1000::/home/lockgen:/bin/bash\n")
    )


# the command


class Stopping(Quiet):
    """A user who presses Ctrl-C when the first layer is done."""

    def say(self, text: str) -> None:
        if text.startswith("layer"):
            raise KeyboardInterrupt


def test_a_build_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    lock, root = locked(tmp_path / "channel"), root_tar(tmp_path / "root.tar")
    target = Target(kind="oci", place=str(tmp_path / "out/image"), tag="t")
    with pytest.raises(KeyboardInterrupt):
        build([(lock, lock.platforms[0], image_plan(lock))], f"scratch-debian:{root}", target, NO_SBOM, Stopping())
    assert list((tmp_path / "out").iterdir()) == []
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["pkgs"]


def test_the_script_of_a_dockerfile_gives_the_same_layers(tmp_path: Path) -> None:
    lock = locked(tmp_path / "channel")
    done = built(tmp_path / "one", lock)
    job = transaction.Job(
        prefix=tmp_path / "env",
        written=Path("/opt/env"),
        platform="linux-64",
        packages=lock.platforms[0].packages,
        cache=tmp_path / "cache/pkgs",
    )
    transaction.apply(job, Quiet())
    groups = {"layers": [{"name": one.name, "packages": one.packages} for one in image_plan(lock).layers]}
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    command = [sys.executable, stage.__file__, "--prefix", str(tmp_path / "env"), "--final", "/opt/env"]
    more = ["--groups", str(tmp_path / "groups.json"), "--out", str(tmp_path / "layers")]
    subprocess.run([*command, *more], check=True)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for one in done.images[0].layers[:2]:
        assert layer.write(one.name, layer.entries_below(tmp_path / "layers" / one.name), blobs, "zstd") == one


def test_the_command_prints_the_digest_and_nothing_else(tmp_path: Path) -> None:
    lock = write_lock(tmp_path / "lock", locked(tmp_path / "channel"))
    root = root_tar(tmp_path / "root.tar")
    run = ("image", "build", lock, "--base", f"scratch-debian:{root}", "--no-sbom")
    one, other = lockgen(*run, "-o", "oci:one:t", cwd=tmp_path), lockgen(*run, "-q", "-o", "oci:two:t", cwd=tmp_path)
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    assert one.stdout == other.stdout
    assert (other.stderr, len(other.stdout)) == ("", len("sha256:") + 64 + 1)
    (entry,) = json.loads((tmp_path / "one/index.json").read_bytes())["manifests"]
    assert f"{entry['digest']}\n" == one.stdout


def test_a_base_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    lock = write_lock(tmp_path / "lock", locked(tmp_path / "channel"))
    done = lockgen("image", "build", lock, "--base", "scratch-debian:nowhere.tar", "-o", "oci:out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        "error: cannot read the base `scratch-debian:nowhere.tar`: No such file or directory"
    )
    assert not (tmp_path / "out").exists()


def test_a_base_that_is_no_tar_is_an_error_in_words(tmp_path: Path) -> None:
    lock = write_lock(tmp_path / "lock", locked(tmp_path / "channel"))
    (tmp_path / "notes.md").write_text("# Notes\n" * 100)
    done = lockgen("image", "build", lock, "--base", "scratch-debian:notes.md", "-o", "oci:out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "error: a layer of the base is no tar: invalid header"
