"""A search finds what is said, wherever it is said, and says where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.core.damage import MAX_FINDINGS
from sessiontree.core.entry import decode_leniently
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter, SearchHit, marked
from sessiontree.storage.scanner import BLOCK, Scanner
from sessiontree.text.pattern import Pattern, query
from sessiontree.text.preview import texts
from tests.agents.conftest import CLAUDE_CODE, CORPUS, NO_CORPUS
from tests.support.sessions import chat, json_lines, version_1
from tests.support.soak import amount
from tests.support.table import for_each


def hits(file: Path, text: str, *, report: Any = pytest.fail, **wanted: Any) -> list[SearchHit]:
    return list(search(Pattern(text), [str(file)], SearchFilter(**wanted), report))


def snippets(file: Path, text: str, **wanted: Any) -> list[str]:
    return [hit.snippet for hit in hits(file, text, **wanted)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A session with a branch that was left, a call and its result."""
    file = tmp_path / "chat.jsonl"
    with Session.create(file, cwd="/needle", id="chat-id", name="Chat", durability="os") as s:
        first = s.append_message({"role": "user", "content": "find the needle"})
        call = {"type": "toolCall", "id": "c1", "name": "grep", "arguments": {"for": "needle"}}
        said = {"type": "text", "text": "a needle, then"}
        s.append_message({"role": "assistant", "content": [said, call]})
        s.append_message(
            {"role": "toolResult", "toolCallId": "c1", "toolName": "grep"}
            | {"content": [{"type": "text", "text": "hay needle hay"}]}
        )
        s.branch(first, summary="needles were there")
        s.append_message({"role": "user", "content": "look elsewhere"})
        s.label(first, "the-needle")
    return file


def test_each_entry_that_matches_is_one_hit_in_file_order(file: Path) -> None:
    with Session.open(file, readonly=True) as session:
        entries = list(session.entries())
    found = hits(file, "needle")
    kinds = ["message", "message", "message", "branch_summary", "label"]
    assert [hit.type for hit in found] == kinds
    assert [hit.role for hit in found] == ["user", "assistant", "toolResult", None, None]
    refs = [hit.ref for hit in found]
    assert refs == [entry.uuid for entry in entries if entry.uuid in refs]
    assert {hit.session for hit in found} == {"chat-id"}
    assert {hit.file for hit in found} == {str(file)}
    assert found[0].timestamp == entries[1].timestamp


def test_labels_and_names_count_only_while_they_are_in_force(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    with Session.create(file, cwd="/tmp", name="First name", durability="os") as s:
        entry = s.append_message({"role": "user", "content": "hi"})
        s.label(entry, "cleared")
        s.label(entry, None)
        s.label(entry, "replaced")
        s.label(entry, "there")
        s.label(entry, "there")
        s.rename("Second name")
        s.rename("Third name")
    for word in ("cleared", "replaced", "First", "Second"):
        assert hits(file, word) == [], word
    for word, kind in (("there", "label"), ("Third", "session_info")):
        assert [hit.type for hit in hits(file, word)] == [kind], word
    with Session.open(file) as s:
        s.label(entry, None)
    assert hits(file, "there") == []


def test_the_match_is_marked_in_its_snippet(file: Path) -> None:
    for hit in hits(file, "needle"):
        start, end = hit.match
        assert hit.snippet[start:end] == "needle"


def test_a_snippet_is_one_line_without_terminal_control_characters(tmp_path: Path) -> None:
    before, after = "b" * 1000 + "\n\x1b[31m", "\x1b[0m\t\u202e" + "a" * 1000
    file = chat(tmp_path / "chat.jsonl", f"{before}one\ntwo{after}")
    (hit,) = hits(file, "one\ntwo")
    assert hit.snippet[slice(*hit.match)] == "one↵two"
    assert hit.snippet.startswith("…b")
    assert hit.snippet.endswith("a…")
    assert hit.snippet.isprintable()
    assert len(hit.snippet) < 200


def test_a_search_does_not_match_types_and_ids(file: Path) -> None:
    for word in ("user", "toolCall", "message", "chat-id", "c1", "/needle", "sessiontree/2"):
        assert hits(file, word) == [], word
    assert [hit.type for hit in hits(file, "Chat")] == ["session"]


def test_the_role_narrows_a_search(file: Path) -> None:
    roles = frozenset({"user", "toolResult"})
    assert snippets(file, "needle", roles=roles) == ["find the needle", "hay needle hay"]


def test_a_search_of_the_current_path_leaves_out_other_branches(file: Path) -> None:
    on_path = ["find the needle", "needles were there", "the-needle"]
    assert snippets(file, "needle", current=True) == on_path


def test_a_tool_narrows_a_search_to_its_calls_and_results(file: Path) -> None:
    assert snippets(file, "needle", tool="grep") == ["needle", "hay needle hay"]
    assert snippets(file, "needle", tool="read") == []


SHAPES: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"role": "assistant"}
        | {"content": [{"type": "tool_use", "id": "t1", "name": "sh", "input": {"c": "find me"}}]},
        {"role": "user"}
        | {"content": [
            {"type": "text", "text": "find me not"},
            {"type": "tool_result", "tool_use_id": "t1", "content": "found: find me"},
        ]},
    ],
    "chat": [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "sh", "arguments": "find me"}}
        ]},
        {"role": "tool", "tool_call_id": "t1", "content": "found: find me"},
    ],
    "responses": [
        {"type": "function_call", "call_id": "t1", "name": "sh", "arguments": "find me"},
        {"type": "function_call_output", "call_id": "t1", "output": "found: find me"},
    ],
}  # fmt: skip


