"""No match is missed in a text that a format puts together from several parts of its file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.catalog.search import Wanted, search
from sessiontree.storage.lines import BLOCK
from sessiontree.text.pattern import Pattern
from sessiontree.text.searchable import texts
from tests.formats import test_codex, test_gemini, test_pi
from tests.formats.conftest import SESSION
from tests.support import transcripts

Line = dict[str, Any]
Made = Callable[[Path, list[Line]], Path]

words = st.sampled_from(["one", "two", "two\tb", "a\nb", 'q"r', "x\\y", "é", "7", "null", ""])
parts = st.lists(words.map(lambda word: {"type": "text", "text": word}), min_size=1, max_size=3)
contents = words | parts
values = st.recursive(
    words | st.integers(-9, 99) | st.sampled_from([None, True, 1e5, 0.5]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)

pi_entries = st.one_of(
    st.builds(
        lambda said, sections: {
            "type": "message",
            "message": {"role": "system", "content": said, "sections": sections},
        },
        contents,
        st.dictionaries(st.sampled_from("st"), words, max_size=2),
    ),
    st.builds(
        lambda role, said: {"type": "message", "message": {"role": role, "content": said}},
        st.sampled_from(["user", "assistant", "hookMessage"]),
        contents,
    ),
    st.builds(lambda name: {"type": "session_info", "name": name}, words),
    st.builds(lambda text: {"type": "branch_summary", "fromId": "e0", "summary": text}, words),
    st.builds(
        lambda summary, said: {
            "type": "compaction",
            "summary": summary,
            "firstKeptEntryId": "e0",
            "systemMessage": {"role": "system", "content": said},
        },
        words,
        contents,
    ),
    st.builds(
        lambda text: {"type": "context_edit", "targetId": "e0", "replacement": {"content": text}},
        words,
    ),
)


def pi(path: Path, entries: list[Line]) -> Path:
    named = [
        {"id": f"e{n}", "parentId": f"e{n - 1}" if n else None, **entry}
        for n, entry in enumerate(entries)
    ]
    return test_pi.written(path, [test_pi.HEADER, *named])


claude_lines = st.one_of(
    st.builds(
        lambda said: {"type": "user", "message": {"role": "user", "content": said}}, contents
    ),
    st.builds(
        lambda said: {
            "type": "user",
            "isCompactSummary": True,
            "message": {"role": "user", "content": said},
        },
        contents,
    ),
    st.builds(
        lambda text: {"type": "system", "subtype": "compact_boundary", "content": text}, words
    ),
    st.builds(lambda title: {"type": "summary", "summary": title}, words),
    st.builds(lambda title: {"type": "custom-title", "customTitle": title}, words),
)


def claude_code(path: Path, lines: list[Line]) -> Path:
    made: list[Line] = []
    above: str | None = None
    for number, line in enumerate([{"type": "user", "message": {"role": "user"}}, *lines]):
        if "itle" in line["type"] or line["type"] == "summary":
            made.append({**line, "sessionId": SESSION})
            continue
        made.append({**transcripts.line(f"u{number}", above, line["type"]), **line})
        above = f"u{number}"
    return transcripts.written(path, made)


codex_lines = st.one_of(
    st.builds(
        lambda role, said: test_codex.line(
            "response_item", type="message", role=role, content=said
        ),
        st.sampled_from(["user", "assistant"]),
        parts,
    ),
    st.builds(lambda said: test_codex.line("compacted", message=said), words),
    st.builds(
        lambda said, history: test_codex.line(
            "compacted", message=said, replacement_history=history
        ),
        words,
        st.lists(
            st.builds(lambda said: {"type": "message", "role": "user", "content": said}, parts),
            max_size=2,
        ),
    ),
    st.builds(
        lambda said: test_codex.line(
            "response_item", type="function_call_output", call_id="c", output=said
        ),
        words | values,
    ),
    st.just(test_codex.line("event_msg", type="thread_rolled_back", num_turns=1)),
)


def codex(path: Path, lines: list[Line]) -> Path:
    return test_codex.written(path, *lines)


calls = st.builds(
    lambda args, response: {
        "id": "c",
        "name": "n",
        "args": args,
        "result": [{"functionResponse": {"response": response}}],
    },
    values,
    st.dictionaries(st.sampled_from(["output", "error", "code"]), values, max_size=2) | values,
)
gemini_messages = st.one_of(
    st.builds(lambda said: {"type": "user", "content": said}, words | st.lists(values, max_size=2)),
    st.builds(
        lambda said, thoughts, made: {
            "type": "gemini",
            "content": said,
            "thoughts": thoughts,
            "toolCalls": made,
        },
        words,
        st.lists(
            st.builds(lambda a, b: {"subject": a, "description": b}, words, words), max_size=2
        ),
        st.lists(calls, max_size=1),
    ),
    st.builds(lambda said: {"type": "info", "content": said}, words),
    st.builds(lambda summary: {"$set": {"summary": summary}}, words),
)


def numbered(messages: list[Line]) -> list[Line]:
    """The messages with ids, of which some come twice where they are many."""
    return [
        line if "$set" in line else {"id": f"g{n % 5}", **line} for n, line in enumerate(messages)
    ]


def gemini_log(path: Path, messages: list[Line]) -> Path:
    return test_gemini.log(path, *numbered(messages))


def gemini_document(path: Path, messages: list[Line]) -> Path:
    return test_gemini.document(path, *numbered(messages))


FORMATS: dict[str, tuple[Made, st.SearchStrategy[Line]]] = {
    "pi": (pi, pi_entries),
    "claude-code": (claude_code, claude_lines),
    "codex": (codex, codex_lines),
    "gemini-log": (gemini_log, gemini_messages),
    "gemini-document": (gemini_document, gemini_messages),
}


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=st.data())
def test_any_part_of_any_text_is_found(format: str, tmp_path: Path, drawn: st.DataObject) -> None:
    made, lines = FORMATS[format]
    file = made(tmp_path / "s.jsonl", drawn.draw(st.lists(lines, max_size=6)))
    with Session.open(file, readonly=True) as session:
        said = [
            (entry.uuid, text) for entry in session.entries() for text in texts(entry.as_stored)
        ]
    whole = drawn.draw(st.sampled_from([text for _, text in said if text] or ["none"]))
    start = drawn.draw(st.integers(0, len(whole) - 1))
    part = whole[start : start + drawn.draw(st.integers(1, 9))]
    pattern = Pattern(part, ignore_case=drawn.draw(st.booleans()))
    expected = {uuid for uuid, text in said if pattern.search(text)}
    found = search(pattern, [str(file)], Wanted(), pytest.fail)
    assert {hit.ref for hit in found} == expected


TOLD = {"agentType": "explorer", "description": "all \u00e9 callers", "toolUseId": "t"}


@pytest.mark.parametrize("part", ["explor", "é callers", "one", "asks-it", "say in"])
def test_any_part_of_the_facts_of_a_subagent_is_found(tmp_path: Path, part: str) -> None:
    lines = [
        transcripts.user("a", None),
        transcripts.assistant("asks-it", "a", "m", ["t"]),
        transcripts.result("r", "asks-it", "t"),
    ]
    file = transcripts.written(tmp_path / "s.jsonl", lines)
    aside = tmp_path / "s" / "subagents" / "agent-one.jsonl"
    transcripts.written(aside, [transcripts.user("in", None, isSidechain=True, agentId="one")])
    aside.with_suffix(".meta.json").write_text(json.dumps(TOLD, indent=2))
    with Session.open(file, readonly=True) as session:
        expected = {
            entry.uuid
            for entry in session.entries()
            if any(part in text for text in texts(entry.as_stored))
        }
    assert expected
    found = search(Pattern(part), [str(file)], Wanted(), pytest.fail)
    assert {hit.ref for hit in found} == expected


@pytest.mark.parametrize("made", [gemini_log, gemini_document])
def test_a_response_is_searched_wherever_a_block_ends(tmp_path: Path, made: Made) -> None:
    def told(number: int, response: Line) -> Line:
        call = {"id": "c", "name": "n", "result": [{"functionResponse": {"response": response}}]}
        return {"id": f"g{number}", "type": "gemini", "content": "", "toolCalls": [call]}

    for size in range(BLOCK - 700, BLOCK + 100, 50):
        messages = [told(0, {"output": "x" * size}), told(1, {"code": 1}), told(2, {"code": 1})]
        messages.append(told(3, {"output": "y" * 3000}))
        file = made(tmp_path / f"{size}.jsonl", messages)
        assert file.stat().st_size > BLOCK
        found = search(Pattern('"code": 1}'), [str(file)], Wanted(), pytest.fail)
        assert len(list(found)) == 2
