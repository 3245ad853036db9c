"""Kimi Code's sessions: what is Kimi Code's own, and holds for no other agent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.agents import named
from sessiontree.importing.importer import import_session
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from sessiontree.library.places import sessions_in
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.support.homes import empty_home
from tests.support.table import for_each
from tests.support.terminal import run

FIXTURE: Final = Path(__file__).parents[2] / "fixtures/agents/kimi/2.1.0"
PROMPT: Final = "Why do our retries hammer the API? Fix the notes."
START: Final = {"type": "metadata", "protocol_version": "1.5", "created_at": 1_795_290_767_000}
AT: Final = 1_795_290_768_000


def _folders() -> dict[bool, Path]:
    """By whether it is a fork, the folder of a session."""
    states = FIXTURE.glob("*/*/state.json")
    return {"forkedFrom" in json.loads(state.read_text()): state.parent for state in states}


MAIN: Final = _folders()[False]
FORK: Final = _folders()[True]
LOG: Final = MAIN / "agents/main/wire.jsonl"
CHILD: Final = MAIN / "agents/agent-0/wire.jsonl"


def line(kind: str, **keys: Any) -> dict[str, Any]:
    return {"type": kind, "agentId": "main", **keys, "time": AT}


def said(words: str, role: str = "user", origin: str = "user") -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": words}]}
    return line("context.append_message", message={**message, "origin": {"kind": origin}})


def event(kind: str, **keys: Any) -> dict[str, Any]:
    return line("context.append_loop_event", event={"type": kind, **keys})


def part(words: str, step: str = "s1") -> dict[str, Any]:
    return event("content.part", stepUuid=step, part={"type": "text", "text": words})


def written(folder: Path, *lines: Any) -> Path:
    file = folder / "session_1" / "agents" / "main" / "wire.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(each) + "\n" for each in (START, *lines)))
    state = {"id": "session_1", "cwd": "/p", "title": "Notes", "isCustomTitle": True}
    (folder / "session_1" / "state.json").write_text(json.dumps(state))
    return file


def context_of(file: Path) -> list[Any]:
    """What a model gets: texts, or the messages without one text."""
    with Session.open(file, readonly=True) as session:
        assert (session.damage, session.verify()) == ([], [])
        found = session.context().messages
    return [each.get("summary") or each["content"][0].get("text") for each in found]


def test_the_facts_are_in_the_log_and_in_the_state(tmp_path: Path) -> None:
    facts = facts_of(str(LOG))
    assert (facts.agent, facts.id, facts.cwd) == ("Kimi Code", MAIN.name, "/home/user/project")
    assert (facts.name, facts.first_message, facts.copy_of) == (None, PROMPT, None)
    assert facts.modified is not None
    assert facts.modified > (facts.created or "")
    assert facts_of(str(written(tmp_path))).name == "Notes"


def test_a_list_has_forks_and_subagents_and_no_other_file() -> None:
    found = {one.file: one for one in sessions_in([str(FIXTURE)], pytest.fail)}
    forked = FORK / "agents/main/wire.jsonl"
    assert {str(LOG), str(CHILD), str(forked)} <= found.keys()
    assert found[str(forked)].copy_of == MAIN.name
    child = found[str(CHILD)]
    assert (child.id, child.copy_of) == (f"{MAIN.name}.agent-0", MAIN.name)
    assert child.first_message == "Count the lines of notes.md"


def test_what_a_fork_copied_counts_once_when_only_its_backup_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = empty_home(tmp_path, monkeypatch)
    sessions = top / ".kimi-code/sessions"
    shutil.copytree(FIXTURE, sessions)

    def counted() -> dict[str, Any]:
        (row,) = json.loads(run("stats", "--by", "agent", "--json").stdout)["rows"]
        return {key: row[key] for key in ("answers", "usage")}

    def forks() -> dict[str, str | None]:
        return {row["id"]: row["copyOf"] for row in json.loads(run("ls", "--json").stdout)}

    before, above = counted(), forks()
    assert above[FORK.name] == MAIN.name
    run("backup")
    (fork,) = sessions.glob(f"*/{FORK.name}")
    for gone in (fork, sessions):
        shutil.rmtree(gone)
        assert counted() == before
        assert forks() == above


def test_a_step_is_one_message_and_results_name_their_tools() -> None:
    with Session.open(LOG, readonly=True) as session:
        assert (session.damage, session.verify(), session.notes) == ([], [], [])
        entries = [entry.as_stored for entry in session.entries()]
        assert len(session.turns()) == 1
    messages = [each["message"] for each in entries if each["type"] == "message"]
    answers = [each for each in messages if each["role"] == "assistant"]
    kinds = [[block["type"] for block in each["content"]] for each in answers]
    call = "toolCall"
    assert kinds == [["text", call, call], ["text", call, call], ["text", call], ["text"]]
    assert {each["model"] for each in answers} == {"fake-1"}
    results = [each for each in messages if each["role"] == "toolResult"]
    told = sorted((each["toolName"], each["isError"]) for each in results)
    assert told == [
        *(("Agent", False), ("Bash", True), ("Edit", False), ("Read", False), ("Write", False))
    ]
    marked = [each for each in entries if each.get("metadata") == {"isMeta": True}]
    assert all("<system-reminder>" in each["message"]["content"][0]["text"] for each in marked)
    assert messages[0]["role"] == "system"


def test_edits_are_known_by_their_files() -> None:
    told = run("files", LOG).stdout
    assert "+1 −1  /home/user/project/notes.md" in told
    assert "+1 −0  /home/user/project/new.md" in told


def test_the_tally_has_what_kimi_code_reports() -> None:
    ((_, counted),) = CountCache(None).counted([facts_of(str(LOG))], None)
    assert counted is not None
    lines = [json.loads(each) for each in LOG.read_text().splitlines()]
    used = [each["usage"] for each in lines if each["type"] == "usage.record"]
    assert counted.usage.output == sum(each["output"] for each in used)
    assert counted.usage.input == sum(each["inputOther"] for each in used)
    assert counted.usage.cache_read == sum(each["inputCacheRead"] for each in used)
    assert (counted.turns, counted.model) == (1, "fake-1")


def test_a_text_that_the_log_repeats_is_found_once() -> None:
    told = run("search", "retries back off", LOG).stdout
    assert told.count("assistant") == 1


def test_a_compaction_keeps_nothing_and_undo_takes_back_prompts(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        *(said("One"), part("1"), said("Two"), part("2", "s2"), said("Note", origin="injection")),
        *(line("context.undo", count=1), said("Three"), part("3", "s3")),
    )
    assert context_of(file) == ["One", "1", "Three", "3"]
    compacted = line("context.apply_compaction", summary="We counted.", compactedCount=4)
    lines = [json.loads(each) for each in file.read_text().splitlines()[1:]]
    file = written(tmp_path, *lines, compacted, said("Four"), line("context.undo", count=9))
    assert context_of(file) == ["We counted."]
    file = written(tmp_path, *lines, line("context.clear"), said("Five"))
    assert context_of(file) == ["Five"]


def test_a_turn_that_was_interrupted_has_what_was_said(tmp_path: Path) -> None:
    call = event("tool.call", stepUuid="s1", toolCallId="c1", name="Bash", args={"command": "x"})
    file = written(tmp_path, said("Go"), part("I run it."), call)
    with Session.open(file, readonly=True) as session:
        last = [each for each in session.entries() if each.type == "message"][-1]
        assert [block["type"] for block in last.as_stored["message"]["content"]] == [
            *("text", "toolCall")
        ]
    with file.open("a") as log:
        log.write('{"type":"context.append_loop_event","ev')
    with Session.open(file, readonly=True) as session:
        assert [found.kind for found in session.damage] == ["cut short"]


def test_images_and_thinking_are_blocks(tmp_path: Path) -> None:
    url = {"type": "image_url", "imageUrl": {"url": "data:image/png;base64,aaaa"}}
    shown = said("Look")
    shown["message"]["content"].append(url)
    think = event("content.part", stepUuid="s1", part={"type": "think", "think": "Hm"})
    file = written(tmp_path, shown, think)
    with Session.open(file, readonly=True) as session:
        messages = [e.as_stored["message"] for e in session.entries() if e.type == "message"]
    image = {"type": "image", "data": "aaaa", "mimeType": "image/png"}
    assert messages[0]["content"][1] == image
    assert messages[1]["content"] == [{"type": "thinking", "thinking": "Hm"}]


@for_each(
    "odd",
    [
        line("context.append_message", message=[]),
        line("context.append_message", message={"role": 1, "content": {"a": 1}}),
        line("context.append_loop_event", event=7),
        event("tool.result", toolCallId=[1], result=[]),
        event("tool.call", toolCallId=[1], name={}, args=None),
        line("context.undo", count="x"),
        line("usage.record", usage={"inputOther": "1"}, model=[]),
        line("profile.bind", systemPrompt=5),
    ],
)
def test_events_of_wrong_types_are_entries_without_a_traceback(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    file = written(tmp_path, said("Hi"), odd, said("Ho"))
    with Session.open(file, readonly=True) as session:
        assert session.leaf.as_stored["message"]["content"][0]["text"] == "Ho"
        assert session.verify() == []
    import_session(file, tmp_path / "store")


def test_a_session_is_resumed_by_its_id_and_the_index_is_named(tmp_path: Path) -> None:
    kimi = named("kimi")
    assert kimi is not None
    assert kimi.resume(MAIN.name, str(LOG)) == ["--session", MAIN.name]
    assert (kimi.own_id(str(LOG)), kimi.opens(str(CHILD))) == (MAIN.name, False)
    index = tmp_path / "session_index.jsonl"
    index.write_text(json.dumps({"sessionId": "s", "sessionDir": "/s", "workDir": "/p"}) + "\n")
    with pytest.raises(SessionTreeError, match="Kimi Code's index of its sessions"):
        Session.open(index, readonly=True)


@pytest.mark.skipif(not (CORPUS / "agents/kimi-code").is_dir(), reason=NO_CORPUS)
def test_a_real_session_says_what_kimi_code_says_it_appended() -> None:
    for file in (CORPUS / "agents/kimi-code/sessions").rglob("wire.jsonl"):
        lines = [json.loads(each) for each in file.read_text().splitlines()]
        own = [each["message"] for each in lines if each["type"] == "agent.message.appended"]
        answers = [each["message"] for each in own if each["message"]["role"] == "assistant"]
        with Session.open(file, readonly=True) as session:
            found = [e.as_stored["message"] for e in session.entries() if e.type == "message"]
        made = [each for each in found if each["role"] == "assistant"]
        texts = [[b["text"] for b in each["content"] if "text" in b] for each in answers]
        assert [[b["text"] for b in each["content"] if "text" in b] for each in made] == texts
        calls = [[call["id"] for call in each["toolCalls"]] for each in answers]
        assert [[b["id"] for b in each["content"] if "id" in b] for each in made] == calls
