from __future__ import annotations

import copy
from itertools import pairwise
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.context.pairing import Pairing
from sessiontree.core.message import Message, result_ids
from tests.support.conversation import user
from tests.support.histories import SHAPES, call, fault_of, histories, result, said, spoken_in
from tests.support.paired import pair
from tests.support.soak import amount
from tests.support.table import for_each

PROMPT = user("go")
STEER = user("no, the other one")
DONE = {"role": "assistant", "content": [said("done")]}
SHAPED = pytest.mark.parametrize("shape", SHAPES)
PARALLEL = pytest.mark.parametrize("shape", ["pi", "anthropic", "chat"])


def paired(*messages: Message) -> list[Message]:
    return pair(messages)[0]


def warned(*messages: Message) -> list[str]:
    return pair(messages)[1]


def assert_untouched(messages: list[Message]) -> None:
    """The very same objects come out, without a warning."""
    out, warnings = pair(messages)
    assert [id(message) for message in out] == [id(message) for message in messages]
    assert warnings == []


@SHAPED
def test_what_needs_no_correction_is_passed_on_as_the_very_same_objects(shape: str) -> None:
    assert_untouched([PROMPT, call(shape, "a"), result(shape, "a"), DONE, STEER, DONE])


@PARALLEL
def test_parallel_results_in_call_order_are_passed_on_too(shape: str) -> None:
    assert_untouched([call(shape, "a", "b"), result(shape, "a"), result(shape, "b"), DONE])


@SHAPED
def test_a_steering_message_between_call_and_result_follows_the_result(shape: str) -> None:
    made, answer = call(shape, "a"), result(shape, "a")
    assert paired(PROMPT, made, STEER, answer, DONE) == [PROMPT, made, answer, STEER, DONE]
    assert warned(made, STEER, answer) == [
        "the result of call a was apart from it and was moved behind it"
    ]


@PARALLEL
def test_parallel_results_are_put_in_call_order(shape: str) -> None:
    made = call(shape, "a", "b")
    out, warnings = pair([made, result(shape, "b", text="B"), result(shape, "a", text="A"), DONE])
    assert fault_of(out) is None
    assert "A" in str(out[1])
    assert out[-1] is DONE
    assert warnings == ["parallel results were put in call order"]


@SHAPED
def test_a_call_never_answered_gets_a_result_in_its_own_shape(shape: str) -> None:
    made = call(shape, "a")
    [_, made_up, after], warnings = pair([made, DONE])
    assert made_up.keys() >= result(shape, "a").keys()
    assert "Interrupted" in str(made_up)
    assert fault_of([made, made_up]) is None
    assert after is DONE
    assert warnings == ["call a of ls was never answered"]


def test_a_made_up_result_says_that_it_is_an_error_where_the_shape_can() -> None:
    assert paired(call("pi", "a"))[1]["isError"] is True
    assert paired(call("pi", "a"))[1]["toolName"] == "ls"
    assert paired(call("anthropic", "a"))[1]["content"][0]["is_error"] is True


def test_other_responses_items_are_answered_in_their_own_kind() -> None:
    made = {"type": "custom_tool_call", "call_id": "c", "name": "grep", "input": "x"}
    assert paired(made)[1]["type"] == "custom_tool_call_output"


@PARALLEL
def test_of_parallel_calls_only_the_open_ones_are_given_up(shape: str) -> None:
    made, answer = call(shape, "a", "b", "c"), result(shape, "b", text="B")
    out, warnings = pair([made, answer, DONE])
    assert fault_of(out) is None
    assert str(out).count("Interrupted") == 2
    assert "B" in str(out)
    assert len(warnings) == 2


