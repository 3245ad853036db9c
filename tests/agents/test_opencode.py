"""OpenCode's and Kilo's sessions, in a database: read beside its writer, and without a trace."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, import_session
from sessiontree.agents import named
from sessiontree.errors import NotASessionError, SessionNotFoundError, StorageError
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from sessiontree.library.places import sessions_in
from sessiontree.library.resume import Resumption, plan
from sessiontree.storage import databases
from tests.agents.opencode_samples import SAMPLES
from tests.agents.qwen_samples import read
from tests.support.conversation import said as said_by
from tests.support.homes import empty_home
from tests.support.table import for_each
from tests.support.terminal import run

SAMPLE: Final = Path(__file__).parents[2] / "fixtures/agents/opencode/1.18.33/opencode.db"
KILO: Final = SAMPLES / "kilo"
MAIN: Final = "ses_dd7b04992ffeJC4JUeFc4DtbAO"
FORK: Final = "ses_dd7af76a1ffeA5q6tzUIj3MK3T"
CHILD: Final = "ses_dd7b012b5ffeEuJqGK3Psa6NJT"
AT: Final = 1_795_195_042_413


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A copy of the sample; its folder has nothing else."""
    (tmp_path / "opencode").mkdir()
    return Path(shutil.copy(SAMPLE, tmp_path / "opencode" / "opencode.db"))


@pytest.fixture
def writer(database: Path) -> Iterator[sqlite3.Connection]:
    """A program that has the database open, and has written to its log."""
    with closing(sqlite3.connect(database, isolation_level=None)) as rows:
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("UPDATE session SET title = 'Said live', time_updated = ?", (AT + 10**9,))
        yield rows


def at(database: Path, id: str) -> str:
    return f"{database}/{id}.jsonl"


def messages_of(file: str) -> list[dict[str, Any]]:
    with Session.open(file, readonly=True) as session:
        assert (session.damage, session.verify()) == ([], [])
        return [
            entry.as_stored["message"] for entry in session.entries() if entry.type == "message"
        ]


def names_beside(database: Path) -> list[str]:
    return sorted(os.listdir(database.parent))


def said(rows: sqlite3.Connection, id: str, body: dict[str, Any], *parts: dict[str, Any]) -> None:
    """Add a message to the main session."""
    count = rows.execute("SELECT count(*) FROM message").fetchone()[0]
    when = AT + 10**8 + count
    text = json.dumps({"time": {"created": when}, **body})
    rows.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (id, MAIN, when, when, text))
    for number, part in enumerate(parts):
        row = (f"prt_{id}_{number}", id, MAIN, when, when, json.dumps(part))
        rows.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    rows.execute("UPDATE session SET time_updated = ? WHERE id = ?", (when, MAIN))
    rows.commit()


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def test_a_list_has_each_session_of_the_database(database: Path) -> None:
    found = {one.id: one for one in sessions_in([str(database.parent)], pytest.fail)}
    assert found.keys() == {MAIN, FORK, CHILD}
    one = found[MAIN]
    assert (one.file, one.agent, one.made_by) == (at(database, MAIN), "OpenCode", "opencode")
    assert (one.cwd, one.name) == ("/home/me/app", "Notes about retries")
    assert one.first_message == '"Why do our retries hammer the API? Fix the notes."'
    assert (one.created, one.modified) == ("2026-11-20T17:17:22.413Z", "2026-11-20T17:18:07.635Z")
    assert found[CHILD].copy_of == MAIN
    assert {one.id for one in sessions_in([str(database)], pytest.fail)} == found.keys()
    assert [one.id for one in sessions_in([at(database, CHILD)], pytest.fail)] == [CHILD]


def test_a_name_of_kilos_database_makes_it_kilos(database: Path) -> None:
    file = at(database.rename(database.with_name("kilo.db")), MAIN)
    assert facts_of(file).agent == "Kilo CLI"
    kilo = named("kilo")
    assert kilo is not None
    assert (kilo.resume(MAIN, file), kilo.own_id(file)) == (["-s", MAIN], MAIN)


def test_a_list_knows_each_size_and_change_as_reading_does(database: Path) -> None:
    for file in databases.sessions_in(str(database)):
        content, read = databases.content_at(file) or (b"", None)
        listed = databases.rows_at(file)
        assert listed is not None
        assert read is not None
        assert (databases.size_at(file), listed.identity) == (len(content), read.identity)
        assert content.startswith(listed.head)
        assert content.endswith(listed.end)
        assert all(json.loads(line) for line in content.splitlines())


