"""Old ways of asking for CUDA, understood and rewritten to the keys that say it, each with a note."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from lockgen import matchspec
from lockgen.errors import Problem, Where
from lockgen.spec.source import Entry, Node, shown

_LOCAL_VERSION = re.compile(r"(?:==?)?(?P<version>[0-9.]+)\+(?:cu(?P<cuda>[0-9]{3,4})|(?P<cpu>cpu))")
_CUDA_PACKAGES = ("pytorch-cuda", "cudatoolkit", "cuda-version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that was read otherwise than it was written, or left out: said once, never silently."""

    message: str
    where: Where | None = None


@dataclass(slots=True)
class Rewriter:
    """Rewrites the keys of a spec and of its overlays, collecting notes and contradictions."""

    notes: list[Note] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def spec(self, root: Node) -> Node:
        """The same spec in today's keys."""
        root = self._settings(root)
        for group in ("platform", "variants"):
            overlays = root.get(group)
            if overlays is not None:
                done = {k: replace(e, node=self._settings(e.node)) for k, e in overlays.entries().items()}
                entry = replace(root.entries()[group], node=overlays.with_entries(done) if done else overlays)
                root = root.with_entries({**root.entries(), group: entry})
        return root

    def _settings(self, node: Node) -> Node:
        if not node.entries():
            return node
        return self._dependencies(self._local_version(self._alias(node)))

    def _alias(self, node: Node) -> Node:
        """`pytorch-cuda` is another name of `cuda`."""
        alias = node.entries().get("pytorch-cuda")
        if alias is None or alias.node.value is None:
            return node
        return self._with_cuda(node.without("pytorch-cuda"), alias)

    def _local_version(self, node: Node) -> Node:
        """`pytorch: 2.9.0+cu121` is a wheel's way to say version and CUDA."""
        entry = node.entries().get("pytorch")
        text = entry.node.value if entry else None
        match = _LOCAL_VERSION.fullmatch(text) if isinstance(text, str) else None
        if not entry or not match or not isinstance(text, str):
            return node
        digits = match["cuda"] or ""
        cuda = f"{digits[:-1]}.{digits[-1]}" if digits else "none"
        self.notes.append(
            Note(
                message=f"`{shown(text)}` is how wheels are named: read as pytorch {match['version']} and cuda {cuda}",
                where=entry.node.where,
            )
        )
        version = Entry(entry.where, replace(entry.node, value=match["version"]))
        node = node.with_entries({**node.entries(), "pytorch": version})
        return self._with_cuda(node, Entry(entry.where, replace(entry.node, value=cuda)))

    def _dependencies(self, node: Node) -> Node:
        """`pytorch-cuda=12.1` among the dependencies is what the key `cuda` is for."""
        listed = node.get("dependencies")
        if listed is None or not isinstance(listed.value, tuple):
            return node
        kept: list[Node] = []
        for item in listed.value:
            cuda = _cuda_dependency(item)
            if cuda is None:
                kept.append(item)
                continue
            self.notes.append(
                Note(
                    message=f"`{shown(str(item.value))}` in `dependencies` is read as `cuda: {cuda}`", where=item.where
                )
            )
            node = self._with_cuda(node, Entry(item.where, replace(item, value=cuda)))
        entry = replace(node.entries()["dependencies"], node=replace(listed, value=tuple(kept)))
        return node.with_entries({**node.entries(), "dependencies": entry})

    def _with_cuda(self, node: Node, entry: Entry) -> Node:
        mine = node.entries().get("cuda")
        if mine is None:
            return node.with_entries({**node.entries(), "cuda": entry})
        said = mine.node.get("version") or mine.node
        if _number(said) != _number(entry.node):
            self.problems.append(
                Problem(
                    message=f"two answers to which CUDA: {_answer(entry.node)} and {_answer(said)}",
                    where=entry.node.where,
                    hint=f"line {said.where.line} says it already: keep one of them",
                )
            )
        return node


def _number(node: Node) -> object:
    """What two answers have in common when they mean the same: `12.1` and `12.1.0`."""
    text = node.value
    if isinstance(text, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)*", text):
        return ".".join([*text.split("."), "0"][:2])
    return text.lower() if isinstance(text, str) else node.plain()


def _answer(node: Node) -> str:
    return f"`{shown(node.value)}`" if isinstance(node.value, str) else "a value that is no version"


def _cuda_dependency(item: Node) -> str | None:
    """The CUDA version of a dependency such as `pytorch-cuda=12.1`; None for any other."""
    text = item.value
    if not isinstance(text, str) or matchspec.name_of(text) not in _CUDA_PACKAGES:
        return None
    match = re.fullmatch(r"[\w-]+\s*={0,2}\s*([0-9]+\.[0-9]+)(?:\.\*)?", text.strip())
    return match[1] if match else None
