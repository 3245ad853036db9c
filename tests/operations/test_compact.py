"""Compaction: a summary in place of the older part of one branch's context."""

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
    RefError,
    Session,
    SessionTreeWarning,
    UsageError,
    estimate_tokens,
    summarize,
)
from tests.support.conversation import (
    assistant,
    call,
    chain,
    in_memory,
    line,
    opened,
    result,
    said,
    talk,
    text,
    user,
)
from tests.support.files import Counting
from tests.support.started import Reading
from tests.support.table import for_each


def _tokens(session: Session) -> int:
    """The tokens of what a compaction kept."""
    return sum(map(estimate_tokens, session.context().messages[1:]))


def test_the_default_cut_keeps_about_20000_tokens_at_a_prompt(session: Session) -> None:
    for n in range(100):
        talk(session, f"p{n} " + "x" * 1600, f"a{n} " + "y" * 1200)
        session.append_message(assistant(f"b{n} " + "y" * 1200))
    before = session.context().tokens
    compaction = session.compact()
    kept = session.entry(compaction["firstKeptEntryUuid"])["message"]
    assert kept["role"] == "user"
    assert 19_000 <= _tokens(session) <= 21_000
    assert compaction["tokensBefore"] == before > 90_000
    assert session.context().messages[1] == kept


def test_keep_says_how_much_stays(session: Session) -> None:
    talk(session, *("x" * 400 for _ in range(40)))
    session.compact("s", keep=1000)
    assert 900 <= _tokens(session) <= 1100
    session.compact("s2", keep=500)
    assert 400 <= _tokens(session) <= 600
    compaction = session.compact("s3", keep=0)
    assert compaction["firstKeptEntryUuid"] == compaction.uuid
    assert said(session.context()) == ["s3"]


def test_a_counter_of_ones_own_decides(session: Session) -> None:
    talk(session, *(f"m{n}" for n in range(20)))
    compaction = session.compact("s", keep=4, count=lambda message: 1)
    assert said(session.context()) == ["s", "m16", "m17", "m18", "m19"]
    assert compaction["tokensBefore"] == 20


def test_details_and_usage_are_kept(session: Session) -> None:
    talk(session, "p1", "a1")
    compaction = session.compact("s", keep=0, details={"files": ["a"]}, usage={"input": 5})
    assert compaction["details"] == {"files": ["a"]}
    assert compaction["usage"] == {"input": 5}


def test_a_cut_never_parts_a_call_from_its_result(session: Session) -> None:
    talk(session, "p" * 400)
    for n in range(10):
        session.append_message(call(f"c{n}", f"d{n}"))
        session.append_message(result(f"c{n}", "r" * 400))
        session.append_message(user("steer"))  # a user who speaks while a tool runs
        session.append_message(result(f"d{n}", "r" * 400))
    for keep in range(50, 2000, 150):
        point = session.leaf
        try:
            compaction = session.compact("s", keep=keep)
        except NothingToDoError:
            continue
        kept = session.entry(compaction["firstKeptEntryUuid"])["message"]
        assert kept["role"] in ("assistant", "user")
        told = "\n".join(session.context().warnings)
        assert "left out" not in told
        assert "never answered" not in told
        with pytest.warns(SessionTreeWarning):
            session.switch(point)


def test_what_was_said_last_is_kept_also_where_a_mark_stands_behind_it(session: Session) -> None:
    talk(session, "p1", "a1", "p2", "a2")
    session.edit_context("@~3", {"content": "edited"})
    session.rename("Renamed")
    session.compact("s", first_kept="@")
    assert said(session.context()) == ["s", "a2"]
    mark = session.edit_context(session.path()[1], None)
    session.compact("all", first_kept=mark)  # what is named itself is taken at its word
    assert said(session.context()) == ["all"]


def test_a_first_kept_entry_off_the_path_is_refused(session: Session) -> None:
    _, off = talk(session, "p1", "a1")
    session.branch(session.header)
    talk(session, "p2", "a2")
    count = len(list(session.entries()))
    with pytest.raises(UsageError, match="not on the current path"):
        session.compact("s", first_kept=off)
    with pytest.raises(RefError, match="not on the compacted path"):
        session.append("compaction", summary="s", firstKeptEntryUuid=off.uuid, tokensBefore=1)
    with pytest.raises(RefError):
        session.compact("s", first_kept="nowhere")
    assert len(list(session.entries())) == count


@pytest.mark.parametrize("keep", [-1, 1.5, "many"])
def test_what_is_no_number_of_tokens_is_refused(keep: Any, session: Session) -> None:
    talk(session, "p1", "a1")
    with pytest.raises(UsageError, match="keep"):
        session.compact("s", keep=keep)


def test_nothing_to_compact_writes_nothing(file: Path, stored: Session) -> None:
    with pytest.raises(NothingToDoError):
        stored.compact("s", keep=0)
    first = stored.append_message(user("p1"))
    talk(stored, "a1")
    before = file.read_bytes()
    with pytest.raises(NothingToDoError, match="nothing to compact"):
        stored.compact()
    for kept in (first, stored.header):
        with pytest.raises(NothingToDoError):
            stored.compact("s", first_kept=kept)
    assert file.read_bytes() == before


def test_the_state_at_the_compaction_is_recorded() -> None:
    with in_memory(name="talk", metadata={"thinkingLevel": "low"}) as session:
        session.append_message({"role": "system", "content": "Be brief."})
        session.set_model("anthropic", "m1")
        talk(session, "p1", "a1")
        state = session.compact("s", keep=0)["state"]
    model = {"provider": "anthropic", "modelId": "m1"}
    settings = {"model": model, "thinkingLevel": "low", "system": "Be brief.", "name": "talk"}
    assert state.items() >= settings.items()


