"""A session converted to a trajectory: valid, complete, and each result with its call."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree import NothingToDoError, Session
from sessiontree.operations.convert import ConversionResult
from tests.agents.conftest import CLAUDE_CODE, NO_CORPUS
from tests.agents.test_pi import PI_V1
from tests.support.atif import check_trajectory
from tests.support.pi_trees import USAGE, PiShaped
from tests.support.saying import IMAGE
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.transcripts import session_of, user, with_subagent
from tests.support.trees import Tree, words_in

MODELS: Any
try:  # it needs a younger Python than the oldest one that is supported
    MODELS = importlib.import_module("harbor.models.trajectories")
except ImportError:
    MODELS = None

SEEDS = st.integers(0, 2**64)
pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")


def converted(session: Session, file: Path) -> tuple[dict[str, Any], ConversionResult]:
    """The trajectory, checked, also by its authors' models if they are installed."""
    made = session.convert("atif", file)
    found: dict[str, Any] = json.loads(file.read_bytes())
    check_trajectory(found, file.parent)
    if MODELS is not None:
        MODELS.Trajectory.model_validate(found)
    return found, made


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(40))
@example(2968, Tree)
@example(11_623_578_454_562, Tree)
@given(SEEDS, st.sampled_from([Tree, PiShaped]))
def test_any_session_is_a_valid_trajectory(
    tmp_path_factory: Any, seed: int, shape: type[Tree | PiShaped]
) -> None:
    session = shape(Random(seed)).grow(24).session
    folder = tmp_path_factory.mktemp("atif")
    try:
        found, _ = converted(session, folder / "one.json")
    except NothingToDoError:
        assert words_in(session.context(verbatim=True).messages) == set()
        return
    session.convert("atif", folder / "two.json")
    one, two = ((folder / name).read_text() for name in ("one.json", "two.json"))
    assert one.replace("one.images", "two.images") == two
    said = [m for m in session.context(verbatim=True).messages if not m.get("excludeFromContext")]
    shown = [{**message, "content": _shown(message)} for message in said]
    assert words_in(shown) <= words_in(found["steps"]) | _edited(session)


def _edited(session: Session) -> set[str]:
    """The words of the streamed messages that an edit replaces or drops.

    A compaction that keeps only the tail of such a message keeps the tail without the edit,
    which names the first block. A trajectory has the whole message, edited.
    """
    path = session.path()
    targets = {entry.body["targetUuid"] for entry in path if entry.type == "context_edit"}
    blocks = [entry for entry in path if entry.type == "block"]
    edited = {block.body["messageUuid"] for block in blocks if block.uuid in targets}
    return words_in([block.body for block in blocks if block.body["messageUuid"] in edited])


def _shown(message: Any) -> Any:
    """The content without the documents, which are replaced by their names."""
    content = message.get("content")
    if not isinstance(content, list):
        return content
    return [b for b in content if not isinstance(b, dict) or b.get("type") != "document"]


@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
@for_each("source", [PI_V1, *CLAUDE_CODE])
def test_real_sessions_are_valid_trajectories(source: Path, tmp_path: Path) -> None:
    with Session.open(source, readonly=True) as session:
        found, made = converted(session, tmp_path / "made.json")
        usage = session.stats().usage
    totals = found["final_metrics"]
    prompt = usage.input + usage.cache_read + usage.cache_write
    given = totals["total_completion_tokens"], totals["total_prompt_tokens"]
    if b'"type":"progress"' in source.read_bytes():  # what a subagent spent is of no step
        assert given <= (usage.output, prompt)
    else:
        assert given == (usage.output, prompt)
    assert len(found["steps"]) > 2
    assert made.warnings == []


def test_a_call_and_its_result_are_in_one_step(tmp_path: Path) -> None:
    session = Session.create(metadata={"agent": "mine", "agentVersion": "3", "system": "Be brief."})
    session.append_message({"role": "user", "content": "look"})
    session.set_thinking_level("high")
    content = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
        {"type": "text", "text": "I look"},
        {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}},
        {"type": "toolCall", "id": "c2", "name": "cat", "arguments": {"path": "x"}},
    ]
    told = {"provider": "p", "model": "m", "usage": USAGE}
    session.append_message({"role": "assistant", "content": content, **told})
    shown = [{"type": "text", "text": "an image"}, IMAGE]
    session.append_message({"role": "toolResult", "toolCallId": "c2", "content": shown})
    failed = {"role": "toolResult", "toolCallId": "c1", "content": "no", "isError": True}
    session.append_message(failed)
    found, made = converted(session, tmp_path / "made.json")
    assert found["agent"] == {"name": "mine", "version": "3", "model_name": "m"}
    system, prompt, answer = found["steps"]
    assert (system["source"], system["message"]) == ("system", "Be brief.")
    assert (prompt["source"], prompt["message"]) == ("user", "look")
    assert (answer["message"], answer["reasoning_content"]) == ("I look", "hm")
    assert (answer["model_name"], answer["reasoning_effort"]) == ("m", "high")
    assert [call["function_name"] for call in answer["tool_calls"]] == ["ls", "cat"]
    cat, ls = answer["observation"]["results"]
    assert (ls["source_call_id"], ls["content"]) == ("c1", "no")
    assert ls["extra"]["isError"] is True
    assert cat["content"][1]["source"]["path"].startswith("made.images/")
    assert answer["metrics"]["prompt_tokens"] == 10
    assert found["final_metrics"] == {
        "total_steps": 3,
        "total_prompt_tokens": 10,
        "total_completion_tokens": 3,
        "total_cached_tokens": 2,
        "total_cost_usd": 0.3,
    }
    assert len(made.beside) == 1
    assert "the signature of a thought is left out" in [loss.what for loss in made.losses]


