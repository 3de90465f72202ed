"""Credentials inside URLs: found, and never shown."""

from __future__ import annotations

import re

Spans = tuple[tuple[int, int], ...]
MASK = "***"
_URL = re.compile(r"//\S+")
_HIDDEN = re.compile(r"(?<=//)\S+(?=@)|(?<=/t/)[^/\s'\"]+|(?<=\?)[^\s'\"]+")
# A password with a space in it, so that the URL ends too early: from a user and a colon, no port, up to the `@`.
_BROKEN = re.compile(r"(?<=//)[^/\s@]+:(?![0-9]+(?:[/\s'\"\],]|$))[^\s@]*\s[^@'\"]*(?=@)")
_CREDENTIAL = re.compile(
    r"(?<=//)[^/\s]*@|(?<=//)[^/\s]*:\S*@|(?<=/t/)[^/\s'\"]+|[?&][^=&\s]*(?:token|key|pass|secret|sig|auth|cred)[^=&\s]*=",
    re.IGNORECASE,
)


def has_credential(text: str) -> bool:
    """Whether a URL in the text carries a user, a token or a signature."""
    return any(_CREDENTIAL.search(text, url.start(), url.end()) for url in _URL.finditer(text))


def masked(text: str) -> str:
    """The text with everything in its URLs that may be a credential replaced by `***`."""
    parts, done = [], 0
    for first, last in hidden(text):
        parts += [text[done:first], MASK]
        done = last
    return "".join([*parts, text[done:]])


def hidden(text: str) -> Spans:
    """Where in the text `masked` puts its `***`."""
    broken = [found.span() for found in _BROKEN.finditer(text)]
    whole = [found.span() for url in _URL.finditer(text) for found in _HIDDEN.finditer(text, url.start(), url.end())]
    apart = [one for one in whole if not any(one[0] < last and first < one[1] for first, last in broken)]
    return tuple(sorted([*broken, *apart]))


def moved(position: int, spans: Spans) -> int:
    """Where a position of the text lies in the masked text."""
    shift = 0
    for first, last in spans:
        if position >= last:
            shift += last - first - len(MASK)
        elif position > first:
            shift += max(0, position - first - len(MASK))
    return position - shift
