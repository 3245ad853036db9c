"""Copilot CLI's sessions: what is Copilot CLI's own, and holds for no other agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sessiontree import Session
from sessiontree.agents import named, recognise
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from tests.agents.copilot_samples import PROMPT, SAMPLES
from tests.agents.qwen_samples import read

VERSION: Final = sorted(SAMPLES.iterdir())[-1]
(FILE,) = VERSION.glob("*/events.jsonl")
SENT: Final = json.loads((VERSION / "sent.json").read_text())

Event = dict[str, Any]
START: Final[Event] = {
    "type": "session.start",
    "data": {"sessionId": "s1", "copilotVersion": "1", "context": {"cwd": "/p"}},
}


def event(kind: str, /, agent: str | None = None, **data: Any) -> Event:
    return {"type": kind, "data": data, **({"agentId": agent} if agent else {})}


def asked(words: str, **data: Any) -> Event:
    return event("user.message", content=words, **data)


def answered(words: str, *calls: str) -> Event:
    requests = [{"toolCallId": call, "name": "bash", "arguments": {}} for call in calls]
    return event("assistant.message", content=words, toolRequests=requests, model="m")


def written(folder: Path, *events: Event) -> Path:
    file = folder / "s1" / "events.jsonl"
    file.parent.mkdir(exist_ok=True)
    above: str | None = None
    lines = []
    for number, each in enumerate((START, *events)):
        at = f"2026-11-20T09:00:{number:02}.000Z"
        lines.append({**each, "id": f"e{number}", "timestamp": at, "parentId": above})
        above = f"e{number}"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def texts(file: Path) -> list[str]:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return [parts[0] for _, parts in read(session.context().messages)]


def test_the_sample_gives_what_copilot_cli_sent() -> None:
    with Session.open(FILE, readonly=True) as session:
        assert (session.verify(), session.notes) == ([], [])
        (compaction,) = session.find(type="compaction")
        messages = session.context(session.entry(compaction.parent_uuid or "")).messages
        told = [message for message in messages if message["role"] != "system"]
    *here, _answer = read(told)
    assert [[role, said] for role, said in here] == SENT


def test_a_list_has_the_facts() -> None:
    facts = facts_of(str(FILE))
    assert (facts.agent, facts.id, facts.cwd) == (
        "Copilot CLI",
        FILE.parent.name,
        "/home/user/project",
    )
    assert facts.first_message == PROMPT
    ((_, counted),) = CountCache(None).counted([facts], None)
    assert counted is not None
    assert (counted.turns, counted.model) == (3, "fake-1")


def test_a_subagent_is_a_lane_below_its_call() -> None:
    with Session.open(FILE, readonly=True) as session:
        (agent,) = (agent for turn in session.outline().turns for agent in turn.subagents)
        assert (agent.name, agent.task) == ("general-purpose", "Count lines")
        assert len(session.branches()) == 1
    with Session.open(FILE, readonly=True, lane=agent.lane) as session:
        told = read(session.context().messages)
    assert told[-1] == ("assistant", ["The notes have two lines."])


def test_a_call_without_success_is_an_error_and_an_edit_is_seen() -> None:
    with Session.open(FILE, readonly=True) as session:
        events = session.file_events()
        found = session.find(type="message")
        results = [each["message"] for entry in found if (each := entry.as_stored)]
        changed = [each.path for each in events if each.edit is not None]
    failed = [each["content"][0]["text"] for each in results if each.get("isError")]
    assert failed == ["Path does not exist"]
    assert changed == ["/home/user/project/notes.md"]


def test_a_compaction_keeps_what_came_after_its_start(tmp_path: Path) -> None:
    done = event("session.compaction_complete", success=True, summaryContent="It is built.")
    begun = event("session.compaction_start")
    between = [asked("And now?"), begun, answered("Now.")]
    assert texts(written(tmp_path, asked("Go"), *between, done)) == ["It is built.", "Now."]
    assert texts(written(tmp_path, asked("Go"), begun, done)) == ["It is built."]
    failed = event("session.compaction_complete", success=False, error="no")
    assert texts(written(tmp_path, asked("Go"), begun, failed)) == ["Go"]


def test_a_rewind_is_a_branch_if_what_it_took_back_is_there(tmp_path: Path) -> None:
    events = [asked("Go"), answered("Gone."), asked("Red"), answered("It is red.")]
    for id, said in (("e3", ["Go", "Gone.", "Blue"]), ("e9", ["Go", "Gone.", "Red", "It is red."])):
        rewind = event("session.snapshot_rewind", upToEventId=id, eventsRemoved=2)
        assert texts(written(tmp_path, *events, rewind, asked("Blue")))[: len(said)] == said


def test_what_copilot_cli_wrote_begins_no_turn(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        asked("Go"),
        answered("Gone."),
        asked("Use the skill", source="skill-x"),
        event("system.notification", content="<system_notification>Done"),
        event("user.message", "a1", content="A task", source="agent-s1"),
    )
    with Session.open(file, readonly=True) as session:
        assert [turn[0].uuid for turn in session.turns()] == ["e1"]
    with Session.open(file, readonly=True) as session:
        assert len(session.context().messages) == 4
    ((_, counted),) = CountCache(None).counted([facts_of(str(file))], None)
    assert counted is not None
    assert counted.turns == 1


def test_an_image_is_a_block(tmp_path: Path) -> None:
    image = {"type": "blob", "data": "aGk=", "mimeType": "image/png"}
    file = written(tmp_path, asked("Look", attachments=[image, {"type": "file", "path": "/p/a"}]))
    with Session.open(file, readonly=True) as session:
        (message,) = session.context().messages
    assert message["content"][1:] == [{**image, "type": "image"}]


def test_a_file_without_its_first_line_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, asked("Go"), answered("Gone."))
    file.write_bytes(file.read_bytes().partition(b"\n")[2])
    assert texts(file) == ["Go", "Gone."]


def test_the_events_of_other_programs_are_not_copilots() -> None:
    about = {"id": "e", "timestamp": "t", "parentId": None}
    for keys in (
        {**about, "type": "session.begin", "data": {"x": 1}},
        {"type": "user.message", "data": {"content": "Go"}},
        {"type": "session.start", "payload": {}},
        {**about, "type": "user.message", "data": "Go"},
    ):
        found = recognise(json.dumps(keys).encode() + b"\n")
        assert found is None, keys


def test_a_session_is_resumed_by_the_name_of_its_folder() -> None:
    copilot = named("copilot")
    assert copilot is not None
    id = FILE.parent.name
    assert copilot.resume(id, str(FILE)) == ["--resume", id]
    assert (copilot.own_id(str(FILE)), copilot.own_id("/s/events.jsonl")) == (id, None)
    assert copilot.opens(str(FILE))


def test_the_tokens_are_those_that_copilot_cli_adds_up() -> None:
    """The sums at the end of a session lack the request for the summary."""
    lines = [json.loads(line) for line in FILE.read_text().splitlines()]
    told = lines[-1]["data"]["accountingSnapshot"]["modelMetrics"]["fake-1"]["usage"]
    (asked,) = (line["data"] for line in lines if line["type"] == "session.compaction_complete")
    used = asked["compactionTokensUsed"]
    ((_, counted),) = CountCache(None).counted([facts_of(str(FILE))], None)
    assert counted is not None
    usage = counted.usage
    assert usage.input + usage.cache_read == told["inputTokens"] + used["inputTokens"]
    assert usage.output == told["outputTokens"] + used["outputTokens"]
    assert usage.cache_read == told["cacheReadTokens"] + used["cacheReadTokens"]
