"""
Run the checks of a plan and write the evidence: `python main.py plan.json evidence.json`.

Plain Python for the interpreter of the environment that is proved: standard library only, Python 3.9 or newer, no
import of lockgen. Each check runs in a process of its own, with a time limit, and cannot take the others down.
"""

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
GRACE = 5.0
"""Seconds between asking a process to end and killing it."""
TAIL = 4000
"""Characters of a check's output that are kept when it fails."""


def check_names():
    """The checks there are: the modules of the folder beside this file, in the order in which they run."""
    folder = os.path.join(HERE, "lockgen_checks")
    names = [name[:-3] for name in os.listdir(folder) if name.endswith(".py") and not name.startswith("_")]
    return sorted(names, key=lambda name: (module_of(name).ORDER, name))


def module_of(name):
    """A check's module; it holds `ORDER`, `SECONDS` (its time limit) and `check(plan)`."""
    return importlib.import_module("lockgen_checks." + name)


def run_one(name, plan):
    """A check's result as a dictionary; whatever it raises is a problem of the check, with the traceback."""
    started = time.monotonic()
    try:
        found = module_of(name).check(plan)
    except BaseException as error:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        found = {"problems": [f"{type(error).__name__}: {error}"], "output": "".join(lines)[-TAIL:]}
    return finished(name, found, time.monotonic() - started)


def finished(name, found, seconds):
    """What a check found, with its status: problems make it fail, a reason to skip makes it skipped."""
    problems = [str(each) for each in found.get("problems", ())]
    skipped = found.get("skipped")
    return {
        "name": name,
        "status": "failed" if problems else "skipped" if skipped else "passed",
        "seconds": round(seconds, 2),
        "summary": problems[0] if problems else skipped or found.get("summary", ""),
        "problems": problems,
        "notes": [str(each) for each in found.get("notes", ())],
        "facts": found.get("facts", {}),
        "output": found.get("output", ""),
    }


def run_in_process(name, plan_file, plan, scratch):
    """A check's result from a process of its own; one that hangs or dies is a failed check."""
    limit = plan.get("limits", {}).get(name) or module_of(name).SECONDS
    folder = os.path.join(scratch, name)
    os.makedirs(folder)
    answer, log = os.path.join(folder, "result.json"), os.path.join(scratch, name + ".log")
    command = [sys.executable, os.path.abspath(__file__), plan_file, answer, "--check", name]
    started = time.monotonic()
    with open(log, "wb") as output:
        child = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_tree(child)
    seconds = time.monotonic() - started
    if code == 0:
        with open(answer, encoding="utf-8") as file:
            result = json.load(file)
        if result["status"] == "failed" and not result["output"]:
            result["output"] = tail(log)
        return dict(result, seconds=round(seconds, 2))
    what = f"no answer within {limit:g} s" if code is None else died(code)
    return finished(name, {"problems": [what], "output": tail(log)}, seconds)


def died(code):
    """How a process ended, in words: `killed by SIGSEGV`, `ended with exit code 3`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def tail(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()[-TAIL:]


def adopt_orphans():
    """On Linux, processes whose parent has ended become this process's own, so that none of them can be left behind."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def end_tree(child):
    """End a check's process and everything that it started."""
    deadline = time.monotonic() + GRACE
    for number in (signal.SIGTERM, signal.SIGKILL):
        send(child, number)
        while descendants(os.getpid()) and time.monotonic() < deadline:
            child.poll()
            reap()
            time.sleep(0.02)
        deadline = time.monotonic() + GRACE
        if not descendants(os.getpid()):
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE)
    reap()


def send(child, number):
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
    for each in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, number)


def reap():
    """Collect adopted processes that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants(root):
    """Running processes below one, from /proc; empty where there is none."""
    parents = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry)] = int(parent)
    found, new = set(), {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def machine():
    """Facts about this machine that bear on the results; no host name, no user."""
    libc = " ".join(platform.libc_ver()).strip()
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "processor": processor(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": memory(),
        "libc": libc,
        "python": platform.python_version(),
    }


def processor():
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def memory():
    """Bytes of main memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def clean_environment(scratch):
    """The environment for the checks: nothing of the user's own Python, no model hub, byte code kept out of the way."""
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]
    os.environ.update(PYTHONNOUSERSITE="1", PYTHONUTF8="1", TOKENIZERS_PARALLELISM="false", LC_ALL="C.UTF-8")
    os.environ["PATH"] = os.path.join(sys.prefix, "bin") + os.pathsep + os.environ.get("PATH", os.defpath)
    os.environ.update(CONDA_PREFIX=sys.prefix, HF_HUB_OFFLINE="1")
    if is_compiled():
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    else:
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(scratch, "bytecode")


def is_compiled():
    """Whether most of the installed packages have their byte code beside them."""
    import sysconfig

    site = sysconfig.get_path("purelib")
    names = os.listdir(site) if os.path.isdir(site) else []
    packages = [name for name in names if os.path.isfile(os.path.join(site, name, "__init__.py"))]
    done = [name for name in packages if os.path.isdir(os.path.join(site, name, "__pycache__"))]
    return len(done) * 2 > len(packages)


def write(path, value):
    """Write JSON whole or not at all."""
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(temporary, path)


def run_all(plan_file, evidence_file):
    """Run the plan's checks one after the other; the evidence is written anew after each."""
    with open(plan_file, encoding="utf-8") as file:
        plan = json.load(file)
    scratch = tempfile.mkdtemp(prefix="lockgen-verify-")
    results = []
    try:
        clean_environment(scratch)
        for name in plan["checks"]:
            say(f"{name} …")
            results.append(run_in_process(name, plan_file, plan, scratch))
            say("{name}\t{status}\t{seconds:.1f} s\t{summary}".format(**results[-1]))
            write(evidence_file, evidence(plan, results))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if any(result["status"] == "failed" for result in results) else 0


def evidence(plan, results):
    named = {key: plan.get(key) for key in ("environment", "variant", "platform", "fingerprint", "prefix")}
    if plan.get("image"):
        named["image"] = plan["image"]
    return dict(named, format=1, machine=machine(), checks=results)


def say(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def stop(_number, _frame):
    """Asked to end: leave through the `finally` blocks, which end the running check."""
    sys.exit(143)


def main():
    parser = argparse.ArgumentParser(description="Run the checks of a plan and write the evidence.")
    parser.add_argument("plan")
    parser.add_argument("evidence")
    parser.add_argument("--check", help="run this one alone, in this process")
    arguments = parser.parse_args()
    sys.path.insert(0, HERE)
    sys.dont_write_bytecode = sys.dont_write_bytecode or arguments.check is None
    if arguments.check is None:
        adopt_orphans()
        signal.signal(signal.SIGTERM, stop)
        return run_all(os.path.abspath(arguments.plan), os.path.abspath(arguments.evidence))
    with open(arguments.plan, encoding="utf-8") as file:
        plan = json.load(file)
    write(arguments.evidence, run_one(arguments.check, plan))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a library's threads or exit handlers do not change the answer
