"""The same lock and base give the same image, wherever and by whomever it is built."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from container.making import Locked
from container.shell import LOCKGEN, attempt, call, lockgen

OTHER = "4321"
"""A user without a name."""


def digest(place: str) -> str:
    return call("skopeo", "inspect", "--format={{.Digest}}", place).strip()


def test_another_path_and_another_user_give_the_same_digest(
    services_lock: Locked, services_folder: str, base_oci: str, space: Path
) -> None:
    somebody = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups")
    if attempt(*somebody, *LOCKGEN, "--version", cwd=Path("/")).returncode:
        pytest.skip("the Python of these tests can be run by root alone")
    folder = space / "another user's"
    shutil.copytree(services_lock.folder.parent, folder / "lock")
    (folder / "tmp").mkdir()
    call("chown", "-R", f"{OTHER}:{OTHER}", folder)
    environ = {
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "LOCKGEN_CACHE_DIR": str(folder / "cache"),
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C",
    }
    place = f"oci:{folder}/image:again"
    line = ("image", "build", folder / "lock" / services_lock.folder.name, "-o", place, "--base", base_oci)
    call(*somebody, *LOCKGEN, *line, cwd=folder, env=environ)
    assert digest(place) == digest(services_folder)


def test_an_archive_is_loaded_under_its_name(
    services_lock: Locked, services_folder: str, base_oci: str, space: Path
) -> None:
    printed = lockgen(
        "image", "build", services_lock.folder, "-o", f"docker-archive:{space}/image.tar:x/y:z", "--base", base_oci
    )
    loaded = call("podman", "load", "--quiet", "--input", space / "image.tar").split()[-1]
    try:
        assert loaded.endswith("/x/y:z")
        assert printed.startswith("sha256:")
        labels = call("podman", "image", "inspect", "--format={{json .Labels}}", loaded)
        assert '"io.lockgen.spec":"local-services"' in labels
    finally:
        call("podman", "rmi", loaded)


def test_other_tools_take_the_image(services_folder: str, space: Path) -> None:
    place = services_folder.removeprefix("oci:")
    gzip = f"oci:{space}/gzip:x"
    call("skopeo", "copy", "--quiet", "--dest-compress-format=gzip", services_folder, gzip)
    call("umoci", "unpack", "--image", gzip.removeprefix("oci:"), space / "unpacked")
    root = space / "unpacked" / "rootfs"
    assert (root / "opt/env/bin/python").exists()
    owner = {path: (root / path).lstat().st_uid for path in ("opt/env/bin/python3.11", "work", "home/lockgen")}
    assert owner == {"opt/env/bin/python3.11": 0, "work": 1000, "home/lockgen": 1000}
    made = call("buildah", "from", f"oci:{place}").strip()
    try:
        assert call("buildah", "run", "--isolation=chroot", made, "--", "python", "-c", "print(6 * 7)").strip() == "42"
    finally:
        call("buildah", "rm", made)
