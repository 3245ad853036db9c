"""Moments: the times at which entries were written, as stored."""

from __future__ import annotations

from datetime import UTC, datetime


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
