"""Branching, switching, rewinding, and the stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sessiontree import (
    Entry,
    EntryError,
    NothingToDoError,
    RefError,
    Session,
    SessionTreeWarning,
    Summarized,
    UsageError,
)
from tests.support.conversation import assistant, forked, said, talk, user
from tests.support.table import for_each


def test_a_branch_is_one_entry_below_where_one_goes(session: Session) -> None:
    first, *_ = talk(session, "p1", "a1", "p2")
    entry = session.branch(first)
    assert (entry.type, entry.parent_uuid) == ("branch", first.uuid)
    assert "name" not in entry
    assert session.leaf == entry
    assert said(session.context()) == ["p1"]
    assert session.append_message(assistant("a1")).parent_uuid == entry.uuid


def _streamed(session: Session) -> tuple[Entry, ...]:
    """The entries of an answer of two blocks: both, and the end."""
    with session.stream_message(granularity="block") as answer:
        answer.add({"type": "text", "text": "one"})
        answer.add({"type": "text", "text": "two"})
    return tuple(answer.entries)


def test_a_move_names_the_leaf_that_it_leaves_so_that_one_can_go_back(session: Session) -> None:
    first, *_ = talk(session, "p1", "a1", "p2")
    for move in (lambda: session.branch(first), session.rewind, lambda: session.switch(first)):
        left = session.leaf
        move()
        assert session.leaf["fromUuid"] == left.uuid
        session.switch(left)


@pytest.mark.parametrize("place", [0, 1])
def test_a_move_into_a_message_warns_and_names_its_end(place: int, session: Session) -> None:
    talk(session, "p1")
    pieces = _streamed(session)
    talk(session, "p2")
    with pytest.warns(
        SessionTreeWarning, match=f"to go on after the whole message, .*{pieces[-1].uuid}"
    ):
        session.branch(pieces[place])
    session.switch(pieces[-1])  # the end of the message cuts nothing


def test_a_compaction_keeps_a_streamed_message_as_a_whole(session: Session) -> None:
    talk(session, "p1")
    pieces = _streamed(session)
    talk(session, "p2")
    for piece in pieces:
        assert session.compaction_plan(first_kept=piece).first_kept == pieces[0]


def test_a_branch_with_a_name_and_a_summary_has_both(session: Session) -> None:
    first, left = talk(session, "p1", "a1")
    summary = session.branch(first, summary="tried", name="next")
    marker = session.path()[-2]
    assert (marker.type, marker["name"], marker.parent_uuid) == ("branch", "next", first.uuid)
    assert (summary.type, summary.parent_uuid) == ("branch_summary", marker.uuid)
    assert (summary["summary"], summary["fromUuid"]) == ("tried", left.uuid)
    assert session.entry("next") == summary
    assert said(session.context()) == ["p1", "tried"]


def test_a_branch_keeps_its_tip_when_another_is_named_from_within_it(session: Session) -> None:
    """Appending to `inner` must not drag `outer` along, or nobody could go back to it."""
    session.branch(session.append_message(user("p1")), name="outer")
    tip = session.append_message(assistant("a1"))
    session.branch(tip, name="inner")
    talk(session, "p2", "a2")
    assert session.entry("outer") == tip
    session.switch("outer")
    assert said(session.context()) == ["p1", "a1"]


def test_a_switch_to_a_branch_name_goes_to_its_tip_and_to_an_entry_to_that_very_entry(
    session: Session,
) -> None:
    first = session.append_message(user("p1"))
    session.branch(first, name="one")
    middle, tip = talk(session, "p2", "a2")
    session.branch(first)
    talk(session, "p3")
    marker = session.switch("one")
    assert (marker.type, marker.parent_uuid) == ("branch", tip.uuid)
    assert said(session.context()) == ["p1", "p2", "a2"]
    session.switch(middle)
    assert said(session.context()) == ["p1", "p2"]


@pytest.mark.parametrize("where", ["@", "leaf", "label", "branch name", "marked"])
def test_a_switch_to_where_one_is_writes_nothing(file: Path, where: str, stored: Session) -> None:
    first = stored.append_message(user("p1"))
    stored.branch(first, name="one")
    tip = stored.append_message(user("p2"))
    stored.label(tip, "here")
    stored.branch(first)
    stored.switch(tip)
    before, leaf = file.read_bytes(), stored.leaf
    refs: dict[str, str | Entry] = {"@": "@", "label": "here", "branch name": "one"}
    refs |= {"leaf": leaf, "marked": tip.uuid}
    assert stored.switch(refs[where]) == leaf
    assert stored.leaf == leaf
    assert file.read_bytes() == before


def test_a_switch_after_reopening_behind_a_label_writes_nothing(file: Path, main: Session) -> None:
    main.label("@", "here")
    before = file.read_bytes()
    with Session.open(file) as session:
        session.switch("here")
    assert file.read_bytes() == before


def test_rewind_goes_to_before_the_last_prompt_and_gives_its_text(session: Session) -> None:
    talk(session, "p1", "a1", "p2", "a2")
    assert session.rewind() == "p2"
    assert said(session.context()) == ["p1", "a1"]
    assert session.rewind() == "p1"
    assert session.context().messages == []
    with pytest.raises(NothingToDoError, match="no prompt"):
        session.rewind()


def test_rewind_passes_over_tool_results(session: Session) -> None:
    talk(session, "p1")
    session.append_message(assistant([{"type": "tool_use", "id": "t", "name": "x"}]))
    session.append_message(user([{"type": "tool_result", "tool_use_id": "t"}]))
    assert session.rewind() == "p1"


def test_rewind_by_ref_goes_to_before_that_prompt_on_any_branch(session: Session) -> None:
    talk(session, "p1", "a1")
    prompt = session.append_message(user([{"type": "text", "text": "p2"}]))
    session.branch(session.header)
    talk(session, "p3")
    assert session.rewind(prompt) == "p2"
    assert said(session.context()) == ["p1", "a1"]


def test_rewind_to_what_is_no_prompt_is_refused(session: Session) -> None:
    talk(session, "p1", "a1")
    with pytest.raises(UsageError, match="not a prompt"):
        session.rewind("@")


def test_pushes_nest_and_each_pop_closes_one(session: Session) -> None:
    talk(session, "p1")
    outer = session.push("outer")
    talk(session, "p2")
    inner = session.push()
    talk(session, "p3")
    assert outer["note"] == "outer"
    assert session.pop(summary="s1").parent_uuid == inner.uuid
    assert said(session.context()) == ["p1", "p2", "s1"]
    talk(session, "p4")
    assert session.pop(summary="s2").parent_uuid == outer.uuid
    assert said(session.context()) == ["p1", "s2"]


def test_a_push_is_open_again_where_its_pop_was_left(session: Session) -> None:
    talk(session, "p1")
    push = session.push()
    inside = session.append_message(user("p2"))
    session.pop(summary="s1")
    session.switch(inside)
    assert session.pop(summary="s2").parent_uuid == push.uuid


def test_pop_after_pop_after_pop_climbs_prompt_by_prompt(session: Session) -> None:
    prompts = talk(session, "p0", "a0", "p1", "a1", "p2", "a2")[::2]
    for n in (2, 1, 0):
        assert session.pop(summary=f"s{n}").parent_uuid == prompts[n].uuid
        assert said(session.context())[-2:] == [f"p{n}", f"s{n}"]
    with pytest.raises(NothingToDoError, match="every push has a pop"):
        session.pop(summary="s")


def test_a_pop_does_not_stop_at_a_prompt_that_only_markers_follow(session: Session) -> None:
    first = session.append_message(user("p1"))
    talk(session, "p2")
    session.branch("@")
    session.set_model("anthropic", "m")
    assert session.pop(summary="s").parent_uuid == first.uuid


def test_a_pop_does_not_take_a_compaction_for_work(session: Session) -> None:
    first = session.append_message(user("p1"))
    talk(session, "p2")
    session.compact("c", keep=0)
    with pytest.warns(SessionTreeWarning):
        assert session.pop(summary="s").parent_uuid == first.uuid


def test_a_summarizer_gets_a_request_that_it_can_give_to_a_model(session: Session) -> None:
    start, *_ = talk(session, "p1", "a1", "p2")
    _streamed(session)
    session.branch("@", summary="Elsewhere.")
    talk(session, "p3")
    given: list[str] = []

    def ask(entries: Summarized) -> str:
        given.append(entries.text)
        return "Done."

    session.pop(start, summary=ask)
    talk(session, "p4", "a4")
    plan = session.compaction_plan(keep=0, instructions="Be short.")
    session.compact(lambda entries, _: ask(entries), plan)
    parts = ["[assistant]\na1", "[user]\np2", "[assistant]\none", "two", "Elsewhere.", "p3"]
    places = [given[0].index(part) for part in parts]
    assert places == sorted(places)
    assert "p1" not in given[0]
    assert given[1] == plan.text
    assert "Be short." in given[1]


def test_pop_to_an_entry_off_the_path_is_refused(file: Path, stored: Session) -> None:
    _, off = forked(stored, "a1")
    talk(stored, "p2")
    before = file.read_bytes()
    with pytest.raises(UsageError, match="not on the current path"):
        stored.pop(off)
    with pytest.raises(NothingToDoError):
        stored.pop("@")
    with pytest.raises(RefError):
        stored.pop("nowhere")
    assert file.read_bytes() == before


def test_nothing_to_pop_in_an_empty_session(session: Session) -> None:
    with pytest.raises(NothingToDoError):
        session.pop()


@pytest.mark.parametrize(
    "move",
    [
        lambda s, top: s.pop(top, summary="s"),
        lambda s, top: s.branch(top),
        lambda s, top: s.branch(top, summary="s"),
        lambda s, top: s.switch(top),
        lambda s, top: s.rewind(top),
    ],
    ids=["pop", "branch", "branch with summary", "switch", "rewind"],
)
def test_a_move_above_a_compaction_warns_with_the_size_of_the_context(
    move: Callable[[Session, Entry], object], session: Session
) -> None:
    *_, top = talk(session, "p" * 400, "a", "p2")
    compaction = session.compact("c", keep=0)
    with pytest.warns(SessionTreeWarning) as caught:
        move(session, top)
    tokens = session.context().tokens
    assert tokens >= 100
    assert compaction.uuid in str(caught[0].message)
    assert f"about {tokens} tokens" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_a_move_below_a_compaction_or_to_another_one_does_not_warn(session: Session) -> None:
    first = session.append_message(user("p1"))
    session.compact("c1", keep=0)
    below, _ = talk(session, "p2", "a2")
    session.pop(below, summary="s")  # a warning would be an error
    with pytest.warns(SessionTreeWarning):
        session.branch(first)
    talk(session, "p4")
    session.compact("c2", keep=0)
    session.switch(below)


def test_a_summarizer_gets_the_entries_being_left_oldest_first(session: Session) -> None:
    given: list[Sequence[Entry]] = []

    def summarizer(entries: Sequence[Entry]) -> str:
        given.append(entries)
        return "told"

    base = session.append_message(user("p1"))
    left = [*talk(session, "p2", "a2"), session.push(), *talk(session, "p3")]
    popped = session.pop(base, summary=summarizer)
    other = [popped, *talk(session, "p4")]
    session.branch(left[0], summary=summarizer)
    assert list(map(list, given)) == [left, other]
    assert said(session.context()) == ["p1", "p2", "told"]


def test_pop_without_a_summary_says_what_was_done(session: Session) -> None:
    talk(session, "Fix the parser", "Fixed it")
    session.pop(session.header)
    (summary,) = said(session.context())
    assert "Fix the parser" in summary
    assert "Fixed it" in summary


@for_each("summary", ["", "  \n", lambda entries: "", lambda entries: None, 5])
@for_each("move", ["branch", "pop", "compact", "merge"])
def test_an_empty_summary_is_refused_and_nothing_written(
    file: Path, move: str, summary: object, stored: Session
) -> None:
    first, other = forked(stored, "a1")
    talk(stored, "p2")
    before, leaf = file.read_bytes(), stored.leaf
    wanted: dict[str, Callable[[], object]] = {
        "branch": lambda: stored.branch(first, summary=summary, name="n"),  # type: ignore[arg-type]
        "pop": lambda: stored.pop(first, summary=summary),  # type: ignore[arg-type]
        "compact": lambda: stored.compact(summary, keep=0),  # type: ignore[arg-type]
        "merge": lambda: stored.merge(other, summary=summary),  # type: ignore[arg-type]
    }
    with pytest.raises(EntryError, match="summary"):
        wanted[move]()
    assert file.read_bytes() == before
    assert stored.leaf == leaf


def test_a_summarizer_that_fails_leaves_everything_as_it_was(file: Path, main: Session) -> None:
    def fails(entries: Sequence[Entry]) -> str:
        raise OSError("the model is not there")

    talk(main, "p2")
    before, leaf = file.read_bytes(), main.leaf
    with pytest.raises(OSError, match="not there"):
        main.pop(summary=fails)
    assert (file.read_bytes(), main.leaf) == (before, leaf)
    assert main.append_message(user("p3")).parent_uuid == leaf.uuid


@pytest.mark.parametrize(
    "write",
    [
        lambda s, other, summarizer: s.compact(summarizer, first_kept=s.leaf),
        lambda s, other, summarizer: s.merge(other, summary=summarizer),
    ],
    ids=["compact", "merge"],
)
def test_a_summarizer_that_moves_the_session_misplaces_nothing(
    write: Callable[..., object], session: Session
) -> None:
    _, other = forked(session, "a1")
    talk(session, "p2")

    def goes_elsewhere(entries: Sequence[Entry]) -> str:
        session.branch(session.header)
        return "what was"

    with pytest.raises(UsageError, match="moved to"):
        write(session, other, goes_elsewhere)
    assert session.find(type="compaction") == session.find(type="merge") == []


def test_an_edit_at_the_leaf_is_of_what_was_said_last(session: Session) -> None:
    said = session.append_message(user("secret"))
    session.push("aside")
    edit = session.edit_context("@", None)
    assert edit["targetUuid"] == said.uuid
    assert session.context().messages == []
