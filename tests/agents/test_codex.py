"""Codex rollouts: the history that Codex itself would continue."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, import_session
from sessiontree.agents import recognise
from sessiontree.agents.codex.items import ABOUT
from sessiontree.core import limits
from sessiontree.core.message import begins_turn
from sessiontree.errors import DecoderMissingError, TooMuchError
from sessiontree.library.listing import facts_of
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.text.pattern import Pattern
from tests.support import transcripts
from tests.support.table import for_each

Line = dict[str, Any]

META: Line = {"id": "s-1", "cwd": "/project", "cli_version": "0.9", "model_provider": "openai"}
META |= {"timestamp": "2026-01-01T00:00:00Z", "base_instructions": {"text": "Be terse."}}


def line(type: str, /, **payload: Any) -> Line:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": type, "payload": payload}


def said(role: str, text: str) -> Line:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return line("response_item", type="message", role=role, content=content)


def call(id: str) -> Line:
    return line("response_item", type="function_call", name="ls", arguments="{}", call_id=id)


def output(id: str) -> Line:
    return line("response_item", type="function_call_output", call_id=id, output="out")


def rolled_back(turns: int) -> Line:
    return line("event_msg", type="thread_rolled_back", num_turns=turns)


def written(path: Path, *lines: Line) -> Path:
    return transcripts.written(path, [line("session_meta", **META), *lines])


def opened(folder: Path, *lines: Line) -> Session:
    return Session.open(written(folder / "r.jsonl", *lines), readonly=True)


def texts(session: Session) -> list[str]:
    """The text of each message of the context; the type of an item without content."""
    items = session.context().messages
    return [item["content"][0]["text"] if "content" in item else item["type"] for item in items]


def test_a_rollout_becomes_a_conversation(tmp_path: Path) -> None:
    lines = [
        said("developer", "rules"),
        said("user", "<environment_context>"),
        line("turn_context", model="gpt-5", effort="high", cwd="/project"),
        line("event_msg", type="user_message", message="list"),
        said("user", "list"),
        line("response_item", type="reasoning", summary=[], encrypted_content="x"),
        call("c1"),
        line("event_msg", type="token_count", info={"total_token_usage": {"t": 1}}),
        output("c1"),
        line("event_msg", type="agent_message", message="done"),
        said("assistant", "done"),
        line("response_item", type="ghost_snapshot", ghost_commit="x"),
    ]
    with opened(tmp_path, *lines) as session:
        assert (session.id, session.header["cwd"]) == ("s-1", "/project")
        assert session.metadata["agentSessionId"] == "s-1"
        items = ["reasoning", "function_call", "function_call_output"]
        assert texts(session) == ["rules", "<environment_context>", "list", *items, "done"]
        context = session.context()
        assert context.warnings == []
        assert context.model == {"provider": "openai", "modelId": "gpt-5"}
        assert context.thinking_level == "high"
        assert context.system == "Be terse."
        assert session.verify() == []
        kinds = {entry["customType"] for entry in session.find(type="custom")}
        assert kinds == {"codex:turn_context", "codex:event_msg", "codex:response_item"}


@for_each(
    ("turns", "left"),
    [(1, ["ctx", "one", "1"]), (2, ["ctx"]), (9, ["ctx"]), (0, ["ctx", "one", "1", "two", "2"])],
)
def test_a_rollback_removes_the_last_turns(tmp_path: Path, turns: int, left: list[str]) -> None:
    lines = [said("user", "<user_instructions>"), line("turn_context", model="m")]
    lines += [said("user", "one"), said("assistant", "1")]
    lines += [said("user", "two"), said("assistant", "2")]
    lines += [rolled_back(turns), said("user", "new")]
    with opened(tmp_path, *lines) as session:
        told = ["ctx" if text == "<user_instructions>" else text for text in texts(session)]
        assert told == [*left, "new"]
        assert session.context().model == {"provider": "openai", "modelId": "m"}


def test_a_second_rollback_starts_above_the_first(tmp_path: Path) -> None:
    back = rolled_back(1)
    turns = [said("user", "one"), said("user", "two"), back, said("user", "three"), back, back]
    with opened(tmp_path, *turns, said("user", "four")) as session:
        assert texts(session) == ["four"]
        assert len(session.branches()) == 3


def test_a_compaction_replaces_the_history(tmp_path: Path) -> None:
    items = [said("user", "kept")["payload"], said("user", "SUMMARY of it")["payload"]]
    lines = [said("user", "one"), line("compacted", message="of it", replacement_history=items)]
    lines += [said("user", "after"), rolled_back(1)]
    with opened(tmp_path, *lines) as session:
        assert texts(session) == ["kept", "SUMMARY of it"]
        assert session.verify() == []


def test_what_the_program_wrote_is_no_prompt_in_a_history_that_replaces(tmp_path: Path) -> None:
    told = ("user", "<user_instructions>"), ("user", "kept"), ("assistant", "1")
    items = [said(role, text)["payload"] for role, text in told]
    lines = [said("user", "one"), line("compacted", message="of it", replacement_history=items)]
    with opened(tmp_path, *lines) as session:
        above = [entry for entry in session.path() if entry.type == "message"][-3:]
        assert ["isMeta" in entry["metadata"] for entry in above] == [True, False, False]


def test_an_old_compaction_keeps_the_prompts_and_ends_with_the_summary(tmp_path: Path) -> None:
    lines = [said("user", "one"), said("assistant", "1"), said("user", "two")]
    lines += [line("compacted", message="It was so."), said("user", "after")]
    with opened(tmp_path, *lines) as session:
        assert texts(session) == ["one", "two", "It was so.", "after"]


def test_the_first_session_meta_of_a_fork_gives_the_id(tmp_path: Path) -> None:
    with opened(tmp_path, line("session_meta", id="other"), said("user", "x")) as session:
        assert session.id == "s-1"
        assert [e["data"]["payload"]["id"] for e in session.find(type="custom")] == ["other"]


def test_a_long_first_line_is_recognised_by_its_start(tmp_path: Path) -> None:
    meta = {**META, "base_instructions": {"text": "x" * 300_000}}
    head = json.dumps(line("session_meta", **meta)).encode()[:65536]
    found = recognise(head)
    assert found is not None
    assert found.name == "codex"
    facts = found.reader.facts(head, b"")
    assert (facts.id, facts.cwd) == ("s-1", "/project")


zstandard = pytest.importorskip("zstandard", reason="the package zstandard is not installed")


def _compressed(folder: Path, *lines: Line) -> Path:
    content = written(folder / "r.jsonl", *lines).read_bytes()
    half = len(content) // 2
    frames = [content[:half], content[half:]]  # as a writer that appends leaves it
    path = folder / "r.jsonl.zst"
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(frame) for frame in frames))
    return path


def test_a_compressed_rollout_reads_as_the_plain_one(tmp_path: Path) -> None:
    lines = [said("user", f"{n} " * 999) for n in range(200)]
    packed = _compressed(tmp_path, *lines)
    with opened(tmp_path, *lines) as one, Session.open(packed, readonly=True) as other:
        assert [e.line for e in one.entries()] == [e.line for e in other.entries()]
        for entry in (other.leaf, *list(other.entries())[1:9]):
            assert other.original(entry) == one.original(entry.uuid)


@for_each("cut", [1, 2, 5])
def test_a_cut_compressed_rollout_gives_the_lines_before_the_cut(tmp_path: Path, cut: int) -> None:
    packed = _compressed(tmp_path, *(said("user", f"{n} " * 999) for n in range(2000)))
    content = packed.read_bytes()
    packed.write_bytes(content[: len(content) * cut // 6 + 1])
    with Session.open(packed, readonly=True) as session:
        kinds = {(found.kind, found.file) for found in session.damage}
        assert ("cut short", str(packed)) in kinds
        assert any("ends early" in found.cause for found in session.damage)
        if cut > 2:
            assert len(texts(session)) > 900


def test_a_damaged_compressed_rollout_gives_the_lines_before_the_damage(tmp_path: Path) -> None:
    packed = _compressed(tmp_path, *(said("user", f"{n} " * 99) for n in range(99)))
    packed.write_bytes(packed.read_bytes() + b"garbage")
    with Session.open(packed, readonly=True) as session:
        assert len(texts(session)) == 99
        assert "damaged" in session.damage[0].cause


def test_without_a_zstd_decoder_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = _compressed(tmp_path, said("user", "x"))
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DecoderMissingError, match=r"pip install 'sessiontree\[zstd\]'") as caught:
        Session.open(packed, readonly=True)
    assert caught.value.file == str(packed)


def test_a_search_skips_an_event_that_repeats_a_message(tmp_path: Path) -> None:
    needle = {"message": "a needle"}
    events = [line("event_msg", type=kind, **needle) for kind in ("user_message", "error")]
    file = written(tmp_path / "rollout-1.jsonl", said("user", "a needle"), *events)
    done = import_session(file, tmp_path / "out")
    for each in (str(file), done.file):
        found = search(Pattern("needle"), [each], SearchFilter(), pytest.fail)
        assert [hit.type for hit in found] == ["message", "custom"]


def test_compactions_that_repeat_prompts_too_often_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [said("user", "go"), line("compacted", message="s")] * 3
    assert texts(opened(tmp_path, *lines))[-1] == "s"
    few = limits.REPEATED_PROMPTS._replace(most=2)
    monkeypatch.setattr(limits, "REPEATED_PROMPTS", few)
    with pytest.raises(TooMuchError, match=r"line 5: .* repeat prompts more than 2 times"):
        opened(tmp_path, *lines)


def test_a_file_of_lines_that_hold_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SHORT_TEXTS", limits.SHORT_TEXTS._replace(most=3))
    file = written(tmp_path / "s.jsonl", said("user", "go"))
    file.write_text(file.read_text() + "{\n" * 3)
    assert len(Session.open(file, readonly=True).damage) == 3
    file.write_text(file.read_text() + "{\n")
    with pytest.raises(TooMuchError, match="more than 3 lines of less than 100 bytes"):
        Session.open(file, readonly=True)


def about(text: str, kinds: list[str], *origins: str) -> Line:
    told = {"content_item_kinds": kinds}
    parts = [{"provenance": {"type": origin}} for origin in origins]
    item = said("user", text)
    item["payload"][ABOUT] = {**told, **({"content_item_metadata": parts} if parts else {})}
    return item


@for_each(
    ("item", "is_prompt"),
    [
        (about("<skill> is what I asked", ["user.text"]), True),
        (about("look", ["user.image", "unknown"]), True),
        (about("go on", ["goal.internal_context"]), False),
        (about("so far", ["compaction.summary"], "user"), False),
        (about("hooked", ["unknown"], "harness"), False),
        (about("typed", ["unknown"], "harness", "user"), True),
        (about("typed", ["unknown"]), True),
        (said("user", '<codex_internal_context source="goal">x'), False),
        (said("user", "Another language model started to solve this problem and …"), False),
    ],
)
def test_a_text_of_the_harness_is_no_prompt(tmp_path: Path, item: Line, is_prompt: bool) -> None:
    with opened(tmp_path, item) as session:
        (entry,) = session.find(type="message")
        assert begins_turn(entry.as_stored) is is_prompt
        assert (facts_of(str(session.file)).first_message is not None) is is_prompt


def test_an_output_that_answers_no_call_is_kept(tmp_path: Path) -> None:
    named = {"name": "goal_objective", "namespace": "agent", "output": "the goal"}
    goal = line("response_item", type="function_call_output", **named)
    with opened(tmp_path, said("user", "go"), goal, call("c1"), output("c1")) as session:
        context = session.context()
        assert context.warnings == []
        assert context.messages[1] == goal["payload"]
        for request in (context.to_openai(), context.to_anthropic()):
            assert "the goal" in json.dumps(request.params)


def test_a_line_of_a_known_side_type_is_no_finding(tmp_path: Path) -> None:
    kinds = ["token_usage_record", "dynamic_tools_updated", "security_risk_score", "realtime_item"]
    kinds += ["inter_agent_communication_metadata", "world_state"]
    with opened(tmp_path, *(line(kind, x=1) for kind in kinds)) as session:
        assert session.verify() == []
        kept = [entry["customType"] for entry in session.find(type="custom")]
        assert kept == [f"codex:{kind}" for kind in kinds]
