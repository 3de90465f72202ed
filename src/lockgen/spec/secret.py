"""Credentials in URLs and in names of channels: found, and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator

Spans = tuple[tuple[int, int], ...]
MASK = "***"
_URL = re.compile(r"//\S+")
_NAME = re.compile(r"(?<![^\s'\"\[\]{},=])(?![/.~])[^\s'\"\[\]{},=]+")
"""A word that may be a channel's name; a path is none."""
_SLASH = "(?:/|%2[Ff])"
_TOKEN_IN_URL = re.compile(rf"{_SLASH}t{_SLASH}((?:(?!%2[Ff])[^/\s'\"])+)")
_TOKEN_IN_NAME = re.compile(rf"(?:^|{_SLASH})t{_SLASH}((?:(?!%2[Ff])[^/:])+)(?={_SLASH})")
_HIDDEN = re.compile(r"(?<=//)\S+(?=@)|(?<=\?)[^\s'\"]+")
# A password with a space in it, so that the URL ends too early: from a user and a colon, no port, up to the `@`.
_BROKEN = re.compile(r"(?<=//)[^/\s@]+:(?![0-9]+(?:[/\s'\"\],]|$))[^\s@]*\s[^@'\"]*(?=@)")
_CREDENTIAL = re.compile(
    r"(?<=//)[^/\s]*@|(?<=//)[^/\s]*:\S*@|[?&][^=&\s]*(?:token|key|pass|secret|sig|auth|cred)[^=&\s]*=",
    re.IGNORECASE,
)


def has_credential(text: str, *, names: bool = True) -> bool:
    """Whether a URL in the text carries a user, a token or a signature, or a channel's name carries a token."""
    urls = any(_CREDENTIAL.search(text, url.start(), url.end()) for url in _URL.finditer(text))
    return urls or any(_tokens(text, names=names))


def _tokens(text: str, *, names: bool = True) -> Iterator[tuple[int, int]]:
    """Where tokens stand: `https://host/t/TOKEN/channel`, and as a channel's name `t/TOKEN/channel`; in no path."""
    for url in _URL.finditer(text):
        if text.endswith("file:", 0, url.start()):
            continue
        yield from (found.span(1) for found in _TOKEN_IN_URL.finditer(text, url.start(), url.end()))
    for name in _NAME.finditer(text) if names else ():
        if "//" not in name.group():
            found_in = _TOKEN_IN_NAME.finditer(name.group())
            yield from ((name.start() + found.start(1), name.start() + found.end(1)) for found in found_in)


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
    spans: list[tuple[int, int]] = []
    for first, last in sorted([*broken, *whole, *_tokens(text)]):
        if spans and first < spans[-1][1]:
            first, last = spans[-1][0], max(last, spans.pop()[1])
        spans.append((first, last))
    return tuple(spans)


def moved(position: int, spans: Spans) -> int:
    """Where a position of the text lies in the masked text."""
    shift = 0
    for first, last in spans:
        if position >= last:
            shift += last - first - len(MASK)
        elif position > first:
            shift += max(0, position - first - len(MASK))
    return position - shift