def test_the_sample_of_kilo_gives_what_kilo_sent() -> None:
    (sample,) = KILO.iterdir()
    for id, told in json.loads((sample / "sent.json").read_text()).items():
        file = f"{sample / 'kilo.db'}/{id}.jsonl"
        assert facts_of(file).agent == "Kilo CLI"
        with Session.open(file, readonly=True) as session:
            assert (session.verify(), session.notes, session.damage) == ([], [], [])
            *here, _answer = read(session.context().messages)
        sent = json.loads(json.dumps(here).replace("null", '"[Attached image/gif: a.png]"'))
        assert [(role, sorted(said)) for role, said in sent] == [
            (role, sorted(said)) for role, said in told
        ]


def test_calls_have_their_results_and_diffs(database: Path) -> None:
    results = [each for each in messages_of(at(database, MAIN)) if each["role"] == "toolResult"]
    assert [(each["toolName"], each["isError"]) for each in results] == [
        *(("read", False), ("bash", False), ("edit", False)),
        *(("bash", True), ("read", True), ("task", False)),
    ]
    assert results[1]["content"] == [text("two calls at once\n")]
    assert "+Retries wait.\n" in results[2]["details"]["fileDiff"]
    assert results[4]["content"] == [text("File not found: /home/me/app/none.md")]
    assert results[5]["details"]["sessionId"] == CHILD
    shown = results[0]["details"]["file"]
    assert (shown["content"], shown["startLine"]) == ("# Notes\nRetries hammer the API.", 1)
    assert "+1 −1  /home/me/app/notes.md" in run("files", at(database, MAIN)).stdout


def test_an_answer_has_its_thinking_model_tokens_and_cost(database: Path) -> None:
    answer = next(each for each in messages_of(at(database, MAIN)) if each["role"] == "assistant")
    assert [block["type"] for block in answer["content"]] == [
        *("thinking", "text", "toolCall", "toolCall")
    ]
    assert (answer["provider"], answer["model"]) == ("fake", "fake-1")
    usage = {"input": 201, "output": 35, "cacheRead": 1000, "cacheWrite": 0}
    assert answer["usage"] == {**usage, "cost": {"total": 0.000406}}


def test_a_fork_costs_only_what_it_adds(database: Path) -> None:
    files = [at(database, id) for id in (MAIN, FORK)]
    counted = [each for _, each in CountCache(None).counted(map(facts_of, files), None)]
    assert all(counted)
    keys = [{spent.copy_key for spent in each.spent()} for each in counted if each is not None]
    assert keys[0] < keys[1]
    assert len(keys[1] - keys[0]) == 3


@pytest.mark.parametrize("agent", ["opencode", "kilo"])
def test_an_answer_that_a_fork_copied_counts_once_before_and_after_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """A fork does not say what it is of; a copied answer has its times, tokens and cost."""
    top = empty_home(tmp_path, monkeypatch)
    database = top / ".local/share" / agent / f"{agent}.db"
    database.parent.mkdir(parents=True)
    shutil.copy(SAMPLE, database)
    with closing(sqlite3.connect(database)) as rows:
        said = [json.loads(data) for (data,) in rows.execute("SELECT data FROM message")]
    answers = [one for one in said if one["role"] == "assistant" and any(_tokens_of(one))]
    once = {(*one["time"].values(), *_tokens_of(one), one["cost"]) for one in answers}
    assert len(once) < len(answers)

    def counted() -> tuple[float, ...]:
        found = json.loads(run("stats", "--by", "agent", "--agent", agent, "--json").stdout)
        usage = found["usage"]
        return found["answers"], usage["input"], usage["output"], usage["cacheRead"], usage["cost"]

    sums = [sum(column) for column in zip(*(row[-5:] for row in once), strict=True)]
    expected = pytest.approx((len(once), sums[0], sums[1] + sums[2], *sums[3:]))
    assert counted() == expected
    run("backup")
    assert counted() == expected
    database.unlink()
    assert counted() == expected


def _tokens_of(answer: dict[str, Any]) -> tuple[int, ...]:
    tokens = answer["tokens"]
    return tokens["input"], tokens["output"], tokens["reasoning"], tokens["cache"]["read"]