def test_made_up_and_brought_results_of_anthropic_share_one_message() -> None:
    out = paired(call("anthropic", "a", "b"), result("anthropic", "b", then="and now?"))
    assert len(out) == 2
    kinds = [block["type"] for block in out[1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]


@SHAPED
def test_a_result_without_its_call_is_left_out(shape: str) -> None:
    out, warnings = pair([PROMPT, result(shape, "a"), DONE])
    assert out == [PROMPT, DONE]
    assert warnings == ["a result for call a was left out: no such call is open before it"]


@SHAPED
def test_a_result_before_its_call_is_an_orphan_and_the_call_unanswered(shape: str) -> None:
    out, warnings = pair([result(shape, "a"), call(shape, "a")])
    assert fault_of(out) is None
    assert "Interrupted" in str(out)
    assert len(warnings) == 2


@SHAPED
def test_of_two_results_for_one_call_the_first_counts(shape: str) -> None:
    made, first = call(shape, "a"), result(shape, "a", text="first")
    assert paired(made, first, result(shape, "a", text="second"), DONE) == [made, first, DONE]
    assert paired(made, first, DONE, result(shape, "a", text="second")) == [made, first, DONE]


def test_one_message_that_answers_a_call_twice_answers_it_once() -> None:
    out = paired(call("anthropic", "a"), result("anthropic", "a", "a", text="r"))
    assert [block["content"] for block in out[1]["content"]] == ["r 0"]


def test_a_result_that_names_no_call_answers_none() -> None:
    for nameless in ({"role": "toolResult", "content": "x"}, {"role": "tool", "content": "x"}):
        out, warnings = pair([call("pi", "a"), nameless])
        assert "Interrupted" in str(out)
        assert any("(no id)" in warning for warning in warnings)


@SHAPED
def test_an_id_used_every_turn_pairs_within_each_turn(shape: str) -> None:
    messages: list[Message] = []
    for turn in range(4):
        answer = result(shape, "call_0", text=f"{turn}")
        messages += [PROMPT, call(shape, "call_0", said=f"{turn}"), answer]
    assert_untouched(messages)


@SHAPED
def test_a_result_answers_the_nearest_open_call_of_its_id(shape: str) -> None:
    first, second = call(shape, "a", said="1"), call(shape, "a", said="2")
    late, later = result(shape, "a", text="late"), result(shape, "a", text="later")
    out = paired(first, PROMPT, second, late, DONE, later)
    assert out == [first, later, PROMPT, second, late, DONE]


def test_two_results_of_one_id_in_one_message_keep_their_own_words() -> None:
    first, second = call("anthropic", "a"), call("chat", "a")
    out = paired(first, PROMPT, second, STEER, result("anthropic", "a", "a", text="r"))
    assert fault_of(out) is None
    assert [b["content"] for m in (out[1], out[4]) for b in m["content"]] == ["r 1", "r 0"]


def test_a_user_message_with_results_and_text_is_left_whole_where_it_may_be() -> None:
    made, answer = call("anthropic", "a"), result("anthropic", "a", then="and now?")
    assert paired(made, answer)[1] is answer


def test_what_a_late_result_says_besides_stays_in_its_place() -> None:
    made, answer = call("anthropic", "a"), result("anthropic", "a", then="and now?")
    first = {**answer, "content": answer["content"][:1]}
    assert paired(made, STEER, answer) == [made, first, STEER, user([said("and now?")])]


def test_an_orphan_result_does_not_take_the_words_beside_it_along() -> None:
    words = user([said("and now?")])
    assert paired(PROMPT, result("anthropic", "a", then="and now?")) == [PROMPT, words]


def test_results_stand_before_all_that_is_said_beside_them() -> None:
    for second in (result("anthropic", "b"), result("chat", "b")):
        made = call("anthropic", "a", "b")
        first = result("anthropic", "a", then="hm")
        out, warnings = pair([made, first, second])
        assert fault_of(out) is None, second
        assert spoken_in(out) == spoken_in([made, first, second])
        assert warnings == ["results were put before the content between them"], second


def test_text_in_front_of_a_result_is_put_behind_it() -> None:
    answer = user([said("hm"), *result("anthropic", "a")["content"]])
    out, warnings = pair([call("anthropic", "a"), answer])
    assert out[1]["content"] == list(reversed(answer["content"]))
    assert len(warnings) == 1


def test_calls_in_messages_of_their_own_are_paired_one_by_one() -> None:
    one, two = call("anthropic", "a"), call("anthropic", "b")
    first, second = result("anthropic", "a"), result("anthropic", "b")
    assert paired(one, two, first, second) == [one, first, two, second]


def test_a_call_without_an_id_is_left_as_it_is() -> None:
    made = {"role": "assistant", "content": [{"type": "toolCall", "name": "ls"}]}
    assert pair([made, DONE]) == ([made, DONE], [])


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(200))
@given(histories())
def test_any_history_becomes_one_that_a_provider_takes(messages: list[Message]) -> None:
    before = copy.deepcopy(messages)
    out, warnings = pair(messages)
    assert fault_of(out) is None
    assert messages == before
    assert (out == messages) == (warnings == [])
    assert (fault_of(messages) is None) <= (out == messages)
    assert spoken_in(out) == spoken_in(messages)
    assert_untouched(out)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(200))
