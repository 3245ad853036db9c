"""Ids as lists show them: short, one session each, and taken by every command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessiontree import Store
from sessiontree.errors import RefError
from sessiontree.library.lookup import find, short_ids
from sessiontree.text.ids import short_id
from tests.support.sessions import said
from tests.support.table import for_each
from tests.support.terminal import done, refused

NEAR = "01a20558-2c1a-75cf-8a7c-b4e1fdef6289"
NEXT = "01a20558-2c1a-75cf-8b00-000000000000"
LATER = "01a20558-30e0-7364-b2a2-46842bcf8b63"


@for_each(
    ("ids", "shown"),
    [
        ([], []),
        (["", ".", "..a"], ["", ".", "..a"]),
        (["5e551015-0000", "6"], ["5e551015", "6"]),
        ([NEAR, LATER], [NEAR[:10], LATER[:10]]),
        ([LATER, NEXT, NEAR, NEAR], [LATER[:10], NEXT[:21], NEAR[:21]]),
        (["chat-of-1", "chat-of-10", "chat-of"], ["chat-of-1", "chat-of-10", "chat-of"]),
    ],
)
def test_an_id_is_shown_as_far_as_it_must_be(ids: list[str], shown: list[str]) -> None:
    assert list(map(short_ids(ids).get, dict.fromkeys(ids))) == shown


def test_an_id_without_neighbours_is_shown_with_its_time() -> None:
    assert list(map(short_id, (NEAR, "5e551015-0000-4000-8000-000000000001", "6"))) == [
        "01a20558-2c1a",
        "5e551015",
        "6",
    ]
    assert short_id("session_16cbb4b6-3c01-41b2-ba8d-848f89a71479") == "16cbb4b6"


def test_a_list_is_searched_by_all_that_is_shown_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ids = [NEAR, NEXT, LATER, "chat", "chat-of-1", "chat-of-10"]
    for id in ids:
        said(store, "hello", id=id)
    found = store.list()
    assert [find(shown, found, "", "").id for shown in map(short_ids(ids).get, ids) if shown] == ids
    with pytest.raises(RefError, match="is ambiguous") as refusal:
        find("01a20558-2c1a", found, "", "")
    assert set(refusal.value.candidates) == {NEAR, NEXT}


def test_the_start_of_a_session_is_not_that_of_its_subagents(tmp_path: Path) -> None:
    """Claude Code once kept subagents beside their session, and each has a row with its id."""
    store = Store(tmp_path)
    session, agent, orphans = "5e551015-0000", "5e551015-0000.agent-a", ("6a.agent-a", "6a.agent-b")
    ids = [session, agent, f"{agent}.agent-c", *orphans, f"session_{NEAR}.1", f"session_{NEAR}"]
    for id in ids:
        said(store, "hello", id=id)
    found = store.list()
    shown = [short_ids(ids)[id] for id in ids]
    assert shown[:3] == ["5e551015", "5e551015.agent-a", "5e551015.agent-a.agent-c"]
    assert shown[-2:] == ["01a20558.1", "01a20558"]
    assert [find(id, found, "", "").id for id in shown] == ids
    assert find("5e55", found, "", "").id == session
    with pytest.raises(RefError, match="is ambiguous"):
        find("6a.a", found, "", "")


def codex(home: Path, id: str) -> None:
    folder = home / ".codex/sessions/2026/11/22"
    folder.mkdir(parents=True, exist_ok=True)
    about = {"id": id, "cwd": str(home), "timestamp": "2026-11-22T20:00:00.000Z"}
    words = [{"type": "input_text", "text": f"hello {id}"}]
    message = {"type": "message", "role": "user", "content": words}
    lines = [
        {"timestamp": "2026-11-22T20:00:00.000Z", "type": kind, "payload": payload}
        for kind, payload in (("session_meta", about), ("response_item", message))
    ]
    name = f"rollout-2026-11-22T20-00-00-{id}.jsonl"
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_every_command_takes_the_ids_that_ls_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "store"))
    codex(tmp_path, NEAR)
    codex(tmp_path, LATER)
    said(Store(), "hello own", id=NEXT, cwd=os.getcwd())
    rows = [line.split()[4] for line in done("ls", "--limit", "2").splitlines()]
    rows += [line.split()[4] for line in done("ls", "--agent", "codex").splitlines()]
    assert set(rows) == {NEXT[:21], NEAR[:21], LATER[:10]}
    for shown in rows:
        for words in (("show",), ("stats",), ("tree",), ("export",), ("search", "hello")):
            assert done(*words, shown)
        done("verify", shown)
    for shown in rows[-2:]:
        assert shown in done("resume", shown)
    for words in (("show",), ("search", "hello"), ("resume",)):
        refusal = refused(*words, NEAR[:13])
        assert (NEAR in refusal, NEXT in refusal) == (True, True)
    done("trash", NEXT[:21])
    assert NEXT[:8] in done("restore")
    done("restore", NEXT[:8])


def test_a_name_is_found_however_its_accents_are_spelled(store: Store) -> None:
    file = said(store, "one", name="caf\u00e9")
    assert store.find("cafe\u0301").file == file
