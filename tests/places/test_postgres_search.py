"""A search that PostgreSQL narrows finds the same as one that reads all lines, and reads few."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree import Session, Store
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter, SearchHit
from sessiontree.storage.place import Place
from sessiontree.storage.places import place_of
from sessiontree.storage.postgres import schema
from sessiontree.text.pattern import AllOf, Pattern, query
from sessiontree.text.preview import texts
from tests.library.test_search_assembled import FORMATS
from tests.places.proxy import proxy
from tests.places.server import server
from tests.support.conversation import assistant, user
from tests.support.soak import amount
from tests.support.table import for_each

LETTERS: Final = 'aAkKiIsS\u017f\u0131\u0130\u212aé\u0301e"\\/\n\t\x00\x7f\u2028\U0001f600 .u0'
TEXTS: Final = st.text(LETTERS, min_size=1, max_size=12)
ODD: Final = [
    *(b"\n", b"\r\n", b'{"type":', b"\xff\xfek", b"ask\\u006B\n", b"[1]\n"),
    *(b'"projectHash"\n', b'{"type":"message","message":{"role":"user","content":"ask"}}\n'),
]

_NUMBERS: Final = itertools.count()


def header() -> bytes:
    with Session.create(cwd="/p") as session:
        return next(session.entries()).line + b"\n"


HEADERS: Final = st.sampled_from([header(), b'{"type":"session","version":1,"id":"s"}\n', b""])


def spelled(line: bytes, how: int) -> bytes:
    """The same JSON, with other escapes."""
    if how == 1:
        return line.replace(b"/", b"\\/").replace(b"k", b"\\u006b").replace(b"\\u00e9", b"\\u00E9")
    return line.replace(b"A", b"\\u0041") if how == 2 else line


def message(text: str, plain: bool, how: int) -> bytes:
    number = next(_NUMBERS)
    said = {"role": "user", "content": text}
    body = {"type": "message", "uuid": f"u{number}", "parentUuid": None, "message": said}
    line = json.dumps(body, ensure_ascii=not plain).encode()
    return spelled(line, how) + b"\n"


LINES: Final = st.one_of(
    st.builds(message, TEXTS, st.booleans(), st.integers(0, 2)), st.sampled_from(ODD)
)
SESSIONS: Final = st.lists(
    st.builds(lambda first, lines: [first, *lines], HEADERS, st.lists(LINES, max_size=5)),
    min_size=1,
    max_size=3,
)
PATTERNS: Final = st.one_of(
    st.builds(Pattern, TEXTS, ignore_case=st.booleans()),
    st.builds(query, TEXTS),
    st.sampled_from(["k.s", "as+k", "^a", "(?i)AS", "u00"]).map(lambda t: Pattern(t, regex=True)),
)
WANTED: Final = st.builds(SearchFilter, current=st.booleans(), blobs=st.booleans())


@pytest.fixture(scope="module")
def places() -> Iterator[list[Place]]:
    """A place with a server, and one in memory."""
    base = server().database()
    made = [place_of(url)[0] for url in (server().address(base), "memory://searched")]
    yield made
    for place in made:
        place.close()
    server().execute(f"DROP DATABASE {base} WITH (FORCE)")


def fill(place: Place, folder: str, sessions: list[list[bytes]]) -> list[str]:
    """Make sessions, each line appended alone, also where the one before has no end."""
    files = []
    for number, lines in enumerate(sessions):
        name = f"{folder}/{number}.jsonl"
        place.create(name, [lines[0]])
        for line in lines[1:]:
            with contextlib.closing(place.log(name)) as log, log.alone():
                log.append(line, log.size())  # behind an LF, also where the line before has none
        files.append(place.address(name))
    return files


def found(
    place: Place, files: list[str], pattern: Pattern | AllOf, wanted: SearchFilter
) -> tuple[list[Any], list[str]]:
    """The hits and the reports of a search, without the address of the place."""
    reports: list[str] = []
    hits = [
        (hit.file.removeprefix(place.url), hit.ref, hit.snippet, hit.match)
        for hit in search(pattern, files, wanted, reports.append)
    ]
    return hits, [report.replace(place.url, "") for report in reports]


@pytest.mark.slow
@settings(max_examples=amount(150), deadline=None)
@given(
    sessions=SESSIONS,
    pattern=PATTERNS,
    wanted=WANTED,
    piece=st.sampled_from([10, 64 * 1024 * 1024]),
)
def test_the_hits_and_the_reports_are_those_of_a_search_of_all_lines(
    places: list[Place],
    sessions: list[list[bytes]],
    pattern: Pattern | AllOf,
    wanted: SearchFilter,
    piece: int,
) -> None:
    folder = f"p{next(_NUMBERS)}"
    with patch.object(schema, "_PIECE", piece):  # a longer line is several rows
        files = [fill(place, folder, sessions) for place in places]
    assert_alike(places, files, pattern, wanted)


def assert_alike(
    places: list[Place], files: list[list[str]], pattern: Pattern | AllOf, wanted: SearchFilter
) -> None:
    """Check that the places have the same hits and reports."""
    one, other = (
        found(place, names, pattern, wanted) for place, names in zip(places, files, strict=True)
    )
    assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=amount(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=st.data())
def test_the_hits_in_files_of_other_agents_are_those_of_a_search_of_all_lines(
    places: list[Place], format: str, tmp_path: Path, drawn: st.DataObject
) -> None:
    made, lines = FORMATS[format]
    file = made(tmp_path / "s.jsonl", drawn.draw(st.lists(lines, max_size=6)))
    with Session.open(file, readonly=True) as session:
        told = [text for entry in session.entries() for text in texts(entry.as_stored) if text]
    whole = drawn.draw(st.sampled_from(told or ["none"]))
    start = drawn.draw(st.integers(0, len(whole) - 1))
    part = whole[start : start + drawn.draw(st.integers(1, 9))]
    name = f"{format}/{next(_NUMBERS)}.jsonl"
    for place in places:
        place.create(name, [file.read_bytes()])
    files = [[place.address(name)] for place in places]
    pattern = Pattern(part, ignore_case=drawn.draw(st.booleans()))
    assert_alike(places, files, pattern, SearchFilter(facts=drawn.draw(st.booleans())))


@pytest.mark.slow
@for_each("ignore_case", [False, True])
def test_no_line_is_fetched_that_cannot_match(ignore_case: bool) -> None:
    base = server().database()
    with proxy(server().port) as between:
        store = Store(server().address(base, between.port))
        for number in range(20):
            file = f"{store.root}/p/{number}.jsonl"
            with Session.create(file, cwd="/p", spill_over=None) as one, one.batch():
                for _ in range(20):
                    one.append_message(assistant("x" * 30_000))
                if number % 10 == 3:
                    one.append_message(user(f"the needle {number}"))
                for _ in range(20):
                    one.append_message(assistant("y" * 30_000))
        between.cut_answered = 2 * 100_000 + 50_000  # two starts and ends, of 24 MB
        hits = list(store.search("the needle", ignore_case=ignore_case))
        assert between.cuts == 0
        assert [hit.snippet for hit in hits] == ["the needle 3", "the needle 13"]
        place_of(store.root)[0].close()
    server().execute(f"DROP DATABASE {base} WITH (FORCE)")


@pytest.mark.slow
def test_a_search_goes_on_after_its_connection_broke_and_gives_each_hit_once() -> None:
    base = server().database()
    with proxy(server().port) as between:
        store = Store(server().address(base, between.port))
        with Session.create(f"{store.root}/p/s.jsonl", cwd="/p") as session, session.batch():
            for number in range(200):
                session.append_message(user(f"needle {number} {'x' * 20_000}"))
        hits: list[SearchHit] = []
        between.cut_answered = 20_000
        for hit in store.search("needle", report=pytest.fail):
            hits.append(hit)
            if len(hits) % 20 == 10:
                between.cut_answered = 20_000
        assert between.cuts > 2
        assert [hit.snippet.split()[1] for hit in hits] == [str(number) for number in range(200)]
        place_of(store.root)[0].close()
    server().execute(f"DROP DATABASE {base} WITH (FORCE)")
