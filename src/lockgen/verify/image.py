"""Run the payload in a container of an image: podman or docker, no root, no network, nothing writable but /tmp."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockgen.errors import Problem, UsageError
from lockgen.image.plan import PREFIX, architecture
from lockgen.verify.evidence import Evidence, EvidenceError, load
from lockgen.verify.run import PAYLOAD, Progress, follow

RUNTIMES = ("podman", "docker")
"""In the order in which they are looked for."""
TRANSPORTS = ("oci:", "oci-archive:", "docker-archive:", "dir:")
"""Beginnings of references that name a file or a folder here."""
INSIDE = "/lockgen"
"""Where the container sees the payload, the plan and the folder for the results."""
USER = "1000:1000"
"""Taken where the image does not name a user, or names root."""
LIMIT = 3 * 3600
"""Seconds that all checks may take together."""
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""Where podman finds descriptions of GPUs."""
PLATFORMS = {architecture(name): name for name in ("linux-64", "linux-aarch64")}
_FINGERPRINT = "io.lockgen.fingerprint"


class OtherLock(EvidenceError):
    """The image was made from another lock than the one it is held against."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What runs containers here."""

    name: str
    """`podman` or `docker`."""
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that the runtime has."""

    reference: str
    """As the user named it."""
    identity: str
    """The runtime's own id of it."""
    platform: str
    """`linux-64`."""
    user: str
    """Never root: `1000:1000` where the image starts as root."""
    prefix: str
    """The image's `CONDA_PREFIX`, else where lockgen puts environments."""
    fingerprint: str | None
    """Of the lock that it was made from; None: it does not say, so lockgen did not make it."""


def find_runtime(name: str | None) -> Runtime:
    """
    The runtime that was named, else the first one on PATH.

    Raises:
        UsageError: there is none, or no such one.
    """
    if name is not None and name not in RUNTIMES:
        raise UsageError(Problem(message=f"unknown runtime: `{name}`", hint=f"known: {', '.join(RUNTIMES)}"))
    for one in (name,) if name else RUNTIMES:
        if path := shutil.which(one):
            return Runtime(name=one, path=path)
    missing = f"`{name}` is not" if name else f"neither {' nor '.join(f'`{one}`' for one in RUNTIMES)} is"
    raise UsageError(Problem(message=f"{missing} on PATH", hint="an image is run by podman or docker: install one"))


@contextlib.contextmanager
def opened(runtime: Runtime, reference: str) -> Iterator[Image]:
    """
    An image by any reference that the runtime takes; one that had to be read from a folder or file is let go again.

    Raises:
        EvidenceError: there is no such image, or it cannot be had.
    """
    stored = reference.startswith(TRANSPORTS)
    before = set(_say(runtime, "images", "--quiet", "--no-trunc").split()) if stored else set()
    name = _fetched(runtime, reference)
    image = _inspected(runtime, name, reference)
    try:
        yield image
    finally:
        if stored and not any(image.identity.removeprefix("sha256:") in one for one in before):
            _quietly(runtime, "rmi", image.identity)


def refuse_other(image: Image, fingerprint: str) -> None:
    """
    Compare the lock that an image was made from with the one that it is held against.

    Raises:
        OtherLock: the image names another one.
    """
    if image.fingerprint in (None, fingerprint):
        return
    message = f"{image.reference} is made from another lock: its label says {image.fingerprint}, expected {fingerprint}"
    raise OtherLock(Problem(message=message, hint="build the image again, or name the lock that it was made from"))


def refuse_hub(model: str) -> None:
    """
    Take only models that need no network.

    Raises:
        UsageError: the model is a name on a hub.
    """
    if model not in ("tiny", "base") and not Path(model).is_dir():
        message = f"a container runs without network, and `{model}` is no folder"
        raise UsageError(Problem(message=message, hint="`--model` takes `tiny`, `base` or a folder"))


