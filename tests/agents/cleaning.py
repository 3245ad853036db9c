"""What the samples of `fixtures/agents` leave out of an agent's files."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import Any, Final

LONGEST: Final = 160
"""The characters of a text that are kept."""


DAY: Final = "2026-11-21"
"""The day of new samples: screens show the sessions of the samples by their times."""

_FIRST_TIME: Final = 10**12
"""Larger numbers are times, in milliseconds since 1970."""

_DAY: Final = re.compile(r"\b20\d\d-\d\d-\d\d(?=T)")


def cleaned(
    value: Any, folder: str, shown: str, on_day: str = "", *, longest: int = LONGEST
) -> Any:
    """A value with its long texts cut, and with `shown` in place of a folder's path.

    `on_day` replaces the days of its times, if it is given.
    """
    again = partial(cleaned, folder=folder, shown=shown, on_day=on_day, longest=longest)
    if isinstance(value, dict):
        return {key: again(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(again, value)]
    if isinstance(value, int) and value > _FIRST_TIME and on_day:
        midnight = datetime.fromisoformat(f"{on_day}T00:00:00+00:00").timestamp()
        return int(midnight) * 1000 + value % 86_400_000
    if not isinstance(value, str):
        return value
    text = value.replace(folder, shown)
    if on_day:
        text = _DAY.sub(on_day, text)
    return text if len(text) <= longest else text[:longest].rstrip() + "…"
