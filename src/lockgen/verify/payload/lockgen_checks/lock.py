"""Is what is installed what the lock lists: names, versions, builds; all files there, nothing foreign."""

import os

from lockgen_checks import _prefix

ORDER = 10
SECONDS = 120
LARGEST = 40
SHOWN = 20


def check(plan):
    """Compare the prefix's records and files with the plan's packages."""
    prefix = plan["prefix"]
    records = _prefix.records(prefix)
    missing, files = _missing(prefix, records)
    foreign = _foreign(prefix, records)
    problems = list(_differences(plan["packages"], records))
    problems += _listed("file missing", missing)
    problems += _listed("not of any package", foreign)
    sizes = sorted(((_size(prefix, record), record["name"]) for record in records), reverse=True)
    total = sum(size for size, _ in sizes)
    return {
        "problems": problems,
        "summary": f"{len(records)} packages, {files:,} files, all as locked",
        "facts": {
            "packages": len(records),
            "files": files,
            "bytes": total,
            "largest": [[name, size] for size, name in sizes[:LARGEST]],
        },
    }


def _differences(locked, records):
    installed = {record["name"]: record for record in records}
    wanted = {package["name"]: package for package in locked}
    for name in sorted(wanted.keys() | installed.keys()):
        if name not in installed:
            yield "{} {} is in the lock and not installed".format(name, wanted[name]["version"])
        elif name not in wanted:
            yield "{} {} is installed and not in the lock".format(name, installed[name]["version"])
        elif _identity(wanted[name]) != _identity(installed[name]):
            yield f"{name}: locked {_identity(wanted[name])}, installed {_identity(installed[name])}"


def _identity(package):
    return "{} {}".format(package["version"], package["build"])


def _missing(prefix, records):
    """Paths that are recorded and not there, with the package; and how many are recorded."""
    missing, count = [], 0
    for record in records:
        for path in _prefix.paths(record):
            count += 1
            if not os.path.lexists(os.path.join(prefix, path["_path"])):
                missing.append("{} ({})".format(path["_path"], record["name"]))
    return missing, count


def _foreign(prefix, records):
    """Files in the folders for Python packages that no record has; byte code is anybody's."""
    known = {path["_path"] for record in records for path in _prefix.paths(record)}
    found = []
    for site in _prefix.site_packages(prefix):
        for folder, folders, names in os.walk(os.path.join(prefix, site)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            relative = os.path.relpath(folder, prefix).replace(os.sep, "/")
            for name in sorted(names):
                if not name.endswith(".pyc") and relative + "/" + name not in known:
                    found.append(relative + "/" + name)
    return found


def _listed(what, found):
    for each in found[:SHOWN]:
        yield f"{what}: {each}"
    if len(found) > SHOWN:
        yield f"{what}: {len(found) - SHOWN:,} more"


def _size(prefix, record):
    """Bytes that a package takes on disk."""
    total = 0
    for path in _prefix.paths(record):
        size = path.get("size_in_bytes")
        if size is None:
            try:
                size = os.lstat(os.path.join(prefix, path["_path"])).st_size
            except OSError:
                size = 0
        total += size
    return total
