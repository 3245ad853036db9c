from __future__ import annotations

from typing import Any

import pytest

from sessiontree.context.compaction import summarize, text_of_summary
from sessiontree.core.entry import Entry
from sessiontree.errors import EntryError
from tests.support.histories import result, said
from tests.support.lines import entry, message


def used(name: str, arguments: Any) -> Entry:
    block = {"type": "toolCall", "id": "i", "name": name, "arguments": arguments}
    return message("u", [block], "assistant")


def test_a_summary_tells_requests_files_and_the_last_answer() -> None:
    entries = [
        message("1", "Build\na CLI"),
        used("read", {"path": "a.py"}),
        used("Edit", {"file_path": "b.py"}),
        used("read", {"path": "b.py"}),
        message("2", [said("first answer")], "assistant"),
        entry("branch_summary", summary="Tried Node"),
        message("3", "And tests"),
        message("4", [said("last answer")], "assistant"),
        used("ls", {"path": "c.py"}),
    ]
    assert summarize(entries).split("\n\n") == [
        "Asked:\n- Build↵a CLI\n- And tests",
        "Earlier:\n- Tried Node",
        "Files changed:\n- b.py",
        "Files read:\n- a.py",
        "Last answer: last answer",
    ]


def test_earlier_compactions_are_not_forgotten() -> None:
    assert summarize([entry("compaction", summary="All before")]) == "Earlier:\n- All before"


def test_results_are_no_requests() -> None:
    block = result("anthropic", "a")["content"]
    assert "Asked" not in summarize([message("1", block)])


def test_calls_without_a_path_touch_no_file() -> None:
    arguments: Any
    for arguments in (None, "text", [], {}, {"path": 5}):
        assert "Files" not in summarize([used("read", arguments)])


def test_where_nothing_was_said_the_summary_says_so() -> None:
    entries = [entry("custom"), entry("message", message="none")]
    assert summarize(entries) == "2 entries without a request or an answer."


def test_a_summary_is_text_or_made_by_a_summarizer() -> None:
    entries = [message("1", "x")]
    assert text_of_summary("as it is", entries) == "as it is"
    assert text_of_summary(lambda left: f"{len(left)} left", entries) == "1 left"
    assert text_of_summary(summarize, entries) == "Asked:\n- x"


@pytest.mark.parametrize("empty", ["", "  \n", None, 5])
def test_an_empty_summary_is_refused(empty: Any) -> None:
    with pytest.raises(EntryError, match="the summary is"):
        text_of_summary(empty, [])
    with pytest.raises(EntryError, match="the summarizer returned"):
        text_of_summary(lambda entries: empty, [])
