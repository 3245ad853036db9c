"""The search of one file: lines that may match are decoded, and entries that match are hits.

What the file is, is decided when its first line may match, so that most files cost one
open and one pass over their bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from sessiontree.agents.codex.names import rollout_of
from sessiontree.core.codec import decoder
from sessiontree.core.damage import MAX_FINDINGS, ignore
from sessiontree.core.display import mask_then_cut, printable
from sessiontree.core.entry import Entry, decode_leniently, decode_object, is_of_subagent
from sessiontree.core.handle import BLOB_NEEDLES, blob_of
from sessiontree.core.message import (
    TOOL,
    begins_turn,
    calls_of,
    failure_in,
    message_in,
    repeated_by,
    speaker_named,
    tools_of,
    without_calls,
)
from sessiontree.core.spill import Fetch, restore
from sessiontree.core.usage import usage_of
from sessiontree.engine.opening import FileStart, sniff_file
from sessiontree.errors import SessionTreeError, SpilledError
from sessiontree.library.listing import moment
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import Positioned
from sessiontree.storage.names import (
    SUBAGENTS,
    TOOL_RESULTS,
    Report,
    chats_of_subagents,
    read_side_file,
    side_files,
    side_folder,
)
from sessiontree.storage.place import START
from sessiontree.storage.scanner import Scanner
from sessiontree.text.amounts import counted
from sessiontree.text.pattern import AllOf, Match, Pattern, Prefilter, Span, finder
from sessiontree.text.preview import role, speaker, texts, texts_of_tool

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.engine.names import Names
    from sessiontree.library.search_foreign import ForeignFile
    from sessiontree.storage.blobs import Blobs


BEFORE: Final = 40
AFTER: Final = 80
LONGEST_MATCH: Final = 200
"""The most characters of a snippet before, after and in the match."""


class SearchFilter(msgspec.Struct, frozen=True):
    """Which entries count."""

    # Those of one of these roles, as stored or as people read it; all if empty. `tool` is the role
    # of results of tools, `prompt` that of what the user typed.
    roles: frozenset[str] = frozenset()
    tool: str | None = None  # the tool whose calls and results count; None for all text
    since: datetime | None = None  # the time from which on entries count; None for all
    current: bool = False  # whether only entries on the path to the leaf count
    blobs: bool = False  # whether content in blobs counts too
    # Whether hits say which tools, model and usage a message has, and if it is a prompt.
    facts: bool = False
    # Whether `custom` entries, which programs keep for themselves, do not count.
    conversation: bool = False


class SearchHit(msgspec.Struct, frozen=True, rename="camel"):
    """One entry that matches.

    Attributes:
        file: the file of the session.
        session: the id of the session.
        ref: the uuid of the entry.
        type, timestamp, lane: the type, the timestamp and the lane of the entry.
        role: the role of the entry as stored, or None.
        snippet: the text around the first match of each word, on one line.
        match: the start and the end of the first match in the snippet.
        matches: the start and the end of every match of the words in the snippet, in order; of a
            regular expression, of the first match.
        speaker: the role as people read it: `tool` for results of tools in any shape.
        prompt: whether the entry is a prompt. This and the following are in the hits of
            `search --json`, not in those of `Store.search`.
        turn: the number of the turn that the entry is in, counted over all branches in file order;
            None above the first prompt, for a subagent, and in a session of more than 128 MB.
        tools: the names of the tools that the entry calls, or whose results it has.
        model: the model that wrote the message, or None.
        usage: the tokens that the message reports, as `stats --json` prints them, or None.
        cost: the reported cost of the message in US dollars, or None.
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
    matches: list[Span] = []
    speaker: str | None = None
    prompt: bool = False
    turn: int | None = None
    tools: list[str] = []
    model: str | None = None
    usage: dict[str, Any] | None = None
    cost: float | None = None