@for_each("shape", SHAPES)
def test_a_result_that_names_its_call_alone_is_known_by_it(tmp_path: Path, shape: str) -> None:
    file = chat(tmp_path / "chat.jsonl", "find me not", *SHAPES[shape])
    assert snippets(file, "find me", tool="sh") == ["Called sh find me", "found: find me"]
    assert snippets(file, "find me", tool="other") == []


@for_each("shape", ["tool_use", "toolCall"])
def test_a_tool_narrows_a_search_of_what_was_streamed_in_blocks(tmp_path: Path, shape: str) -> None:
    file, key = tmp_path / "chat.jsonl", "input" if shape == "tool_use" else "arguments"
    with Session.create(file) as session:
        with session.stream_message(granularity="block") as answer:
            answer.add({"type": "text", "text": "find me not"})
            answer.add({"type": shape, "id": "t1", "name": "sh", key: {"c": "find me"}})
        with session.stream_message(role="user", granularity="block") as results:
            results.add({"type": "tool_result", "tool_use_id": "t1", "content": "then: find me"})
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "found: find me"}
        session.append_message({"role": "user", "content": [result]})
        assert len(session.find(tool_call_id="t1")) == 3
    found = ["Called sh find me", "then: find me", "found: find me"]
    assert snippets(file, "find me", tool="sh") == found
    assert snippets(file, "find me", tool="sh", current=True) == found
    assert snippets(file, "find me", tool="other") == []


def test_only_entries_since_a_time_count(tmp_path: Path) -> None:
    times = ["2025-01-01T00:00:00Z", "2025-01-02T01:00:00+02:00", "2025-01-02T00:00:00.000Z", "?"]
    lines: list[dict[str, Any]] = [{"type": "session", "version": 2, "uuid": "h"}]
    for number, time in enumerate(times):
        message = {"role": "user", "content": f"needle {number}"}
        lines.append({"type": "message", "uuid": f"m{number}", "parentUuid": "h"})
        lines[-1] |= {"timestamp": time, "message": message}
    file = json_lines(tmp_path / "chat.jsonl", *lines)
    since = datetime(2025, 1, 2, tzinfo=UTC)
    assert snippets(file, "needle", since=since) == ["needle 2"]
    assert len(snippets(file, "needle")) == 4


LARGE = "words " * 10_000


