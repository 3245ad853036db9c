"""A fork reads what lies on its path; it copies what the index of the whole file gives."""

from __future__ import annotations

import json
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sessiontree import Entry, Session, SessionTreeError
from sessiontree.engine import scan
from sessiontree.operations import export, lineage
from tests.engine.test_scan import UUIDS, named_lines
from tests.engine.test_walk import BLOCKS, DAMAGED, HEADER, Blocks, entry_lines, spelled
from tests.support.conversation import user
from tests.support.files import FILE, VERSION_1, Counting, content_of, in_memory
from tests.support.lines import blocks_of
from tests.support.soak import amount

COPY = "/copy.jsonl"
LIMITS = {"hits": 2000, "steps": 1_000_000, "few": 2}


@st.composite
def merges(draw: st.DrawFn) -> bytes:
    uuids = st.sampled_from([*UUIDS, "gone"])
    ends = {key: draw(uuids) for key in ("uuid", "parentUuid", "mergedUuid", "baseUuid")}
    escaped = draw(st.sampled_from([0, 0, 0, 1]))
    pairs = (f'"{key}":{spelled(uuid, escaped)}' for key, uuid in ends.items())
    return f'{{"type":"merge",{",".join(pairs)}}}'.encode()


@st.composite
def noted(draw: st.DrawFn) -> bytes:
    """A line below another of a few, mostly of usage, that copied entries may have beside them."""
    kind = draw(st.sampled_from(["usage", "usage", "session_info", "message"]))
    uuids = st.sampled_from(["root", "aa", "b", "u1", "u2"])
    lane = draw(st.sampled_from(["", "", '"lane":"x",']))
    escaped = draw(st.sampled_from([0, 0, 0, 1]))
    ends = f'"uuid":{spelled(draw(uuids), escaped)},"parentUuid":{spelled(draw(uuids), escaped)}'
    return f'{{"type":"{kind}",{lane}{ends}}}'.encode()


