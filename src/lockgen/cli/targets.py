"""Locks of any format, as commands name them."""

from __future__ import annotations

from pathlib import Path

from lockgen.cli.files import find_locks
from lockgen.errors import LockError, Problem
from lockgen.install.target import parts_of_file, parts_of_locks
from lockgen.lock.foreign import Part


def find_parts(named: Path | None, platform: str) -> tuple[tuple[Part, ...], str]:
    """
    What a lock holds, and what to call it: a file of any format, a folder, a spec, or the only lock here.

    Raises:
        LockError: there is none, or it cannot be read.
    """
    if named is None or named.is_dir():
        return parts_of_locks(find_locks(named)), str(named or "the lock here")
    try:
        text = named.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LockError(Problem(message=f"no such file: {named}")) from None
    except UnicodeDecodeError:
        raise LockError(Problem(message=f"{named} is not UTF-8")) from None
    except OSError as error:
        raise LockError(Problem(message=f"cannot read {named}: {error.strerror}")) from None
    found = parts_of_file(named, text, platform)
    return (parts_of_locks(find_locks(named)) if found is None else found), str(named)
