"""Text for a terminal or a list: without control characters, and cut.

A half of a secret is not known as one. So a caller that masks secrets says so by `masking`, and
each text is masked before it is cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

WIDTH: Final = 60
JOINERS: Final = "\u200c\u200d"  # characters that some scripts and many emoji need
_KEPT: Final = "\n\t" + JOINERS
_DRIVING: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
_SEQUENCE: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"  # such as a colour
    r"|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\|$)"  # such as a title
    r"|\x1b[()*+#%](?:[0-~]|$)"  # such as a character set
)
"""An escape sequence of a terminal; a cut one at the end, too. Few texts need it compiled."""

_LOOK: Final = 2000  # characters read for a preview, so that a screenshot is not read to its end

_LONGEST_SECRET: Final = 4096  # characters behind a cut that are searched for the end of a secret

Mask = Callable[[str], str]

_mask: ContextVar[Mask | None] = ContextVar("mask", default=None)


def in_quotes(command: str) -> str:
    """A command in quotation marks, unless it has some of its own."""
    return command if "'" in command else f"'{command}'"


@contextmanager
def masking(mask: Mask | None) -> Iterator[None]:
    """Mask the secrets of each text that is cut in this context; None masks nothing."""
    token = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(token)


def is_masking() -> bool:
    """True if secrets are masked in texts that are cut."""
    return _mask.get() is not None


def mask_then_cut(text: str, start: int, end: int) -> str:
    """A text of which a part is to be cut out: as it is, or what surrounds the part, masked."""
    mask = _mask.get()
    if mask is None:
        return text
    return mask(text[max(0, start - _LONGEST_SECRET) : end + _LONGEST_SECRET])


LF_SHOWN: Final = "↵"
"""What a line break is shown as, on one line."""


def one_line(text: str, width: int = WIDTH) -> str:
    """Text on one line: line breaks as ↵, control characters removed, cut at `width`."""
    if len(text) > width:
        text = mask_then_cut(text, 0, 2 * width)
    elif text.isprintable():  # as most short ones are
        return text.strip()
    line = _on_one_line(text[: 2 * width])
    if len(line) <= width and len(text) > 2 * width:  # most was removed
        line = _on_one_line(text[: max(_LOOK, 2 * width)])
    return line if len(line) <= width else line[: width - 1] + "…"


def short(uuid: str) -> str:
    """The first characters of a uuid, as people see it."""
    return one_line(uuid, 100)[:8]


def _on_one_line(text: str) -> str:
    return printable(text.strip().replace("\r\n", "\n").replace("\n", LF_SHOWN).replace("\t", " "))


def printable(text: str) -> str:
    """Text without escape sequences and control characters; line breaks and tabs stay."""
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = re.sub(_SEQUENCE, "", text)
    for c in set(text):
        if not c.isprintable() and c not in _KEPT and unicodedata.category(c) in _DRIVING:
            text = text.replace(c, "")
    return text
