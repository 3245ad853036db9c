"""A client of the Agent Client Protocol: JSON-RPC, a line a message, with a program that it starts.

The client only lists and loads sessions. It offers the agent nothing, allows nothing, and asks no
model. https://agentclientprotocol.com

Invariants: the program, and what it started, is gone when the client is closed; no call waits
longer than `timeout` for the next message; what goes wrong is one error that names the program.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import IO, Any, Final, NamedTuple

from sessiontree.core.display import one_line
from sessiontree.core.entry import decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.errors import AgentProtocolError, UsageError

TIMEOUT: Final = 60.0
"""The seconds to wait for the next message of an agent."""

_VERSION: Final = 1
_MAX_LINE: Final = 64 * 1024 * 1024
_MAX_GARBAGE: Final = 1000
"""The lines that are not messages, after which a program is not taken for an agent."""

_MAX_BYTES: Final = 1024**3
"""The bytes of all messages of an agent; one that never stops would fill the memory."""

_MAX_PAGES: Final = 1000
_GRACE: Final = 1.0
"""The seconds that a program has to end by itself."""

_NO_METHOD: Final = -32601
_AUTH: Final = -32000

Update = dict[str, Any]


class AcpSession(NamedTuple):
    """A session as an agent lists it."""

    id: str
    cwd: str
    title: str | None
    updated: str | None  # RFC 3339


class AcpAgent:
    """An agent that runs as long as the context manager is open.

    Args:
        command: the command that starts it, as a shell would read it.
        timeout: the seconds to wait for each message.

    Raises:
        UsageError: the command is empty, or cannot be started.
        AgentProtocolError: the program is not an agent of a known version of the protocol.
    """

    def __init__(self, command: str, timeout: float = TIMEOUT) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"{one_line(command, 80)!r} is not a command: {error}") from error
        if not self._words:
            raise UsageError("the command of an agent is empty; give one such as 'opencode acp'")
        self.program = os.path.basename(self._words[0])
        self._timeout = timeout
        self._messages: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self._garbage: list[str] = []
        self._said: deque[str] = deque(maxlen=5)  # the last lines of its standard error
        self._number = 0
        self._received = 0
        self.name = self.program
        self.version: str | None = None
        self._abilities: Mapping[str, Any] = {}

    def __enter__(self) -> AcpAgent:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                self._words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            raise UsageError(
                f"{one_line(self._words[0], 80)!r} cannot be started: {error.strerror}; give the "
                "command that starts the agent, such as 'opencode acp'"
            ) from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            self._initialize()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the program, and what it started."""
        process = self._process
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
                break
        with contextlib.suppress(OSError):  # what it started, and left
            os.killpg(process.pid, signal.SIGKILL)
        for reader in self._readers:
            reader.join(_GRACE)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def can_list(self) -> bool:
        return "list" in _object(self._abilities.get("sessionCapabilities"))

    def sessions(self) -> list[AcpSession]:
        """The sessions that the agent lists.

        Raises:
            AgentProtocolError: it cannot list them, or fails.
        """
        if not self.can_list:
            raise AgentProtocolError(f"{self.name} cannot list its sessions; give the id of one")
        found: list[AcpSession] = []
        params: dict[str, Any] = {}
        for _ in range(_MAX_PAGES):
            page = self._ask("session/list", params, _ignore)
            listed = page.get("sessions")
            for each in listed if isinstance(listed, list) else ():
                if isinstance(each, dict) and isinstance(each.get("sessionId"), str):
                    title, updated = each.get("title"), each.get("updatedAt")
                    found.append(
                        AcpSession(
                            each["sessionId"],
                            str(each.get("cwd") or ""),
                            title if isinstance(title, str) and title else None,
                            updated if isinstance(updated, str) else None,
                        )
                    )
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor == params.get("cursor"):
                break
            params = {"cursor": cursor}
        return found

    def load(self, session: AcpSession) -> list[Update]:
        """The updates by which the agent replays a session.

        Raises:
            AgentProtocolError: it cannot load sessions, or fails.
        """
        if self._abilities.get("loadSession") is not True:
            raise AgentProtocolError(f"{self.name} cannot load sessions")
        found: list[Update] = []

        def take(update: Update) -> None:
            found.append(update)

        cwd = session.cwd if os.path.isabs(session.cwd) else os.getcwd()
        params = {"sessionId": session.id, "cwd": cwd, "mcpServers": []}
        self._ask("session/load", params, take, session.id)
        return found

    def _initialize(self) -> None:
        none = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        about = {"name": "sessiontree", "version": "1"}
        params = {"protocolVersion": _VERSION, "clientCapabilities": none, "clientInfo": about}
        answer = self._ask("initialize", params, _ignore)
        info = _object(answer.get("agentInfo"))
        if isinstance(name := info.get("name"), str) and name:
            self.name = one_line(name, 60)
        if isinstance(version := info.get("version"), str) and version:
            self.version = one_line(version, 60)
        if answer.get("protocolVersion") != _VERSION:
            raise AgentProtocolError(
                f"{self.name} speaks version {one_line(str(answer.get('protocolVersion')), 20)} of "
                f"the Agent Client Protocol; sessiontree knows version {_VERSION}"
            )
        self._abilities = _object(answer.get("agentCapabilities"))

    def _ask(
        self, method: str, params: Mapping[str, Any], take: Callable[[Update], None], id: str = ""
    ) -> Mapping[str, Any]:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params}, method)
        for message in self._next_messages(method):
            if "method" in message:
                self._react(message, take, id)
            elif message.get("id") == number:
                return self._result(message, method)
        raise AssertionError("unreachable")

    def _next_messages(self, method: str) -> Iterator[Mapping[str, Any]]:
        while True:
            try:
                message = self._messages.get(timeout=self._timeout)
            except queue.Empty:
                raise AgentProtocolError(
                    f"{self.name} did not answer {method!r} within {self._timeout:g} s"
                    f"{self._last_words()}"
                ) from None
            if message is None:
                raise self._gone(method)
            yield message

    def _result(self, message: Mapping[str, Any], method: str) -> Mapping[str, Any]:
        error = message.get("error")
        if error is None:
            return _object(message.get("result"))
        about = _object(error)
        said = one_line(str(about.get("message") or error), 300)
        if isinstance(data := about.get("data"), dict | str):
            said += f" ({one_line(str(data), 200)})"
        hint = "; log in with the agent itself first" if about.get("code") == _AUTH else ""
        raise AgentProtocolError(f"{self.name} refused {method!r}: {said}{hint}")

    def _react(self, message: Mapping[str, Any], take: Callable[[Update], None], id: str) -> None:
        """Take a notification; refuse what the agent asks for."""
        params = _object(message.get("params"))
        if message["method"] == "session/update":
            update = params.get("update")
            if isinstance(update, dict) and params.get("sessionId") == id:
                take(update)
        elif message["method"] == "session/request_permission":
            call = _object(params.get("toolCall"))
            what = one_line(str(call.get("title") or "a tool"), 100)
            raise AgentProtocolError(
                f"{self.name} asks for permission to run {what!r}, though a session is only read; "
                "nothing was allowed"
            )
        elif "id" in message:
            error = {"code": _NO_METHOD, "message": "sessiontree only reads sessions"}
            self._send({"id": message["id"], "error": error}, str(message["method"]))

    def _send(self, message: Mapping[str, Any], method: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(dumps({"jsonrpc": "2.0", **message}) + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._gone(method) from None

    def _gone(self, method: str) -> AgentProtocolError:
        if self._received > _MAX_BYTES:
            return AgentProtocolError(
                f"{self.name} sent more than {_MAX_BYTES:,} bytes before it answered {method!r}; "
                "the session cannot be taken this way"
            )
        if len(self._garbage) > _MAX_GARBAGE:
            return AgentProtocolError(
                f"{self.program} prints what is not the Agent Client Protocol, such as "
                f"{self._garbage[0]!r}; give the option that starts it as an agent"
            )
        try:
            how = f"ended with exit code {self._process.wait(_GRACE)}"
        except subprocess.TimeoutExpired:
            how = "closed its output"
        return AgentProtocolError(
            f"{self.name} {how} before it answered {method!r}{self._last_words()}"
        )

    def _last_words(self) -> str:
        """What a program said that does not speak, for an error."""
        self._readers[1].join(0.2)
        said = next((line for line in reversed(self._said) if line), "")
        if not said and self._garbage:
            said = self._garbage[0]
        return f"; it said: {said}" if said else ""

    def _read(self, pipe: IO[bytes]) -> None:
        """Read messages until the end; what is not one is counted."""
        with contextlib.suppress(OSError, ValueError):
            while self._received <= _MAX_BYTES and (line := pipe.readline(_MAX_LINE)):
                self._received += len(line)
                message = decode_leniently(line) if line.endswith(b"\n") else None
                if isinstance(message, dict) and ("method" in message or "id" in message):
                    self._messages.put(message)
                    continue
                text = one_line(line[:300].decode("utf-8", "replace"), 100)
                if text and len(self._garbage) <= _MAX_GARBAGE:
                    self._garbage.append(text)
                if len(self._garbage) > _MAX_GARBAGE:
                    break
        self._messages.put(None)

    def _listen(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := pipe.readline(4096):
                self._said.append(one_line(line.decode("utf-8", "replace").strip(), 200))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _ignore(update: Update) -> None:
    """Take an update that is of no session."""
