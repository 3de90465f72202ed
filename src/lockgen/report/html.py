"""Evidence as one page that needs no network: the checks, the loss curve, the largest packages and libraries."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from lockgen.report import losses, text
from lockgen.report.evidence import trained_with
from lockgen.report.treemap import treemap
from lockgen.verify.evidence import CheckResult, Evidence

WIDTH = 960
PLOT = {"left": 46, "right": 12, "top": 12, "bottom": 30, "height": 270}
MAP_HEIGHT = 330
BOXES = 24
BARS = 12
LETTER = 7.4
"""About the width of a letter in the pictures."""
_DRAWN = frozenset({"losses", "largest"})


def page(evidence: Evidence) -> str:
    """The whole page; the same evidence gives the same bytes."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lockgen", "report/templates"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    bert, lock, libraries = (evidence.check(name) for name in ("bert", "lock", "libraries"))
    return environment.get_template("evidence.html.j2").render(
        evidence=evidence,
        machine=_machine(evidence.machine),
        tiles=_tiles(evidence),
        curve=_curve(bert.facts) if bert and bert.facts.get("losses") else None,
        packages=_map(lock.facts) if lock and lock.facts.get("largest") else None,
        libraries=_bars(libraries.facts) if libraries and libraries.facts.get("largest") else None,
        facts={check.name: _facts(check) for check in evidence.checks},
        width=WIDTH,
    )


def _machine(machine: Mapping[str, Any]) -> str:
    memory = machine.get("memory")
    parts = (
        machine.get("processor"),
        f"{machine.get('processors')} processors" if machine.get("processors") else None,
        text.size(memory) + " memory" if memory else None,
        machine.get("libc"),
        f"Python {machine.get('python')}" if machine.get("python") else None,
    )
    return " · ".join(part for part in parts if part)


def _tiles(evidence: Evidence) -> list[tuple[str, str, str]]:
    """Title, figure and words of the few numbers that matter most."""
    found = []
    lock, imports, libraries, bert = (evidence.check(name) for name in ("lock", "imports", "libraries", "bert"))
    if bert and bert.facts.get("losses"):
        facts = bert.facts
        found.append((
            "Held-out accuracy", f"{facts['accuracy_after']:.0%}",
            f"{facts['accuracy_before']:.0%} before, chance {facts['chance']:.0%}",
        ))  # fmt: skip
        found.append(("Loss", f"{facts['last']:.3f}", f"{facts['first']:.3f} in the first steps"))
        speed = f"{facts['tokens_per_second']:,}"
        found.append(
            ("Tokens a second", speed, f"{facts['steps']} steps in {facts['seconds']:.0f} s, {facts['dtype']}")
        )
    if imports and imports.facts:
        found.append(("Modules imported", f"{imports.facts['modules']:,}", f"{len(imports.facts['skipped'])} left out"))
    if libraries and libraries.facts:
        facts = libraries.facts
        found.append(("Shared objects", f"{facts['objects']:,}", f"{facts['mapped']} loaded with PyTorch"))
    if lock and lock.facts:
        found.append(("Packages", f"{lock.facts['packages']:,}", f"{text.size(lock.facts['bytes'])} on disk"))
    return found


def _curve(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The curve in the picture's own units, and its axes."""
    values = [value for value in facts["losses"] if math.isfinite(value)]
    left, right, top, bottom, height = (PLOT[key] for key in ("left", "right", "top", "bottom", "height"))
    ticks = _ticks(max(values))
    across = (WIDTH - left - right) / max(1, len(values) - 1)
    down = (height - top - bottom) / ticks[-1]

    def points(series: Sequence[float]) -> str:
        return " ".join(
            f"{left + index * across:.1f},{height - bottom - value * down:.1f}" for index, value in enumerate(series)
        )

    steps = (
        [1, *(round(len(values) * quarter / 4) for quarter in (1, 2, 3, 4))] if len(values) >= 8 else [1, len(values)]
    )
    return {
        "height": height,
        "raw": points(values),
        "smooth": points(losses.smoothed(values)),
        "levels": [(f"{tick:g}", round(height - bottom - tick * down, 1)) for tick in ticks],
        "steps": [(step, round(left + (step - 1) * across, 1)) for step in steps],
        "left": left,
        "right": WIDTH - right,
        "base": height - bottom,
        "words": trained_with(facts),
        "corpus": f"Trained on {facts['train']:,} reviews of {facts['corpus']}, {facts['held_out']:,} more held out; "
        f"seed {facts['seed']}",
    }


def _ticks(highest: float) -> list[float]:
    """Round levels from 0 to the highest value or a little above, three to six of them."""
    raw = max(highest, 1e-9) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    return [round(step * index, 10) for index in range(math.ceil(highest / step - 1e-9) + 1)]


def _map(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Boxes for the largest packages, and one for all others."""
    named = [(name, size) for name, size in facts["largest"][:BOXES] if size > 0]
    rest = facts["bytes"] - sum(size for _, size in named)
    count = facts["packages"] - len(named)
    boxes = treemap([size for _, size in named] + ([rest] if rest > 0 else []), WIDTH, MAP_HEIGHT)
    named += [(f"+ {count}", rest)] if rest > 0 else []
    drawn = []
    for index, ((name, size), box) in enumerate(zip(named, boxes, strict=True)):
        room = int((box.width - 14) / LETTER)
        label = name if len(name) <= room else name[: room - 1] + "…" if room > 5 else ""
        drawn.append({
            "name": name, "size": text.size(size), "label": label if box.height > 24 else "",
            "second": box.height > 44 and room >= 8, "x": round(box.x, 1), "y": round(box.y, 1),
            "width": round(box.width, 1), "height": round(box.height, 1), "rest": rest > 0 and index == len(named) - 1,
            "shade": round(max(0.34, 0.92 - 0.07 * index), 2),
        })  # fmt: skip
    return {"boxes": drawn, "height": MAP_HEIGHT, "total": text.size(facts["bytes"])}


def _bars(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The largest shared objects, as bars."""
    rows = facts["largest"][:BARS]
    longest = max(size for _, size in rows)
    return [
        {"name": path.rsplit("/", 1)[-1], "path": path, "size": text.size(size), "part": round(100 * size / longest, 1)}
        for path, size in rows
    ]


def _facts(check: CheckResult) -> list[tuple[str, str]]:
    """The facts of a check that are not drawn, each as text."""
    return [(name, _words(value)) for name, value in check.facts.items() if name not in _DRAWN]


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {_words(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list) and value and all(isinstance(each, list | dict) for each in value):
        return "\n".join(", ".join(map(_words, each.values() if isinstance(each, dict) else each)) for each in value)
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return json.dumps(value)
