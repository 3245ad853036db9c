from __future__ import annotations

import json
from typing import Any

import pytest

from sessiontree import Session, UsageError
from tests.support.rules import anthropic, fault
from tests.support.saying import (
    IMAGE,
    PIXEL,
    anthropic_blocks,
    assistant,
    call,
    chat_call,
    context,
    result,
    text,
    user,
)


def sent(*messages: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    request = context(*messages).to_anthropic()
    assert fault(anthropic, request.params) is None
    return anthropic_blocks(request)


def warned(*messages: dict[str, Any]) -> str:
    return "\n".join(context(*messages).to_anthropic().warnings)


def thinking(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, **more}


def signed(**more: Any) -> dict[str, Any]:
    return assistant(thinking("hm", signature="sig"), text("yes"), **more)


def test_the_system_text_stands_apart() -> None:
    params = context({"role": "system", "content": "Be brief."}, user("hi")).to_anthropic().params
    assert params == {"system": "Be brief.", "messages": [user([text("hi")])]}


def test_neighbours_of_the_same_side_are_one_message() -> None:
    told = sent(user("one"), user([text("two")]), assistant(text("a")), assistant(text("b")))
    assert told == [("user", [text("one"), text("two")]), ("assistant", [text("a"), text("b")])]


def test_results_lead_the_message_behind_their_calls() -> None:
    told = sent(user("go"), assistant(call("a"), call("b")), result("b"), user("hm"), result("a"))
    assert [block["type"] for block in told[2][1]] == ["tool_result", "tool_result", "text"]
    assert [block["tool_use_id"] for block in told[2][1][:2]] == ["a", "b"]


def test_parallel_calls_stored_block_by_block_are_one_message_again() -> None:
    """Claude Code writes each block of a message in a line of its own."""
    uses = [{"type": "tool_use", "id": id, "name": "ls", "input": {}} for id in "ab"]
    answers = [user([{"type": "tool_result", "tool_use_id": id, "content": "done"}]) for id in "ab"]
    told = sent(user("go"), *(assistant(use, id="msg_1") for use in uses), *answers)
    sizes = [(role, len(blocks)) for role, blocks in told]
    assert sizes == [("user", 1), ("assistant", 2), ("user", 2)]


def test_white_space_and_empty_messages_are_not_sent() -> None:
    told = sent(user(""), user("hi"), assistant(text("\n\n")), assistant(), user(None))
    assert told == [("user", [text("hi")])]


def test_the_first_message_is_the_users() -> None:
    assert [role for role, _ in sent(assistant(text("hi")))] == ["user", "assistant"]
    assert "put before" in warned(assistant(text("hi")))


def test_thinking_keeps_its_signature() -> None:
    assert sent(user("?"), signed())[1][1] == signed()["content"]
    sealed = {"type": "redacted_thinking", "data": "x"}
    assert sent(user("?"), assistant(sealed, text("yes")))[1][1][0] == sealed


def test_pis_thinking_is_written_as_anthropics() -> None:
    thought = thinking("hm", thinkingSignature="sig")
    hidden = thinking("", thinkingSignature="x", redacted=True)
    told = sent(user("?"), assistant(thought, hidden, text("yes"), api="anthropic-messages"))
    sealed = {"type": "redacted_thinking", "data": "x"}
    assert told[1][1][:2] == [thinking("hm", signature="sig"), sealed]


def test_thinking_that_would_be_refused_is_left_out_and_named() -> None:
    cases: list[dict[str, Any]] = [
        assistant(thinking("hm"), text("yes")),
        assistant(thinking("hm", thinkingSignature="so"), text("yes"), api="openai-completions"),
        assistant(thinking("", thinkingSignature='{"type": "reasoning"}'), text("yes")),
        assistant(text("yes"), thinking("hm", signature="sig")),
    ]
    for message in cases:
        assert sent(user("?"), message)[1][1] == [text("yes")]
        assert "left out" in warned(user("?"), message)


def test_thinking_at_the_end_of_a_broken_answer_does_not_begin_the_next_one() -> None:
    """Anthropic refuses it at the end of a message, and thinking that it did not give in a row."""
    broken = assistant(thinking("hm", signature="sig"), partial=True)
    then = signed(id="msg_2")
    for first in (broken, assistant(text("so"), thinking("hm", signature="sig"), id="msg_1")):
        told = sent(user("go"), first, then)
        assert told[1][1] == [*first["content"][:-1], *then["content"]]
        assert "thinking that nothing followed was left out" in warned(user("go"), first, then)


def test_thinking_that_is_stored_apart_from_its_answer_begins_it() -> None:
    blocks = thinking("hm", signature="sig"), text("yes")
    told = sent(user("go"), *(assistant(block, id="msg_1") for block in blocks))
    assert told[1][1] == list(blocks)


def test_thinking_goes_to_the_model_that_thought_it_alone() -> None:
    history = [user("?"), signed(model="claude-a"), user("and?")]
    assert sent(*history)[1][1] == signed()["content"]
    assert sent(*history, signed(model="claude-b"))[1][1] == [text("yes")]
    assert "another model" in warned(*history, signed(model="claude-b"))


def test_a_request_is_for_the_model_that_it_names() -> None:
    history = context(user("?"), signed(model="claude-a-4-20250101"), user("and?"))
    for model, is_kept in ((None, True), ("anthropic/claude-a-4", True), ("claude-b", False)):
        sent = anthropic_blocks(history.to_anthropic(model=model))[1][1]
        assert (sent == signed()["content"]) == is_kept, model


def cached_share(turns: int) -> float:
    """The share of input tokens read from a cache by prefix, over requests of a tool loop."""
    session = Session.create(cwd="/project")
    session.append_message({"role": "system", "content": "Be brief. " * 200})
    cache: set[str] = set()
    read = whole = 0
    for turn in range(turns):
        session.append_message(user(f"prompt {turn} " * 20))
        for step in range(2):
            params = session.context().to_anthropic(cache="5m").params
            text, ends = "", []
            for block in [
                *params["system"],
                *(b for m in params["messages"] for b in m["content"]),
            ]:
                bare = {key: value for key, value in block.items() if key != "cache_control"}
                text += json.dumps(bare)
                if "cache_control" in block:
                    ends.append(text)
            assert len(ends) <= 4
            read += max((len(end) for end in ends if end in cache), default=0)
            whole += len(text)
            cache.update(ends)
            if step == 0:
                session.append_message(assistant(call(f"c{turn}", path="a" * 100)))
                session.append_message(result(f"c{turn}", "line\n" * 100))
        session.append_message(assistant(text_block(turn)))
    return read / whole


def text_block(turn: int) -> dict[str, Any]:
    return text(f"answer {turn} " * 30)


def test_a_prompt_cache_reads_nearly_all_of_sixty_turns() -> None:
    assert cached_share(60) > 0.95


def test_breakpoints_are_few_and_stored_ones_are_kept_or_warned_of() -> None:
    mark = {"type": "ephemeral"}
    asked = context(user([{**text(word), "cache_control": mark} for word in "abcdef"]))
    stored = asked.to_anthropic()
    marks = ["cache_control" in block for block in stored.params["messages"][0]["content"]]
    assert marks == [False, False, True, True, True, True]
    assert stored.warnings == ["2 stored cache_control were left out: a request has at most 4"]
    own = asked.to_anthropic(cache="1h")
    blocks = own.params["messages"][0]["content"]
    assert [block.get("cache_control") for block in blocks[-2:]] == [None, {**mark, "ttl": "1h"}]
    assert "`cache` sets its own" in own.warnings[0]
    with pytest.raises(UsageError, match="'5m', '1h' or None"):
        asked.to_anthropic(cache="2h")  # type: ignore[arg-type]


def test_ids_are_made_fit_and_never_shared() -> None:
    ids = ["a.b", "a_b", "a b", "a.b", "", "é", "x" * 65, "call_1|fc_1", "call_1"]
    turns = [message for id in ids for message in (assistant(call(id)), result(id, id))]
    told = sent(user("go"), *turns)
    used = [blocks[0]["id"] for role, blocks in told if role == "assistant"]
    answered = [blocks[0]["tool_use_id"] for role, blocks in told[2:] if role == "user"]
    assert used == answered
    assert len(set(used)) == len(ids)
    assert used[1] == "a_b"
    assert used[7] == "call_1"


def test_the_id_of_a_call_does_not_depend_on_later_ones() -> None:
    first = [user("go"), assistant(call("a.b")), result("a.b")]
    assert sent(*first, assistant(call("a_b")), result("a_b"))[:3] == sent(*first)


def test_arguments_are_an_object() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        *(('{"a": 1}', {"a": 1}), ("", {})),
        *((odd, {"arguments": odd}) for odd in ('{"a": 1', "[1]", '{"a": NaN}', "[" * 100_000)),
    ]
    for stored, given in cases:
        assert sent(user("go"), chat_call("a", stored))[1][1][0]["input"] == given


