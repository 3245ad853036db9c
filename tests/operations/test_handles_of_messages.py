"""A conversation whose messages are handles works as one whose messages are in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiontree import (
    Entry,
    Handle,
    NothingToDoError,
    ResolveError,
    Session,
    SessionTreeWarning,
    UsageError,
)
from sessiontree.handles.registry import Registry
from sessiontree.library.listing import facts_of
from sessiontree.views.messages import AT_ONCE
from tests.support.conversation import call, in_memory, result, text, user
from tests.support.plugins import Plugin, handle

USAGE = {"input": 5, "output": 7}
TALK: list[dict[str, Any]] = [
    user("Build a CLI"),
    {**call("c1"), "model": "m", "provider": "p", "usage": USAGE},
    result("c1", "a.py"),
    {"role": "assistant", "content": "Built.", "model": "m", "provider": "p", "usage": USAGE},
    user("Add --verbose"),
    {"role": "assistant", "content": "Added.", "model": "m", "provider": "p", "usage": USAGE},
]


class Far(Plugin):
    """Keeps messages elsewhere, by number."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        super().__init__("p", resolve=self._message)
        self.messages = messages

    def _message(self, wanted: Handle, scope: Any) -> Any:
        number = int(wanted.meta[0])
        if number >= len(self.messages):
            raise ResolveError(f"message {number} is gone", str(wanted))
        return self.messages[number]

    def numbers(self) -> list[int]:
        """The messages asked for so far, which are forgotten."""
        numbers, self.asked[:] = [int(one.meta[0]) for one in self.asked], []
        return numbers


@pytest.fixture
def far() -> Far:
    return Far(TALK)


