from __future__ import annotations

import json
from typing import Any

import pytest

from sessiontree import Session, TooMuchError, UsageError
from sessiontree.context.providers.openai import request as chat_request
from sessiontree.core import limits
from tests.support.rules import chat, fault, responses
from tests.support.saying import (
    IMAGE,
    PIXEL,
    assistant,
    call,
    chat_call,
    context,
    result,
    text,
    user,
)

SHOWN = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PIXEL}"}}


def chat_sent(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    params = context(*messages).to_openai("chat").params
    assert fault(chat, params) is None
    said: list[dict[str, Any]] = params["messages"]
    return said


def items_sent(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    params = context(*messages).to_openai().params
    assert fault(responses, params) is None
    said: list[dict[str, Any]] = params["input"]
    return said


def reasoning(id: str = "rs_1", sealed: str = "sealed") -> dict[str, Any]:
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed}


def spoken(words: str, id: str = "msg_1") -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    said = {"type": "message", "role": "assistant", "id": id, "status": "completed"}
    return {**said, "content": content}


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(UsageError, match="'responses' or 'chat'"):
        context().to_openai("assistants")  # type: ignore[call-overload]


def test_the_system_text_is_the_first_message_or_the_instructions() -> None:
    system = {"role": "system", "content": "Be brief."}
    found = context(system, user("hi"))
    assert found.to_openai("chat").params["messages"][0] == system
    assert found.to_openai().params["instructions"] == "Be brief."


def test_a_chat_stored_in_its_own_shape_is_sent_as_it_was() -> None:
    said = [
        user("go"),
        {**chat_call("call_1", '{ "path" : "." }'), "content": "Looking."},
        {"role": "tool", "tool_call_id": "call_1", "content": "a b"},
        {"role": "assistant", "content": "Two files."},
        {"role": "developer", "content": "Be brief."},
    ]
    assert chat_sent(*said) == said


def test_an_item_that_lost_reasoning_led_to_has_no_id() -> None:
    lost = {**reasoning("rs_2"), "encrypted_content": None}
    said = [user("hi"), reasoning("rs_1"), spoken("said"), lost, spoken("so", "msg_2")]
    assert [item.get("id") for item in items_sent(*said)] == [None, "rs_1", "msg_1", None]


def test_reasoning_that_no_item_of_its_own_follows_is_left_out() -> None:
    """OpenAI refuses it, also where the model gave two in a row."""
    said = [user("hi"), reasoning("rs_1"), spoken("said")]
    killed = [*said, reasoning("rs_2")]
    for then in ([], [user("Go on")], [reasoning("rs_3"), spoken("so", "msg_3")]):
        request = context(*killed, *then).to_openai()
        assert fault(responses, request.params) is None
        kept = [message.get("id") for message in (*said, *then)]
        assert [item.get("id") for item in request.params["input"]] == kept
        assert "reasoning that nothing followed was left out" in request.warnings


def test_reasoning_whose_own_response_ended_is_left_out() -> None:
    with Session.create() as session:
        session.append_message(user("hi"))
        killed = [(reasoning(f"rs_{n}"), "resp_1") for n in range(2)]
        for item, response in (*killed, (spoken("said"), "resp_2")):
            session.append_message(item, metadata={"responseId": response})
        request = session.context().to_openai()
    assert [item.get("id") for item in request.params["input"]] == [None, "msg_1"]
    assert any("reasoning that nothing followed" in warning for warning in request.warnings)


def test_items_of_responses_are_sent_as_they_were() -> None:
    said = [
        {"type": "message", "role": "user", "content": "go"},
        reasoning(),
        {**spoken("Looking."), "phase": "commentary"},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{ }", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c", "output": "a b"},
        {"type": "custom_tool_call", "call_id": "d", "name": "patch", "input": "***"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "ok"},
    ]
    assert items_sent(*said) == said


def test_an_answer_of_another_agent_has_arguments_as_text() -> None:
    history = [user("go"), assistant(text("so"), call("a", path="ü")), result("a")]
    [made] = chat_sent(*history)[1]["tool_calls"]
    assert made["function"] == {"name": "ls", "arguments": '{"path":"ü"}'}
    assert items_sent(*history)[2]["arguments"] == '{"path":"ü"}'


