"""A connection that has to send its next request soon.

uvicorn waits without end for the rest of a request, so clients without the token could take all
descriptors of the process.

Invariants: a connection without a whole request is closed after some seconds, whatever it sends;
beyond some number of them, each new one closes the oldest.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_WAITING: Final = 100
"""Connections without a whole request: a browser has six, and a process 256 descriptors or more."""

_REQUEST_SECONDS: Final = 5.0


class Connection(H11Protocol):
    """An HTTP connection.

    Attributes:
        deadline: the time of the loop at which the next request must be whole.
    """

    deadline = 0.0
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """True if the connection is open and no request of it is being answered."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return not (is_answering or self.transport.is_closing())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        waiting = [each for each in self.connections if isinstance(each, Connection)]
        waiting = [each for each in waiting if each.is_waiting]
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda each: each.deadline).transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop()
        self.deadline = self.loop.time() + _REQUEST_SECONDS
        self._timer = self.loop.call_at(self.deadline, self._end)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        if self.is_waiting:
            self.transport.close()
