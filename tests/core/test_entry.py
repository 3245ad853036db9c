from __future__ import annotations

import gc
import json
import time
from datetime import UTC, datetime

import pytest

from sessiontree.core.codec import decode, encode
from sessiontree.core.damage import NEXT_STEP, Damage, ignore
from sessiontree.core.entry import (
    CONTENT,
    KNOWN,
    MARKERS,
    decode_leniently,
    decode_object,
    moment_given,
    moment_of,
    seconds_of,
)
from sessiontree.errors import UsageError
from sessiontree.library.listing import moment
from tests.support.lines import entry
from tests.support.table import for_each
from tests.support.terminal import utc


def test_all_but_the_structure_is_read_by_key() -> None:
    found = entry("message", "u", "p", lane="l", timestamp="t", message={"role": "user"}, x=1)
    assert (found.type, found.uuid, found.parent_uuid) == ("message", "u", "p")
    assert (found.lane, found.timestamp) == ("l", "t")
    assert found["message"] == found.get("message") == {"role": "user"}
    assert found["x"] == 1
    assert found.get("y", 5) == 5
    assert "x" in found
    assert "y" not in found
    assert list(found) == ["type", "uuid", "parentUuid", "lane", "timestamp", "message", "x", "crc"]
    with pytest.raises(KeyError):
        found["y"]


def test_an_entry_is_frozen() -> None:
    found = entry("t")
    with pytest.raises(AttributeError):
        found.uuid = "z"  # type: ignore[misc]


def test_entries_are_equal_by_uuid_and_line_wherever_they_lie() -> None:
    line = encode({"type": "t", "uuid": "u"})
    one, other = decode(line, 0, ignore), decode(line, 70, ignore)
    assert one == other
    assert len({one, other}) == 1
    assert one != entry("t", "u", x=1)
    assert one != "u"


def test_an_entry_shows_what_it_is() -> None:
    assert repr(entry("message", "u", "p")) == "<Entry message u parent=p>"


def test_content_is_what_stands_for_something_in_a_context() -> None:
    assert entry("merge").is_content
    assert not entry("label").is_content
    assert CONTENT.isdisjoint(MARKERS)
    assert CONTENT | MARKERS <= KNOWN


def test_a_million_entries_do_not_burden_the_garbage_collector() -> None:
    assert not gc.is_tracked(entry("message", message={"role": "user"}))


def test_a_line_that_is_no_object_has_no_keys() -> None:
    for line in (b"", b"[1]", b"{", b"5"):
        assert decode_object(line) == {}


def test_every_damage_says_where_it_is_and_what_to_do() -> None:
    for kind, step in NEXT_STEP.items():
        told = str(Damage("f.jsonl", 3, 120, kind, "the cause"))
        assert told == f"f.jsonl, line 3 (byte 120): the cause; {step}"


def test_each_kind_of_value_is_decoded() -> None:
    for text in (' {"a":1} ', "[1]", '"x"', "true", "false", "-1", '"\\ud800"'):
        assert decode_leniently(text.encode()) == json.loads(text)


def test_what_does_not_end_as_it_begins_is_not_json() -> None:
    for text in ("{", "x", "}", "1x", "[}", "truex", "\ufeff{}", ""):
        assert decode_leniently(text.encode()) is None


@for_each(
    "stored, seconds",
    [
        ("2026-02-11T00:00:00.500Z", 1770768000.5),
        ("2026-02-11T01:00:00+01:00", 1770768000.0),
        ("2026-02-11T00:00:00", 1770768000.0),
        ("0001-01-01T00:00:00+14:00", -62135647200.0),
        ("9999-12-31T23:59:59-14:00", 253402351199.0),
        *((stored, None) for stored in ("", "yesterday", "2026-02-30T00:00:00Z", 5, None)),
    ],
)
def test_a_stored_time_means_the_same_wherever_it_is_read(
    monkeypatch: pytest.MonkeyPatch, stored: object, seconds: float | None
) -> None:
    try:
        for zone in ("UTC", "Asia/Tokyo"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert seconds_of(stored) == seconds
            assert (moment_of(stored) is None) == (seconds is None)
            if isinstance(stored, str):
                assert moment(stored) == (seconds or 0.0)
    finally:
        monkeypatch.undo()
        time.tzset()


MONDAY = datetime(2026, 11, 23, 12, 30, tzinfo=UTC)


@for_each(
    ("text", "expected"),
    [
        ("30m", "2026-11-23T12:00"),
        ("2 weeks", "2026-11-09T12:30"),
        ("3 days ago", "2026-11-20T12:30"),
        ("1 Hour", "2026-11-23T11:30"),
        ("2mo", "2026-09-24T12:30"),
        ("1y", "2025-11-23T12:30"),
        ("today", "2026-11-23T00:00"),
        (" Yesterday ", "2026-11-22T00:00"),
        ("monday", "2026-11-23T00:00"),
        ("tuesday", "2026-11-17T00:00"),
        ("2026-01-31", "2026-01-31T00:00"),
        ("2026-01-31 10:15", "2026-01-31T10:15"),
    ],
)
def test_a_user_names_a_time_by_a_date_a_day_or_how_long_ago(text: str, expected: str) -> None:
    with utc():
        found = moment_given(text, MONDAY)
    assert found.isoformat() == f"{expected}:00+00:00"


@for_each("text", ["", "tomorrow", "7", "2 fortnights", "m", "999999y", "next week"])
def test_what_is_not_a_time_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"not a time; give a date such as .*'yesterday'"):
        moment_given(text, MONDAY)
