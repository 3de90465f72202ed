"""Counts the bytes between a client and a server: what really goes over the wire."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Counter:
    """Bytes that went from the client to the server."""

    def __init__(self, port: int) -> None:
        self.sent = 0
        self._target = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]

    def accept(self) -> None:
        """Serve until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self._target)
                for source, target, counted in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pump, args=(source, target, counted), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
                if counted:
                    with self._lock:
                        self.sent += len(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def counting(port: int) -> Iterator[Counter]:
    """A way to a port of this machine that counts."""
    counter = Counter(port)
    threading.Thread(target=counter.accept, daemon=True).start()
    try:
        yield counter
    finally:
        counter.listener.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port
