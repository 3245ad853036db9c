"""Prompts of Claude Code that only its queue has: typed during a turn, and sent with results."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sessiontree import Session
from sessiontree.agents.claude_code.lines import Queue
from sessiontree.importing.importer import import_session
from sessiontree.library.counts import CountCache
from sessiontree.library.places import Selection, conversations_in
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.text.pattern import query
from tests.support.table import for_each
from tests.support.transcripts import Line, assistant, line, result, user, written

NOTE = "<task-notification>\n<task-id>t1</task-id>\n</task-notification>"


def queue(operation: str, **more: Any) -> Line:
    at = "2026-02-10T21:11:30.000Z"
    return {"type": "queue-operation", "operation": operation, "timestamp": at, **more}


BEFORE: list[Line] = [user("a", None), assistant("b", "a", "m", ["t"])]
AFTER: list[Line] = [result("r", "b", "t"), assistant("c", "r", "n"), user("d", "c")]
QUEUED = [queue("enqueue", content="check again"), queue("remove")]


def attached(text: str) -> Line:
    about = {"type": "queued_command", "prompt": text, "commandMode": "prompt"}
    return line("x", "r", "attachment", attachment=about)


LATER: dict[str, list[Line]] = {
    "a later prompt": [user("x", "c", "check again")],
    "a part of a later prompt": [user("x", "c", "now\ncheck again")],
    "an attachment": [attached("check again")],
    "a line of the program": [
        line("x", "r", "system", subtype="local_command", content="check again")
    ],
}
COMMAND = "<command-message>mcp</command-message>\n<command-name>/mcp</command-name>"
NOT_SENT: dict[str, list[Line]] = {
    "a note of a task": [queue("enqueue", content=NOTE), queue("remove")],
    "taken back": [QUEUED[0], queue("popAll")],
    "still waiting": [QUEUED[0]],
    "a command that follows": [
        *(queue("enqueue", content="/mcp"), queue("remove")),
        user("x", "a", COMMAND),
    ],
}


def prompts_of(file: Path) -> list[str | None]:
    with Session.open(file, readonly=True) as session:
        outline = session.outline()
        assert session.verify() == []
        assert [turn[0].uuid for turn in session.turns()] == [
            turn.uuid for turn in outline.turns if turn.prompt is not None and turn.current
        ]
        return [turn.prompt for turn in outline.turns]


def found(file: Path, words: str) -> list[str]:
    wanted = SearchFilter(conversation=True, roles=frozenset({"prompt"}))
    return [hit.ref for hit in search(query(words), [str(file)], wanted, print)]


def test_a_prompt_that_only_the_queue_has_begins_a_turn_and_is_in_no_context(
    tmp_path: Path,
) -> None:
    plain = written(tmp_path / "plain.jsonl", [*BEFORE, *AFTER])
    file = written(tmp_path / "s.jsonl", [*BEFORE, *QUEUED, *AFTER])
    assert prompts_of(file) == ["say a", "check again", "say d"]
    with Session.open(file, readonly=True) as session, Session.open(plain, readonly=True) as other:
        assert session.context().messages == other.context().messages
        assert len(session.branches()) == 1
        first, typed, _ = session.outline().turns
        assert (first.leaf, first.work.unanswered, typed.answer) == ("r", 0, "said c")
        assert found(file, "check") == [typed.uuid]
    plain.unlink()
    ((_, counts),) = CountCache(None).counted(conversations_in([str(tmp_path)], Selection(), print))
    assert counts is not None
    assert counts.turns == 3


@for_each("name", [*LATER, *NOT_SENT])
def test_a_prompt_that_a_message_carries_or_that_was_not_sent_begins_no_turn_of_its_own(
    name: str, tmp_path: Path
) -> None:
    before = NOT_SENT.get(name, QUEUED)
    lines = [*BEFORE, *before, *AFTER[:2], *LATER.get(name, [])]
    prompts = prompts_of(written(tmp_path / "s.jsonl", lines))
    assert len(prompts) == len(set(prompts)) == (1 if name in NOT_SENT else 2) + ("/mcp" in prompts)
    ((_, counts),) = CountCache(None).counted(conversations_in([str(tmp_path)], Selection(), print))
    assert counts is not None
    assert counts.turns == len([prompt for prompt in prompts if prompt is not None])


def test_several_prompts_sent_at_once_begin_a_turn_each(tmp_path: Path) -> None:
    more = [queue("enqueue", content="and this"), queue("remove"), queue("remove")]
    file = written(tmp_path / "s.jsonl", [*BEFORE, QUEUED[0], *more, *AFTER])
    assert prompts_of(file) == ["say a", "check again", "and this", "say d"]


def test_an_import_keeps_the_prompt_and_a_later_one_repeats_nothing(tmp_path: Path) -> None:
    for end in (3, 4, 5, 7):
        file = written(tmp_path / "s.jsonl", [*BEFORE, *QUEUED, *AFTER][:end])
        target = tmp_path / f"{end}"
        import_session(file, target)
        written(file, [*BEFORE, *QUEUED, *AFTER])
        made = import_session(file, target).file
        assert prompts_of(Path(made)) == ["say a", "check again", "say d"], end
        with Session.open(made, readonly=True) as session:
            assert len(session.context().messages) == 5
        shutil.rmtree(target)


def test_an_import_of_an_earlier_version_is_not_repeated_below_the_prompt(tmp_path: Path) -> None:
    file = written(tmp_path / "s.jsonl", [*BEFORE, *QUEUED, *AFTER])
    with patch.object(Queue, "lost", lambda queue: iter(())):
        import_session(file, tmp_path / "to")
    written(file, [*BEFORE, *QUEUED, *AFTER, assistant("e", "d", "o")])
    again = import_session(file, tmp_path / "to")
    with Session.open(again.file, readonly=True) as session:
        assert len(session.context().messages) == 6
        assert len([row for row in session.tree() if row.type == "message"]) == 6


@for_each("end", ["", "\ud800"])
@for_each(
    ("more", "is_typed"),
    [
        ({}, True),
        ({"origin": {"kind": "human"}}, True),
        ({"origin": {"kind": "coordinator"}}, False),
        ({"isMeta": True}, False),
        ({"commandMode": "task-notification"}, False),
        ({"type": "file"}, False),
    ],
)
def test_an_attachment_is_a_prompt_only_if_the_user_typed_it(
    tmp_path: Path, more: dict[str, Any], is_typed: bool, end: str
) -> None:
    """Also where the line has half of a pair of surrogates, as Node writes a text that was cut."""
    sent = attached(f"check again{end}")
    sent["attachment"] |= more
    file = written(tmp_path / "s.jsonl", [*BEFORE, *AFTER[:2], sent])
    with Session.open(file, readonly=True) as session:
        prompts = [turn.prompt for turn in session.outline().turns]
    assert len(prompts) == (2 if is_typed else 1)
