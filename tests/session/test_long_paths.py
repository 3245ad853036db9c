"""A path is gone up in the memory of what is asked for, and gives what `path` would."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session, summarize
from sessiontree.core.codec import FORMAT, VERSION, encode
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.recording.recorder import StreamAccumulator
from sessiontree.text.pattern import Pattern
from tests.support.conversation import user, write
from tests.support.soak import amount, in_soak
from tests.support.table import for_each

pytestmark = pytest.mark.slow

MESSAGES = 2000
TEXT = "what was said " * 600
COMPACT_EVERY = 100
BOUND = 6_000_000
"""Of a file of 17 MB."""


def uuid_of(number: int) -> str:
    return f"e{number:07d}"


def entry(kind: str, number: int, parent: int | None, **fields: Any) -> dict[str, Any]:
    above = None if parent is None else uuid_of(parent)
    return {"type": kind, "uuid": uuid_of(number), "parentUuid": above, **fields}


def header() -> dict[str, Any]:
    return entry("session", 0, None, version=VERSION, format=FORMAT, id="long", cwd="/project")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of 17 MB, compacted every 100 messages, the last 50 messages ago."""
    file = tmp_path_factory.mktemp("long") / "session.jsonl"
    with file.open("wb") as out:
        out.write(encode(header()) + b"\n")
        for number in range(1, MESSAGES):
            if number % COMPACT_EVERY == COMPACT_EVERY // 2:
                summary = {"summary": "s", "firstKeptEntryUuid": uuid_of(number - 10)}
                line = entry("compaction", number, number - 1, **summary, tokensBefore=1)
            else:
                role = "assistant" if number % 2 else "user"
                line = entry("message", number, number - 1, message={"role": role, "content": TEXT})
            out.write(encode(line) + b"\n")
    return file


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "session.jsonl"))


