"""
An installed conda environment made ready for an image: nothing of this machine in it, compiled, split into layers.

Runs by itself, on Python 3.9 or newer with nothing but the standard library, in the build stage of a Dockerfile; the
writer of OCI images calls the same functions. What comes out depends on the packages alone:

    python stage.py --prefix /opt/env --groups groups.json --out /layers --epoch 1700000000

`groups.json` holds `{"layers": [{"name": "cuda", "packages": ["libcublas"]}, …]}`; the files of a layer are moved to
`/layers/cuda/opt/env/…`. Nothing is imported at the top that compiling does not need: see `_zygote`.
"""

from __future__ import annotations

import os
import sys

sys.dont_write_bytecode = True

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

EPOCH = 315532800
"""1980-01-01: the time of every file, the same in every image, so that what an update leaves alone stays as it is."""
META = "conda-meta"
HISTORY = META + "/history"
RECORD_KEYS = (
    *("name", "version", "build", "build_number", "subdir", "channel", "fn", "url", "md5", "sha256", "size"),
    *("timestamp", "depends", "constrains", "track_features", "features", "noarch", "license", "license_family"),
    *("platform", "arch", "python_site_packages_path", "requested_spec", "requested_specs", "files", "paths_data"),
)
"""What stays in a package's record; paths and clocks of the machine that installed it are in none of these."""
PATH_KEYS = (
    *("_path", "path_type", "sha256", "sha256_in_prefix", "size_in_bytes"),
    *("file_mode", "prefix_placeholder", "no_link", "original_path"),
)


class StageError(Exception):
    """The environment cannot be made ready."""


# records


def read_records(prefix: str) -> dict[str, dict[str, Any]]:
    """The records of the installed packages by the name of their file, sorted."""
    import json

    found = {}
    for name in sorted(os.listdir(os.path.join(prefix, META))):
        if name.endswith(".json"):
            with open(os.path.join(prefix, META, name), "rb") as file:
                found[name] = json.loads(file.read())
    return found