def test_a_summary_is_a_compaction_and_a_revert_a_branch(database: Path) -> None:
    with Session.open(at(database, FORK), readonly=True) as session:
        assert session.context().messages[-1]["summary"] == "Notes about retries"
        types = [entry.type for entry in session.entries()][-4:]
        assert types == ["compaction", "message", "message", "branch"]
        turns = [turn[0].as_stored["message"]["content"] for turn in session.turns()]
    assert len(turns) == 3


@for_each(("kept", "count"), [("m1", 3), (None, 2), ("none", 2)])
def test_a_summary_keeps_the_messages_that_it_names(
    tmp_path: Path, kept: str | None, count: int
) -> None:
    database = Path(shutil.copy(SAMPLE, tmp_path / f"{kept}.db"))
    with closing(sqlite3.connect(database)) as rows:
        said(rows, "m1", {"role": "user"}, text("Kept?"))
        asks = {"type": "compaction", "auto": False}
        said(rows, "m2", {"role": "user"}, {**asks, "tail_start_id": kept} if kept else asks)
        done = {"role": "assistant", "summary": True, "finish": "stop", "parentID": "m2"}
        said(rows, "m3", done, text("We fixed it."))
        said(rows, "m4", {"role": "user"}, text("Go on"))
    with Session.open(at(database, MAIN), readonly=True) as session:
        found = session.context().messages
    assert (found[0]["summary"], len(found)) == ("We fixed it.", count)


def test_texts_of_the_program_and_texts_that_are_not_sent(database: Path) -> None:
    with closing(sqlite3.connect(database)) as rows:
        said(rows, "m1", {"role": "user"}, text("Reminder", synthetic=True))
        said(rows, "m2", {"role": "user"}, text("Hidden", ignored=True), text("Asked"))
        listed = {"type": "file", "mime": "text/plain", "url": "file:///a"}
        image = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aaaa"}
        said(rows, "m3", {"role": "user"}, listed, image)
        error = {"name": "MessageAbortedError", "data": {"message": "stopped"}}
        said(rows, "m4", {"role": "assistant", "error": error}, {"type": "step-start"})
        running = {"status": "running", "input": {"command": "sleep 9"}}
        call = {"type": "tool", "tool": "bash", "callID": "c", "state": running}
        said(rows, "m5", {"role": "assistant", "error": error}, call)
    with Session.open(at(database, MAIN), readonly=True) as session:
        found = {entry.uuid: entry.as_stored for entry in session.entries()}
        prompts = [turn[0].uuid for turn in session.turns()]
    assert found["m1"]["metadata"] == {"isMeta": True}
    assert found["m2"]["message"]["content"] == [text("Asked")]
    image_block = {"type": "image", "data": "aaaa", "mimeType": "image/png"}
    assert found["m3"]["message"]["content"] == [image_block]
    assert found["m4"]["type"] == "custom"
    assert found["m5"]["message"]["stopReason"] == "aborted"
    assert prompts[2:] == ["m2", "m3"]


def test_the_database_itself_is_no_session_and_says_so(database: Path) -> None:
    with pytest.raises(NotASessionError, match=r"a database of sessions \(3\); name one of them"):
        Session.open(database, readonly=True)
    with pytest.raises(SessionNotFoundError, match="has no session ses_none; check the id"):
        Session.open(at(database, "ses_none"), readonly=True)
    with pytest.raises(StorageError):
        Session.open(at(database, MAIN))
    assert names_beside(database) == ["opencode.db"]


def test_a_database_without_its_program_is_read_without_a_trace(database: Path) -> None:
    before = database.read_bytes(), database.stat().st_mtime_ns
    assert len(databases.sessions_in(str(database))) == 3
    assert messages_of(at(database, MAIN))
    assert names_beside(database) == ["opencode.db"]
    assert (database.read_bytes(), database.stat().st_mtime_ns) == before


def test_beside_a_writer_what_it_committed_is_read(
    database: Path, writer: sqlite3.Connection
) -> None:
    index = Path(f"{database}-shm").read_bytes()
    assert facts_of(at(database, MAIN)).name == "Said live"
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE session SET title = 'Not yet'")
    assert facts_of(at(database, MAIN)).name == "Said live"
    assert messages_of(at(database, MAIN))
    assert names_beside(database) == ["opencode.db", "opencode.db-shm", "opencode.db-wal"]
    writer.execute("ROLLBACK")
    assert len(Path(f"{database}-shm").read_bytes()) == len(index)