def test_what_an_image_of_a_tool_shows_follows_the_results_in_a_chat() -> None:
    history = [user("go"), assistant(call("a"), call("b")), result("a", [IMAGE]), result("b")]
    told = chat_sent(*history, user("and?"))
    roles = ["user", "assistant", "tool", "tool", "user", "user"]
    assert [said["role"] for said in told] == roles
    assert told[2]["content"] == "(no output)"
    assert told[4]["content"] == [text("From the result of call a:"), SHOWN]
    assert told[5]["content"] == "and?"


def test_a_file_that_the_api_holds_is_named_by_its_id() -> None:
    cases: list[Any] = [
        (
            {"type": "input_file", "file_id": "file-2"},
            {"type": "file", "file": {"file_id": "file-2"}},
        ),
        ({"type": "file", "file": {"file_id": "file-2"}}, None),
    ]
    for part, sent in cases:
        (message,) = chat_sent(user([part]))
        assert message["content"] == [sent or part]


def test_a_file_without_an_id_and_content_is_named_as_unreadable() -> None:
    for id in (5, None, "", ["x"]):
        (message,) = chat_sent(user([text("see"), {"type": "input_file", "file_id": id}]))
        assert "file_id" not in str(message["content"]), id
        assert "unreadable" in str(message["content"]), id


def test_an_image_of_a_tool_stays_in_its_output_in_responses() -> None:
    told = items_sent(user("go"), assistant(call("a")), result("a", [text("see"), IMAGE]))
    assert [part["type"] for part in told[-1]["output"]] == ["input_text", "input_image"]


def test_that_a_call_failed_is_said_in_words() -> None:
    history = [user("go"), assistant(call("a")), result("a", "no such file", failed=True)]
    assert chat_sent(*history)[-1]["content"] == "The call failed:\nno such file"
    assert items_sent(*history)[-1]["output"] == "The call failed:\nno such file"


def test_ids_keep_to_the_limit_of_the_api() -> None:
    for limit in (40, 64):
        ids = ["t" * limit, "t" * (limit + 1), "t" * (limit + 2)]
        history = [message for id in ids for message in (assistant(call(id)), result(id))]
        if limit == 40:
            told = [said["tool_calls"][0]["id"] for said in chat_sent(*history)[::2]]
        else:
            told = [said["call_id"] for said in items_sent(*history)[::2]]
        assert told[0] == ids[0], limit
        assert len(set(told)) == 3, limit


def test_reasoning_without_its_seal_or_what_followed_is_left_out() -> None:
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    answer = {"type": "message", "role": "assistant", "content": "yes"}
    assert items_sent(bare, spoken("yes")) == [answer]
    asked = [{"type": "message", "role": "user", "content": words} for words in ("?", "?!")]
    assert items_sent(user("?"), reasoning(), user("?!"), spoken("yes")) == [*asked, answer]


def test_two_prompts_in_a_row_stay_two_so_that_a_request_is_a_prefix_of_the_next() -> None:
    asked = [user("one"), user([text("two"), text("three")]), user("four")]
    for sent in (items_sent, chat_sent):
        whole = sent(*asked)
        assert [len(sent(*asked[:count])) for count in (1, 2, 3)] == [1, 2, 3]
        assert sent(*asked[:2]) == whole[:2]


def test_an_image_keeps_its_detail() -> None:
    url = f"data:image/gif;base64,{PIXEL}"
    own = {"type": "input_image", "image_url": url, "detail": "low"}
    in_chat = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    for stored in (own, in_chat):
        assert items_sent(user([stored]))[0]["content"] == [own]
        assert chat_sent(user([stored]))[0]["content"] == [in_chat]


def test_the_call_of_a_built_in_tool_stays_one_where_its_result_is_stored() -> None:
    made: dict[str, Any] = {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c",
        "status": "completed",
    }
    action = {"type": "exec", "command": ["ls"], "env": {"A": None}}
    made["action"] = action
    output = {"type": "local_shell_call_output", "id": "c", "output": "x"}
    assert context(user("go"), made, output).to_openai().params["input"][1:] == [made, output]
    made = {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}}
    request = context(user("go"), made).to_openai()
    assert [item["type"] for item in request.params["input"][1:]] == [
        "function_call",
        "function_call_output",
    ]