COMPACTION = (
    b'{"type":"compaction","uuid":"c","parentUuid":"aa","summary":"s","firstKeptEntryUuid":"c"}\n'
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file that opens: a header, then entries, names, merges, damage and compactions."""
    some = named_lines() | entry_lines() | merges() | merges() | noted() | DAMAGED
    lines = st.lists(some, max_size=8) | st.lists(noted(), max_size=8)
    content = draw(st.sampled_from([HEADER, HEADER + b'{"uuid":"aa"', b"\n" + HEADER])) + b"\n"
    for _ in range(draw(st.integers(0, 2))):
        content += b"".join(line + b"\n" for line in draw(lines))
        content += COMPACTION
    content += b"\n".join(draw(lines))
    return content + draw(st.sampled_from([b"\n", b"\n", b"", b'\n{"type"']))


def fixed(stack: ExitStack, *, by_index: bool) -> None:
    """Make a copy say the same each time; and maybe look at the whole file for it."""
    stack.enter_context(patch.object(export, "fresh_uuid", lambda: "fresh"))
    stack.enter_context(patch.object(export, "now", lambda: "now"))
    stack.enter_context(warnings.catch_warnings(action="ignore"))
    if by_index:
        stack.enter_context(patch.object(lineage.Lineage, "lines", lambda _: None))


def forked(content: bytes, at: Entry, *, by_index: bool) -> bytes | type[SessionTreeError]:
    disk = in_memory(content)
    with ExitStack() as stack:
        session = stack.enter_context(Session.open(FILE, readonly=True, fs=disk))
        fixed(stack, by_index=by_index)
        try:
            session.fork(COPY, at, id="copy")
        except SessionTreeError as error:
            return type(error)
        return content_of(disk, COPY)


LABELLED_TWIN = (
    HEADER
    + b'\n{"type":"message","uuid":"aa","parentUuid":"root"}'
    + b'\n{"type":"label","uuid":"l","parentUuid":"aa","targetUuid":"aa","label":"x"}'
    + b'\n{"type":"message","uuid":"aa","parentUuid":"root"}\n'
)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(60), suppress_health_check=list(HealthCheck))
@example(VERSION_1, (8, 8), LIMITS)
@example(LABELLED_TWIN, (8, 8), LIMITS)
@example(LABELLED_TWIN, (8, 8), {**LIMITS, "few": 0})
@given(
    files(),
    BLOCKS,
    st.fixed_dictionaries(
        {
            "hits": st.sampled_from([1, 2000, 2000]),
            "steps": st.sampled_from([0, 10**9, 10**9]),
            "few": st.sampled_from([0, 2]),
        }
    ),
)
def test_a_fork_copies_what_the_index_gives(
    content: bytes, blocks: Blocks, limits: dict[str, int]
) -> None:
    with (
        blocks_of(*blocks),
        patch.object(scan, "_MAX_HITS", limits["hits"]),
        patch.object(lineage, "_MAX_STEPS", limits["steps"]),
        patch.object(lineage, "_FEW", limits["few"]),
    ):
        with Session.open(FILE, readonly=True, fs=in_memory(content)) as session:
            entries = list(session.entries())
        for entry in entries:
            expected = forked(content, entry, by_index=True)
            assert forked(content, entry, by_index=False) == expected


def play(session: Session, random: Random) -> None:
    for number in range(60):
        entry = random.choice(list(session.entries()))
        steps = ["branch", "merge", "label", "clear", "compact", "lane", "usage", "usage"]
        step = random.choice(["say"] * 8 + steps)
        with suppress(SessionTreeError), warnings.catch_warnings(action="ignore"):
            if step == "say":
                session.append_message(user(f"{number} " * random.choice([1, 100])))
            elif step == "branch":
                session.branch(entry, name=random.choice([None, f"b{number}"]))
            elif step == "merge":
                session.merge(entry)
            elif step == "label":
                session.label(entry, f"l{number}")
            elif step == "clear":
                session.label(entry, None)
            elif step == "usage":
                session.append_usage({"input": number})
            elif step == "compact":
                session.compact("short", keep=random.choice([0, 100]))
            else:
                name = random.choice(["side", "scratch/try"])
                with session.lane(name, at=entry) as lane:
                    lane.append_message(user("s" * 150))
                session.refresh()


@pytest.mark.parametrize("seed", range(8))
def test_a_fork_of_a_session_that_was_worked_with_is_that_of_the_index(
    file: Path, tmp_path: Path, seed: int
) -> None:
    with Session.create(file, durability="os", spill_over=100) as session:
        play(session, Random(seed))
        entries = list(session.entries())
    made: dict[str, list[Any]] = {}
    for entry in entries:
        for by_index in (True, False):
            copy = tmp_path / f"{entry.uuid}-{by_index}.jsonl"
            with ExitStack() as stack:
                fixed(stack, by_index=by_index)
                session = stack.enter_context(Session.open(file, readonly=True))
                if entry.type != "session":
                    session.fork(copy, entry, id="copy")
                    blobs = Path(f"{copy}.blobs").glob("**/*")
                    found = copy.read_bytes(), sorted(path.name for path in blobs)
                    made.setdefault(entry.uuid, []).append(found)
    assert len(made) == len(entries) - 1
    assert all(by_walk == by_index for by_index, by_walk in made.values())


def test_an_open_batch_is_forked_too(file: Path, tmp_path: Path) -> None:
    with Session.create(file) as session, session.batch():
        for text in "ab":
            session.append_message(user(text))
        session.label("@", "here")
        session.fork(tmp_path / "copy.jsonl")
    lines = map(json.loads, (tmp_path / "copy.jsonl").read_bytes().splitlines())
    assert [line["type"] for line in lines] == ["session", "message", "message", "label", "branch"]


@pytest.mark.parametrize(("label", "reads"), [(None, 2.2), ("off", 2.2), ("on", 3.3)])
def test_a_fork_costs_what_lies_on_its_path(
    file: Path, tmp_path: Path, label: str | None, reads: float
) -> None:
    """The file is read for a parent far away, for the names, and for what a label means."""
    with Session.create(file, durability="os") as session:
        first = session.append_message(user("first"))
        with session.batch():
            off = [session.append_message(user("x" * 2000)) for _ in range(5000)]
            session.switch(session.header)
            on = session.append_message(user("on"))
        if label is not None:
            session.label(on if label == "on" else off[0], "here")
        session.compact("short", keep=0)
        last = session.append_message(user("last"))
    counting = Counting()
    with Session.open(file, readonly=True, fs=counting) as session:
        session.fork(tmp_path / "copy.jsonl", last)
        assert not session.reader.view.has_tree
    assert counting.bytes_read < reads * file.stat().st_size
    assert b'"on"' in (tmp_path / "copy.jsonl").read_bytes()
    assert first.line not in (tmp_path / "copy.jsonl").read_bytes()


@pytest.mark.parametrize(("note", "reads"), [("usage", 2.3), ("label", 3.3)])
def test_a_fork_far_above_costs_a_few_searches(
    file: Path, tmp_path: Path, note: str, reads: float
) -> None:
    """One for the entry, one for the names, one for the entry that a label on the path means."""
    with Session.create(file, durability="os") as session, session.batch():
        first = session.append_message(user("first"))
        if note == "label":
            session.label(first, "here")
        else:
            session.append_usage({"input": 1})
        for _ in range(5000):
            session.append_message(user("x" * 2000))
    counting = Counting()
    with Session.open(file, readonly=True, fs=counting) as session:
        session.fork(tmp_path / "copy.jsonl", first.uuid)
        assert not session.reader.view.has_tree
    assert counting.bytes_read < reads * file.stat().st_size
    copied = [json.loads(line) for line in (tmp_path / "copy.jsonl").read_bytes().splitlines()]
    assert [line["type"] for line in copied[1:3]] == ["message", note]
