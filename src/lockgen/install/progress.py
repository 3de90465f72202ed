"""What an installation tells while it runs: one display on a terminal, a few lines elsewhere, or nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

_EVERY = 10.0
"""Seconds between two lines."""


class Progress(Protocol):
    """What is told; may be called from any thread."""

    def start(self, *, fetch: int, size: int, link: int) -> None:
        """Packages that the cache lacks, their bytes as far as they come over the network, and packages to link."""

    def fetched(self, count: int) -> None:
        """Bytes that came in."""

    def unpacked(self, name: str) -> None:
        """A package is in the cache."""

    def linked(self, name: str) -> None:
        """A package is in the prefix."""

    def say(self, text: str) -> None:
        """Something that the user has to know now."""

    def close(self) -> None:
        """The end, good or bad."""


class Quiet:
    """Tells nothing."""

    def start(self, *, fetch: int, size: int, link: int) -> None: ...
    def fetched(self, count: int) -> None: ...
    def unpacked(self, name: str) -> None: ...
    def linked(self, name: str) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


class Lines:
    """A line at each stage and every ten seconds."""

    def __init__(self, write: Callable[[str], object], size: Callable[[int], str]) -> None:
        self._write, self._size = write, size
        self._lock = threading.Lock()
        self._fetch = self._total = self._link = self._bytes = self._linked = 0
        self._last = time.monotonic()

    def start(self, *, fetch: int, size: int, link: int) -> None:
        self._fetch, self._total, self._link = fetch, size, link
        self._bytes = self._linked = 0
        if not link:
            return
        cached = link - fetch
        coming = f"{fetch} to fetch ({self._size(size)})" if size else f"{fetch} to unpack"
        parts = [coming if fetch else "", f"{cached} in the cache" if cached else ""]
        told = ", ".join(part for part in parts if part)
        self.say(f"installing {link} package{'s' if link != 1 else ''}{': ' if told else ''}{told}")

    def fetched(self, count: int) -> None:
        self._bytes += count
        self._sometimes()

    def unpacked(self, name: str) -> None:
        self._sometimes()

    def linked(self, name: str) -> None:
        self._linked += 1
        self._sometimes()

    def say(self, text: str) -> None:
        with self._lock:
            self._write(text)
            self._last = time.monotonic()

    def close(self) -> None: ...

    def _sometimes(self) -> None:
        if time.monotonic() - self._last >= _EVERY:
            fetched = f"fetched {self._size(self._bytes)} of {self._size(self._total)}, " if self._total else ""
            self.say(f"{fetched}installed {self._linked} of {self._link} packages")


class Bars:
    """Three bars, one below the other: fetched bytes, unpacked packages, linked packages."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=32),
            TextColumn("{task.fields[shown]}", markup=False),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._done: dict[str, int] = {}
        self._totals: dict[str, int] = {}

    def start(self, *, fetch: int, size: int, link: int) -> None:
        self._totals = {"fetch": size, "unpack": fetch, "link": link}
        for name, total in self._totals.items():
            self._done[name] = 0
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total, shown="")
            self._bars.update(self._tasks[name], total=total, completed=0, visible=bool(total))
        self._bars.start()

    def fetched(self, count: int) -> None:
        from lockgen.report.text import size

        self._step("fetch", count, size)

    def unpacked(self, name: str) -> None:
        self._step("unpack", 1, str, name)

    def linked(self, name: str) -> None:
        self._step("link", 1, str, name)

    def say(self, text: str) -> None:
        self._bars.console.print(text, soft_wrap=True)

    def close(self) -> None:
        self._bars.stop()

    def _step(self, task: str, count: int, shown: Callable[[int], str], name: str = "") -> None:
        if task in self._tasks:
            self._done[task] += count
            done, total = self._done[task], self._totals[task]
            words = f"{shown(min(done, total))} of {shown(total)} {name}".rstrip()
            self._bars.update(self._tasks[task], completed=done, shown=words)