@given(histories())
def test_messages_taken_one_by_one_give_what_all_at_once_give(messages: list[Message]) -> None:
    pairing: Pairing[int] = Pairing()
    for place, message in enumerate(messages):
        pairing.take(message, place)
        out, sources, warnings = pairing.result()
        assert (out, warnings) == pair(messages[: place + 1])
        for made, source in zip(out, sources, strict=True):
            known = made == messages[source] or "Interrupted" in str(made)
            assert known or _is_part(made, messages[: place + 1])


@settings(deadline=None, max_examples=amount(300))
@given(histories(), histories(["pi"]), st.lists(st.integers(0, 20), max_size=3))
def test_messages_taken_together_give_what_one_by_one_give(
    first: list[Message], then: list[Message], cuts: list[int]
) -> None:
    messages = [*first, *then]
    singly: Pairing[int] = Pairing()
    together: Pairing[int] = Pairing()
    for start, end in pairwise([0, *sorted(min(cut, len(messages)) for cut in cuts), None]):
        places = range(len(messages))[start:end]
        together.take_all([messages[place] for place in places], places)
        for place in places:
            singly.take(messages[place], place)
        assert together.result() == singly.result()


@for_each("shape", ["pi", "anthropic"])
def test_calls_with_their_results_are_taken_together_without_a_group(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pairing, "take", None)  # which takes a message by itself
    parallel = [call(shape, "a", "b"), result(shape, "a"), result(shape, "b")]
    messages = [PROMPT, *[call(shape, "a"), result(shape, "a"), DONE, *parallel] * 3, STEER]
    pairing: Pairing[int] = Pairing()
    pairing.take_all(messages, range(len(messages)))
    assert pairing.result() == (messages, [*range(len(messages))], [])


@pytest.mark.parametrize("verbatim", [False, True])
def test_a_request_pairs_the_messages_of_a_context_once(
    monkeypatch: pytest.MonkeyPatch, verbatim: bool
) -> None:
    made: list[object] = []
    make = Pairing.__init__

    def count(pairing: Pairing[Any]) -> None:
        made.append(pairing)
        make(pairing)

    monkeypatch.setattr(Pairing, "__init__", count)
    session = Session.create()
    for message in (PROMPT, call("pi", "a", "b"), result("pi", "b"), STEER):
        session.append_message(message)
    context = session.context(verbatim=verbatim)
    sent = [context.to_anthropic(), context.to_openai(), context.to_openai("chat")]
    assert all("Interrupted" in str(request.params) for request in sent)
    assert len(made) == (3 if verbatim else 1)


def _is_part(message: Message, messages: list[Message]) -> bool:
    """Whether all that a corrected message says was said in some message."""
    whole = [block for m in messages for block in m.get("content") or [] if m["role"] == "user"]
    return all(block in whole for block in message["content"])


def test_a_response_in_pieces_makes_its_calls_together() -> None:
    pieces = [{**call("anthropic", id), "id": "msg"} for id in "ab"]
    a, b = result("anthropic", "a"), result("anthropic", "b")
    assert_untouched([*pieces, b, a, STEER])
    late, warnings = pair([*pieces, b, STEER, a])
    assert late == [*pieces, b, a, STEER]
    assert warnings


def test_parallel_call_items_keep_the_order_of_their_api() -> None:
    calls = [call("responses", "a"), {"type": "reasoning", "summary": []}, call("responses", "b")]
    results = [result("responses", "b"), result("responses", "a")]
    assert_untouched([PROMPT, *calls, *results, DONE])


