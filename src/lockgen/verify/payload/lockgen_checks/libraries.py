"""Does every shared object find what it needs inside the environment, and is each runtime library there once."""

import fnmatch
import hashlib
import json
import os
import subprocess
import sys

from lockgen_checks import _elf, _prefix

ORDER = 30
SECONDS = 300
LARGEST = 24
SHOWN = 20
_MAPS = """
import importlib, json, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
    paths = {line.rstrip("\\n").split(None, 5)[5] for line in file if len(line.split(None, 5)) == 6}
with open(sys.argv[1], "w") as out:
    json.dump(sorted(path for path in paths if path.startswith("/")), out)
"""


def check(plan):
    """Read every shared object's needs; then import torch and transformers and look at what is mapped."""
    if not sys.platform.startswith("linux"):
        return {"skipped": "shared objects are looked at on Linux only"}
    rules, prefix = plan["libraries"], plan["prefix"]
    objects, problems = read_all(prefix)
    problems += changed(objects)
    provided = names_of(objects, prefix)
    unresolved, borrowed, late = resolve_all(objects, rules, prefix, provided)
    problems += unresolved
    loaded = loaded_after(rules["load"], prefix)
    problems += loaded["problems"]
    mapped = [path for path in loaded["paths"] if is_library(path)]
    problems += foreign(mapped, rules, prefix, provided)
    problems += doubled(mapped, rules["once"])
    sizes = sorted(((one["size"], path) for path, one in objects.items()), reverse=True)
    return {
        "problems": problems[:SHOWN] + ([f"{len(problems) - SHOWN} more"] if len(problems) > SHOWN else []),
        "summary": f"{len(objects):,} shared objects resolve; {len(mapped)} loaded, all from the environment",
        "facts": {
            "objects": len(objects),
            "mapped": len(mapped),
            "loaded": loaded["modules"],
            "from the system": borrowed,
            "found once another is loaded": late,
            "once": {row["title"]: _matching(mapped, row["files"], prefix) for row in rules["once"]},
            "largest": [[path, size] for size, path in sizes[:LARGEST]],
        },
    }


def is_library(path):
    name = os.path.basename(path)
    return name.endswith(".so") or ".so." in name


def read_all(prefix):
    """Path → what is known of each shared object and program of the packages; and problems of those not readable."""
    objects, problems = {}, []
    for record in _prefix.records(prefix):
        for path in _prefix.paths(record):
            relative = path["_path"]
            full = os.path.join(prefix, relative)
            if not (is_library(relative) or relative.startswith("bin/")) or not os.path.isfile(full):
                continue
            if os.path.islink(full) and _prefix.is_inside(full, prefix):
                continue  # its target is looked at
            try:
                found = _elf.read(full)
            except ValueError as error:
                problems.append("{} ({}): {}".format(relative, record["name"], error))
                continue
            if found or is_library(relative):
                objects[relative] = {
                    "elf": found, "package": record["name"], "size": os.path.getsize(full), "path": full,
                    "sha256": path.get("sha256_in_prefix") or _plain_hash(path),
                }  # fmt: skip
    return objects, problems


def _plain_hash(path):
    """The recorded hash, where installing did not change the file."""
    return None if path.get("prefix_placeholder") else path.get("sha256")


def changed(objects):
    """Shared objects that are not the bytes that their package installed."""
    for relative, one in sorted(objects.items()):
        if one["sha256"] and digest(one["path"]) != one["sha256"]:
            yield "{} is not the file that {} installed".format(relative, one["package"])


def digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            block = file.read(1 << 20)
            if not block:
                return found.hexdigest()
            found.update(block)


def names_of(objects, prefix):
    """Every name that a library of the environment goes by: its files', its links', and its own."""
    found = {one["elf"].soname for one in objects.values() if one["elf"] and one["elf"].soname}
    for record in _prefix.records(prefix):
        found.update(os.path.basename(path["_path"]) for path in _prefix.paths(record) if is_library(path["_path"]))
    return found


