"""What is shown of new entries at once is what a whole reading shows of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import Excerpt
from sessiontree.web.page_state import PageState, change
from sessiontree.web.session import read
from sessiontree.web.updates import ends_of, start_of, with_news
from tests.support.conversation import assistant, user
from tests.support.soak import amount

SAME = ("gists", "times", "uuids", "rowOf", "above", "tokens", "here", "layout")
"""What a whole reading does not change any more."""


def rows_of(state: PageState) -> list[list[Any]]:
    """The rows but heads of turns and what is below all, with bodies in the place of numbers."""
    found: list[list[Any]] = []
    for name in state.index["names"]:
        found += json.loads(zlib.decompress(state.parts[name]))
    for row in found:
        if len(row) > 1 and isinstance(row[1], int):
            row[1] = found[row[1]][1]
    kinds = state.index["kinds"]
    assert len(found) == len(kinds)
    return [row for row, kind in zip(found, kinds, strict=True) if kind not in "TFO"]


def without_heads(state: PageState, name: str) -> Any:
    found = state.index[name]
    least = len(state.index["kinds"].rstrip("FO"))
    if name not in ("gists", "times"):
        return found
    return [found[n] for n, kind in enumerate(state.index["kinds"][:least]) if kind != "T"]


def check(file: Path, before: PageState) -> PageState:
    """Compare the state of the news with that of a whole reading, which is given back."""
    quick, whole = with_news(before, str(file)), read(str(file), DISK)
    assert quick is not None
    assert quick.index["kinds"].rstrip("FO") == whole.index["kinds"].rstrip("FO")
    for name in SAME:
        assert without_heads(quick, name) == without_heads(whole, name), name
    assert rows_of(quick) == rows_of(whole)
    assert [turn[:6] for turn in quick.index["turns"]] == [t[:6] for t in whole.index["turns"]]
    json.loads(change(before, quick, 2))
    return whole


def calling(*ids: str) -> dict[str, Any]:
    calls = [
        {"type": "toolCall", "id": id, "name": "bash", "arguments": {"command": id}} for id in ids
    ]
    return assistant([{"type": "text", "text": "I call"}, *calls])


def result(id: str) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": id,
        "toolName": "bash",
        "content": f"of {id}\n" * 200,
    }


STEPS: dict[str, Callable[[Session, int], object]] = {
    "prompt": lambda session, n: session.append_message(user(f"prompt {n}")),
    "answer": lambda session, n: session.append_message(assistant(f"**answer** {n}")),
    "call": lambda session, n: session.append_message(calling(f"c{n}")),
    "calls": lambda session, n: session.append_message(calling(f"c{n}", f"d{n}")),
    "result": lambda session, n: session.append_message(result(f"c{n}")),
    "other": lambda session, n: session.append_message(result(f"d{n}")),
    "model": lambda session, n: session.set_model("p", f"m{n}"),
    "custom": lambda session, n: session.append("custom", customType="x", data={"n": n}),
}


@settings(max_examples=amount(60), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([*STEPS]), st.integers(0, 2)), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_new_entries_are_shown_as_a_whole_reading_shows_them(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, int]]]
) -> None:
    file = tmp_path_factory.mktemp("s") / "s.jsonl"
    with Session.create(file, durability="os") as session:
        session.append_message(user("first"))
        session.append_message(assistant("an answer"))
        state = read(str(file), DISK)
        for batch in batches:
            for name, n in batch:
                STEPS[name](session, n)
            if with_news(state, str(file)) is None:
                state = read(str(file), DISK)
            else:
                state = check(file, state)


def test_several_news_are_shown_without_a_reading_between_them(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file, durability="os") as session:
        session.append_message(user("first"))
        session.append_message(calling("a", "b"))
        state = read(str(file), DISK)
        for message in (result("b"), result("a"), assistant("done"), user("next"), calling("c")):
            session.append_message(message)
            check(file, state)
            grown = with_news(state, str(file))
            assert grown is not None
            state = grown


def test_a_branch_is_left_to_a_whole_reading(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file, durability="os") as session:
        first = session.append_message(user("first"))
        session.append_message(assistant("an answer"))
        state = read(str(file), DISK)
        session.branch(first)
        session.append_message(assistant("another"))
        assert with_news(state, str(file)) is None


def test_a_long_transcript_is_read_at_its_end_alone(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"

    def line(n: int) -> str:
        facts = {"uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": "s"}
        message = {"role": "user" if n % 2 == 0 else "assistant", "content": f"text {n} " * 300}
        when = {"timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p", "version": "2"}
        return json.dumps({**facts, "type": message["role"], "message": message, **when}) + "\n"

    file.write_text("".join(map(line, range(400))))
    state = read(str(file), DISK)
    with file.open("a") as out:
        out.write(line(400))
    check(file, state)
    part = ends_of(str(file))
    assert part is not None
    with Session.open(file, readonly=True, fs=part) as session:
        assert 2 < sum(1 for _ in session.entries()) < 300


def test_a_part_of_a_file_is_its_first_and_its_last_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%05d\n" % n for n in range(1000)))
    part = Excerpt(str(file), 12, 5990)
    fd = part.open(str(file), 0)
    whole = b"00000\n00001\n" + file.read_bytes()[5990:]
    assert part.size(fd) == part.stat(fd).size == part.stat(str(file)).size == len(whole)
    for offset in range(len(whole) + 1):
        for size in range(len(whole) + 1 - offset):
            assert part.read(fd, size, offset) == whole[offset : offset + size]
    part.close(fd)
    assert start_of(str(file), 10_000) == 0
    assert start_of(str(file), 1000) == 6000
    assert start_of(str(tmp_path / "none"), 1) == 0


def test_a_compaction_among_the_news_keeps_what_is_new_as_well(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file, durability="os") as session:
        session.append_message(user("first"))
        session.append_message(assistant("an answer"))
        state = read(str(file), DISK)
        kept = session.append_message(user("second"))
        session.append_message(assistant("another"))
        session.append("compaction", summary="before", firstKeptEntryUuid=kept.uuid, tokensBefore=1)
        quick, whole = with_news(state, str(file)), read(str(file), DISK)
    assert quick is not None
    assert quick.index["rules"]["kept"] == whole.index["rules"]["kept"]
    number = quick.index["uuids"].index(kept.uuid)
    assert [*quick.index["rules"]["kept"].values()] == [number]
