"""One layer: a tar whose bytes depend on its content alone, compressed and hashed while it is written."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal, Protocol

from lockgen.errors import LockgenError, Problem
from lockgen.image.payload import stage

Compression = Literal["zstd", "gzip"]

LEVELS: Mapping[Compression, int] = {"zstd": 3, "gzip": 2}
"""Of igzip, whose highest is 3, and of zstd."""
MEDIA_TYPES: Mapping[str, str] = {
    "zstd": "application/vnd.oci.image.layer.v1.tar+zstd",
    "gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "none": "application/vnd.oci.image.layer.v1.tar",
}
_BLOCK = 1 << 20
_LINKED = 1 << 16
"""Files of one content are stored once from this size on, as hard links of each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a layer holds under one name."""

    name: str
    """Without a slash at either end."""
    kind: bytes
    """As tar has it: `tarfile.REGTYPE`."""
    mode: int
    owner: tuple[int, int] = (0, 0)
    """Ids of user and group."""
    size: int = 0
    target: str = ""
    """Of a link."""
    source: Path | bytes = b""
    """The content of a file, or where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A layer on disk."""

    name: str
    digest: str
    """Of the compressed bytes, `sha256:…`."""
    diff_id: str
    """Of the tar."""
    size: int
    unpacked: int
    """Bytes of the tar."""
    media_type: str

    @property
    def descriptor(self) -> dict[str, object]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


class LayerError(LockgenError):
    """A package has what no layer can hold."""


def entries_below(root: Path) -> list[Entry]:
    """
    All that lies below a folder, sorted, owned by root, with the modes that `stage` gives.

    Which files share their bytes on disk depends on the machine; which are written as hard links depends on their
    content alone.
    """
    found = [_entry(root, path) for path in _paths(root)]
    return sorted(_linked(found), key=lambda one: one.name.split("/"))


def _paths(root: Path) -> Iterator[str]:
    for parent, names, files in os.walk(root):
        for name in (*names, *files):
            yield os.path.relpath(os.path.join(parent, name), root)


def _entry(root: Path, path: str) -> Entry:
    whole = root / path
    found = whole.lstat()
    if whole.name.startswith(".wh."):
        message = f"`/{path}` cannot be in a layer, where a name that begins with `.wh.` removes another file"
        raise LayerError(Problem(message=message))
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise LayerError(Problem(message=f"`/{path}` is neither a file nor a folder nor a link"))
    mode = stage.mode_of(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return Entry(name=path, kind=tarfile.DIRTYPE, mode=mode)
    if stat.S_ISLNK(found.st_mode):
        return Entry(name=path, kind=tarfile.SYMTYPE, mode=mode, target=os.readlink(whole))
    return Entry(name=path, kind=tarfile.REGTYPE, mode=mode, size=found.st_size, source=whole)


def _linked(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Large files of the same content and mode as links to the first of them by name."""
    alike: dict[tuple[int, int], list[Entry]] = {}
    for one in entries:
        if one.kind == tarfile.REGTYPE and one.size >= _LINKED:
            alike.setdefault((one.size, one.mode), []).append(one)
        else:
            yield one
    for several in alike.values():
        first: dict[str, str] = {}
        for one in sorted(several, key=lambda each: each.name.split("/")):
            key = _hash(one.source) if len(several) > 1 else ""
            original = first.setdefault(key, one.name)
            same = original == one.name
            yield one if same else replace(one, kind=tarfile.LNKTYPE, size=0, target=original, source=b"")


def _hash(source: Path | bytes) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# writing


class _Compressor(Protocol):
    """What both libraries give."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


@dataclass
class _Sink:
    """Takes the bytes of a tar; hashes them, compresses them, hashes what comes out, writes it."""

    out: IO[bytes]
    compressor: _Compressor
    told: Callable[[int], None]
    inner: hashlib._Hash = field(default_factory=hashlib.sha256)
    outer: hashlib._Hash = field(default_factory=hashlib.sha256)
    unpacked: int = 0
    size: int = 0
    pending: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        """The compressor always gets blocks of one size: how it is fed may show in what it gives."""
        self.pending += data
        while len(self.pending) >= _BLOCK:
            self._feed(bytes(self.pending[:_BLOCK]))
            del self.pending[:_BLOCK]

    def finish(self) -> None:
        self._feed(bytes(self.pending))
        self._put(self.compressor.flush())

    def _feed(self, block: bytes) -> None:
        self.inner.update(block)
        self.unpacked += len(block)
        self._put(self.compressor.compress(block))
        self.told(len(block))

    def _put(self, data: bytes) -> None:
        self.outer.update(data)
        self.size += len(data)
        self.out.write(data)


def write(
    name: str,
    entries: Iterable[Entry],
    blobs: Path,
    compression: Compression,
    told: Callable[[int], None] = lambda _: None,
) -> Blob:
    """
    Write a layer into a folder of blobs.

    Args:
        name: of the layer, for people.
        entries: in their order, every folder before what is in it.
        blobs: the file gets its digest as its name in it.
        told: of the bytes of the tar, as they are written.
    """
    return _written(name, _tar(entries), blobs, compression, told)


def compress(
    name: str, tar: IO[bytes], blobs: Path, compression: Compression, told: Callable[[int], None] = lambda _: None
) -> Blob:
    """Write a layer from a tar that is there already."""
    return _written(name, iter(lambda: tar.read(_BLOCK), b""), blobs, compression, told)


def _written(
    name: str, data: Iterable[bytes], blobs: Path, compression: Compression, told: Callable[[int], None]
) -> Blob:
    temporary = blobs / f".{name}"
    with temporary.open("wb") as out:
        sink = _Sink(out, _compressor(compression), told)
        for block in data:
            sink.write(block)
        sink.finish()
    digest = sink.outer.hexdigest()
    os.replace(temporary, blobs / digest)
    return Blob(
        name=name,
        digest=f"sha256:{digest}",
        diff_id=f"sha256:{sink.inner.hexdigest()}",
        size=sink.size,
        unpacked=sink.unpacked,
        media_type=MEDIA_TYPES[compression],
    )


def _compressor(compression: Compression) -> _Compressor:
    """One thread a layer, as several layers are written at once; so the bytes do not depend on how many there are."""
    if compression == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(level=LEVELS["zstd"], write_checksum=True).compressobj()
    from isal import isal_zlib

    compressor: _Compressor = isal_zlib.compressobj(LEVELS["gzip"], isal_zlib.DEFLATED, 16 + isal_zlib.MAX_WBITS)
    return compressor


def _tar(entries: Iterable[Entry]) -> Iterator[bytes]:
    for one in entries:
        yield _header(one)
        if one.kind == tarfile.REGTYPE:
            yield from _content(one)
            yield bytes(-one.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _header(one: Entry) -> bytes:
    """As POSIX has it; a name that does not fit into it, or is not ASCII, comes in an extended header before."""
    info = tarfile.TarInfo(one.name)
    info.type, info.mode, info.size, info.linkname = one.kind, one.mode, one.size, one.target
    info.uid, info.gid = one.owner
    info.mtime = stage.EPOCH
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _content(one: Entry) -> Iterator[bytes]:
    """
    The bytes of a file.

    Raises:
        OSError: it changed while it was read.
    """
    if isinstance(one.source, bytes):
        yield one.source
        return
    left = one.size
    with one.source.open("rb") as file:
        while left and (block := file.read(min(left, _BLOCK))):
            left -= len(block)
            yield block
    if left:
        raise OSError(f"{one.source} became shorter while it was read")
