"""Sessions converted to pi: pi's own reader and ours build the same context from them.

The comparison with pi needs Node and the package, as that in `tests.agents.test_pi` does.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Context, Session
from sessiontree.agents.pi.writer import OWN, PiIds
from sessiontree.errors import ResolveError
from sessiontree.handles.registry import Registry
from tests.agents.conftest import CLAUDE_CODE, NO_CORPUS, texts_of
from tests.agents.test_pi import PI, PI_V1, has_pi, told_by_pi
from tests.support.pi_trees import PiShaped
from tests.support.plugins import Plugin
from tests.support.saying import IMAGE, PIXEL, user
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.trees import Tree, words_in

Message = dict[str, Any]

SEEDS = st.integers(0, 2**64)
pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")


def knows_edits() -> bool:
    """Whether this version of pi has edits and system messages."""
    return "context_edit" in (Path(PI) / "dist" / "core" / "session-manager.js").read_text()


def expected(context: Context) -> list[Message]:
    """The messages of a context in pi's shape, without the keys that pi adds."""
    told = [m for m in context.messages if m.get("role") != "system"]
    return [_expected(message, at=place) for place, message in enumerate(told)]


def _expected(message: Any, at: int) -> Message:
    role = message["role"]
    if role in ("branchSummary", "compactionSummary"):  # a merged one is of a branch
        return {"role": "branchSummary" if at else role, "summary": message["summary"]}
    content = message.get("content")
    if message["role"] in ("assistant", "toolResult") and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    kept = {key: value for key, value in message.items() if key != "partial"}
    return kept if content is None else {**kept, "content": content}


def assert_says(found: list[Message], wanted: list[Message]) -> None:
    """Assert that the messages have all wanted keys; pi may add others (a time, a usage, …)."""
    told = [message for message in found if message["role"] != "system"]
    assert len(told) == len(wanted)
    pairs = zip(told, wanted, strict=True)
    assert [{key: have.get(key) for key in want} for have, want in pairs] == wanted


def system_of(found: list[Message]) -> str | None:
    """The system text as pi renders it: the last section of each name."""
    sections: dict[str, str] = {}
    for message in found:
        if message["role"] == "system":
            sections.update(message.get("sections", {}))
    return "\n\n".join(text for text in sections.values() if text) or None


def assert_words(found: list[Any], wanted: list[Any]) -> None:
    """Assert the same words in the same order; pi may split one message into several."""
    told = [word for m in found if m.get("role") != "system" for word in sorted(words_in(m))]
    for message in (m for m in wanted if m.get("role") != "system"):
        words = sorted(words_in(message))
        assert sorted(told[: len(words)]) == words
        told = told[len(words) :]
    assert told == []


@has_pi
def test_pi_builds_the_same_context_from_any_converted_session(tmp_path: Path) -> None:
    grown = [PiShaped(Random(seed)).grow(30).session for seed in range(150)]
    files = [tmp_path / f"{number}.jsonl" for number in range(len(grown))]
    for session, file in zip(grown, files, strict=True):
        session.convert("pi", file)
    for session, found in zip(grown, told_by_pi("pi_session", files), strict=True):
        if not knows_edits() and session.find(type="context_edit"):
            continue
        context = session.context(verbatim=True)
        assert_says(found["context"]["messages"], expected(context))
        assert found["context"]["thinkingLevel"] == (context.thinking_level or "off")
        assert (found["name"], found["id"]) == (session.name, session.id)
        assert set(found["labels"]) == set(session.reader.names().labels.values())
        if knows_edits():
            assert system_of(found["context"]["messages"]) == (context.system or None)
        if context.model and context.model["provider"]:
            assert found["context"]["model"] == context.model


@has_pi
def test_pi_gets_every_word_of_messages_in_any_providers_shape(tmp_path: Path) -> None:
    grown = [Tree(Random(seed)).grow(24).session for seed in range(150)]
    files = [tmp_path / f"{number}.jsonl" for number in range(len(grown))]
    losses = [s.convert("pi", f).losses for s, f in zip(grown, files, strict=True)]
    compared = 0
    for session, lost, found in zip(grown, losses, told_by_pi("pi_session", files), strict=True):
        if not knows_edits() and session.find(type="context_edit"):
            continue
        what = " ".join(loss.what for loss in lost)
        if "an edit of a" in what or "keeps the whole message" in what:
            continue  # the loss is named
        compared += 1
        ours = session.context(verbatim=True).messages
        assert_words(found["context"]["messages"], ours)
    assert compared > 30


