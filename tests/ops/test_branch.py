"""`branch`: moves, attempts on scratch lanes, compaction in steps, and comparisons by calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from tests.support.calls import Calls
from tests.support.conversation import assistant, said_in, user
from tests.support.sessions import chat
from tests.support.table import for_each


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A session of two prompts, each with an answer."""
    messages = (user("one"), assistant("first"), user("two"), assistant("second"))
    return str(chat(tmp_path / "s.jsonl", *messages))


def path(file: str) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return [entry.uuid for entry in session.path()]


def test_three_attempts_begin_at_one_entry_and_the_best_is_kept(calls: Calls, file: str) -> None:
    before = path(file)
    lanes = []
    for words in ("a", "b", "c"):
        attempt = calls.value("branch.try", session=file, at="@~2")
        assert attempt["at"]["preview"] == "first"
        made = calls.value("node.create_text", session=file, text=words, lane=attempt["lane"])
        assert (made["lane"], made["parent"]) == (attempt["lane"], attempt["leaf"])
        lanes.append(attempt["lane"])
    assert path(file) == before
    listed = calls.value("branch.lanes", session=file, scratch=True)["items"]
    assert [one["lane"] for one in listed] == lanes[::-1]
    assert {one["at"]["preview"] for one in listed} == {"a", "b", "c"}
    kept = calls.value("branch.keep", session=file, lane=lanes[1])
    assert kept["left"] == before[-1]
    assert said_in(Path(file)) == ["one", "first", "b"]
    joined = {
        one["lane"]: one.get("joined", False)
        for one in calls.value("branch.lanes", session=file)["items"]
    }
    assert joined == {"main": False, lanes[0]: False, lanes[1]: True, lanes[2]: False}
    assert calls("branch.keep", session=file, lane=lanes[1]).kind == "nothing_to_do"


def test_here_tells_the_leaf_the_prompt_and_the_context(calls: Calls, file: str) -> None:
    *_, prompt, leaf = path(file)
    calls.value("branch.push", session=file, note="look")
    here = calls.value("branch.here", session=file)
    assert (here["at"]["uuid"], here["prompt"]["uuid"], here["messages"]) == (leaf, prompt, 4)
    assert here["pushed"] == here["leaf"] != leaf
    assert calls("branch.here", session=file, lane="none").kind == "no_such_ref"


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("switch", {"ref": "@~2"}, ["one", "first"]),
        ("start", {"ref": "@~2", "name": "other", "summary": "left"}, ["one", "first", "left"]),
        ("start", {"ref": "@~2", "summarize": True}, None),
        ("pop", {"summary": "done"}, ["one", "first", "two", "done"]),
        ("rewind", {}, ["one", "first"]),
        ("push", {}, ["one", "first", "two", "second"]),
    ],
)
def test_a_move_says_where_the_session_is_and_what_it_left(
    calls: Calls, file: str, name: str, params: dict[str, Any], said: list[str] | None
) -> None:
    before = path(file)
    moved = calls.value(f"branch.{name}", session=file, **params)
    with Session.open(file, readonly=True) as session:
        assert session.leaf.uuid == moved["uuid"]
        assert session.reader.skip_markers(session.leaf).uuid == moved["at"]["uuid"]
    assert moved.get("left") == (None if name == "push" else before[-1])
    if said is not None:
        context = [text.removeprefix("[Summary] ") for text in said_in(Path(file))]
        assert [text[-len(words) :] for text, words in zip(context, said, strict=True)] == said
    if name == "rewind":
        assert (moved["prompt"], moved["text"]) == (before[-2], "two")


def test_a_move_on_a_scratch_lane_leaves_main_where_it_is(calls: Calls, file: str) -> None:
    before = path(file)
    moved = calls.value("branch.switch", session=file, ref="@~2", scratch=True)
    assert moved["lane"].startswith("scratch/")
    assert path(file) == before


def test_a_switch_to_where_the_session_is_writes_nothing(calls: Calls, file: str) -> None:
    before = Path(file).read_bytes()
    moved = calls.value("branch.switch", session=file, ref="@")
    assert moved["written"] is False
    assert Path(file).read_bytes() == before


def test_a_plan_gives_what_to_summarize_and_its_summary_fits_what_came_since(
    calls: Calls, file: str
) -> None:
    planned = calls.value("branch.plan", session=file, keep=0, instructions="Keep names.")
    assert "[user]\none" in planned["text"]
    assert "Keep names." in planned["text"]
    assert planned["messages"] == 4
    calls.value("node.create_text", session=file, text="meanwhile")
    given = {"keep": 0, "leaf": planned["leaf"], "summary": "all of it"}
    done = calls.value("branch.compact", session=file, **given)
    assert done["tokens_before"] == planned["tokens_before"]
    texts = said_in(Path(file))
    assert len(texts) == 2
    assert "all of it" in texts[0]
    assert texts[1] == "meanwhile"
    refused = calls("branch.compact", session=file, **given)
    assert refused.kind == "bad_value"
    assert "was written since the plan" in (refused.error or "")


