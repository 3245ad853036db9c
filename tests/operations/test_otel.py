"""A session converted to OpenTelemetry spans: valid OTLP, one tree, and the tokens of `stats`."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import NothingToDoError, Session
from sessiontree.errors import SessionTreeError
from tests.agents.conftest import CLAUDE_CODE, NO_CORPUS
from tests.support.pi_trees import USAGE, PiShaped
from tests.support.saying import IMAGE
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.terminal import run
from tests.support.transcripts import session_of, user, with_subagent
from tests.support.trees import Tree, words_in

FIXTURES = Path(__file__).parents[2] / "fixtures"
SEEDS = st.integers(0, 2**64)
pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")

Spans = list[dict[str, Any]]

_SPAN = {
    *("traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano"),
    *("endTimeUnixNano", "attributes", "status"),
}
_VALUES = {"stringValue": str, "intValue": str, "doubleValue": float, "arrayValue": dict}


def spans_in(file: Path) -> Spans:
    """The spans of a file, checked against OTLP's JSON, and as one tree of one trace."""
    found = []
    for line in file.read_bytes().splitlines():
        (resource,) = json.loads(line)["resourceSpans"]
        assert set(resource) == {"resource", "scopeSpans"}
        assert "service.name" in about(resource["resource"])
        (scope,) = resource["scopeSpans"]
        assert scope["scope"]["name"] == "sessiontree"
        found += scope["spans"]
    for span in found:
        _check(span)
    ids = [span["spanId"] for span in found]
    assert len(set(ids)) == len(ids)
    assert len({span["traceId"] for span in found}) == 1
    assert ["parentSpanId" in span for span in found] == [False] + [True] * (len(found) - 1)
    assert {span["parentSpanId"] for span in found[1:]} <= set(ids)
    return found


def _check(span: dict[str, Any]) -> None:
    assert set(span) <= _SPAN
    assert len(bytes.fromhex(span["traceId"])) == 16
    assert len(bytes.fromhex(span["spanId"])) == 8
    assert span["kind"] in (1, 3)
    assert 0 <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    for attribute in span["attributes"]:
        ((kind, value),) = attribute["value"].items()
        assert isinstance(value, _VALUES[kind])


def about(span: dict[str, Any]) -> dict[str, Any]:
    """The attributes; texts that hold JSON are read."""
    found: dict[str, Any] = {}
    for attribute in span["attributes"]:
        ((kind, value),) = attribute["value"].items()
        if kind == "intValue":
            value = int(value)
        if attribute["key"].endswith((".messages", ".arguments", "_instructions")):
            value = json.loads(value)
        found[attribute["key"]] = value
    return found


def tokens(spans: Spans) -> tuple[int, int, int, int]:
    """The sums of the input, the output, and what was read from and written to a cache."""
    keys = (
        *("input_tokens", "output_tokens"),
        *("cache_read.input_tokens", "cache_creation.input_tokens"),
    )
    each = [[about(span).get(f"gen_ai.usage.{key}", 0) for key in keys] for span in spans]
    input, output, read, written = map(sum, zip(*each, strict=True))
    return input - read - written, output, read, written


def converted(session: Session, file: Path) -> Spans:
    session.convert("otel", file)
    spans = spans_in(file)
    used = session.stats().usage
    assert tokens(spans) == (used.input, used.output, used.cache_read, used.cache_write)
    return spans


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(40))
@given(SEEDS, st.sampled_from([Tree, PiShaped]))
def test_any_session_is_a_valid_trace(
    tmp_path_factory: Any, seed: int, shape: type[Tree | PiShaped]
) -> None:
    session = shape(Random(seed)).grow(24).session
    folder = tmp_path_factory.mktemp("otel")
    try:
        converted(session, folder / "one.jsonl")
    except NothingToDoError:
        return
    session.convert("otel", folder / "two.jsonl")
    assert (folder / "one.jsonl").read_bytes() == (folder / "two.jsonl").read_bytes()


def test_the_fixtures_are_valid_traces(tmp_path: Path) -> None:
    count = 0
    for file in sorted((FIXTURES / "agents").rglob("*.json*")):
        try:
            session = Session.open(file, readonly=True)
        except SessionTreeError:
            continue
        with session:
            try:
                converted(session, tmp_path / f"{count}.jsonl")
            except NothingToDoError:
                continue
        count += 1
    assert count > 10


@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
@for_each("source", CLAUDE_CODE)
def test_real_sessions_are_valid_traces(source: Path, tmp_path: Path) -> None:
    with Session.open(source, readonly=True) as session:
        spans = converted(session, tmp_path / "made.jsonl")
        turns = session.outline().turns
    assert sum(span["name"].startswith("invoke_agent ") for span in spans) == len(turns)


def test_otlp_of_its_authors_reads_a_trace(tmp_path: Path) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")  # comes with it

    session_of("hello").convert("otel", tmp_path / "made.jsonl")
    for line in (tmp_path / "made.jsonl").read_text().splitlines():
        request = service.ExportTraceServiceRequest()
        json_format.Parse(line, request)  # which refuses unknown keys


