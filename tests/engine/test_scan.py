"""Names are found without the index; both must mean the same entries."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sessiontree import InvalidNameError, RefError, Session
from sessiontree.core.codec import encode, quoted
from sessiontree.engine import names as refs
from sessiontree.engine import scan
from sessiontree.engine.reader import TreeReader
from sessiontree.storage.fs import DISK
from sessiontree.storage.log import FileLog
from tests.engine.test_walk import BLOCKS, DAMAGED, HEADER, LONG, Blocks, spelled
from tests.support.conversation import user
from tests.support.files import FILE, Counting, in_memory
from tests.support.lines import blocks_of
from tests.support.soak import amount, in_soak
from tests.support.table import for_each

OTHER = LONG.replace("3f", "4f")
UUIDS = ["root", "aa", "b~1", LONG, OTHER, OTHER.replace("4f", "5f"), "Zoë"]
NAMES = ["aa", "x", "a/b", "spür", "main", "uuid", "x~1", LONG, "scratch/t"]


@st.composite
def named_lines(draw: st.DrawFn) -> bytes:
    """A line that may name something, spelled in any way that JSON allows."""
    escaped = st.sampled_from([0, 0, 0, 0, 1, 2, 0b1010])
    kind = draw(st.sampled_from(["message", "label", "label", "branch", "session_info"]))
    lane = draw(st.sampled_from([None, None, None, "x", "a/b", "main", "spür", "scratch/t"]))
    name = draw(st.sampled_from([*NAMES, *NAMES, None]))
    fields: dict[str, Any] = {"type": kind, "uuid": draw(st.sampled_from(UUIDS))}
    fields["parentUuid"] = draw(st.sampled_from([*UUIDS, "gone"]))
    fields |= {} if lane is None else {"lane": lane}
    if kind == "label":
        fields |= {"targetUuid": draw(st.sampled_from([*UUIDS, "gone"])), "label": name}
    else:
        fields |= {"name": name, "metadata": draw(st.sampled_from([{}, {"a": 1}, {"b": name}, 5]))}
    pairs = (
        f"{spelled(key, draw(escaped))}: "
        + (spelled(value, draw(escaped)) if isinstance(value, str) else json.dumps(value))
        for key, value in fields.items()
    )
    return f"{{{', '.join(pairs)}}}".encode()


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file that opens: a header, then names and damage."""
    lines = st.lists(named_lines() | named_lines() | named_lines() | DAMAGED, max_size=8)
    content = draw(st.sampled_from([HEADER, HEADER.replace(b"null", b'null,"name":"h"')])) + b"\n"
    content += b"".join(line + b"\n" for line in draw(lines))
    content += b"\n".join(draw(lines))
    return content + draw(st.sampled_from([b"\n", b"\n", b"", b'\n{"type"']))


def reader(content: bytes) -> TreeReader:
    return TreeReader(FileLog(in_memory(content), FILE, readonly=True))


def from_index(content: bytes) -> TreeReader:
    made = reader(content)
    made.index()
    return made


def facts(found: refs.Names) -> tuple[Any, ...]:
    return (
        found.labels,
        found.label_entries,
        found.branches,
        found.lanes,
        found.name,
        found.metadata,
    )


def meant(given: TreeReader, name: str) -> int | type[RefError]:
    try:
        return given.named(name).offset
    except RefError:
        return RefError


def is_free(given: TreeReader, name: str) -> bool:
    try:
        given.check_name_is_free(name, LONG)
    except InvalidNameError:
        return False
    return True