class FileSearch:
    def __init__(
        self,
        file: str,
        pattern: Pattern | AllOf,
        wanted: SearchFilter,
        scanner: Scanner,
        report: Report,
    ) -> None:
        self._file = file
        self._pattern = pattern
        self._wanted = wanted
        self._scanner = scanner
        self._report = report
        self._start: FileStart | None = None
        self._session = ""
        self._tools: dict[str, str | None] = {}
        self._path: frozenset[int] | None = None
        self._names: Names | None = None
        self._said: dict[str, bool] = {}  # whether the file has an entry that others repeat
        self._is_begun = False
        self._unread = 0
        self._last_unread = b""
        self._is_chat = False

    def hits(self) -> Iterator[SearchHit]:
        found: set[int] = set()
        lines = self._scanner.lines(self._file, self._find, self._narrow)
        try:
            for offset, line in lines:
                start = self._start or self._sniff(self._scanner.file)
                if start.kind in _BY_PARTS:
                    yield from self._hits_by_parts(start, chain([(offset, line)], lines))
                    return
                hit = self._hit_in(line, offset)
                if hit is not None:
                    found.add(offset)
                    yield hit
        finally:
            lines.close()
        if self._unread > MAX_FINDINGS:
            more = counted(self._unread - MAX_FINDINGS, "more line")
            self._report(f"{self._file}: {more} may hold the pattern, likewise")
        if self._wanted.blobs:  # also if their folder is gone, which is then reported
            yield from self._hits_in_blobs(found)
        if self._start is None and self._may_match_beside():
            from sessiontree.storage.places import open_log  # few searches need it

            with closing(open_log(DISK, self._file, readonly=True)) as log:
                start = self._sniff(log)
            if start.agent is not None:
                yield from self._hits_by_parts(start, ())

    def _sniff(self, file: Positioned) -> FileStart:
        self._start = sniff_file(file)
        self._session = self._start.session_id
        return self._start

    def _narrow(self, start: bytes) -> Prefilter | None:
        """What each line that may match has, as `Scanner.lines` asks for it."""
        if start.find(CHAT) >= 0:
            return None
        self._is_begun = True
        return self._pattern.sought

    def _find(self, block: bytearray | bytes, end: int) -> Iterator[Span]:
        """The lines that may match, as `Scanner.lines` asks for them."""
        if not self._is_begun and block.find(CHAT, 0, START) >= 0:
            self._is_chat = True
        self._is_begun = True
        found = self._pattern.candidates(block, end)
        if not self._is_chat:
            return found
        from sessiontree.agents.gemini.reader import lines_made_anew  # slow to import, few need it

        return iter(sorted({*found, *lines_made_anew(block, end)}))

    def _may_match_beside(self) -> bool:
        """True if another file of the session may hold what is searched for."""
        if self._wanted.blobs and os.path.isdir(side_folder(self._file, TOOL_RESULTS)):
            return True
        has_agents = os.path.isdir(side_folder(self._file, SUBAGENTS)) or any(
            True for _ in chats_of_subagents(self._file, self._report)
        )
        if not has_agents and rollout_of(self._file) is None:
            return False
        from sessiontree.engine.translated import agent_files, history_files  # slow, few need it
        from sessiontree.library.search_foreign import names_match

        find = self._pattern.candidates
        agents = list(agent_files(self._file, self._report)) if has_agents else []
        return any(names_match(file, find) for file in agents) or any(
            next(self._scanner.lines(file, find), None) is not None
            for file in (*agents, *history_files(self._file))
        )

    def _hits_by_parts(
        self, start: FileStart, lines: Iterable[tuple[int, bytes]]
    ) -> Iterator[SearchHit]:
        """The hits in a file of another agent, or of version 1; `lines` of it may match."""
        from sessiontree.library.search_foreign import ForeignFile  # slow to import, few need it

        with closing(ForeignFile(self._file, start, self._report, self._scanner.inside)) as foreign:
            if self._wanted.tool or self._wanted.current:
                yield from self._hits_as_opened()
            else:
                yield from self._hits_alone(foreign, lines)
            if start.agent is not None and self._wanted.blobs:
                yield from self._hits_in_results(start.agent.reader, foreign)

    def _hits_alone(
        self, foreign: ForeignFile, lines: Iterable[tuple[int, bytes]]
    ) -> Iterator[SearchHit]:
        given: set[str] = set()
        for entry in foreign.matching(self._pattern.candidates, lines):
            found = self._hit(entry, entry.as_stored)
            if found is not None and found.ref not in given:
                given.add(found.ref)
                yield found

    def _hits_in_results(self, reader: Reader, foreign: ForeignFile) -> Iterator[SearchHit]:
        """The hits in results that were too long for their lines, in files beside the session."""
        for file in side_files(self._file, TOOL_RESULTS, self._report):
            content = read_side_file(DISK, file)
            if content is None:
                self._report(f"{file} is not searched: it cannot be read, or is over 64 MiB")
                continue
            text = content.decode("utf-8", "replace")
            match = self._pattern.match_in([text])
            if match is None:
                continue
            entry = next(_naming(reader, foreign, os.path.basename(file)), None)
            if entry is None:
                self._report(f"{file} contains the pattern; no entry names it")
            elif self._is_wanted(entry):
                yield self._made(entry, match)

    def _hits_as_opened(self) -> Iterator[SearchHit]:
        from sessiontree.session import Session

        with Session.open(self._file, readonly=True) as session:
            self._session = session.id
            for entry in session.entries():
                self._note_tools(entry.as_stored)
                found = self._hit(entry, entry.as_stored)
                if found is not None:
                    yield found

    def _hit_in(self, line: bytes, offset: int) -> SearchHit | None:
        if not line or line.isspace():
            return None
        if line == self._last_unread:  # a file may have millions of lines alike
            self._note_unread(line, offset)
            return None
        entry = decode(line, offset) if line[0] in _BEGINS_ENTRY else None
        if entry is not None:
            return self._hit(entry, _restored(entry, _no_blob))
        if decode_leniently(line.strip(b"\0")) is None and line.strip(b"\0\r\t "):
            self._note_unread(line, offset)
        return None

    def _note_unread(self, line: bytes, offset: int) -> None:
        self._last_unread = line
        self._unread += 1
        if self._unread <= MAX_FINDINGS:
            self._report(
                f"{self._file}, byte {offset}: the line may hold the pattern and cannot be "
                "read; verify the file to see why"
            )

    def _hit(self, entry: Entry, body: Mapping[str, Any]) -> SearchHit | None:
        if not self._is_wanted(entry):
            return None
        match = self._pattern.match_in(self._texts(body))
        if match is not None and (given := _GIVEN.get(entry.type)) in body and self._is_old(entry):
            rest = {key: value for key, value in body.items() if key != given}
            match = self._pattern.match_in(self._texts(rest))
        if match is None or (self._wanted.current and not self._is_on_path(entry)):
            return None
        return self._made(entry, match)

    def _texts(self, body: Mapping[str, Any]) -> Iterator[str]:
        failure = failure_in(body) if self._wanted.conversation else None
        if failure is not None:  # without what the program keeps beside it
            return iter((failure,))
        tool = self._wanted.tool
        return texts(body) if tool is None else texts_of_tool(body, tool, self._tool_of)

    def _is_wanted(self, entry: Entry) -> bool:
        wanted = self._wanted
        if self._is_repeat(entry):
            return False
        if wanted.conversation and entry.type == "custom" and not _is_said(entry.as_stored):
            return False
        if wanted.roles and not _has_role(entry, wanted.roles):
            return False
        since = wanted.since
        return since is None or moment(entry.timestamp) >= since.timestamp()

    def _is_repeat(self, entry: Entry) -> bool:
        """True if an entry repeats another one of this file."""
        repeated = repeated_by(entry.as_stored)
        if repeated is None:
            return False
        if self._start is not None and self._start.agent is not None:
            return True
        if repeated not in self._said:
            find = Pattern(repeated).candidates
            lines = Scanner().lines(self._file, find)
            uuids = (decode_object(line).get("uuid") for _, line in lines)
            self._said[repeated] = repeated in uuids
        return self._said[repeated]

    def _is_old(self, entry: Entry) -> bool:
        """True if a later entry gives another name or label, or removes it."""
        if self._names is None:
            from sessiontree.session import Session

            with Session.open(self._file, readonly=True) as session:
                self._names = session.reader.names()
        return not self._names.is_in_force(entry)

    def _is_on_path(self, entry: Entry) -> bool:
        if self._path is None:
            from sessiontree.session import Session

            with Session.open(self._file, readonly=True) as session:
                self._path = frozenset(hash(above.line) for above in session.cursor.up())
        return hash(entry.line) in self._path  # its offset may differ, if a header is lost

    def _tool_of(self, call_id: str) -> str | None:
        if call_id not in self._tools:
            self._tools[call_id] = None
            if call_id:
                pattern = Pattern(call_id)
                narrow = partial(_any_start, pattern.sought)
                for _, line in Scanner().lines(self._file, pattern.candidates, narrow):
                    self._note_tools(decode_object(line))
        return self._tools[call_id]

    def _note_tools(self, body: Mapping[str, Any]) -> None:
        message = message_in(body)
        if message is not None:
            self._tools.update((call.id, call.name) for call in calls_of(message))

    def _made(self, entry: Entry, match: Match) -> SearchHit:
        stored = role(entry)
        snippet, first = _snippet(self._in_act(entry, match))
        marks = _joined([first, *self._pattern.marks(snippet)])
        is_renamed = stored == "user" or entry.type == "block"
        hit = SearchHit(
            file=self._file,
            session=self._session,
            ref=entry.uuid,
            type=entry.type,
            role=stored,
            timestamp=entry.timestamp,
            lane=entry.lane,
            snippet=snippet,
            match=first,
            matches=marks,
            speaker=speaker(entry) if is_renamed else stored and speaker_named(stored),
        )
        return replace(hit, **_facts_of_message(entry)) if self._wanted.facts else hit

    def _in_act(self, entry: Entry, match: Match) -> Match:
        """A match in a call as the line of its act has it; the match where that line has it not."""
        message = message_in(entry.as_stored)
        tool = self._wanted.tool
        calls = [
            call
            for call in (calls_of(message) if message is not None else ())
            if tool is None or call.name.casefold() == tool.casefold()
        ]
        if not calls or message is None:
            return match
        rest = without_calls(message) if tool is None else None
        if rest is not None and self._pattern.match_in(texts({"message": rest})) is not None:
            return match
        from sessiontree.views.acts import act_of  # few hits are in calls

        lines = (act_of(call).what for call in calls)
        found = (self._pattern.match_in([line]) for line in lines)
        return next(filter(None, found), match)

    def _hits_in_blobs(self, given: set[int]) -> Iterator[SearchHit]:
        """The hits in blobs, of entries that were not hits before."""
        from sessiontree.storage.places import blobs_of  # few searches need it

        blobs = blobs_of(DISK, self._file)
        for offset, line in self._scanner.lines(
            self._file, finder(BLOB_NEEDLES), partial(_any_start, Prefilter(BLOB_NEEDLES))
        ):
            entry = None if offset in given else decode(line, offset)
            if entry is None or not self._is_wanted(entry):
                continue
            start = self._start or self._sniff(self._scanner.file)
            if start.kind in _BY_PARTS:
                return
            found = self._hit(entry, self._with_blobs(entry, blobs))
            if found is not None:
                yield found

    def _with_blobs(self, entry: Entry, blobs: Blobs) -> Mapping[str, Any]:
        """The keys of an entry with the content of its blobs, as far as it can be read."""

        def fetch(handle: Any) -> bytes:
            blob = blob_of(handle)
            try:
                return blobs.read(*blob) if blob is not None else b""
            except SessionTreeError as error:
                self._report(f"{self._file}, entry {entry.uuid}: {error}")
                return b""

        body = dict(_restored(entry, fetch))
        if entry.type == "handle":
            body["(content)"] = fetch(body.get("handle")).decode("utf-8", "replace")
        return body


