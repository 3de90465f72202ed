"""What container tests and the benchmark of images are made of: a store, a base, an installer, locks, a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT

from container.proxy import free_port
from container.shell import BASE, BUILD, EPOCH, TOOLS, attempt, build, call, lockgen, until

HERE = Path(__file__).parent
CONFIGURATION = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


def missing_tools() -> list[str]:
    """What is not here, and cannot be done without."""
    return [tool for tool in TOOLS if not shutil.which(tool)] + ([] if os.getuid() == 0 else ["root"])


def variables() -> dict[str, str]:
    """A store of images and a cache of packages of our own: those of the user are not touched."""
    BUILD.mkdir(parents=True, exist_ok=True)
    store = BUILD / "storage.conf"
    store.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{BUILD}/store"\nrunroot = "{BUILD}/run"\n')
    found = {"CONTAINERS_STORAGE_CONF": str(store), "LOCKGEN_CACHE_DIR": str(BUILD / "cache")}
    if "CONTAINERS_CONF" not in os.environ and not Path("/etc/containers/containers.conf").exists():
        found["CONTAINERS_CONF"] = str(HERE / "containers.conf")
    return found


def base_tar() -> Path:
    """The root of a Debian without anything that is not needed, and with an ssh server."""
    made = BUILD / "base.tar"
    if not made.exists():
        temporary = BUILD / "base.new.tar"
        include = "--include=ca-certificates,openssh-server"
        call("mmdebstrap", "--variant=minbase", include, "bookworm", temporary, env={"SOURCE_DATE_EPOCH": str(EPOCH)})
        os.utime(temporary, (EPOCH, EPOCH))
        temporary.replace(made)
    return made


def base() -> str:
    """The base's reference, in the store; a registry's name, so that a Dockerfile finds it under its own."""
    call("podman", "import", "--quiet", base_tar(), BASE)
    return BASE


def base_oci(reference: str) -> str:
    """The same base as a folder of this machine."""
    folder = BUILD / "base"
    if not (folder / "index.json").exists():
        call("skopeo", "copy", "--quiet", f"containers-storage:{reference}", f"oci:{folder}:bookworm")
    return f"oci:{folder}:bookworm"


def installer(reference: str, context: Path) -> str:
    """An image with this lockgen in it, for the build stage of a Dockerfile."""
    shutil.copytree(ROOT / "src", context / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "installer.Dockerfile", context / "Dockerfile")
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (context / "requirements.txt").write_text("".join(f"{one}\n" for one in needs))
    return build("lockgen-installer", context, f"BASE={reference}")


def tidy() -> None:
    """Remove all images from the store but the base and the installer, which the next run takes up again."""
    kept = (BASE, "localhost/lockgen-installer:latest", "<none>:<none>")
    names = call("podman", "images", "--format={{.Repository}}:{{.Tag}}").split()
    for name in names:
        if name not in kept:
            attempt("podman", "rmi", "--force", name)
    attempt("buildah", "rmi", "--prune", "--force")
    attempt("podman", "umount", "--all")
    attempt("umount", "--lazy", BUILD / "store/overlay")  # it is mounted on itself, which `make clean` could not remove


def channel_of(recipe: str) -> Path:
    """The folder of a recipe's channel, built where it is not there; one that lies elsewhere can be named."""
    folder = ROOT / "build" / {"local": "channel"}.get(recipe, recipe)
    made = Path(os.environ.get(f"LOCKGEN_TEST_{recipe.upper()}_CHANNEL", folder))
    if not (made / "linux-64" / "repodata.json").exists():
        lockgen("channel", "build", ROOT / "recipes" / recipe, "-o", made)
    return made


@dataclass(frozen=True)
class Locked:
    """A lock, with the spec beside it."""

    folder: Path
    spec: Path


def locked(name: str, address: str, folder: Path) -> Locked:
    """A spec of envs/, locked against a channel that is served here."""
    folder.mkdir(exist_ok=True)
    text = (ROOT / "envs" / f"{name}.yaml").read_text()
    spec = folder / f"{name}.yaml"
    spec.write_text(
        "\n".join(f"channels: [{address}]" if line.startswith("channels:") else line for line in text.splitlines())
    )
    lockgen("resolve", spec)
    return Locked(folder=folder / name, spec=spec)


@contextmanager
def registry(folder: Path) -> Iterator[int]:
    """The port of docker-registry on this machine, empty at first."""
    folder.mkdir()
    port = free_port()
    file = folder / "registry.yml"
    file.write_text(CONFIGURATION.format(folder=folder / "data", port=port))
    running = subprocess.Popen(["docker-registry", "serve", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port))
        yield port
    finally:
        running.terminate()
        running.wait()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
