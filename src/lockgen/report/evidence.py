"""Evidence on a terminal: a table of the checks, and the loss curve. Renders values, computes nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lockgen.report import losses, text
from lockgen.verify.evidence import CheckResult, Evidence

MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "skipped": ("–", "dim")}
SHOWN_PROBLEMS = 12
CURVE_WIDTH = 56
CURVE_HEIGHT = 7


def shown(evidence: Evidence) -> RenderableType:
    """Everything that a user has to know at once."""
    parts: list[RenderableType] = [_table(evidence)]
    bert = evidence.check("bert")
    if bert and bert.facts.get("losses"):
        parts += [Text(), Padding(curve(bert.facts), (0, 0, 0, 2))]
    parts += [Text(), verdict(evidence)]
    return Group(*parts)


def verdict(evidence: Evidence) -> Text:
    """The last line: yes or no, and of what."""
    count = {status: sum(check.status == status for check in evidence.checks) for status in MARKS}
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    name = f"{evidence.environment} · {evidence.variant}" if evidence.variant else evidence.environment or "this Python"
    if evidence.passed:
        return Text.assemble(("proved", "bold green"), f": {name}, {count['passed']} checks passed{skipped}")
    failed = ", ".join(check.name for check in evidence.checks if check.status == "failed")
    return Text.assemble(("not proved", "bold red"), f": {name}, failed: {failed}{skipped}")


def _table(evidence: Evidence) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, justify="right", style="dim")
    table.add_column(overflow="fold")
    for check in evidence.checks:
        mark, style = MARKS[check.status]
        table.add_row(Text(mark, style=style), check.name, f"{check.seconds:.1f} s", _words(check))
    return table


def _words(check: CheckResult) -> Text:
    if check.status == "failed":
        lines = list(check.problems[:SHOWN_PROBLEMS])
        if len(check.problems) > SHOWN_PROBLEMS:
            lines.append(f"and {len(check.problems) - SHOWN_PROBLEMS} more, in evidence.json")
        found = Text("\n".join(lines), style="red")
    else:
        found = Text(check.summary, style="dim" if check.status == "skipped" else "")
    for note in check.notes:
        found.append(f"\n{note}", style="yellow")
    return found


def curve(facts: Mapping[str, Any]) -> RenderableType:
    """The loss of each step as a line, and what it was trained with."""
    values = losses.smoothed(facts["losses"])
    lines = losses.braille(values, CURVE_WIDTH, CURVE_HEIGHT)
    labels = [f"{max(values):.2f}", *[""] * (CURVE_HEIGHT - 2), f"{min(values):.2f}"]
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(style="cyan", no_wrap=True)
    for label, line in zip(labels, lines, strict=True):
        table.add_row(label, line)
    steps = str(facts["steps"])
    table.add_row("loss", Text("1" + steps.rjust(CURVE_WIDTH - 1), style="dim"))
    return Group(table, Text(trained_with(facts), style="dim"))


def trained_with(facts: Mapping[str, Any]) -> str:
    """One line on the run: model, precision, device, speed, memory."""
    return (
        f"{facts['model']} BERT, {facts['parameters'] / 1e6:.1f} million parameters, {facts['dtype']} on "
        f"{facts['device_name']}; {facts['tokens_per_second']:,} tokens a second, "
        f"peak memory {text.size(facts['peak_memory'])}"
    )
