"""A stream is kept once, whoever tells of it, and where it belongs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree import HookRejectedError, ReadOnlyError, Session, SessionTreeWarning, UsageError
from sessiontree.recording import events
from sessiontree.recording.lane import heard
from sessiontree.recording.recorder import StreamAccumulator
from tests.support.saying import text
from tests.support.streams import (
    AGENT_SESSION,
    CALL,
    MODEL,
    START_USAGE,
    TEXT,
    THINKING,
    Agent,
    answer,
    as_bytes,
    contents,
    contents_of,
    conversation,
    recorded,
)
from tests.support.table import for_each

CONTENTS = [[THINKING, TEXT, CALL], [answer("toolu_01")], [text("Done.")]]


@for_each("granularity", ["block", "message"])
@for_each(
    "deltas, whole",
    [(True, True), (True, False), (False, True)],
)
def test_a_message_is_kept_once_in_the_providers_own_blocks(
    deltas: bool, whole: bool, granularity: str
) -> None:
    stream = as_bytes(conversation(deltas=deltas, whole=whole))
    with Session.create() as session:
        recorded(session, stream, granularity=granularity)
        assert contents(session) == CONTENTS
        context = session.context()
        assert context.warnings == []
        assert context.model == {"provider": None, "modelId": MODEL}
        assert [m.get("id") for m in context.messages] == ["msg_1", None, "msg_2"]
        if deltas:
            assert context.messages[0]["stopReason"] == "tool_use"
            assert context.messages[0]["usage"] == {**START_USAGE, "output_tokens": 50}
        blocks = session.find(type="block")
        assert len(blocks) == (4 if granularity == "block" else 0)
        assert len(session.turns()) == 0


def test_each_finished_block_is_in_the_file_before_the_next_one_comes(file: Path) -> None:
    agent = Agent()
    with Session.create(file) as session:
        accumulator = StreamAccumulator(session)
        accumulator.feed(as_bytes([agent.begin("msg_1"), *agent.deltas(0, TEXT), agent.stop(0)]))
        with Session.open(file, readonly=True) as read:
            assert contents(read) == [[TEXT]]
        accumulator.close()


@for_each("granularity", ["block", "message"])
@for_each("deltas", [True, False])
def test_a_stream_told_again_from_its_start_adds_nothing(deltas: bool, granularity: str) -> None:
    stream = as_bytes(conversation(deltas=deltas))
    with Session.create() as session:
        recorded(session, stream, granularity=granularity)
        before = [entry.uuid for entry in session.entries()]
        used = session.stats().usage
        assert (used.input, used.output, used.cache_read, used.cost) == (20, 100, 200, 0.25)
        recorded(session, stream, stream, granularity=granularity)
        assert [entry.uuid for entry in session.entries()] == before
        assert session.stats().usage == used


def test_what_the_agent_tells_of_itself_is_in_the_metadata() -> None:
    with Session.create() as session:
        found = recorded(session, as_bytes(conversation()))
        about = {"agent": "claude-code", "agentSessionId": AGENT_SESSION, "model": MODEL}
        assert session.metadata == {**about, "cwd": "/p", "tools": ["Read", "Task"]}
        assert len(session.find(type="session_info")) == 2
    start = found[0]
    assert isinstance(start, events.Start)
    assert (start.agent_session_id, start.model) == (AGENT_SESSION, MODEL)


def test_an_agent_on_a_lane_keeps_its_facts_to_the_lane(file: Path) -> None:
    stream = as_bytes(conversation())
    with Session.create(file) as session:
        recorded(session, stream)
        before = session.metadata
        other = stream.replace(AGENT_SESSION.encode(), b"other").replace(b'"/p"', b'"/q"')
        with session.scratch() as trial:
            recorded(trial, other)
            assert trial.metadata == before
        assert session.metadata == before
        with session.lane("sub") as lane:
            recorded(lane, other)
            assert (lane.metadata["agentSessionId"], lane.metadata["cwd"]) == ("other", "/q")
        kept = session.metadata
        assert {key: kept[key] for key in before} == before
    with Session.open(file, lane="sub", readonly=True) as lane:
        assert lane.metadata["agentSessionId"] == "other"
        assert lane.metadata["tools"] == before["tools"]


def test_the_events_come_in_order_and_name_their_places() -> None:
    with Session.create() as session:
        found = recorded(session, as_bytes(conversation()))
        names = [type(event).__name__ for event in found]
        kinds = list(dict.fromkeys(names))
        assert kinds == [
            *("Start", "ThinkingStart", "ThinkingDelta", "ThinkingEnd", "ContentStart"),
            *("ContentDelta", "ContentEnd", "ToolUseStart", "ToolUseDelta", "ToolUseEnd"),
            *("AssistantMessage", "ToolResult", "Passthrough", "Complete"),
        ]
        said = "".join(e.text for e in found if isinstance(e, events.ContentDelta))
        assert said == TEXT["text"] + "Done."
        pieces = [e.partial_json for e in found if isinstance(e, events.ToolUseDelta)]
        assert json.loads("".join(pieces)) == CALL["input"]
        end = next(e for e in found if isinstance(e, events.ToolUseEnd))
        assert (end.tool_use_id, end.tool_name, end.input) == ("toolu_01", "Read", CALL["input"])
        assert session.block(end.position.uuid, end.position.index or 0) == CALL
        complete = found[-1]
        assert isinstance(complete, events.Complete)
        assert complete.new_head.uuid == session.leaf.uuid
        assert complete.agent_session_id == AGENT_SESSION
        assert (complete.usage.cost, complete.usage.output, complete.usage.turns) == (0.25, 100, 2)


def test_a_cost_that_grows_from_turn_to_turn_is_counted_once() -> None:
    agent = Agent()

    def turn(number: int, cost: float) -> list[dict[str, Any]]:
        said = text(f"answer {number}")
        models = {MODEL: {"inputTokens": 10 * number, "outputTokens": 70 * number, "costUSD": cost}}
        return [
            agent.init(),
            *agent.message(f"msg_{number}", [said]),
            agent.result(total_cost_usd=cost, modelUsage=models),
        ]

    with Session.create() as session:
        recorded(session, as_bytes([*turn(1, 0.25), *turn(2, 0.75)]))
        used = session.stats().usage
        assert (used.input, used.output, used.cost) == (20, 140, 0.75)
        recorded(session, as_bytes(turn(1, 0.5)).replace(b"msg_1", b"msg_3"))  # a new process
        assert session.stats().usage.cost == 1.25
        assert session.stats().usage.output == 210


def test_unknown_events_are_kept_whole_and_said() -> None:
    agent = Agent()
    odd: list[dict[str, Any]] = [
        agent.event("next_years_event", deep={"a": [1, None]}),
        {"no": "type"},
        {"type": 7},
        {"type": ["a"], "event": {"type": {"a": 1}}},
        agent.event("assistant", message="no message"),
        agent.streamed(type="content_block_delta", index=9, delta={"type": "text_delta"}),
        agent.streamed(type="content_block_delta", index=3, delta={"type": "new_delta", "x": 1}),
        agent.streamed(type="message_stop"),
        agent.event("system", subtype="hook_response", output="ok"),
    ]
    with Session.create() as session:
        found = recorded(session, as_bytes(odd))
        assert [entry["data"] for entry in session.find(type="custom")] == odd
        assert [e.data for e in found if isinstance(e, events.Passthrough)] == odd


def test_a_line_that_is_no_event_is_kept_with_its_number() -> None:
    agent = Agent()
    lines = [as_bytes([agent.init()]), b"not json\n", b"[1]\n", b"\n", b"\xff\xfe\n"]
    with Session.create() as session:
        with pytest.warns(SessionTreeWarning) as told:
            found = recorded(session, b"".join(lines) + as_bytes([agent.result()]))
        kept = [e["data"] for e in session.find(type="custom") if "line" in e["customType"]]
    assert kept == [{"text": "not json"}, {"text": "[1]"}, {"hex": "fffe"}]
    assert [str(w.message).split(" is no")[0] for w in told] == [
        f"line {number} of the stream" for number in (2, 3, 5)
    ]
    assert len([e for e in found if isinstance(e, events.Err)]) == 3


@pytest.mark.filterwarnings("ignore:line .* is cut short")
def test_a_subagent_has_a_lane_of_its_own_and_the_main_chain_stays_whole(file: Path) -> None:
    main, below = Agent(), Agent(parent="toolu_task")
    task = {"type": "tool_use", "id": "toolu_task", "name": "Task", "input": {"prompt": "look"}}
    stream = [
        main.init(),
        *main.message("msg_1", [TEXT, task], "tool_use"),
        below.user("look"),
        below.whole("msg_s1", [CALL]),
        below.user([answer("toolu_01")]),
        below.whole("msg_s2", [text("found it")]),
        main.user([answer("toolu_task", "found it")]),
        *main.message("msg_2", [text("Done.")]),
        main.result(),
    ]
    with Session.create(file) as session:
        half = len(as_bytes(stream)) // 2
        found = recorded(session, as_bytes(stream)[:half], as_bytes(stream)[half:])
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        assert session.context().warnings == []
        found_it = [answer("toolu_task", "found it")]
        assert contents(session) == [[TEXT, task], found_it, [text("Done.")]]
    with Session.open(file, readonly=True, lane="agent-toolu_task") as lane:
        assert contents(lane) == ["look", [CALL], [answer("toolu_01")], [text("found it")]]
        told = {entry["customType"]: entry["data"] for entry in lane.find(type="custom")}
        caller = told["claude-code:subagent"]["calledBy"]
        assert lane.entry(caller)["block"] == task
    assert {event.lane for event in found} == {"main", "agent-toolu_task"}


def test_a_prompt_that_the_caller_wrote_is_not_written_again_when_it_is_echoed() -> None:
    agent = Agent()
    for echo in ("Build it", [text("Build it")]):
        with Session.create() as session:
            prompt = session.append_message({"role": "user", "content": "Build it"})
            found = recorded(session, as_bytes([agent.init(), agent.user(echo)]))
            assert contents(session) == ["Build it"]
            place = events.Position(prompt.uuid)
            assert events.UserMessage(position=place, text="Build it") in found


def _turned(value: Any) -> Any:
    """A JSON value with the keys of its objects in the other order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def test_results_without_uuids_told_again_in_any_order_of_keys_are_kept_once() -> None:
    events_ = conversation(deltas=False)
    for event in events_:
        del event["uuid"]
    doubled = [each for event in events_[1:-2] for each in (event, _turned(event))]
    with Session.create() as session:
        recorded(session, as_bytes(doubled))
        assert contents(session) == CONTENTS
        assert len(session.find(tool_call_id=CALL["id"])) == 2  # the call and its result


