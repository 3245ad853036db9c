"""A proxy on this machine whose connections break, hang or are late, as a test says."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

_BLOCK = 65536


class Proxy:
    """Passes bytes between clients and a server.

    Attributes:
        port: where it listens.
        cut_sent: connections break after so many more bytes to the server; None: none does.
        cut_answered: the same for bytes to a client.
        hangs: whether what arrives is kept and not passed on.
        refuses: whether new connections are closed at once.
        delay: seconds by which each block is late.
        cuts: the connections that were broken.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cut_sent: int | None = None
        self.cut_answered: int | None = None
        self.hangs = False
        self.refuses = False
        self.delay = 0.0
        self.cuts = 0
        self._is_closed = False
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._server))
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        pair = client, server
        self._pairs.add(pair)
        with contextlib.suppress(OSError, ValueError), client, server:
            while True:
                ready, _, _ = select.select(pair, [], [], 0.05)
                for source in ready:
                    block = source.recv(_BLOCK)
                    if not block:
                        return
                    if not self._give(
                        block, source is client, server if source is client else client
                    ):
                        return
        self._pairs.discard(pair)

    def _give(self, block: bytes, is_sent: bool, target: socket.socket) -> bool:
        """Pass a block on; whether the connection goes on."""
        while self.hangs and not self._is_closed:
            time.sleep(0.01)
        time.sleep(self.delay)
        name = "cut_sent" if is_sent else "cut_answered"
        left = getattr(self, name)
        if left is not None and left < len(block):
            target.sendall(block[:left])
            setattr(self, name, None)
            self.cuts += 1
            return False
        target.sendall(block)
        if left is not None:
            setattr(self, name, left - len(block))
        return True

    def drop(self) -> None:
        """Break all connections."""
        for pair in list(self._pairs):
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Listen no more, and break all connections."""
        self._is_closed = True
        self._listening.close()
        self.drop()


@contextlib.contextmanager
def proxy(server: int) -> Iterator[Proxy]:
    """A proxy in front of a server on this machine."""
    made = Proxy(server)
    try:
        yield made
    finally:
        made.close()
