"""Damaged sources: the rest is imported, the damage reported with its line, no traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from sessiontree import NothingToDoError, Session, SessionTreeError
from sessiontree.importing.importer import import_session
from tests.agents import test_pi
from tests.agents.conftest import state_of
from tests.agents.test_bad_input import ALL, LOGS, Make, odd_versions
from tests.importing.conftest import damage_in, imported, without_origins
from tests.support.files import kinds_in
from tests.support.table import for_each
from tests.support.terminal import done, refused
from tests.support.transcripts import user, written


def assert_imported_or_refused(file: Path, out: Path) -> bool:
    """Whether a file was imported; an import is checked against the file."""
    before = state_of(file.parent)
    refusal = made = None
    try:
        made = import_session(file, out)
    except SessionTreeError as error:
        refusal = str(error)
    assert state_of(file.parent) == before
    if made is None:
        assert str(file) in str(refusal)
        return False
    assert without_origins(made.file) == without_origins(file)
    assert {each.kind for each in damage_in(made.file)} <= {"utf-8"}
    assert import_session(file, out).is_up_to_date
    assert all(str(found) for found in made.damage)
    return True


@for_each("made", ALL)
def test_a_file_cut_or_damaged_anywhere_is_imported_or_refused(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "source" / "s.jsonl")
    whole = file.read_bytes()
    dice = random.Random(3)
    taken = 0
    for number in range(15):
        content = bytearray(whole[: dice.randint(len(whole) // 3, len(whole))])
        for _ in range(dice.randrange(4)):
            content[dice.randrange(len(content))] = dice.choice(b'\0\n"{}[],:x\xff\\')
        file.write_bytes(content)
        taken += assert_imported_or_refused(file, tmp_path / f"out{number}")
    assert taken > 2


@for_each("made", ALL)
def test_any_value_in_any_place_is_imported_or_refused(made: Make, tmp_path: Path) -> None:
    file = made(tmp_path / "source" / "s.jsonl")
    for number, _ in enumerate(odd_versions(file, made, seed=4, count=25)):
        assert_imported_or_refused(file, tmp_path / f"out{number}")


@pytest.mark.parametrize("made", LOGS)
def test_lines_of_other_formats_are_imported(made: Make, tmp_path: Path, out: Path) -> None:
    file = made(tmp_path / "source" / "s.jsonl")
    lines = file.read_bytes().splitlines()
    foreign = [other(tmp_path / "other.jsonl").read_bytes().splitlines()[1] for other in LOGS]
    strange = [b'{"type":"next-year","data":[1]}', b"[1]", b"no JSON"]
    file.write_bytes(b"\n".join([lines[0], *foreign, *strange, *lines[1:], b""]))
    made_of = imported(file, out)
    (lost,) = [found for found in made_of.damage if found.kind == "unreadable"]
    assert (lost.file, lost.line) == (str(file), 8)
    with Session.open(made_of.file, readonly=True) as session:
        kept = {entry["customType"].partition(":")[2] for entry in session.find(type="custom")}
    assert {"next-year", "line"} <= kept


def test_references_to_missing_entries_are_mended_and_reported(tmp_path: Path, out: Path) -> None:
    entry, message = test_pi.entry, test_pi.message
    lines = [
        test_pi.HEADER,
        message("e1", None, "user", "one"),
        entry("e2", "e1", "compaction", summary="sum", firstKeptEntryId="gone", tokensBefore=1),
        message("e3", "e2", "user", "two"),
        entry("e4", "e3", "branch_summary", fromId="root", summary="was at the top"),
        entry("e5", "e4", "branch_summary", fromId="gone", summary="was nowhere"),
        entry("e6", "e5", "label", targetId="gone", label="mark"),
        entry("e7", "e6", "context_edit", targetId="gone", replacement=None),
        message("e9", "late", "user", "three"),
        message("late", "e7", "user", "four"),
        message("e10", "e9", "user", "five"),
    ]
    file = test_pi.written(tmp_path / "source" / "s.jsonl", lines)
    assert assert_imported_or_refused(file, out)
    again = import_session(file, tmp_path / "again")
    assert kinds_in(again.damage) == [("reference", line) for line in (3, 7, 8)]
    with Session.open(again.file, readonly=True) as session:
        assert session.entry("e4")["fromUuid"] == session.header.uuid
        assert session.entry("e2")["original"]["firstKeptEntryUuid"] == "gone"
        assert session.entry("e6")["data"]["label"] == "mark"
        kinds = [session.entry(f"e{number}").get("customType") for number in (6, 7)]
        assert kinds == ["pi:label", "pi:context_edit"]


def test_an_import_cuts_cycles_where_reading_in_place_cuts_them(tmp_path: Path) -> None:
    dice = random.Random(5)
    for number in range(30):
        ids = [f"e{n}" for n in range(dice.randint(1, 6))]
        lines = [test_pi.HEADER]
        lines += [test_pi.message(id, dice.choice([*ids, "gone"]), "user", id) for id in ids]
        file = test_pi.written(tmp_path / f"t{number}" / "s.jsonl", lines)
        assert assert_imported_or_refused(file, tmp_path / f"out{number}")


@pytest.mark.parametrize("id", ["../../up", "/root/x", "a\0b", "x" * 5_000, ".", "..", "\n", "é"])
def test_no_session_id_leads_an_import_out_of_the_folder(
    id: str, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = {**test_pi.HEADER, "id": id, "timestamp": f"../{id}", "cwd": f"/p/../../{id}"}
    lines = [header, test_pi.message("e1", None, "user", "one")]
    file = test_pi.written(tmp_path / "source" / "s.jsonl", lines)
    before = sorted(path for path in tmp_path.rglob("*") if out not in path.parents)
    assert assert_imported_or_refused(file, out)
    assert [path.parent for path in out.rglob("*.jsonl")] == [out]
    monkeypatch.setenv("SESSIONTREE_HOME", str(out / "home"))
    done("import", file)
    assert len(list((out / "home").rglob("*.jsonl"))) == 1
    found = {path for path in tmp_path.rglob("*") if out not in path.parents}
    assert found == {*before, out}


def test_lone_surrogates_and_large_numbers_are_imported(tmp_path: Path, out: Path) -> None:
    text = '{"big":123456789012345678901234567890,"exp":1e400000,"lone":"\\ud800","n":1.10}'
    line = json.dumps(user("a\ud800", None, toolUseResult="HERE")).replace('"HERE"', text)
    huge = json.dumps(user("b", None, ["\ud800" + "x" * 100_000, 10**30, "y" * 100_000]))
    file = written(tmp_path / "source" / "s.jsonl", [user("z", None)])
    with file.open("a") as source:
        source.write(line + "\n" + huge + "\n")
    assert_imported_or_refused(file, out)
    content = Path(import_session(file, out).file).read_text()
    assert "123456789012345678901234567890" in content
    assert "1.10" in content


def test_a_sessiontree_file_and_an_unknown_file_are_not_imported(tmp_path: Path, out: Path) -> None:
    Session.create(tmp_path / "ours.jsonl").close()
    with pytest.raises(NothingToDoError, match="already"):
        import_session(tmp_path / "ours.jsonl", out)
    newer = b'{"type":"session","version":9}'
    for content in (b"", b"\n", b"no", b"{}", newer, b"\x28\xb5\x2f\xfd"):
        (tmp_path / "bad.jsonl").write_bytes(content)
        (told,) = refused("import", tmp_path / "bad.jsonl", "-o", out).splitlines()
        assert str(tmp_path / "bad.jsonl") in told
    assert not list(out.glob("*.jsonl"))