def test_a_whole_event_repeats_all_blocks_so_far_or_just_its_own() -> None:
    agent = Agent()
    blocks = [THINKING, TEXT, CALL]
    cumulative = [agent.whole("msg_1", blocks[: n + 1]) for n in range(3)]
    single = [agent.whole("msg_1", [block]) for block in blocks]
    at_once = [agent.whole("msg_1", blocks)]
    for told in (cumulative, single, at_once, [*single, *at_once], [*at_once, *at_once]):
        assert contents_of(as_bytes(told))[0] == blocks


def test_a_whole_event_that_differs_from_its_deltas_has_the_last_word() -> None:
    agent = Agent()
    changed = {**CALL, "input": {"file_path": "/p/b.py"}}
    late = [*agent.message("msg_1", [TEXT, CALL], whole=False), agent.whole("msg_1", [changed])]
    assert contents_of(as_bytes(late))[0] == [TEXT, changed]


def test_numbers_of_the_start_that_are_told_again_late_change_no_total() -> None:
    agent = Agent()
    *told, end = agent.message("msg_1", [TEXT], whole=False)
    late = [*told, agent.whole("msg_1", [TEXT]), end]
    with Session.create() as session:
        recorded(session, as_bytes(late), granularity="message")
        (message,) = session.context().messages
    assert message["usage"] == {**START_USAGE, "output_tokens": 50}


