"""Compaction in steps: what a summary would replace, and a summary that is written for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sessiontree import (
    CompactionPlan,
    Entry,
    NothingToDoError,
    Session,
    UsageError,
    estimate_tokens,
    summarize,
)
from tests.support.conversation import assistant, result, said, talk, user


def test_a_plan_says_what_a_summary_replaces_and_its_compaction_does_that(
    file: Path, stored: Session
) -> None:
    talk(stored, *(f"m{n} " + "x" * 400 for n in range(20)))
    before = file.read_bytes()
    plan = stored.compaction_plan(keep=500)
    assert file.read_bytes() == before
    whole = stored.context()
    cut = whole.entries.index(plan.first_kept)  # type: ignore[arg-type]
    assert (plan.entries, plan.messages) == (whole.entries[:cut], whole.messages[:cut])
    assert plan.tokens_before == whole.tokens
    assert plan.tokens_after == sum(map(estimate_tokens, whole.messages[cut:]))
    entry = stored.compact("short", plan)
    assert said(stored.context()) == ["short", *said(whole)[cut:]]
    assert entry["tokensBefore"] == whole.tokens


@pytest.mark.parametrize("summary", ["s", lambda entries: "s", summarize])
def test_a_summary_that_is_given_replaces_a_short_context_as_a_whole(
    summary: Any, session: Session
) -> None:
    talk(session, "p1", "a1")
    session.compact(summary)
    assert len(session.context().messages) == 1
    assert session.compaction_plan().first_kept is None


@pytest.mark.parametrize("summary", [None, "s"])
@pytest.mark.parametrize(
    ("length", "keep", "cause"),
    [(4, 20_000, "20,000 are to be kept"), (4000, 10, "no entry can be left out")],
)
def test_what_cannot_be_kept_so_says_how_to_replace_all(
    summary: str | None, length: int, keep: int, cause: str, session: Session
) -> None:
    talk(session, "x" * length)
    with pytest.raises(NothingToDoError, match=f"{cause}.*keep 0 tokens"):
        session.compact(summary, keep=keep)


def test_an_empty_context_has_nothing_to_compact(session: Session) -> None:
    for compact in (session.compact, session.compaction_plan, lambda: session.compact("s", keep=0)):
        with pytest.raises(NothingToDoError, match="the context is empty"):
            compact()


@pytest.mark.parametrize("keep", [0, 2])
def test_what_was_written_since_the_plan_stays(keep: int, session: Session) -> None:
    session.set_model("p", "old")
    talk(session, "m1 " * 4, "m2 " * 4, "m3")
    plan = session.compaction_plan(keep=keep)
    session.set_model("p", "new")
    since = session.append_message(assistant("a3"))
    session.edit_context(since, "edited")
    session.compact("s", plan)
    assert said(session.context()) == ["s", *(["m3"] if keep else []), "edited"]
    assert session.context().model == {"provider": "p", "modelId": "new"}


def test_what_a_hook_or_a_summarizer_writes_stays_too(file: Path) -> None:
    def adds(session: Session, entry: Entry) -> None:
        session.append_message(user("by the hook"))

    def summarizer(entries: Sequence[Entry]) -> str:
        session.append_message(user("by the summarizer"))
        return "s" * 400

    hooks = [SimpleNamespace(before_compact=adds)]
    with Session.create(file, hooks=hooks, spill_over=200) as session:
        talk(session, "p1")
        entry = session.compact(summarizer, keep=0)
        assert entry.has_spilled
        assert said(session.context()) == ["s" * 400, "by the summarizer", "by the hook"]
        assert session.verify() == []


MOVED: dict[str, tuple[Callable[[Session], object], str]] = {
    "another branch": (lambda session: session.rewind(), "moved to"),
    "a compaction": (lambda session: session.compact("other", keep=0), "was written since"),
    "an edit": (lambda session: session.edit_context("@~3", "secret"), "edits the content"),
}


@pytest.mark.parametrize("move", MOVED)
def test_a_plan_that_no_longer_fits_is_refused(move: str, session: Session) -> None:
    talk(session, "m1", "m2", "m3", "m4")
    plan = session.compaction_plan(first_kept="@~1")
    act, error = MOVED[move]
    act(session)
    count = len(list(session.entries()))
    with pytest.raises(UsageError, match=f"{error}.*make a new plan"):
        session.compact("s", plan)
    with pytest.raises(UsageError, match=error):
        session.compact(lambda entries: pytest.fail("was asked"), plan)
    assert len(list(session.entries())) == count


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"plan": "@~1"}, "give first_kept="),
        ({"plan": CompactionPlan, "keep": 5}, "the plan has what to keep"),
        ({"plan": CompactionPlan, "instructions": "x"}, "the plan has what to keep"),
        ({"keep": 5, "first_kept": "@"}, "not both"),
        ({"instructions": "x"}, "the summary is a text"),
        ({"instructions": " "}, "instructions are a text"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    given: dict[str, Any], error: str, session: Session
) -> None:
    talk(session, "p1", "a1")
    if given.get("plan") is CompactionPlan:
        given = {**given, "plan": session.compaction_plan()}
    with pytest.raises(UsageError, match=error):
        session.compact("s", **given)
    assert session.find(type="compaction") == []


def test_the_users_instructions_reach_a_summarizer_and_the_text(session: Session) -> None:
    talk(session, "p1", "a1")
    told: list[tuple[list[str], str]] = []

    def ask(entries: Sequence[Entry], instructions: str) -> str:
        told.append(([entry.type for entry in entries], instructions))
        return "s"

    plan = session.compaction_plan(instructions="Keep the names")
    assert plan.text.index("a1") < plan.text.index("Keep the names")
    session.compact(ask, plan)
    session.append_message(user("p2"))
    session.compact(ask, first_kept="@", instructions="In French")
    assert told == [(["message"] * 2, "Keep the names"), (["compaction"], "In French")]


@pytest.mark.parametrize(
    ("summary", "error"),
    [
        (None, "built-in summarizer"),
        (summarize, "built-in summarizer"),
        (lambda entries: "s", "takes no instructions"),
    ],
)
def test_a_summarizer_that_takes_no_instructions_is_refused(
    summary: Any, error: str, session: Session
) -> None:
    talk(session, "p1", "a1")
    with pytest.raises(UsageError, match=error):
        session.compact(summary, keep=0, instructions="In French")
    assert session.find(type="compaction") == []


def test_the_text_has_what_the_context_has_and_marks_what_it_cuts(session: Session) -> None:
    talk(session, "old", "older")
    session.compact("what was before", keep=0)
    talk(session, "the secret", "told")
    session.edit_context("@~1", "(removed)")
    with session.stream_message(granularity="block") as answer:
        answer.add({"type": "thinking", "thinking": "hm", "signature": "sealed"})
        answer.add({"type": "text", "text": "I look. </conversation>"})
        answer.add({"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.py"}})
    session.append_message(result("c1", "start " + "x" * 5_000 + " end"))
    session.append_message({"type": "function_call", "call_id": "c2", "name": "ls"})
    session.append_message({"type": "function_call_output", "call_id": "c2", "output": "b.py"})
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
    session.append_message(user([image, {"type": "text", "text": "See?"}]))
    text = session.compaction_plan(keep=0).text
    body = text.split("<conversation>\n")[1].split("\n</conversation>")[0]
    assert re.sub("x{10,}", "…", body).splitlines() == [
        "[user]",
        "The earlier part of this conversation was replaced by this summary:",
        *("", "<summary>", "what was before", "</summary>", ""),
        *("(removed)", "", "[assistant]", "told", ""),
        *("I look. <\\/conversation>", "", "[call of read]", '{"path":"a.py"}', ""),
        *("[result of read]", "start …", "[… 3,010 characters are left out …]", "… end", ""),
        *("[call of ls]", "{}", "", "[result of ls]", "b.py", ""),
        *("[user]", "(image)", "", "See?"),
    ]


@pytest.mark.parametrize("leave", ["compact", "pop"])
def test_the_built_in_summary_has_what_was_streamed_in_blocks(leave: str, session: Session) -> None:
    talk(session, "Build it")
    for words in ("I write it", "Done"):
        with session.stream_message(granularity="block") as answer:
            answer.add({"type": "text", "text": words})
            written = {"file_path": f"{words}.py"}
            answer.add({"type": "tool_use", "id": words, "name": "Write", "input": written})
    entry = session.compact(keep=0) if leave == "compact" else session.pop()
    written_files = "Files changed:\n- I write it.py\n- Done.py"
    assert entry["summary"].endswith(f"{written_files}\n\nLast answer: Done")


def test_a_session_knows_when_its_context_nears_the_models_window(session: Session) -> None:
    session.append_message({"role": "system", "content": "s" * 400})  # 100 tokens
    talk(session, "x" * 3600)  # 900 tokens
    assert session.context().tokens == 900
    assert not session.needs_compaction(2_000, 1_000)
    assert session.needs_compaction(1_999, 1_000)
    assert session.needs_compaction(17_383)  # about 16,000 are to stay free
    assert not session.needs_compaction(17_384)
    assert session.needs_compaction(20, 10, count=lambda message: 6)
    for window, reserve in ((0, 0), (-1, 0), ("x", 0), (100, 100), (100, -1), (100, None)):
        with pytest.raises(UsageError, match=r"window|reserve"):
            session.needs_compaction(window, reserve)  # type: ignore[arg-type]
