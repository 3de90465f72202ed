"""`lockgen image build`: an image from a lock, without a daemon."""

from __future__ import annotations

import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lockgen.image.oci.build import Built

LOCK = typer.Argument(metavar="LOCK", help="A lock, its folder or its spec; by default the only lock here.")
OUTPUT = typer.Option(
    "--output", "-o", metavar="PLACE", help="oci:DIR[:TAG], docker-archive:FILE[:NAME:TAG] or docker://HOST/NAME:TAG."
)
SPEC = typer.Option("--spec", metavar="FILE", help="The spec with the image's keys; by default the one beside LOCK.")
BASE = typer.Option(
    "--base",
    metavar="IMAGE",
    help="A known name, a reference, oci:DIR[:TAG], docker-archive:FILE or scratch-debian:FILE, a root tar.",
)
FORCE_BASE = typer.Option("--force-base", help="Also take a base that carries a CUDA of its own.")
COMPRESSION = typer.Option(
    "--compression", help="Of the layers; Docker before 23 and umoci take gzip only, whose bytes may differ by CPU."
)
LAYERS = typer.Option("--layers", metavar="N", help="Most layers of packages; by default 24.")
ENVIRONMENT = typer.Option("--environment", "-e", metavar="NAME", help="The variant; needed where there are several.")
PLATFORM = typer.Option("--platform", metavar="NAME", help="One platform only; by default all, in one index.")
NO_SBOM = typer.Option("--no-sbom", help="Attach no list of contents and no statement of provenance.")
NO_TLS = typer.Option("--no-tls-verify", help="Push to a registry without a certificate, or without TLS.")
QUIET = typer.Option("--quiet", "-q", help="Tell nothing but errors.")


class Compression(StrEnum):
    """How layers are compressed."""

    zstd = "zstd"
    gzip = "gzip"


def image_build(
    output: Annotated[str, OUTPUT],
    lock: Annotated[Path | None, LOCK] = None,
    spec: Annotated[Path | None, SPEC] = None,
    base: Annotated[str | None, BASE] = None,
    force_base: Annotated[bool, FORCE_BASE] = False,
    compression: Annotated[Compression, COMPRESSION] = Compression.zstd,
    layers: Annotated[int | None, LAYERS] = None,
    environment: Annotated[str | None, ENVIRONMENT] = None,
    platform: Annotated[str | None, PLATFORM] = None,
    no_sbom: Annotated[bool, NO_SBOM] = False,
    no_tls_verify: Annotated[bool, NO_TLS] = False,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Build an image without a daemon: the same lock and base, the same digest. Prints the digest."""
    from lockgen.cli.images import find_plans, options
    from lockgen.cli.install import _progress
    from lockgen.image.oci.build import Options, build
    from lockgen.image.oci.layout import parse
    from lockgen.image.plan import SOURCES

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is half done is removed
    started = time.monotonic()
    target = parse(output)
    base = base.removeprefix("docker://") if base else None
    parts = find_plans(lock, spec, options(base=base, budget=layers, force_base=force_base), environment, platform)
    how = Options(compression=compression.value, sbom=not no_sbom, tls_verify=not no_tls_verify)
    local = base if base and base.startswith(SOURCES) else None
    built = build(parts, local, target, how, _progress(quiet))
    if not quiet:
        for note in dict.fromkeys(note for _, _, plan in parts for note in plan.notes):
            typer.echo(f"note: {note}", err=True)
        for line in _told(built, time.monotonic() - started):
            typer.echo(line, err=True)
    typer.echo(built.digest)


def _told(built: Built, seconds: float) -> list[str]:
    from lockgen.report import text

    return [
        f"{one.platform}: {len(one.layers)} layers, {text.size(sum(each.size for each in one.layers))} "
        f"above a base of {text.size(one.base_size)}, in {seconds:.1f} s"
        for one in built.images
    ]
