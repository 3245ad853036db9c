"""What holds for each agent, over all fixtures of sound sessions.

A further agent needs its files in `fixtures/agents`, and no test of its own for any of this.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from msgspec.structs import replace

from sessiontree import Session
from sessiontree.agents import HEAD, base, formats
from sessiontree.core.header import DATABASES
from sessiontree.core.message import repeated_by
from sessiontree.core.usage import Spent
from sessiontree.errors import SessionTreeError
from sessiontree.importing.importer import import_session
from sessiontree.importing.source import ImportSource, entries_of
from sessiontree.library import counts
from sessiontree.library.listing import facts_of
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.storage.databases import sessions_in
from sessiontree.storage.fs import DISK, READ, Descriptor
from sessiontree.text.pattern import Pattern
from sessiontree.text.preview import texts
from sessiontree.views.costs import spending
from tests.importing.conftest import assert_same
from tests.support.grown import flat
from tests.support.table import for_each

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
CUTS: Final = 60


def _sessions() -> Iterator[tuple[Path, base.Reader]]:
    files = (file for ending in DATABASES for file in sorted(FIXTURES.rglob(f"*{ending}")))
    databases = (sessions_in(str(file)) for file in files)
    in_databases = map(Path, chain.from_iterable(databases))
    for file in chain(sorted(FIXTURES.rglob("*.json*")), in_databases):
        if file.is_dir() or any(word in str(file) for word in ("damaged", "cut", "extended")):
            continue
        try:
            facts = facts_of(str(file))
        except SessionTreeError:
            continue
        for agent in formats():
            if agent.program == facts.agent:
                yield file, agent.reader


def _content(file: Path) -> bytes:
    """The bytes of a file, or of a session in a database."""
    with Descriptor(DISK, DISK.open(str(file), READ)) as fd:
        return DISK.read(fd, DISK.size(fd), 0)


SESSIONS: Final = list(_sessions())


each_session = for_each(
    ("file", "reader"),
    SESSIONS,
    ids=[file.relative_to(FIXTURES).as_posix() for file, _ in SESSIONS],
)


def test_a_file_is_of_one_agent_wherever_its_end_is_cut() -> None:
    for file, reader in SESSIONS:
        head = _content(file)[:HEAD]
        claimed = [agent.name for agent in formats() if agent.reader.recognises(head)]
        assert claimed == [reader.name], file
        whole = reader.facts(head, head)
        for cut in range(0, len(head), max(1, len(head) // CUTS)):
            found = reader.facts(head, head[cut:])
            assert replace(found, name=None, modified=None) == replace(
                whole, name=None, modified=None
            ), file


@for_each("spoiled", [b"", b"{", b'"', b"\\", b"[1]", b"null", b"\xff"])
def test_a_broken_line_costs_no_more_than_its_own_facts(spoiled: bytes) -> None:
    for file, reader in SESSIONS:
        content = _content(file)
        lines = content.split(b"\n")
        for at in range(1, len(lines), max(1, len(lines) // CUTS)):
            broken = lines[at][: len(lines[at]) // 2] + spoiled
            changed = b"\n".join([*lines[:at], broken, *lines[at + 1 :]])
            assert reader.facts(content, changed).id == reader.facts(content, content).id
            if reader.recognises(changed):
                assert isinstance(reader.facts(changed, changed), base.AgentFacts)


def test_the_tally_is_the_usage_of_the_translated_entries() -> None:
    def rows(found: list[Spent]) -> list[Spent]:
        return [replace(spent, entry="") for spent in found]

    for file, _ in SESSIONS:
        ((_, counted),) = counts.CountCache(None).counted([facts_of(str(file))], None)
        assert counted is not None
        assert counted.damaged == 0
        with Session.open(file, readonly=True) as session:
            assert rows(counted.spent()) == rows(spending(session.cursor)), file


@each_session
def test_a_search_finds_the_entries_of_the_opened_file(file: Path, reader: base.Reader) -> None:
    with Session.open(file, readonly=True) as session:
        header, *entries = session.entries()
    new = [entry for entry in entries if repeated_by(entry.as_stored) is None]
    said = {entry.uuid: " ".join(texts(entry.as_stored)) for entry in new}
    for pattern in ("the", "er", '"', "retry", "no such word"):
        hits = search(Pattern(pattern), [str(file)], SearchFilter(), pytest.fail)
        found = Pattern(pattern)
        refs = {hit.ref for hit in hits} - {header.uuid}  # which has the name, if a line has it
        assert refs == {uuid for uuid in said if found.search(said[uuid])}


@contextmanager
def _calls_of_codecs() -> Iterator[tuple[Counter[bytes], list[int]]]:
    """How often each line is decoded, and how many entries are encoded."""
    decoded: Counter[bytes] = Counter()
    encoded: list[int] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is base.values.__code__:
            decoded[frame.f_locals["line"]] += 1
        if event == "call" and frame.f_code is base.encoded.__code__:
            encoded.append(1)

    sys.setprofile(note)
    try:
        yield decoded, encoded
    finally:
        sys.setprofile(None)


@each_session
def test_an_import_decodes_a_line_once_and_is_the_translation(
    file: Path, reader: base.Reader, tmp_path: Path
) -> None:
    with Session.open(file, readonly=True) as session:
        is_joined = any(found.kind == "lost parent" for found in session.verify())
    most = 2 if reader.reads_twice or is_joined else 1  # for its structure, then as an entry
    with ImportSource(DISK, str(file)) as source, _calls_of_codecs() as (decoded, encoded):
        assert list(entries_of(source))
    assert not encoded
    lines = Counter(_content(file).splitlines())
    opening = next(iter(lines))  # of Codex it also tells the history of the thread
    often = {line for line, times in decoded.items() if times > most * lines[line] > 0}
    assert often <= {opening}
    assert_same(file, import_session(file, tmp_path).file)


@each_session
def test_a_session_that_is_written_for_its_agent_says_the_same(
    file: Path, reader: base.Reader, tmp_path: Path
) -> None:
    agent = next(agent for agent in formats() if agent.name == reader.name)
    made = tmp_path / "made.jsonl"
    with warnings.catch_warnings(), Session.open(file, readonly=True) as session:
        warnings.simplefilter("ignore")
        if not agent.is_target or not session.context().messages:
            return
        session.convert(reader.name, made)
        if agent.take_in(str(made.with_suffix(".json"))):
            return  # the program reads the file, and no other
        with Session.open(made, readonly=True) as again:
            assert (again.verify(), again.metadata["agent"]) == ([], reader.name)
            assert flat(again.context().messages) == flat(session.context().messages)