@has_pi
@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
def test_pi_opens_real_sessions_of_other_agents(tmp_path: Path) -> None:
    sources = [PI_V1, *CLAUDE_CODE]
    files = [tmp_path / source.name for source in sources]
    contexts = []
    for source, file in zip(sources, files, strict=True):
        with Session.open(source, readonly=True) as session:
            session.convert("pi", file)
            contexts.append(session.context(verbatim=True))
    built = told_by_pi("pi_session", files)
    assert_says(built[0]["context"]["messages"], expected(contexts[0]))
    for context, found in zip(contexts, built, strict=True):
        told = [m for m in found["context"]["messages"] if m["role"] != "system"]
        texts = [t for m in told for t in _texts(m)]
        assert texts == [t for m in context.messages for t in _texts(m)]
        assert len(texts) > 2


def _texts(message: Any) -> list[str]:
    return texts_of(message.get("content")) if message["role"] in ("user", "assistant") else []


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(40))
@given(SEEDS)
def test_a_session_converted_to_pi_gives_the_same_context(tmp_path_factory: Any, seed: int) -> None:
    session = PiShaped(Random(seed)).grow(25).session
    file = tmp_path_factory.mktemp("pi") / "s.jsonl"
    session.convert("pi", file)
    with Session.open(file, readonly=True) as back:
        before, after = session.context(verbatim=True), back.context(verbatim=True)
        assert_says(expected(after), expected(before))
        assert after.system == before.system
        assert after.thinking_level == before.thinking_level
        assert back.name == session.name
        assert back.damage == []


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(25))
@given(SEEDS)
def test_each_branch_converted_to_pi_has_the_same_context(tmp_path_factory: Any, seed: int) -> None:
    session = PiShaped(Random(seed)).grow(25).session
    file = tmp_path_factory.mktemp("pi") / "s.jsonl"
    session.convert("pi", file)
    with Session.open(file, readonly=True) as back:
        for branch in session.branches():
            kinds = {entry.type for entry in session.path(branch.leaf)}
            if kinds.isdisjoint({"block", "message_end"}) and branch.leaf[:8] in _ids(back):
                before = expected(session.context(branch.leaf, verbatim=True))
                assert_says(expected(back.context(branch.leaf[:8], verbatim=True)), before)


def _ids(session: Session) -> set[str]:
    """The entries that become one line, so that its id is the start of their uuid."""
    return {entry.uuid for entry in session.entries() if entry.get("customType") != OWN + "merge"}