def test_a_turn_has_its_responses_and_calls(tmp_path: Path) -> None:
    session = Session.create(
        metadata={"agent": "mine", "agentVersion": "3", "system": "Be brief."}, name="A look"
    )
    session.append_message({"role": "user", "content": ["look", IMAGE]})
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I look"},
        {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}},
    ]
    told = {"provider": "google", "model": "m", "usage": USAGE, "stopReason": "toolUse"}
    session.append_message({"role": "assistant", "content": content, **told})
    session.append_message(
        {"role": "toolResult", "toolCallId": "c1", "content": "no", "isError": True}
    )
    session.append_message({"role": "assistant", "content": "Nothing there.", **told})
    root, turn, first, second, call = converted(session, tmp_path / "made.jsonl")
    assert root["name"] == "session A look"
    assert about(root)["gen_ai.system_instructions"] == [{"type": "text", "content": "Be brief."}]
    assert about(root)["gen_ai.conversation.id"] == session.id
    assert turn["name"] == "invoke_agent mine"
    asked = [{"type": "text", "content": "look"}, {"type": "text", "content": "[image: image/gif]"}]
    assert about(turn)["gen_ai.input.messages"] == [{"role": "user", "parts": asked}]
    (answer,) = about(turn)["gen_ai.output.messages"]
    assert answer["parts"] == [{"type": "text", "content": "Nothing there."}]
    found = about(first)
    assert (first["name"], first["kind"]) == ("chat m", 3)
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == "gcp.gemini"
    assert found["gen_ai.request.model"] == "m"
    assert found["gen_ai.usage.input_tokens"] == 10
    assert found["gen_ai.usage.cost"] == 0.3
    assert found["gen_ai.response.finish_reasons"]["values"] == [{"stringValue": "toolUse"}]
    (said,) = found["gen_ai.output.messages"]
    assert [part["type"] for part in said["parts"]] == ["reasoning", "text", "tool_call"]
    (result,) = about(second)["gen_ai.input.messages"]
    assert result["parts"] == [{"type": "tool_call_response", "id": "c1", "response": "no"}]
    assert call["name"] == "execute_tool ls"
    assert call["status"]["code"] == 2
    assert about(call)["gen_ai.tool.call.arguments"] == {"path": "."}
    assert about(call)["gen_ai.tool.call.result"] == "no"
    assert {span["parentSpanId"] for span in (first, second, call)} == {turn["spanId"]}


def test_a_subagent_is_below_its_call(tmp_path: Path) -> None:
    inner = user("s1", None, isSidechain=True, agentId="one")
    file = with_subagent(tmp_path / "t" / "s.jsonl", inner)
    with Session.open(file, readonly=True) as session:
        spans = converted(session, tmp_path / "made.jsonl")
    (call,) = [span for span in spans if span["name"].startswith("execute_tool")]
    below = [span for span in spans if span.get("parentSpanId") == call["spanId"]]
    assert [about(span)["sessiontree.lane"] for span in below] == ["agent-one"]


def test_what_other_branches_and_summaries_spent_is_in_the_trace(tmp_path: Path) -> None:
    session = session_of("old")
    first = session.leaf
    session.append_message({"role": "assistant", "content": "one", "model": "m", "usage": USAGE})
    session.branch(first)
    session.append_message({"role": "assistant", "content": "two", "model": "m", "usage": USAGE})
    session.append_usage(USAGE, kind="title", provider="anthropic", model="small")
    spans = converted(session, tmp_path / "made.jsonl")
    assert sorted(s["name"] for s in spans if s["kind"] == 3) == ["chat m", "chat m", "chat small"]


def test_what_no_response_follows_is_in_the_trace(tmp_path: Path) -> None:
    session = session_of("one")
    session.append_message({"role": "assistant", "content": "two", "model": "m"})
    for text in ("three", "four"):
        meta = {"isMeta": True}
        session.append_message({"role": "user", "content": text}, metadata=meta)
    _, turn, _ = converted(session, tmp_path / "made.jsonl")
    said = [part["content"] for m in about(turn)["gen_ai.input.messages"] for part in m["parts"]]
    assert said == ["one", "three", "four"]


def test_all_that_was_said_is_in_the_trace(tmp_path: Path) -> None:
    for seed in range(amount(8)):
        session = Tree(Random(seed)).grow(24).session
        try:
            converted(session, tmp_path / f"{seed}.jsonl")
        except NothingToDoError:
            continue
        entries = [e for e in session.entries() if e.type == "message"]
        said = words_in([_shown(dict(e["message"])) for e in entries])
        assert said <= words_in((tmp_path / f"{seed}.jsonl").read_text())


def _shown(message: dict[str, Any]) -> Any:
    """What is said, without documents, which are replaced by their names."""
    content = message.get("content")
    if message.get("excludeFromContext") or not isinstance(content, list):
        return None if message.get("excludeFromContext") else content
    return [b for b in content if not isinstance(b, dict) or b.get("type") != "document"]


def test_a_trace_in_a_folder_of_sessions_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = session_of("one")
    made = session.convert("otel")
    assert made.file == f"{session.id}.otlp.json"
    listed = run("ls", tmp_path)
    assert "Left out" not in listed.stderr


def test_a_session_without_a_turn_makes_no_trace(tmp_path: Path) -> None:
    session = Session.create()
    session.append("custom", customType="x", data=1)
    with pytest.raises(NothingToDoError, match="a trace needs one"):
        session.convert("otel", tmp_path / "made.jsonl")