def test_a_message_whose_start_was_lost_does_not_touch_the_one_before() -> None:
    agent = Agent()
    _, *lost = agent.message("msg_2", [text("two")], whole=False)
    told = as_bytes([*agent.message("msg_1", [TEXT]), *lost])
    assert contents_of(told) == [[TEXT], [text("two")]]


def test_a_character_split_between_two_deltas_is_one_again() -> None:
    agent = Agent()
    told = [agent.begin("msg_1"), *agent.deltas(0, text("A+-"), size=1), agent.stop(0)]
    stream = as_bytes(told).replace(b'"+"', b'"\\ud83c"').replace(b'"-"', b'"\\udf70"')
    assert contents_of(stream) == [[text("A🍰")]]


def test_an_input_that_json_cannot_carry_is_kept_as_text() -> None:
    agent = Agent()
    told = [agent.begin("msg_1"), *agent.deltas(0, {**CALL, "input": {"n": 123}}), agent.stop(0)]
    with Session.create() as session:
        recorded(session, as_bytes(told).replace(b"123", b"1e999"))
        assert session.find(type="block")[0]["block"]["input"] == '{"n": 1e999}'


def test_interleaved_blocks_stand_in_the_providers_order() -> None:
    agent = Agent()
    one, two = list(agent.deltas(0, TEXT)), list(agent.deltas(1, CALL))
    mixed = [each for pair in zip(one, two, strict=False) for each in pair]
    mixed += one[len(two) :] + two[len(one) :]
    stream = [agent.begin("msg_1"), *mixed, agent.stop(1), agent.stop(0), *agent.end("tool_use", 5)]
    assert contents_of(as_bytes(stream))[0] == [TEXT, CALL]


