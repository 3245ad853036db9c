"""What a subagent did is on a lane of its own, and no view takes it for a branch."""

from __future__ import annotations

import pytest

from sessiontree import AsyncSession, Session, UsageError
from tests.support.conversation import assistant, call, result, said, user
from tests.support.loops import in_each_loop


def test_a_subagent_is_never_a_branch() -> None:
    with Session.create() as session:
        session.append_message(user("Build"))
        session.append_message(call("toolu_1", "toolu_2"))
        for id in ("toolu_1", "toolu_2"):
            with session.subagent(id, name="explorer") as agent:
                assert agent.context().messages == []
                agent.append_message(user("Find parsers"))
                agent.append_message(assistant("none"))
            session.append_message(result(id))
        session.append_message(assistant("ok"))
        assert [branch.preview for branch in session.branches()] == ["ok"]
        assert session.stats().branches == 1
        outline = session.outline()
        assert [turn.subagent for turn in outline.turns] == [False, True, True]
        assert [agent.name for agent in outline.turns[0].subagents] == ["explorer", "explorer"]
        assert outline.branches == 1
        assert len(session.context().messages) == 5


def test_the_same_call_gives_the_same_lane_after_a_crash() -> None:
    with Session.create() as session:
        session.append_message(user("Build"))
        session.append_message(call("a/b c"))
        with session.subagent("a/b c") as agent:
            agent.append_message(user("Find"))
        with session.subagent("a/b c", name="another") as again:
            assert said(again.context()) == ["Find"]
            assert again.unfinished() == "prompt"
            assert again.lane_name == agent.lane_name == "agent-a-b-c"
        assert len(session.find(type="custom")) == 1


def test_a_subagent_starts_subagents_of_its_own() -> None:
    with Session.create() as session:
        session.append_message(call("one"))
        with session.subagent("one") as agent:
            agent.append_message(user("Find"))
            agent.append_message(call("two"))
            with agent.subagent("two") as inner:
                inner.append_message(user("Look"))
        assert [branch.lane for branch in session.branches()] == [None]


def test_a_call_that_is_not_on_the_path_starts_no_subagent() -> None:
    with Session.create() as session:
        session.append_message(user("Build"))
        with pytest.raises(UsageError, match="store the answer with the call first"):
            session.subagent("toolu_1")
        assert len(list(session.entries())) == 2


@in_each_loop
async def test_the_same_is_awaited() -> None:
    async with AsyncSession.create() as session:
        await session.append_message(call("one"))
        async with session.subagent("one", name="explorer") as agent:
            await agent.append_message(user("Find"))
        assert len(await session.branches()) == 1
