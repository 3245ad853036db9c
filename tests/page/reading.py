"""A page read back: the rows that are inside, as the script of the page reads them."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from sessiontree import Redaction, Session

_DATA: Final = re.compile(r'<script type="text/plain" id="(\w+)">([^<]*)</script>')
_TAG: Final = re.compile(r"<[^>]*>")


class Page:
    """The data of a page.

    Attributes:
        text: the file.
        index: what the script reads first.
        rows: the head and the body of each row.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = {name: _unpacked(data) for name, data in _DATA.findall(text)}
        self.index: dict[str, Any] = parts.pop("index")
        for name in ("uuids", "gists"):
            self.index[name] = self.index[name].split("\n")
        self.rows: list[list[Any]] = [row for chunk in parts.values() for row in chunk]
        for row in self.rows:
            if len(row) > 1 and isinstance(row[1], int):
                row[1] = self.rows[row[1]][1]

    def said(self, kinds: str) -> list[str]:
        """The texts of the rows of some kinds, in order."""
        pairs = zip(self.index["kinds"], self.rows, strict=True)
        return [plain("".join(row)) for kind, row in pairs if kind in kinds]

    def row_of(self, uuid: str) -> int:
        """The number of the row that a link to an entry opens."""
        found: int = list(accumulate(self.index["rowOf"]))[self.index["uuids"].index(uuid)]
        return found


def plain(markup: str) -> str:
    """HTML as a text."""
    return " ".join(html.unescape(_TAG.sub(" ", markup)).split())


def _unpacked(data: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(data)))


def page_of(file: Path, redact: Redaction | None = None) -> Page:
    """The page of a session file."""
    with Session.open(file, readonly=True) as session:
        return Page("".join(session.to_html(redact=redact)))
