"""The states of a file: what each says, what the last commit adds, and which one a name means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sessiontree.edits.tools import Edit, Replacement, SeenLines
from sessiontree.errors import RefError, TooMuchError, UsageError
from sessiontree.history.edits import FileEvent
from sessiontree.history.replay import KnownContent
from sessiontree.library import file_history
from sessiontree.library.file_edits import Reason, SessionEdit
from sessiontree.library.file_history import FileState, state_at, states
from tests.history.test_outcomes import Project
from tests.support.table import for_each


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A file whose first commit has the line `one`."""
    return Project(tmp_path)


def found(project: Project) -> list[FileState]:
    return states(str(project.file), lambda: [str(project.session)], pytest.fail)


def told(project: Project) -> list[tuple[Any, ...]]:
    """Of each state the content, or the lines that are known, and whether a commit tells it."""
    return [
        (state.content.text or state.content.lines, state.commit is not None)
        for state in found(project)
    ]


def test_an_edit_that_fits_the_last_commit_has_all_lines_by_it(project: Project) -> None:
    project.edit(1, "one", "two")
    project.edit(2, "two", "three")
    assert told(project) == [("two\n", True), ("three\n", True)]
    one, _ = found(project)
    assert one.as_dict() == {
        "uuid": "e0c",
        "time": "2026-03-01T09:01:00+00:00",
        "agent": "claude-code",
        "session": one.edit.session,
        "turn": "1",
        "file": str(project.session),
        "kind": "edit",
        "path": str(project.file),
        "known": 1,
        "gaps": [],
        "exists": True,
        "commit": one.commit,
    }


def test_an_edit_that_does_not_fit_the_last_commit_is_not_based_on_it(project: Project) -> None:
    project.file.write_text("another\n")
    project.edit(1, "another", "two")
    project.file.write_text("of a person\n")
    project.commit(3)
    project.edit(4, "of a person", "of an agent")
    assert told(project) == [([], False), ("of an agent\n", True)]


def test_a_commit_after_an_edit_is_no_base_of_it(project: Project) -> None:
    project.file.write_text("two\n")
    project.commit(5)
    project.file.write_text("one\n")
    project.edit(4, "one", "four")
    project.edit(6, "two", "six")
    assert [has_commit for _, has_commit in told(project)] == [True, False]


def state(
    uuid: str = "12345678",
    time: str | None = None,
    content: KnownContent | None = None,
    **event: Any,
) -> FileState:
    edit = event.pop("edit", Edit("a.py", "write"))
    happened = FileEvent(
        uuid, "c", "Write", time, None, None, "/p/a.py", "done", edit=edit, **event
    )
    seen = SessionEdit("/s.jsonl", "id", None, happened, Reason(turn="2"))
    return FileState(seen, content or KnownContent(text="x\n"), None)


def test_a_state_names_the_path_that_a_move_gave() -> None:
    moved = state(to="/p/b.py", edit=Edit("a.py", "move", to="b.py")).as_dict()
    looked = state(edit=None, seen=SeenLines("a.py", "x\n")).as_dict()
    assert (moved["path"], moved["kind"], moved["turn"]) == ("/p/b.py", "move", "2")
    assert (looked["path"], looked["kind"], looked["commit"]) == ("/p/a.py", "read", None)


def gaps_at(count: int) -> KnownContent:
    """A content of which every second line is not known, with so many gaps."""
    return KnownContent(lines=["a", None] * count, is_end_known=True)


@for_each(
    ("content", "said"),
    [
        (KnownContent(text=""), ""),
        (KnownContent(text="a"), "a"),
        (KnownContent(lines=["a", "b"], is_end_known=True), "a\nb\n"),
    ],
)
def test_a_state_that_is_known_is_given(content: KnownContent, said: str) -> None:
    assert state(content=content).text() == state(content=content).text(marked=True) == said


@for_each(
    ("content", "missing", "marked"),
    [
        (
            KnownContent(lines=["a", None, None, "b"]),
            "lines 2 to 3, lines from 5 on",
            "a\n<<< not known: lines 2 to 3 >>>\nb\n<<< not known: lines from 5 on >>>\n",
        ),
        (KnownContent(), "lines from 1 on", "<<< not known: lines from 1 on >>>\n"),
        (gaps_at(1), "line 2", "a\n<<< not known: line 2 >>>\n"),
        (gaps_at(10), ", ".join(f"line {n}" for n in range(2, 21, 2)), None),
        (gaps_at(11), ", ".join(f"line {n}" for n in range(2, 21, 2)) + " and 1 more", None),
    ],
)
def test_a_state_that_is_not_known_is_given_only_with_its_gaps_marked(
    content: KnownContent, missing: str, marked: str | None
) -> None:
    with pytest.raises(UsageError, match=f"missing: {re.escape(missing)}$") as refused:
        state(content=content).text()
    assert refused.value.step == "allow gaps"
    if marked is not None:
        assert state(content=content).text(marked=True) == marked