def test_an_error_that_the_agent_reports_is_told_and_the_turn_completes() -> None:
    agent = Agent()
    with Session.create() as session:
        result = agent.result(is_error=True, subtype="error_max_turns")
        found = recorded(session, as_bytes([agent.init(), result]))
        assert isinstance(found[-2], events.Err)
        assert "error_max_turns" in found[-2].message
        assert session.find(type="usage")[0]["reported"]["subtype"] == "error_max_turns"


def test_a_veto_costs_its_own_event_and_no_other() -> None:
    class Refusing:
        def before_append(self, session: Session, entry: Any) -> None:
            if entry.type == "custom" and entry["customType"].endswith("secret"):
                raise HookRejectedError("no")

    agent = Agent()
    stream = as_bytes([agent.event("one"), agent.event("secret"), agent.event("two")])
    with Session.create(hooks=[Refusing()]) as session:
        accumulator = StreamAccumulator(session)
        with pytest.raises(HookRejectedError):
            accumulator.feed(stream)
        accumulator.feed(b"")
        kinds = [entry["customType"] for entry in session.find(type="custom")]
    assert kinds == ["claude-code:one", "claude-code:two"]


def test_what_cannot_be_recorded_is_refused_at_once(file: Path) -> None:
    with Session.create(file) as session:
        with pytest.raises(UsageError, match="granularity"):
            StreamAccumulator(session, granularity="word")  # type: ignore[arg-type]
        accumulator = StreamAccumulator(session)
        assert accumulator.close() == accumulator.close() == []
        with pytest.raises(UsageError, match="closed"):
            accumulator.feed(b"{}\n")
    with Session.open(file, readonly=True) as session, pytest.raises(ReadOnlyError):
        StreamAccumulator(session)


def test_decoded_events_are_taken_as_lines_are() -> None:
    with Session.create() as session, StreamAccumulator(session) as accumulator:
        for event in conversation():
            accumulator.take(event)
        assert contents(session) == CONTENTS


@for_each("end", [b"", b"\n"])
def test_a_stream_without_uuids_told_again_writes_its_prompt_once_however_it_ends(
    end: bytes,
) -> None:
    begin = {"type": "system", "subtype": "init", "session_id": "s"}
    said = {"id": "m1", "role": "assistant", "content": [text("Yes.")]}
    answer = {"type": "assistant", "session_id": "s", "message": said}
    stream = as_bytes([begin, answer]).rstrip(b"\n") + end
    with Session.create() as session:
        for _ in range(2):
            with StreamAccumulator(session, prompt="Well?") as accumulator:
                accumulator.feed(stream)
        roles = [entry["message"]["role"] for entry in session.find(type="message")]
        assert roles.count("user") == 1


@for_each("id", ["", 5, ["m"], {"m": 1}, None])
def test_a_message_id_of_any_type_stops_no_recording(id: Any) -> None:
    begun = {"type": "message_start", "message": {"id": id, "role": "assistant", "content": []}}
    said = [{"id": id, "role": "assistant", "content": [text(word)]} for word in ("one", "two")]
    events: list[dict[str, Any]] = [{"type": "system", "subtype": "init", "session_id": "s"}]
    events += [{"type": "stream_event", "session_id": "s", "event": begun}]
    events += [{"type": "assistant", "session_id": "s", "message": message} for message in said]
    with Session.create() as session:
        for told in (events, [events[0], *events[2:]]):
            with StreamAccumulator(session, prompt="Well?") as accumulator:
                for event in told:
                    accumulator.take(event)
        kept = json.dumps(contents(session))
    assert "one" in kept
    assert "two" in kept


def test_a_result_is_an_error_only_where_the_provider_says_true() -> None:
    told: list[Any] = [{}, {"is_error": True}, {"is_error": False}, {"is_error": "yes"}]
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": "x", **one} for one in told]
    found = list(heard({"role": "user", "content": blocks}, "u"))
    assert [event.is_error for event in found if isinstance(event, events.ToolResult)] == [
        *(False, True, False, False)
    ]


def test_a_prompt_that_is_given_is_an_event_and_other_events_keep_their_type() -> None:
    start = {"type": "system", "subtype": "init", "session_id": "s", "uuid": "0b0f3a6e"}
    with Session.create() as session, StreamAccumulator(session, prompt="Build") as recording:
        given = [*recording.take(start), *recording.take({"type": "news", "uuid": "1b0f3a6e"})]
        (said,) = [event for event in given if isinstance(event, events.UserMessage)]
        assert (said.text, session.entry(said.position.uuid)["message"]["content"]) == (
            "Build",
            "Build",
        )
        kept = [event.event_type for event in given if isinstance(event, events.Passthrough)]
        assert kept[-1] == "news"
        assert session.leaf["customType"] == "claude-code:news"