def test_what_was_never_set_is_recorded_as_null(session: Session) -> None:
    talk(session, "p1", "a1")
    state = session.compact("s", keep=0)["state"]
    never_set = {"model": None, "thinkingLevel": None, "system": None, "name": None}
    assert state.items() >= never_set.items()


@pytest.mark.parametrize("state", [True, False], ids=["with a state", "without a state"])
def test_settings_above_a_compaction_are_looked_up_only_where_it_has_no_state(
    file: Path, state: bool
) -> None:
    with Session.create(file, cwd="/p", durability="os") as session:
        with session.batch():
            session.set_model("anthropic", "old")
            talk(session, *("x" * 2000 for _ in range(1000)))
        kept = session.append_message(user("kept"))
        if state:
            session.compact("s", first_kept=kept)
        else:
            session.append("compaction", summary="s", firstKeptEntryUuid=kept.uuid, tokensBefore=1)
        talk(session, "p1", "a1")
    disk = Counting()
    with Session.open(file, readonly=True, fs=disk) as session:
        context = session.context()
        assert said(context) == ["s", "kept", "p1", "a1"]
        near = kept.offset - 128 * 1024
        assert disk.lowest_after_header >= near
        assert context.model == {"provider": "anthropic", "modelId": "old"}
        assert (context.thinking_level, context.system) == (None, None)
        lowest = disk.lowest_after_header
        assert lowest >= near if state else lowest < kept.offset // 2


def _given(to: list[str]) -> Any:
    def summarizer(entries: Sequence[Entry]) -> str:
        to.extend(entry.get("summary") or text(entry["message"]) for entry in entries)
        return "new"

    return summarizer


def test_a_second_compaction_is_told_of_the_first_and_takes_its_place(session: Session) -> None:
    """Cut within what the first one kept: its summary must not be lost on the way."""
    talk(session, *(f"m{n}" for n in range(8)))
    session.compact("first", first_kept=session.path()[5])
    talk(session, "m8")
    told: list[str] = []
    session.compact(_given(told), first_kept=session.path()[7])
    assert told == ["first", "m4", "m5"]
    assert said(session.context()) == ["new", "m6", "m7", "m8"]
    assert said(session.context(verbatim=True)) == ["new", "m6", "m7", "m8"]


def test_the_summarizer_gets_what_the_context_holds_and_merged_work_too(session: Session) -> None:
    _, dropped = talk(session, "p1", "dropped")
    fork = session.edit_context(dropped, None)
    side = session.append_message(assistant("side"))
    session.branch(fork)
    session.merge(side)
    last = session.append_message(user("last"))
    told: list[str] = []
    session.compact(_given(told), first_kept=last)
    assert told == ["p1", "side"]
    assert said(session.context()) == ["new", "last"]


def test_a_compaction_may_take_back_what_an_earlier_one_left_out(session: Session) -> None:
    talk(session, "m0", "m1", "m2", "m3")
    session.compact("first", first_kept="@")
    session.compact("second", first_kept=session.path()[2])
    assert said(session.context()) == ["second", "m1", "m2", "m3"]


def test_asking_for_the_path_does_not_change_the_context(file: Path, reading: Reading) -> None:
    """The first kept uuid stands twice on the path: the nearest is meant, however much is read."""
    with reading(
        *chain("m1", "m2", "m3", "m4"),
        line("message", "m2", "m4", message=user("m2 again")),
        *chain("m5", below="m2"),
        line("compaction", "c", "m5", summary="c", firstKeptEntryUuid="m2", tokensBefore=1),
    ) as session:
        before = said(session.context())
        assert before == ["c", "m2 again", "m5"]
        session.path()
        assert said(session.context(verbatim=True)) == before
        with Session.open(file) as writer:
            writer.path()
            writer.append_message(user("next"))
            assert said(writer.context()) == [*before, "next"]


def test_a_first_kept_entry_that_is_nowhere_keeps_what_follows_and_warns(reading: Reading) -> None:
    with reading(
        *chain("m1", "m2"),
        line("compaction", "c", "m2", summary="c", firstKeptEntryUuid="gone", tokensBefore=1),
        *chain("m3", below="c"),
    ) as session:
        context = session.context()
        assert said(context) == ["c", "m3"]
        assert "gone" in context.warnings[0]


def test_a_summarizer_may_append_and_the_compaction_hangs_below_that(session: Session) -> None:
    talk(session, "p1", "a1", "p2")

    def says_more(entries: Sequence[Entry]) -> str:
        session.append_message(user("meanwhile"))
        return "what was"

    session.compact(says_more, first_kept=session.leaf)
    assert said(session.context()) == ["what was", "p2", "meanwhile"]


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


@for_each(
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


def test_a_setting_above_a_compaction_counts_after_the_path_was_asked_for(file: Path) -> None:
    kept = {"summary": "a greeting", "firstKeptEntryUuid": "c1", "tokensBefore": 1}
    lines = [  # as other programs write it: without the settings in force at the compaction
        line("model_change", "s1", "root", provider="anthropic", modelId="the latest"),
        line("thinking_level_change", "s2", "s1", thinkingLevel="high"),
        *chain("m1", below="s2"),
        line("compaction", "c1", "m1", **kept),
    ]
    with opened(file, *lines, readonly=True) as session:
        before = session.context().as_dict()
        session.path()
        assert session.context().as_dict() == before
        assert before["model"] == {"provider": "anthropic", "modelId": "the latest"}
        assert before["thinkingLevel"] == "high"
