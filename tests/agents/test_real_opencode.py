"""What the real OpenCode sends, and exports, of a session is what sessiontree reads of it.

Set `OPENCODE` to the program `opencode` of the npm package `opencode-linux-x64`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from sessiontree import Session
from sessiontree.storage.databases import sessions_in
from tests.agents import ccusage
from tests.agents.opencode_driver import PROGRAM, WAIT, OpenCode, running
from tests.agents.opencode_samples import Ask, played, prompt, sent_of, told_by, told_in
from tests.agents.qwen_driver import Json, call, text
from tests.agents.qwen_samples import read
from tests.agents.test_ccusage import our_sums
from tests.support.soak import in_soak

pytestmark = pytest.mark.skipif(
    not PROGRAM, reason="OpenCode is not installed: set OPENCODE to the path of its program"
)


ABORTED = ("tool", ["Tool execution aborted"])
"""A result that OpenCode keeps; whether it sends it depends on when the next prompt comes."""


@pytest.fixture(scope="module")
def opencode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCode]:
    with running(tmp_path_factory.mktemp("opencode")) as opencode:
        yield opencode


@pytest.fixture(scope="module")
def ids(opencode: OpenCode) -> dict[str, str]:
    """The ids of the sessions that it played: first, child, fork."""
    with opencode.served() as ask:
        return played(opencode, ask)


def opened(opencode: OpenCode, id: str) -> Session:
    session = Session.open(f"{opencode.database}/{id}.jsonl", readonly=True)
    assert (session.verify(), session.notes, session.damage) == ([], [], [])
    return session


def test_a_session_and_its_fork_are_read_as_opencode_sends_them(
    opencode: OpenCode, ids: dict[str, str]
) -> None:
    for name in ("first", "child", "fork"):
        with opened(opencode, ids[name]) as session:
            *here, _answer = read(session.context().messages)
        assert here == sent_of(opencode.requests, here[-1]), name


def test_a_session_is_read_as_opencode_exports_it(opencode: OpenCode, ids: dict[str, str]) -> None:
    for name, id in ids.items():
        told = json.loads(opencode.call("export", id))
        with opened(opencode, id) as session:
            assert told_by(session) == told_in(told), name
            assert session.id == told["info"]["id"] == id


def test_a_turn_that_the_user_interrupts(opencode: OpenCode) -> None:
    with opencode.served() as ask:
        id = ask("/session", {})["id"]
        slow = call("bash", command="sleep 60", description="Wait")
        opencode.answers.extend([[text("I wait."), slow]])
        ask(f"/session/{id}/prompt_async", {"parts": [text("Wait a minute")]})
        wait_for(lambda: any(is_running(part) for part in parts_of(ask, id)))
        ask(f"/session/{id}/abort", {})
        wait_for(lambda: not any(is_running(part) for part in parts_of(ask, id)))
        wait_for(lambda: all(is_ended(one["info"]) for one in ask(f"/session/{id}/message")))
        ask(f"/session/{id}/message", {"parts": [text("And now?")]})
        told = {"info": ask(f"/session/{id}"), "messages": ask(f"/session/{id}/message")}
    with opened(opencode, id) as session:
        assert told_by(session) == told_in(told)
        messages = session.context().messages
        *here, _answer = read(messages)
    assert [message["stopReason"] for message in messages if "stopReason" in message] == ["aborted"]
    sent = sent_of(opencode.requests, here[-1])
    here, sent = ([one for one in each if one != ABORTED] for each in (here, sent))
    assert here == sent


def is_running(part: Json) -> bool:
    return part["type"] == "tool" and bool(part["state"]["status"] == "running")


def is_ended(message: Json) -> bool:
    return message["role"] == "user" or "completed" in message["time"]


def parts_of(ask: Ask, id: str) -> list[Json]:
    return [part for message in ask(f"/session/{id}/message") for part in message["parts"]]


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@in_soak("count", 3, 20)
def test_random_sessions_are_read_as_opencode_exports_them(count: int, tmp_path: Path) -> None:
    with running(tmp_path) as opencode, opencode.served() as ask:
        for seed in range(count):
            id = played_at_random(opencode, ask, Random(seed))
            told = {"messages": ask(f"/session/{id}/message")}
            with opened(opencode, id) as session:
                assert told_by(session) == told_in(told), seed


def played_at_random(opencode: OpenCode, ask: Ask, random: Random) -> str:
    """A session with some prompts, calls that may fail, and summaries, forks and reverts."""
    id = str(ask("/session", {})["id"])
    notes = opencode.project / "notes.md"
    notes.write_text("# Notes\nRetries hammer the API.\n" * 20)
    for _ in range(random.randint(1, 5)):
        for _ in range(random.randint(0, 3)):
            said = [text(random.choice(("I look.", "Ä \u2028 \U0001f600", " ")))]
            calls = [random.choice(CALLS) for _ in range(random.randint(1, 3))]
            opencode.answers.append([*said[: random.randint(0, 1)], *calls])
        prompt(ask, id, text(random.choice(("Go on", '"quoted"', "# Öffne\n\tdas"))))
        what = random.random()
        if what < 0.15:
            ask(f"/session/{id}/summarize", {"providerID": "fake", "modelID": "fake-1"})
        elif what < 0.3:
            id = str(ask(f"/session/{id}/fork", {})["id"])
    return id


CALLS: Final = (
    call("read", filePath="notes.md", offset=2, limit=3),
    call("read", filePath="/none"),
    call("bash", command="echo out; exit 1", description="Fail"),
    call("bash", command="printf 'a\\nb'", description="Print"),
    call("edit", filePath="notes.md", oldString="hammer", newString="wait"),
    call("write", filePath="new.md", content="# New\n"),
    call("glob", pattern="*.md"),
    call("nothing", at="all"),
)


@pytest.mark.skipif(
    not ccusage.PROGRAM, reason="ccusage is not installed: set CCUSAGE to the path of its program"
)
def test_the_costs_are_those_of_ccusage(opencode: OpenCode, ids: dict[str, str]) -> None:
    """It counts the answers that a fork copied once more; here each session counts alone."""
    each = [our_sums([Path(file)]) for file in sessions_in(str(opencode.database))]
    *tokens, cost = map(sum, zip(*each, strict=True))
    *their_tokens, their_cost = ccusage.sums_of(opencode.home, "opencode")
    assert tokens == their_tokens
    assert cost == pytest.approx(their_cost, abs=0.01 * len(each))
