"""Moments: the times at which entries were written, as stored."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from sessiontree.errors import UsageError

_AGO: Final = re.compile(r"(\d{1,6})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment_of(timestamp: object) -> datetime | None:
    """A stored time (RFC 3339), one without a zone as UTC; None if it is not a time."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def seconds_of(timestamp: object) -> float | None:
    """A stored time in seconds since 1970; None if it is not a time."""
    moment = moment_of(timestamp)
    return None if moment is None else moment.timestamp()


def moment_given(text: str, now: datetime) -> datetime:
    """The time that a user names: a date, a date and time, or how long before `now`, such as `7d`.

    Raises:
        UsageError: the text is not such a time.
    """
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        forms = "a date such as 2026-01-31, a date and time, or how long ago: 30m, 12h, 7d, 2w"
        raise UsageError(f"not a time; give {forms}") from None
