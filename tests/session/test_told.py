"""What a request and a lane tell that they once kept to themselves."""

from __future__ import annotations

import pytest

from sessiontree import UsageError
from tests.support.conversation import in_memory, said, talk, user


def test_a_request_tells_of_a_message_that_broke_off() -> None:
    with in_memory() as session:
        talk(session, "hi")
        block = {"type": "text", "text": "I'll"}
        session.append("block", messageUuid="m", index=0, block=block)
        context = session.context()
        assert context.messages[1]["partial"] is True
        for request in (context.to_anthropic(), context.to_openai(), context.to_openai("chat")):
            assert any("broke off" in warning for warning in request.warnings)


def test_a_request_to_anthropic_tells_of_the_role_developer() -> None:
    with in_memory() as session:
        session.append_message({"role": "developer", "content": "Be brief."})
        session.append_message(user("hi"))
        context = session.context()
        assert any("'developer'" in warning for warning in context.to_anthropic().warnings)
        assert context.to_openai().warnings == []


def test_a_lane_starts_empty_and_goes_on_where_it_was() -> None:
    with in_memory() as session:
        talk(session, "one", "two")
        with session.lane("agent", empty=True) as agent:
            assert said(agent.context()) == []
            talk(agent, "find")
        with session.lane("agent", empty=True) as again:
            assert said(again.context()) == ["find"]
        with session.lane("other") as other:
            assert said(other.context()) == ["one", "two"]
        with pytest.raises(UsageError, match="not both"):
            session.lane("third", at=session.leaf, empty=True)
