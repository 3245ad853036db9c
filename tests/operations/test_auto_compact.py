"""A context is compacted before it is too large, by what the provider reported."""

from __future__ import annotations

from typing import Any

from sessiontree import AsyncSession, Entry, Session
from tests.support.conversation import assistant, call, result, said, user
from tests.support.loops import in_each_loop
from tests.support.table import for_each

LARGE = {"input_tokens": 5, "cache_read_input_tokens": 9_000, "output_tokens": 95}  # 9,100
LONG = "word " * 400  # 500 tokens


def answered(session: Session, usage: Any = LARGE, text: str = "a") -> Entry:
    session.append_message(user("p"))
    return session.append_message({**assistant(text), "usage": usage})


def test_the_reported_tokens_count_with_an_estimate_of_what_came_after() -> None:
    with Session.create() as session:
        session.append_message({"role": "system", "content": "s" * 4_000})
        answered(session)
        assert session.needs_compaction(9_099, 0)
        assert not session.needs_compaction(9_100, 0)
        session.append_message(user("x" * 400))
        assert session.needs_compaction(9_199, 0)
        assert not session.needs_compaction(9_200, 0)


def streamed(session: Session) -> None:
    session.append_message(user("p"))
    with session.stream_message(granularity="block") as answer:
        answer.add({"type": "text", "text": "a" * 4_000})
        answer.add({"type": "text", "text": "b"})
        answer.end(usage=LARGE)


def responses(session: Session) -> None:
    session.append_message(user("p"))
    session.append_message({"type": "reasoning", "summary": [], "encrypted_content": "x" * 400})
    text = {"type": "output_text", "text": "a"}
    session.append_message({"type": "message", "role": "assistant", "content": [text]})
    session.append_usage({"input_tokens": 9_000, "output_tokens": 100}, provider="openai")
    session.append_usage({"input_tokens": 90_000}, kind="summary")


@for_each("say", [answered, streamed, responses], ["message", "blocks", "Responses"])
def test_the_report_of_an_answer_is_found_in_each_form(say: Any) -> None:
    with Session.create() as session:
        say(session)
        session.append_message(user("x" * 400))
        assert session.needs_compaction(9_199, 0)
        assert not session.needs_compaction(9_200, 0)


def test_only_a_report_that_is_of_the_context_counts() -> None:
    with Session.create() as session, Session.create() as other:
        first = session.append_message(user("p"))
        answered(session)
        session.branch(first)
        assert not session.needs_compaction(1_000, 0)  # it is on another branch
        session.cherry_pick(answered(other), other)
        assert not session.needs_compaction(1_000, 0)  # it is of another session
        answered(session)
        session.compact("summary", keep=0)
        assert not session.needs_compaction(1_000, 0)  # it is from before the compaction
        answered(session, {"input_tokens": 0})
        assert not session.needs_compaction(1_000, 0)  # the provider reported nothing


def test_a_context_is_compacted_before_a_prompt_and_only_if_it_must() -> None:
    with Session.create() as session:
        for n in range(10):
            session.append_message(user(f"{n} {LONG}"))
            session.append_message(assistant("a"))
        assert session.auto_compact(10_000, reserve=1_000) is None
        compaction = session.auto_compact(5_000, reserve=1_000)
        assert compaction is not None
        assert said(session.context())[1][:2] == "8 "
        assert session.auto_compact(5_000, reserve=1_000) is None


def test_what_is_kept_follows_the_provider_and_not_the_estimate() -> None:
    with Session.create() as session:
        for n in range(4):
            session.append_message(user(f"{n} {LONG}"))
            session.append_message({**assistant("a"), "usage": {"input_tokens": 9_500}})
        assert session.auto_compact(10_000, keep=5_000, reserve=1_000) is not None
        assert said(session.context())[1][:2] == "2 "  # the estimate is 2,000 tokens for all


def test_calls_that_still_run_are_kept_with_their_results() -> None:
    with Session.create() as session:
        session.append_message(user(LONG))
        session.append_message({**call("1", "2"), "usage": LARGE})
        session.append_message(result("1"))

        def ask(entries: Any) -> str:
            session.append_message(result("2"))  # a tool ends while the model is asked
            return f"{len(entries)}"

        compaction = session.auto_compact(9_000, ask, reserve=0, keep=0)
        assert compaction is not None
        assert said(session.context()) == ["1", "1 2", "done", "done"]
        assert session.context().warnings == []


def test_a_prompt_that_waits_is_not_summarized_alone() -> None:
    with Session.create() as session:
        session.append_message(user(LONG * 20))
        assert session.needs_compaction(5_000, 0)
        assert session.auto_compact(5_000, reserve=0) is None
        session.append_message(assistant("a"))
        assert session.auto_compact(5_000, reserve=0) is not None
        assert session.unfinished() is None


def test_a_session_that_moves_while_the_model_is_asked_is_left_as_it_is() -> None:
    with Session.create() as session:
        first = session.append_message(user(LONG))
        answered(session)

        def ask(entries: Any) -> str:
            session.switch(first)
            return "summary"

        assert session.auto_compact(9_000, ask, reserve=0, keep=10) is None
        assert said(session.context()) == [LONG]


@in_each_loop
async def test_a_coroutine_writes_the_summary() -> None:
    async def ask(entries: Any) -> str:
        return f"summary of {len(list(entries))}"

    async with AsyncSession.create() as session:
        await session.run(answered)
        await session.append_message(user("next"))
        compaction = await session.auto_compact(9_000, ask, reserve=0, keep=1)
        assert compaction is not None
        assert said(await session.context()) == ["summary of 2", "next"]
