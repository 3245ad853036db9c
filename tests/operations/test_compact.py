"""Compaction: a summary in place of the older part of one branch's context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiontree import (
    Entry,
    NothingToDoError,
    RefError,
    Session,
    SessionTreeWarning,
    UsageError,
    estimate_tokens,
)
from tests.support.conversation import (
    assistant,
    call,
    chain,
    in_memory,
    line,
    result,
    said,
    talk,
    text,
    user,
)
from tests.support.files import Counting
from tests.support.started import Reading


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
