"""Can every Python module that the packages bring be imported, each in a bounded time."""

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from lockgen_checks import _prefix

ORDER = 20
SECONDS = 900
EACH = 60.0
"""Seconds that one import may take where the plan does not say."""
GROUP = 24
"""Modules imported in one process."""
DEPTH = 3
"""Folders without a module of their own that are looked into, as in `google/cloud/storage`."""
CHARACTERS = 1500
PARENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IMPORTER = os.path.join(PARENT, "lockgen_checks", "_importer.py")
_EXTENSION = re.compile(r"(\.(cpython|pypy|cp)[\w-]*|\.abi3)?\.(so|pyd)$")


def check(plan):
    """Import each top-level module of each package; a crash or a hang counts for its module alone."""
    settings = plan["imports"]
    owners = modules_of(_prefix.records(plan["prefix"]), _prefix.site_packages(plan["prefix"]))
    for name in settings["more"]:
        owners.setdefault(name, "named in the spec")
    skipped = {name: reason for name in owners for reason in [_reason(name, settings["skip"])] if reason}
    wanted = sorted(name for name in owners if name not in skipped)
    outcomes = import_all(wanted, settings.get("seconds") or EACH, plan["prefix"])
    problems = ["import {} ({}): {}".format(name, owners[name], outcomes[name]["error"]) for name in wanted
                if outcomes[name]["error"]]  # fmt: skip
    slowest = sorted(((outcomes[name]["seconds"], name) for name in wanted), reverse=True)[:10]
    alone = [name for name in wanted if outcomes[name]["alone"] and not outcomes[name]["error"]]
    return {
        "problems": problems,
        "summary": f"{len(wanted)} modules of {len(set(owners.values()))} packages import",
        "facts": {
            "modules": len(wanted),
            "skipped": skipped,
            "only in a process of its own": alone,
            "slowest": [[name, seconds] for seconds, name in slowest],
        },
    }


def modules_of(records, sites):
    """Importable module → package, from the packages' own lists of files."""
    owners = {}
    for record in records:
        files = [path["_path"] for path in _prefix.paths(record)]
        for site in sites:
            inside = [file[len(site) + 1 :].split("/") for file in files if file.startswith(site + "/")]
            for name in _top_level(inside, DEPTH):
                owners.setdefault(name, record["name"])
    return owners


def _top_level(files, depth):
    """Dotted names of the topmost modules in a list of split paths; folders without `__init__` are looked into."""
    found, folders = set(), {}
    for parts in files:
        if len(parts) == 1:
            stem = _stem(parts[0])
            if stem and stem != "__init__":
                found.add(stem)
        elif parts[0].isidentifier() and parts[0] != "__pycache__":
            folders.setdefault(parts[0], []).append(parts[1:])
    for folder, inside in folders.items():
        if any(len(parts) == 1 and _stem(parts[0]) == "__init__" for parts in inside):
            found.add(folder)
        elif depth > 1:
            found.update(folder + "." + name for name in _top_level(inside, depth - 1))
    return found


def _stem(name):
    """The module that a file is, or None: `_x.cpython-312-x86_64-linux-gnu.so` is `_x`."""
    stem = name[:-3] if name.endswith(".py") else _EXTENSION.sub("", name) if _EXTENSION.search(name) else ""
    return stem if stem.isidentifier() else None


def _reason(name, skip):
    """Why a module is not meant to be imported; None for one that is."""
    for row in skip:
        if fnmatch.fnmatchcase(name, row["module"]):
            return row["reason"]
    return None


def import_all(names, seconds, prefix):
    """Module → `error` (empty for a good one), `seconds`, `alone`; what fails among others is tried alone."""
    workers = min(4, max(1, _processors()))
    size = max(1, min(GROUP, -(-len(names) // workers)))
    groups = [names[start : start + size] for start in range(0, len(names), size)]
    outcomes = {}
    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(lambda group: _together(group, seconds, prefix), groups):
            outcomes.update(found)
        again = [name for name in names if outcomes[name]["error"] and outcomes[name]["shared"]]
        for found in pool.map(lambda name: _together([name], seconds, prefix), again):
            outcomes.update(found)
    for name in again:
        outcomes[name]["alone"] = True
    return outcomes


def _together(names, seconds, prefix):
    """Import modules in one process, and in another one after each that takes the process with it."""
    outcomes, rest = {}, list(names)
    while rest:
        found = _one_process(rest, seconds, prefix, shared=len(names) > 1)
        outcomes.update(found)
        rest = [name for name in rest if name not in outcomes]
    return outcomes


def _one_process(names, seconds, prefix, shared):
    """What one process says of the modules that it came to; at least the first is in the answer."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as errors:
        command = [sys.executable, IMPORTER, prefix, *names]
        child = subprocess.Popen(
            command, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            start_new_session=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
        clock = _Clock(child, seconds)
        outcomes, current = {}, names[0]
        for line in child.stdout:
            kind, _, rest = line.rstrip("\n").partition("\t")
            if kind == "start":
                current = rest
                clock.restart()
            elif kind == "done":
                took, _, error = rest.partition("\t")
                outcomes[current] = _outcome(error, float(took), shared)
        code = child.wait()
        clock.stop()
        if current not in outcomes:
            errors.seek(0)
            words = errors.read().decode("utf-8", "replace")[-CHARACTERS:]
            outcomes[current] = _outcome(_ending(clock, code, seconds, words), clock.seconds(), shared)
        return outcomes


def _ending(clock, code, seconds, words):
    from main import died

    last = words.strip().splitlines()[-1:] if code and code > 0 else []
    what = f"no end within {seconds:g} s" if clock.expired else f"the process {died(code)}"
    return ": ".join([what, *last])


def _outcome(error, seconds, shared):
    return {"error": error, "seconds": round(seconds, 2), "shared": shared, "alone": False}


def _processors():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Clock:
    """Kills a process group whose current import takes too long."""

    def __init__(self, child, limit):
        self.child, self.limit, self.expired = child, limit, False
        self.begun = time.monotonic()
        self.timer = None
        self.restart()

    def restart(self):
        self.stop()
        self.begun = time.monotonic()
        self.timer = threading.Timer(self.limit, self._expire)
        self.timer.daemon = True
        self.timer.start()

    def seconds(self):
        return time.monotonic() - self.begun

    def stop(self):
        if self.timer:
            self.timer.cancel()

    def _expire(self):
        self.expired = True
        try:
            os.killpg(self.child.pid, 9)
        except OSError:
            self.child.kill()