def run(plan: dict[str, Any], runtime: Runtime, image: Image, target: Path, progress: Progress) -> Evidence:
    """
    Carry out a plan inside a container, and remove the container whatever happens.

    Args:
        plan: JSON values, from `lockgen.verify.plan`, for the image's prefix.
        target: `evidence.json`; written once the container has ended.
        progress: called with each line of the payload, as in `lockgen.verify.run.run`.

    Raises:
        EvidenceError: the container cannot be started, or ends before all checks have answered.
    """
    name = f"lockgen-verify-{secrets.token_hex(6)}"
    with tempfile.TemporaryDirectory(prefix="lockgen-image-", ignore_cleanup_errors=True) as folder:
        here = Path(folder)
        moved, mounts = _inside(plan, image)
        _prepare(here, moved)
        line = command(runtime, image, name, [*_own_mounts(here), *mounts])
        line[2:2] = gpus(runtime) if plan["versions"].get("cuda") else []
        try:
            words = follow(line, progress, LIMIT)
        finally:
            _quietly(runtime, "rm", "--force", name)
        try:
            text = (here / "out/evidence.json").read_text(encoding="utf-8")
        except OSError:
            detail = "\n".join(words[-10:])
            message = f"{image.reference} ends without any evidence in {runtime.name}"
            raise EvidenceError(Problem(message=message, detail=detail)) from None
    from lockgen.output import write_all

    write_all(target.parent, {target.name: text})
    evidence = load(text, str(target))
    if missing := [f"`{check}`" for check in plan["checks"] if evidence.check(check) is None]:
        message = f"{image.reference} ends before it has answered {', '.join(missing)}"
        raise EvidenceError(Problem(message=message, detail="\n".join(words[-10:])))
    return evidence


def command(runtime: Runtime, image: Image, name: str, mounts: list[str]) -> list[str]:
    """The command line that runs the payload; an image of lockgen's through its own entry point, as a user would."""
    python = f"{image.prefix}/bin/python"
    entry = [] if image.fingerprint else [f"--entrypoint={python}"]
    limit = [f"--timeout={LIMIT}"] if runtime.name == "podman" else []
    return [
        runtime.path, "run", "--rm", "--pull=never", f"--name={name}", *limit,
        "--network=none", "--read-only", f"--user={image.user}", "--cap-drop=all",
        "--security-opt=no-new-privileges", "--security-opt=label=disable",
        "--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777", "--shm-size=1g", "--env=HOME=/tmp", "--workdir=/tmp",
        *(f"--mount={mount}" for mount in mounts), *entry, image.identity,
        *([python] if image.fingerprint else []), "-I", "-B", f"{INSIDE}/in/payload/main.py",
        f"{INSIDE}/in/plan.json", f"{INSIDE}/out/evidence.json",
    ]  # fmt: skip


def gpus(runtime: Runtime) -> list[str]:
    """
    Options that hand all GPUs of this machine to the container; none where it has none.

    Raises:
        EvidenceError: there are GPUs, and podman has not been told how to hand them on.
    """
    from lockgen.host import read_gpus

    if not read_gpus().devices:
        return []
    if runtime.name == "docker":
        return ["--gpus=all"]
    if any(Path(folder).is_dir() and any(Path(folder).iterdir()) for folder in CDI_FOLDERS):
        return ["--device=nvidia.com/gpu=all"]
    hint = "to write one, run `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
    raise EvidenceError(Problem(message="podman has no description of the GPUs here (CDI)", hint=hint))


def _inside(plan: dict[str, Any], image: Image) -> tuple[dict[str, Any], list[str]]:
    """The plan with folders as the container sees them, and the mounts that bring them there."""
    bert, mounts = dict(plan["bert"]), []
    for key in ("corpus", "model"):
        if bert[key] is not None and os.path.isdir(bert[key]):
            mounts.append(mount(bert[key], f"{INSIDE}/{key}", writable=False))
            bert[key] = f"{INSIDE}/{key}"
    return {**plan, "bert": bert, "image": f"{image.reference} ({image.identity})"}, mounts