@pytest.mark.slow
@in_soak("examples", 50, 1_000)
def test_names_mean_without_the_index_what_they_mean_with_it(examples: int) -> None:
    @settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    @example(
        HEADER + b"\n" + b'{"type":"label","uuid":"aa","targetUuid":"gone","label":"x"}\n', (8, 8)
    )
    @example(
        HEADER
        + b'\n{"type":"message","uuid":"b~1","parentUuid":"root"}\n'
        + b'{"type":"message","uuid":"b~1","parentUuid":"root"}',
        (8, 8),
    )
    @given(files(), BLOCKS)
    def check(content: bytes, blocks: Blocks) -> None:
        whole = from_index(content)
        with blocks_of(*blocks), patch.object(scan, "_FEW_ESCAPES", 1):
            assert facts(reader(content).names()) == facts(whole.names())
            for name in {*NAMES, *UUIDS, "nobody"}:
                assert meant(reader(content), name) == meant(whole, name)
                assert is_free(reader(content), name) == is_free(whole, name)
                assert reader(content).has_uuid(name) == whole.has_uuid(name)
                assert reader(content).by_uuid(name) == whole.by_uuid(name)

    check()


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(150), suppress_health_check=list(HealthCheck))
@given(files(), st.lists(named_lines() | DAMAGED, max_size=4), st.booleans(), st.booleans())
def test_names_follow_a_log_that_grows(
    first: bytes, more: list[bytes], with_lf: bool, with_index: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.jsonl"
        file.write_bytes(first)
        log = FileLog(DISK, str(file), readonly=True)
        given = TreeReader(log)
        given.names()
        if with_index:
            given.index()
        file.write_bytes(first + b"\n" * with_lf + b"\n".join(more))
        list(given.view.grow(log.size()))
        assert facts(given.names()) == facts(from_index(file.read_bytes()).names())
        log.close()


LIMITS = {"_MAX_HITS": (0, 1, 2, 3), "_MAX_SEARCHES": (0, 1, 2), "_MAX_LINES": (0, 1)}


def all_kinds_of_names() -> bytes:
    """Names of each kind, some given twice, some taken back, some that others only mention."""
    lines: list[dict[str, Any]] = [
        {"type": "message", "uuid": "aa", "parentUuid": "root", "message": {"content": "x"}},
        {"type": "message", "uuid": LONG, "parentUuid": "aa", "lane": "a/b"},
        {"type": "label", "uuid": "l1", "parentUuid": LONG, "targetUuid": "aa", "label": "x"},
        {"type": "label", "uuid": "l2", "parentUuid": "l1", "targetUuid": LONG, "label": "x"},
        {"type": "label", "uuid": "l3", "parentUuid": "l2", "targetUuid": "aa", "label": None},
        {"type": "label", "uuid": "l4", "parentUuid": "l3", "targetUuid": "aa", "label": "gone"},
        {"type": "label", "uuid": "l5", "parentUuid": "l4", "targetUuid": "aa", "label": "kept"},
        {"type": "branch", "uuid": "b1", "parentUuid": "aa", "name": "spür"},
        {"type": "message", "uuid": OTHER, "parentUuid": "b1", "message": {"content": LONG}},
        {"type": "message", "uuid": "m2", "parentUuid": OTHER, "message": {"content": "a/b"}},
        {"type": "session_info", "uuid": "i1", "parentUuid": "m2", "name": "aa"},
    ]
    return b"".join([HEADER, b"\n", *(encode(line) + b"\n" for line in lines)])


@for_each("limit", list(LIMITS))
def test_behind_each_limit_of_a_search_names_mean_the_same(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = all_kinds_of_names()
    names = ["aa", "x", "gone", "kept", "spür", "a/b", "main", LONG, OTHER, OTHER[:20], "nobody"]
    whole = from_index(content)
    expected = answers(lambda: whole, names)
    for most in LIMITS[limit]:
        monkeypatch.setattr(scan, limit, most)
        asked_in_turn = reader(content)
        assert answers(partial(_same, asked_in_turn), names) == expected
        assert answers(lambda: reader(content), names) == expected
        assert facts(reader(content).names()) == facts(whole.names())


def _same(given: TreeReader) -> TreeReader:
    return given


def answers(given: Callable[[], TreeReader], names: list[str]) -> list[tuple[Any, ...]]:
    """What is said of each of the names."""
    return [
        (
            given().has_uuid(name),
            meant(given(), name),
            is_free(given(), name),
            given().by_uuid(name),
        )
        for name in names
    ]


def large(file: Path, *, compact: bool) -> Session:
    """A session of 1 MB with a label and a named branch, after which are ten messages."""
    session = Session.create(file, durability="os")
    with session.batch():
        old = [session.append_message(user("x" * 2000)) for _ in range(500)]
        session.label(old[9], "old")
        session.append("branch", name="gone")
        session.lane("reviewer").append_message(user("r"))
    if compact:
        session.compact("short", keep=2000)
    for _ in range(10):
        entry = session.append_message(user("more"))
    session.label(entry, "here")
    session.branch(entry, name="aside")
    session.append_message(user("aside"))
    session.switch(entry)
    return session


QUESTIONS: dict[str, Callable[[Session], object]] = {
    "@~3": lambda session: session.entry("@~3"),
    "a new label": lambda session: session.label("@", "fresh"),
    "a new branch": lambda session: session.branch("@", name="fresh"),
    "a label": lambda session: session.entry("here"),
    "above a label": lambda session: session.entry("here~2"),
    "a branch": lambda session: session.entry("aside"),
    "the name": lambda session: session.name,
    "the metadata": lambda session: session.metadata,
    "a fresh lane": lambda session: session.lane("fresh", at="@").append_message(user("f")),
}


@for_each("question", ["@~3", "a label", "a branch", "the name", "the metadata"])
def test_a_question_that_is_asked_again_costs_little(file: Path, question: str) -> None:
    large(file, compact=True).close()
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        QUESTIONS[question](session)
        before = counting.bytes_read
        for _ in range(3):
            QUESTIONS[question](session)
    assert counting.bytes_read - before < 20_000


@for_each("compact", [False, True])
@for_each("question", list(QUESTIONS))
def test_a_question_costs_one_search_for_names_and_one_for_what_it_means(
    file: Path, question: str, compact: bool
) -> None:
    large(file, compact=compact).close()
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        QUESTIONS[question](session)
        assert not session.reader.view.has_tree
    assert counting.bytes_read < 2.5 * file.stat().st_size


@for_each("asked", [0, 1, 3, 4])
def test_the_name_is_told_after_any_number_of_searches(file: Path, asked: int) -> None:
    large(file, compact=False).close()
    with Session.open(file) as session:
        for number in range(asked):
            with pytest.raises(RefError):
                session.entry(f"nobody{number}")
        assert (session.name, session.metadata) == (None, {})
        session.rename("title")
        session.update_metadata(a=1)
        assert (session.name, session.metadata) == ("title", {"a": 1})


@for_each("name", ["old", "gone", "reviewer", "here", "aside", "main"])
@for_each("compact", [True, False])
def test_a_name_given_at_any_time_is_taken(file: Path, name: str, compact: bool) -> None:
    large(file, compact=compact).close()
    with Session.open(file) as session, pytest.raises(InvalidNameError, match="taken by"):
        session.label("@~1", name)


def test_a_copy_does_not_trust_the_places_of_its_original(file: Path, tmp_path: Path) -> None:
    with large(file, compact=True) as session:
        copy = session.fork(str(tmp_path / "copy.jsonl"))
    with Session.open(copy) as session:
        assert session.label("@", "reviewer")["label"] == "reviewer"
        with pytest.raises(InvalidNameError, match="taken by"):
            session.label("@", "old")


def test_what_an_older_version_repeated_in_a_compaction_is_ignored(file: Path) -> None:
    with large(file, compact=True) as session:
        end = session.leaf.offset
        state = {
            "names": {"end": end, "check": "00000000", "lines": [end]},
            "uuids": {"from": 0, "before": None, "marks": "", "ids": ""},
        }
        session.append(
            "compaction",
            summary="s",
            firstKeptEntryUuid=session.leaf.uuid,
            tokensBefore=1,
            state=state,
        )
        label = session.entry("here")
    with Session.open(file) as session:
        assert session.entry("here") == label
        with pytest.raises(InvalidNameError, match="taken by"):
            session.label("@", "reviewer")


def test_a_compaction_repeats_no_names(file: Path) -> None:
    with large(file, compact=False) as session:
        assert session.compact("short", keep=0)["state"].keys() == {
            "model",
            "thinkingLevel",
            "system",
            "name",
            "push",
        }


@for_each("count", [1, 3, 4])
def test_three_uuids_are_searched_for_before_the_index_is_built(count: int, tmp_path: Path) -> None:
    file, counting = tmp_path / "s.jsonl", Counting()
    file.write_bytes(all_kinds_of_names())
    given = TreeReader(FileLog(counting, str(file), readonly=True))
    for number in range(count):
        assert not given.has_uuid(uuid_of(number))
    assert given.view.has_tree == (count > 3)
    before = counting.bytes_read
    for number in range(count):
        assert not given.has_uuid(uuid_of(number))
    assert given.view.has_tree == (count > 3)
    assert counting.bytes_read == before
    given.log.close()


def uuid_of(number: int) -> str:
    return f"3f2504e0-4f89-41d3-9a0c-{number:012}"


@given(st.lists(st.sampled_from(["a", "b", "text", "branch"]), max_size=12))
def test_the_last_fact_is_what_the_metadata_has(steps: list[str]) -> None:
    with Session.create(metadata={"a": 0}) as session:
        for number, step in enumerate(steps):
            if step == "text":
                session.append_message(
                    {"role": "user", "content": '"a" and "b"'}, metadata={"a": 9}
                )
            elif step == "branch":
                session.branch(session.header.uuid)
            else:
                session.update_metadata(**{step: number})
            for key in "abc":
                assert session.reader.last_fact(key) == session.metadata.get(key)


EXPECTED = ["m2", "aa", LONG, OTHER, "nobody", "spür", "a/b", uuid_of(1)]


def test_what_was_expected_is_answered_as_the_index_answers() -> None:
    content = all_kinds_of_names()
    given, whole = reader(content), from_index(content)
    given.scan().expect(EXPECTED)
    assert [given.has_uuid(text) for text in EXPECTED] == [
        whole.has_uuid(text) for text in EXPECTED
    ]
    for text in EXPECTED:
        held = quoted(text) in content or not text.isascii() or "/" in text
        assert given.scan().may_hold(text) or not held, text


def test_expected_uuids_cost_no_search_but_that_for_names(tmp_path: Path) -> None:
    file, counting = tmp_path / "s.jsonl", Counting()
    large(file, compact=True).close()
    given = TreeReader(FileLog(counting, str(file), readonly=True))
    given.scan().expect(map(uuid_of, range(6)))
    for number in range(6):
        assert not given.has_uuid(uuid_of(number))
        assert not given.scan().may_hold(uuid_of(number))
    assert not given.view.has_tree
    assert counting.bytes_read < 1.2 * file.stat().st_size
    given.log.close()