def test_a_search_with_blobs_finds_large_texts(tmp_path: Path) -> None:
    block = {"type": "text", "text": "needle in the line, " + LARGE}
    answer = {"role": "assistant", "content": [block, {**block, "text": "needle"}]}
    image = {"type": "image", "mimeType": "image/png", "data": "needle" * 10_000}
    file = tmp_path / "chat.jsonl"
    chat(file, LARGE + "needle", answer, {"role": "user", "content": [image]})
    assert [hit.role for hit in hits(file, "needle")] == ["assistant"]
    assert [hit.role for hit in hits(file, "needle", blobs=True)] == ["assistant", "user"]
    assert hits(file, "sha256") == []
    assert hits(file, "sha256", blobs=True) == []


def test_a_blob_that_is_gone_is_reported_and_hides_nothing(tmp_path: Path) -> None:
    file = chat(tmp_path / "chat.jsonl", LARGE + "lost", LARGE + "needle")
    blobs = Path(f"{file}.blobs")
    gone = next(blob for blob in blobs.iterdir() if blob.read_bytes().endswith(b"lost"))
    gone.unlink()
    problems: list[str] = []
    assert len(hits(file, "needle", blobs=True, report=problems.append)) == 1
    assert len(problems) == 1
    assert gone.name in problems[0]


def test_a_file_of_version_1_is_searched_by_the_uuids_it_will_have(tmp_path: Path) -> None:
    file = version_1(tmp_path / "old.jsonl", "the needle")
    (hit,) = hits(file, "needle")
    assert hit.session == "old"
    with Session.open(file, readonly=True) as session:
        assert session.entry(hit.ref)["message"]["content"] == "the needle"
    assert [path.name for path in tmp_path.iterdir()] == ["old.jsonl"]


@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
def test_another_agents_file_is_searched_as_it_is_opened() -> None:
    file = CORPUS / "claude-code" / "tool_heavy.jsonl"
    found = hits(file, "xterm", tool="Read")
    assert found
    with Session.open(file, readonly=True) as session:
        assert {session.entry(hit.ref).type for hit in found} == {"message"}


def test_a_damaged_line_that_may_match_is_reported_and_hides_nothing(file: Path) -> None:
    with file.open("ab") as out:
        out.write(b'{"type":"message","message":{"content":"needle \n')
        out.write(b"\0\0\0\n\n")
    with Session.open(file, durability="os") as session:
        session.append_message({"role": "user", "content": "needle at the end"})
    problems: list[str] = []
    assert len(hits(file, "needle", report=problems.append)) == 6
    assert len(problems) == 1
    assert str(file) in problems[0]
    assert "byte" in problems[0]


def test_a_search_reports_a_file_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.jsonl"
    strange.write_text('{"a log": "of a needle"}\n')
    files = [str(tmp_path / "gone.jsonl"), str(tmp_path), str(strange), str(file)]
    problems: list[str] = []
    found = list(search(Pattern("needle"), files, SearchFilter(), problems.append))
    assert len(found) == 5
    assert [str(path) in told for path, told in zip(files, problems, strict=False)] == [True] * 3
    assert problems[0] == f"{files[0]} is not there, or not any more; check the path"


def test_searching_changes_nothing(file: Path) -> None:
    Path(f"{file}.lock").unlink(missing_ok=True)
    before = {path: path.read_bytes() for path in file.parent.iterdir()}
    hits(file, "needle", current=True, blobs=True, tool="grep")
    assert {path: path.read_bytes() for path in file.parent.iterdir()} == before


bodies = st.recursive(
    st.text('ab\n"\\/é😀', max_size=6) | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "x", "type", "input", "id"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(60), suppress_health_check=list(HealthCheck))
@given(
    contents=st.lists(bodies, max_size=4),
    pattern=st.text('ab\n"\\/é😀', min_size=1, max_size=3),
    options=st.tuples(st.booleans(), st.booleans()),
)
def test_a_search_finds_the_same_as_decoding_everything(
    tmp_path: Path, contents: list[Any], pattern: str, options: tuple[bool, bool]
) -> None:
    ensure_ascii, ignore_case = options
    file = tmp_path / "any.jsonl"
    lines: list[dict[str, Any]] = [{"type": "session", "version": 2, "uuid": "h", "id": "any"}]
    for number, content in enumerate(contents):
        lines.append({"type": "message", "uuid": f"m{number}", "parentUuid": "h"})
        lines[-1]["message"] = {"role": "user", "content": content}
    written = [json.dumps(line, ensure_ascii=ensure_ascii) for line in lines]
    file.write_text("\n".join(written), encoding="utf-8")
    looked_for = Pattern(pattern, ignore_case=ignore_case)
    found = [hit.ref for hit in search(looked_for, [str(file)], SearchFilter(), pytest.fail)]
    assert found == list(_found_by_decoding(looked_for, written))