def test_a_call_item_that_was_never_answered_ends_its_response() -> None:
    """Items after it may be the answer to a request that told the model of the interruption."""
    a, b, c = (call("responses", id) for id in "abc")
    answers = [result("responses", id) for id in "ca"]
    out, warnings = pair([a, b, c, *answers, DONE])
    assert [message for message in out if message in (a, b, c, *answers)] == [
        a,
        b,
        answers[1],
        c,
        answers[0],
    ]
    assert ["Interrupted" in str(message) for message in out].index(True) == 3
    assert "call b of ls was never answered" in warnings
    thought = {"type": "reasoning", "id": "rs_2"}
    told = paired(PROMPT, a, b)
    assert paired(PROMPT, a, b, thought, c, answers[0])[: len(told)] == told


def test_call_items_of_the_same_id_are_answered_each() -> None:
    again = [call("responses", "a"), call("responses", "a"), result("responses", "a")]
    out, _ = pair(again)
    assert fault_of(out) is None


def test_words_beside_an_orphan_result_end_a_response_of_call_items() -> None:
    first, second = call("responses", "b"), call("responses", "a")
    orphan = result("anthropic", "a", then="after 1")
    out, warnings = pair([first, orphan, second, STEER, result("pi", "a")])
    assert fault_of(out) is None
    assert out[2:] == [user([said("after 1")]), *(second, result("pi", "a"), STEER)]
    assert len(warnings) == 3
    assert pair(out) == (out, [])


def test_results_without_calls_cost_no_more_than_their_number() -> None:
    messages = [result("pi", f"c{n}") for n in range(60_000)]
    pairing: Pairing[None] = Pairing()
    before = process_time()
    pairing.take_all(messages, [None] * len(messages))
    assert process_time() - before < 3
    assert pairing.result()[0] == []


def test_a_call_that_a_message_broke_off_in_is_left_out_and_whole_ones_stay() -> None:
    whole = {"type": "tool_use", "id": "a", "name": "ls", "input": {}}
    for arguments in ('{"command": "rm -rf /tm', ""):
        cut = {"type": "tool_use", "id": "b", "name": "bash", "input": arguments}
        words = {"type": "text", "text": "Look."}
        with Session.create(cwd="/project") as session:
            session.append_message({"role": "user", "content": "go"})
            content = [words, whole, cut]
            broken = {"role": "assistant", "content": content, "stopReason": "aborted"}
            session.append_message(broken)
            context = session.context()
            assert context.messages[1]["content"] == [words, whole]
            assert [result_ids(message) for message in context.messages[2:]] == [["a"]]
            assert any("call b of bash broke off" in warning for warning in context.warnings)
            assert session.context(verbatim=True).messages[1] == broken
            for request in (context.to_anthropic(), context.to_openai(), context.to_openai("chat")):
                assert "bash" not in str(request.params)


def test_a_cut_call_of_chat_is_left_out() -> None:
    calls = [
        {"id": id, "type": "function", "function": {"name": "ls", "arguments": arguments}}
        for id, arguments in (("a", "{}"), ("b", '{"x'))
    ]
    with Session.create(cwd="/project") as session:
        message = {"role": "assistant", "content": None, "tool_calls": calls, "partial": True}
        session.append_message(message)
        assert session.context().messages[0]["tool_calls"] == calls[:1]


def test_reasoning_after_a_call_that_was_killed_begins_the_next_response() -> None:
    before, made = {"type": "reasoning", "id": "rs_1"}, call("responses", "a")
    after = {"type": "reasoning", "id": "rs_2"}
    answer = {"type": "message", "role": "assistant", "id": "msg_2", "content": []}
    killed = [PROMPT, before, made]
    interrupted = paired(*killed)[-1]
    assert interrupted["type"] == "function_call_output"
    assert paired(*killed, after) == [*killed, interrupted, after]
    assert paired(*killed, after, answer, STEER) == [*killed, interrupted, after, answer, STEER]
    late = [*killed, after, result("responses", "a"), answer]
    assert paired(*late) == [*killed, result("responses", "a"), after, answer]
    assert pair(late)[1] == ["the result of call a was apart from it and was moved behind it"]


def test_reasoning_between_the_calls_of_one_response_stays_there() -> None:
    first, second = call("responses", "a"), call("responses", "b")
    between = {"type": "reasoning", "id": "rs_2"}
    results = [result("responses", "a"), result("responses", "b")]
    assert_untouched([PROMPT, first, between, second, *results])
