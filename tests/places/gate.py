"""A server on loopback that passes requests on to another, and breaks some of them."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

How = Callable[[str, str], str]
"""Takes the method and the path of a request; says what happens to it.

Empty: it is passed on. `lose`: it is passed on, and its answer lost. `drop`: it is lost. `hang`: it
is passed on, and never answered. A number: that is the status of the answer.
"""

_SLOW_DOWN: Final = "<Error><Code>{code}</Code><Message>key {key}</Message></Error>"


class Gate:
    """What the server does; `how` may change at any time."""

    def __init__(self) -> None:
        self.how: How = lambda method, path: ""
        self.seen: list[tuple[str, str]] = []
        self.endpoint = ""


@contextlib.contextmanager
def gate(upstream: str) -> Iterator[Gate]:
    """A gate in front of a server."""
    state = Gate()
    target = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.seen.append((self.command, self.path))
            how = state.how(self.command, self.path)
            if how == "drop":
                self.close_connection = True
                return
            if how.isdigit():
                self._answer(int(how), _SLOW_DOWN.format(code=f"Code{how}", key="test").encode())
                return
            assert target.hostname
            connection = http.client.HTTPConnection(target.hostname, target.port, timeout=30)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            if how == "hang":
                time.sleep(3)
            if how:
                self.close_connection = True
                return
            self._answer(answer.status, content, answer.getheaders())

        def _answer(
            self, status: int, content: bytes, headers: list[tuple[str, str]] | None = None
        ) -> None:
            self.send_response(status)
            for name, value in headers or []:
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = dict(headers or []).get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    for method in ("GET", "PUT", "POST", "HEAD", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._pass_on)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    state.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
