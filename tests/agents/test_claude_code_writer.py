"""Sessions converted to Claude Code: claude-agent-sdk's reader and ours read them alike."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree import NothingToDoError, Session, UsageError
from sessiontree.operations.convert import ConversionResult
from tests.agents.conftest import CLAUDE_CODE, NO_CORPUS, SESSION, Told, conversation, texts_of
from tests.agents.conftest import sdk as sdk  # a fixture
from tests.agents.test_pi import PI_V1
from tests.support.pi_trees import PiShaped
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.transcripts import session_of
from tests.support.trees import Tree, words_in

Sdk = Callable[..., Told]

pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")


def words_of(messages: Any) -> list[list[str]]:
    """The words of each message that has any."""
    return [sorted(words) for message in messages if (words := words_in(message))]


def without_thinking(messages: Any) -> list[Any]:
    """The messages of a context: no settings, and no commands excluded from it."""
    told = [m for m in messages if m.get("role") != "system" and not m.get("excludeFromContext")]
    return [_thoughtless(message) for message in told]


def _thoughtless(message: Any) -> Any:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [b for b in content if not (isinstance(b, dict) and b.get("type") == "thinking")]
    return {**message, "content": kept}


def converted(session: Session, folder: Path) -> tuple[Path, ConversionResult]:
    """The transcript in a new folder of its own."""
    folder.mkdir()
    made = session.convert("claude-code", folder / f"{SESSION}.jsonl")
    return Path(made.file), made


@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
@pytest.mark.parametrize("source", CLAUDE_CODE, ids=lambda path: path.stem)
def test_a_converted_real_transcript_reads_the_same(source: Path, tmp_path: Path, sdk: Sdk) -> None:
    before = sdk(source)
    with Session.open(source, readonly=True) as session:
        file, made = converted(session, tmp_path / "made")
    assert sdk(file) == before == conversation(file)
    assert len(before) > 5
    assert made.warnings == []


@pytest.mark.skipif(not PI_V1.is_file(), reason=NO_CORPUS)
def test_a_real_session_of_pi_reads_the_same_when_converted(tmp_path: Path, sdk: Sdk) -> None:
    with Session.open(PI_V1, readonly=True) as session:
        file, _ = converted(session, tmp_path / "made")
        context = session.context(verbatim=True)
    told = sdk(file)
    texts = [text for _, content in told for text in texts_of(content)]
    said = [m["content"] for m in context.messages if m["role"] != "toolResult"]
    assert texts == [text for content in said for text in texts_of(content)]
    calls = sum(b.get("type") == "toolCall" for m in context.messages for b in _blocks(m))
    results = sum(m["role"] == "toolResult" for m in context.messages)
    blocks = [b for _, content in told if isinstance(content, list) for b in content]
    assert sum(b["type"] == "tool_use" for b in blocks) == calls > 10
    assert sum(b["type"] == "tool_result" for b in blocks) == results > 10


def _blocks(message: Any) -> list[Any]:
    return message["content"] if isinstance(message["content"], list) else []


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "size"), [(Tree, 24), (PiShaped, 30)])
@settings(deadline=None, max_examples=amount(40), suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64))
def test_the_conversation_is_the_context_in_any_shape(
    tmp_path_factory: Any, sdk: Sdk, shape: type[Tree | PiShaped], size: int, seed: int
) -> None:
    session = shape(Random(seed)).grow(size).session
    context = session.context(verbatim=True)
    folder = tmp_path_factory.mktemp("converted")
    try:
        file, _ = converted(session, folder / "one")
    except NothingToDoError:
        assert words_of(without_thinking(context.messages)) == []
        return
    told = sdk(file)
    assert conversation(file) == told
    said = [{"content": content} for _, content in told]
    assert words_of(without_thinking(said)) == words_of(without_thinking(context.messages))
    again, _ = converted(session, folder / "two")
    assert again.read_bytes() == file.read_bytes()


def test_claude_code_reads_the_leaf_even_with_children_below_it(tmp_path: Path, sdk: Sdk) -> None:
    session = session_of("one")
    first = session.leaf
    session.append_message({"role": "assistant", "content": "two"})
    session.branch(first)
    file, _ = converted(session, tmp_path / "made")
    assert sdk(file) == conversation(file) == [("user", "one")]
    assert b"two" in file.read_bytes()


def test_results_on_another_branch_stay_out_of_the_conversation(tmp_path: Path, sdk: Sdk) -> None:
    session = session_of("do it")
    calls: list[Any] = [{"type": "tool_use", "id": i, "name": "ls", "input": {}} for i in "ab"]
    called = session.append_message({"role": "assistant", "id": "msg_1", "content": calls})
    results = [{"type": "tool_result", "tool_use_id": "a", "content": "tried"}]
    session.append_message({"role": "user", "content": results})
    session.branch(called)
    session.append_message({"role": "user", "content": "never mind"})
    file, made = converted(session, tmp_path / "made")
    expected = [("user", "do it"), ("assistant", calls), ("user", "never mind")]
    assert sdk(file) == conversation(file) == expected
    assert any("the id of a response" in loss.what for loss in made.losses)


def test_a_compaction_becomes_a_mark_and_messages_before_it_stay(tmp_path: Path, sdk: Sdk) -> None:
    session = session_of("old", "kept")
    kept = session.leaf
    session.compact("The summary", first_kept=kept)
    session.append_message({"role": "user", "content": "new"})
    file, _ = converted(session, tmp_path / "made")
    assert sdk(file) == conversation(file) == [("user", t) for t in ("The summary", "kept", "new")]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    (mark,) = [line for line in lines if line.get("subtype") == "compact_boundary"]
    (summary,) = [line for line in lines if line.get("isCompactSummary")]
    assert mark["parentUuid"] is None
    assert mark["logicalParentUuid"] == kept.uuid
    assert summary["parentUuid"] == mark["uuid"]
    assert {line["sessionId"] for line in lines} == {session.id}
    assert len({line["uuid"] for line in lines}) == len(lines)
    assert any(line.get("message", {}).get("content") == "old" for line in lines)


def test_the_mark_of_a_merged_compaction_names_what_it_replaced(tmp_path: Path) -> None:
    session = session_of("old", "kept")
    kept = session.leaf
    merged = session.compact("The summary", first_kept=kept)
    session.branch(session.header)
    session.merge(merged)
    file, _ = converted(session, tmp_path / "made")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    (mark,) = [line for line in lines if line.get("subtype") == "compact_boundary"]
    assert mark["logicalParentUuid"] == kept.uuid


def test_lanes_are_written_as_subagents(tmp_path: Path, sdk: Sdk) -> None:
    session = Session.create(name="A name")
    session.append_message({"role": "user", "content": "shared"})
    with session.lane("re/viewer") as lane:
        lane.append_message({"role": "user", "content": "review"})
        lane.append_message({"role": "assistant", "content": "well"})
    with session.scratch() as lane:
        lane.append_message({"role": "user", "content": "tried"})
    session.append_message({"role": "user", "content": "on"})
    file, made = converted(session, tmp_path / "made")
    assert [Path(f).name for f in made.beside] == ["agent-re-viewer.jsonl"]
    well = [{"type": "text", "text": "well"}]
    agents = [("user", "shared"), ("user", "review"), ("assistant", well)]
    assert sdk(file) == conversation(file) == [("user", "shared"), ("user", "on")]
    assert sdk(file, "re-viewer") == conversation(file, "agent-re-viewer") == agents
    assert any("scratch" in loss.what for loss in made.losses)
    listed = importlib.import_module("claude_agent_sdk").get_session_info(SESSION)
    assert (listed.custom_title, listed.first_prompt) == ("A name", "shared")
    with Session.open(file, readonly=True) as back:
        assert back.name == "A name"
        assert back.damage == []


def test_what_claude_code_cannot_express_is_among_the_losses(tmp_path: Path) -> None:
    session = Session.create(metadata={"system": "S"})
    first = session.append_message({"role": "user", "content": "a"})
    session.label(first, "mark")
    session.append("x-next-year", value=1)
    session.push()
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": ""}
    said = {"type": "text", "text": "b"}
    session.append_message({"role": "assistant", "content": [thought, said], "api": "x"})
    session.append_message({"role": "system", "content": "S2"})
    session.append_message({"role": "user", "content": "c"}, metadata={"toolResults": ["x.txt"]})
    named = [str(loss) for loss in converted(session, tmp_path / "made")[1].losses]
    wanted = ("label", "x-next-year", "stack_push", "without a signature", "system message")
    for what in (*wanted, "stored in tool-results/"):
        assert any(what in each for each in named), what


def test_pis_own_message_keys_are_not_written_for_claude_code(tmp_path: Path) -> None:
    session = Session.create()
    session.append_message({"role": "user", "content": "a", "timestamp": 1759312800000})
    usage = {"input": 1, "output": 2}
    told = {"timestamp": 1759312801000, "provider": "", "model": "m", "usage": usage}
    session.append_message({"role": "assistant", "content": "b", **told})
    file = Path(session.convert("claude-code", tmp_path / "made.jsonl").file)
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    user, answer = (line["message"] for line in lines if "message" in line)
    assert user == {"role": "user", "content": "a"}
    assert not answer.keys() & {"timestamp", "provider"}
    assert answer["model"] == "m"


@for_each("file", [b"abc", 5])
def test_the_path_of_a_conversion_must_be_text(file: Any) -> None:
    session = session_of("a")
    with pytest.raises(UsageError, match="must be a string or a Path"):
        session.convert("pi", file)


def test_a_message_of_the_model_has_the_keys_of_claude_code(tmp_path: Path) -> None:
    session = session_of("one")
    session.append_message({"role": "assistant", "content": "two", "id": "m1"})
    file, _ = converted(session, tmp_path / "made")
    *_, line = map(json.loads, file.read_text().splitlines())
    assert line["message"].pop("usage")
    assert line["message"] == {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "model": "unknown",
        "content": [{"type": "text", "text": "two"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }
