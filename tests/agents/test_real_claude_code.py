"""What Claude Code sends to a model is the context that sessiontree reads from its transcript."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.importing.importer import import_session
from sessiontree.library.file_history import blame, history, states
from tests.agents.claude_code import Conversation, conversation, program, seen, sent
from tests.support.table import for_each

pytestmark = pytest.mark.skipif(
    program() is None, reason="Claude Code is not installed: it is in the wheel of claude-agent-sdk"
)

PROMPTS = ["HELLO", "READ 0", "READ 3 1 2", "ASK fork", "back", "/compact", "/compact"]
PROMPTS += ["/look 1", "/greet", "/usage"]
RANDOM = int(os.environ.get("SESSIONTREE_AGENT_SESSIONS", "2"))
"""The number of random sessions; 50 take a few minutes."""


REFUSED = json.dumps([{"text": "REFUSE", "type": "text"}])[1:] + ', "role": "user"}]'
"""The end of a request that the model refuses."""


def read(file: Path) -> list[str]:
    """The context at each answer, as the request that was sent for it."""
    contexts = []
    with Session.open(file, readonly=True) as session:
        responses: set[str] = set()
        for entry in session.find(type="message"):
            message = entry["message"]
            if message["role"] != "assistant" or message["id"] in responses:
                continue
            responses.add(message["id"])
            with session.lane(entry.lane or "main") as lane:
                request = lane.context(entry.parent_uuid).to_anthropic()
            contexts.append(json.dumps(seen(request.params["messages"]), sort_keys=True))
    return sorted(contexts)


def check(talk: Conversation, folder: Path, branches: int) -> None:
    with Session.open(talk.file, readonly=True) as session:
        assert (session.verify(), session.notes) == ([], [])
        found = session.branches()
        assert len(found) == branches  # the lanes of subagents are none
    assert import_session(talk.file, folder / "store").damage == []
    assert import_session(talk.file, folder / "store").new == 0


def test_parallel_calls_subagents_forks_and_a_compaction(tmp_path: Path) -> None:
    with conversation(tmp_path) as (talk, served):
        talk.say("HELLO")
        talk.say("READ 0 1 2 3")
        talk.say("ASK general-purpose fork")
        talk.say("/compact")
        talk.say("HELLO again")
        assert read(talk.file) == sent(served)
        check(talk, tmp_path, branches=1)


@pytest.mark.soak
def test_its_edits_are_blamed_and_recovered(tmp_path: Path) -> None:
    with conversation(tmp_path) as (talk, _):
        talk.say("READ 0 1")
        talk.say("EDIT 0 content changed")
        talk.say("EDIT 1 nowhere changed")
        talk.say("WRITE new one line")
        talk.say("EDIT new one another")
        project = talk.project

        def blamed(name: str) -> list[tuple[str, str, str | None]]:
            found = blame(str(project / name), lambda: [str(talk.file)], pytest.fail)
            return [(line.text, line.certainty, line.prompt) for line in found]

        def last_state(name: str) -> str:
            return states(str(project / name), lambda: [str(talk.file)], pytest.fail)[-1].text()

        assert blamed("0.txt") == [("changed 0", "exact", "EDIT 0 content changed")]
        assert blamed("1.txt") == [("content 1", "none", None)]
        assert blamed("new.txt") == [("another line", "exact", "EDIT new one another")]
        for name in ("0.txt", "1.txt", "new.txt"):
            assert last_state(name) == (project / name).read_text()
        edits = history(str(project / "1.txt"), lambda: [str(talk.file)], pytest.fail)
        assert [edit.outcome for edit in edits] == ["failed"]


@pytest.mark.soak
def test_each_recorded_request_is_the_one_that_was_sent(tmp_path: Path) -> None:
    with conversation(tmp_path) as (talk, served):
        for prompt in ("HELLO", "READ 0 1", "ASK general-purpose", "/compact", "HELLO again"):
            talk.say(prompt)
        wanted = [as_recorded(request) for request in served.requests]
        imported = import_session(talk.file, tmp_path / "store").file
        for file in (talk.file, Path(imported)):
            with Session.open(file, readonly=True) as session:
                found = [
                    session.sent_request(entry.uuid)
                    for entry in session.find(type="message")
                    if entry["message"]["role"] == "assistant"
                ]
            assert len(found) >= 8
            assert not [warning for request in found for warning in request.warnings]
            assert all(as_recorded(request.params) in wanted for request in found)


def as_recorded(request: dict[str, Any]) -> dict[str, Any]:
    """A request without what is not recorded, and with each text as a block."""
    left_out = ("metadata", "stream", "betas")
    made = {key: value for key, value in request.items() if key not in left_out}
    system = [block for block in made["system"] if "billing-header" not in block["text"]]
    messages = []
    for message in made["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages.append({**message, "content": blocks})
    return {**made, "system": system, "messages": messages}


@pytest.mark.soak
def test_going_back_is_the_only_branch(tmp_path: Path) -> None:
    with conversation(tmp_path) as (talk, served):
        talk.say("HELLO")
        with Session.open(talk.file, readonly=True) as session:
            first = session.context().entries[-1].uuid
        talk.say("READ 0 1")
        talk.say("READ 2 3 missing")
        talk.go_back(first, "READ 1 2")
        assert read(talk.file) == sent(served)
        check(talk, tmp_path, branches=2)


@pytest.mark.soak
def test_what_no_prompt_and_no_answer_says_is_sent_or_not(tmp_path: Path) -> None:
    with conversation(tmp_path) as (talk, served):
        talk.say("HELLO")
        talk.say("/compact")
        talk.say("/compact")  # refused: there is nothing to compact
        for prompt in ("/look 1", "/greet", "/usage", "/nothing"):
            talk.say(prompt)
        talk.say("REFUSE", fails=True)
        talk.say_during("READ 2", "HELLO meanwhile")
        talk.say("HELLO again")
        assert read(talk.file) == [each for each in sent(served) if not each.endswith(REFUSED)]
        check(talk, tmp_path, branches=1)
        with Session.open(talk.file, readonly=True) as session:
            asked = [turn.prompt for turn in session.outline().turns]
        commands = ["/compact", "/compact", "/look 1", "/greet", "/usage", "/nothing"]
        assert asked == ["HELLO", *commands, "REFUSE", "READ 2", "HELLO meanwhile", "HELLO again"]


@pytest.mark.soak
@for_each("seed", range(RANDOM))
def test_random_sessions(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    with conversation(tmp_path) as (talk, served):
        branches, answers = 1, list[str]()
        talk.say("HELLO")
        for _ in range(dice.randint(1, 6)):
            chosen = dice.choice(PROMPTS)
            if chosen == "back" and len(answers) > 1:
                at = dice.randrange(len(answers) - 1)
                talk.go_back(answers[at], "READ 0 3")
                del answers[at + 1 :]
                branches += 1
            else:
                talk.say("HELLO" if chosen == "back" else chosen)
            if chosen == "/compact":
                answers.clear()
            with Session.open(talk.file, readonly=True) as session:
                last = session.context().entries[-1]
            if last.get("message", {}).get("role") == "assistant":
                answers.append(last.uuid)
        assert read(talk.file) == sent(served)
        check(talk, tmp_path, branches)


@pytest.mark.soak
def test_a_store_has_what_the_program_sent_over_resumes_and_forks(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with conversation(tmp_path) as (talk, served):
        id = talk.say_stored(root, "READ 0 1 2 3")
        for prompt in (
            "ASK general-purpose",
            "/compact",
            "HELLO again",
        ):  # a fork may come too soon
            assert talk.say_stored(root, prompt, id) == id
        (file,) = root.glob("claude-agent-sdk/*/*.jsonl")
        assert read(file) == sent(served)
        served.requests.clear()
        fork = talk.say_stored(root, "READ 1 2", id, "fork")
        assert fork != id
        (other,) = {*root.glob("claude-agent-sdk/*/*.jsonl")} - {file}
        assert {*sent(served)} <= {*read(other)}
        for each in (file, other):
            with Session.open(each, readonly=True) as session:
                assert (session.verify(), session.notes) == ([], [])
                assert len(session.branches()) == 1


def test_a_store_tells_what_the_transcript_of_the_program_tells(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with conversation(tmp_path) as (talk, _):
        talk.id = talk.say_stored(root, "ASK general-purpose general-purpose")
        (file,) = root.glob("claude-agent-sdk/*/*.jsonl")
        with (
            Session.open(file, readonly=True) as ours,
            Session.open(talk.file, readonly=True) as theirs,
        ):
            assert ours.context().messages == theirs.context().messages
            assert told(ours) == told(theirs)


def told(session: Session) -> list[Any]:
    """The turns of a session and its subagents."""
    return sorted(
        (turn.uuid, turn.number, turn.prompt, turn.answer, turn.outcome, len(turn.subagents))
        for turn in session.outline().turns
    )
