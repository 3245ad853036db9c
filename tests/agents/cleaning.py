"""What the samples of `fixtures/agents` leave out of an agent's files."""

from __future__ import annotations

import re
from typing import Any, Final

LONGEST: Final = 160
"""The characters of a text that are kept."""


DAY: Final = "2026-11-21"
"""The day of new samples: screens show the sessions of the samples by their times."""

_DAY: Final = re.compile(r"\b20\d\d-\d\d-\d\d(?=T)")


def cleaned(value: Any, folder: str, shown: str, on_day: str = "") -> Any:
    """A value with its long texts cut, and with `shown` in place of a folder's path.

    `on_day` replaces the days of its times, if it is given.
    """
    if isinstance(value, dict):
        return {key: cleaned(each, folder, shown, on_day) for key, each in value.items()}
    if isinstance(value, list):
        return [cleaned(each, folder, shown, on_day) for each in value]
    if not isinstance(value, str):
        return value
    text = value.replace(folder, shown)
    if on_day:
        text = _DAY.sub(on_day, text)
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + "…"
