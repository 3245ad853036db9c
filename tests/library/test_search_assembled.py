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
from sessiontree.core.message import repeated_by
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.library.search_foreign import objects_in
from sessiontree.storage.scanner import BLOCK
from sessiontree.text.pattern import Pattern
from sessiontree.text.preview import texts
from tests.agents import test_codex, test_gemini, test_pi
from tests.agents.conftest import SESSION
from tests.support import transcripts
from tests.support.soak import amount
from tests.support.table import for_each

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


def some(**parts: Any) -> st.SearchStrategy[Line]:
    """Objects with these keys, whose values are drawn, or are what is given."""
    return st.fixed_dictionaries(
        {k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in parts.items()}
    )


system = some(role="system", content=contents)
sections = some(s=words) | some(t=words, s=words)
roles = st.sampled_from(["user", "assistant", "hookMessage"])
pi_entries = st.one_of(
    some(type="message", message=system),
    some(type="message", message=some(role="system", content=contents, sections=sections)),
    some(type="message", message=some(role=roles, content=contents)),
    some(type="session_info", name=words),
    some(type="branch_summary", fromId="e0", summary=words),
    some(type="compaction", summary=words, firstKeptEntryId="e0", systemMessage=system),
    some(type="context_edit", targetId="e0", replacement=some(content=words)),
)


def pi(path: Path, entries: list[Line]) -> Path:
    for number, entry in enumerate(entries):
        entry |= {"id": f"e{number}", "parentId": f"e{number - 1}" if number else None}
    return test_pi.written(path, [test_pi.HEADER, *entries])


claude_lines = st.one_of(
    some(type="user", message=some(role="user", content=contents)),
    some(type="user", isCompactSummary=True, message=some(role="user", content=contents)),
    some(type="system", subtype="compact_boundary", content=words),
    some(type="summary", summary=words),
    some(type="custom-title", customTitle=words),
)


def claude_code(path: Path, lines: list[Line]) -> Path:
    made: list[Line] = []
    above: str | None = None
    for number, line in enumerate(
        [{"type": "user", "message": {"role": "user", "content": ""}}, *lines]
    ):
        if "itle" in line["type"] or line["type"] == "summary":
            made.append({**line, "sessionId": SESSION})
            continue
        made.append({**transcripts.line(f"u{number}", above, line["type"]), **line})
        above = f"u{number}"
    return transcripts.written(path, made)


def codex_line(type: str, /, **payload: Any) -> st.SearchStrategy[Line]:
    return some(**test_codex.line(type) | {"payload": some(**payload)})


said = some(type="message", role="user", content=parts)
codex_lines = st.one_of(
    codex_line("response_item", type="message", role="user", content=parts),
    codex_line("response_item", type="message", role="assistant", content=parts),
    codex_line("compacted", message=words),
    codex_line("compacted", message=words, replacement_history=st.lists(said, max_size=2)),
    codex_line("response_item", type="function_call_output", call_id="c", output=words | values),
    st.just(test_codex.rolled_back(1)),
)


def codex(path: Path, lines: list[Line]) -> Path:
    return test_codex.written(path, *lines)


outputs = st.dictionaries(st.sampled_from(["output", "error", "code"]), values, max_size=2)
response = some(functionResponse=some(response=outputs | values))
calls = some(id="c", name="n", args=values, result=response.map(lambda found: [found]))
gemini_messages = st.one_of(
    some(type="user", content=words | st.lists(values, max_size=2)),
    some(
        type="gemini",
        content=words,
        thoughts=st.lists(some(subject=words, description=words), max_size=2),
        toolCalls=st.lists(calls, max_size=1),
    ),
    some(type="info", content=words),
    some(**{"$set": some(summary=words)}),
)