def _naming(reader: Reader, foreign: ForeignFile, name: str) -> Iterator[Entry]:
    for number, file in enumerate(foreign.files):
        for offset, line in Scanner().lines(file, Pattern(name).candidates):
            entry = foreign.entry(reader, number, offset, line)
            if entry is not None:
                yield entry


def _facts_of_message(entry: Entry) -> dict[str, Any]:
    message = entry.message_as_stored if entry.type == "message" else None
    if not isinstance(message, dict):
        return {"prompt": True} if begins_turn(entry.as_stored) else {}
    model, reported = message.get("model"), message.get("usage")
    usage = usage_of(reported) if isinstance(reported, dict) else None
    return {
        "prompt": begins_turn(entry.as_stored) and not is_of_subagent(entry.lane),
        "tools": tools_of(message),
        "model": model if isinstance(model, str) and model else None,
        "usage": usage and usage.as_dict(),
        "cost": (usage and usage.cost) or None,
    }


def _is_said(keys: Mapping[str, Any]) -> bool:
    """True if a `custom` entry is a prompt, or the error that ended a turn."""
    return begins_turn(keys) or failure_in(keys) is not None


PROMPT: Final = "prompt"
"""The role by which a search finds what the user typed."""


def _has_role(entry: Entry, roles: frozenset[str]) -> bool:
    """True if an entry has one of some roles, by the name of people or as stored."""
    if PROMPT in roles and begins_turn(entry.as_stored) and not is_of_subagent(entry.lane):
        return True
    stored, named = role(entry), speaker(entry)
    return named in roles or (stored in roles and (stored, named) != ("user", TOOL))


