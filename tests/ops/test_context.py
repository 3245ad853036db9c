"""`context`: the path to an entry, its handles, and what a model gets there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiontree import Handle, Session
from sessiontree.context.compaction import estimate_tokens
from tests.support.calls import Calls
from tests.support.sessions import chat
from tests.support.table import for_each

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.py"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "the content of a.py"}
TALK: list[Any] = [
    {"role": "system", "content": "Be brief."},
    "look at a.py",
    {"role": "assistant", "content": [CALL], "model": "m"},
    {"role": "user", "content": [RESULT]},
    {"role": "assistant", "content": "It is fine.", "model": "m"},
]
RECORDED = Path("fixtures/agents/claude_code/2.1.330/5e551015-0000-4000-8000-000000000001.jsonl")


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(chat(tmp_path / "s.jsonl", *TALK))


@pytest.fixture
def pointing(tmp_path: Path) -> str:
    """A session with three handles: of a file, of an entry, and of an entry that is not there."""
    (tmp_path / "notes.md").write_text("# Notes\n" * 9000)
    file = chat(tmp_path / "p.jsonl", "hello")
    with Session.open(file) as session:
        session.append_handle(Handle.file("notes.md"))
        session.append_handle(Handle.entry(session.id, session.path()[1].uuid), role="user")
        session.append_handle(Handle.entry("elsewhere", "u1"), role="user", preview="lost")
    return str(file)


def whole(file: str, **options: Any) -> Any:
    with Session.open(file, readonly=True) as session:
        return session.context(**options)


@for_each("name", ["get_path", "resolve"])
def test_a_page_of_a_path_begins_at_the_root_and_the_first_page_ends_at_the_entry(
    calls: Calls, file: str, name: str
) -> None:
    with Session.open(file, readonly=True) as session:
        uuids = [entry.uuid for entry in session.path()]
    (whole,) = pages(calls, name, session=file)
    assert [row["uuid"] for row in whole] == uuids
    roles = [None, "system", "user", "assistant", "tool", "assistant"]
    assert [row.get("role") for row in whole] == roles
    (above,) = pages(calls, name, session=file, at="@~2", width=20)
    assert [row["uuid"] for row in above] == uuids[:-2]
    assert all(len(row.get("preview", "")) <= 20 for row in above)
    some = pages(calls, name, session=file, budget=200)
    assert len(some) > 1
    assert [row["uuid"] for rows in reversed(some) for row in rows] == uuids


def pages(calls: Calls, name: str, **given: Any) -> list[list[Any]]:
    """The rows of each page of a path."""
    found: list[list[Any]] = []
    cursor: str | None = None
    while cursor is not None or not found:
        answer = calls.value(f"context.{name}", **given, cursor=cursor)
        found.append([row.get("entry", row) for row in answer["items"]])
        cursor = answer.get("cursor")
    return found


def test_get_path_resolves_no_handle(calls: Calls, pointing: str) -> None:
    found = calls.pages("context.get_path", session=pointing)
    assert found[-1]["preview"].startswith("lost")
    assert found[-1]["handle"] == "session@2.0.0::entry:elsewhere:u1"
    handles = calls.pages("context.get_handles", session=pointing)
    assert handles == [row for row in found if "handle" in row]
    assert len(handles) == 3


def test_resolve_names_the_error_of_each_handle(
    calls: Calls, pointing: str, tmp_path: Path
) -> None:
    found = calls.pages("context.resolve", session=pointing, root=str(tmp_path))
    header, prompt, notes, entry, lost = found
    assert lost["error"]["kind"] == "unresolved_handle"
    assert "elsewhere" in lost["error"]["message"]
    assert entry["content"]["data"] == {"role": "user", "content": "hello"}
    assert notes["content"]["bytes"] == 72_000
    (cut,) = notes["content"]["cut"]
    assert notes["content"]["data"].startswith("# Notes\n# Notes\n")
    assert cut["length"] == 72_000
    assert "content" not in prompt
    assert header["entry"]["type"] == "session"


def test_get_gives_the_last_messages_in_their_order(calls: Calls, file: str) -> None:
    found = calls.value("context.get", session=file)
    context = whole(file)
    assert [one["message"] for one in found["messages"]] == context.messages
    assert [one["uuid"] for one in found["messages"]] == [entry.uuid for entry in context.entries]
    assert found["leaf"] == context.leaf.uuid
    assert found["settings"] == {
        "model": {"provider": None, "modelId": "m"},
        "system": "Be brief.",
    }
    assert (found["count"], found["tokens"]) == (len(context.messages), context.tokens)


def test_get_pages_back_to_the_first_message(calls: Calls, tmp_path: Path) -> None:
    file = str(chat(tmp_path / "long.jsonl", *(f"prompt {n} " * 30 for n in range(200))))
    found: list[Any] = []
    cursor = None
    while True:
        answer = calls("context.get", session=file, budget=1500, cursor=cursor)
        assert answer.tokens <= 1500
        page = answer.value["messages"]
        assert [one["n"] for one in page] == list(range(page[0]["n"], page[-1]["n"] + 1))
        found = page + found
        cursor = answer.value.get("cursor")
        if cursor is None:
            break
    assert [one["message"] for one in found] == whole(file).messages


def test_a_long_message_leaves_room_for_others(calls: Calls, tmp_path: Path) -> None:
    file = str(chat(tmp_path / "l.jsonl", "first", "middle " * 200_000, "last"))
    answer = calls("context.get", session=file)
    assert answer.tokens <= 4000
    first, middle, last = answer.value["messages"]
    assert (first["message"]["content"], last["message"]["content"]) == ("first", "last")
    (cut,) = middle["cut"]
    given = {"session": file, "part": cut["part"], "offset": cut["shown"], "budget": 0}
    rest = calls.value("context.get", **given)["text"]
    assert len(rest) == cut["length"] - cut["shown"]
    shown = middle["message"]["content"][: cut["shown"]]
    assert shown + rest == "middle " * 200_000


@for_each("to", ["anthropic", "openai-responses", "openai-chat"])
def test_get_makes_a_request_that_can_be_sent(calls: Calls, file: str, to: Any) -> None:
    found = calls.value("context.get", session=file, to=to, budget=0)
    context = whole(file)
    made = (
        context.to_anthropic()
        if to == "anthropic"
        else context.to_openai(to.removeprefix("openai-"))
    )
    assert found["request"] == msgspec.to_builtins(made.params)
    assert "messages" not in found


def test_get_gives_what_is_stored_or_unresolved_if_asked(
    calls: Calls, pointing: str, tmp_path: Path
) -> None:
    chat(tmp_path / "open.jsonl", "prompt", {"role": "assistant", "content": [CALL]})
    paired, stored = (
        calls.value("context.get", session=str(tmp_path / "open.jsonl"), verbatim=verbatim)
        for verbatim in (False, True)
    )
    assert (paired["count"], stored["count"]) == (3, 2)
    assert "never answered" in paired["warnings"][0]
    unresolved = calls.value("context.get", session=pointing, unresolved=True)
    assert "file@1.0.0::path:notes.md" in str(unresolved["messages"][1])
    resolved = calls.value("context.get", session=pointing, root=str(tmp_path))
    assert "# Notes" in str(resolved["messages"][1])
    assert "elsewhere" in str(resolved["warnings"])


def test_request_is_what_claude_code_sent(calls: Calls, tmp_path: Path) -> None:
    shutil.copy(RECORDED, file := tmp_path / RECORDED.name)
    with Session.open(file, readonly=True) as session:
        sent = session.sent_request()
    found = calls.value("context.request", session=str(file), budget=0)
    assert found["request"] == msgspec.to_builtins(sent.params)
    answer = calls("context.request", session=str(file))
    assert answer.tokens <= 4000
    assert set(answer.value["request"]) == set(sent.params)
    assert answer.value["request"]["messages"]
    cut = next(one for one in answer.value["cut"] if one["part"].startswith("/tools"))
    rest = calls.value("context.request", session=str(file), part=cut["part"], budget=0)
    assert len(rest["text"]) == cut["length"]


def test_estimate_counts_by_role_and_against_a_window(calls: Calls, file: str) -> None:
    context = whole(file)
    found = calls.value("context.estimate", session=file, window=20_000)
    system = estimate_tokens({"role": "system", "content": context.system})
    assert found["tokens"] == context.tokens + system
    assert found["system"] == system
    assert found["messages"] == len(context.messages)
    assert sum(kind["tokens"] for kind in found["kinds"]) == context.tokens
    assert {kind["role"]: kind["messages"] for kind in found["kinds"]} == {
        "user": 1,
        "assistant": 2,
        "tool": 1,
    }
    assert (found["left"], found["needs_compaction"]) == (20_000 - found["tokens"], False)
    large = found["largest"][0]
    assert large["tokens"] == max(estimate_tokens(message) for message in context.messages)
    below = calls.value("context.estimate", session=file, window=30, reserve=20)
    assert below["needs_compaction"]


@for_each(
    ("name", "params", "kind"),
    [
        ("get_path", {"at": "nowhere"}, "no_such_ref"),
        ("get_path", {"width": 5}, "bad_parameter"),
        ("get_path", {"cursor": "1:nothing"}, "bad_cursor"),
        ("get_path", {"cursor": "nothing"}, "bad_cursor"),
        ("get_handles", {"at": "nowhere"}, "no_such_ref"),
        ("resolve", {"at": "nowhere"}, "no_such_ref"),
        ("get", {"at": "nowhere"}, "no_such_ref"),
        ("get", {"to": "pigeon"}, "bad_parameter"),
        ("get", {"part": "/messages/99"}, "no_such_part"),
        ("request", {}, "bad_value"),
        ("estimate", {"window": 0}, "bad_parameter"),
        ("estimate", {"window": 10, "reserve": 10}, "bad_value"),
    ],
)
def test_what_cannot_be_done_is_refused(
    calls: Calls, file: str, name: str, params: dict[str, Any], kind: str
) -> None:
    assert calls(f"context.{name}", session=file, **params).kind == kind