def test_a_log_without_its_index_is_read_in_a_copy(
    database: Path, writer: sqlite3.Connection, tmp_path: Path
) -> None:
    copied = tmp_path / "copied" / "opencode.db"
    copied.parent.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{database}{ending}", f"{copied}{ending}")
    assert facts_of(at(copied, MAIN)).name == "Said live"
    assert names_beside(copied) == ["opencode.db", "opencode.db-wal"]


def test_an_open_session_sees_what_its_program_adds(
    database: Path, writer: sqlite3.Connection
) -> None:
    with Session.open(at(database, MAIN), readonly=True) as session:
        before = len(list(session.entries()))
        said(writer, "m9", {"role": "user"}, text("One more"))
        session.refresh()
        assert len(list(session.entries())) == before + 1
        assert session.leaf.uuid == "m9"


def test_a_locked_database_is_read_as_it_was_committed(database: Path) -> None:
    script = (
        "import sqlite3, sys; rows = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "rows.execute('PRAGMA locking_mode=EXCLUSIVE'); rows.execute('PRAGMA journal_mode=DELETE');"
        "rows.execute('BEGIN EXCLUSIVE'); rows.execute(\"UPDATE session SET title = 'x'\");"
        "print('locked', flush=True); sys.stdin.read()"
    )
    program = [sys.executable, "-c", script, str(database)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locking:
        assert locking.stdout is not None
        assert locking.stdin is not None
        assert locking.stdout.readline() == b"locked\n"
        assert facts_of(at(database, MAIN)).name == "Notes about retries"
        locking.stdin.close()


def test_a_replaced_database_is_read_anew(database: Path) -> None:
    assert facts_of(at(database, MAIN)).name == "Notes about retries"
    other = database.with_name("new.db")
    shutil.copy(database, other)
    with closing(sqlite3.connect(other)) as rows:
        rows.execute("UPDATE session SET title = 'Another'")
        rows.commit()
    other.replace(database)
    assert facts_of(at(database, MAIN)).name == "Another"


@for_each("keep", [0.3, 0.6, 0.9])
def test_a_torn_database_is_one_clear_error(database: Path, keep: float) -> None:
    content = database.read_bytes()
    database.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(StorageError, match=r"cannot read .*opencode\.db: it is damaged"):
        databases.content_at(at(database, MAIN))


@for_each(
    "change",
    [
        "ALTER TABLE session DROP COLUMN metadata",  # older
        "ALTER TABLE session DROP COLUMN parent_id",
        "ALTER TABLE session ADD COLUMN mood text DEFAULT 'good'",  # newer
        "ALTER TABLE message ADD COLUMN seq integer",
        "ALTER TABLE part ADD COLUMN seq integer",
        "CREATE TABLE session_message (id text, session_id text, data text)",
    ],
)
def test_an_older_and_a_newer_schema_say_the_same(tmp_path: Path, change: str) -> None:
    database = Path(shutil.copy(SAMPLE, tmp_path / f"opencode-{abs(hash(change))}.db"))
    before = messages_of(at(database, MAIN))
    with closing(sqlite3.connect(database)) as rows:
        for name in ("session_parent_idx", "session_workspace_idx"):
            rows.execute(f"DROP INDEX {name}")
        rows.execute(change)
        rows.commit()
    one = facts_of(at(database, MAIN))
    assert (one.name, one.cwd) == ("Notes about retries", "/home/me/app")
    assert messages_of(one.file) == before


def test_a_row_that_is_not_json_is_damage_and_hides_nothing(database: Path) -> None:
    with closing(sqlite3.connect(database)) as rows:
        said(rows, "m1", {"role": "user"}, text("Before"))
        rows.execute("UPDATE message SET data = '{' WHERE id = 'm1'")
        said(rows, "m2", {"role": "user"}, text("After"))
    with Session.open(at(database, MAIN), readonly=True) as session:
        assert session.leaf.uuid == "m2"
        assert len(session.damage) == 1


def test_other_databases_are_no_sessions(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with closing(sqlite3.connect(file)) as rows:
        rows.execute("CREATE TABLE session (id TEXT, title TEXT)")
    assert not databases.is_database(str(file))
    assert list(sessions_in([str(tmp_path)], pytest.fail)) == []
    with pytest.raises(NotASessionError, match="is a SQLite database"):
        Session.open(file, readonly=True)


def test_views_in_place_of_the_tables_are_not_read(database: Path) -> None:
    with closing(sqlite3.connect(database)) as rows:
        rows.execute("ALTER TABLE session RENAME TO kept")
        rows.execute("CREATE VIEW session AS SELECT * FROM kept")
    assert not databases.is_database(str(database))
    with pytest.raises(SessionNotFoundError):
        databases.content_at(at(database, MAIN))


def test_a_warm_list_reads_the_rows_of_changed_sessions_alone(
    database: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {one.id: one for one in sessions_in([str(database)], pytest.fail)}
    read: list[str] = []
    content_at = databases.content_at

    def noted(path: str) -> Any:
        read.append(path)
        return content_at(path)

    monkeypatch.setattr(databases, "content_at", noted)  # all rows of a session
    said(writer, "m9", {"role": "user"}, text("One more"))
    found = {one.id: one for one in sessions_in([str(database)], pytest.fail)}
    assert read == [at(database, MAIN)]
    assert found[MAIN].bytes > before[MAIN].bytes


def planned(file: str, agent: str, home: Path) -> Resumption:
    return plan(facts_of(file), agent, str(home), environ={"HOME": str(home)})


def test_a_session_of_another_agent_becomes_a_file_to_import(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=str(tmp_path), name="Ours") as session:
        session.append_message({"role": "user", "content": "left"})
        session.branch(session.header)
        entry = session.append_message({"role": "user", "content": "said"})
    made = planned(str(tmp_path / "s.jsonl"), "opencode", tmp_path)
    id = made.command[-1]
    folder = tmp_path / ".local/share/opencode/sessiontree"
    assert made.file == f"{folder / id}.json"
    assert made.setup == ["opencode", "import", made.file]
    assert made.line == f"cd {tmp_path} && opencode import {made.file} && opencode -s {id}"
    assert made.as_dict()["setup"] == made.setup
    assert "a branch that was left is left out" in [loss.what for loss in made.losses]
    told = json.loads(Path(made.file).read_text())
    (message,) = told["messages"]
    assert (told["info"]["id"], told["info"]["title"]) == (id, "Ours")
    assert message["parts"][0]["text"] == "said"
    origin = message["parts"][0]["metadata"]["sessiontree"]
    assert (origin["entry"], origin["session"]) == (entry.uuid, session.id)
    assert planned(str(tmp_path / "s.jsonl"), "opencode", tmp_path).command[-1] != id


def test_what_opencode_adds_to_a_converted_session_comes_back_to_it(tmp_path: Path) -> None:
    store, home = tmp_path / "store", tmp_path / "home"
    home.mkdir()
    store.mkdir()
    with Session.create(store / "s.jsonl", cwd=str(home)) as session:
        session.append_message({"role": "user", "content": "one"})
        session.append_message({"role": "assistant", "content": "1", "model": "m"})
    made = planned(str(store / "s.jsonl"), "opencode", home)
    database = home / ".local/share/opencode/opencode.db"
    shutil.copy(SAMPLE, database)
    taken_in(database, json.loads(Path(made.file).read_text()))
    one = facts_of(at(database, made.command[-1]))
    assert (one.id, one.is_converted) == (session.id, True)
    result = import_session(one.file, store)
    assert (result.file, result.new) == (str(store / "s.jsonl"), 1)
    with Session.open(store / "s.jsonl", readonly=True) as session:
        assert said_by(session.context()) == ["one", "1", "more"]


def taken_in(database: Path, told: Any) -> None:
    """Put a session and one more message into a database, as OpenCode does."""
    info, later = told["info"], AT + 10**9
    with closing(sqlite3.connect(database)) as rows:
        rows.execute(
            "INSERT INTO session (id, project_id, slug, directory, title, version, metadata,"
            " time_created, time_updated) VALUES (?, 'global', ?, ?, ?, ?, ?, ?, ?)",
            (
                *(info[key] for key in ("id", "slug", "directory", "title", "version")),
                json.dumps(info["metadata"], separators=(",", ":")),
                *(info["time"]["created"], later),
            ),
        )
        more = {"role": "user", "time": {"created": later}, "id": "msg_more"}
        messages = [*told["messages"], {"info": more, "parts": [text("more", id="prt_more")]}]
        for message in messages:
            body = {k: v for k, v in message["info"].items() if k not in ("id", "sessionID")}
            when = body["time"]["created"]
            row = (message["info"]["id"], info["id"], when, when, json.dumps(body))
            rows.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
            for part in message["parts"]:
                kept = {k: v for k, v in part.items() if k not in ("id", "sessionID", "messageID")}
                of = (part["id"], message["info"]["id"], info["id"], when, when)
                said = json.dumps(kept, separators=(",", ":"))
                rows.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (*of, said))
        rows.commit()