@contextmanager
def memory_below(bound: int) -> Iterator[None]:
    """What is done inside must allocate less than this many bytes at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < bound
    finally:
        tracemalloc.stop()


def record(session: Session) -> None:
    recorder = StreamAccumulator(session, prompt="More?")
    answer = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    recorder.take({"type": "assistant", "message": answer, "session_id": "s"})
    recorder.close()


def merge(session: Session) -> None:
    leaf = session.leaf
    session.branch(uuid_of(MESSAGES - 10))
    session.append_message(user("aside"))
    session.merge(leaf)


MOVES: dict[str, Callable[[Session], object]] = {
    "rewind": lambda session: session.rewind(),
    "pop": lambda session: session.pop(summary="s"),
    "pop to an entry": lambda session: session.pop(uuid_of(MESSAGES - 10), summary="s"),
    "compact": lambda session: session.compact("s", keep=10_000),
    "compact from an entry": lambda session: session.compact(
        "s", first_kept=uuid_of(MESSAGES - 10)
    ),
    "edit": lambda session: session.edit_context(uuid_of(MESSAGES - 10), None),
    "go back far": lambda session: session.branch(uuid_of(MESSAGES // 2)),
    "leave a lot, summarized": lambda session: session.branch(uuid_of(1), summary=summarize),
    "leave a little": lambda session: session.branch(uuid_of(MESSAGES - 10), summary="s"),
    "merge": merge,
    "record": record,
    "read down": lambda session: sum(1 for _ in session.cursor.below(None)),
}


@pytest.mark.filterwarnings("ignore:this is above compaction")
@for_each("move", MOVES.values(), ids=MOVES)
def test_a_move_costs_no_memory_for_the_path_above(
    file: Path, move: Callable[[Session], object]
) -> None:
    with Session.open(file) as session, memory_below(BOUND):
        move(session)


def test_what_is_left_is_a_sequence_as_a_list_of_it_is(file: Path) -> None:
    with Session.open(file, readonly=True) as session:
        left = session.cursor.below(session.entry(uuid_of(MESSAGES - 10)))
        path = session.path()[-9:]
        assert list(left) == path
        assert len(left) == 9
        assert (left[0], left[-1], *left[2:5]) == (path[0], path[-1], *path[2:5])
        assert list(reversed(left)) == path[::-1]
        assert path[3] in left
        with pytest.raises(IndexError):
            left[9]


@in_soak("every", 2, 1)
def test_a_conversion_does_not_hold_what_is_said(made: Path, tmp_path: Path, every: int) -> None:
    targets: list[Any] = ["claude-code", "codex", "atif", "gemini"]
    for to in targets[::every]:
        # A hundred entries at once, or a context, are that much.
        with Session.open(made, readonly=True) as session, memory_below(2 * BOUND):
            session.convert(to, tmp_path / f"{to}.jsonl")
        assert (tmp_path / f"{to}.jsonl").stat().st_size > 16_000_000


def test_a_recording_does_not_hold_the_results_of_earlier_ones(tmp_path: Path) -> None:
    def said(number: int) -> dict[str, Any]:
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": TEXT}
        return user([result])

    with Session.create(tmp_path / "s.jsonl", cwd="/") as session, session.batch():
        for number in range(MESSAGES):
            session.append_message(said(number))
    with Session.open(tmp_path / "s.jsonl") as session:
        with memory_below(BOUND), StreamAccumulator(session) as recorder:
            recorder.take({"type": "user", "message": said(7), "session_id": "s"})
        assert sum(1 for entry in session.entries() if entry.type == "message") == MESSAGES


def test_a_search_of_the_current_path_does_not_hold_it(file: Path) -> None:
    with memory_below(BOUND):
        found = search(Pattern("was said"), [str(file)], SearchFilter(current=True), print)
        count = sum(1 for _ in found)
    assert count == MESSAGES - 1 - MESSAGES // COMPACT_EVERY


def test_a_push_above_what_a_context_needs_is_popped_to(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd="/") as session:
        session.append_message(user("first"))
        closed = session.push()
        session.append_message(user("second"))
        session.pop(summary="back")
        push = session.push()
        for number in range(10):
            session.append_message(user(f"more {number}"))
        session.compact("s", keep=0)
        session.append_message(user("after"))
    with Session.open(tmp_path / "s.jsonl") as session:
        with pytest.warns(UserWarning, match="above compaction"):
            assert session.pop(summary="s").parent_uuid == push.uuid
        session.append_message(user("last"))
        session.compact("s", keep=0)
        session.append_message(user("after"))
        last = session.append_message({"role": "assistant", "content": "end"})
    with Session.open(tmp_path / "s.jsonl") as session:
        popped = session.pop(summary="s")
        assert popped.parent_uuid not in (push.uuid, closed.uuid)
        assert popped["fromUuid"] == last.uuid


@st.composite
def parents(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """The parent of each entry from 1 on, and the order that the entries stand in."""
    count = draw(st.integers(2, 12))
    above = [draw(st.integers(0, number - 1)) for number in range(1, count)]
    order = list(range(1, count))
    if draw(st.booleans()):
        order = draw(st.permutations(order))
    return above, order


@settings(deadline=None, max_examples=amount(60))
@given(tree=parents(), asked=st.tuples(st.integers(0, 11), st.integers(0, 11)))
def test_ancestors_are_those_of_the_paths(
    tree: tuple[list[int], list[int]],
    asked: tuple[int, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    above, order = tree
    said = (entry("message", at, above[at - 1], message=user(f"{at}")) for at in order)
    lines = [header(), *said]
    file = write(tmp_path_factory.mktemp("tree") / "s.jsonl", lines)
    with Session.open(file, readonly=True) as session:
        one, other = (session.entry(uuid_of(number % len(lines))) for number in asked)
        ours, theirs = session.path(one), session.path(other)
        shared = [entry for entry in ours if entry in theirs]
        assert list(session.cursor.below(None, one)) == ours
        assert session.cursor.common(one, other) == shared[-1]
        assert list(session.cursor.below(shared[-1], one)) == ours[len(shared) :]
        assert session.cursor.is_above(other, one) == (other in ours)


def test_entries_without_a_common_ancestor_have_none(tmp_path: Path) -> None:
    above = {1: 0, 2: 9, 3: 2}
    lines = [entry("message", at, parent, message=user("hi")) for at, parent in above.items()]
    file = write(tmp_path / "s.jsonl", [header(), *lines])
    with Session.open(file, readonly=True) as session:
        one, other = session.entry(uuid_of(1)), session.entry(uuid_of(3))
        assert session.cursor.common(one, other) is None
        assert session.cursor.common(other, one) is None
        assert list(session.cursor.below(None, other)) == [session.entry(uuid_of(2)), other]
