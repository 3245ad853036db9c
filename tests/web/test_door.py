"""What the door answers to each kind of request, and what it passes on."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from sessiontree.errors import UsageError
from sessiontree.web.server import Guarded, ViewListener, open_door
from tests.support.table import for_each

OTHER_NAME = (403, b"This server has another name.")
OTHER_SITE = (403, b"Other sites do not get in.")
ONLY_READS = (405, b"This server only reads.")
NO_TOKEN = (
    403,
    b"Open the address that 'sessiontree view' printed; it has the token of this run.",
)
IN = (200, b"in")
ALWAYS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Asked:
    """The answer of a guarded application to one request."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.sent: list[Message] = []
        self.scope: Scope = {}
        with socket.socket() as listening:
            door = ViewListener(listening, 8000, "secret")
            asyncio.run(Guarded(self._app, door)(scope, self._receive, self._send))

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"in"})

    async def _receive(self) -> Message:
        return {"type": "http.request"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def answer(self) -> tuple[int, bytes]:
        start, body = self.sent
        return start["status"], body["body"]

    @property
    def headers(self) -> dict[str, str]:
        pairs = self.sent[0]["headers"]
        return {name.decode(): value.decode() for name, value in pairs}


def asked(
    method: str = "GET",
    path: str = "/secret/",
    query: str = "",
    kind: str = "http",
    **headers: str | None,
) -> Asked:
    given = {"host": "127.0.0.1:8000", **headers}
    told = [(k.encode(), v.encode("latin-1")) for k, v in given.items() if v is not None]
    scope = {"type": kind, "method": method, "path": path, "query_string": query.encode()}
    return Asked({**scope, "headers": told})


@for_each(
    ("given", "answer"),
    [
        ({}, IN),
        ({"method": "HEAD"}, IN),
        ({"host": "localhost:8000"}, IN),
        ({"origin": "http://127.0.0.1:8000"}, IN),
        ({"origin": "http://localhost:8000"}, IN),
        ({"query": "x=1"}, IN),
        ({"path": "/secret"}, IN),
        ({"path": "/secret/s/1/index"}, IN),
        ({"host": None}, OTHER_NAME),
        ({"host": "127.0.0.1"}, OTHER_NAME),
        ({"host": "127.0.0.1:8001"}, OTHER_NAME),
        ({"host": "evil.invalid:8000"}, OTHER_NAME),
        ({"origin": "null"}, OTHER_SITE),
        ({"origin": ""}, OTHER_SITE),
        ({"origin": "https://127.0.0.1:8000"}, OTHER_SITE),
        ({"origin": "http://evil.invalid"}, OTHER_SITE),
        ({"origin": "http://127.0.0.1:8001"}, OTHER_SITE),
        ({"method": "POST"}, ONLY_READS),
        ({"method": "OPTIONS"}, ONLY_READS),
        ({"path": ""}, NO_TOKEN),
        ({"path": "/"}, NO_TOKEN),
        ({"path": "//secret/"}, NO_TOKEN),
        ({"path": "/secrets/"}, NO_TOKEN),
        ({"path": "/secre/t/"}, NO_TOKEN),
        ({"path": "/SECRET/"}, NO_TOKEN),
        ({"path": "/s\xe9cret/"}, NO_TOKEN),
        ({"path": "/\ud800/"}, NO_TOKEN),
        ({"path": "/s/1/secret"}, NO_TOKEN),
        ({"path": "/", "query": "token=secret"}, NO_TOKEN),
        ({"path": "/", "cookie": "sessiontree-8000=secret; token=secret"}, NO_TOKEN),
        ({"path": "/", "referer": "http://127.0.0.1:8000/secret/"}, NO_TOKEN),
        ({"path": "/", "authorization": "Bearer secret"}, NO_TOKEN),
    ],
)
def test_a_request_gets_in_by_its_name_its_origin_its_method_and_the_token(
    given: dict[str, Any], answer: tuple[int, bytes]
) -> None:
    found = asked(**given)
    assert found.answer == answer
    assert found.headers.items() >= ALWAYS.items()


def test_the_token_is_the_root_of_the_routes() -> None:
    scope = asked(path="/secret/s/1").scope
    assert (scope["root_path"], scope["path"]) == ("/secret", "/secret/s/1")


def test_only_requests_and_the_start_of_the_server_are_passed_on() -> None:
    assert asked(kind="websocket").sent == []
    assert asked(kind="lifespan").sent[0]["headers"] == [(b"a", b"b")]


def test_a_door_is_on_this_machine_and_its_address_has_the_token() -> None:
    one, other = open_door(0), open_door(0)
    with one.listening, other.listening:
        assert one.listening.getsockname() == ("127.0.0.1", one.port)
        assert one.url_of("/s/1") == f"http://127.0.0.1:{one.port}/{one.token}/s/1"
        assert len(one.token) == 32
        assert one.token != other.token
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{one.port}: Address"):
            open_door(one.port)