@for_each("marked", [False, True])
def test_a_state_without_the_file_has_no_content(marked: bool) -> None:
    with pytest.raises(UsageError, match="the edit 12345678 deleted the file") as refused:
        state(content=KnownContent(is_there=False)).text(marked=marked)
    assert refused.value.step == "see states"


NAMED = [
    state("abcd1", "2026-03-01T09:00:00Z"),
    state("abcd1", "2026-03-01T09:01:00Z"),
    state("abce2", "2026-03-01T09:02:00Z"),
    state("2026a", "2026-03-01T09:03:00Z"),
]


@for_each(
    ("at", "number"),
    [
        ("abcd1", 1),
        ("abcd", 1),
        ("abce", 2),
        ("2026", 3),
        ("2026-03-01T09:00:00Z", 0),
        ("2026-03-01T09:01:59Z", 1),
        ("2027-01-01", 3),
        ("latest", 3),
        ("last", 3),
    ],
)
def test_a_state_is_named_by_its_uuid_or_by_a_time(at: str, number: int) -> None:
    assert state_at(NAMED, at) is NAMED[number]


def test_the_latest_state_is_the_last_one_with_the_file() -> None:
    gone = state("dddd1", content=KnownContent(is_there=False))
    assert state_at([*NAMED, gone], "latest") is NAMED[-1]
    assert state_at([gone], "latest") is gone


@for_each(
    ("at", "cause", "step"),
    [
        ("abc", "'abc' is not a time, and no state of the file has this id", "see states"),
        ("abcf", "'abcf' is not a time, and no state of the file has this id", "see states"),
        ("2026-03-01T08:59:59Z", "no session changed or read the file before 2026", "see states"),
    ],
)
def test_a_name_of_no_state_is_refused(at: str, cause: str, step: str) -> None:
    with pytest.raises(RefError, match=re.escape(cause)) as refused:
        state_at(NAMED, at)
    assert (refused.value.ref, refused.value.step) == (at, step)


def test_the_start_of_two_uuids_is_refused() -> None:
    two = [*NAMED, state("abcd2")]
    with pytest.raises(RefError, match="'abcd' is the start of 3 uuids") as refused:
        state_at(two, "abcd")
    assert refused.value.ref == "abcd"
    assert state_at(two, "abcd2") is two[-1]


def test_states_are_kept_up_to_a_size(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.edit(1, "one", "two")
    project.edit(2, "nowhere", "else", "String to replace not found in file.")
    project.edit(3, "two", "three")
    size = len("two\n") + len("three\n")
    monkeypatch.setattr(file_history, "MAX_KEPT", size)
    assert len(found(project)) == 2
    monkeypatch.setattr(file_history, "MAX_KEPT", size - 1)
    with pytest.raises(TooMuchError):
        found(project)


def test_a_line_of_a_state_counts_as_eight_characters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks = [
        state(str(n), edit=None, seen=SeenLines("a.py", "z", first=n, total=n)).edit for n in (3, 5)
    ]
    monkeypatch.setattr(file_history, "edits_of", lambda *_: looks)
    monkeypatch.setattr(file_history, "MAX_KEPT", 8 * (3 + 5))
    assert len(states(str(tmp_path / "a.py"), list, pytest.fail)) == 2
    monkeypatch.setattr(file_history, "MAX_KEPT", 8 * (3 + 5) - 1)
    with pytest.raises(TooMuchError):
        states(str(tmp_path / "a.py"), list, pytest.fail)


def test_a_write_needs_no_repository_and_a_look_at_the_same_is_no_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events: list[Edit | SeenLines] = [
        Edit("a.py", "write", content="a\nb\n"),
        SeenLines("a.py", "a\nb\n", is_whole=True),
        Edit("a.py", "edit", swaps=(Replacement("b", "c"),)),
        SeenLines("a.py", "z", first=3, total=3),
        SeenLines("a.py", "z", first=3, total=3),
    ]
    edits = [
        state(str(number), edit=event if isinstance(event, Edit) else None).edit
        if isinstance(event, Edit)
        else state(str(number), edit=None, seen=event).edit
        for number, event in enumerate(events)
    ]
    monkeypatch.setattr(file_history, "edits_of", lambda *_: edits)
    kept = states(str(tmp_path / "a.py"), list, pytest.fail)
    assert [(one.name, one.content.text or one.content.lines) for one in kept] == [
        ("0", "a\nb\n"),
        ("2", "a\nc\n"),
        ("3", [None, None, "z"]),
    ]