def normalised(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without what only the machine knows that installed it, in a fixed order, without credentials."""
    kept = {key: record[key] for key in RECORD_KEYS if record.get(key) is not None}
    for key in ("url", "channel"):
        if key in kept:
            kept[key] = without_credentials(kept[key])
    kept["files"] = sorted(kept.get("files", ()))
    data = kept.get("paths_data") or {}
    rows = [{key: row[key] for key in PATH_KEYS if row.get(key) is not None} for row in data.get("paths", ())]
    kept["paths_data"] = {"paths": sorted(rows, key=_path_of), "paths_version": 1}
    return kept


def without_credentials(url: str) -> str:
    """A URL without user, password and conda's token."""
    import re

    url = re.sub(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", r"\1", url)
    return re.sub(r"^([a-z][a-z0-9+.-]*://[^/]*)/t/[^/]+", r"\1", url)


def _path_of(row: Mapping[str, Any]) -> str:
    return str(row["_path"])


def _rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a record says of each of its files."""
    return (record.get("paths_data") or {}).get("paths") or []


def _write(path: str, data: bytes) -> None:
    """Replace a file by a new one: the old may be a hard link into the cache of packages."""
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.replace(path + ".new", path)


# one environment


def prepare(prefix: str, final: str, workers: int) -> list[str]:
    """
    Make an environment the same on every machine: records, links, compiled modules.

    Args:
        prefix: where it lies now.
        final: where it is to lie, and what is written in its files.
        workers: processes that compile; none: modules are left as their packages bring them.

    Returns:
        Python files that cannot be compiled, sorted.
    """
    records = read_records(prefix)
    _remove_leftovers(prefix, records)
    _redirect_links(prefix, final)
    compiled = compile_all(prefix, final, records, workers) if workers else []
    _write_records(prefix, records, [pyc for _, pyc in compiled if pyc])
    return sorted(source for source, pyc in compiled if not pyc)


def _remove_leftovers(prefix: str, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Compiled modules that no package brings, and what installers note for themselves."""
    listed = {path for record in records.values() for path in record.get("files", ())}
    for path in list(walk(prefix)):
        beside = path == "CACHEDIR.TAG" or (path.startswith(META + "/") and path.split("/")[-1] not in records)
        if (path.endswith(".pyc") or beside) and path not in listed:
            os.unlink(os.path.join(prefix, path))
    with open(os.path.join(prefix, HISTORY), "wb"):
        pass


def _redirect_links(prefix: str, final: str) -> None:
    """Let links that name the folder of now name the final one."""
    for path in list(walk(prefix)):
        whole = os.path.join(prefix, path)
        if prefix != final and os.path.islink(whole):
            target = os.readlink(whole)
            if target == prefix or target.startswith(prefix + "/"):
                os.unlink(whole)
                os.symlink(final + target[len(prefix) :], whole)


def _write_records(prefix: str, records: Mapping[str, Mapping[str, Any]], compiled: Sequence[str]) -> None:
    """Write the records, with the compiled modules in that of the package whose source they come from."""
    import json

    of_source: dict[str, list[str]] = {}
    for pyc in compiled:
        of_source.setdefault(source_of(pyc), []).append(pyc)
    for name, record in records.items():
        kept = normalised(record)
        ours = [pyc for path in kept["files"] for pyc in of_source.get(path, ())]
        _add_compiled(prefix, kept, ours)
        text = json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=True)
        _write(os.path.join(prefix, META, name), text.encode() + b"\n")


def _add_compiled(prefix: str, record: dict[str, Any], ours: Sequence[str]) -> None:
    """What a record says of compiled modules: the new ones as conda lists them, the changed ones with their hash."""
    import hashlib

    rows = {row["_path"]: row for row in _rows(record)}
    for pyc in ours:
        if pyc not in rows:
            rows[pyc] = {"_path": pyc, "path_type": "pyc_file"}
        else:
            with open(os.path.join(prefix, pyc), "rb") as file:
                data = file.read()
            rows[pyc].update(sha256_in_prefix=hashlib.sha256(data).hexdigest(), size_in_bytes=len(data))
    record["files"] = sorted({*record["files"], *ours})
    record["paths_data"]["paths"] = sorted(rows.values(), key=_path_of)


def walk(folder: str) -> Iterator[str]:
    """Paths below a folder of all that is no folder itself, sorted within each folder."""
    for parent, names, files in os.walk(folder):
        names.sort()
        links = [name for name in names if os.path.islink(os.path.join(parent, name))]
        for name in sorted([*files, *links]):
            yield os.path.relpath(os.path.join(parent, name), folder)


# compiling


def source_of(pyc: str) -> str:
    """`a/b.py` of `a/__pycache__/b.cpython-313.pyc`."""
    parent, name = os.path.split(pyc)
    return os.path.join(os.path.dirname(parent), name.split(".")[0] + ".py")


def compile_all(
    prefix: str, final: str, records: Mapping[str, Mapping[str, Any]], workers: int
) -> list[tuple[str, str]]:
    """
    Compile every module below `lib/python*` with the environment's own Python; a module that a package brings compiled
    is only told not to look at the time of its source, which is not kept.

    Returns:
        For each source its compiled module, empty where it cannot be compiled.
    """
    import subprocess

    python = os.path.join(prefix, "bin", "python")
    jobs = _jobs(prefix, records)
    if not jobs or not os.path.exists(python):
        return []
    command = [python, "-S", "-s", "-B", "-W", "ignore", os.path.abspath(__file__), "--compile", prefix, final]
    asked = "\0\0".join("\0".join(job) for job in jobs).encode("utf-8", "surrogateescape")
    clean = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
    try:
        done = subprocess.run([*command, str(workers)], input=asked, stdout=subprocess.PIPE, env=clean, check=False)
    except OSError as error:
        raise StageError(f"cannot run {python}: {error.strerror}") from None
    if done.returncode:
        raise StageError(f"{python} stops with {done.returncode} while it compiles")
    answers = [answer.partition("\n")[::2] for answer in done.stdout.decode("utf-8", "surrogateescape").split("\0")]
    if len(answers) != sum(map(len, jobs)) + 1:
        raise StageError(f"{python} is no Python that compiles")
    return sorted((source, pyc) for source, pyc in answers[:-1])


def can_run(prefix: str) -> bool:
    """Whether the environment's Python runs on this machine; so does one that is not there."""
    import subprocess

    python = os.path.join(prefix, "bin", "python")
    try:
        done = subprocess.run([python, "-S", "-s", "-B", "-c", ""], stdout=subprocess.DEVNULL, check=False)
    except OSError:
        return not os.path.exists(python)
    return done.returncode == 0


def _jobs(prefix: str, records: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """
    Sources of one package and folder each, marked `=` where the package brings them compiled from this very text.

    Files without an owner are jobs of their own kind, so that nothing of a package depends on what is beside it.
    """
    rows = [(row, name) for name, record in records.items() for row in _rows(record)]
    owner = {row["_path"]: name for row, name in rows}
    changed = {row["_path"] for row, _ in rows if row.get("prefix_placeholder")}
    brought = {source_of(row["_path"]) for row, _ in rows if row["_path"].endswith(".pyc")}
    found: dict[tuple[str, str], list[str]] = {}
    for path in _sources(prefix):
        mark = "=" if path in brought and path not in changed else "+"
        found.setdefault((owner.get(path, ""), os.path.dirname(path)), []).append(mark + path)
    return [found[key] for key in sorted(found)]


def _sources(prefix: str) -> Iterator[str]:
    """Every module of the standard library and of packages."""
    library = os.path.join(prefix, "lib")
    for name in sorted(os.listdir(library) if os.path.isdir(library) else ()):
        folder = os.path.join(library, name)
        if name.startswith("python") and os.path.isdir(folder) and not os.path.islink(folder):
            for path in walk(folder):
                if path.endswith(".py") and "\n" not in path and not os.path.islink(os.path.join(folder, path)):
                    yield f"lib/{name}/{path}"


def _zygote(prefix: str, final: str, workers: int) -> None:
    """
    Compile in processes that all begin alike, so that the bytes depend on the sources alone.

    What `marshal` writes depends on which objects the interpreter shares, that is, on all that it did before. So this
    process imports the same few modules every time and does nothing; each job is done in a child of its own.
    """
    import gc
    import importlib.util
    import marshal

    del importlib, marshal
    gc.disable()
    running = 0
    for job in sys.stdin.buffer.read().split(b"\0\0"):
        if running >= workers:
            running -= _ended()
        if not os.fork():
            _finish(prefix, final, job)
        running += 1
    while running:
        running -= _ended()


def _ended() -> int:
    """Wait for a child."""
    if os.wait()[1]:
        raise SystemExit(3)
    return 1


def _finish(prefix: str, final: str, job: bytes) -> None:
    """Do a job, and end at once, without what the parent would do on its way out."""
    try:
        _work(prefix, final, job)
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(3)


def _work(prefix: str, final: str, job: bytes) -> None:
    """Answer for each source with it and its compiled module, which is empty where there can be none."""
    from importlib.util import cache_from_source

    for item in job.split(b"\0"):
        source = os.fsdecode(item[1:])
        pyc = cache_from_source(source)
        with open(os.path.join(prefix, source), "rb") as file:
            text = file.read()
        kept = item[:1] == b"=" and _is_kept(os.path.join(prefix, pyc), text)
        if not kept and not _is_compiled(text, os.path.join(final, source), os.path.join(prefix, pyc)):
            pyc = ""
        os.write(1, item[1:] + b"\n" + os.fsencode(pyc) + b"\0")


def _header(text: bytes) -> bytes:
    """The head of a compiled module that is never compared with its source."""
    from importlib.util import MAGIC_NUMBER, source_hash

    return MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(text)


def _is_kept(pyc: str, text: bytes) -> bool:
    """Whether a module that was brought compiled is of this Python and this source: then only its head is renewed."""
    try:
        with open(pyc, "rb") as file:
            data = file.read()
    except OSError:
        return False
    head = _header(text)
    of_size = data[4:8] == bytes(4) and data[12:16] == (len(text) & 0xFFFFFFFF).to_bytes(4, "little")
    if data[:4] != head[:4] or not (of_size or (data[4] & 1 and data[8:16] == head[8:])):
        return False
    _write(pyc, head + data[16:])
    return True


def _is_compiled(text: bytes, name: str, pyc: str) -> bool:
    """Compile a source, unless it is no Python of this version: a template, a test of errors."""
    import marshal

    try:
        code = compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    os.makedirs(os.path.dirname(pyc), exist_ok=True)
    _write(pyc, _header(text) + marshal.dumps(code))
    return True


# layers


def owners(records: Mapping[str, Mapping[str, Any]], layers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which layer each listed file belongs to, and the record of its package with it; of several, the first layer."""
    by_package = {package: str(layer["name"]) for layer in layers for package in layer["packages"]}
    order = {str(layer["name"]): position for position, layer in enumerate(layers)}
    last = str(layers[-1]["name"])
    found: dict[str, str] = {}
    for name, record in records.items():
        layer = by_package.get(record["name"], last)
        for path in (f"{META}/{name}", *record.get("files", ())):
            if path not in found or order[layer] < order[found[path]]:
                found[path] = layer
    return found


def split(prefix: str, layers: Sequence[Mapping[str, Any]], out: str, final: str) -> None:
    """
    Move the files of an environment into one folder for each layer.

    A file that no package lists goes into the last layer.

    Args:
        prefix: a prepared environment; an empty folder afterwards.
        layers: each with `name` and `packages`.
        out: new folders `NAME/opt/env/…` are made in it, where `/opt/env` is `final`.
        final: where the environment is to lie.
    """
    import shutil  # now: it may be this very Python's library that is moved

    found = owners(read_records(prefix), layers)
    last = str(layers[-1]["name"])
    roots = {str(layer["name"]): os.path.join(out, str(layer["name"]), final.lstrip("/")) for layer in layers}
    made = set()
    for path in list(walk(prefix)):
        target = os.path.join(roots[found.get(path, last)], path)
        folder = os.path.dirname(target)
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        try:
            os.rename(os.path.join(prefix, path), target)
        except OSError:
            shutil.move(os.path.join(prefix, path), target)
    for root in roots.values():
        os.makedirs(root, exist_ok=True)
    for parent, _, _ in os.walk(prefix, topdown=False):
        if parent != prefix:
            os.rmdir(parent)


def mode_of(mode: int) -> int:
    """The mode that a file has in an image: readable by all, writable by its owner, executable or not."""
    import stat

    if stat.S_ISLNK(mode):
        return 0o777
    return 0o755 if stat.S_ISDIR(mode) or mode & 0o111 else 0o644


def settle(folder: str, epoch: int) -> None:
    """Give everything below a folder its mode and one time; what is linked from elsewhere is copied first."""
    count: dict[tuple[int, int], int] = {}
    for path in walk(folder):
        found = os.lstat(os.path.join(folder, path))
        count[found.st_dev, found.st_ino] = count.get((found.st_dev, found.st_ino), 0) + 1
    for parent, names, files in os.walk(folder, topdown=False):
        for name in (*files, *names, ""):
            path = os.path.join(parent, name) if name else parent
            if name in names and not os.path.islink(path):
                continue
            _settle(path, epoch, count)


def _settle(path: str, epoch: int, count: Mapping[tuple[int, int], int]) -> None:
    found = os.lstat(path)
    if not os.path.islink(path):
        if os.path.isfile(path) and count[found.st_dev, found.st_ino] < found.st_nlink:
            with open(path, "rb") as file:
                _write(path, file.read())
        os.chmod(path, mode_of(found.st_mode))
    os.utime(path, (epoch, epoch), follow_symlinks=False)


def main(arguments: Sequence[str]) -> int:
    """Prepare an environment and split it."""
    import argparse
    import json

    if arguments[:1] == ["--compile"]:
        _zygote(arguments[1], arguments[2], int(arguments[3]))
        return 0
    parser = argparse.ArgumentParser(description="Make an environment ready for an image, and split it into layers.")
    parser.add_argument("--prefix", required=True, help="where the environment lies")
    parser.add_argument("--groups", required=True, help="JSON file that says which packages a layer holds")
    parser.add_argument("--out", required=True, help="folder for the layers")
    parser.add_argument("--final", help="where the environment is to lie; by default where it does")
    parser.add_argument("--epoch", type=int, default=EPOCH, help="time of every file, in seconds since 1970")
    asked = parser.parse_args(arguments)
    prefix = os.path.realpath(asked.prefix)
    with open(asked.groups, encoding="utf-8") as file:
        layers = json.load(file)["layers"]
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        for path in prepare(prefix, asked.final or prefix, workers):
            sys.stderr.write(f"not compiled: {path}\n")
        split(prefix, layers, asked.out, asked.final or prefix)
        settle(asked.out, asked.epoch)
    except StageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