def test_a_plan_of_a_long_conversation_comes_in_parts(calls: Calls, tmp_path: Path) -> None:
    file = str(chat(tmp_path / "long.jsonl", *(f"{n} " + "x" * 300 for n in range(200))))
    text, offset = "", 0
    while offset is not None:
        answer = calls("branch.plan", session=file, keep=0, offset=offset, budget=1000)
        assert answer.tokens <= 1000
        text, offset = text + answer.value["text"], answer.value.get("next")
    with Session.open(file, readonly=True) as session:
        assert text == session.compaction_plan(keep=0).text


@for_each(
    ("name", "params", "kind"),
    [
        ("compact", {}, "nothing_to_do"),
        ("compact", {"summary": "a", "summarize": True}, "bad_value"),
        ("compact", {"first_kept": "@", "keep": 0}, "bad_value"),
        ("compact", {"keep": -1}, "bad_parameter"),
        ("plan", {"first_kept": "@", "keep": 0}, "bad_value"),
        ("switch", {"ref": "nothing"}, "no_such_ref"),
        ("start", {"ref": "@", "name": "a b~"}, "bad_name"),
        ("pop", {"ref": "@"}, "nothing_to_do"),
        ("rewind", {"ref": "@"}, "bad_value"),
        ("merge", {"ref": "@"}, "nothing_to_do"),
        ("cherry_pick", {"ref": "@", "source": "none"}, "session_not_found"),
        ("keep", {"lane": "none"}, "nothing_to_do"),
        ("try", {"at": "nothing"}, "no_such_ref"),
        ("diff", {"one": "nothing"}, "no_such_ref"),
    ],
)
def test_what_cannot_be_done_is_refused_and_writes_nothing(
    calls: Calls, file: str, name: str, params: dict[str, Any], kind: str
) -> None:
    before = Path(file).read_bytes()
    assert calls(f"branch.{name}", session=file, **params).kind == kind
    assert Path(file).read_bytes() == before


def test_no_move_is_made_where_calls_only_read(tmp_path: Path, file: str) -> None:
    calls = Calls(tmp_path, write=False)
    before = Path(file).read_bytes()
    methods = calls.dispatcher.namespaces["branch"].methods.values()
    writing = [method for method in methods if method.effect != "read"]
    given = {"ref": "@~1", "one": "@", "lane": "a", "summary": "s"}
    for method in writing:
        known = method.params_schema["properties"]
        params = {key: value for key, value in given.items() if key in known}
        assert calls(method.full_name, session=file, **params).kind == "read_only"
    assert len(writing) == 10
    assert Path(file).read_bytes() == before


def test_a_branch_is_merged_and_an_entry_of_another_session_picked(
    calls: Calls, file: str, tmp_path: Path
) -> None:
    other = str(chat(tmp_path / "other.jsonl", "picked"))
    left = path(file)[-1]
    calls.value("branch.switch", session=file, ref="@~2")
    calls.value("branch.merge", session=file, ref=left)
    calls.value("branch.cherry_pick", session=file, ref="@", source=other)
    assert said_in(Path(file)) == ["one", "first", "two", "second", "picked"]


def test_branches_come_with_the_current_one_first_and_page(calls: Calls, file: str) -> None:
    fork = path(file)[2]
    for number in range(60):
        calls.value("branch.start", session=file, ref=fork, name=f"try-{number}")
        calls.value("node.create_text", session=file, text=f"attempt {number}")
    with Session.open(file, readonly=True) as session:
        expected = [branch.leaf for branch in session.branches()][::-1]
    found = calls.pages("branch.list", session=file, budget=1000)
    assert [one["leaf"] for one in found] == expected
    assert [one.get("current", False) for one in found] == [True] + [False] * 60
    assert found[0]["name"] == "try-59"
    below = calls.value("branch.list", session=file, below=path(file)[-1])["items"]
    assert [one["preview"] for one in below] == ["attempt 59"]


def test_a_comparison_keeps_its_budget_and_says_what_is_left_out(
    calls: Calls, tmp_path: Path
) -> None:
    edit = {"type": "tool_use", "name": "Edit", "input": {"file_path": "/project/a.py"}}
    file = str(chat(tmp_path / "wide.jsonl", "start", cwd="/project"))
    with Session.open(file, durability="os") as session:
        fork = session.leaf
        tips = []
        for side in ("left", "right"):
            session.branch(fork)
            for number in range(150):
                session.append_message(user(f"{side} {number} " + "w" * 300))
                id = f"{side}{number}"
                session.append_message(assistant([{**edit, "id": id}]))
                done = {"type": "tool_result", "tool_use_id": id, "content": "ok"}
                session.append_message(user([done]))
                session.append_message(assistant("done"))
            tips.append(session.leaf.uuid)
    answer = calls("branch.diff", session=file, one=tips[0], other=tips[1])
    found = answer.value
    assert answer.tokens <= 4000
    assert (found["fork"], found["turn"], found["prompt"]) == (fork.uuid, "1", "start")
    assert found["both_changed"] == ["a.py"]
    for side, name in ((found["one"], "left"), (found["other"], "right")):
        assert side["prompts"] == 150
        assert side["changed"] == ["a.py"]
        assert side["calls"] == {"Edit": 150}
        assert side["turns"][0]["prompt"].startswith(f"{name} 149")
        assert "earlier turns are left out" in side["more"]
    whole = calls.value("branch.diff", session=file, one=tips[0], budget=0)
    assert len(whole["one"]["turns"]) == 150
