"""Bytes that pass, told now and then."""

from __future__ import annotations

import threading
import time

from lockgen.install.progress import Progress

_EVERY = 10.0
"""Seconds between two lines."""


def size(count: int) -> str:
    """Bytes as people read them."""
    from lockgen.report import text

    return text.size(count)


class Meter:
    """Adds bytes up, from any thread, and tells of them every ten seconds."""

    def __init__(self, word: str, progress: Progress) -> None:
        self._word, self._progress = word, progress
        self._lock = threading.Lock()
        self._started = self._last = time.monotonic()
        self._bytes = 0
        self._blobs: dict[str, int] = {}

    def add(self, count: int) -> None:
        """More bytes are through."""
        with self._lock:
            self._bytes += count
            now = time.monotonic()
            if now - self._last < _EVERY:
                return
            self._last = now
            told = f"{self._word} {size(self._bytes)} in {now - self._started:.0f} s"
        self._progress.say(told)

    def of_blob(self, digest: str, done: int, _size: int) -> None:
        """So many bytes of a blob are through, as a registry tells it."""
        self.add(done - self._blobs.get(digest, 0))
        self._blobs[digest] = done
