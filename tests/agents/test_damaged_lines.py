"""Entries in damaged lines of agents' files: each whole one is read, found and counted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiontree import Session, SessionTreeError, Store
from sessiontree.agents import base, recognise
from sessiontree.core.salvage import spans_of_objects
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from tests.agents import test_bad_input
from tests.support.table import for_each
from tests.support.terminal import run

LOGS = test_bad_input.LOGS
Damage = Callable[[list[bytes]], bytes]


def fused(lines: list[bytes]) -> bytes:
    return lines[0] + b"\n" + b"".join(lines[1:]) + b"\n"


def torn_then_appended(lines: list[bytes]) -> bytes:
    torn = (line[: len(line) * 2 // 3] + line + b"\n" for line in lines[1:])
    return lines[0] + b"\n" + b"".join(torn)


def as_list(lines: list[bytes]) -> bytes:
    return b"[" + b", ".join(lines) + b"]\n"


def with_commas(lines: list[bytes]) -> bytes:
    return b",\n".join(lines) + b"\n"


def by_jq(lines: list[bytes]) -> bytes:
    return b"\n".join(json.dumps(json.loads(line), indent=2).encode() for line in lines) + b"\n"


def as_list_by_jq(lines: list[bytes]) -> bytes:
    return json.dumps([json.loads(line) for line in lines], indent=2).encode() + b"\n"


def with_raw_newlines(lines: list[bytes]) -> bytes:
    return b"\n".join(line.replace(b"last\\n", b"last\n\n") for line in lines) + b"\n"


DAMAGES: list[Damage] = [
    fused,
    torn_then_appended,
    as_list,
    with_commas,
    by_jq,
    as_list_by_jq,
    with_raw_newlines,
]


def texts(file: Path) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return [json.dumps(message) for message in session.context().messages]


@for_each("made", LOGS)
def test_each_whole_entry_of_a_damaged_line_is_read_and_found(
    made: test_bad_input.Make, tmp_path: Path
) -> None:
    file = made(tmp_path / "session.jsonl")
    lines = file.read_bytes().replace(b"last", b"last\\none").splitlines()
    file.write_bytes(b"\n".join(lines) + b"\n")
    said, counts = texts(file), CountCache(None).count(facts_of(str(file)))
    for damage in DAMAGES:
        content = damage(lines)
        file.write_bytes(content)
        expected = [text.replace("last\\n", "last\\n\\n") for text in said]
        assert texts(file) == (expected if damage is with_raw_newlines else said), damage
        found = CountCache(None).count(facts_of(str(file)))
        assert (found.turns, found.usage) == (counts.turns, counts.usage), damage
        assert list(Store(tmp_path).search("last")), damage
        with Session.open(file, readonly=True) as session:
            damages = [one for one in session.damage if one.kind in ("layout", "unreadable")]
            assert damages, damage
            for one in damages:
                start = content.rfind(b"\n", 0, one.offset) + 1
                assert content.count(b"\n", 0, start) + 1 == one.line, damage


@for_each("made", LOGS)
def test_nul_bytes_around_a_line_are_damage_and_hide_no_entry(
    made: test_bad_input.Make, tmp_path: Path
) -> None:
    file = made(tmp_path / "session.jsonl")
    lines, said, counts = file.read_bytes().splitlines(), texts(file), _counts(file)
    for number in range(len(lines)):
        for before, behind in ((b"", b"\0\0"), (b"\0", b"\0"), (b"", b"\n\0\0"), (b"", b"\0\0\r")):
            changed = [*lines[:number], before + lines[number] + behind, *lines[number + 1 :]]
            content = b"\n".join([*changed, b""])
            file.write_bytes(content)
            assert (texts(file), _counts(file)) == (said, counts)
            with Session.open(file, readonly=True) as session:
                (damage,) = session.verify()
            assert (damage.kind, damage.cause) == ("nul", "2 NUL bytes in the line")
            assert b"\0" in content[damage.offset :].partition(b"\n")[0]
            assert run("verify", file).exit_code == 1
    new = tmp_path / "new.jsonl"
    assert run("repair", file, "-o", new).exit_code == 0
    assert new.read_bytes() == b"\n".join([*lines, b""])


def _counts(file: Path) -> tuple[object, ...]:
    counts = CountCache(None).count(facts_of(str(file)))
    return counts.turns, counts.usage


def test_nul_bytes_behind_a_document_are_damage_and_repaired(tmp_path: Path) -> None:
    file, new = tmp_path / "session.json", tmp_path / "new.json"
    at = "2026-01-01T00:00:00.000Z"
    said = {"id": "u", "timestamp": at, "type": "user", "content": "say last"}
    chat = {"sessionId": "s", "projectHash": "0", "startTime": at, "lastUpdated": at}
    document = json.dumps({**chat, "messages": [said]}, indent=2).encode()
    file.write_bytes(document + b"\n\0\0")
    with Session.open(file, readonly=True) as session:
        assert [damage.kind for damage in session.verify()] == ["nul"]
        assert test_bad_input.last_said(session) == "say last"
    assert run("repair", file, "-o", new).exit_code == 0
    assert new.read_bytes().strip() == document


@for_each("made", LOGS)
def test_an_entry_is_found_behind_a_fragment_of_any_length(
    made: test_bad_input.Make, tmp_path: Path
) -> None:
    agent = recognise(made(tmp_path / "session.jsonl").read_bytes())
    assert agent is not None
    for line in (tmp_path / "session.jsonl").read_bytes().splitlines()[1:]:
        for end in range(1, len(line)):
            source = base.PartOfSource("x", [(0, line[:end] + line)])
            found = [each.text for each in base.numbered(source, agent.reader.line_keys)]
            assert found == [line[:end], line]


def test_what_an_unfinished_last_line_holds_is_read_with_it() -> None:
    """Its parts would be other entries than those of the whole line."""
    message = b'{"id":"1","timestamp":"t","type":"user"}'
    whole = b'{"$set":{"messages":[%b,%b],"n":-1.5e+3}}' % (message, message)
    keys = frozenset({"id", "timestamp", "type"}), frozenset({"$set"})

    class Growing(base.PartOfSource):
        def is_complete(self) -> bool:
            return False

    for before in (b"", whole):
        for end in range(1, len(whole)):
            source = Growing("x", [(0, before + whole[:end])])
            found = [line.text for line in base.numbered(source, keys)]
            assert found == [*filter(None, [before]), whole[:end]]
    source = Growing("x", [(0, b'{"id":"0","timestamp":"t","ty' + message)])
    assert [line.text for line in base.numbered(source, keys)][1:] == [message]


def test_a_log_of_gemini_laid_out_anew_is_not_a_document(tmp_path: Path) -> None:
    said = {"id": "1", "timestamp": "2026-01-01T00:00:00Z", "type": "user", "content": "hello"}
    first = {"sessionId": "s", "projectHash": "h", "kind": "main"}
    lines = [first, {"$set": {"messages": [said]}}, {**said, "id": "2", "content": "more"}]
    file = tmp_path / "session.jsonl"
    file.write_text("".join(json.dumps(line, indent=2) + "\n" for line in lines))
    assert ["hello" in texts(file)[0], "more" in texts(file)[1]] == [True, True]


def test_what_a_fragment_quotes_does_not_come_to_life(tmp_path: Path) -> None:
    file = test_bad_input.claude_code(tmp_path / "session.jsonl")
    call = b'"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t","input":{"a":1}}'
    torn = b'{"type":"assistant","uuid":"z","message":{"role":"assistant",' + call
    file.write_bytes(file.read_bytes() + torn + b"\n")
    with Session.open(file, readonly=True) as session:
        assert session.damage[-1].cause == "the line is not JSON and was skipped"
        assert test_bad_input.last_said(session) == "say last"


def test_an_object_is_found_whatever_stands_before_it() -> None:
    entry = b'{"type":"user","uuid":"u","parentUuid":null,"x":"a{\\"b\\":1}"}'
    keys = frozenset({"type", "uuid", "parentUuid"})
    rng = random.Random(5)
    for _ in range(300):
        before = bytes(rng.choices(b'{}[]:,"\\ax1 \n', k=rng.randrange(30))).replace(b"\n", b"")
        line = before + entry
        spans = spans_of_objects(line, lambda found: keys <= found.keys())
        if before.endswith(b"\\"):
            continue
        assert (len(before), len(line)) in spans or not before.rstrip(b" ").endswith(b"}"), before


def test_lines_read_ahead_in_vain_are_bounded() -> None:
    read = 0

    class Counted(base.PartOfSource):
        def lines(self):  # type: ignore[no-untyped-def]
            nonlocal read
            for each in super().lines():
                read += 1
                yield each

    lines = [(at * 2, b"{" + b" " * 200) for at in range(2_000)]
    given = list(base.numbered(Counted("x", lines), (frozenset({"a"}),)))
    assert [line.place.offset for line in given] == [at for at, _ in lines]
    assert read == len(lines)


def test_a_list_that_holds_no_lines_is_no_session(tmp_path: Path) -> None:
    file = tmp_path / "list.jsonl"
    file.write_text('[{"a": 1}, {"b": [2]}]\n')
    with pytest.raises(SessionTreeError, match=r"jq -c"):
        Session.open(file, readonly=True)