def test_images_of_any_shape_and_nothing_else_are_sent_as_images() -> None:
    url = f"data:image/gif;base64,{PIXEL}"
    shapes: list[dict[str, Any]] = [
        IMAGE,
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url},
    ]
    told = sent(user(shapes), assistant(call("a")), result("a", shapes))
    source = {"type": "base64", "media_type": "image/gif", "data": PIXEL}
    assert told[0][1] == [{"type": "image", "source": source}] * 3
    assert told[2][1][0]["content"] == told[0][1]


def test_an_image_that_cannot_be_sent_leaves_its_name() -> None:
    drawing = {"type": "image", "data": PIXEL, "mimeType": "image/svg+xml"}
    assert sent(user([drawing])) == [("user", [text("[image: image/svg+xml]")])]
    assert "image/svg+xml" in warned(user([drawing]))


def test_the_images_of_a_failed_call_stand_behind_the_results() -> None:
    results = [result("a", [IMAGE], failed=True), result("b")]
    told = sent(user("go"), assistant(call("a"), call("b")), *results)
    kinds = [block["type"] for block in told[2][1]]
    assert kinds == ["tool_result", "tool_result", "text", "image"]
    assert "images of a failed call" in warned(user("go"), assistant(call("a")), results[0])


def test_a_call_of_a_hosted_tool_stays_with_its_result_or_while_it_runs() -> None:
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    assert sent(user("go"), assistant(use, found, text("so")))[1][1] == [use, found, text("so")]
    paused = assistant(use, stop_reason="pause_turn")
    assert sent(user("go"), paused)[1][1] == [use]
    assert sent(user("go"), paused, assistant(found, text("so")))[1][1] == [use, found, text("so")]
    assert sent(user("go"), paused, user("stop")) == [("user", [text("go"), text("stop")])]
    for broken in (
        [{**use, "input": "text"}, found],
        [use, {**found, "tool_use_id": "srv_2"}],
        [found],
    ):
        assert sent(user("go"), assistant(*broken, text("so")), user("?"))[1][1] == [text("so")]


