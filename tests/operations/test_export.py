"""Exports and forks: a part of a session as a session of its own."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Entry, FileReplacedError, RefError, Session, UsageError
from tests.support.conversation import (
    HEADER,
    chain,
    in_memory,
    line,
    message,
    opened,
    said,
    said_in,
    talk,
    user,
    write,
)
from tests.support.files import uuids_at
from tests.support.started import Reading


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


def _assert_copied(session: Session, copy: Path) -> None:
    """Every line of the copy but its header, and a last branch, is a line of the original."""
    originals = [entry.line for entry in session.entries()]
    lines = _lines(copy)[1:]
    assert lines[:-1] == [line for line in originals if line in set(lines[:-1])]
    assert lines[-1] in originals or b'{"type":"branch"' in lines[-1]


def test_an_export_is_an_entry_and_all_below_it_byte_for_byte(
    file: Path, copy: Path, reading: Reading
) -> None:
    with reading(*chain("aaaa", "bbbb", "cccc"), *chain("dddd", below="bbbb")) as session:
        assert session.export_branch("bbbb", copy) == str(copy)
    assert _lines(copy)[1:] == _lines(file)[2:]
    with Session.open(copy) as session:
        assert session.header.uuid == "aaaa"
        assert [entry.uuid for entry in session.path()] == ["aaaa", "bbbb", "dddd"]
        assert said(session.context("cccc")) == ["bbbb", "cccc"]
        assert session.damage == []
        origin = session.header["parentSession"]
        assert (origin["id"], origin["uuid"], origin["file"]) == ("abc", "bbbb", str(file))
        assert session.id not in ("abc", "")


def test_an_export_with_its_path_reaches_up_to_the_header(copy: Path, reading: Reading) -> None:
    with reading(*chain("aaaa", "bbbb", "cccc"), *chain("dddd", below="aaaa")) as session:
        session.export_branch("bbbb", copy, with_path=True)
        _assert_copied(session, copy)
    with Session.open(copy) as session:
        assert [entry.uuid for entry in session.path()] == ["root", "aaaa", "bbbb", "cccc"]
        assert "cutAbove" not in session.header["parentSession"]


def test_a_fork_is_the_path_to_the_leaf_or_to_a_ref(
    tmp_path: Path, copy: Path, reading: Reading
) -> None:
    with reading(*chain("aaaa", "bbbb", "cccc"), *chain("dddd", below="aaaa")) as session:
        session.fork(copy)
        session.fork(tmp_path / "at.jsonl", at="bbbb")
    assert uuids_at(copy) == ["root", "aaaa", "dddd"]
    assert uuids_at(tmp_path / "at.jsonl") == ["root", "aaaa", "bbbb"]
    with Session.open(tmp_path / "at.jsonl", readonly=True) as session:
        assert session.header["parentSession"]["uuid"] == "bbbb"


def test_a_copy_goes_on_where_the_original_stood(tmp_path: Path, file: Path, copy: Path) -> None:
    with opened(file, *chain("aaaa", "bbbb", "cccc"), *chain("dddd", below="bbbb")) as session:
        session.switch("cccc")
        session.export_branch("bbbb", copy)
        session.fork(tmp_path / "fork.jsonl", at="cccc")
    assert said_in(copy) == ["bbbb", "cccc"]
    with Session.open(tmp_path / "fork.jsonl") as session:
        assert session.leaf.uuid == "cccc"


def test_a_copy_ends_with_a_branch_where_its_last_line_is_not_the_leaf(
    copy: Path, session: Session
) -> None:
    first, _ = talk(session, "p1", "a1")
    session.label(first, "start")
    session.fork(copy, at=first)
    with Session.open(copy) as session:
        types = [entry.type for entry in session.entries()]
        assert types == ["session", "message", "label", "branch"]
        assert (session.leaf.parent_uuid, session.leaf.lane) == (first.uuid, None)
        assert session.entry("start") == first
        assert said(session.context()) == ["p1"]


def test_a_fork_of_another_lane_goes_on_on_main(file: Path, copy: Path, main: Session) -> None:
    with main.lane("agent-2") as side:
        talk(side, "s1", "s2")
        side.fork(copy)
        _assert_copied(side, copy)
    with Session.open(copy) as session:
        assert said(session.context()) == ["p1", "s1", "s2"]
        assert (session.leaf.type, session.leaf.lane) == ("branch", None)
    assert said_in(copy, "agent-2") == ["p1", "s1", "s2"]


def test_merged_branches_and_their_labels_come_along(
    tmp_path: Path, copy: Path, reading: Reading
) -> None:
    with reading(
        *chain("aaaa"),
        *chain("x1", "x2", below="aaaa"),
        *chain("y1", below="aaaa"),
        line("merge", "m1", "y1", mergedUuid="x2", baseUuid="aaaa"),
        *chain("z1", below="aaaa"),
        line("merge", "m2", "z1", mergedUuid="m1", baseUuid="aaaa"),
        line("label", "l1", "m2", targetUuid="x1", label="inner"),
        line("label", "l2", "m2", targetUuid="other", label="left"),
        *chain("other", below="aaaa"),
        *chain("z2", below="m2"),
    ) as session:
        assert said(session.context()) == ["aaaa", "z1", "y1", "x1", "x2", "z2"]
        session.fork(copy)
        session.export_branch("z1", tmp_path / "export.jsonl")
    with Session.open(copy) as session:
        assert said(session.context()) == ["aaaa", "z1", "y1", "x1", "x2", "z2"]
        assert session.entry("inner").uuid == "x1"
    assert {"l2", "other"}.isdisjoint(uuids_at(copy))
    with Session.open(tmp_path / "export.jsonl") as session:
        assert said(session.context()) == ["z1", "y1", "x1", "x2", "z2"]
        assert session.context().warnings == []
        assert session.damage == []


@pytest.fixture
def cut(session: Session, copy: Path) -> Path:
    """An export from inside what a compaction kept, whose first entry was cut off."""
    talk(session, "m0", "m1", "m2", "m3")
    session.compact("in short", first_kept=session.path()[2])
    talk(session, "m4")
    assert said(session.context()) == ["in short", "m1", "m2", "m3", "m4"]
    session.export_branch(session.path()[3], copy)
    return copy


CUT = ["in short", "m2", "m3", "m4"]


def test_an_export_from_inside_a_compaction_shows_everything_on_its_path(cut: Path) -> None:
    with Session.open(cut) as session:
        assert said(session.context()) == CUT
        assert session.context().warnings == []


@pytest.mark.parametrize("how", ["fork", "export", "fork of a fork"])
def test_a_copy_of_a_cut_session_shows_the_same(tmp_path: Path, cut: Path, how: str) -> None:
    again = tmp_path / "again.jsonl"
    with Session.open(cut) as session:
        if how == "export":
            session.export_branch(session.path()[1], again)
        else:
            session.fork(again)
    expected = CUT
    if how == "fork of a fork":
        with Session.open(again) as session:
            talk(session, "m5")
            again = Path(session.fork(tmp_path / "third.jsonl"))
        expected = [*CUT, "m5"]
    with Session.open(again) as session:
        assert said(session.context()) == expected
        assert session.context().warnings == []


def test_an_export_tells_the_settings_in_force_above_it(copy: Path) -> None:
    with in_memory(metadata={"model": {"provider": "p", "modelId": "old"}, "own": 1}) as session:
        session.append_message({"role": "system", "content": "Be brief."})
        session.set_model("anthropic", "new")
        session.set_thinking_level("high")
        top = session.append_message(user("p1"))
        session.set_model("anthropic", "newest")
        session.export_branch(top, copy)
    with Session.open(copy) as session:
        context = session.context(top.uuid)
        assert context.model == {"provider": "anthropic", "modelId": "new"}
        assert (context.thinking_level, context.system) == ("high", "Be brief.")
        assert session.metadata["own"] == 1


def test_a_copy_keeps_the_facts_of_the_session_and_not_the_agents_own_id(
    file: Path, copy: Path
) -> None:
    metadata = {"agentSessionId": "theirs", "owner": "me"}
    header = {**HEADER, "version": 7, "format": "sessiontree/2", "vendor": {"x": 1.0}}
    write(file, [{**header, "metadata": metadata, "name": "old"}, *chain("aaaa")])
    with Session.open(file) as session:
        session.rename("talk")
        session.update_metadata(team="blue")
        session.fork(copy)
    with Session.open(copy) as session:
        assert session.header["vendor"] == {"x": 1.0}
        assert session.header["cwd"] == "/project"
        assert session.name == "talk"
        assert session.metadata == {"owner": "me", "team": "blue"}
        assert (session.header["version"], session.header["format"]) == (2, "sessiontree/2")
        assert session.id != "abc"
        keys = list(session.header)
        assert keys[:7] == ["type", "version", "format", "uuid", "parentUuid", "timestamp", "id"]


def test_a_copy_of_a_session_in_memory_names_no_file(copy: Path, session: Session) -> None:
    talk(session, "p1", "a1")
    session.fork(copy)
    assert said_in(copy) == ["p1", "a1"]
    with Session.open(copy) as copied:
        origin = {"id": session.id, "uuid": session.leaf.uuid}
        assert copied.header["parentSession"] == origin


def test_nothing_to_copy_makes_no_file(copy: Path, session: Session) -> None:
    with pytest.raises(UsageError, match="nothing below the header"):
        session.fork(copy)
    with pytest.raises(RefError):
        session.fork(copy, at="nowhere")
    assert not copy.exists()


def test_damaged_and_foreign_lines_are_copied_as_they_are(file: Path, copy: Path) -> None:
    write(file, [HEADER, *chain("aaaa")])
    odd = (
        b'{ "parentUuid" : "aaaa", "x":1.50e0, "uuid":"bbbb", "type":"message", '
        b'"message":{"role":"user","content":"\\ud800"},"crc":"00000000"}\r\n'
    )
    with file.open("ab") as lines:
        lines.write(odd + b'{"type":"unknown","uuid":"cccc","parentUuid":"bbbb","k":[1]}')
    with Session.open(file, readonly=True) as session:
        session.fork(copy)
    assert odd in copy.read_bytes()
    assert uuids_at(copy) == ["root", "aaaa", "bbbb", "cccc"]


def test_a_copy_reports_a_wrong_checksum_on_its_way_and_keeps_the_line(
    file: Path, copy: Path
) -> None:
    with Session.create(file, durability="os") as session:
        talk(session, "one", "two", "three")
    file.write_bytes(file.read_bytes().replace(b'"two"', b'"tow"'))
    with Session.open(file, readonly=True) as session:
        session.fork(copy)
        assert [found.kind for found in session.damage] == ["crc"]
    assert _lines(copy)[1:] == _lines(file)[1:]


def test_a_line_rewritten_in_place_since_it_was_read_is_not_copied(
    file: Path, copy: Path, reading: Reading
) -> None:
    with reading(*chain("aaaa", "bbbb")) as session:
        session.children("aaaa")  # the whole file is known now
        file.write_bytes(file.read_bytes().replace(b'"uuid": "aaaa"', b'"uuid": "eeee"'))
        with pytest.raises(FileReplacedError, match="changed while open"):
            session.fork(copy)
    assert not copy.exists()


def test_an_export_of_the_header_is_the_whole_session(
    file: Path, copy: Path, reading: Reading
) -> None:
    with reading(
        *chain("aaaa", "bbbb"),
        *chain("cccc", below="aaaa"),
        line("label", "l1", "cccc", targetUuid="aaaa", label="x"),
    ) as session:
        session.export_branch("root", copy)
    assert _lines(copy)[1:5] == _lines(file)[1:]
    assert said_in(copy) == ["aaaa", "cccc"]


def test_an_orphan_is_exported_below_the_uuid_it_names(copy: Path, reading: Reading) -> None:
    with reading(*chain("aaaa"), *chain("bbbb", "cccc", below="gone")) as session:
        session.fork(copy)
    assert uuids_at(copy) == ["gone", "bbbb", "cccc"]


KINDS = ["user", "assistant", "branch", "pop", "compact", "merge", "edit", "label", "model"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30)), min_size=1, max_size=25)


def _play(session: Session, steps: list[tuple[str, int]]) -> None:
    for number, (step, choice) in enumerate(steps):
        entries = list(session.entries())
        entry = entries[choice % len(entries)]
        with suppress(UsageError):
            if step in ("user", "assistant"):
                session.append_message({"role": step, "content": f"{step} {number}"})
            elif step == "branch":
                session.branch(entry, summary=f"left {number}" if choice % 2 else None)
            elif step == "pop":
                session.pop(summary=f"popped {number}")
            elif step == "compact":
                path = session.path()
                session.compact(f"short {number}", first_kept=path[choice % len(path)])
            elif step == "merge":
                session.merge(entry)
            elif step == "edit":
                session.edit_context(entry, None if choice % 2 else f"edited {number}")
            elif step == "label":
                session.label(entry, f"label{number}")
            else:
                session.set_model("p", f"model{number}")


def _shown(session: Session, at: str | Entry) -> dict[str, Any]:
    shown = session.context(at).as_dict()
    del shown["leaf"]
    return shown


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(STEPS, st.integers(0, 40), st.integers(0, 40))
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
def test_a_copy_shows_what_the_original_shows(
    steps: list[tuple[str, int]], at: int, top: int
) -> None:
    with in_memory() as session, tempfile.TemporaryDirectory() as folder:
        _play(session, steps)
        entries = [entry for entry in session.entries() if entry.type != "session"]
        if not entries:
            return
        leaf = entries[at % len(entries)]
        fork, again, export = (Path(folder, name) for name in ("fork", "again", "export"))
        session.fork(fork, at=leaf)
        _assert_copied(session, fork)
        with Session.open(fork) as copied:
            assert _shown(copied, "@") == _shown(session, leaf)
            assert copied.damage == []
            copied.fork(again)
        with Session.open(again) as copied:
            assert _shown(copied, "@") == _shown(session, leaf)
        above = entries[top % len(entries)]
        session.export_branch(above, export, with_path=True)
        _assert_copied(session, export)
        with Session.open(export) as copied:
            for entry in copied.entries():
                is_whole = copied.path(entry)[0] == copied.header  # a label may hang elsewhere
                if is_whole and any(entry.uuid == e.uuid for e in entries):
                    assert _shown(copied, entry) == _shown(session, entry.uuid)


def test_a_message_that_quotes_the_header_does_not_confuse_a_copy(
    copy: Path, reading: Reading
) -> None:
    quoting = message("aaaa", "root", '{"uuid":"root","parentUuid":null}')
    with reading(quoting, *chain("bbbb", below="aaaa")) as session:
        session.export_branch("bbbb", copy)
    assert uuids_at(copy) == ["aaaa", "bbbb"]


def test_a_fork_of_an_exported_subtree_keeps_what_its_compaction_kept(
    tmp_path: Path, copy: Path, session: Session
) -> None:
    talk(session, "p1", "a1")
    kept, _ = talk(session, "p2", "a2")
    top, _ = talk(session, "p3", "a3")
    session.compact("All so far.", first_kept=kept)
    session.export_branch(top, copy)
    with Session.open(copy) as cut:
        cut.fork(tmp_path / "fork.jsonl")
        assert said(cut.context())[1:] == ["p3", "a3"]
        with Session.open(tmp_path / "fork.jsonl", readonly=True) as fork:
            assert fork.header["parentSession"]["cutAbove"] is True
            assert fork.context().messages == cut.context().messages