def _prepare(folder: Path, plan: dict[str, Any]) -> None:
    """Payload and plan, readable by every user, and a folder that every user may write in; all below a private one."""
    shutil.copytree(PAYLOAD.parent, folder / "in/payload", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "in/plan.json").write_text(json.dumps(plan, ensure_ascii=False), encoding="utf-8")
    (folder / "out").mkdir()
    for path in (folder / "in", *(folder / "in").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "out").chmod(0o777)


def _own_mounts(folder: Path) -> list[str]:
    return [
        mount(str(folder / "in"), f"{INSIDE}/in", writable=False),
        mount(str(folder / "out"), f"{INSIDE}/out", writable=True),
    ]


def mount(source: str, target: str, *, writable: bool) -> str:
    """A bind mount as `--mount` takes it: one row of CSV, so that a comma in a path is no end of it."""
    row = io.StringIO()
    fields = ["type=bind", f"source={os.path.abspath(source)}", f"target={target}"]
    csv.writer(row, lineterminator="").writerow(fields if writable else [*fields, "readonly"])
    return row.getvalue()


def _fetched(runtime: Runtime, reference: str) -> str:
    """The name or id under which the runtime has the image, fetched where it does not have it yet."""
    if not reference.startswith(TRANSPORTS):
        with contextlib.suppress(EvidenceError):
            return _say(runtime, "image", "inspect", "--format={{.Id}}", reference).strip()
    if reference.startswith("localhost/"):
        hint = f"`{runtime.name} images` lists those that are; an image of a registry is fetched by itself"
        raise EvidenceError(Problem(message=f"no image `{reference}` here", hint=hint))
    if runtime.name == "podman":
        return _say(runtime, "pull", "--quiet", reference).split()[-1]
    if reference.startswith("docker-archive:"):
        return _say(runtime, "load", "--quiet", "--input", reference.partition(":")[2]).split()[-1]
    if reference.startswith(TRANSPORTS):
        message = f"docker takes no `{reference.partition(':')[0]}:` references"
        raise EvidenceError(Problem(message=message, hint="use podman, or write the image as `docker-archive:FILE`"))
    return _say(runtime, "pull", "--quiet", reference).split()[-1]


def _inspected(runtime: Runtime, name: str, reference: str) -> Image:
    (found,) = json.loads(_say(runtime, "image", "inspect", name))
    config = found.get("Config") or {}
    labels = config.get("Labels") or {}
    user = config.get("User") or ""
    of = found.get("Architecture", "")
    platform = PLATFORMS.get(of)
    if platform is None:
        raise EvidenceError(Problem(message=f"{reference} is of an architecture without a platform: {of}"))
    return Image(
        reference=reference,
        identity=found["Id"],
        platform=platform,
        user=USER if user.partition(":")[0] in ("", "0", "root") else user,
        prefix=_variables(config).get("CONDA_PREFIX", PREFIX),
        fingerprint=labels.get(_FINGERPRINT),
    )


def _variables(config: dict[str, Any]) -> dict[str, str]:
    return dict(one.split("=", 1) for one in config.get("Env") or () if "=" in one)


def _say(runtime: Runtime, *arguments: str) -> str:
    """
    What the runtime prints.

    Raises:
        EvidenceError: it fails, with its own words.
    """
    done = subprocess.run(
        [runtime.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        message = f"`{runtime.name} {' '.join(arguments)}` fails"
        raise EvidenceError(Problem(message=message, detail="\n".join(done.stderr.strip().splitlines()[-1:])))
    return done.stdout


def _quietly(runtime: Runtime, *arguments: str) -> None:
    """Tidy up; what is gone already is no matter."""
    subprocess.run([runtime.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
