"""Clients of the server, in memory and over its real streams, for the tests."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.client import Client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from sessiontree import Store
from sessiontree.calls.scope import Scope
from sessiontree.mcp.server import make_server
from sessiontree.ops.operation import Namespace
from tests.support.children import started

MODES: Final = ("auto", "legacy")
"""The protocol of 2026-07-28, and the one before."""

PATIENCE: Final = 60
HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
COMMAND: Final = (sys.executable, "-m", "sessiontree", "mcp")

Message = dict[str, Any]


def talk(root: str | Path, name: str = "build", *texts: str) -> str:
    """Make a session with a prompt, an answer, a label and a second branch; its id."""
    with Store(root).create(cwd="/project", durability="os") as session:
        session.rename(name)
        session.append_message({"role": "user", "content": "Build a CLI"})
        answer = session.append_message({"role": "assistant", "content": "In Rust."})
        session.label(answer, "first")
        for text in texts:
            session.append_message({"role": "user", "content": text})
        return session.id


@asynccontextmanager
async def client(
    root: str | Path,
    mode: str = "auto",
    namespaces: Iterable[Namespace] | None = None,
    *,
    write: bool = False,
    redact: bool = False,
    tools: str = "all",
    projects: Sequence[str] = (),
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    scope = Scope(str(root), agents=False, write=write, redact=redact, projects=projects)
    server, problems = make_server(scope, namespaces, tools)
    assert not problems
    async with Client(server, mode=mode, **options) as found:
        yield found


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous test, which gives up after a while."""

    async def bounded() -> None:
        with anyio.fail_after(PATIENCE):
            await test()

    anyio.run(bounded)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def text_in(contents: Iterable[Any]) -> str:
    (content,) = contents
    assert isinstance(content, TextResourceContents)
    return content.text


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", **more}


class Pipe:
    """The server as a process, spoken to line by line."""

    def __init__(self, *options: str) -> None:
        self.process = started("mcp", *options)
        self._number = 0
        self.limit = threading.Timer(PATIENCE, self.process.kill)  # a line that never comes
        self.limit.start()

    def send(self, line: bytes | Message) -> None:
        assert self.process.stdin is not None
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Message:
        assert self.process.stdout is not None
        found: Message = json.loads(self.process.stdout.readline())
        return found

    def ask(self, method: str, **params: Any) -> Message:
        """Send a request, and take the answer with its id; what comes before it is passed over."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while (found := self.receive()).get("id") != self._number:
            pass
        return found

    def hello(self) -> Message:
        found = self.ask("initialize", **HELLO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return found

    def call(self, tool: str, **arguments: Any) -> Message:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def end(self) -> tuple[int, bytes]:
        """Close the input; the exit code, and what is on standard error."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


@contextmanager
def pipe(*options: str) -> Iterator[Pipe]:
    found = Pipe(*options)
    try:
        yield found
    finally:
        found.limit.cancel()
        found.process.kill()
        found.process.wait()
        for stream in (found.process.stdin, found.process.stdout, found.process.stderr):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue


@contextmanager
def serving(root: Path, *options: str, **more: str) -> Iterator[tuple[str, list[str]]]:
    """The server over HTTP on a free port: its URL, and the lines that it prints at the start."""
    process = started("mcp", "--root", root, *options, **more)
    try:
        assert process.stderr is not None
        lines = [process.stderr.readline().decode()]
        if "0.0.0.0" in lines[0] and "TOKEN" not in "".join(more):
            lines.append(process.stderr.readline().decode())
        yield lines[0].split()[2].rstrip(";"), lines
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert b"Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
