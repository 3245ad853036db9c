"""The request that an answer responds to, from the records of Claude Code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.agents.claude_code.requests import canonical, digest, message_bytes
from sessiontree.errors import FileError, SessionTreeError, TooMuchError, UsageError
from sessiontree.importing.importer import import_session
from tests.support.table import for_each
from tests.support.terminal import printed_json, refused
from tests.support.transcripts import Line, assistant, user, written

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents" / "claude_code"
SHAPE: Line = {"system": [{"type": "text", "text": "Be brief."}], "tools": []}
ASKED: list[Line] = [{"role": "user", "content": [{"type": "text", "text": "say a"}]}]


def hash_of(message: Line) -> str:
    return hashlib.sha256(message_bytes(message)).hexdigest()


def blob(message: Line) -> Line:
    return {"type": "api-request-blob", "hash": hash_of(message), "message": message}


def shape() -> Line:
    return {"type": "api-request-shape", "shapeHash": digest(SHAPE), "shape": SHAPE}


def request(
    id: str, messages: list[Line], keep: int = 0, base: str | None = None, **more: Any
) -> Line:
    made: Line = {"type": "api-request", "id": id, "params": {"model": "claude"}, "keep": keep}
    made |= {"shapeHash": digest(SHAPE), "tail": [*map(hash_of, messages)], "cacheControl": []}
    return {**made, **({"base": base} if base else {}), **more}


def said(number: int) -> Line:
    return {"role": "user", "content": [{"type": "text", "text": f"message {number}"}]}


def of(path: Path, *records: Line, ref: str = "r1") -> Path:
    return written(
        path / "s.jsonl", [user("a", None), *records, assistant("b", "a", requestRef=ref)]
    )


def sent(file: Path | str, ref: str | None = None) -> tuple[list[Any], list[str]]:
    with Session.open(file, readonly=True) as session:
        found = session.sent_request(ref)
    assert (found.params["model"], found.params["system"]) == ("claude", SHAPE["system"])
    return found.params["messages"], found.warnings


@for_each("ref", [None, "b", "request-1", "requ"])
def test_a_request_is_found_by_its_answer_and_by_its_id(ref: str | None, tmp_path: Path) -> None:
    records = [shape(), blob(ASKED[0]), request("request-1", ASKED)]
    file = of(tmp_path, *records, ref="request-1")
    for each in (file, import_session(file, tmp_path / "in").file):
        assert sent(each, ref) == (ASKED, [])
        assert printed_json("show", each, *([ref] if ref else []), "--request")["tools"] == []


def test_messages_come_from_bases_blobs_and_answers(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": f"said {n}"} for n in "bc"]}
    mark = {"path": ["messages", 2, "content", 0], "value": {"type": "ephemeral"}}
    lines = [
        *(user("a", None), shape(), blob(said(1)), blob(said(2))),
        request("r1", [said(1), said(2)]),
        *(assistant("b", "a", "m"), assistant("c", "b", "m"), user("d", "c"), blob(said(3))),
        request("r2", [answer, said(3)], keep=1, base="r1", cacheControl=[mark, {"path": ["x"]}]),
        assistant("e", "d", "n", requestRef="r2"),
    ]
    file = written(tmp_path / "s.jsonl", lines)
    marked = {"type": "text", "text": "message 3", "cache_control": {"type": "ephemeral"}}
    expected = [said(1), answer, {"role": "user", "content": [marked]}]
    warnings = ["1 marks of the cache have no place in the request"]
    for each in (file, import_session(file, tmp_path / "in").file):
        assert sent(each) == (expected, warnings)


@for_each("response", ["", "m"])
def test_only_lines_of_one_answer_are_one_message(response: str, tmp_path: Path) -> None:
    answers = [[{"type": "text", "text": f"said {uuid}"}] for uuid in "bc"]
    wanted = [[*answers[0], *answers[1]]] if response else answers
    messages = [{"role": "assistant", "content": content} for content in wanted]
    lines = [
        *(user("a", None), assistant("b", "a", response), assistant("c", "b", response)),
        *(user("d", "c"), shape(), request("r1", messages)),
        assistant("e", "d", "n", requestRef="r1"),
    ]
    assert sent(written(tmp_path / "s.jsonl", lines)) == (messages, [])


def test_a_hash_is_that_of_the_json_of_javascript() -> None:
    value = {"b": [2.0, 0.5, 1e21, -3.0], "a": "\ud800", "cache_control": 1}
    assert canonical(value) == b'{"a":"\xed\xa0\x80","b":[2,0.5,1e+21,-3]}'
    assert canonical({"n": 10**30, "ü": 1.0}) == '{"n":%d,"ü":1}'.encode() % 10**30


@pytest.mark.slow
def test_a_chain_of_ten_thousand_bases_is_followed(tmp_path: Path) -> None:
    count = 10_000
    lines = [shape(), blob(said(0)), request("r0", [said(0)])]
    for number in range(1, count):
        lines.append(blob(said(number)))
        lines.append(request(f"r{number}", [said(number)], number, f"r{number - 1}"))
    found, warnings = sent(of(tmp_path, *lines, ref=f"r{count - 1}"))
    assert (found, warnings) == ([*map(said, range(count))], [])


BROKEN: dict[str, tuple[list[Line], str]] = {
    "no base": ([request("r1", ASKED, 2, "gone")], "has no record of request 'gone': request 'r1'"),
    "a loop": (
        [request("r1", ASKED, 1, "r2"), request("r2", [], 1, "r1")],
        "form a loop at 'r1'",
    ),
    "a base too short": (
        [request("r1", ASKED, 3, "r2"), request("r2", ASKED)],
        "request 'r1' keeps 3 of 1 messages",
    ),
    "kept of nothing": ([request("r1", ASKED, 3)], "it keeps 3 messages of it"),
    "no messages": ([request("r1", [], tail=None)], "'keep' or 'tail' is missing"),
    "a message gone": ([request("r1", [said(7)])], f"no record of message {hash_of(said(7))}"),
    "no request": ([request("r2", ASKED)], "look in the session that was copied"),
    "no shape": ([request("r1", ASKED, shapeHash="x")], "the system prompt and tools 'x'"),
}


@for_each("name", BROKEN)
def test_a_broken_record_gives_one_clear_error(name: str, tmp_path: Path) -> None:
    lines, told = BROKEN[name]
    file = of(tmp_path, shape(), blob(ASKED[0]), *lines)
    with Session.open(file, readonly=True) as session, pytest.raises(FileError) as caught:
        session.sent_request()
    assert told in str(caught.value)
    assert str(file) in refused("show", file, "--request")


def test_a_changed_part_is_a_warning(tmp_path: Path) -> None:
    changed = {**blob(ASKED[0]), "message": said(1)}
    whole = request("r1", ASKED, requestDigest="0" * 64)
    assert sent(of(tmp_path, shape(), blob(ASKED[0]), whole))[1] == [
        "the request does not have the hash of its record: a part was changed"
    ]
    found, (told,) = sent(of(tmp_path, shape(), changed, request("r1", ASKED)))
    assert (found, told) == ([said(1)], f"a message was changed: its hash is not {changed['hash']}")
    cut = request("r1", ASKED, cut={"kind": "tool-mark-address"})
    assert "left parts" in sent(of(tmp_path, shape(), blob(ASKED[0]), cut))[1][0]


def test_a_request_that_names_one_message_many_times_is_refused(tmp_path: Path) -> None:
    large = {"role": "user", "content": [{"type": "text", "text": "x" * 1_000_000}]}
    lines = [shape(), blob(large), request("r1", [], tail=[hash_of(large)] * 1000)]
    with (
        Session.open(of(tmp_path, *lines), readonly=True) as session,
        pytest.raises(TooMuchError, match="128 MiB"),
    ):
        session.sent_request()


def test_a_request_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    large = {"role": "user", "content": [{"type": "text", "deep": deep}]}
    lines = [shape(), {**blob(said(1)), "message": large}, request("r1", [said(1)])]
    assert "nested too deeply" in refused("show", of(tmp_path, *lines), "--request")


def test_what_has_no_record_says_so(tmp_path: Path) -> None:
    ours = tmp_path / "ours.jsonl"
    with Session.create(ours) as session:
        session.append_message({"role": "user", "content": "hello"})
    empty = written(tmp_path / "v.jsonl", [user("a", None), request("r1", [])])
    unrecorded = written(tmp_path / "t.jsonl", [shape(), request("r1", []), *PLAIN])
    cases: list[tuple[Path, list[str], str]] = [
        (ours, [], "has no records of requests: only Claude Code"),
        (written(tmp_path / "u.jsonl", PLAIN), [], "has no records of requests"),
        (unrecorded, ["a"], "is not an answer of the model"),
        (unrecorded, ["b"], "names no record of its request"),
        (unrecorded, ["nothing"], "nothing"),
        (empty, [], "no answer above"),
    ]
    for file, ref, told in cases:
        assert told in refused("show", file, *ref, "--request")
        with Session.open(file, readonly=True) as session, pytest.raises(SessionTreeError):
            session.sent_request(*ref)
    assert issubclass(UsageError, SessionTreeError)


PLAIN = [user("a", None), assistant("b", "a")]


def test_each_request_of_the_sample_is_whole() -> None:
    (file,) = SAMPLES.glob("2.1.330/*.jsonl")
    ids = [
        line["id"]
        for line in map(json.loads, file.read_text().splitlines())
        if line["type"] == "api-request"
    ]
    with Session.open(file, readonly=True) as session:
        counts = [len(session.sent_request(id).params["messages"]) for id in ids]
    before, last = counts[:-1], counts[-1]  # the last is the one after the compaction
    assert (before, len(before) > 5, last < before[-1]) == (sorted(before), True, True)
