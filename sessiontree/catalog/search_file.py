"""One file being searched: what of it may match is decoded, and what matches is a hit.

A hit of a search: one entry that matches, and which entries are wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sessiontree.catalog.listing import header_of, moment
from sessiontree.core.blob import MARK, blob_of
from sessiontree.core.codec import decode
from sessiontree.core.damage import ignore
from sessiontree.core.display import printable
from sessiontree.core.entry import Entry, decode_leniently, decode_object
from sessiontree.core.header import is_version_1
from sessiontree.core.message import Call, calls_of
from sessiontree.core.spill import Fetch, restore
from sessiontree.errors import ForeignFormatError, NotASessionError, SessionTreeError, SpilledError
from sessiontree.storage.files import SUBAGENTS, TOOL_RESULTS, Report, own_folder
from sessiontree.storage.lines import Inside, Scanner
from sessiontree.text.pattern import Pattern, Span, lines_with
from sessiontree.text.preview import role
from sessiontree.text.searchable import texts, texts_of_tool

if TYPE_CHECKING:
    from sessiontree.catalog.search_foreign import ForeignFile
    from sessiontree.formats.gemini.layout import Responses
    from sessiontree.storage.blobs import Sidecar


BEFORE: Final = 40
AFTER: Final = 80
LONGEST_MATCH: Final = 200
"""Characters of a snippet before, after and in the match."""


class Wanted(msgspec.Struct, frozen=True):
    """Which entries count.

    Attributes:
        roles: only those that speak in one of these roles; empty: all.
        tool: only in calls of this tool, and in their results.
        since: only those written then or later.
        current: only those on the path that their session stands at.
        blobs: also in what was taken out of the file into blobs.
    """

    roles: frozenset[str] = frozenset()
    tool: str | None = None
    since: datetime | None = None
    current: bool = False
    blobs: bool = False


class SearchHit(msgspec.Struct, frozen=True, rename="camel"):
    """One entry that matches.

    Attributes:
        file: the session's file.
        session: the session's id.
        ref: the entry's uuid.
        type, timestamp, lane: the entry's.
        role: the role it speaks in, or None.
        snippet: the text around its first match, on one line.
        match: where in the snippet the match begins and ends.
    """

    file: str
    session: str
    ref: str
    type: str
    role: str | None
    timestamp: str | None
    lane: str | None
    snippet: str
    match: Span


def hit(file: str, session: str, entry: Entry, text: str, span: Span) -> SearchHit:
    """The hit that an entry is, by one of its texts and where that matches."""
    start, end = span
    before = _flat(text[max(0, start - BEFORE) : start])
    match = _flat(text[start : min(end, start + LONGEST_MATCH)])
    after = _flat(text[end : end + AFTER])
    if start > BEFORE:
        before = "…" + before
    if end + AFTER < len(text):
        after += "…"
    return SearchHit(
        file=file,
        session=session,
        ref=entry.uuid,
        type=entry.type,
        role=role(entry),
        timestamp=entry.timestamp,
        lane=entry.lane,
        snippet=before + match + after,
        match=(len(before), len(before) + len(match)),
    )


def _flat(text: str) -> str:
    """Text on one line, without what drives a terminal."""
    return printable(text.replace("\r\n", "\n").replace("\n", "↵").replace("\t", " "))


class FileSearch:
    """One file being searched."""

    def __init__(
        self, file: str, pattern: Pattern, wanted: Wanted, scanner: Scanner, report: Report
    ) -> None:
        self._file = file
        self._pattern = pattern
        self._wanted = wanted
        self._scanner = scanner
        self._report = report
        self._session = ""
        self._tools: dict[str, str | None] = {}
        self._path: frozenset[int] | None = None
        self._is_begun = False
        self._responses: Responses | None = None

    def hits(self) -> Iterator[SearchHit]:
        given: set[int] = set()
        lines = self._scanner.lines(self._file, self._find)
        for offset, line in lines:
            if not self._session and not self._is_read_by_line():
                yield from self._hits_in_other(chain([(offset, line)], lines), self._scanner.inside)
                return
            found = self._hit_in(line, offset)
            if found is not None:
                given.add(offset)
                yield found
        inside = self._scanner.inside
        if self._wanted.blobs:  # also where their folder is gone, which is then told
            yield from self._hits_in_blobs(given)
        if not self._session and self._may_match_beside():
            yield from self._hits_in_other((), inside)

    def _find(self, block: bytearray | bytes, end: int) -> Iterator[Span]:
        """The lines that may match, as `Scanner.lines` asks for them."""
        if not self._is_begun and block.find(_CHAT, 0, _OPENING) >= 0:
            from sessiontree.formats.gemini.layout import (
                Responses,  # heavy, and seldom needed
            )

            self._responses = Responses()
        self._is_begun = True
        found = self._pattern.candidates(block, end)
        if self._responses is None:
            return found
        return iter(sorted({*found, *self._responses.structured(block, end)}))

    def _is_read_by_line(self) -> bool:
        """Whether each line of the file is an entry as it stands."""
        try:
            header = header_of(self._file)
        except (ForeignFormatError, NotASessionError):
            return False
        self._session = str(header.get("id") or "") or _NO_ID
        return not is_version_1(header)

    def _may_match_beside(self) -> bool:
        """Whether a folder of the file's own may hold what is looked for."""
        folder = own_folder(self._file)
        if self._wanted.blobs and os.path.isdir(os.path.join(folder, TOOL_RESULTS)):
            return True
        if not os.path.isdir(os.path.join(folder, SUBAGENTS)):
            return False
        from sessiontree.catalog.search_foreign import is_told_of
        from sessiontree.engine.translated import agent_files  # heavy, and seldom needed

        find = self._pattern.candidates
        return any(
            is_told_of(file, find) or next(self._scanner.lines(file, find), None) is not None
            for file in agent_files(self._file)
        )

    def _hits_in_other(
        self, lines: Iterable[tuple[int, bytes]], inside: Inside | None
    ) -> Iterator[SearchHit]:
        """The hits in a file of another agent, or of version 1; `lines` of it may match."""
        from sessiontree.catalog.search_foreign import (
            ForeignFile,  # heavy, and not needed for files of ours
        )

        with closing(ForeignFile(self._file, inside)) as foreign:
            is_readable = foreign.is_known or bool(self._session)
            self._session = foreign.id or self._session or _NO_ID
            if not is_readable or self._wanted.tool or self._wanted.current:
                yield from self._hits_as_opened()
            else:
                yield from self._hits_alone(foreign, lines)
            if foreign.is_known and self._wanted.blobs:
                yield from self._hits_in_results(foreign)

    def _hits_alone(
        self, foreign: ForeignFile, lines: Iterable[tuple[int, bytes]]
    ) -> Iterator[SearchHit]:
        given: set[str] = set()
        for entry in foreign.matching(self._pattern.candidates, lines):
            found = self._hit(entry, entry.as_stored)
            if found is not None and found.ref not in given:
                given.add(found.ref)
                yield found

    def _hits_in_results(self, foreign: ForeignFile) -> Iterator[SearchHit]:
        """The hits in results that were too long for their lines, and lie beside the file."""
        folder = os.path.join(own_folder(self._file), TOOL_RESULTS)
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in names:
            with open(os.path.join(folder, name), "rb") as reading:
                text = reading.read().decode("utf-8", "replace")
            span = self._pattern.search(text)
            entry = next(self._naming(foreign, name), None) if span is not None else None
            if span is not None and entry is not None and self._is_wanted(entry):
                yield self._made(entry, text, span)
            elif span is not None and entry is None:
                self._report(f"{os.path.join(folder, name)} holds the pattern; no entry names it")

    def _naming(self, foreign: ForeignFile, name: str) -> Iterator[Entry]:
        """The entries that name a file of results."""
        for number, file in enumerate(foreign.files):
            for offset, line in Scanner().lines(file, Pattern(name).candidates):
                entry = foreign.entry(number, offset, line)
                if entry is not None:
                    yield entry

    def _hits_as_opened(self) -> Iterator[SearchHit]:
        """The hits in a file that has to be translated as a whole."""
        from sessiontree.session import Session

        with Session.open(self._file, readonly=True) as session:
            self._session = session.id
            for entry in session.entries():
                self._tools.update((call.id, call.name) for call in _calls_in(entry.as_stored))
                found = self._hit(entry, entry.as_stored)
                if found is not None:
                    yield found

    def _hit_in(self, line: bytes, offset: int) -> SearchHit | None:
        entry = decode(line, offset, ignore)
        if entry is not None:
            return self._hit(entry, _without_blobs(entry))
        if decode_leniently(line.strip(b"\0")) is None and line.strip(b"\0\r\t "):
            self._report(
                f"{self._file}, byte {offset}: the line may hold the pattern and cannot be "
                f"read; 'sessiontree verify {self._file}' says why"
            )
        return None

    def _hit(self, entry: Entry, body: Mapping[str, Any]) -> SearchHit | None:
        """The hit that an entry is, or None."""
        if not self._is_wanted(entry):
            return None
        for text in self._texts(body):
            span = self._pattern.search(text)
            if span is not None and self._is_on_path(entry):
                return self._made(entry, text, span)
        return None

    def _texts(self, body: Mapping[str, Any]) -> Iterator[str]:
        tool = self._wanted.tool
        return texts(body) if tool is None else texts_of_tool(body, tool, self._tool_of)

    def _is_wanted(self, entry: Entry) -> bool:
        wanted = self._wanted
        if wanted.roles and role(entry) not in wanted.roles:
            return False
        since = wanted.since
        return since is None or moment(entry.timestamp) >= since.timestamp()

    def _is_on_path(self, entry: Entry) -> bool:
        if not self._wanted.current:
            return True
        if self._path is None:
            from sessiontree.session import Session

            with Session.open(self._file, readonly=True) as session:
                self._path = frozenset(hash(above.line) for above in session.cursor.up())
        return hash(entry.line) in self._path  # its offset may differ, where a header is lost

    def _tool_of(self, call_id: str) -> str | None:
        """The name of the tool that a call was made of, by the call's id."""
        if call_id not in self._tools:
            self._tools[call_id] = None
            if call_id:
                for _, line in Scanner().lines(self._file, Pattern(call_id).candidates):
                    calls = _calls_in(decode_object(line))
                    self._tools.update((call.id, call.name) for call in calls)
        return self._tools[call_id]

    def _made(self, entry: Entry, text: str, span: Span) -> SearchHit:
        session = self._session if self._session != _NO_ID else ""
        return hit(self._file, session, entry, text, span)

    def _hits_in_blobs(self, given: set[int]) -> Iterator[SearchHit]:
        """The hits in what entries that were no hits so far keep in blobs."""
        from sessiontree.storage.blobs import Sidecar
        from sessiontree.storage.fs import DISK

        blobs = Sidecar(DISK, self._file)
        for offset, line in self._scanner.lines(self._file, _naming_blobs):
            entry = None if offset in given else decode(line, offset, ignore)
            if entry is None or not self._is_wanted(entry):
                continue
            self._session = self._session or str(header_of(self._file).get("id") or "") or _NO_ID
            found = self._hit(entry, self._with_blobs(entry, blobs))
            if found is not None:
                yield found

    def _with_blobs(self, entry: Entry, blobs: Sidecar) -> Mapping[str, Any]:
        """The keys of an entry with what lies in its blobs, as far as it can be had."""

        def fetch(handle: str) -> bytes:
            blob = blob_of(handle)
            try:
                return blobs.read(*blob) if blob is not None else b""
            except SessionTreeError as error:
                self._report(f"{self._file}, entry {entry.uuid}: {error}")
                return b""

        body = dict(_restored(entry, fetch))
        if entry.type == "handle":
            body[_CONTENT] = fetch(str(body.get("handle"))).decode("utf-8", "replace")
        return body


_NO_ID: Final = "\0"

_CHAT: Final = b'"projectHash"'
_OPENING: Final = 4096
"""A key that every chat of Gemini CLI has, and the bytes at its start that hold it."""

_CONTENT: Final = "(content)"


def _without_blobs(entry: Entry) -> Mapping[str, Any]:
    """The keys of an entry without the handles that stand for spilled strings."""
    return _restored(entry, lambda handle: b"")


def _restored(entry: Entry, fetch: Fetch) -> Mapping[str, Any]:
    body = entry.as_stored
    try:
        return restore(body, fetch)
    except SpilledError:
        return body


def _calls_in(body: Mapping[str, Any]) -> list[Call]:
    message = body.get("message")
    return calls_of(message) if isinstance(message, dict) else []


def _naming_blobs(block: bytearray | bytes, end: int) -> Iterator[Span]:
    return lines_with(MARK, block, end)
