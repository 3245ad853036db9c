"""Exports and forks: a part of a session as a session of its own."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import (
    BlobMissingError,
    ContentLostWarning,
    Entry,
    FileReplacedError,
    RefError,
    Session,
    SessionTreeWarning,
    StorageError,
    Store,
    UsageError,
)
from sessiontree.core.handle import Handle
from sessiontree.storage import blobs as storage
from sessiontree.storage.fs import Disk
from tests.support.conversation import (
    HEADER,
    assistant,
    chain,
    in_memory,
    line,
    message,
    opened,
    said,
    said_in,
    scratch,
    talk,
    user,
    write,
)
from tests.support.files import uuids_at
from tests.support.soak import amount
from tests.support.started import Reading
from tests.support.table import for_each
from tests.support.terminal import done
from tests.support.terminal import lines as lines_of


def _assert_copied(session: Session, copy: Path) -> None:
    """Every line of the copy but its header, and a last branch, is a line of the original."""
    originals = [entry.line for entry in session.entries()]
    lines = lines_of(copy)[1:]
    assert lines[:-1] == [line for line in originals if line in set(lines[:-1])]
    assert lines[-1] in originals or b'{"type":"branch"' in lines[-1]


def test_an_export_is_an_entry_and_all_below_it_byte_for_byte(
    file: Path, copy: Path, reading: Reading
) -> None:
    with reading(*chain("aaaa", "bbbb", "cccc"), *chain("dddd", below="bbbb")) as session:
        assert session.export_branch("bbbb", copy) == str(copy)
    assert lines_of(copy)[1:] == lines_of(file)[2:]
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
    assert lines_of(copy)[1:] == lines_of(file)[1:]


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
    assert lines_of(copy)[1:5] == lines_of(file)[1:]
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
@settings(deadline=None, max_examples=amount(40))
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


STAYED_BEHIND = "of scratch lanes that were never kept were not copied"


def says(file: Path) -> set[str]:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return {row.preview for row in session.tree() if row.type == "message"}


def test_an_export_leaves_behind_what_was_tried_below_it_and_its_blobs(
    file: Path, copy: Path
) -> None:
    with Session.create(file, spill_over=100) as main:
        first = main.append_message(user("p1"))
        with scratch(main, "tried") as trial:
            trial.append_message(user("x" * 1000))
        talk(main, "p2")
        with pytest.warns(SessionTreeWarning, match=f"^2 entries {STAYED_BEHIND}"):
            main.export_branch(first, copy)
    assert says(copy) == {"p1", "p2"}
    assert not copy.with_name("copy.jsonl.blobs").exists()


@pytest.mark.parametrize(
    "reach",
    [
        lambda main, tried: main.keep(str(tried.lane)),
        lambda main, tried: main.merge(tried),
        lambda main, tried: main.label(tried, "good-idea"),
        lambda main, tried: main.branch(tried),
        lambda main, tried: main.append(
            "handle", handle=str(Handle.entry(main.id, tried.uuid)), kind="message"
        ),
    ],
    ids=["a keep", "a merge", "a label", "a branch", "a handle"],
)
def test_an_export_takes_along_what_something_lasting_reaches(
    copy: Path, main: Session, reach: Callable[[Session, Entry], object]
) -> None:
    first = main.leaf
    with scratch(main, "tried") as trial:
        tried = trial.leaf
    main.refresh()
    reach(main, tried)
    talk(main, "p2")
    main.export_branch(first, copy)
    assert says(copy) == {"p1", "tried", "p2"}


@pytest.mark.parametrize("place", [0, 1])
def test_an_export_from_a_scratch_lane_takes_that_lane_and_no_other(
    copy: Path, place: int, main: Session
) -> None:
    with main.scratch() as trial:
        tried = [trial.append_message(user(f"t{n}")) for n in range(3)]
        with trial.scratch(at=tried[1]) as inner:
            talk(inner, "inner")
    with pytest.warns(SessionTreeWarning, match=f"^1 entry {STAYED_BEHIND}"):
        main.export_branch(tried[place], copy)
    assert says(copy) == {f"t{n}" for n in range(place, 3)}
    assert said_in(copy) == [f"t{n}" for n in range(place, 3)]


def test_an_export_from_a_session_on_a_scratch_lane_takes_where_it_stands(
    copy: Path, main: Session
) -> None:
    with scratch(main, "tried") as trial:
        trial.export_branch(main.leaf, copy)
    assert says(copy) == {"p1", "tried"}
    assert said_in(copy) == ["p1", "tried"]


def test_a_lasting_lane_comes_along(copy: Path, main: Session) -> None:
    with main.lane("agent-2") as agent:
        talk(agent, "report")
    main.export_branch(main.header, copy)
    assert says(copy) == {"report", "p1"}


def test_a_fork_takes_a_path_and_so_nothing_that_was_tried_beside_it(
    copy: Path, tmp_path: Path, main: Session
) -> None:
    with scratch(main, "tried") as trial:
        tip = trial.leaf
    talk(main, "p2")
    main.fork(copy)
    main.fork(tmp_path / "tried.jsonl", tip)
    assert says(copy) == {"p1", "p2"}
    assert says(tmp_path / "tried.jsonl") == {"p1", "tried"}
    assert said_in(tmp_path / "tried.jsonl") == ["p1", "tried"]


CONTENT = b"a screenshot" * 100


def flip(path: Path) -> None:
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def test_a_folder_of_blobs_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    class Full(Disk):
        def make_folder(self, path: str) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    with Session.create(tmp_path / "chat.jsonl") as session:
        session.attach(BytesIO(CONTENT), "text/plain")
    with (
        Session.open(tmp_path / "chat.jsonl", readonly=True, fs=Full()) as session,
        pytest.raises(StorageError, match=r"make \S*/copy\.jsonl\.blobs/\w{64}"),
    ):
        session.fork(tmp_path / "copy.jsonl")


@for_each("links", [True, False], ids=["hard links", "no hard links"])
@for_each("copy", [Session.fork, Session.export_branch])
def test_a_copy_does_not_take_over_a_damaged_blob(
    tmp_path: Path,
    copy: Callable[..., object],
    links: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not links:
        monkeypatch.setattr(storage, "link", lambda *given: False)
    file, made = tmp_path / "chat.jsonl", tmp_path / "copy.jsonl"
    with Session.create(file) as session:
        whole = session.attach(BytesIO(CONTENT), "text/plain")
        broken = session.attach(BytesIO(CONTENT + b"!"), "text/plain")
        (sha256,) = (name for name in os.listdir(f"{file}.blobs") if name in broken.line.decode())
        flip(Path(f"{file}.blobs") / sha256)
        arguments = [made] if copy is Session.fork else [whole, made]
        with pytest.warns(ContentLostWarning, match=f"lacks a blob.*damaged.*{sha256}"):
            copy(session, *arguments)
    names = os.listdir(f"{made}.blobs")
    assert len(names) == 1
    assert names[0] in whole.line.decode()
    with Session.open(made, readonly=True) as copied:
        assert [each.kind for each in copied.verify()] == ["blob"]
        with pytest.raises(BlobMissingError, match="is missing"):
            copied.blobs.read(sha256, len(CONTENT) + 1)


def test_a_copy_into_a_linked_folder_of_blobs_is_refused(tmp_path: Path) -> None:
    file, made, elsewhere = (tmp_path / name for name in ("chat.jsonl", "copy.jsonl", "elsewhere"))
    elsewhere.mkdir()
    Path(f"{made}.blobs").symlink_to(elsewhere)
    with Session.create(file) as session:
        session.attach(BytesIO(CONTENT), "text/plain")
        with pytest.raises(StorageError, match="is a link"):
            session.fork(made)
    assert os.listdir(elsewhere) == []
    assert not made.exists()


def spent(session: Session, tokens: int) -> Entry:
    return session.append_usage({"input": tokens})


def costs(file: str | Path) -> int:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return session.stats().usage.input


@pytest.fixture
def original(file: Path) -> Path:
    """A session that spent 1 on its title, 2 + 4 on the answer, 8 and 16 on two branches."""
    with Session.create(file) as session:
        spent(session, 1)
        prompt = session.append_message(user("prompt"))
        answer = session.append_message(assistant("answer"))
        spent(session, 2)
        session.label(prompt, "prompt")
        session.rename("chat")
        spent(session, 4)
        session.label(answer, "answer")
        session.append_message(user("one"))
        spent(session, 8)
        session.label("@", "one")
        session.switch(answer)
        session.append_message(user("two"))
        spent(session, 16)
        session.label("@", "two")
    return file


@pytest.mark.parametrize(
    ("ref", "costing"), [("prompt", 1), ("answer", 7), ("one", 15), ("two", 23)]
)
def test_each_way_to_copy_a_path_takes_its_costs_along(
    original: Path, tmp_path: Path, ref: str, costing: int
) -> None:
    forked, exported, by_command = (tmp_path / f"{number}.jsonl" for number in range(3))
    with Session.open(original) as session:
        origin = session.entry(ref)
        session.fork(forked, ref)
        if ref in ("one", "two"):  # nothing hangs below these that a fork would leave out
            session.export_branch(ref, exported, with_path=True)
            assert costs(exported) == costing
    done("fork", original, by_command, "--at", ref)
    stored = Store(tmp_path / "store").fork(str(original), ref)
    in_order = original.read_bytes().splitlines()
    for copy in (forked, by_command, stored):
        assert costs(copy) == costing
        with Session.open(copy, readonly=True) as session:
            assert session.reader.skip_markers(session.leaf) == origin
            lines = [entry.line for entry in session.entries() if entry.line in in_order]
        assert lines == [line for line in in_order if line in lines]


def test_a_copy_of_a_copy_costs_the_same(original: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with Session.open(original) as session:
        session.fork(first, "answer")
    with Session.open(first) as session:
        session.fork(second)
    assert costs(first) == costs(second) == 7


def test_a_merged_branch_brings_its_costs(original: Path, tmp_path: Path) -> None:
    with Session.open(original) as session:
        session.merge("one")
        spent(session, 32)
        session.fork(tmp_path / "copy.jsonl")
    assert costs(tmp_path / "copy.jsonl") == costs(original) == 63


def test_lanes_have_costs_of_their_own(file: Path, tmp_path: Path) -> None:
    with Session.create(file) as session:
        prompt = session.append_message(user("prompt"))
        with session.lane("agent") as agent, session.lane("scratch/try") as trial:
            for number, lane in enumerate((agent, trial, session)):
                lane.append_message(user("more"))
                spent(lane, 10**number)
            lane_tip, leaf = agent.leaf, session.leaf
        for entry, costing in ((prompt, 0), (lane_tip, 1), (leaf, 100)):
            copy = tmp_path / f"{costing}.jsonl"
            session.fork(copy, entry)
            assert costs(copy) == costing


def test_usage_counts_where_its_lane_stood(file: Path, tmp_path: Path) -> None:
    """Also where it hangs below an entry that a copy leaves out, or below an earlier one."""
    usage = {"usage": {"input": 1}, "kind": "x", "provider": None, "model": None}
    lines = (
        *chain("a"),
        line("session_info", "info", "a", name="chat"),
        line("usage", "u1", "info", **usage),
        message("far", "a", "on a lane") | {"lane": "agent"},
        line("usage", "u2", "u1", **usage),
        message("b", "a", "b"),
        line("usage", "u3", "a", **usage),
    )
    with opened(file, *lines, readonly=True) as session:
        for ref, costing in (("a", 2), ("b", 3)):
            session.fork(tmp_path / f"{ref}.jsonl", ref)
            assert costs(tmp_path / f"{ref}.jsonl") == costing
