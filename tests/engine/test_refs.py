"""Refs: how an entry is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import InvalidNameError, RefError, Session, UsageError
from sessiontree.engine.cursor import Cursor
from tests.support.conversation import (
    HEADER,
    chain,
    in_memory,
    line,
    opened,
    said,
    talk,
    user,
    write,
)
from tests.support.table import for_each


@pytest.fixture
def tree(file: Path) -> Path:
    lines = [
        *chain("aaaa-1", "aaaa-2", "bbbb-1", "bbbb-1x"),
        line("label", "lab1", "bbbb-1x", targetUuid="aaaa-1", label="start"),
        line("branch", "mark", "aaaa-2", name="side"),
        *chain("cccc-1", "cccc-2", below="mark"),
    ]
    return write(file, [HEADER, *lines])


@for_each(
    "ref, uuid",
    [
        *(("@", "cccc-2"), ("@~0", "cccc-2"), ("@~", "cccc-1"), ("@~1", "cccc-1")),
        *(("@~2", "aaaa-2"), ("@~3", "aaaa-1"), ("~", "cccc-1"), ("~3", "aaaa-1")),
        *(("root", "root"), ("aaaa-2", "aaaa-2"), ("bbbb-1", "bbbb-1"), ("bbbb-1~1", "aaaa-2")),
        *(("cccc-1", "cccc-1"), ("mark", "mark"), ("start", "aaaa-1"), ("side", "cccc-2")),
        *(("side~2", "aaaa-2"), ("lab1", "lab1")),
    ],
)
def test_every_form_of_ref(tree: Path, ref: str, uuid: str) -> None:
    with Session.open(tree, readonly=True) as session:
        assert session.entry(ref).uuid == uuid
        assert session.entry(session.entry(ref)).uuid == uuid


def test_a_unique_prefix_of_four_characters_is_enough() -> None:
    with in_memory() as session:
        entry = session.append_message(user("p1"))
        assert session.entry(entry.uuid[:8]) == entry
        assert session.entry(entry.uuid[:8] + "~0") == entry


@for_each("ref", ["aaaa", "aaaa-", "aaaa~1", "bbbb"])
def test_an_ambiguous_prefix_lists_its_candidates(tree: Path, ref: str) -> None:
    with Session.open(tree, readonly=True) as session, pytest.raises(RefError) as caught:
        session.entry(ref)
    names = [f"{ref[:4]}-1", "bbbb-1x" if ref.startswith("b") else "aaaa-2"]
    assert list(caught.value.candidates) == names
    assert all(name in str(caught.value) for name in names)


@for_each(
    "ref",
    [
        *["", "aaa", "aa-1", "nowhere", "@~99", "@~-1", "@@", "aaaa-3", "star", "side~9", "@~1~1x"],
        "@~" + "9" * 5000,  # more digits than Python makes a number of
    ],
)
def test_an_unknown_ref_is_an_error_that_names_it(tree: Path, ref: str) -> None:
    with Session.open(tree, readonly=True) as session, pytest.raises(RefError) as caught:
        session.entry(ref)
    assert caught.value.ref in (ref, ref.rsplit("~", 1)[0])


def test_a_near_miss_is_offered(tree: Path) -> None:
    with Session.open(tree, readonly=True) as session:
        for ref, near in (("strat", "start"), ("sides", "side"), ("cccc-9", "cccc-1")):
            with pytest.raises(RefError, match="did you mean") as caught:
                session.entry(ref)
            assert near in caught.value.candidates


def test_steps_count_entries_with_content_only() -> None:
    with in_memory() as session:
        first = session.append_message(user("p1"))
        session.set_model("anthropic", "m")
        session.push()
        second = session.append_message(user("a1"))
        session.append("custom", customType="x")
        session.branch("@")
        session.append("label", targetUuid=first.uuid, label="x")
        assert session.entry("@~0").type == "custom"
        assert session.entry("@~1") == second
        assert session.entry("@~2") == first


def test_steps_start_at_the_entry_that_markers_mark() -> None:
    with in_memory() as session:
        first, second = talk(session, "p1", "a1")
        session.branch(second)
        session.push()
        assert session.entry("@~0") == second
        assert session.entry("@~1") == first


def test_a_whole_uuid_goes_before_a_name_and_a_name_before_a_prefix(file: Path) -> None:
    lines = [
        *chain("aaaa", "bbbb", "cccc-1"),
        line("label", "l1", "cccc-1", targetUuid="aaaa", label="bbbb"),
        line("label", "l2", "cccc-1", targetUuid="bbbb", label="cccc"),
    ]
    with opened(file, *lines) as session:
        assert session.entry("bbbb").uuid == "bbbb"
        assert session.entry("cccc").uuid == "bbbb"


def test_a_label_equal_to_a_branch_name_in_a_foreign_file_is_ambiguous(file: Path) -> None:
    lines = [
        *chain("aaaa", "bbbb"),
        line("label", "l1", "bbbb", targetUuid="aaaa", label="both"),
        line("branch", "mark", "aaaa", name="both"),
        *chain("cccc", below="mark"),
    ]
    with opened(file, *lines) as session, pytest.raises(RefError, match="ambiguous") as caught:
        session.entry("both")
    assert set(caught.value.candidates) == {"aaaa", "cccc"}


def test_a_name_that_means_the_same_entry_twice_is_not_ambiguous(file: Path) -> None:
    lines = [
        *chain("aaaa"),
        line("branch", "mark", "aaaa", name="both"),
        *chain("cccc", below="mark"),
        line("label", "l1", "cccc", targetUuid="cccc", label="both"),
    ]
    with opened(file, *lines) as session:
        assert session.entry("both").uuid == "cccc"


def test_a_name_taken_by_a_label_or_a_branch_is_refused() -> None:
    with in_memory() as session:
        first, second = talk(session, "p1", "a1")
        session.label(first, "one")
        session.branch(second, name="two")
        talk(session, "p3")
        refused: list[Callable[[], object]] = [
            lambda: session.label(second, "one"),
            lambda: session.label(second, "two"),
            lambda: session.branch(second, name="one"),
            lambda: session.append("label", targetUuid=second.uuid, label="one"),
            lambda: session.append("branch", name="two"),
        ]
        for attempt in refused:
            with pytest.raises(InvalidNameError, match="taken"):
                attempt()
        session.label(first, "one")
        session.label(first, None)
        session.label(second, "one")
        assert session.entry("one") == second


ILLEGAL = [
    *("", "a b", "a@b", "a~1", "a:b", "@", "a\tb", "a\nb", "\x07", "a\u00a0b", "a\u202eb"),
    *("\u2028", "\ud800", 5, " a", "a ", "a  b"),
]


@for_each("name", ILLEGAL)
def test_an_illegal_name_is_refused_and_nothing_written(path: Path, name: Any) -> None:
    with Session.open(path) as session:
        first = session.leaf
        before = path.read_bytes()
        refused: list[Callable[[], object]] = [
            lambda: session.branch(first, name=name),
            lambda: session.append("branch", name=name),
            lambda: Session.open(path, lane=name),
        ]
        if name != "a b":
            refused.append(lambda: session.label(first, name))
            refused.append(lambda: session.append("label", targetUuid=first.uuid, label=name))
        for attempt in refused:
            with pytest.raises(UsageError):
                attempt()
        assert path.read_bytes() == before


@for_each(
    "name",
    ["größe", "分支", "ветка", "غصن", "می‌خواهم", "नाम", "ห้อง", "🌳", "a/b", "v1.2-rc_3", "#1"],
)
def test_a_name_may_be_of_any_script(path: Path, name: str) -> None:
    with Session.open(path) as session:
        first = session.leaf
        session.label(first, name)
        session.branch(first, name=name + "2")
        tip = session.append_message(user("p2"))
    with Session.open(path, readonly=True) as session:
        assert session.entry(name) == first
        assert session.entry(name + "2") == tip
        assert session.entry(name + "2~1") == first


def test_an_entry_of_another_session_is_refused() -> None:
    with in_memory() as session, in_memory() as other:
        foreign = other.append_message(user("p1"))
        talk(session, "p1")
        for refused in (session.switch, session.path, session.context, session.children):
            with pytest.raises(RefError, match="not in"):
                refused(foreign)


def test_an_entry_read_elsewhere_from_the_same_session_is_taken(file: Path) -> None:
    with Session.create(file, cwd="/p") as session:
        talk(session, "p1", "a1")
        with Session.open(file, readonly=True) as reader:
            entry = reader.entry("@~1")
            session.branch(entry)
            assert session.leaf.parent_uuid == entry.uuid
            assert reader.leaf.parent_uuid == entry.uuid


@for_each("ref", [None, 5, b"root", ["root"]])
def test_what_is_no_ref_is_refused(ref: object) -> None:
    with in_memory() as session, pytest.raises(ValueError, match="a ref is"):
        session.entry(ref)  # type: ignore[arg-type]


def test_a_lane_is_named_by_its_name_where_it_stands(tree: Path) -> None:
    with Session.open(tree) as main:
        with main.lane("reviewer") as reviewer, reviewer.scratch() as trial:
            first, last = talk(reviewer, "r1", "r2")
            reviewer.append("usage", kind="title", provider="p", model="m", usage={})
            tried = trial.append_message(user("t"))
            name = trial.lane_name
        assert main.entry("reviewer") == last
        assert main.entry("reviewer~") == first
        assert main.entry(name) == tried
        assert main.entry("main") == main.leaf
        assert said(main.context("reviewer"))[-2:] == ["r1", "r2"]
        merged = main.merge("reviewer")
        assert merged["mergedUuid"] == last.uuid
        with pytest.raises(RefError, match=f"did you mean .*{name}"):
            main.entry(name[:-1] + "_")


def test_a_label_or_branch_name_goes_before_a_lane_and_a_lane_before_a_prefix(tree: Path) -> None:
    with Session.open(tree) as main:
        for name in ("start", "side", "bbbb", "cccc-1"):
            with main.lane(name) as lane:
                lane.append_message(user(name))
        assert main.entry("start").uuid == "aaaa-1"
        assert main.entry("side").uuid == "cccc-2"
        assert main.entry("bbbb")["message"]["content"] == "bbbb"
        assert main.entry("cccc-1").uuid == "cccc-1"


def test_a_name_that_would_hide_a_lane_is_refused(tree: Path) -> None:
    with Session.open(tree) as main, main.lane("reviewer") as reviewer:
        last = reviewer.append_message(user("r"))
        before = tree.read_bytes()
        for name in ("reviewer", "main"):
            with pytest.raises(InvalidNameError, match=f"{name!r} is taken by a lane"):
                main.label("@~", name)
            with pytest.raises(InvalidNameError, match="choose another"):
                main.branch("@~", name=name)
            with pytest.raises(InvalidNameError, match="choose another"):
                main.append("label", targetUuid=last.uuid, label=name)
        assert tree.read_bytes() == before
        assert main.entry("reviewer") == last


def test_a_lane_that_only_annotated_is_named_by_its_annotation(tree: Path) -> None:
    with Session.open(tree) as main, main.lane("labels") as labels:
        label = labels.label("@", "here")
        assert main.entry("labels") == label


def test_a_prefix_that_is_too_short_is_named_as_one() -> None:
    with Session.create() as session, pytest.raises(RefError, match="a prefix has 4 characters"):
        session.entry("zz")


def test_a_label_with_spaces_is_a_ref_plain_or_in_quotation_marks(path: Path) -> None:
    with Session.open(path) as session:
        first, second, *_ = talk(session, "one", "two", "three")
        session.label(second, "a good state")
        session.label(first, '"so called"')
    with Session.open(path, readonly=True) as session:  # without the index, then with it
        for _ in range(2):
            for ref in ("a good state", '"a good state"', '"a good state"@~0', "a good state~0"):
                assert session.entry(ref) == second
            for ref in ('"a good state"~1', '"a good state"@~', "a good state~1", '"so called"'):
                assert session.entry(ref) == first
            for ref in ('"a good state', 'a good state"', '""', '"a good state"x', '"', '"a"b"'):
                with pytest.raises(RefError):
                    session.entry(ref)
            list(session.tree())


def test_a_cursor_without_a_session_knows_no_turns() -> None:
    with in_memory() as session:
        session.append_message(user("p1"))
        assert session.entry("turn:1") == session.leaf
        with pytest.raises(RefError, match="the turn 1 is not known here"):
            Cursor(session.reader, None).entry("turn:1")
