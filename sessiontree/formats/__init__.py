"""Other agents' session files, read in place and never written.

One module a format. A file is recognised by its content, whatever its name, and
translated line by line into lines of version 2, so that every command that reads
works on it. See `formats.base` for what a format promises.
"""

from __future__ import annotations

from typing import Final

from sessiontree.formats.base import Facts, Format
from sessiontree.formats.claude_code.reader import ClaudeCode
from sessiontree.formats.codex import Codex
from sessiontree.formats.gemini.reader import Gemini
from sessiontree.formats.pi.reader import Pi

__all__ = ["FORMATS", "HEAD", "Facts", "Format", "recognise"]

FORMATS: Final[tuple[Format, ...]] = (Pi(), Codex(), Gemini(), ClaudeCode())

HEAD: Final = 64 * 1024
"""How many bytes of a file's start are enough to recognise it."""


def recognise(head: bytes) -> Format | None:
    """The format of a file that starts with these bytes; None for any other file.

    A file of ours, version 1 included, is none of these. A compressed file is given
    as it is inside.
    """
    likely = (Gemini(), *FORMATS) if head.startswith(_DOCUMENT) else FORMATS
    return next((format for format in likely if format.recognises(head)), None)


_DOCUMENT: Final = b"{\n"
"""How a file starts that is one document over many lines."""
