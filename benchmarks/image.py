"""
One lock as an image in three ways: by `lockgen image build`, by buildah from `lockgen dockerfile`, and by buildah from
the Dockerfile that people write by hand, which has the whole environment in one layer.

Each is built with a warm package cache, pushed to a registry on this machine, and built and pushed again after one pure
Python package was rebuilt and after PyTorch was. Bytes are counted on the wire. Images made by buildah are compressed
while they are pushed, outside of the times shown; lockgen's time holds its compression.
It needs root on Debian, and what `tools/container_tools.sh` installs.
Usage: python benchmarks/image.py [--picture FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from container import making  # noqa: E402
from container.proxy import Counter, counting  # noqa: E402
from container.shell import BUILD, LOCKGEN, attempt, build, call, lockgen  # noqa: E402

from lockgen.channel.serve import serving  # noqa: E402
from lockgen.cli.images import find_plans, options  # noqa: E402
from lockgen.image.model import ImagePlan  # noqa: E402
from lockgen.knowledge.layer import layer_groups  # noqa: E402
from lockgen.report.text import size  # noqa: E402
from lockgen.report.treemap import treemap  # noqa: E402

BUMPS = {"pure": "idna", "pytorch": "pytorch"}
HAND = """ARG BASE
ARG INSTALLER
FROM ${INSTALLER} AS build
COPY conda-lock.yml ./
RUN --mount=type=cache,target=/var/cache/lockgen,sharing=locked \\
    LOCKGEN_CACHE_DIR=/var/cache/lockgen lockgen install conda-lock.yml --prefix /opt/env --no-host-check
FROM ${BASE}
COPY --from=build /opt/env /opt/env
ENV PATH=/opt/env/bin:/usr/bin:/bin
USER 1000:1000
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One way to build an image."""

    name: str
    seconds: float
    """Of the first build."""
    memory: int | None
    """Bytes at the peak, of all processes; None: not measured."""
    image: int
    """Bytes that went to an empty registry."""
    layers: int
    again: dict[str, int]
    """Bytes that went after a bump, by its name."""


class Way:
    """How one of the images is built and pushed."""

    def __init__(self, name: str, make: Callable[[Path], str]) -> None:
        self.name, self.make = name, make


def measured(way: Way, locks: dict[str, Path], wire: Counter, folder: Path) -> Measured:
    """Build and push the first lock and each of the bumped ones."""
    attempt("buildah", "rmi", "--prune", "--force")  # no layer of an earlier build is taken over
    with peak() as memory:
        started = time.monotonic()
        made = way.make(locks["first"])
        seconds = time.monotonic() - started
    tell(f"{way.name}: built in {seconds:.1f} s")
    place = f"docker://127.0.0.1:{wire.port}/{folder.name}-{len(way.name)}:latest"
    image = pushed(made, place, wire)
    layers = call("skopeo", "inspect", "--format={{len .Layers}}", "--tls-verify=false", place).strip()
    again = {}
    for bump in BUMPS:
        again[bump] = pushed(way.make(locks[bump]), place, wire)
        tell(f"{way.name}: {size(again[bump])} after the bump of {BUMPS[bump]}")
    return Measured(
        name=way.name,
        seconds=seconds,
        memory=max(memory) if "lockgen" in way.name.split() else None,
        image=image,
        layers=int(layers),
        again=again,
    )


def pushed(made: str, place: str, wire: Counter) -> int:
    """Bytes that a push sends."""
    before = wire.sent
    call(
        "skopeo",
        "copy",
        "--quiet",
        "--format=oci",
        "--dest-compress-format=zstd",
        "--dest-tls-verify=false",
        made,
        place,
    )
    return wire.sent - before


@contextlib.contextmanager
def peak() -> Iterator[list[int]]:
    """Samples of the memory of all processes that are started meanwhile; shared pages are counted once."""
    found, done, others = [0], threading.Event(), below(os.getpid())

    def watch() -> None:
        while not done.wait(0.05):
            found.append(sum(proportional(pid) for pid in below(os.getpid()) - others))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def below(root: int) -> set[int]:
    """A process, those that it has started, and theirs."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    new = {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def proportional(pid: int) -> int:
    """Bytes of a process: a page that several share is divided among them."""
    with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended meanwhile
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(text.partition("\nPss:")[2].split()[0]) * 1024
    return 0


