"""Files of agents whose first line is lost, torn or cut: they are read, named and repaired."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiontree import MissingHeaderError, Session, Store, repair_file
from sessiontree.agents import recognise
from sessiontree.core.damage import Damage
from sessiontree.core.message import text_of
from sessiontree.importing.importer import import_session
from sessiontree.library import resume
from sessiontree.library.listing import facts_of
from tests.agents import test_breakages, test_codex, test_droid, test_gemini
from tests.support.table import for_each

Make = Callable[[Path], Path]

AT = "2026-01-01T00-00-00"
UUID = "01a204d6-b844-7b00-8691-55d64313dd2a"
NAMES = {
    "pi": f"{AT}-000Z_{UUID}.jsonl",
    "codex": f"rollout-{AT}-{UUID}.jsonl",
    "gemini": f"session-{AT[:-3]}-{UUID[:8]}.jsonl",
    "droid": f"{UUID}.jsonl",
}
IDS = {name: UUID[:8] if name == "gemini" else UUID for name in NAMES}


def droid(path: Path) -> Path:
    said = [
        {
            **test_droid.said(f"{n:08x}-0000-4000-8000-000000000000", role, f"say e{n}"),
            "timestamp": "2026-01-01T00:00:00.000Z",
        }
        for n, role in enumerate(["user", "assistant"] * 8)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in (test_droid.START, *said)))
    return path


MADE: dict[str, Make] = {
    "pi": test_breakages.pi,
    "codex": test_breakages.codex,
    "gemini": test_breakages.gemini,
    "droid": droid,
}


def lost(first: bytes, rest: bytes) -> bytes:
    return rest


def below_a_blank_line(first: bytes, rest: bytes) -> bytes:
    return b"\n" + rest


def cut(first: bytes, rest: bytes) -> bytes:
    return first[:12] + b"\n" + rest


def cut_at_the_start(first: bytes, rest: bytes) -> bytes:
    return first[10:] + rest


def torn(first: bytes, rest: bytes) -> bytes:
    return first[:12] + rest


def zeroed(first: bytes, rest: bytes) -> bytes:
    return bytes(len(first) - 1) + b"\n" + rest


BROKEN = [lost, below_a_blank_line, cut, cut_at_the_start, torn, zeroed]
CASES = [(agent, damage) for agent in MADE for damage in BROKEN]


def parts_of(agent: str, folder: Path) -> tuple[Path, bytes, bytes]:
    """A file of an agent, under a name that the agent gives, its first line and the others."""
    file = MADE[agent](folder / NAMES[agent])
    first, rest = file.read_bytes().split(b"\n", 1)
    return file, first + b"\n", rest


def broken(agent: str, damage: Callable[[bytes, bytes], bytes], folder: Path) -> Path:
    file, first, rest = parts_of(agent, folder)
    file.write_bytes(damage(first, rest))
    return file


def said_in(session: Session) -> list[str]:
    return [json.dumps(entry["message"]) for entry in session.path() if entry.type == "message"]


def headers(damage: list[Damage]) -> list[Damage]:
    return [one for one in damage if one.kind == "header"]


@for_each(("agent", "damage"), CASES)
def test_every_message_is_read_and_the_loss_is_reported_once(
    tmp_path: Path, agent: str, damage: Callable[[bytes, bytes], bytes]
) -> None:
    file, first, rest = parts_of(agent, tmp_path)
    with Session.open(file, readonly=True) as session:
        before = said_in(session)
    file.write_bytes(damage(first, rest))
    with Session.open(file, readonly=True) as session:
        assert said_in(session) == before
        assert len(before) == 16
        assert session.id == IDS[agent]
        (found,) = headers(session.verify())
        number = 2 if damage is below_a_blank_line else 1
        assert (found.line, found.offset) == (number, number - 1)
        assert "unreadable" not in {one.kind for one in session.verify()}
    info = facts_of(str(file))
    assert (info.id, info.first_message is not None) == (IDS[agent], True)
    assert (info.created or "")[:10] == "2026-01-01"


@for_each(("agent", "damage"), CASES)
def test_every_message_is_found_and_a_hit_names_its_entry(
    tmp_path: Path, agent: str, damage: Callable[[bytes, bytes], bytes]
) -> None:
    file = broken(agent, damage, tmp_path)
    with Session.open(file, readonly=True) as session:
        path = [entry for entry in session.path() if entry.type == "message"]
    texts = {entry.uuid: text_of(entry["message"]) for entry in path}
    for text in list(texts.values())[:3]:
        hits = [hit.ref for hit in Store(tmp_path).search(f'"{text}"')]
        assert hits == [uuid for uuid, said in texts.items() if text in said], text


@for_each(("agent", "damage"), CASES)
def test_a_repaired_copy_begins_with_a_header(
    tmp_path: Path, agent: str, damage: Callable[[bytes, bytes], bytes]
) -> None:
    file, copy = broken(agent, damage, tmp_path), tmp_path / "copy.jsonl"
    with Session.open(file, readonly=True) as session:
        before = said_in(session)
    done = repair_file(file, copy)
    assert done.remaining == []
    assert "put a new header before the first entry" in [one.what for one in done.mended]
    with Session.open(copy, readonly=True) as session:
        assert (session.id, said_in(session)) == (IDS[agent], before)
        assert session.verify() == []
    assert repair_file(copy, tmp_path / "again.jsonl").mended == []


@for_each("agent", [*MADE])
def test_a_header_below_an_entry_is_used_and_a_copy_has_it_first(
    tmp_path: Path, agent: str
) -> None:
    file = MADE[agent](tmp_path / "session.jsonl")
    first, rest = file.read_bytes().split(b"\n", 1)
    first += b"\n"
    with Session.open(file, readonly=True) as session:
        before, id = said_in(session), session.id
    line, others = rest.split(b"\n", 1)
    file.write_bytes(line + b"\n" + first + others)
    with Session.open(file, readonly=True) as session:
        assert (said_in(session), session.id) == (before, id)
        (found,) = headers(session.damage)
        assert (found.line, found.cause) == (2, "the header is not the first line")
    done = repair_file(file, tmp_path / "copy.jsonl")
    assert [one.what for one in done.mended] == ["moved the header to the first line"]
    assert (tmp_path / "copy.jsonl").read_bytes() == first + rest


def test_what_is_left_of_a_cut_header_is_used(tmp_path: Path) -> None:
    file, first, rest = parts_of("pi", tmp_path)
    file.write_bytes(first[: first.index(b', "cwd"') + 3] + b"\n" + rest)
    with Session.open(file, readonly=True) as session:
        assert session.id == "s"
        assert [one.cause for one in headers(session.damage)] == [
            "the header is damaged; its readable part is used"
        ]


def test_a_header_in_which_the_id_is_torn_gives_no_id(tmp_path: Path) -> None:
    file = broken("pi", lambda first, rest: first[: first.index(b'"s"') + 2] + rest, tmp_path)
    assert facts_of(str(file)).id == UUID
    with Session.open(file, readonly=True) as session:
        assert session.id == UUID


def test_a_line_of_gemini_that_sets_the_id_gives_it_back(tmp_path: Path) -> None:
    file = broken("gemini", lost, tmp_path)
    file.write_bytes(file.read_bytes() + b'{"$set": {"sessionId": "g-whole"}}\n')
    assert facts_of(str(file)).id == "g-whole"
    repair_file(file, tmp_path / "copy.jsonl")
    header = json.loads((tmp_path / "copy.jsonl").read_text().split("\n")[0])
    assert header["sessionId"] == "g-whole"


def test_a_torn_header_before_a_set_of_messages_makes_no_document(tmp_path: Path) -> None:
    asked = [test_gemini.user("u1", "first"), test_gemini.gemini("g1", "1")]
    lines = [{"$set": {"messages": asked}}, test_gemini.user("u2", "next")]
    file = test_gemini.log(tmp_path / "session.jsonl", *lines)
    first, rest = file.read_bytes().split(b"\n", 1)
    file.write_bytes(first[:40] + rest)
    with Session.open(file, readonly=True) as session:
        assert test_gemini.texts(session) == ["first", "1", "next"]


def test_the_working_directory_of_codex_is_in_a_later_line(tmp_path: Path) -> None:
    turn = {"type": "turn_context", "payload": {"cwd": "/home/me/app", "model": "gpt"}}
    file = tmp_path / NAMES["codex"]
    test_codex.written(file, {"timestamp": "2026-01-01", **turn}, test_codex.said("user", "hello"))
    file.write_bytes(file.read_bytes().split(b"\n", 1)[1])
    assert facts_of(str(file)).cwd == "/home/me/app"
    with Session.open(file, readonly=True) as session:
        assert session.header["cwd"] == "/home/me/app"
    repair_file(file, tmp_path / "copy.jsonl")
    meta = json.loads((tmp_path / "copy.jsonl").read_text().split("\n")[0])["payload"]
    assert (meta["id"], meta["cwd"]) == (UUID, "/home/me/app")


@for_each("agent", ["pi", "codex"])
def test_an_import_goes_on_after_the_header_is_lost(tmp_path: Path, agent: str) -> None:
    file, first, rest = parts_of(agent, tmp_path)
    named = re.sub(b'"id": "[^"]+"', f'"id": "{UUID}"'.encode(), first)
    file.write_bytes(named + rest)
    made = import_session(file, tmp_path / "store")
    file.write_bytes(cut(named, rest))
    again = import_session(file, tmp_path / "store")
    assert (again.file, again.new, again.made) == (made.file, 0, False)


@for_each("agent", [*MADE])
def test_resume_refuses_a_command_that_cannot_work(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = {
        "pi": ("PI_CODING_AGENT_DIR", "sessions/--p--"),
        "codex": ("CODEX_HOME", "sessions/2026/01/01"),
        "gemini": ("GEMINI_CLI_HOME", ".gemini/tmp/p/chats"),
        "droid": ("FACTORY_HOME_OVERRIDE", ".factory/sessions/-p"),
    }
    variable, folder = homes[agent]
    monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / folder).mkdir(parents=True)
    file = broken(agent, lost, tmp_path / folder)
    with pytest.raises(MissingHeaderError, match="does not open a file without one"):
        resume.plan(facts_of(str(file)), cwd=str(tmp_path))
    copy = tmp_path / "copy"
    repair_file(file, copy)
    copy.replace(file)
    found = resume.plan(facts_of(str(file)), cwd=str(tmp_path) if agent == "codex" else None)
    assert (found.file, found.is_converted) == (str(file), False)


OTHERS = [
    b'{"type":"message","id":"e1","parentId":null,"timestamp":"t","uuid":"u"}\n',
    b'{"type":"message","id":"e1","timestamp":"t","message":{"role":"user"}}\n',
    b'{"type":"weather","id":"e1","parentId":null,"timestamp":"t"}\n',
    b'{"id":"e1","timestamp":"t","type":"user","uuid":"u","content":"x"}\n',
    b'{"id":"e1","timestamp":"t","type":"query","content":"x"}\n',
    b'{"$set":{"color":"red"}}\n',
    b'{"note": {"type":"message","id":"e1","parentId":null,"timestamp":"t"}}\n',
]


@for_each("line", OTHERS)
def test_lines_of_other_programs_are_not_taken_for_those_of_an_agent(line: bytes) -> None:
    assert recognise(line * 3) is None
