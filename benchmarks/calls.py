"""What a search by a call costs, against the command `search`.

    python -m benchmarks.calls [--sessions N] [--size BYTES] [--rounds N]

These ways to search the same store take turns: the command `search`; the command `call
session.search`; a call in a process that runs already; and `sessiontree mcp` over standard input
and over HTTP, from its start to its end, with one call of the tool and with eleven. Figures are
the medians of the processor's time of all processes, and of the clock's, and the median of the
ratios to the command of the same round. A call in a running server costs a tenth of what eleven
take more than one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.finding import make_sessions, processor_seconds
from sessiontree.calls.dispatcher import Data, Dispatcher, Event
from sessiontree.calls.scope import Scope

PROGRAM = (sys.executable, "-m", "sessiontree")
METHOD = "session.search"
GREETING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
WORDS = {"no hit": "needlezz", "many hits": "offset"}


def ways(store: str, word: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """The ways to search, the command first; each is limited to what a page may hold."""
    found: list[Any] = []
    dispatcher = Dispatcher(Scope(store, agents=False))

    def take(event: Event) -> None:
        if isinstance(event, Data):
            found[:] = event.value["items"]

    def call() -> None:
        dispatcher.call(METHOD, {"pattern": word}, take)

    call()
    limit = ("--limit", str(max(len(found), 1)))
    yield "search", _command(store, "search", word, *limit, "--json")
    yield f"call {METHOD}", _command(store, "call", METHOD, "--pattern", word, "--json")
    yield "in a running process", call
    for count in (1, 11):
        yield f"mcp, standard input, {count}", partial(_by_stdio, store, word, count)
        yield f"mcp, HTTP, {count}", partial(_by_http, store, word, count)


def _command(store: str, *words: str) -> Callable[[], object]:
    return lambda: subprocess.run(
        [*PROGRAM, *words], env=_environment(store), stdout=subprocess.DEVNULL, check=True
    )


def _environment(store: str) -> dict[str, str]:
    return {**os.environ, "SESSIONTREE_HOME": store, "HOME": store}


def _requests(word: str, count: int) -> Iterator[dict[str, Any]]:
    """What a client sends: a greeting, then so many calls of the tool."""
    yield _request("initialize", 0, GREETING)
    yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    called = {"name": METHOD.replace(".", "_"), "arguments": {"pattern": word}}
    for number in range(count):
        yield _request("tools/call", number + 1, called)


def _request(method: str, id: int, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _by_stdio(store: str, word: str, count: int) -> None:
    """Start a server, call the tool over standard input, and end it."""
    server = subprocess.Popen(
        [*PROGRAM, "mcp", "--root", store],
        env=_environment(store),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    for request in _requests(word, count):
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        if "id" in request:
            _check(server.stdout.readline())
    server.communicate()


def _by_http(store: str, word: str, count: int) -> None:
    """Start a server, call the tool over HTTP, and end it."""
    server = subprocess.Popen(
        [*PROGRAM, "mcp", "--root", store, "--http", "0"],
        env=_environment(store),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    url = server.stderr.readline().split()[2].rstrip(";")
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    for request in _requests(word, count):
        sent = urllib.request.Request(url, json.dumps(request).encode(), headers)
        with urllib.request.urlopen(sent) as answer:
            headers["Mcp-Session-Id"] = answer.headers.get("Mcp-Session-Id", "")
            told = answer.read()
        if "id" in request:
            _check(told)
    server.send_signal(signal.SIGINT)
    server.communicate()


def _check(answer: bytes) -> None:
    """Check that an answer is a result: an error costs less than a search."""
    if b'"result"' not in answer or b'"isError":true' in answer.replace(b" ", b""):
        raise SystemExit(f"the server answers {answer[:500]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--size", type=int, default=100_000, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        make_sessions(Path(store), options.sessions, options.size)
        for title, word in WORDS.items():
            took: dict[str, list[tuple[float, float]]] = {}
            jobs = list(ways(store, word))
            for _ in range(options.rounds):
                for name, job in jobs:
                    used, clock = processor_seconds(), perf_counter()
                    job()
                    times = (processor_seconds() - used, perf_counter() - clock)
                    took.setdefault(name, []).append(times)
            base = took["search"]
            for name, each in took.items():
                processor, clock = (median(times) * 1000 for times in zip(*each, strict=True))
                ratio = median(one[0] / other[0] for one, other in zip(each, base, strict=True))
                print(f"{title} | {name} | {processor:.0f} ms | {clock:.0f} ms | {ratio:.2f}")


if __name__ == "__main__":
    main()
