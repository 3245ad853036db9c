"""What Claude Code sends to a model is the context that sessiontree reads from its transcript."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.importing import import_session
from tests.agents.claude_code import Conversation, conversation, program, seen, sent

pytestmark = pytest.mark.skipif(
    program() is None, reason="Claude Code is not installed: it is in the wheel of claude-agent-sdk"
)

RANDOM = int(os.environ.get("SESSIONTREE_AGENT_SESSIONS", "2"))
"""The number of random sessions; 50 take a few minutes."""


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
        assert len([branch for branch in found if branch.lane is None]) == branches
        assert len(found) - branches == len(session.reader.index().lanes) - 1
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


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_sessions(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    with conversation(tmp_path) as (talk, served):
        branches, answers = 1, list[str]()
        for _ in range(dice.randint(2, 6)):
            chosen = dice.choice(["HELLO", "READ 0", "READ 3 1 2", "ASK fork", "back", "/compact"])
            if chosen == "back" and len(answers) > 1:
                at = dice.randrange(len(answers) - 1)
                talk.go_back(answers[at], "READ 0 3")
                del answers[at + 1 :]
                branches += 1
            else:
                talk.say("HELLO" if chosen == "back" or not answers else chosen)
            if chosen == "/compact":
                answers.clear()
            with Session.open(talk.file, readonly=True) as session:
                answers.append(session.context().entries[-1].uuid)
        assert read(talk.file) == sent(served)
        check(talk, tmp_path, branches)
