"""Damaged foreign files: the error names the file and line, the rest is read, nothing changes."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import ForeignFormatError, ReadOnlyError, Session, SessionTreeError, import_session
from tests.agents import test_codex, test_gemini, test_pi
from tests.agents.conftest import CLAUDE_CODE, CORPUS, NO_CORPUS, state_of
from tests.support.table import for_each
from tests.support.terminal import refused, run
from tests.support.transcripts import assistant, line, result, user, written

Make = Callable[[Path], Path]
Promise = Callable[[Path], None]


def claude_code(path: Path) -> Path:
    return written(
        path,
        [
            {"type": "summary", "summary": "A title", "leafUuid": "a"},
            user("a", None, cwd="/project"),
            assistant("b", "a", "m", ["t"]),
            line("p", "b", "progress"),
            result("r", "b", "t"),
            user("last", "r"),
        ],
    )


def pi(path: Path) -> Path:
    return test_pi.written(path, test_pi.EVERYTHING)


def codex(path: Path) -> Path:
    turns = (test_codex.said("user", "one"), test_codex.call("c"), test_codex.output("c"))
    return test_codex.written(path, *turns, test_codex.said("user", "last"))


def gemini(path: Path) -> Path:
    return test_gemini.log(path, *test_gemini.MESSAGES, test_gemini.user("u9", "last"))


def gemini_document(path: Path) -> Path:
    return test_gemini.document(path, *test_gemini.MESSAGES, test_gemini.user("u9", "last"))


LOGS = [claude_code, pi, codex, gemini]
ALL = [*LOGS, gemini_document]
COMMANDS = ("show", "tree", "path", "context", "branches", "stats", "verify", "search")


def last_said(session: Session) -> str:
    content = session.context().messages[-1]["content"]
    return content if isinstance(content, str) else str(content[-1].get("text"))


def everything_of(file: Path) -> None:
    """Read a session in every way; only an error of sessiontree may be raised."""
    with Session.open(file, readonly=True) as session:
        for entry in session.entries():
            session.original(entry)
        session.context()
        session.context(verbatim=True)
        list(session.render(all=True))
        session.branches()
        session.verify()
        assert all(str(found) for found in session.damage)


def ask(file: Path) -> None:
    """The same for a file that may be refused with an error that names it."""
    said = str(file)
    try:
        everything_of(file)
    except SessionTreeError as error:
        said = str(error)
    assert str(file) in said


@pytest.mark.parametrize("made", ALL)
def test_every_command_that_reads_works_and_touches_nothing(
    made: Make, tmp_path: Path, untouched: Promise
) -> None:
    file = made(tmp_path / "t" / "s.jsonl")
    untouched(file.parent)
    for command in COMMANDS:
        given = ["last", file] if command == "search" else [file]
        for more in ([], ["--json"]):
            done = run(command, *given, *more)
            assert done.exit_code == 0, (command, done.output, done.stderr)
            assert done.stdout or command == "verify"


@pytest.mark.parametrize("made", ALL)
def test_a_foreign_file_is_not_written_to(made: Make, tmp_path: Path, untouched: Promise) -> None:
    file = made(tmp_path / "t" / "s.jsonl")
    untouched(file.parent)
    with pytest.raises(ForeignFormatError, match=f"{file} is a file of .* import it"):
        Session.open(file)
    for command in (["append", "--role", "user", "--text", "x"], ["repair"], ["migrate"]):
        assert "import it" in refused(command[0], file, *command[1:])
    with Session.open(file, readonly=True) as session:
        for write in (lambda: session.append("custom", customType="x"), session.scratch):
            with pytest.raises(ReadOnlyError, match=f"{file.name}: .*import it"):
                write()
        with pytest.raises(SessionTreeError):
            session.repair()


@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
def test_real_transcripts_are_left_untouched() -> None:
    before = state_of(CORPUS / "claude-code")
    for file in CLAUDE_CODE:
        everything_of(file)
        with Session.open(file, readonly=True) as session:
            assert session.damage == session.verify() == []
            lines = file.read_bytes().splitlines()
            made_of = [session.original(entry) for entry in session.entries()]
        assert set(made_of) == set(lines)
    assert state_of(CORPUS / "claude-code") == before


@for_each("made", ALL)
def test_translating_twice_gives_the_same_lines(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "s.jsonl")
    with Session.open(file, readonly=True) as one, Session.open(file, readonly=True) as other:
        assert [e.line for e in one.entries()] == [e.line for e in other.entries()]


@for_each("made", LOGS)
def test_a_torn_last_line_is_reported_and_the_rest_is_read(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "s.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole + whole.splitlines()[-1][:20])
    with Session.open(file, readonly=True) as session:
        (found,) = session.damage
        assert (found.kind, found.line) == ("cut short", whole.count(b"\n") + 1)
        assert found.offset == len(whole)
        assert last_said(session) == ("say last" if made is claude_code else "last")


@for_each("made", LOGS)
def test_a_last_line_without_its_newline_is_a_line(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "s.jsonl")
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    with Session.open(file, readonly=True) as session:
        assert session.damage == []
        assert last_said(session) == ("say last" if made is claude_code else "last")


@for_each("made", LOGS)
def test_lines_of_other_formats_are_kept_and_told_once_a_type(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "s.jsonl")
    lines = file.read_bytes().splitlines()
    foreign = [other(tmp_path / "other.jsonl").read_bytes().splitlines()[1] for other in LOGS]
    strange = [b'{"type":"next-year","data":[1]}', b'{"type":"next-year"}', b"[1]", b"no JSON"]
    file.write_bytes(b"\n".join([lines[0], *foreign, *strange, b"", b"\0\0", *lines[1:], b""]))
    with Session.open(file, readonly=True) as session:
        assert [note.count for note in session.notes if note.type == "next-year"] == [2]
        (unreadable,) = [found for found in session.damage if found.kind == "unreadable"]
        assert unreadable.line == 9
        kept = {entry["customType"].partition(":")[2] for entry in session.find(type="custom")}
        assert {"next-year", "line"} <= kept
        assert last_said(session) == ("say last" if made is claude_code else "last")
    everything_of(file)


@for_each("made", ALL)
def test_a_file_cut_or_damaged_anywhere_is_read_or_refused(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "s.jsonl")
    whole = file.read_bytes()
    dice = random.Random(1)
    for _ in range(60):
        content = bytearray(whole[: dice.randint(1, len(whole))])
        for _ in range(dice.randrange(4)):
            content[dice.randrange(len(content))] = dice.choice(b'\0\n"{}[],:x\xff\\')
        file.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(file)


ODD: list[Any] = [None, True, 7, -1.5, "", "x", "\ud800", [], [1], {}, {"type": "text"}, 10**30]


def odd_versions(file: Path, made: Make, *, seed: int, count: int) -> Iterator[None]:
    """Write the file with an unusual value in a random place before each step."""
    text = file.read_text()
    documents = [text] if made is gemini_document else text.splitlines()
    lines = [json.loads(document) for document in documents]
    dice = random.Random(seed)
    for _ in range(count):
        changed = json.loads(json.dumps(lines))
        where: Any = changed
        while True:
            keys = range(len(where)) if isinstance(where, list) else list(where)
            key = dice.choice(list(keys))
            if not isinstance(where[key], dict | list) or not where[key] or dice.random() < 0.3:
                where[key] = dice.choice(ODD)
                break
            where = where[key]
        file.write_text("".join(json.dumps(found) + "\n" for found in changed))
        yield


@pytest.mark.slow
@for_each("made", ALL)
def test_any_value_in_any_place_is_read_or_refused(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "s.jsonl")
    for _ in odd_versions(file, made, seed=2, count=150):
        ask(file)


@for_each("made", ALL)
def test_an_integer_of_5000_digits_costs_nothing_beside_it(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "s.jsonl")
    with Session.open(file, readonly=True) as session:
        messages = session.context().messages
    content = file.read_bytes()
    start = content.index(b'"messages"') if made is gemini_document else 0
    at = content.index(b"{", start) + 1
    file.write_bytes(content[:at] + b'"huge":' + b"1" * 5000 + b"," + content[at:])
    ask(file)
    with Session.open(file, readonly=True) as session:
        assert session.context().messages == messages


def test_a_reader_sees_what_the_agent_adds(tmp_path: Path) -> None:
    file = claude_code(tmp_path / "s.jsonl")
    with file.open("a") as out:
        out.write(json.dumps(line("end", "last", "progress")) + "\n")
    with Session.open(file, readonly=True) as session:
        assert session.leaf.type == "branch"
        with file.open("a") as out:
            out.write(json.dumps(assistant("new", "last")) + "\n")
        session.refresh()
        assert session.leaf.uuid == "new"
        written(file, [user("other", None, sessionId="another")])
        with pytest.raises(SessionTreeError, match="replaced"):
            session.refresh()


def test_metadata_names_the_files_of_large_results(tmp_path: Path) -> None:
    said = "<persisted-output>\nOutput too large (36.8KB). Full output saved to: "
    said += "/home/me/.claude/projects/-p/s/tool-results/b1.txt\n\nPreview (first 2KB):\n…"
    block = {"type": "tool_result", "tool_use_id": "t", "content": said}
    lines = [user("a", None), assistant("b", "a", "m", ["t"]), user("r", "b", [block])]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert session.leaf["metadata"] == {"toolResults": ["s/tool-results/b1.txt"]}
        assert session.context().messages[-1]["content"] == [block]


def test_a_fork_of_a_foreign_session_is_a_sessiontree_file(tmp_path: Path) -> None:
    file = claude_code(tmp_path / "s.jsonl")
    with Session.open(file, readonly=True) as session:
        expected = session.context().messages
        session.fork(tmp_path / "ours.jsonl")
    with Session.open(tmp_path / "ours.jsonl") as session:
        assert session.context().messages == expected
        session.append_message({"role": "user", "content": "go on"})
        assert session.verify() == []


@for_each("make", ALL)
def test_verify_and_import_report_a_byte_that_is_not_utf_8(make: Make, tmp_path: Path) -> None:
    file = make(tmp_path / "session-a.json")
    content = file.read_bytes()
    assert content.count(b"last") >= 1
    at = content.rindex(b"last")
    file.write_bytes(content[:at] + b"\xe9" + content[at + 1 :])
    with Session.open(file, readonly=True) as session:
        found = session.verify()
    assert [each.kind for each in found] == ["utf-8"]
    assert found[0].line == content[:at].count(b"\n") + 1
    assert found[0].cause == f"invalid UTF-8 {at - found[0].offset} bytes into the line"
    assert [each.kind for each in import_session(file, tmp_path / "out").damage] == ["utf-8"]


def test_an_unreadable_line_is_reported_once(tmp_path: Path) -> None:
    file = claude_code(tmp_path / "s.jsonl")
    file.write_bytes(file.read_bytes() + b"\xff\xfe\n" + b'{"type": \xe2')
    with Session.open(file, readonly=True) as session:
        assert [each.kind for each in session.verify()] == ["unreadable", "cut short"]
    told = import_session(file, tmp_path / "out").damage
    assert [each.kind for each in told] == ["unreadable", "cut short"]


def tangled_claude_code(path: Path) -> Path:
    lines = [user("a", "b"), result("r", "a", "t"), assistant("b", "a", "m", ["t"])]
    return written(path, [*lines, user("c", "b"), user("d", "d"), user("last", "nowhere")])


def tangled_pi(path: Path) -> Path:
    returned = {"toolCallId": "c1", "toolName": "ls"}
    return test_pi.written(
        path,
        [
            test_pi.HEADER,
            test_pi.message("a", "b", "user", "one"),
            test_pi.message("r", "a", "toolResult", test_pi.text("out"), **returned),
            test_pi.message("b", "r", "assistant", test_pi.CALL),
            test_pi.message("c", "c", "user", "itself"),
            test_pi.message("last", "nowhere", "user", "last"),
        ],
    )


def tangled_codex(path: Path) -> Path:
    turns = (test_codex.output("c"), test_codex.call("c"), test_codex.said("user", "one"))
    after = (test_codex.rolled_back(99), test_codex.said("user", "last"))
    return test_codex.written(path, *turns, *after)


def tangled_gemini(path: Path) -> Path:
    back = ({"$rewindTo": "nowhere"}, {"$rewindTo": None}, {"$set": {"messages": 7}})
    return test_gemini.log(path, *test_gemini.MESSAGES, *back, test_gemini.user("u9", "last"))


@pytest.mark.parametrize("made", [tangled_claude_code, tangled_pi, tangled_codex, tangled_gemini])
def test_wrong_parents_are_reported_and_every_message_is_found(
    made: Make, tmp_path: Path, untouched: Promise
) -> None:
    file = made(tmp_path / "t" / "s.jsonl")
    folder = file.parent
    untouched(folder)
    for command in ("ls", "search last", "tree", "context", "verify"):
        place = folder if command == "ls" else file
        done = run(*command.split(), place)
        assert done.exit_code == 0 or (command, done.exit_code) == ("verify", 1)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        known = (f"{file}", "call", "the entry before")
        assert all(any(each in said for each in known) for said in done.stderr.splitlines())
        assert "last" in done.stdout or command in ("ls", "verify")
    everything_of(file)


@for_each(
    ("record", "named"),
    [
        ({"session_id": "s", "ts": 1, "text": "t"}, "the list of prompts of Codex"),
        ({"id": "s", "thread_name": "n", "updated_at": "t"}, "the list of names of Codex"),
        ({"display": "d", "timestamp": 1, "project": "/p"}, "the list of prompts of Claude Code"),
    ],
)
def test_a_record_of_an_agent_is_named_as_what_it_is(
    tmp_path: Path, record: dict[str, object], named: str
) -> None:
    file = tmp_path / "record.jsonl"
    file.write_text(json.dumps(record) + "\n")
    with pytest.raises(SessionTreeError, match=named):
        Session.open(file, readonly=True)
