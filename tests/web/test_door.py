"""What the door answers to each kind of request, and what it passes on."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from sessiontree.errors import UsageError
from sessiontree.web.door import Door, Guarded, open_door

COOKIE = "sessiontree-8000=secret"
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
        with socket.socket() as listening:
            door = Door(listening, 8000, "secret")
            asyncio.run(Guarded(self._app, door)(scope, self._receive, self._send))

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
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
    method: str = "GET", path: str = "/", query: str = "", kind: str = "http", **headers: str | None
) -> Asked:
    given = {"host": "127.0.0.1:8000", "cookie": COOKIE, **headers}
    told = [(k.encode(), v.encode("latin-1")) for k, v in given.items() if v is not None]
    scope = {"type": kind, "method": method, "path": path, "query_string": query.encode()}
    return Asked({**scope, "headers": told})


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({}, IN),
        ({"method": "HEAD"}, IN),
        ({"host": "localhost:8000"}, IN),
        ({"origin": "http://127.0.0.1:8000"}, IN),
        ({"origin": "http://localhost:8000"}, IN),
        ({"query": "x=1"}, IN),
        ({"query": "token="}, IN),
        ({"query": "token=wrong"}, IN),
        ({"cookie": f"other=1; {COOKIE}; more=2"}, IN),
        ({"host": None}, OTHER_NAME),
        ({"host": "127.0.0.1"}, OTHER_NAME),
        ({"host": "127.0.0.1:8001"}, OTHER_NAME),
        ({"host": "evil.invalid:8000", "query": "token=secret"}, OTHER_NAME),
        ({"origin": "null"}, OTHER_SITE),
        ({"origin": ""}, OTHER_SITE),
        ({"origin": "https://127.0.0.1:8000"}, OTHER_SITE),
        ({"origin": "http://evil.invalid", "query": "token=secret"}, OTHER_SITE),
        ({"method": "POST"}, ONLY_READS),
        ({"method": "OPTIONS", "query": "token=secret"}, ONLY_READS),
        ({"cookie": None}, NO_TOKEN),
        ({"cookie": ""}, NO_TOKEN),
        ({"cookie": "sessiontree-8000="}, NO_TOKEN),
        ({"cookie": "sessiontree-8000=secrets"}, NO_TOKEN),
        ({"cookie": "sessiontree-8001=secret"}, NO_TOKEN),
        ({"cookie": "sessiontree-8000=\xe9"}, NO_TOKEN),
        ({"cookie": "a[=1; \x00"}, NO_TOKEN),
        ({"cookie": None, "query": "token=wrong"}, NO_TOKEN),
        ({"cookie": None, "query": "token=wrong&token=secret"}, NO_TOKEN),
    ],
)
def test_a_request_gets_in_by_its_name_its_origin_its_method_and_the_token(
    given: dict[str, Any], answer: tuple[int, bytes]
) -> None:
    found = asked(**given)
    assert found.answer == answer
    assert found.headers.items() >= ALWAYS.items()


@pytest.mark.parametrize(
    ("path", "location"), [("/", "/"), ("/s/1", "/s/1"), ("//evil.invalid/", "/evil.invalid/")]
)
def test_the_token_in_an_address_becomes_a_cookie(path: str, location: str) -> None:
    found = asked(path=path, query="a=b&token=secret", cookie=None)
    assert found.answer == (303, b"")
    assert found.headers["location"] == location
    assert found.headers["set-cookie"] == f"{COOKIE}; HttpOnly; Path=/; SameSite=strict"


def test_only_requests_and_the_start_of_the_server_are_passed_on() -> None:
    assert asked(kind="websocket").sent == []
    assert asked(kind="lifespan").sent[0]["headers"] == [(b"a", b"b")]


def test_a_door_is_on_this_machine_and_its_address_has_the_token() -> None:
    one, other = open_door(0), open_door(0)
    with one.listening, other.listening:
        assert one.listening.getsockname() == ("127.0.0.1", one.port)
        assert one.url_of("/s/1") == f"http://127.0.0.1:{one.port}/s/1?token={one.token}"
        assert len(one.token) == 32
        assert one.token != other.token
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{one.port}: Address"):
            open_door(one.port)
