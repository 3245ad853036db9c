"""Other agents' session files: readers, and writers for conversion.

Each agent has one module or one folder. A file is recognised by its content, not by its
name. A reader translates it line by line into version 2, so that every reading command
works on it. `agents.base` has what readers share, `agents.writing` what writers share.
"""

from __future__ import annotations

from typing import Final

from sessiontree.agents.base import Facts, Format
from sessiontree.agents.claude_code.reader import ClaudeCode
from sessiontree.agents.codex.reader import Codex
from sessiontree.agents.gemini.reader import Gemini
from sessiontree.agents.pi.reader import Pi

__all__ = ["FORMATS", "HEAD", "Facts", "Format", "recognise", "record_in"]

FORMATS: Final[tuple[Format, ...]] = (Pi(), Codex(), Gemini(), ClaudeCode())

HEAD: Final = 64 * 1024
"""The bytes at the start of a file that are enough to recognise it."""


def recognise(head: bytes) -> Format | None:
    """The format of a file that starts with these bytes, decompressed; None for any other.

    A sessiontree file of any version gives None.
    """
    is_document = head.startswith(b"{\n")  # one document over many lines
    likely = (Gemini(), *FORMATS) if is_document else FORMATS
    return next((format for format in likely if format.recognises(head)), None)


def record_in(head: bytes) -> str | None:
    """What an agent keeps in a file with this start, in words, if it is no session."""
    return next(filter(None, (format.record_in(head) for format in FORMATS)), None)
