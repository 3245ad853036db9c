"""Droid's sessions: what is Droid's own, and holds for no other agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sessiontree import Session
from sessiontree.agents import named, recognise
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from tests.support.table import for_each

ID: Final = "5b1f0c52-7f0e-4c1b-9d55-2f1f4f0a9e01"
FIXTURE: Final = Path(__file__).parents[2] / f"fixtures/agents/droid/0.225.2/{ID}.jsonl"
START: Final[dict[str, Any]] = {
    "type": "session_start",
    "id": "s1",
    "title": "Build it",
    "owner": "unknown",
    "version": 2,
    "cwd": "/p",
}


def said(id: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more}
    at = "2026-11-20T09:00:00.000Z"
    return {"type": "message", "id": id, "timestamp": at, "message": message}


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    file = folder / "s1.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in (START, *lines)))
    return file


def test_the_facts_are_in_the_first_line_and_the_times_in_others() -> None:
    facts = facts_of(str(FIXTURE))
    assert (facts.agent, facts.id, facts.cwd) == ("Droid", ID, "/home/me/app")
    assert (facts.name, facts.first_message) == ("Retries of the API", "Why do the retries fail?")
    assert facts.created == "2026-11-20T09:00:01.000Z"
    assert facts.modified == "2026-11-20T09:00:15.000Z"  # the last line has no time


def test_the_placeholder_of_a_title_is_none(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write_text(json.dumps({**START, "sessionTitle": "New Session"}) + "\n")
    assert facts_of(str(file)).name == "Build it"


def test_all_lines_are_entries_in_the_order_of_the_file() -> None:
    lines = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
    with Session.open(FIXTURE, readonly=True) as session:
        entries = [entry.as_stored for entry in session.entries()]
        assert (session.verify(), session.notes) == ([], [])
        assert [turn[0].uuid[:2] for turn in session.turns()] == ["01", "07", "11"]
    assert len(entries) == len(lines)
    above = [entry["uuid"] for entry in entries[:-1]]
    assert [entry["parentUuid"] for entry in entries[1:]] == above
    assert not any(entry["uuid"].startswith("context-") for entry in entries)
    assert entries[0]["timestamp"] == lines[1]["timestamp"]


def test_hooks_and_errors_are_for_the_user_and_reminders_are_the_programs() -> None:
    with Session.open(FIXTURE, readonly=True) as session:
        entries = [entry.as_stored for entry in session.entries()]
    hidden = [each for each in entries if each.get("customType") == "droid:message"]
    assert [each["data"]["message"]["visibility"] for each in hidden] == ["user_only"] * 3
    marked = [each for each in entries if each.get("metadata", {}).get("isMeta")]
    assert [each["message"]["visibility"] for each in marked] == ["llm_only"] * 2


def test_reminders_alone_are_marked_in_files_without_a_visibility(tmp_path: Path) -> None:
    reminder = {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}
    prompt = {"type": "text", "text": "Build it"}
    file = written(tmp_path, said("m1", "user", [reminder]), said("m2", "user", [reminder, prompt]))
    assert facts_of(str(file)).first_message == "Build it"
    with Session.open(file, readonly=True) as session:
        assert [turn[0].uuid for turn in session.turns()] == ["m2"]


@for_each("content", [[{"type": "text", "text": "Ok"}], "Ok", [], None])
def test_reasoning_beside_the_content_becomes_a_block_once(tmp_path: Path, content: Any) -> None:
    beside = {"chatCompletionReasoningContent": "Hm"}
    thought = {"type": "thinking", "thinking": "Hm"}
    blocks = content if isinstance(content, list) else [{"type": "text", "text": "Ok"}]
    file = written(
        tmp_path,
        said("m1", "assistant", content, **beside),
        said("m2", "assistant", [thought], modelId="glm", **beside),
    )
    with Session.open(file, readonly=True) as session:
        first, second = (entry.as_stored["message"] for entry in list(session.entries())[1:])
    assert first["content"] == [thought, *(blocks if content is not None else [])]
    assert (second["content"], second["model"]) == ([thought], "glm")


def test_a_compaction_keeps_what_is_below_its_anchor(tmp_path: Path) -> None:
    with Session.open(FIXTURE, readonly=True) as session:
        messages = session.context().messages
    roles = [message["role"] for message in messages[1:]]
    assert roles == ["user", "user", "assistant", "user", "assistant"]
    assert messages[0]["summary"] == "The retries hammered the API."
    summary = {"type": "compaction_state", "id": "c", "summaryText": "It is built."}
    for anchor in ({}, {"anchorMessage": {"id": "m1"}}, {"anchorMessage": {"id": "none"}}):
        file = written(tmp_path, said("m1", "user", "Build it"), {**summary, **anchor})
        with Session.open(file, readonly=True) as session:
            assert [each.get("summary") for each in session.context().messages] == ["It is built."]
            assert session.verify() == []


def test_the_tally_has_turns_and_model_and_without_settings_no_tokens() -> None:
    ((_, counted),) = CountCache(None).counted([facts_of(str(FIXTURE))], None)
    assert counted is not None
    assert (counted.turns, counted.model) == (3, "claude-opus-4-7")
    assert counted.usage.tokens == 0


def test_a_start_of_another_program_is_not_droids() -> None:
    assert recognise(json.dumps({"type": "session_start", "id": "x"}).encode() + b"\n") is None
    assert recognise(json.dumps({**START, "id": ""}).encode() + b"\n") is None


def test_a_session_is_resumed_by_its_id_in_the_folder_of_its_directory() -> None:
    droid = named("droid")
    assert droid is not None
    assert droid.resume(ID, str(FIXTURE)) == ["--resume", ID]
    assert (droid.own_id(str(FIXTURE)), droid.own_id("/s/notes.jsonl")) == (ID, None)
    home = droid.destination("/h", "/home/me/app", "", {}, None)  # type: ignore[arg-type]
    assert home.folder == "/h/-home-me-app"
