"""What YAML's parser complains about, in words for people who do not write parsers."""

from __future__ import annotations

import re

import yaml

_QUOTES = "put the value in quotes"
_COLUMNS = "the keys of one mapping, and the items of one list, start in the same column"
_COLON = f"put a value that holds `: ` in quotes; {_COLUMNS}"
_WHOLE = f"quotes go around a whole value; {_COLUMNS}"
# The parser's context, its problem, then our message and hint; `{0}` is what the problem's first group caught.
_WORDS = (
    ("", r"found character '\\t' .*", "a tab", "YAML takes spaces only"),
    ("", r"found character ['\"]`['\"] .*", "a value cannot start with a backtick", _QUOTES),
    ("", r"found character ['\"](.)['\"] .*", "a value cannot start with `{0}`", _QUOTES),
    ("", r"found undefined alias '(.*)'", "the alias `*{0}` has no anchor `&{0}`", f"{_QUOTES} if it is text"),
    ("scanning an alias", r"expected .*", "a value cannot start with `*`, which names an alias", _QUOTES),
    ("scanning an anchor", r"expected .*", "a value cannot start with `&`, which sets an anchor", _QUOTES),
    ("expected a single document", r".*", "a second document", "a spec is one document: take out the line `---`"),
    ("block scalar", r"expected .*", "a value cannot start with `>` or `|`", f'{_QUOTES}: `">=2.8,<2.10"`'),
    ("flow sequence", r".*'<stream end>'", "`[` is never closed", None),
    ("flow mapping", r".*'<stream end>'", "`{{` is never closed", None),
    ("flow sequence", r"expected .*", "a `,` or the closing `]` is missing here", None),
    ("flow mapping", r"expected .*", "a `,` or the closing `}}` is missing here", None),
    ("quoted scalar", r"found unexpected .*", "the quote is never closed", None),
    (
        "double-quoted scalar",
        r"found unknown escape character ['\"](.)['\"]",
        "unknown escape `\\{0}`",
        "write `\\\\`, or use single quotes",
    ),
    (
        "",
        r"expected the node content, but found '<stream end>'",
        "the text ends where a value is expected",
        "a bracket without its pair?",
    ),
    ("", r"expected the node content, but found '(.*)'", "expected a value, found `{0}`", None),
    ("", r"could not find expected ':'", "expected `key: value`", "a key is followed by a colon and a space"),
    (
        "",
        r"mapping values are not allowed here",
        "a `:` where no key can stand",
        _COLON,
    ),
    ("", r"(?:sequence entries|mapping keys) are not allowed here", "an item or a key where none can stand", _COLUMNS),
    (
        "block mapping",
        r"expected <block end>.*",
        "this does not belong to the lines above",
        _WHOLE,
    ),
    ("block collection", r"expected <block end>.*", "this does not belong to the list above", _COLUMNS),
)
_AT_CONTEXT = ("is never closed", "expected `key: value`", "names an alias", "sets an anchor")


def words(error: yaml.MarkedYAMLError) -> tuple[str, str | None, yaml.Mark | None]:
    """Message, hint and place of a fault of the text."""
    context, problem = str(error.context or ""), str(error.problem or "the text cannot be read")
    for known_context, known_problem, message, hint in _WORDS:
        found = re.fullmatch(known_problem, problem, re.DOTALL)
        if found and known_context in context:
            message = f"not YAML: {message.format(*found.groups())}"
            at_context = message.endswith(_AT_CONTEXT) and error.context_mark
            return message, hint, error.context_mark if at_context else error.problem_mark
    plain = f"{context}: {problem}" if context else problem
    return f"not YAML: {plain}".replace("\n", " "), None, error.problem_mark or error.context_mark