_GIVEN: Final = {"label": "label", "session_info": "name", "session": "name"}
"""For each type that gives a label or the name of a session, the key with it."""

_BY_PARTS: Final = ("foreign", "version 1")
"""The kinds of files whose lines are not entries as they are."""

_BEGINS_ENTRY: Final = frozenset(b"{\0\xef\t\r ")
"""The first bytes of lines that may be entries: what may stand before the object, and its own."""

CHAT: Final = b'"projectHash"'
"""A key that every chat of Gemini CLI has within its first bytes."""

decode: Final = decoder(ignore)
"""The entry of a line at an offset, or None; what is wrong with the line is not told."""


def _on_one_line(text: str) -> str:
    return printable(text.replace("\r\n", "\n").replace("\n", "↵").replace("\t", " "))


def _any_start(sought: Prefilter | None, start: bytes) -> Prefilter | None:
    return sought


def _no_blob(handle: str) -> bytes:
    return b""


def _restored(entry: Entry, fetch: Fetch) -> Mapping[str, Any]:
    body = entry.as_stored
    if not entry.has_spilled:
        return body
    try:
        return restore(body, fetch)
    except SpilledError:
        return body


def _snippet(match: Match) -> tuple[str, Span]:
    """The text around the matches on one line, and where the first one is in it."""
    text, spans = match
    groups = [[spans[0]]]
    for span in spans[1:]:
        if span[0] - BEFORE > groups[-1][-1][1] + AFTER:
            groups.append([])
        groups[-1].append(span)
    pieces = [_piece(text, group[0], group[-1][1]) for group in groups]
    before, first, after = pieces[0]
    more = "".join(before.lstrip("…") + found + after for before, found, after in pieces[1:])
    return before + first + after + more, (len(before), len(before) + len(first))