def numbered(messages: list[Line]) -> list[Line]:
    """The messages with ids, of which some come twice where they are many."""
    ids = [{} if "$set" in line else {"id": f"g{n % 5}"} for n, line in enumerate(messages)]
    return [id | line for id, line in zip(ids, messages, strict=True)]


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
@for_each("format", FORMATS)
@settings(deadline=None, max_examples=amount(60), suppress_health_check=list(HealthCheck))
@given(drawn=st.data())
def test_any_part_of_any_text_is_found(format: str, tmp_path: Path, drawn: st.DataObject) -> None:
    """It is found where it was said, not where a compaction lists it again for the model.

    A name that was replaced is no text of the session any more.
    """
    made, lines = FORMATS[format]
    file = made(tmp_path / "s.jsonl", drawn.draw(st.lists(lines, max_size=6)))
    with Session.open(file, readonly=True) as session:
        entries = {e.uuid: e.as_stored for e in session.entries()}
    again = {uuid: said for uuid, keys in entries.items() if (said := repeated_by(keys))}
    assert entries.keys() - again.keys() >= set(again.values())
    for uuid in [u for u, keys in entries.items() if keys["type"] == "session_info"][:-1]:
        entries[uuid] = {key: value for key, value in entries[uuid].items() if key != "name"}
    told = [(u, text) for u, keys in entries.items() if u not in again for text in texts(keys)]
    whole = drawn.draw(st.sampled_from([text for _, text in told if text] or ["none"]))
    start = drawn.draw(st.integers(0, len(whole) - 1))
    part = whole[start : start + drawn.draw(st.integers(1, 9))]
    pattern = Pattern(part, ignore_case=drawn.draw(st.booleans()))
    expected = {uuid for uuid, text in told if pattern.search(text)}
    found = search(pattern, [str(file)], SearchFilter(), pytest.fail)
    assert {hit.ref for hit in found} == expected


TOLD = {"agentType": "explorer", "description": "all \u00e9 callers", "toolUseId": "t"}


@for_each("part", ["explor", "é callers", "one", "asks-it", "say in"])
def test_any_part_of_the_facts_of_a_subagent_is_found(tmp_path: Path, part: str) -> None:
    inner = transcripts.user("in", None, isSidechain=True, agentId="one")
    file = transcripts.with_subagent(tmp_path / "s.jsonl", inner)
    asks = [transcripts.user("a", None), transcripts.assistant("asks-it", "a", "m", ["t"])]
    transcripts.written(file, [*asks, transcripts.result("r", "asks-it", "t")])
    (told,) = (tmp_path / "s" / "subagents").glob("*.meta.json")
    told.write_text(json.dumps(TOLD, indent=2))
    with Session.open(file, readonly=True) as session:
        entries = [(e.uuid, texts(e.as_stored)) for e in session.entries()]
    expected = {uuid for uuid, said in entries if any(part in text for text in said)}
    assert expected
    found = search(Pattern(part), [str(file)], SearchFilter(), pytest.fail)
    assert {hit.ref for hit in found} == expected


@for_each("made", [gemini_log, gemini_document])
def test_a_response_is_searched_wherever_a_block_ends(tmp_path: Path, made: Made) -> None:
    def told(number: int, response: Line) -> Line:
        call = {"id": "c", "name": "n", "result": [{"functionResponse": {"response": response}}]}
        return {"id": f"g{number}", "type": "gemini", "content": "", "toolCalls": [call]}

    for size in range(BLOCK - 700, BLOCK + 100, 50):
        messages = [told(0, {"output": "x" * size}), told(1, {"code": 1}), told(2, {"code": 1})]
        messages.append(told(3, {"output": "y" * 3000}))
        file = made(tmp_path / f"{size}.jsonl", messages)
        assert file.stat().st_size > BLOCK
        found = search(Pattern('"code": 1}'), [str(file)], SearchFilter(), pytest.fail)
        assert len(list(found)) == 2


@for_each(
    ("content", "count"),
    [
        (b"", 0),
        (b"{}\n", 1),
        (b'{"a":"}{"}\n{"b":[]}\n', 2),
        (b"{}{}\n", None),
        (b"{}\n\n", None),
        (b"{}\n[]\n", None),
        (b'{"a":\n1}\n', None),
        (b'{"a":1\n', None),
        (b'{"a":\xff}\n', None),
        (b"{}\n" * 200_000, 200_000),
    ],
)
def test_the_lines_of_objects_are_counted_or_it_is_said_that_they_are_not(
    content: bytes, count: int | None
) -> None:
    def read(offset: int, size: int) -> bytes:
        return content[offset : offset + size]

    assert objects_in(read, 0, len(content)) == count