def ways(base: str, base_oci: str, installer: str, space: Path) -> list[Way]:
    """The three."""

    def oci(lock: Path) -> str:
        place = f"oci:{space}/oci-{lock.parent.name}:latest"
        call(*LOCKGEN, "image", "build", lock, "-o", place, "--base", base_oci, "-q")
        return place

    def dockerfile(lock: Path) -> str:
        context = space / f"dockerfile-{lock.parent.name}"
        lockgen("dockerfile", lock, "--installer", "lockgen", "-o", context)
        return built(context)

    def by_hand(lock: Path) -> str:
        context = space / f"hand-{lock.parent.name}"
        context.mkdir()
        shutil.copy(lock / "conda-lock.yml", context)
        (context / "Dockerfile").write_text(HAND)
        return built(context)

    def built(context: Path) -> str:
        return f"containers-storage:{build(context.name, context, f'BASE={base}', f'INSTALLER={installer}')}"

    return [
        Way("one layer, by hand", by_hand),
        Way("lockgen image build", oci),
        Way("Dockerfile, by buildah", dockerfile),
    ]


def bumped(channel: Path, address: str, space: Path) -> dict[str, Path]:
    """The lock, and what it becomes when one package is rebuilt: each bump alone."""
    locks = {"first": making.locked("local-cpu", address, space / "first").folder}
    hidden = []
    for bump, name in BUMPS.items():
        made = Path(call(sys.executable, ROOT / "tools" / "rebuild_package.py", channel, name).strip())
        locks[bump] = making.locked("local-cpu", address, space / bump).folder
        hidden.append((made.rename(made.with_suffix(".kept")), made))
        lockgen("channel", "index", channel)
    for kept, made in hidden:
        kept.rename(made)
    return locks


def table(rows: Sequence[Measured]) -> Iterator[str]:
    """What was measured, in Markdown."""
    yield "| | build, s | layers | image, MB | sent after a rebuild of idna, MB | of pytorch, MB | peak memory, MB |"
    yield "|--|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        memory = f"{row.memory / 1e6:.0f}" if row.memory else "–"
        yield (
            f"| {row.name} | {row.seconds:.1f} | {row.layers} | {row.image / 1e6:.0f} "
            f"| {row.again['pure'] / 1e6:.1f} | {row.again['pytorch'] / 1e6:.0f} | {memory} |"
        )


def targets(hand: Measured, own: Measured, dockerfile: Measured) -> Iterator[str]:
    """What was promised, beside what was measured."""
    assert own.memory is not None
    ratio, part = own.seconds / dockerfile.seconds, own.again["pure"] / own.image
    less = hand.again["pure"] / own.again["pure"]
    yield "| target | measured | limit | |"
    yield "|--|--:|--:|--|"
    yield f"| wall time, `image build` / buildah | {ratio:.2f}× | 0.50× | {kept(ratio <= 0.5)} |"
    yield f"| sent after idna, of the image | {100 * part:.1f} % | 2.0 % | {kept(part <= 0.02)} |"
    yield f"| the same, of what one layer sends | 1/{less:.0f} | 1/20 | {kept(less >= 20)} |"
    yield f"| peak memory of lockgen | {own.memory / 1e6:.0f} MB | 400 MB | {kept(own.memory < 400e6)} |"


def kept(holds: bool) -> str:
    """In a word."""
    return "kept" if holds else "missed"


COLORS = ("#2f5d8a", "#a34f06", "#2e7d32", "#b23a48", "#00695c", "#6a4c93")
WIDTH, HEIGHT, HEAD = 960, 420, 52