def _piece(text: str, span: Span, stop: int) -> tuple[str, str, str]:
    """What is before a match, the match, and what is after it, up to a little after `stop`."""
    size = stop - span[1]
    text, (start, end) = _masked(text, span)
    before = _on_one_line(text[max(0, start - BEFORE) : start])
    match = _on_one_line(text[start : min(end, start + LONGEST_MATCH)])
    after = _on_one_line(text[end : end + size + AFTER])
    return (
        "…" + before if start > BEFORE else before,
        match,
        after + "…" if end + size + AFTER < len(text) else after,
    )


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that overlap as one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        elif end > start or not joined:
            joined.append((start, end))
    return joined


def marked(text: str, spans: Iterable[Span], mark: Callable[[str], str]) -> str:
    """A text with `mark` applied to the parts of it at some spans, which are in order."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], mark(text[start:end])]
        at = end
    return "".join((*parts, text[at:]))


def _masked(text: str, span: Span) -> tuple[str, Span]:
    """A text with a match, or what surrounds it with secrets masked; a match in one is masked."""
    start, end = span
    shown = mask_then_cut(text, start, end)
    if shown is text:
        return text, span
    at = max(shown.find(text[start:end]), 0)
    return shown, (at, at + (end - start if shown.startswith(text[start:end], at) else 0))
