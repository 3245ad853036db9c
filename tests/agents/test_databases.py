"""The sessions of Goose, Crush and OpenClaw in their databases: what is each one's own."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session
from sessiontree.agents import named
from sessiontree.errors import NotASessionError, StorageError
from sessiontree.importing.importer import import_session
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from sessiontree.library.places import sessions_in
from sessiontree.storage import databases
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.agents.database_samples import AT, CRUSH, GOOSE, NEW, OLD, PROMPT, THOUGHT, insert, made
from tests.support.table import for_each
from tests.support.terminal import run

FIXTURES: Final = Path(__file__).parents[2] / "fixtures/agents"
NOTES: Final = "Notes about retries"
BASE: Final = {
    "crush": (FIXTURES / "crush/0.66/crush.db", "c1"),
    "goose": (FIXTURES / "goose/9/sessions.db", "20261121_1"),
    "openclaw": (FIXTURES / "openclaw/2026.9.6/openclaw-agent.sqlite", "notes-1"),
}


def file_of(name: str, database: Path | None = None) -> str:
    own, id = BASE[name]
    return f"{database or own}/{id}.jsonl"


@contextmanager
def changed(folder: Path, name: str) -> Iterator[tuple[sqlite3.Connection, str]]:
    """A copy of a sample to write to, and the path of its session."""
    own = BASE[name][0]
    copied = Path(shutil.copy(own, folder / own.name))
    with closing(sqlite3.connect(copied)) as rows:
        yield rows, file_of(name, copied)
        rows.commit()


def messages_of(file: str) -> list[dict[str, Any]]:
    with Session.open(file, readonly=True) as session:
        assert (session.damage, session.verify(), session.notes) == ([], [], [])
        found = [entry.as_stored for entry in session.entries()]
    return [each["message"] for each in found if each["type"] == "message"]


def shown(message: Mapping[str, Any]) -> list[Any]:
    return [
        block.get("text", block.get("thinking", block.get("name"))) for block in message["content"]
    ]


@for_each(
    ("name", "program", "title", "created", "modified"),
    [
        ("crush", "Crush", NOTES, "2026-11-21T09:00:00.000Z", "2026-11-21T09:00:09.000Z"),
        ("goose", "Goose", NOTES, "2026-11-21T09:00:00Z", "2026-11-21T09:00:10.000Z"),
        ("openclaw", "OpenClaw", None, "2026-11-21T09:00:00.000Z", "2026-11-21T09:00:06.000Z"),
    ],
)
def test_a_list_has_the_facts_of_each_session(
    name: str, program: str, title: str | None, created: str, modified: str
) -> None:
    database, id = BASE[name]
    found = {one.id: one for one in sessions_in([str(database)], pytest.fail)}
    one = found[id]
    assert (one.file, one.agent, one.name) == (file_of(name), program, title)
    assert (one.first_message, one.created, one.modified) == (PROMPT, created, modified)
    assert [each.id for each in sessions_in([str(database.parent)], pytest.fail)] == [*found]


@for_each("name", [*BASE])
def test_a_list_knows_each_size_and_change_as_reading_does(name: str) -> None:
    for file in databases.sessions_in(str(BASE[name][0])):
        content, read = databases.content_at(file) or (b"", None)
        listed = databases.rows_at(file)
        assert listed is not None
        assert read is not None
        assert (databases.size_at(file), listed.identity) == (len(content), read.identity)
        assert content.endswith(listed.end)
        assert all(json.loads(line) for line in content.splitlines())


def test_answers_of_goose_have_thinking_calls_and_results() -> None:
    messages = messages_of(file_of("goose"))
    assert [each["role"] for each in messages] == [
        *("user", "assistant", "toolResult", "toolResult", "assistant", "toolResult", "assistant"),
        *("assistant", "user", "assistant"),
    ]
    tool = "developer__text_editor"
    assert shown(messages[1]) == [THOUGHT, "I read them.", tool, "developer__shell"]
    told = [(each["toolName"], each["isError"], shown(each)) for each in messages[2:4]]
    assert told[0] == (tool, False, [OLD])
    assert told[1] == ("developer__shell", True, ["The command failed: exit code 3"])


def test_what_only_the_user_sees_is_above_the_summary_of_goose() -> None:
    with Session.open(file_of("goose"), readonly=True) as session:
        context = session.context().messages
        turns = [turn[0].as_stored["message"] for turn in session.turns()]
    assert context[0]["summary"] == "We fixed the notes."
    assert [shown(each) for each in context[1:]] == [
        *(["I go on from the summary."], ["How would you test it?"], ["With fake clocks."])
    ]
    assert [shown(each) for each in turns] == [[PROMPT], ["How would you test it?"]]


def test_answers_of_crush_have_thinking_calls_and_results() -> None:
    messages = messages_of(file_of("crush"))
    assert [each["role"] for each in messages] == [
        *("user", "assistant", "toolResult", "toolResult", "assistant", "toolResult", "assistant"),
        *("user", "assistant"),
    ]
    assert shown(messages[1]) == [THOUGHT, "I read the notes.", "view", "bash"]
    assert (messages[1]["provider"], messages[1]["model"]) == ("fake", "fake-1")
    assert messages[1]["content"][3]["arguments"] == {"command": "exit 3"}
    told = [(each["toolName"], each["isError"]) for each in messages if "toolName" in each]
    assert told == [("view", False), ("bash", True), ("edit", False)]
    assert messages[5]["details"] == {"originalContent": OLD, "newContent": NEW}
    last = messages[-1]
    assert (last["stopReason"], last["errorMessage"]) == ("aborted", "Request cancelled")


def test_a_summary_of_crush_keeps_nothing_and_a_child_names_its_caller() -> None:
    with Session.open(file_of("crush"), readonly=True) as session:
        context = session.context().messages
    assert context[0]["summary"] == "We fixed the notes."
    assert shown(context[1]) == ["How would you test it?"]
    child = facts_of(f"{BASE['crush'][0]}/c1$$t9.jsonl")
    assert (child.id, child.copy_of, child.first_message) == ("c1$$t9", "c1", "Count the lines.")


def test_a_database_in_a_project_names_the_project(tmp_path: Path) -> None:
    (tmp_path / ".crush").mkdir()
    shutil.copy(BASE["crush"][0], tmp_path / ".crush")
    found = {one.cwd for one in sessions_in([str(tmp_path)], pytest.fail)}
    assert found == {str(tmp_path)}


def test_edits_are_known_by_their_files() -> None:
    assert "+1 −1  /home/user/project/notes.md" in run("files", file_of("crush")).stdout
    assert "+1 −1  /home/user/project/notes.md" in run("files", file_of("goose")).stdout


@for_each(
    ("name", "tokens", "cost", "turns"),
    [("crush", 0, 0.0125, 2), ("goose", 1306, 0, 2), ("openclaw", 2468, 0.0008, 1)],
)
def test_the_tally_has_what_the_database_says(
    name: str, tokens: int, cost: float, turns: int
) -> None:
    ((_, counted),) = CountCache(None).counted([facts_of(file_of(name))], None)
    assert counted is not None
    assert (counted.usage.tokens, counted.usage.cost) == (tokens, cost)
    assert (counted.turns, counted.model) == (turns, None if name == "goose" else "fake-1")


def test_entries_of_openclaw_are_those_of_pi() -> None:
    with Session.open(file_of("openclaw"), readonly=True) as session:
        assert (session.damage, session.verify(), session.notes) == ([], [], [])
        types = [entry.type for entry in session.entries()]
    assert types == ["session", "model_change", *["message"] * 4, "custom"]


def test_an_event_that_is_compressed_is_read(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    with changed(tmp_path, "openclaw") as (rows, file):
        (text,) = rows.execute("SELECT event_json FROM transcript_events WHERE seq = 5").fetchone()
        packed = zstandard.ZstdCompressor().compress(text.encode())
        rows.execute(
            "UPDATE transcript_events SET event_json = NULL, event_zstd = ?, event_utf8_bytes = ?"
            " WHERE seq = 5",
            (packed, len(text)),
        )
    assert shown(messages_of(file)[-1]) == ["They say so."]
    assert facts_of(file).first_message == PROMPT
    with closing(sqlite3.connect(Path(file).parent)) as rows:
        rows.execute("UPDATE transcript_events SET event_zstd = ? WHERE seq = 5", (packed[:20],))
        rows.commit()
    with Session.open(file, readonly=True) as session:
        assert [found.kind for found in session.damage] == ["unreadable", "joined"]


@for_each(("name", "column"), [("crush", "parts"), ("goose", "content_json")])
@for_each(
    "odd", ["{", "[1, {}]", '{"a": 1}', '[{"type": 7, "data": 1, "text": []}]', b"\xff", None]
)
def test_rows_of_wrong_types_are_entries_without_a_traceback(
    tmp_path: Path, name: str, column: str, odd: Any
) -> None:
    with changed(tmp_path, name) as (rows, file):
        kept = "ifnull(?, '') WHERE rowid IN (2, 3)"
        rows.execute(f"UPDATE messages SET {column} = {kept}", (odd,))
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        count = len(list(session.entries()))
    assert import_session(file, tmp_path / "store").entries == count - 1


@for_each(("name", "schema"), [("crush", CRUSH), ("goose", GOOSE)])
def test_odd_sessions_are_listed_without_a_traceback(
    tmp_path: Path, name: str, schema: str
) -> None:
    def fill(rows: sqlite3.Connection) -> None:
        times = {"created_at": "never", "updated_at": -1}
        own = {"working_dir": ""} if name == "goose" else {"title": 7}
        insert(rows, "sessions", {"id": "s1", **own, **times})
        insert(rows, "sessions", {"id": "../s2", **own, **times})

    database = made(tmp_path / "odd.db", schema, fill)
    assert [one.id for one in sessions_in([str(database)], pytest.fail)] == ["s1"]
    with pytest.raises(NotASessionError, match=r"is a database of sessions \(1\)"):
        Session.open(database, readonly=True)


@for_each("name", [*BASE])
def test_a_torn_database_is_one_clear_error(tmp_path: Path, name: str) -> None:
    own = BASE[name][0]
    torn = tmp_path / own.name
    torn.write_bytes(own.read_bytes()[:6000])
    with pytest.raises(StorageError, match=r"cannot read .*: it is damaged"):
        databases.content_at(file_of(name, torn))


@for_each(
    ("name", "command"),
    [
        ("crush", ["--session", "c1"]),
        ("goose", ["session", "--resume", "--session-id", "20261121_1"]),
        ("openclaw", ["agent", "--local", "--session-id", "notes-1"]),
    ],
)
def test_a_session_is_resumed_by_its_id(name: str, command: list[str]) -> None:
    agent, id = named(name), BASE[name][1]
    assert agent is not None
    assert (agent.own_id(file_of(name)), agent.resume(id, file_of(name))) == (id, command)


@pytest.mark.skipif(not (CORPUS / "agents/openclaw").is_dir(), reason=NO_CORPUS)
def test_a_real_session_of_openclaw_says_all_that_its_events_have() -> None:
    folder = CORPUS / "agents/openclaw"
    lines = (folder / "transcript_events.jsonl").read_text().splitlines()
    events = map(json.loads, lines)
    own = [each["message"] for each in events if each["type"] == "message"]
    assert messages_of(f"{folder}/openclaw-agent.sqlite/notes-1.jsonl") == own


@for_each(
    ("name", "expected"),
    [("goose", "1,200 in, 106 out, 0 read from cache"), ("crush", "$0.01 reported")],
)
def test_what_a_whole_session_used_is_shown_with_it(name: str, expected: str) -> None:
    assert expected in run("show", file_of(name)).stdout


@for_each("name", ["goose", "crush"])
def test_a_sum_that_has_grown_takes_the_place_of_the_one_before(name: str, tmp_path: Path) -> None:
    sums = {
        "goose": "accumulated_input_tokens = 2400, accumulated_output_tokens = 212, updated_at",
        "crush": "cost = 0.025, updated_at",
    }
    with changed(tmp_path, name) as (rows, file):
        first = import_session(file, tmp_path / "store").file
        later = {"goose": "'2026-11-21 09:01:00'", "crush": AT + 60}[name]
        rows.execute(f"UPDATE sessions SET {sums[name]} = {later} WHERE id = '{BASE[name][1]}'")
        rows.commit()
        assert import_session(file, tmp_path / "store").file == first
    with Session.open(first, readonly=True) as session:
        usage = session.stats().usage
    assert (usage.input, usage.output, usage.cost or 0) == {
        "goose": (2400, 212, 0),
        "crush": (0, 0, 0.025),
    }[name]