def picture(plan: ImagePlan, sizes: Mapping[str, int]) -> str:
    """The layers as rectangles whose areas are bytes of archives, as SVG; one colour a group."""
    layers = sorted(plan.layers, key=lambda layer: (-layer.size, layer.name))
    titles = {one.name: one.title for one in layer_groups()}
    group_of = {
        layer.name: next((one for one in titles if layer.name.startswith(f"{one}-")), "pytorch") for layer in layers
    }
    groups = [one for one in titles if one in group_of.values()]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + HEAD}" font-family="sans-serif" '
        f'font-size="13" role="img" aria-label="Layers of the image by size">',
        f'<text x="0" y="16" font-weight="bold">{escape(plan.name)}: {len(layers)} layers of packages, '
        f"{size(sum(layer.size for layer in layers))} of archives</text>",
    ]
    left = 0
    for group in groups:
        lines.append(f'<rect x="{left}" y="28" width="12" height="12" fill="{COLORS[groups.index(group)]}"/>')
        lines.append(f'<text x="{left + 18}" y="39">{escape(titles[group])}</text>')
        left += 44 + 7 * len(titles[group])
    largest = {layer.name: sorted(layer.packages, key=lambda name: -sizes[name])[:3] for layer in layers}
    lines.append(f'<g transform="translate(0 {HEAD})">')
    for layer, box in zip(layers, treemap([max(layer.size, 1) for layer in layers], WIDTH, HEIGHT), strict=True):
        color = COLORS[groups.index(group_of[layer.name])]
        what = escape(f"{layer.name}, {size(layer.size)}: {', '.join(layer.packages)}")
        lines.append(
            f'<g><title>{what}</title><rect x="{box.x:.1f}" y="{box.y:.1f}" '
            f'width="{box.width:.1f}" height="{box.height:.1f}" fill="{color}" stroke="#fff" stroke-width="2"/>'
        )
        texts = (layer.name, size(layer.size), *largest[layer.name])
        fitting = [text for text in texts if box.width > 7.5 * len(text) + 12]
        shown = fitting[: int((box.height - 8) // 17)] if len(texts[0]) * 7.5 + 12 < box.width else []
        for number, text in enumerate(shown):
            if text:
                lines.append(
                    f'<text x="{box.x + 8:.1f}" y="{box.y + 20 + 17 * number:.1f}" fill="#fff">{escape(text)}</text>'
                )
        lines.append("</g>")
    return "\n".join([*lines, "</g>", "</svg>", ""])


def tell(text: str) -> None:
    """Progress, beside the table."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Images of one lock in three ways.")
    parser.add_argument("--picture", type=Path, help="Where to write a picture of the layers, SVG.")
    given = parser.parse_args()
    if missing := making.missing_tools():
        sys.exit(f"missing: {', '.join(missing)}; see tools/container_tools.sh")
    os.environ |= making.variables()
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
        space = Path(temporary)
        shutil.copytree(making.channel_of("local"), space / "channel")
        reference = making.base()
        base_oci, installer = making.base_oci(reference), making.installer(reference, space / "installer")
        with serving(space / "channel") as address, making.registry(space / "registry") as port, counting(port) as wire:
            locks = bumped(space / "channel", address, space)
            for lock in locks.values():
                lockgen("install", lock, "-p", space / "warm", "-q")
            rows = [measured(way, locks, wire, space) for way in ways(reference, base_oci, installer, space)]
        making.tidy()
        if given.picture:
            ((_, one, plan),) = find_plans(locks["first"], None, options())
            sizes = {package.name: package.size for package in one.packages}
            given.picture.write_text(picture(plan, sizes), encoding="utf-8")
    print("\n".join([*table(rows), "", *targets(*rows), ""]))
    cores, python = len(os.sched_getaffinity(0)), platform.python_version()
    version = subprocess.run(["buildah", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    print(f"One run; {platform.system()} {platform.machine()}, {cores} cores, Python {python}, buildah {version}.")
    sys.stdout.flush()
    os._exit(0)  # rattler's threads can abort a normal shutdown


if __name__ == "__main__":
    main()