def _found_by_decoding(pattern: Pattern, lines: list[str]) -> Iterator[str]:
    for line in lines:
        body = decode_leniently(line.encode())
        if any(pattern.search(text) for text in texts(body)):
            yield body["uuid"]


@for_each("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
@for_each("end", [b"", b"\n"])
def test_scanned_lines_are_whole_wherever_blocks_end(tmp_path: Path, size: int, end: bytes) -> None:
    lines = [b"a" * size, b"x needle x", b"", b"b" * 100, b"needle" + b"c" * size + b"needle"]
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"\n".join(lines) + end)
    scanner = Scanner()
    for _ in range(2):
        found = list(scanner.lines(str(file), Pattern("needle").candidates))
        assert found == [(size + 1, lines[1]), (size + 114, lines[4])]
        assert [line for _, line in scanner.lines(str(file), Pattern("x", regex=True).candidates)]


@for_each("line", ["one needle, unreadable {}", "the same needle"])
def test_of_many_unreadable_lines_ten_are_named_and_the_others_counted(
    line: str, tmp_path: Path
) -> None:
    file = chat(tmp_path / "many.jsonl", "hay")
    with file.open("a") as out:
        out.writelines(f"{line.format(n)}\n" for n in range(MAX_FINDINGS + 3))
    said: list[str] = []
    assert hits(file, "needle", report=said.append) == []
    *named, others = said
    assert len(named) == MAX_FINDINGS
    assert others == f"{file}: 3 more lines may hold the pattern, likewise"


MARKED = [
    ("alpha", "an alpha, an Alpha", "an «alpha», an «Alpha»"),
    ("gamma alpha", "alpha beta gamma", "«alpha» beta «gamma»"),
    ('"beta gamma" alpha', "alpha beta gamma", "«alpha» «beta gamma»"),
    ("cafe naive", "naïve ｃａｆｅ", "«naïve» «ｃａｆｅ»"),
    ("alpha alphabet", "alphabet alpha", "«alphabet» «alpha»"),
    ("alpha omega", f"alpha{'-' * 300}omega", f"«alpha»{'-' * 80}…{'-' * 40}«omega»"),
    ("alpha omega", f"omega{'-' * 90}alpha", f"«omega»{'-' * 90}«alpha»"),
]
"""What is searched for, a text, and its snippet with the words marked."""


@for_each(("words", "text", "expected"), MARKED)
def test_every_word_is_marked(tmp_path: Path, words: str, text: str, expected: str) -> None:
    file = chat(tmp_path / f"{abs(hash((words, text)))}.jsonl", text)
    (hit,) = search(query(words), [str(file)], SearchFilter(), pytest.fail)
    assert marked(hit.snippet, hit.matches, "«{}»".format) == expected
    assert hit.match[0] == hit.matches[0][0]


def test_a_regular_expression_is_marked_once(tmp_path: Path) -> None:
    file = chat(tmp_path / "s.jsonl", "aaa")
    (hit,) = search(query("a", regex=True), [str(file)], SearchFilter(), pytest.fail)
    assert hit.matches == [hit.match] == [(0, 1)]


def test_words_in_different_texts_of_an_entry_show_the_text_with_most(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "c", "name": "x", "arguments": {"a": "two three"}}
    file = chat(tmp_path / "s.jsonl", {"role": "assistant", "content": [_text("one two"), call]})
    (hit,) = search(query("one two three"), [str(file)], SearchFilter(), pytest.fail)
    assert marked(hit.snippet, hit.matches, "«{}»".format) == "«one» «two»"
    assert not [*search(query("one four"), [str(file)], SearchFilter(), pytest.fail)]


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
