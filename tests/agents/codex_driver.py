"""Drives the real Codex offline: its app server, against a model that is made here.

`codex app-server` takes JSON-RPC on standard input. The model is a server on loopback that
answers the Responses API with texts and calls from a list, and keeps each request.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WAIT = 120.0
"""Seconds after which a server that says nothing is taken for dead."""

Json = dict[str, Any]


def program() -> str | None:
    """The path of Codex: `CODEX` in the environment, else `codex` on the path; None without it."""
    return os.environ.get("CODEX") or shutil.which("codex")


class Model(ThreadingHTTPServer):
    """A model on loopback: keeps the requests, and gives the answers of `answers` in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.requests: list[Json] = []
        self.answers: deque[list[Json]] = deque()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Answer(BaseHTTPRequestHandler):
    server: Model

    def do_GET(self) -> None:
        self._reply(b'{"data":[],"models":[]}', "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        model = self.server
        model.requests.append(json.loads(body))
        count = len(model.requests)
        items = model.answers.popleft() if model.answers else [text(f"answer {count}")]
        events = [{"type": "response.created", "response": {"id": f"r{count}"}}]
        events += [{"type": "response.output_item.done", "item": item} for item in items]
        usage: Json = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
        usage |= {"input_tokens_details": None, "output_tokens_details": None}
        done = {"id": f"r{count}", "usage": usage}
        events.append({"type": "response.completed", "response": done})
        lines = (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        self._reply("".join(lines).encode(), "text/event-stream")

    def _reply(self, body: bytes, media_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing on standard error."""


def text(words: str) -> Json:
    content = [{"type": "output_text", "text": words}]
    return {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{words.encode().hex()}",
        "content": content,
    }


def shell(id: str, command: str) -> Json:
    arguments = json.dumps({"cmd": command})
    return {
        "type": "function_call",
        "id": f"fc_{id}",
        "call_id": id,
        "name": "exec_command",
        "arguments": arguments,
    }


class Codex:
    """One app server with a home of its own."""

    def __init__(self, path: str, home: Path, model: Model) -> None:
        self.home = home
        self.model = model
        self.project = home / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "mock"\napproval_policy = "never"\n'
            'sandbox_mode = "danger-full-access"\n'
            "[model_providers.mock]\n"
            f'name = "mock"\nbase_url = "{model.url}"\nwire_api = "responses"\n'
            "request_max_retries = 0\nstream_max_retries = 0\nrequires_openai_auth = false\n"
        )
        env = {**os.environ, "HOME": str(home), "CODEX_HOME": str(home)}
        self._process = subprocess.Popen(
            [path, "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.project,
            env=env,
        )
        self._said: queue.Queue[Json] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._count = 0
        client = {"name": "sessiontree", "version": "1"}
        self.call("initialize", clientInfo=client, capabilities={"experimentalApi": True})
        self._send({"method": "initialized"})

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))
        self._said.put({"method": "ended"})

    def _send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _next(self) -> Json:
        said = self._said.get(timeout=WAIT)
        assert said.get("method") != "ended", "the app server ended"
        return said

    def call(self, method: str, /, **params: Any) -> Json:
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        while True:
            said = self._next()
            if said.get("id") == self._count and "method" not in said:
                assert "result" in said, (method, said)
                result: Json = said["result"]
                return result

    def until(self, method: str) -> Json:
        while True:
            said = self._next()
            if said.get("method") == method:
                params: Json = said["params"]
                return params

    def start(self) -> str:
        return str(self.call("thread/start", cwd=str(self.project))["thread"]["id"])

    def turn(self, thread: str, words: str, *answers: list[Json]) -> str:
        """Run a turn to its end; its id."""
        self.model.answers.extend(answers)
        given = [{"type": "text", "text": words}]
        turn = self.call("turn/start", threadId=thread, input=given)["turn"]["id"]
        self.until("turn/completed")
        return str(turn)

    def compact(self, thread: str) -> None:
        self.call("thread/compact/start", threadId=thread)
        self.until("turn/completed")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def running(path: str, home: Path) -> Iterator[Codex]:
    model = Model()
    threading.Thread(target=model.serve_forever, daemon=True).start()
    codex = Codex(path, home, model)
    try:
        yield codex
    finally:
        codex.close()
        model.shutdown()
        model.server_close()
