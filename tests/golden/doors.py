"""Servers and screens: what they show and answer, asked over their real streams."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlsplit

from tests.golden import seam

Texts = dict[str, str | None]
_PATIENCE: Final = 60
_HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "golden", "version": "1"},
}
_ASKED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("tools/call", {"name": "session_list", "arguments": {"limit": 3}}),
    ("tools/call", {"name": "session_search", "arguments": {"pattern": "parser"}}),
    ("tools/call", {"name": "session_outline", "arguments": {"session": "old-1"}}),
    ("tools/call", {"name": "tree_render", "arguments": {"session": "nobody"}}),
    ("tools/call", {"name": "no_such_tool", "arguments": {}}),
)


@contextmanager
def _process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command as a process of its own, behind the same clock and random source."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.golden.seam", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(seam.CHECKOUT), "GOLDEN_PRODUCT": seam.product()},
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_PATIENCE)
        finally:
            process.kill()
            process.communicate()


def offered(options: Sequence[str]) -> Texts:
    """What the server for agents answers."""
    made: Texts = {}
    with _process("mcp", *options) as process:
        assert process.stdin
        assert process.stdout

        def send(message: dict[str, Any]) -> None:
            assert process.stdin
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()

        for number, (method, params) in enumerate([("initialize", _HELLO), *_ASKED]):
            send({"id": number, "method": method, "params": params})
            answer = json.loads(process.stdout.readline())
            while answer.get("id") != number:  # a notification
                answer = json.loads(process.stdout.readline())
            made[f"{number} {method}"] = json.dumps(answer, indent=1, ensure_ascii=False) + "\n"
            if not number:
                send({"method": "notifications/initialized"})
    return made


def viewed(pages: Sequence[str]) -> Texts:
    """What the view in the browser answers; ID is the session with most branches."""
    with _process("view", "--no-browser") as process:
        assert process.stdout
        address = urlsplit(process.stdout.readline().decode().strip())
        assert address.port

        token = address.path.strip("/").partition("/")[0]

        def get(path: str) -> tuple[str, str]:
            with closing(HTTPConnection("127.0.0.1", address.port, timeout=_PATIENCE)) as client:
                client.request("GET", f"/{token}{path}")
                with client.getresponse() as answer:
                    body = answer.read()
                    sent = {name.lower(): value for name, value in answer.getheaders()}
            if sent.get("content-encoding") == "deflate":
                body = zlib.decompress(body)
            facts = [f"{k}: {v}" for k, v in sorted(sent.items()) if k not in _VARYING]
            text = body.decode("utf-8", "backslashreplace")
            return text, "\n".join([f"{answer.status} {path}", *facts, text])

        rows = json.loads(get("/sessions")[0])["sessions"]
        (id,) = (row["id"] for row in rows if row["title"].startswith("Mixed"))
        asked = [page.replace("ID", id) for page in pages]
        made = {path: get(path)[1] for path in ("/", *asked)}
    hidden = {f":{address.port}": ":PORT", token: "TOKEN"}
    return {
        path: re.sub("|".join(map(re.escape, hidden)), lambda found: hidden[found[0]], text)
        for path, text in made.items()
    }


_VARYING: Final = ("date", "content-length")


def browsed(width: int, keys: Sequence[Sequence[str]]) -> Texts:
    """The screens of the browser in the terminal, after each list of keys."""
    screens = seam.browse(width, keys)
    names = [" ".join(each) for each in keys]
    return {
        f"{n} {name}".strip(): text
        for n, (name, text) in enumerate(zip(names, screens, strict=True))
    }