def test_a_hosted_call_beside_a_call_of_the_user_side_gets_its_result_in_the_next_answer() -> None:
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    own = {"type": "tool_use", "id": "a", "name": "ls", "input": {}}
    answered = user([{"type": "tool_result", "tool_use_id": "a", "content": "x"}])
    first = sent(user("go"), assistant(use, own), answered)
    assert first[1][1] == [use, own]
    then = sent(user("go"), assistant(use, own), answered, assistant(found, text("so")), user("?"))
    assert then[:3] == first
    assert then[3][1] == [found, text("so")]


def test_summaries_commands_and_custom_messages_are_the_users_words() -> None:
    with Session.create(cwd="/project") as session:
        session.append_message(user("old"))
        session.append_message(assistant(text("older")))
        session.compact("We built it.", keep=0)
        session.append_message({"role": "bashExecution", "command": "ls", "output": "a```b"})
        session.append("custom_message", customType="t", content="note", display=False)
        [(role, blocks)] = anthropic_blocks(session.context().to_anthropic())
    assert role == "user"
    assert "<summary>\nWe built it.\n</summary>" in blocks[0]["text"]
    assert blocks[1]["text"] == "The user ran `ls`:\n````\na```b\n````"
    assert blocks[2]["text"] == "note"


def test_a_verbatim_context_is_paired_all_the_same() -> None:
    messages = [user("go"), assistant(call("a")), user("hm"), result("b")]
    request = context(*messages, verbatim=True).to_anthropic()
    assert fault(anthropic, request.params) is None
    assert len(request.warnings) == 2


def test_nothing_to_send_is_said() -> None:
    request = context().to_anthropic()
    assert request.params == {"messages": []}
    assert request.warnings == ["there is nothing to send: the context holds no message"]


def test_a_warning_tells_how_often_and_where_first() -> None:
    unheard = {"type": "unheard_of"}
    found = context(user([text("hi"), unheard, unheard]))
    [warning] = found.to_openai("chat").warnings
    counted = f"(2 times, first in entry {found.leaf.uuid[:8]})"
    assert warning.endswith(f"'unheard_of' was left out {counted}")


def test_a_block_of_an_unknown_type_goes_whole_to_the_provider_that_answered() -> None:
    unheard = {"type": "unheard_of", "x": None}
    asked = user([text("hi"), unheard])
    first = context(asked)
    assert first.to_anthropic().params["messages"][0]["content"] == asked["content"]
    assert "the unknown kind 'unheard_of'" in first.to_anthropic().warnings[0]
    for model, is_sent in (("claude-x", True), ("gpt-5", False)):
        answer = assistant(unheard, text("yes"), model=model, provider="")
        if not is_sent:
            answer["provider"] = "openai"
        request = context(asked, answer, user("so")).to_anthropic()
        assert json.dumps(request.params).count("unheard_of") == (2 if is_sent else 0), model
        assert ("left out" in str(request.warnings)) != is_sent


def test_images_in_anthropics_own_shape_are_sent_to_each_api() -> None:
    source = {"type": "base64", "media_type": "image/gif", "data": PIXEL}
    image = {"type": "image", "source": source}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [image]}
    found = context(user([image]), assistant(call("a")), user([result]))
    for request in (found.to_anthropic(), found.to_openai(), found.to_openai("chat")):
        assert json.dumps(request.params).count(PIXEL) == 2


def test_a_call_without_an_id_is_warned_of_for_each_api() -> None:
    cases: list[dict[str, Any]] = [
        assistant({"type": "tool_use", "name": "ls", "input": {}}, text("hi")),
        {**chat_call("a", "{}"), "tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}]},
        {"type": "function_call", "name": "ls", "arguments": "{}"},
    ]
    for message in cases:
        found = context(user("go"), message)
        for request in (found.to_anthropic(), found.to_openai(), found.to_openai("chat")):
            assert any("a call of ls without an id" in warning for warning in request.warnings), (
                message
            )
