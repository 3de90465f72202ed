"""The lock formats there are, found by listing their folder, and the one place through which all of them write."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from lockgen.errors import LockError, Problem, UsageError, error_from
from lockgen.lock import codecs as folder
from lockgen.lock.codec import Codec
from lockgen.lock.model import Lock
from lockgen.spec.secret import masked

_WORD = re.compile(r"[^\s'\"\[\],]+")


@cache
def codecs() -> Mapping[str, Codec]:
    """
    Name → format, sorted by name.

    Each module of the folder holds one `CODEC` or several `CODECS`; modules whose name starts with `_` hold none.
    """
    found: dict[str, Codec] = {}
    for info in pkgutil.iter_modules(folder.__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{folder.__name__}.{info.name}")
        own = getattr(module, "CODECS", None) or (module.CODEC,)
        for each in own:
            if not isinstance(each, Codec) or each.name in found:
                raise TypeError(f"{module.__name__} must define formats with names of their own, not {each!r}")
            found[each.name] = each
    return dict(sorted(found.items()))


def codec(name: str) -> Codec:
    """The format of that name."""
    if name not in codecs():
        known = ", ".join(f"`{each}`" for each in codecs())
        raise UsageError(Problem(message=f"unknown lock format: `{name}`", hint=f"the formats are {known}"))
    return codecs()[name]


def dump_all(locks: tuple[Lock, ...], names: Iterable[str]) -> dict[str, str]:
    """
    File name → text, for all locks of one spec in each format that is named.

    Raises:
        LockError: a URL holds a credential; nothing is written then.
        UsageError: a format is unknown, or two formats write the same file.
    """
    refuse_credentials(locks)
    files: dict[str, str] = {}
    writers: dict[str, str] = {}
    for name in dict.fromkeys(names):
        for filename, text in codec(name).dump(locks).items():
            if filename in files:
                message = f"formats `{writers[filename]}` and `{name}` both write `{filename}`"
                raise UsageError(Problem(message=message, hint="ask for one of them"))
            files[filename], writers[filename] = text, name
    return files


def refuse_credentials(locks: Iterable[Lock]) -> None:
    """Raise LockError where a lock holds a token, a user or a query; the message shows the word it is in masked."""
    texts = dict.fromkeys(text for lock in locks for text in _texts(lock))
    found = dict.fromkeys(shown for text in texts if masked(text) != text for shown in _masked_words(text))
    hint = "leave it out of the URL: the credential is taken from the keyring, netrc or rattler's own store"
    problems = [Problem(message=f"`{each}` holds a credential, which is never written", hint=hint) for each in found]
    error_from(LockError, problems)


def _masked_words(text: str) -> list[str]:
    """The words of a text that hold a credential, masked; the whole text where it lies across words."""
    return [shown for word in _WORD.findall(text) if (shown := masked(word)) != word] or [masked(text)]


def _texts(lock: Lock) -> Iterator[str]:
    """Everything in a lock that may hold a URL; of a package's URL what its channel does not have already."""
    for answer in lock.platforms:
        yield from answer.request.channels
        for requirement in (*answer.request.requirements, *answer.request.constraints):
            yield from (requirement.spec, requirement.because)
        for package in answer.packages:
            yield package.channel
            inside = package.url.startswith(f"{package.channel}/")
            yield f"/{package.url.removeprefix(package.channel)}" if inside else package.url
