"""Amounts and times as people read them: `41k`, `$0.38`, `6 min`, `3 days ago`."""

from __future__ import annotations

from typing import Final

_BRIEF_UNITS: Final = ((365, "y"), (30, "mo"), (7, "w"), (1, "d"))
_UNITS: Final = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"))


def in_short(count: int) -> str:
    """A number, such as `950`, `41k` or `1.2M`."""
    size = float(count)
    for unit in ("", "k", "M"):
        if size < (1000 if not unit else 999.5):
            digits = f"{size:.1f}".removesuffix(".0") if unit and size < 9.95 else f"{size:.0f}"
            return digits + unit
        size /= 1000
    return f"{size:,.1f}G"


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things, such as `1 file` or `2,300 files`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def dollars(cost: float) -> str:
    """A cost, such as `$0.38`; less than a cent with the digits that tell."""
    return f"${cost:,.2f}" if cost >= 0.01 else f"${cost:.2g}" if cost >= 0.0001 else "<$0.0001"


def about(amount: float) -> str:
    """An estimated amount in US dollars, such as `~$1.20`."""
    text = dollars(amount)
    return text if text.startswith("<") else f"~{text}"


def lasting(seconds: float) -> str:
    """A length of time, such as `8 s`, `6 min`, `2 h 40 min` or `3 days`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 10 and minutes:
        return f"{hours} h {minutes} min"
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def ago(seconds: float) -> str:
    """How long ago something was, such as `just now`, `5 min ago` or `2 months ago`."""
    if seconds < 60:
        return "just now" if seconds > -60 else "in the future"
    if seconds < 3600:
        return f"{int(seconds // 60)} min ago"
    if seconds < 86_400:
        return f"{int(seconds // 3600)} h ago"
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= size)
    count = int(seconds // size)
    return f"{count} {unit}{'' if count == 1 else 's'} ago"


def briefly_ago(seconds: float) -> str:
    """How long ago something was, in at most four characters, such as `5m` or `11mo`."""
    if seconds < 60:
        return "now"
    if seconds < 86_400:
        return f"{int(seconds // 60)}m" if seconds < 3600 else f"{int(seconds // 3600)}h"
    days = int(seconds // 86_400)
    size, unit = next((size, unit) for size, unit in _BRIEF_UNITS if days >= size)
    return f"{days // size}{unit}"
