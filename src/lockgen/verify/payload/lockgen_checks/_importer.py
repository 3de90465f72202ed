"""Import the modules named on the command line, and say of each on stdout how it went: run as a program."""

import importlib
import os
import sys
import time


def main():
    """Lines `start NAME` and `done SECONDS ERROR`, with tabs between; the modules' own output goes to stderr."""
    prefix, names = os.path.realpath(sys.argv[1]), sys.argv[2:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path[0] = os.getcwd()
    sys.argv[1:] = []
    for name in names:
        answers.write(f"start\t{name}\n")
        answers.flush()
        started = time.monotonic()
        error = attempt(name, prefix)
        answers.write(f"done\t{time.monotonic() - started:.3f}\t{error}\n")
        answers.flush()
    os._exit(0)


def attempt(name, prefix):
    """What is wrong with a module, in one line; empty where nothing is."""
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".strip()
        return text.replace("\\", "/").replace("\t", " ").replace("\n", " ")[:600]
    file = getattr(module, "__file__", None)
    if file and not os.path.realpath(file).startswith(prefix + os.sep):
        return f"found outside the environment: {file}"
    return ""


if __name__ == "__main__":
    main()