def test_the_text_of_reasoning_is_never_sent_back() -> None:
    """The API refuses a reasoning item whose content is not empty."""
    told = {**reasoning(), "content": [{"type": "reasoning_text", "text": "secret"}]}
    assert "secret" not in json.dumps(items_sent(told, spoken("yes")))


def test_reasoning_kept_by_pi_comes_back_as_the_item_it_was() -> None:
    kept = {"type": "thinking", "thinking": "", "thinkingSignature": json.dumps(reasoning())}
    made = call("call_1|fc_1")
    told = items_sent(user("?"), assistant(kept, made, api="openai-responses"))
    assert told[1] == reasoning()
    assert (told[2]["call_id"], told[2]["id"]) == ("call_1", "fc_1")


def test_an_item_that_stands_twice_has_its_id_once() -> None:
    told = items_sent(reasoning(), spoken("a"), user("?"), reasoning(), spoken("b"))
    assert [item["type"] for item in told].count("reasoning") == 2


def test_custom_calls_stay_custom() -> None:
    made = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "***"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [made]}
    history = [user("go"), asked, {"role": "tool", "tool_call_id": "c", "content": "ok"}]
    assert chat_sent(*history)[1]["tool_calls"] == [made]
    kinds = [item["type"] for item in items_sent(*history)[1:]]
    assert kinds == ["custom_tool_call", "custom_tool_call_output"]


def test_a_call_that_an_edit_replaced_says_the_new_words() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    told = items_sent(user("go"), {**item, "content": "edited"})
    assert [said["type"] for said in told[1:3]] == ["message", "function_call"]


def test_a_lone_surrogate_is_replaced() -> None:
    request = chat_request([user("a\ud800b")], ["u"], system=None, model=None, is_paired=True)
    assert request.params["messages"][0]["content"] == "a�b"
    assert "surrogates" in request.warnings[0]


@pytest.mark.slow
def test_arguments_that_json_cannot_carry_are_replaced_and_named() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"in": deep}
    made = assistant(call("a", path="\ud800"), call("b", n=float("inf")), call("c", deep=deep))
    request = chat_request([user("go"), made], ["u", "v"], system=None, model=None, is_paired=True)
    assert fault(chat, request.params) is None
    calls = request.params["messages"][1]["tool_calls"]
    told = [one["function"]["arguments"] for one in calls]
    assert told == ['{"path":"\ufffd"}', '{"n":"inf"}', "{}"]
    assert "arguments nested too deep were left out (entry v)" in request.warnings


def test_a_request_of_more_calls_than_any_model_takes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REQUEST_BLOCKS", limits.REQUEST_BLOCKS._replace(most=2))
    calls = [chat_call(f"c{number}", "{}") for number in range(3)]
    asked = context(user("x"), {"role": "assistant", "content": None, "tool_calls": calls})
    for api in ("responses", "chat"):
        with pytest.raises(TooMuchError, match="more than 2 content blocks and calls"):
            asked.to_openai(api)


def test_reasoning_is_not_sent_without_the_whole_item_that_it_led_to() -> None:
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    opened = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    for left in (opened, {"type": "text", "text": "I'll re"}):
        broken = {"role": "assistant", "content": [left], "stopReason": "aborted", "partial": True}
        with Session.create() as session:
            for message in (user("Hi"), sealed, broken, user("Go on")):
                session.append_message(message)
            request = session.context().to_openai()
        assert "reasoning" not in [item["type"] for item in request.params["input"]]
        assert "reasoning that nothing followed was left out" in request.warnings


def test_reasoning_that_broke_off_itself_is_not_sent() -> None:
    broken = assistant(reasoning(), stopReason="aborted", partial=True)
    request = context(user("Hi"), broken, spoken("said")).to_openai()
    assert [item.get("id") for item in request.params["input"]] == [None, "msg_1"]
    assert "a block of the kind 'reasoning' broke off" in "\n".join(request.warnings)
