"""The solver's tree of conflicts in a form that fits a screen. Pure text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lockgen import matchspec

_BRANCH = re.compile(r"^(?P<indent>(?:[│ ] {2})*)(?:[├└]─ )(?P<text>.*)$")
_ONE_BUILD = re.compile(r"^(?P<name>[\w.-]+) (?P<version>[\w.!+]+)(?P<rest>, which .*| would require.*)$")
MOST_LINES = 24
LAST_LINES = 8
"""Of those, how many are the tree's last: what the spec itself forbids stands there."""
MOST_ALIKE = 3


@dataclass(slots=True)
class Branch:
    """One line of the tree and what hangs below it."""

    text: str
    branches: list[Branch] = field(default_factory=list)

    def lines(self, indent: str = "") -> Iterator[str]:
        """The branches below, drawn."""
        for branch in self.branches:
            last = branch is self.branches[-1]
            yield f"{indent}{'└─' if last else '├─'} {branch.text}"
            yield from branch.lines(indent + ("   " if last else "│  "))


def readable(text: str) -> str:
    """
    The solver's words with its repetitions folded.

    Builds that fail for one reason become one line: `python 3.13.0 … 3.13.15 (33 builds), which conflict…`. At most
    MOST_LINES lines, from both ends; the first line, which says nothing but that it failed, is left out.
    """
    root = _tree(text)
    _fold(root)
    lines = list(root.lines()) or [root.text]
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES
        left_out = f"… {more} more line{'s' if more > 1 else ''} …"
        lines = [*lines[: MOST_LINES - LAST_LINES], left_out, *lines[-LAST_LINES:]]
    return "\n".join(lines)


def _tree(text: str) -> Branch:
    first, *rest = text.strip().splitlines() or [""]
    root = Branch(first.removeprefix("Cannot solve the request because of: "))
    if rest and "The following packages are incompatible" not in first:
        root = Branch("", [root])
        open_branches = [root, root.branches[0]]
    else:
        open_branches = [root]
    for line in rest:
        match = _BRANCH.match(line)
        if not match:
            continue
        depth = len(match["indent"]) // 3 + (len(root.branches) > 0 and root.text == "")
        branch = Branch(match["text"])
        del open_branches[depth + 1 :]
        open_branches[-1].branches.append(branch)
        open_branches.append(branch)
    return root


def _fold(branch: Branch) -> None:
    """Join neighbours and equals below a branch, deepest first."""
    for below in branch.branches:
        _fold(below)
    groups: dict[tuple[str, ...], list[tuple[str, Branch]]] = {}
    for below in branch.branches:
        match = _ONE_BUILD.match(below.text)
        shape = (match["name"], match["rest"]) if match else ("", below.text)
        groups.setdefault((*shape, *below.lines()), []).append((match["version"] if match else "", below))
    branch.branches = _thinned([_joined(members) for members in groups.values()])


def _thinned(branches: list[Branch]) -> list[Branch]:
    """At most MOST_ALIKE branches about one package that say the same; the number of others stands after them."""
    kept: list[Branch] = []
    alike: dict[tuple[str, str], list[Branch]] = {}
    for branch in branches:
        match = _ONE_BUILD.match(branch.text)
        same = alike.setdefault((match["name"], match["rest"]), []) if match else []
        same.append(branch)
        if len(same) <= MOST_ALIKE:
            kept.append(branch)
        elif len(same) == MOST_ALIKE + 1:
            kept.append(Branch(""))
            same.append(kept[-1])
    for (name, _), same in alike.items():
        if len(same) > MOST_ALIKE:
            more = len(same) - MOST_ALIKE - 1
            same[MOST_ALIKE + 1].text = f"… {more} more of {name}, for like reasons"
    return kept


def _joined(members: list[tuple[str, Branch]]) -> Branch:
    branch = members[0][1]
    match = _ONE_BUILD.match(branch.text)
    if len(members) == 1 or not match:
        return branch
    versions = sorted({version for version, _ in members}, key=matchspec.version_key)
    span = versions[0] if len(versions) == 1 else f"{versions[0]} … {versions[-1]}"
    rest = match["rest"].replace("which conflicts", "which conflict").replace("would require", "all require")
    return Branch(f"{match['name']} {span} ({len(members)} builds){rest}", branch.branches)
