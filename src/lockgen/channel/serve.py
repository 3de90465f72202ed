"""A channel over HTTP on this machine alone."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lockgen.channel.errors import BuildError, broken
from lockgen.errors import Problem

_HOST = "127.0.0.1"


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of one folder, and a line for each request where somebody wants to know."""

    protocol_version = "HTTP/1.1"
    say: Callable[[str], None] | None = None

    def log_message(self, format: str, *args: Any) -> None:
        if self.say:
            self.say(format % args)


def server(folder: Path, port: int = 0, say: Callable[[str], None] | None = None) -> http.server.ThreadingHTTPServer:
    """
    A server of a channel that waits for `serve_forever`.

    Args:
        port: 0 takes a free one.

    Raises:
        BuildError: there is no such folder, or the port is taken.
    """
    if not folder.is_dir():
        raise BuildError(Problem(message=f"no such folder: {folder}"))
    handler = type("Handler", (_Handler,), {"say": staticmethod(say) if say else None})
    try:
        return http.server.ThreadingHTTPServer((_HOST, port), functools.partial(handler, directory=str(folder)))
    except OSError as error:
        raise broken(f"cannot listen on {_HOST}:{port}: {error.strerror}", hint="`--port 0` takes a free one") from None


def url_of(one: http.server.ThreadingHTTPServer) -> str:
    """The channel's address."""
    return f"http://{_HOST}:{one.server_address[1]}"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a channel that is served while this is open."""
    one = server(folder)
    thread = threading.Thread(target=one.serve_forever, daemon=True)
    thread.start()
    try:
        yield url_of(one)
    finally:
        one.shutdown()
        one.server_close()
        thread.join()
