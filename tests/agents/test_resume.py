"""Each agent goes on with a session of any other, and sends its model what the session holds.

The real programs run offline, against models on loopback. `plan` puts a session where the program
looks; the program resumes it, and the request that it sends for one more prompt is compared with
our context of the session. What a program adds stands before or after the session, and is left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.library.listing import facts_of
from sessiontree.library.resume import Resumption, plan
from tests.agents import (
    claude_code,
    codex_driver,
    copilot_driver,
    opencode_driver,
    test_real_gemini,
)
from tests.agents.codex_driver import running
from tests.agents.opencode_samples import SUMMARY_IS_ASKED
from tests.agents.test_pi import PI
from tests.examples.provider import provider
from tests.support.grown import flat, grown
from tests.support.saying import IMAGE
from tests.support.table import for_each

FIXTURES = Path(__file__).parents[2] / "fixtures"
RANDOM = int(os.environ.get("RESUME_SESSIONS", "2"))
"""The random sessions for each agent; each takes some seconds."""

NEXT = "And now the next one."
Message = dict[str, Any]


def written(folder: Path) -> Path:
    """A session of ours with branches, calls, an image, thinking, an edit and a compaction."""
    file = folder / "ours.jsonl"
    with Session.create(file, cwd=str(folder), name="Ours") as session:
        session.append_message({"role": "user", "content": "the first prompt"})
        first = session.append_message({"role": "assistant", "content": "a first answer"})
        session.append_message({"role": "user", "content": "an abandoned prompt"})
        session.append_message({"role": "assistant", "content": "an abandoned answer"})
        session.branch(first)
        session.append_message(
            {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]}
        )
        for number in range(3):
            id = f"toolu_{number}"
            call = {"type": "tool_use", "id": id, "name": "Read", "input": {"n": number}}
            text = {"type": "text", "text": f"reading {number}"}
            session.append_message({"role": "assistant", "content": [text, call]})
            result = {"type": "tool_result", "tool_use_id": id, "content": f"content {number}"}
            session.append_message({"role": "user", "content": [result]})
        kept = session.append_message({"role": "assistant", "content": "all were read"})
        session.compact("They read files.", first_kept=kept)
        session.append_message({"role": "user", "content": "/home/me is where it is"})
        session.append_message({"role": "assistant", "content": "I see"})
    return file


SOURCES: dict[str, Callable[[Path], Path]] = {
    "ours": written,
    "claude-code": lambda _: next((FIXTURES / "agents/claude_code/2.1.330").glob("*.jsonl")),
    "codex": lambda _: max((FIXTURES / "agents/codex/0.169.0").rglob("rollout-*.jsonl")),
    "gemini": lambda _: min((FIXTURES / "agents/gemini/0.61.0").rglob("session-*.jsonl")),
    "pi": lambda _: FIXTURES / "foreign-pi-3-compacted" / "session.jsonl",
}


def sent_by_codex(home: Path, made: Resumption) -> list[Message]:
    path = codex_driver.program()
    assert path is not None
    with running(path, home / ".codex") as codex:
        codex.call("thread/resume", threadId=made.command[-1])
        codex.turn(made.command[-1], NEXT)
        found: list[Message] = codex.model.requests[-1]["input"]
    return found


def sent_by_claude_code(home: Path, made: Resumption) -> list[Message]:
    with provider(lambda request: [{"type": "text", "text": "done"}]) as served:
        command = [str(claude_code.program()), *made.command[1:], "-p", NEXT]
        more = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
        _run(command, made.cwd, {**served.environment(), "HOME": str(home), **more})
        assert served.faults == []
        (request,) = [each for each in served.requests if NEXT in json.dumps(each["messages"])]
    return claude_code.seen(request["messages"])


def sent_by_pi(home: Path, made: Resumption) -> list[Message]:
    with provider(lambda request: [{"type": "text", "text": "done"}]) as served:
        models = [{"id": "m", "input": ["text", "image"]}]
        mock = {"baseUrl": served.address, "api": "anthropic-messages", "apiKey": "none"}
        config = {"providers": {"mock": {**mock, "models": models}}}
        (home / ".pi" / "agent" / "models.json").write_text(json.dumps(config))
        cli = str(Path(PI) / "dist" / "bundle" / "cli.js")
        command = ["node", cli, *made.command[1:], "--provider", "mock", "--model", "m"]
        _run([*command, "-p", NEXT], made.cwd, {"HOME": str(home), "PI_OFFLINE": "1"})
        assert served.faults == []
        found: list[Message] = served.requests[-1]["messages"]
    return found


def sent_by_gemini(home: Path, made: Resumption) -> list[Message]:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    with google() as (address, requests):
        environment = {"HOME": str(home), "GEMINI_API_KEY": "none"}
        environment |= {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        command = ["node", test_real_gemini.PROGRAM, "-m", "gemini-2.5-pro", *made.command[1:]]
        _run([*command, "-p", NEXT], made.cwd, environment)
    contents = requests[-1]["contents"]
    return [message for content in contents for message in _messages_of(content)]


def sent_by_opencode(home: Path, made: Resumption, program: str = "") -> list[Message]:
    with opencode_driver.running(home, program or opencode_driver.PROGRAM) as opencode:
        opencode.work_in(Path(made.cwd))
        if made.setup:
            opencode.call(*made.setup[1:])
        opencode.call("run", "--model", "fake/fake-1", *made.command[1:], NEXT)
        *said, last = opencode.requests[-1]
    for asks, summary in pairwise(said):
        if asks["content"] == SUMMARY_IS_ASKED:
            asks["content"], summary["content"] = summary["content"], ""
    for message in said:  # it sends what another model thought as text
        for thought in thoughts_in(made) if message["role"] == "assistant" else ():
            message["content"] = message["content"].replace(thought, "", 1)
    return [*said, {**last, "content": last["content"].strip('"')}]


def sent_by_copilot(home: Path, made: Resumption) -> list[Message]:
    with copilot_driver.running(home) as copilot:
        copilot.home, copilot.project = home / ".copilot", Path(made.cwd)
        copilot.environment["COPILOT_HOME"] = str(copilot.home)
        copilot.run(*made.command[1:], "-p", NEXT)
        said = copilot.requests[-1]
    for message in said:
        if isinstance(content := message.get("content"), str):
            content = re.sub(r"<current_datetime>.*?</current_datetime>", "", content)
            message["content"] = content.rpartition("prior context:\n<summary>")[2]
    return said


def thoughts_in(made: Resumption) -> list[str]:
    """The thoughts in a file that OpenCode took in."""
    messages = json.loads(Path(made.file).read_text())["messages"] if made.setup else []
    parts = [part for message in messages for part in message["parts"]]
    return [part["text"] for part in parts if part["type"] == "reasoning"]


def _messages_of(content: Message) -> Iterator[Message]:
    """Gemini's content as messages; thoughts are left out."""
    role = "assistant" if content["role"] == "model" else "user"
    for part in content["parts"]:
        if "functionCall" in part:
            call = part["functionCall"]
            block = {"type": "tool_use", "id": call["id"], "name": "n", "input": call["args"]}
            yield {"role": role, "content": [block]}
        elif "functionResponse" in part:
            response = part["functionResponse"]
            said = next(iter(response["response"].values()))
            block = {"type": "tool_result", "tool_use_id": response["id"], "content": said}
            yield {"role": role, "content": [block]}
        elif "inlineData" in part:
            image = {"data": part["inlineData"]["data"], "mimeType": "image/png"}
            yield {"role": role, "content": [{"type": "image", **image}]}
        elif not part.get("thought"):
            yield {"role": role, "content": part["text"]}


