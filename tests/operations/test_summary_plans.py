"""Plans of a pop, a branch and a merge: what their summary has to cover, for the agent's model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sessiontree import (
    Entry,
    MovePlan,
    NothingToDoError,
    Session,
    Summarized,
    SummaryPlan,
    UsageError,
    estimate_tokens,
)
from tests.support.conversation import assistant, call, forked, in_memory, result, said, talk, user
from tests.support.table import for_each

Make = Callable[[Session, Entry, Entry], Any]

PLANS: dict[str, Make] = {
    "pop": lambda session, fork, _: session.pop_plan(fork),
    "branch": lambda session, fork, _: session.branch_plan(fork),
    "merge": lambda session, _, other: session.merge_plan(other),
}
MOVES: dict[str, Callable[..., Entry]] = {
    "pop": Session.pop,
    "branch": Session.branch,
    "merge": Session.merge,
}


def _two_branches() -> tuple[Session, Entry, Entry]:
    """A prompt, with the branch `theirs` below it, and `mine` to the leaf."""
    session = in_memory()
    fork, other = forked(session, "theirs")
    talk(session, "mine", "done")
    return session, fork, other


@for_each("move", list(PLANS))
def test_a_plan_has_what_the_summary_covers_and_writes_nothing(move: str) -> None:
    session, fork, other = _two_branches()
    leaf, size = session.leaf, len(list(session.entries()))
    plan = PLANS[move](session, fork, other)
    assert isinstance(plan, MovePlan)
    assert (session.leaf, len(list(session.entries()))) == (leaf, size)
    covered = ["theirs"] if move == "merge" else ["mine", "done"]
    texts = [each for each in ("p1", "mine", "done", "theirs") if f"]\n{each}" in plan.text]
    assert texts == covered
    assert (plan.move, plan.leaf) == (move, leaf)
    assert plan.target == (other if move == "merge" else fork)
    assert list(plan.entries) == ([other] if move == "merge" else session.path()[2:])
    assert plan.tokens == sum(map(estimate_tokens, plan.messages)) > 0
    entry = MOVES[move](session, plan, "in short")
    assert (entry["summary"], session.leaf) == ("in short", entry)
    assert entry.type == {"pop": "stack_summary", "branch": "branch_summary"}.get(move, move)
    assert entry.parent_uuid == (leaf if move == "merge" else fork).uuid
    kept = ["p1", "mine", "done"] if move == "merge" else ["p1"]
    assert said(session.context()) == [*kept, "in short"]


@for_each("move", list(PLANS))
def test_a_plan_and_a_summarizer_get_the_same_request(move: str) -> None:
    session, fork, other = _two_branches()
    plan = PLANS[move](session, fork, other)
    given: list[tuple[list[Entry], str]] = []

    def ask(entries: Summarized) -> str:
        given.append((list(entries), entries.text))
        return "asked"

    MOVES[move](session, other if move == "merge" else fork, ask)
    assert given == [(list(plan.entries), plan.text)]


@for_each("move", list(PLANS))
def test_instructions_are_in_the_text_and_reach_a_summarizer(move: str) -> None:
    session, fork, other = _two_branches()
    make = getattr(session, f"{move}_plan")
    plan = make(other if move == "merge" else fork, instructions="Keep the names.")
    assert "Keep the names." in plan.text
    with pytest.raises(UsageError, match="follows no instructions"):
        MOVES[move](session, plan)
    entry = MOVES[move](
        session, plan, lambda entries, words: f"{entries.text == plan.text} {words}"
    )
    assert entry["summary"] == "True Keep the names."
    with pytest.raises(UsageError, match="instructions are a text"):
        make(fork, instructions=" ")


@for_each("move", list(PLANS))
def test_without_a_summary_a_plan_is_summarized_as_by_compact(move: str) -> None:
    session, fork, other = _two_branches()
    entry = MOVES[move](session, PLANS[move](session, fork, other))
    assert ("theirs" if move == "merge" else "mine") in entry["summary"]


@for_each("move", list(PLANS))
@for_each("is_planned", [True, False])
def test_a_summary_that_lacks_what_was_written_since_is_refused(
    move: str, is_planned: bool
) -> None:
    session, fork, other = _two_branches()
    plan = PLANS[move](session, fork, other) if is_planned else None

    def late(*_: object) -> str:
        session.append_message(user("late"))
        return "too short"

    if plan is not None:
        late()
    given, summary = (plan, "too short") if plan else (other if move == "merge" else fork, late)
    if move == "merge":  # nothing is left, so nothing is lost
        MOVES[move](session, given, summary)
        assert said(session.context()) == ["p1", "mine", "done", "late", "too short"]
        return
    with pytest.raises(UsageError, match=f"moved to .* since the {move} was planned at"):
        MOVES[move](session, given, summary)
    assert said(session.context()) == ["p1", "mine", "done", "late"]


@for_each("move", list(PLANS))
def test_a_plan_is_refused_on_another_branch_before_a_model_is_asked(move: str) -> None:
    session, fork, other = _two_branches()
    plan = PLANS[move](session, fork, other)
    session.branch(fork)

    def ask(entries: Summarized) -> str:
        raise AssertionError(entries.text)

    with pytest.raises(UsageError, match=f"make a new plan, or {move} again"):
        MOVES[move](session, plan, ask)
    assert said(session.context()) == ["p1"]


def test_a_label_and_the_usage_of_the_model_do_not_end_a_plan() -> None:
    session, fork, _ = _two_branches()
    plan = session.pop_plan(fork)
    session.append_usage({"input": 5, "output": 7}, kind="summary")
    session.label("@", "here")
    assert session.pop(plan, "s")["summary"] == "s"


@for_each("given, taken", [("pop", "branch"), ("branch", "merge"), ("compact", "pop")])
def test_a_plan_of_another_method_is_refused(given: str, taken: str) -> None:
    session, fork, other = _two_branches()
    plan = session.compaction_plan() if given == "compact" else PLANS[given](session, fork, other)
    with pytest.raises(UsageError, match=f"for '{given}', not for '{taken}'; .* {taken}_plan"):
        MOVES[taken](session, plan, "s")
    with pytest.raises(UsageError, match="plan is what compaction_plan"):
        session.compact("s", PLANS["pop"](session, fork, other))


def test_a_plan_has_the_messages_as_the_context_has_them(session: Session) -> None:
    """What was compacted, dropped or merged meanwhile counts as in the context."""
    fork, other = forked(session, "merged")
    session.push("aside")
    secret, *_ = talk(session, "the secret", "old answer")
    talk(session, "long ago")
    session.edit_context(secret, None)
    session.compact("earlier", keep=0)
    session.merge(other)
    session.append_message(call("c1"))
    session.append_message(result("c1", "output"))
    plan = session.pop_plan()
    assert [m.get("role") for m in plan.messages] == [
        *("compactionSummary", "assistant", "assistant", "toolResult")
    ]
    for words in ("earlier", "merged", "output"):
        assert words in plan.text
    for words in ("secret", "old answer", "long ago"):
        assert words not in plan.text
    given: list[str] = []

    def ask(entries: Summarized) -> str:
        given.append(entries.text)
        return "s"

    with pytest.warns(match="above compaction"):
        session.pop(summary=ask)
    assert given == [plan.text]
    assert fork.uuid == session.leaf.parent_uuid or session.leaf.type == "stack_summary"


def test_where_nothing_is_left_to_summarize_there_is_no_plan(session: Session) -> None:
    first, last = talk(session, "p1", "a1")
    with pytest.raises(NothingToDoError):
        session.pop_plan("@")
    with pytest.raises(NothingToDoError):
        session.branch_plan(last)
    session.push()
    with pytest.raises(NothingToDoError, match="no message that the summary of this pop"):
        session.pop_plan(last)
    session.switch(first)
    with pytest.raises(NothingToDoError):
        session.branch_plan(last)  # it is below the leaf
    assert session.merge_plan(last).messages == [assistant("a1")]


def test_the_entries_of_a_slice_have_their_messages(session: Session) -> None:
    given: list[Sequence[Entry]] = []

    def ask(entries: Summarized) -> str:
        given.append(entries[1:])
        return "s"

    first, *rest = talk(session, "p1", "a1", "p2")
    session.pop(first, ask)
    assert given == [rest[1:]]


def test_one_function_asks_a_model_for_all_four_plans(session: Session) -> None:
    def ask(plan: SummaryPlan) -> str:
        return f"{len(plan.entries)} of {len(plan.messages)}"

    session, fork, other = _two_branches()
    plans = [make(session, fork, other) for make in PLANS.values()]
    assert [ask(plan) for plan in plans] == ["3 of 2", "3 of 2", "1 of 1"]
    assert ask(session.compaction_plan()) == "3 of 3"