@for_each("key", ["summary", "content"])
def test_codex_reasoning_is_the_reasoning_of_a_step(tmp_path: Path, key: str) -> None:
    session = Session.create()
    thought = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]
    item = {"type": "reasoning", "summary": [], key: thought, "encrypted_content": "x"}
    session.append("message", message=item)
    found, made = converted(session, tmp_path / "made.json")
    assert found["steps"][0]["reasoning_content"] == "one\n\ntwo"
    assert [loss.what for loss in made.losses] == ["the signature of a thought is left out"]


def test_a_trajectory_has_compacted_messages_and_other_branches_are_losses(tmp_path: Path) -> None:
    session = session_of("old")
    first = session.leaf
    session.append_message({"role": "user", "content": "elsewhere"})
    session.branch(first, summary="It failed")
    session.compact("The summary", first_kept=session.leaf)
    session.append_message({"role": "user", "content": "new"})
    found, made = converted(session, tmp_path / "made.json")
    said = [step["message"] for step in found["steps"]]
    assert said == ["old", "It failed", "The summary", "new"]
    assert [step["source"] for step in found["steps"]] == ["user", "system", "system", "user"]
    assert found["steps"][2]["extra"]["context_management"]["type"] == "compaction"
    assert [loss.what for loss in made.losses] == ["a message on another branch is left out"]


def test_the_parts_of_a_response_are_one_step_with_the_usage_of_the_last(tmp_path: Path) -> None:
    session = Session.create()
    for text, output in (("one", 1), ("two", 8)):
        block = {"type": "text", "text": text}
        usage = {"input_tokens": 5, "output_tokens": output}
        message = {"role": "assistant", "id": "msg_1", "model": "m", "usage": usage}
        session.append_message({**message, "content": [block]})
    found, _ = converted(session, tmp_path / "made.json")
    (step,) = found["steps"]
    assert step["message"] == "one\ntwo"
    assert found["final_metrics"]["total_completion_tokens"] == 8


def test_a_lane_is_a_subagent_whose_shared_steps_are_marked(tmp_path: Path) -> None:
    session = session_of("shared")
    with session.lane("reviewer") as lane:
        lane.append_message({"role": "assistant", "content": "well", "usage": USAGE})
    session.append_message({"role": "user", "content": "on"})
    found, _ = converted(session, tmp_path / "made.json")
    assert [step["message"] for step in found["steps"]] == ["shared", "on"]
    (lane_,) = found["subagent_trajectories"]
    assert lane_["trajectory_id"] == "reviewer"
    copied = [(step["message"], step.get("is_copied_context", False)) for step in lane_["steps"]]
    assert copied == [("shared", True), ("well", False)]
    assert found["final_metrics"]["total_cost_usd"] == 0.3


def test_a_subagents_trajectory_is_named_by_its_call(tmp_path: Path) -> None:
    inner = user("s1", None, isSidechain=True, agentId="one")
    file = with_subagent(tmp_path / "t" / "s.jsonl", inner)
    with Session.open(file, readonly=True) as session:
        found, _ = converted(session, tmp_path / "made.json")
    (given_,) = found["steps"][1]["observation"]["results"]
    assert given_["subagent_trajectory_ref"] == [{"trajectory_id": "agent-one"}]
    assert given_["content"] == "out of t"
    assert found["subagent_trajectories"][0]["steps"][0]["message"] == "say s1"


def test_a_usage_without_tokens_is_no_metrics(tmp_path: Path) -> None:
    session = Session.create()
    session.append_message({"role": "assistant", "content": "a", "usage": {"input": 0}})
    found, _ = converted(session, tmp_path / "made.json")
    assert "metrics" not in found["steps"][0]


def test_an_entry_that_is_neither_said_nor_a_setting_is_a_loss(tmp_path: Path) -> None:
    session = Session.create()
    session.append_message({"role": "user", "content": "a"})
    session.append("x-next-year", value=1)
    session.append("model_change", provider="p", modelId="m")
    _, made = converted(session, tmp_path / "made.json")
    lost = [loss.what for loss in made.losses]
    assert "a x-next-year is left out" in lost
    assert not any("model_change" in what for what in lost)
