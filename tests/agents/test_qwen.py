"""Qwen Code's sessions: what is Qwen Code's own, and holds for no other agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, Store
from sessiontree.agents import named, recognise
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from tests.agents import ccusage
from tests.agents.qwen_samples import PROMPT, SAMPLES, read

VERSION: Final = sorted(SAMPLES.iterdir())[-1]
SENT: Final[dict[str, Any]] = json.loads((VERSION / "sent.json").read_text())
FIRST, FORK = (next(VERSION.rglob(f"chats/{id}.jsonl")) for id in SENT)


def line(uuid: str, parent: str | None, kind: str, **more: Any) -> dict[str, Any]:
    about = {"uuid": uuid, "parentUuid": parent, "sessionId": "s1", "type": kind, "cwd": "/p"}
    return {**about, "timestamp": "2026-11-20T09:00:00.000Z", **more}


def said(uuid: str, parent: str | None, words: str, **more: Any) -> dict[str, Any]:
    is_answer = more.pop("kind", "user") == "assistant"
    role, kind = ("model", "assistant") if is_answer else ("user", "user")
    message = {"role": role, "parts": [{"text": words}]}
    return line(uuid, parent, kind, message=message, **more)


def system(uuid: str, parent: str | None, subtype: str, **payload: Any) -> dict[str, Any]:
    return line(uuid, parent, "system", subtype=subtype, systemPayload=payload)


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    file = folder / "s1.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return file


def texts(file: Path) -> list[str]:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return [parts[0] for _, parts in read(session.context().messages)]


def test_the_samples_give_what_qwen_code_sent() -> None:
    for file in (FIRST, FORK):
        with Session.open(file, readonly=True) as session:
            assert (session.verify(), session.notes) == ([], [])
            *here, _answer = session.context().messages
            assert [[role, said] for role, said in read(here)] == SENT[file.stem]


def test_a_list_has_the_facts_and_the_fork_its_original() -> None:
    rows = {row.id: row for row in Store(VERSION).list()}
    assert rows.keys() == SENT.keys()  # the subagent's file is no session of its own
    first, fork = rows[FIRST.stem], rows[FORK.stem]
    assert (first.agent, first.cwd, first.first_message) == (
        "Qwen Code",
        "/home/user/project",
        PROMPT,
    )
    assert (fork.copy_of, fork.first_message) == (FIRST.stem, PROMPT)


def test_a_subagent_is_a_lane_below_its_call() -> None:
    with Session.open(FIRST, readonly=True) as session:
        (agent,) = (agent for turn in session.outline().turns for agent in turn.subagents)
        assert agent.name == "general-purpose"
    with Session.open(FIRST, readonly=True, lane=agent.lane) as session:
        told = read(session.context().messages)
    assert told[-1] == ("assistant", ["The notes have two lines."])


def test_a_failed_command_is_an_error_and_an_edit_is_seen() -> None:
    with Session.open(FIRST, readonly=True) as session:
        results = [m for m in session.context().messages if m["role"] == "toolResult"]
        changed = [event.path for event in session.file_events() if event.edit is not None]
    assert [result["isError"] for result in results[:3]] == [False, True, False]
    assert changed == ["/home/user/project/notes.md"]


def test_a_rewind_is_a_branch(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        said("1", None, "Build it"),
        said("2", "1", "Built.", kind="assistant"),
        said("3", "2", "Paint it red"),
        said("4", "3", "Red.", kind="assistant"),
        system("5", "2", "rewind", truncatedCount=2),
        said("6", "5", "Paint it blue"),
    )
    assert texts(file) == ["Build it", "Built.", "Paint it blue"]
    with Session.open(file, readonly=True) as session:
        assert len(session.branches()) == 2


def test_a_compression_replaces_what_is_above_it(tmp_path: Path) -> None:
    history = [
        {"role": "user", "parts": [{"text": "It is built."}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
    ]
    compressed = system("2", "1", "chat_compression", compressedHistory=history)
    file = written(tmp_path, said("1", None, "Build it"), compressed, said("3", "2", "Paint it"))
    assert texts(file) == ["It is built.", "Got it.", "Paint it"]
    empty = system("2", "1", "chat_compression", compressedHistory=[])
    file = written(tmp_path, said("1", None, "Build it"), empty, said("3", "2", "Paint it"))
    assert texts(file) == ["Build it"]  # the user's messages that follow each other are one


def test_a_title_names_a_session_the_last_one_counts(tmp_path: Path) -> None:
    titles = [system("2", "1", "custom_title", customTitle="A"), said("3", "2", "x" * 70_000)]
    titles.append(system("4", "3", "custom_title", customTitle="B"))
    file = written(tmp_path, said("1", None, "Build it"), *titles)
    assert facts_of(str(file)).name == "B"
    with Session.open(file, readonly=True) as session:
        assert session.name == "B"


def test_what_the_program_wrote_begins_no_turn(tmp_path: Path) -> None:
    note = said("3", "2", "<task-notification>", subtype="notification", provenance="system")
    spoken = said("4", "3", "Hello", subtype="realtime_message")
    file = written(
        tmp_path, said("1", None, "Go"), said("2", "1", "Gone.", kind="assistant"), note, spoken
    )
    with Session.open(file, readonly=True) as session:
        assert [turn[0].uuid for turn in session.turns()] == ["1"]
    assert texts(file) == ["Go", "Gone.", "<task-notification>"]  # no model gets what was spoken
    ((_, counted),) = CountCache(None).counted([facts_of(str(file))], None)
    assert counted is not None
    assert counted.turns == 1


def test_the_parts_of_a_message_with_one_uuid_follow_each_other(tmp_path: Path) -> None:
    first, second = (said("2", "1", words, kind="assistant") for words in ("One.", "Two."))
    file = written(tmp_path, said("1", None, "Go"), first, second, said("3", "2", "On"))
    assert texts(file) == ["Go", "One.", "Two.", "On"]


def test_a_subagent_alone_has_an_id_of_its_own() -> None:
    (file,) = VERSION.rglob("agent-*.jsonl")
    facts = facts_of(str(file))
    assert facts.id == f"{FIRST.stem}.{file.stem}"
    assert facts.first_message == "Count the lines of the notes."


def test_the_lines_of_other_programs_are_not_qwen_codes() -> None:
    for keys in (
        {"message": {"role": "user", "content": "Hi"}},
        {"message": {"role": "user", "parts": []}, "parentUuid": ...},
        {"projectHash": "h", "message": {"role": "user", "parts": []}},
    ):
        given = {**line("1", None, "user"), **keys}
        bare = {key: value for key, value in given.items() if value is not ...}
        found = recognise(json.dumps(bare).encode() + b"\n")
        assert found is None or found.name != "qwen"


def test_a_session_is_resumed_by_its_id_in_the_folder_of_its_directory() -> None:
    qwen = named("qwen")
    assert qwen is not None
    assert qwen.resume(FIRST.stem, str(FIRST)) == ["--resume", FIRST.stem]
    assert (qwen.own_id(str(FIRST)), qwen.own_id("/s/notes.jsonl")) == (FIRST.stem, None)
    assert qwen.opens(str(FIRST))
    home = qwen.destination("/h", "/home/me/my_app", "", {}, None)  # type: ignore[arg-type]
    assert home.folder == "/h/-home-me-my-app/chats"


@pytest.mark.skipif(
    not ccusage.PROGRAM,
    reason="ccusage is not installed: set CCUSAGE to the path of its program",
)
def test_ccusage_counts_the_same_answers(tmp_path: Path) -> None:
    """ccusage adds the tokens of the cache to the input, of which they are a part."""
    chats = tmp_path / ".qwen/projects/-p/chats"
    chats.mkdir(parents=True)
    (chats / FIRST.name).write_bytes(FIRST.read_bytes())
    ((_, counted),) = CountCache(None).counted([facts_of(str(chats / FIRST.name))], None)
    assert counted is not None
    usage, sums = counted.usage, ccusage.sums_of(tmp_path, "qwen")
    assert (usage.input + usage.cache_read, usage.output) == (sums.input, sums.output)
    assert usage.cache_read == sums.cache_read
