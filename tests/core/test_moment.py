"""Stored times: with a zone, without one, and what is no time."""

from __future__ import annotations

import time

import pytest

from sessiontree.core.entry import moment_of, seconds_of
from sessiontree.library.listing import moment


@pytest.mark.parametrize(
    ("stored", "seconds"),
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
