"""Labels, names, metadata and usage: they speak for the whole file and move nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import EntryError, RefError, Session
from tests.support.conversation import assistant, chain, in_memory, line, opened, said, talk, user
from tests.support.table import for_each


def test_your_parent_is_what_you_saw(file: Path) -> None:
    with Session.create(file, cwd="/p") as one:
        start = one.append_message(user("p1"))
        with Session.open(file) as other:
            theirs = other.append_message(assistant("a1"))
            mine = one.append_message(assistant("a2"))
            assert mine.parent_uuid == theirs.parent_uuid == start.uuid
            assert other.append_message(user("p2")).parent_uuid == theirs.uuid
            assert one.append_message(user("p3")).parent_uuid == mine.uuid
            assert said(one.context()) == ["p1", "a2", "p3"]
            assert said(other.context()) == ["p1", "a1", "p2"]
    with Session.open(file, readonly=True) as reader:
        assert said(reader.context()) == ["p1", "a2", "p3"]


def test_refresh_shows_what_others_wrote_and_moves_a_reader_alone(file: Path) -> None:
    with Session.create(file, cwd="/p") as one, Session.open(file, readonly=True) as reader:
        start = one.append_message(user("p1"))
        assert reader.leaf == reader.header
        reader.refresh()
        assert reader.leaf == start
        with Session.open(file) as other:
            other.append_message(assistant("a1"))
        assert one.children(start) == []
        one.refresh()
        assert one.leaf == start
        assert len(one.children(start)) == 1


def test_an_annotation_hangs_below_the_leaf_in_the_file_and_moves_nobody(file: Path) -> None:
    """The annotator saw less than the file holds: its label must not steal the leaf."""
    with Session.create(file, cwd="/p") as writer:
        start = writer.append_message(user("p1"))
        with Session.open(file) as annotator:
            newest = writer.append_message(assistant("a1"))
            label = annotator.label(start, "start")
            assert label.parent_uuid == newest.uuid
            assert annotator.leaf == start
            assert writer.append_message(user("p2")).parent_uuid == newest.uuid
            assert annotator.rename("talk").parent_uuid == writer.leaf.uuid
    with Session.open(file, readonly=True) as reader:
        assert said(reader.context()) == ["p1", "a1", "p2"]
        assert (reader.name, reader.entry("start")) == ("talk", start)


def test_an_annotation_after_another_keeps_the_leaf_in_its_path(file: Path) -> None:
    with Session.create(file, cwd="/p") as session:
        talk(session, "p1", "a1")
        leaf = session.leaf
        session.label("@", "x")
        session.rename("n")
        session.append("usage", kind="chat", provider="p", model="m", usage={"input": 1})
        assert session.leaf == leaf
    with Session.open(file) as session:
        assert session.leaf.type == "usage"
        assert said(session.context()) == ["p1", "a1"]
        session.append_message(user("p2"))
        assert said(session.context()) == ["p1", "a1", "p2"]


@for_each("lane", ["main", "side"])
def test_annotations_hang_below_each_other(file: Path, lane: str) -> None:
    with Session.create(file, lane=lane) as session:
        (said_first,) = talk(session, "p1")
        noted = [session.label("@", "here"), session.rename("n"), session.update_metadata(a=1)]
        above = [said_first, *noted[:-1]]
        assert [each.parent_uuid for each in noted] == [entry.uuid for entry in above]
        assert session.leaf == said_first


def test_a_label_is_set_moved_and_cleared(file: Path) -> None:
    with Session.create(file, cwd="/p") as session:
        first = session.append_message(user("p1"))
        second = session.append_message(user("p2"))
        session.label(first, "one")
        session.label(first, "uno")
        with pytest.raises(RefError):
            session.entry("one")
        assert session.entry("uno") == first
        session.label(first, None)
        session.label(second, "uno")
        assert session.entry("uno") == second
        assert [row.label for row in session.tree()][1:3] == [None, "uno"]


def test_the_latest_label_in_file_order_wins_wherever_it_hangs(tmp_path: Path) -> None:
    lines = [
        *chain("aaaa", "bbbb"),
        line("label", "l1", "bbbb", targetUuid="aaaa", label="deep"),
        line("label", "l2", "root", targetUuid="aaaa", label="high"),
        line("session_info", "i1", "bbbb", name="first", metadata={"a": 1, "b": 1}),
        line("session_info", "i2", "root", metadata={"b": 2, "c": None}),
        line("session_info", "i3", "aaaa", name="last"),
        *chain("cccc", below="bbbb"),
    ]
    with opened(tmp_path / "s.jsonl", *lines, readonly=True) as session:
        assert session.entry("high").uuid == "aaaa"
        with pytest.raises(RefError):
            session.entry("deep")
        assert session.name == "last"
        assert session.metadata == {"a": 1, "b": 2, "c": None}


def test_an_annotation_takes_no_parent() -> None:
    with in_memory() as session:
        first = session.append_message(user("p1"))
        with pytest.raises(EntryError, match="parent"):
            session.append("label", targetUuid=first.uuid, label="x", parent=first)


def test_update_metadata_patches_key_by_key(file: Path) -> None:
    with Session.create(file, cwd="/p", metadata={"a": 1, "nested": {"x": 1}}) as session:
        session.update_metadata(b=[1], nested={"y": 2})
        session.update_metadata(a=None)
        assert session.metadata == {"a": None, "nested": {"y": 2}, "b": [1]}
        session.metadata["b"] = "only in this dict"
        assert session.metadata["b"] == [1]
    with Session.open(file, readonly=True) as session:
        assert session.metadata == {"a": None, "nested": {"y": 2}, "b": [1]}
        assert session.header["metadata"] == {"a": 1, "nested": {"x": 1}}


def test_a_session_is_renamed(file: Path) -> None:
    with Session.create(file, cwd="/p", name="one") as session:
        assert session.name == "one"
        session.rename("Größe of 分支 🌳")
        assert session.name == "Größe of 分支 🌳"
        for refused in ("", "  ", "a\nb", "\x1b[2J", None, 5):
            with pytest.raises(EntryError, match="name"):
                session.rename(refused)  # type: ignore[arg-type]
        with pytest.raises(EntryError):
            session.update_metadata()
    with pytest.raises(EntryError, match="name"):
        Session.create(cwd="/p", name=5)  # type: ignore[arg-type]


def test_what_a_trial_says_of_the_session_outlasts_it(file: Path) -> None:
    later = datetime.now(UTC) + timedelta(days=8)
    with Session.create(file, cwd="/p") as main:
        asked = main.append_message(user("p1"))
        with main.scratch() as trial:
            tried = trial.append_message(assistant("tried"))
            told = [
                trial.label(asked, "start"),
                trial.rename("talk"),
                trial.append("session_info", metadata={"a": 1}),
            ]
            own = trial.label(tried, "mine")
            assert [entry.lane for entry in told] == [None] * 3
            above = [entry.parent_uuid for entry in told]
            assert above == [entry.uuid for entry in (asked, *told[:2])]
            assert own.parent_uuid == trial.leaf.uuid == tried.uuid
            assert own.lane == trial.lane_name
            assert trial.append_message(user("more")).parent_uuid == tried.uuid
        gone = {entry.uuid for entry in main.gc(now=later).entries}
        assert own.uuid in gone
        assert gone.isdisjoint(entry.uuid for entry in told)
        assert (main.name, main.metadata["a"], main.entry("start")) == ("talk", 1, asked)
        assert main.append_message(user("p2")).parent_uuid == asked.uuid
        assert main.verify() == []


def test_a_trial_in_a_batch_labels_main_below_what_main_has(file: Path) -> None:
    with Session.create(file, cwd="/p") as main:
        asked = main.append_message(user("p1"))
        with main.scratch() as trial, trial.batch():
            trial.append_message(assistant("tried"))
            labels = [trial.label(asked, "one"), trial.rename("two")]
            trial.append_message(assistant("tried more"))
        assert {entry.parent_uuid for entry in labels} == {asked.uuid}
        assert main.append_message(user("p2")).parent_uuid == asked.uuid
        assert main.verify() == []