@pytest.fixture(params=["in the file", "in memory"])
def session(far: Far, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    file = None if request.param == "in memory" else tmp_path / "handles.jsonl"
    with Session.create(file, id="handles", cwd="/", registry=Registry([far])) as session:
        for number in range(len(TALK)):
            session.append_handle(handle(number))
        yield session


@pytest.fixture
def plain() -> Iterator[Session]:
    with in_memory() as session:
        for message in TALK:
            session.append_message(message)
        yield session


def places(session: Session, entries: Sequence[Entry]) -> list[int]:
    """Where entries are among those of the path."""
    path = [entry.uuid for entry in session.path()]
    return [path.index(entry.uuid) for entry in entries]


def test_its_turns_are_those_of_its_messages(session: Session, plain: Session) -> None:
    turns = [places(session, turn) for turn in session.turns()]
    assert turns == [places(plain, turn) for turn in plain.turns()] == [[1, 2, 3, 4], [5, 6]]


def test_rewind_goes_above_its_last_prompt(session: Session) -> None:
    first = session.path()[1]
    assert session.rewind() == "Add --verbose"
    assert text(session.context().messages[-1]) == "Built."
    assert session.rewind(first) == "Build a CLI"
    with pytest.raises(NothingToDoError):
        session.rewind()


def test_only_a_prompt_is_rewound(session: Session) -> None:
    with pytest.raises(UsageError, match="is not a prompt"):
        session.rewind(session.path()[2])


def test_pop_without_a_push_goes_to_the_prompt_with_work(session: Session) -> None:
    prompt = session.path()[5]
    popped = session.pop()
    assert popped.parent_uuid == prompt.uuid
    assert popped["summary"] == "Last answer: Added."


def test_a_summary_is_made_of_its_messages(session: Session) -> None:
    def summarizer(entries: Sequence[Entry]) -> str:
        assert entries[:1][0] == entries[0]
        assert len(entries) == 2
        return " ".join(text(entry["message"]) for entry in entries)

    path = session.path()
    assert session.branch(path[4], summary=summarizer)["summary"] == "Add --verbose Added."
    session.switch(path[-1])
    assert session.compact(summarizer, first_kept=path[3])["summary"] == "Build a CLI c1"


def test_a_compaction_cuts_it_as_its_messages(session: Session, plain: Session) -> None:
    def cost(message: Any) -> int:
        return 10

    kept = [one.compact("s", keep=20, count=cost)["firstKeptEntryUuid"] for one in (session, plain)]
    entries = [one.entry(uuid) for one, uuid in zip((session, plain), kept, strict=True)]
    assert places(session, entries[:1]) == places(plain, entries[1:]) == [5]


def test_its_usage_counts(session: Session, plain: Session) -> None:
    assert session.stats().usage == plain.stats().usage
    assert session.stats().models == plain.stats().models
    assert session.stats().usage.input == 15


def test_its_tool_calls_are_found(session: Session) -> None:
    assert places(session, session.find(tool_call_id="c1")) == [2, 3]
    assert places(session, session.find(type="handle", tool_call_id="c1")) == [2, 3]
    assert session.find(tool_call_id="c2") == []


def test_its_blocks_and_events_are_those_of_its_messages(session: Session, plain: Session) -> None:
    answer = session.path()[2]
    assert session.block(answer, 0) == TALK[1]["content"][0]
    events, expected = ([type(e) for e in one.conversation()] for one in (session, plain))
    assert events == expected


def test_its_transcript_has_its_results_in_place(session: Session, plain: Session) -> None:
    lines, expected = (list(one.to_markdown()) for one in (session, plain))
    titles = (lines[0], expected[0])
    assert titles == ("# Session handles\n", "# Build a CLI\n")  # a title resolves no handle
    assert len(lines) == len(expected)


def test_what_an_entry_says_is_not_resolved(far: Far) -> None:
    with in_memory(registry=Registry([far])) as session:
        for number, message in enumerate(TALK):
            words = {"role": message["role"], "preview": f"message {number}"}
            session.append_handle(handle(number), **words)
        assert len(session.turns()) == 2
        assert far.numbers() == [0, 4]  # they may be prompts
        assert session.stats().usage.output == 21
        assert far.numbers() == [1, 3, 5]
        session.context()
        far.numbers()
        session.turns()
        session.rewind()
        session.stats()
        assert far.numbers() == [5]  # which is on no path now


def test_a_tool_result_of_the_role_user_is_no_prompt(far: Far) -> None:
    far.messages = [
        user("go"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls"}]},
        user([{"type": "tool_result", "tool_use_id": "t", "content": "a"}]),
    ]
    with in_memory(registry=Registry([far])) as session:
        for number, message in enumerate(far.messages):
            session.append_handle(handle(number), role=message["role"])
        assert [len(turn) for turn in session.turns()] == [3]
        assert session.rewind() == "go"


def test_an_attachment_begins_no_turn(plain: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    plain.append("handle", handle=str(Handle.file("a.txt")), kind="binary", role="user")
    assert [len(turn) for turn in plain.turns()] == [4, 2]
    assert plain.rewind() == "Add --verbose"


def test_what_cannot_be_resolved_is_told_once(far: Far) -> None:
    with in_memory(registry=Registry([far])) as session:
        session.append_handle(handle(0), role="user", preview="first")
        session.append_handle(handle(8), role="user", preview="lost")
        session.append_handle(handle(9))
        lacks: dict[str, Callable[[], object]] = {
            "prompts: message 8 is gone": session.turns,
            "tool calls are not found: message 8": lambda: session.find(tool_call_id="c"),
            "usage is not counted: message 9": session.stats,
            "not among the events: message 8": lambda: list(session.conversation()),
            "what they say: message": session.rewind,
        }
        for lack, look in lacks.items():
            with pytest.warns(SessionTreeWarning, match=f"handles? cannot be .*{lack}") as told:
                look()
            assert len(told) == 1
        rows = list(session.tree())
        assert (rows[2].preview, rows[3].preview) == ("lost", "p@1.0.0::a:9")
        with pytest.raises(ResolveError, match="message 8 is gone"):
            session.block(rows[2].uuid, 0)


def test_many_handles_are_resolved_some_at_once(far: Far) -> None:
    asked: list[int] = []
    with in_memory(registry=Registry([far])) as session:
        with session.batch():
            for number in range(AT_ONCE + 5):
                session.append_handle(handle(number % len(TALK)))
        resolve = session.cursor.resolve

        def counted(entries: Sequence[Entry]) -> Any:
            asked.append(len(entries))
            return resolve(entries)

        session.cursor.resolve = counted
        assert len(session.find(tool_call_id="c1")) == 336
        assert asked == [AT_ONCE, 5]


def test_a_list_shows_the_preview_of_its_first_prompt(far: Far, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file, registry=Registry([far])) as session:
        session.append_handle(handle(0), role="user", preview="Build a CLI")
    assert facts_of(str(file)).first_message == "Build a CLI"
    assert far.numbers() == []