def resolve_all(objects, rules, prefix, provided):
    """
    Look for every needed library, as the dynamic loader does.

    Returns:
        Problems; what the system gives, name → how many need it; what only another loaded library makes findable.
    """
    inherited = _interpreter_paths(objects, prefix)
    problems, borrowed, late = [], {}, {}
    for relative, one in sorted(objects.items()):
        for name in one["elf"].needed if one["elf"] else ():
            found = find(name, one["path"], one["elf"], inherited)
            if found and _prefix.is_inside(found, prefix):
                continue
            if found is None and name in provided:
                late[name] = late.get(name, 0) + 1
            elif found is None and _allowed(name, rules, provided):
                borrowed[name] = borrowed.get(name, 0) + 1
            elif not _excused(relative, name, rules["absent"]):
                where = f"found outside the environment: {found}" if found else "which is nowhere"
                problems.append("{} ({}) needs {}, {}".format(relative, one["package"], name, where))
    return problems, borrowed, late


def _interpreter_paths(objects, prefix):
    """Search paths that the interpreter hands down: its old-style RPATH, and LD_LIBRARY_PATH."""
    program = os.path.realpath(sys.executable)
    relative = os.path.relpath(program, os.path.realpath(prefix)).replace(os.sep, "/")
    found = objects.get(relative, {}).get("elf") or _elf.read(program)
    own = found.rpath if found and not found.runpath else []
    folders = [_expand(path, program) for path in own]
    return folders + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]


def find(name, path, elf, inherited):
    """Where a needed library is found by the search paths of the object and of the interpreter; None: not by these."""
    if "/" in name:
        return _expand(name, path) if os.path.exists(_expand(name, path)) else None
    own = elf.runpath or elf.rpath
    for folder in [_expand(each, path) for each in own] + inherited:
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


def _expand(text, path):
    origin = os.path.dirname(os.path.realpath(path))
    return text.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)


def _allowed(name, rules, provided):
    """Whether a library may come from the system: always those of the C library, others while no package has them."""
    return any(
        fnmatch.fnmatchcase(name, pattern) and (row["always"] or not fnmatch.filter(provided, pattern))
        for row in rules["system"]
        for pattern in row["files"]
    )


def _excused(relative, name, absent):
    return any(
        fnmatch.fnmatchcase(relative, row["object"]) and fnmatch.fnmatchcase(name, row["needs"]) for row in absent
    )


def loaded_after(modules, prefix):
    """Files mapped in a process that has imported the modules, and what went wrong there."""
    command = [sys.executable, "-c", _MAPS, os.path.abspath("maps.json"), *modules]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return {
            "paths": [],
            "modules": [],
            "problems": ["import {}: {}".format(", ".join(modules), *words or ["died"])],
        }
    with open("maps.json", encoding="utf-8") as file:
        return {"paths": json.load(file), "modules": list(modules), "problems": []}


def foreign(mapped, rules, prefix, provided):
    """Mapped libraries that are neither the environment's nor what the system is allowed to give."""
    for path in mapped:
        name = os.path.basename(path)
        if not _prefix.is_inside(path, prefix) and not _allowed(name, rules, provided):
            yield f"{path} is loaded from outside the environment"


def doubled(mapped, once):
    """Runtimes of which more than one file is mapped."""
    for row in once:
        found = {os.path.realpath(path) for path in mapped if _is_one_of(path, row["files"])}
        if len(found) > 1:
            yield "{} {}s in one process: {}".format(len(found), row["title"], ", ".join(sorted(found)))


def _is_one_of(path, patterns):
    return any(fnmatch.fnmatchcase(os.path.basename(path), pattern) for pattern in patterns)


def _matching(mapped, patterns, prefix):
    return sorted(os.path.relpath(path, prefix) for path in mapped if _is_one_of(path, patterns))
