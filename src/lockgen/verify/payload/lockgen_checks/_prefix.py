"""What is installed in a conda prefix, from its own records."""

import json
import os
import sys
import sysconfig


def records(prefix):
    """The records of `conda-meta`, sorted by file name."""
    folder = os.path.join(prefix, "conda-meta")
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.append(json.load(file))
    return found


def paths(record):
    """What a record says of each file: `_path`, and perhaps `size_in_bytes`, `sha256_in_prefix`, `path_type`."""
    data = (record.get("paths_data") or {}).get("paths")
    return data or [{"_path": path} for path in record.get("files", ())]


def site_packages(prefix):
    """The folders for Python packages of the running interpreter, relative to the prefix, with `/`."""
    found = []
    for key in ("purelib", "platlib"):
        relative = os.path.relpath(sysconfig.get_path(key), prefix).replace(os.sep, "/")
        if relative not in found and not relative.startswith(".."):
            found.append(relative)
    return found


def is_inside(path, prefix):
    """Whether a path, links followed, lies in the environment; a venv has its standard library in its base."""
    real = os.path.realpath(path)
    return any(real.startswith(os.path.realpath(root).rstrip(os.sep) + os.sep) for root in (prefix, sys.base_prefix))