def test_the_same_session_gives_the_same_bytes(tmp_path: Path) -> None:
    session = PiShaped(Random(3)).grow(60).session
    for name in ("one", "two"):
        session.convert("pi", tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two


def test_pi_ids_start_the_uuid_and_are_unique() -> None:
    uuid = "1bde50fb-2508-46e1-9c31-cb1aad14ee24"
    ids = PiIds()
    given = [ids.new(each) for each in (uuid, uuid, "1bde50fb-other", "\ud800é")]
    assert given[0] == "1bde50fb"
    assert len(set(given)) == 4
    assert all(re.fullmatch("[0-9a-f]{8}", id) for id in given)


def test_what_pi_cannot_express_is_among_the_losses(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd="/p") as session:
        first = session.append_message({"role": "user", "content": "a"})
        session.append("x-next-year", value=1)
        session.push("here")
        session.branch(first, summary="left")
        told = session.leaf
        session.edit_context(told, "otherwise")
        with session.lane("reviewer") as lane:
            lane.append_message({"role": "user", "content": "b"})
            lane.append_message({"role": "user", "content": "c"})
        session.refresh()
        made = session.convert("pi", tmp_path / "pi.jsonl")
    named = {loss.what: loss for loss in made.losses}
    lane_named = named["the lane 'reviewer': pi has no lanes, so its entries are a branch"]
    assert lane_named.count == 2
    assert any("x-next-year" in what for what in named)
    assert any("stack_push" in what for what in named)
    assert any("an edit of a branch_summary" in what for what in named)
    assert made.warnings == []
    assert (made.to, made.beside) == ("pi", [])


def test_blobs_are_written_inline_and_a_missing_one_is_a_warning(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", spill_over=0) as session:
        session.append_message({"role": "user", "content": [IMAGE]})
        session.append_message({"role": "user", "content": "lost"})
        kept = session.convert("pi", tmp_path / "whole.jsonl")
        assert kept.warnings == []
        assert PIXEL in (tmp_path / "whole.jsonl").read_text()
        for blob in (tmp_path / "s.jsonl.blobs").iterdir():
            if blob.read_bytes() == b"lost":
                blob.unlink()
        lost = session.convert("pi", tmp_path / "lost.jsonl")
    assert len(lost.warnings) == 1
    assert "missing" in lost.warnings[0]
    assert "[missing: blob" in (tmp_path / "lost.jsonl").read_text()


def test_a_handle_that_cannot_be_resolved_is_asked_for_once(tmp_path: Path) -> None:
    def fails(handle: Any, scope: Any) -> Any:
        raise ResolveError("gone", "p")

    plugin = Plugin("p", resolve=fails)
    with Session.create(registry=Registry([plugin])) as session:
        session.append_message(user("q"))
        session.append("handle", handle="p@1.0.0::a:1", kind="message")
        at = session.leaf
        for words in ("one", "two"):
            session.branch(at)
            session.append_message(user(words))
        plugin.asked.clear()
        session.convert("claude-code", tmp_path / "new.jsonl")
    assert len(plugin.asked) == 1


def test_usage_of_another_shape_has_each_key_of_pi(tmp_path: Path) -> None:
    used = {"input_tokens": 3, "output_tokens": 4, "cost": 0.5}
    with Session.create(cwd="/p") as session:
        session.append_message({"role": "assistant", "content": "a", "usage": used})
        session.convert("pi", tmp_path / "pi.jsonl")
    (written,) = map(json.loads, (tmp_path / "pi.jsonl").read_text().splitlines()[1:])
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5}
    assert written["message"]["usage"] == {
        "input": 3,
        "output": 4,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 7,
        "cost": cost,
    }


def test_the_provider_of_a_message_is_that_of_the_model_in_force(tmp_path: Path) -> None:
    with Session.create(cwd="/p") as session:
        session.append("model_change", provider="acme", modelId="m-9")
        session.append_message({"role": "assistant", "content": "a", "model": "m-9"})
        session.append_message({"role": "assistant", "content": "b", "model": "other"})
        session.convert("pi", tmp_path / "pi.jsonl")
    lines = map(json.loads, (tmp_path / "pi.jsonl").read_text().splitlines())
    told = [line["message"]["provider"] for line in lines if "message" in line]
    assert told == ["acme", "unknown"]


def test_an_edit_of_several_results_gives_each_its_own_content(tmp_path: Path) -> None:
    def results(*texts: str) -> list[dict[str, Any]]:
        named = zip("ab", texts, strict=True)
        return [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in named]

    calls = [{"type": "tool_use", "id": id, "name": "ls", "input": {}} for id in "ab"]
    with Session.create(cwd="/p") as session:
        session.append_message({"role": "assistant", "content": calls})
        told = session.append_message({"role": "user", "content": results("one", "two")})
        session.edit_context(told, {"content": results("new one", "new two")})
        session.convert("pi", tmp_path / "pi.jsonl")
    lines = map(json.loads, (tmp_path / "pi.jsonl").read_text().splitlines())
    edits = [json.dumps(line["replacement"]) for line in lines if line["type"] == "context_edit"]
    assert ["new one" in edits[0], "new two" in edits[1]] == [True, True]


def test_the_name_of_a_session_and_the_metadata_of_an_entry_are_kept(tmp_path: Path) -> None:
    with Session.create(cwd="/p", name="A name") as session:
        session.append_message({"role": "user", "content": "a"}, metadata={"ticket": 5})
        session.convert("pi", tmp_path / "pi.jsonl")
    _, named, line = map(json.loads, (tmp_path / "pi.jsonl").read_text().splitlines())
    assert (named["type"], named["name"]) == ("session_info", "A name")
    assert line["metadata"] == {"ticket": 5}


def test_an_edit_of_a_custom_message_is_an_edit_in_pi(tmp_path: Path) -> None:
    with Session.create(cwd="/project") as session:
        session.append_message(user("p1"))
        told = session.append("custom_message", customType="x", content="long", display=True)
        session.edit_context(told, "short")
        done = session.convert("pi", tmp_path / "made.jsonl")
    lines = [json.loads(line) for line in Path(done.file).read_text().splitlines()]
    (edit,) = (line for line in lines if line["type"] == "context_edit")
    (target,) = (line for line in lines if line["type"] == "custom_message")
    assert (edit["targetId"], edit["replacement"]) == (target["id"], {"content": "short"})
    assert not [loss for loss in done.losses if "edit" in loss.what]


OWN_KEYS: dict[str, dict[str, Any]] = {
    "message": {"message": user("a")},
    "model_change": {"provider": "p", "modelId": "m"},
    "compaction": {"summary": "s", "firstKeptEntryUuid": "FIRST", "tokensBefore": 1},
    "branch_summary": {"summary": "s", "fromUuid": "FIRST"},
    "stack_summary": {"summary": "s", "fromUuid": "FIRST"},
}


@for_each("type", OWN_KEYS)
def test_a_key_that_pi_does_not_know_is_a_loss_of_each_type(tmp_path: Path, type: str) -> None:
    with Session.create(cwd="/project") as session:
        first = session.append_message(user("p1")).uuid
        known: dict[str, Any] = {k: first if v == "FIRST" else v for k, v in OWN_KEYS[type].items()}
        session.append(type, **known, own=1)
        losses = session.convert("pi", tmp_path / "made.jsonl").losses
    assert [loss.what for loss in losses if "'own'" in loss.what] != []