@contextmanager
def google() -> Iterator[tuple[str, list[Message]]]:
    """Google's API on loopback; keeps the requests."""
    requests: list[Message] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = {"role": "model", "parts": [{"text": "done"}]}
            usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
            candidates = [{"content": content, "finishReason": "STOP"}]
            body = json.dumps({"candidates": candidates, "usageMetadata": usage})
            is_stream = "streamGenerateContent" in self.path
            said = (f"data: {body}\n\n" if is_stream else body).encode()
            self.send_response(200)
            kind = "text/event-stream" if is_stream else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()


def _run(command: list[str], cwd: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


has_node = shutil.which("node") is not None
AGENTS = [
    pytest.param(name, sends, marks=pytest.mark.skipif(not there, reason=f"no {name} here"))
    for name, sends, there in (
        ("claude-code", sent_by_claude_code, claude_code.program() is not None),
        ("codex", sent_by_codex, codex_driver.program() is not None),
        ("gemini", sent_by_gemini, bool(test_real_gemini.PROGRAM) and has_node),
        ("pi", sent_by_pi, bool(PI) and has_node),
        ("copilot", sent_by_copilot, bool(copilot_driver.PROGRAM)),
        ("opencode", sent_by_opencode, bool(opencode_driver.PROGRAM)),
    )
]


def places(folder: Path) -> tuple[Path, Path]:
    """A home, in which Codex is set to ask the models of its test, and a folder to work in."""
    home, project = folder / "home", folder / "The Project"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text('model_provider = "mock"')
    project.mkdir()
    return home, project


def check(source: Path, agent: str, sends: Callable[..., list[Message]], folder: Path) -> None:
    """Resume a session in an agent; what it sends is our context, and then the next prompt."""
    home, project = places(folder)
    made = plan(facts_of(str(source)), agent, str(project), environ={"HOME": str(home)})
    with Session.open(source, readonly=True) as session:
        expected = flat(session.context().messages)
    if not made.setup:  # else the program reads the file, and no other
        check_read(made.file, expected)
    check_sent(flat(sends(home, made)), expected)


def check_read(file: str, expected: list[Any]) -> None:
    """What sessiontree reads of a file is a context."""
    with Session.open(file, readonly=True) as session:
        assert (session.verify(), session.notes) == ([], [])
        found = flat(session.context().messages)
    instead = found[: len(found) - len(expected)]  # of the summary of an agent that has none
    assert found[len(instead) :] == expected
    assert len(instead) <= ("left of it" in str(instead))


def check_sent(found: list[Any], expected: list[Any]) -> None:
    """What was sent to a model has a context, and the next prompt near its end."""
    assert ("user", NEXT) in found[-8:]
    starts = (at for at in range(len(found)) if found[at : at + len(expected)] == expected)
    assert next(starts, None) is not None, (found, expected)


each_agent = pytest.mark.parametrize(("agent", "sends"), AGENTS)


@each_agent
def test_an_agent_sends_what_our_session_holds(
    agent: str, sends: Callable[..., list[Message]], tmp_path: Path
) -> None:
    check(written(tmp_path), agent, sends, tmp_path)


def continued(home: Path, made: Resumption) -> str:
    """The file in which an agent goes on with a session that it may have taken in."""
    database = home / ".local/share/opencode/opencode.db"
    return f"{database}/{made.command[-1]}.jsonl" if made.setup else made.file


@pytest.mark.soak
@each_agent
def test_an_agent_goes_on_with_a_session_that_went_on_in_another(
    agent: str, sends: Callable[..., list[Message]], tmp_path: Path
) -> None:
    home, project = places(tmp_path)

    def planned(file: str, agent: str) -> Resumption:
        return plan(facts_of(file), agent, str(project), environ={"HOME": str(home)})

    first = planned(str(written(tmp_path)), agent)
    sends(home, first)
    other, goes_on = ("codex", sent_by_codex) if agent == "pi" else ("pi", sent_by_pi)
    between = planned(continued(home, first), other)
    goes_on(home, between)
    back = planned(between.file, agent)
    assert back.file != first.file
    with Session.open(between.file, readonly=True) as session:
        expected = flat(session.context().messages)
    check_sent(flat(sends(home, back)), expected)


@pytest.mark.soak
@each_agent
@for_each("source", SOURCES)
def test_an_agent_sends_what_a_session_of_any_agent_holds(
    source: str, agent: str, sends: Callable[..., list[Message]], tmp_path: Path
) -> None:
    check(SOURCES[source](tmp_path), agent, sends, tmp_path)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
@each_agent
@for_each("seed", range(RANDOM))
def test_random_sessions(
    seed: int, agent: str, sends: Callable[..., list[Message]], tmp_path: Path
) -> None:
    answered = agent in ("claude-code", "pi")
    file = grown(tmp_path / "random.jsonl", Random(seed), answered=answered)
    check(file, agent, sends, tmp_path)
