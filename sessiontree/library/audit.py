"""Audit: which conversations hold secrets, in which turns, and what makes files large.

The lines of each file are searched as they are in the file, so that what an agent keeps beside its
messages counts, too: results of tools, its own records, the working directory. Searched as well is
what belongs to a session and is beside its file: blobs, archives, transcripts of subagents, results
in files of their own, the other files of a thread. The turn of a secret is that of its entry; a
line that is no entry has the turn that was last begun when it was written.

Invariants: no secret leaves the process that reads it, only its kind and a digest by a random key
of this run; memory grows with the longest line and the number of secrets, not with the files; what
cannot be read is reported, and hides nothing else; no file is changed.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from sessiontree.agents import OWN, formats
from sessiontree.agents.base import MADE_ANEW
from sessiontree.agents.codex.names import rollout_of
from sessiontree.core.bulk import KINDS, OTHER, RESULTS, sizes_of
from sessiontree.core.entry import decode_leniently, seconds_of
from sessiontree.core.handle import blob_of, handles_of_blobs, media_type_in, with_parts
from sessiontree.core.header import is_in_database
from sessiontree.core.media import text_in
from sessiontree.engine.gc import ARCHIVE
from sessiontree.engine.opening import KEPT_AS
from sessiontree.engine.translated import agent_files, history_files
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import SessionInfo
from sessiontree.library.search import processes_for
from sessiontree.operations.workers import Each, ProcessPool, nothing
from sessiontree.redact.redaction import SecretSearch
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import (
    BLOBS,
    LARGEST_RESULT,
    TOOL_RESULTS,
    Report,
    chats_beside,
    problem_of,
    read_side_file,
    side_files,
)
from sessiontree.storage.place import is_address
from sessiontree.storage.places import blobs_of
from sessiontree.storage.rollouts import thread_beside
from sessiontree.storage.scanner import Scanner

LARGEST: Final = 128_000_000
"""The largest session whose turns are numbered, in bytes."""

SHORTEST: Final = 8
"""The bytes of a line that may have a secret: a file may have millions of shorter ones."""

MAX_PLACES: Final = 1000
"""Of so many places of one secret in a file the turns are given."""

_DOCUMENT: Final = b"{\n"
_LARGEST_DOCUMENT: Final = 32_000_000
_HASH: Final = 64  # characters of the name of a blob
_ORIGINAL: Final = "original"  # the key with what an agent's line holds beside its entry

_Place = tuple[str | None, float | None]
"""The uuid or the id in a line, and its time."""


class _FileSecret(msgspec.Struct, tag=True):
    """One secret in one session file and the files beside it."""

    kind: str
    digest: bytes
    times: int
    files: list[str]
    turns: list[int]
    last: float | None  # when it was written last


class FileSize(msgspec.Struct, frozen=True, tag=True):
    """What a session file and the files beside it take on the disk.

    Attributes:
        agent: the agent whose program wrote the file.
        session: the id of the session.
        file: its file.
        bytes: what all its files take.
        kinds: how much of that each of `core.bulk.KINDS` is.
        is_backup: whether it is an import of a session that an agent keeps or has kept.
        conversation: the file of its conversation that counts; all copies have the same.
    """

    agent: str
    session: str
    file: str
    bytes: int
    kinds: dict[str, int]
    is_backup: bool = False
    conversation: str = ""

    @property
    def is_own(self) -> bool:
        """True if it is a sessiontree file."""
        return self.agent == OWN


class Audit(NamedTuple):
    """What an audit found."""

    secrets: list[ConversationSecrets]  # the latest first
    sizes: list[FileSize]  # the largest first


class ConversationSecrets(msgspec.Struct, frozen=True, rename="camel"):
    """The secrets of one kind in one conversation.

    Attributes:
        kind: the rule that finds them.
        agent: the agent that held the conversation.
        session: the id of the conversation.
        file: the file of the conversation that counts.
        turns: the numbers of the turns that the secrets are in.
        secrets: how many different ones there are.
        times: how often they are there, in the copy of the conversation that has them most often.
        last: when one was written last (seconds since 1970), or None.
        files: all files that hold one, copies and what is beside a session included.
    """

    kind: str
    agent: str
    session: str
    file: str
    turns: list[int]
    secrets: int
    times: int
    last: float | None
    files: list[str]


def audited(
    rows: Sequence[SessionInfo],
    report: Report,
    each: Each = nothing,
    processes: int | None = None,
) -> Audit:
    """What the files of conversations hold: secrets by conversation and kind, and sizes by file.

    `each` is called with the number of each file of all rows before it is searched.
    """
    items = [(number, one) for number, row in enumerate(rows) for one in (row, *row.copies)]
    key = os.urandom(32)

    def work(item: tuple[int, SessionInfo]) -> Iterator[tuple[int, _Result]]:
        number, one = item
        for found in _searched(one, key):
            yield number, found

    processes = processes_for([one.file for _, one in items], processes)
    crew = ProcessPool(work, msgspec.msgpack.encode, _decode, processes)
    made = Audit([], [])
    with closing(crew.results(items, each)) as results:
        for number, group in groupby(results, key=lambda result: result[0]):
            secrets: list[_FileSecret] = []
            for _, found in group:
                if isinstance(found, _FileSecret):
                    secrets.append(found)
                elif isinstance(found, FileSize):
                    made.sizes.append(replace(found, conversation=rows[number].file))
                else:
                    report(found)
            made.secrets.extend(_of_conversation(rows[number], secrets))
    made.secrets.sort(key=lambda one: (-(one.last or 0.0), one.session, one.kind))
    made.sizes.sort(key=lambda one: (-one.bytes, one.file))
    return made


_Result = _FileSecret | FileSize | str
_decode: Final = msgspec.msgpack.Decoder(tuple[int, _Result]).decode


def _of_conversation(
    row: SessionInfo, secrets: Iterable[_FileSecret]
) -> Iterator[ConversationSecrets]:
    by_kind: dict[str, list[_FileSecret]] = {}
    for secret in secrets:
        by_kind.setdefault(secret.kind, []).append(secret)
    for kind, found in by_kind.items():
        times: dict[bytes, int] = {}
        for one in found:
            times[one.digest] = max(one.times, times.get(one.digest, 0))
        turns = next((one.turns for one in found if one.turns), [])
        first = [one for one in found if one.files[0] == found[0].files[0]]
        turns = sorted({turn for one in first for turn in one.turns}) or turns
        yield ConversationSecrets(
            kind,
            row.made_by or OWN,
            row.id,
            row.file,
            turns,
            len(times),
            sum(times.values()),
            max((one.last for one in found if one.last is not None), default=None),
            list(dict.fromkeys(file for one in found for file in one.files)),
        )


def _searched(one: SessionInfo, key: bytes) -> Iterator[_Result]:
    """The secrets in one session file, its size, and what could not be read."""
    problems: list[str] = []
    search = _FileAudit(one, key, problems.append)
    try:
        search.run()
        yield from search.secrets()
        yield search.size()
    except Exception as error:
        problems.append(problem_of(one.file, error))
    yield from problems


class _Found(msgspec.Struct):
    times: int
    files: list[str]
    places: list[_Place]


class _FileAudit:
    def __init__(self, one: SessionInfo, key: bytes, report: Report) -> None:
        self._one = one
        self._report = report
        self._search = SecretSearch(key)
        self._scanner = Scanner()
        self._found: dict[tuple[str, bytes], _Found] = {}
        self._names: dict[str, _Place] = {}  # of each blob, the first line that names it
        self._texts: set[str] = set()  # blobs that a line names as something else than base64
        self._present: set[str] = set()  # blobs that are there
        self._again: Counter[tuple[str, bytes]] = Counter()  # counted, and yet to come in entries
        self._bytes = 0
        self._kinds: dict[str, int] = {}
        self._measured: set[str] = set()  # blobs that count

    def run(self) -> None:
        """Search the file and all that is beside it."""
        file = self._one.file
        if self._one.agent is None:
            self._present = set(self._blob_names())
        self._lines(file)
        for beside in dict.fromkeys(lines_beside(self._one, self._report)):
            try:
                self._lines(beside)
            except (OSError, SessionTreeError) as error:
                self._report(problem_of(beside, error))
        if self._one.agent is None:
            self._blobs()
            return
        for result in side_files(file, TOOL_RESULTS, self._report):
            content = read_side_file(DISK, result)
            self._bytes += (size := _size(result))
            self._kinds[RESULTS] = self._kinds.get(RESULTS, 0) + size
            if content is None:
                self._report(f"{result} is not searched: it cannot be read, or is over 64 MiB")
            else:
                self._text(result, content, (None, _changed(result)))

    def secrets(self) -> Iterator[_FileSecret]:
        """What was found, with the turns."""
        numbers = _Turns(self._one) if self._found else None
        for (kind, digest), found in self._found.items():
            turns = {numbers.of(place) for place in found.places} if numbers else set()
            times = [time for _, time in found.places if time is not None]
            yield _FileSecret(
                kind,
                digest,
                found.times,
                found.files,
                sorted(turn for turn in turns if turn is not None),
                max(times, default=None),
            )

    def size(self) -> FileSize:
        """What the files take; all that is of no other kind is `OTHER`."""
        one = self._one
        rest = self._bytes - sum(self._kinds.values())
        kinds = {kind: self._kinds.get(kind, 0) for kind in KINDS}
        kinds[OTHER] = max(0, rest)
        agent = next((agent.name for agent in formats() if agent.program == one.agent), OWN)
        is_backup = one.imported_from is not None
        return FileSize(agent, one.id, one.file, self._bytes, kinds, is_backup)

    def _lines(self, file: str) -> None:
        """Search a file; what is compressed counts as small as it is."""
        sizes: dict[str, int] = {}
        content = self._search_lines(file, sizes)
        size = self._one.bytes if file == self._one.file else _size(file)
        self._bytes += size
        for kind, count in sizes.items():
            share = count * size // content if content > size else count
            self._kinds[kind] = self._kinds.get(kind, 0) + share

    def _search_lines(self, file: str, sizes: dict[str, int]) -> int:
        """Search a file and add up its kinds; return the bytes of its lines."""
        document = _document(file)
        if document is not None:
            for part in _parts(document):
                self._value(file, part, _place_of(part))
            sizes_of(document, sizes, self._measured)
            return self._one.bytes
        count = 0
        is_own = self._one.agent is None
        for _, line in self._scanner.lines(file, _every_line):
            count += len(line) + 1
            if len(line) < SHORTEST:
                continue
            line = line.lstrip(b"\xef\xbb\xbf").replace(b"\0", b"")
            value = decode_leniently(line)
            if isinstance(value, dict | list):
                place = _place_of(value) if isinstance(value, dict) else (None, None)
                if is_own and isinstance(value, dict):
                    self._entry(file, value, place)
                    self._note_blobs(value, place)
                else:
                    self._value(file, value, place)
                sizes_of(value, sizes, self._measured)
            elif line and not line.isspace():  # torn
                self._text(file, line, (None, None))
        return count

    def _entry(self, file: str, value: dict[str, Any], place: _Place) -> None:
        """Search an entry; what it, or the next ones, were made from in `original` counts once."""
        original = value.get(_ORIGINAL)
        keys = with_parts(self._without_beginnings(value))
        if not isinstance(original, dict):
            self._search.value(keys)
            again = self._search.found & self._again
            self._search.found -= again
            self._again -= again
            self._take(file, place)
            return
        self._search.value(original)
        quoted = self._search.found.copy()
        self._search.found.clear()
        self._search.value({key: part for key, part in keys.items() if key != _ORIGINAL})
        if MADE_ANEW.isdisjoint(original):
            self._search.found += quoted
            self._again.clear()
        else:
            self._again = quoted - self._search.found
            self._search.found |= quoted
        self._take(file, place)

    def _without_beginnings(self, value: dict[str, Any]) -> dict[str, Any]:
        """An entry without what its blobs hold whole: a secret that is cut is not another one."""
        blob = blob_of(value.get("handle"))
        if blob is not None and blob.sha256 in self._present:
            value = {key: part for key, part in value.items() if key != "preview"}
        spilled = value.get("spilled")
        if not isinstance(spilled, list):
            return value
        return {**value, "spilled": [part for part in spilled if not self._is_present(part)]}

    def _is_present(self, spilled: Any) -> bool:
        is_place = isinstance(spilled, list) and len(spilled) == 3
        blob = blob_of(spilled[1]) if is_place else None
        return blob is not None and blob.sha256 in self._present

    def _note_blobs(self, entry: Mapping[str, Any], place: _Place) -> None:
        for handle in handles_of_blobs(entry):
            blob = blob_of(handle)
            if blob is not None:
                self._names.setdefault(blob.sha256, place)
                if not media_type_in(handle).endswith(_OF_BYTES):
                    self._texts.add(blob.sha256)

    def _blobs(self) -> None:
        """Search all files among the blobs: damaged and forgotten ones may have a secret, too."""
        for name, size, content in self._contents():
            self._bytes += size
            if content is None:
                self._report(f"{name} is not searched: it cannot be read, or is over 64 MiB")
            else:
                hashed = os.path.basename(name)[:_HASH]
                if hashed in self._texts or not _is_base64(content):
                    self._text(name, content, self._names.get(hashed, (None, None)))

    def _blob_names(self) -> Iterator[str]:
        blobs = blobs_of(DISK, self._one.file)
        if is_address(self._one.file):
            yield from (blob.sha256 for blob in blobs.blobs())
        elif os.path.isdir(blobs.folder):
            yield from os.listdir(blobs.folder)

    def _contents(self) -> Iterator[tuple[str, int, bytes | None]]:
        """The name, the size and the content of each file; None for what is not read."""
        blobs = blobs_of(DISK, self._one.file)
        if is_address(self._one.file):
            for blob in blobs.blobs():
                name = f"{self._one.file}{BLOBS}/{blob.sha256}"
                is_large = blob.size > LARGEST_RESULT
                yield name, blob.size, None if is_large else blobs.read(*blob)
        elif os.path.isdir(blobs.folder):
            for name in sorted(os.listdir(blobs.folder)):
                path = os.path.join(blobs.folder, name)
                yield path, _size(path), read_side_file(DISK, path)

    def _text(self, file: str, content: bytes, place: _Place) -> None:
        text = text_in(content)
        if text is not None:
            self._value(file, [text[0]], place)

    def _value(self, file: str, value: Any, place: _Place) -> None:
        self._search.value(value)
        self._take(file, place)

    def _take(self, file: str, place: _Place) -> None:
        for secret, times in self._search.found.items():
            found = self._found.setdefault(secret, _Found(0, [], []))
            found.times += times
            if file not in found.files[-1:]:
                found.files.append(file)
            if len(found.places) < MAX_PLACES:
                found.places.append(place)
        self._search.found.clear()


def lines_beside(one: SessionInfo, report: Report) -> Iterator[str]:
    """The files of lines that belong to a session file and are beside it."""
    file = one.file
    if is_address(file):
        return
    if one.agent is None:
        folder, name = os.path.split(os.path.realpath(file))
        with suppress(OSError):
            for beside in sorted(os.listdir(folder)):
                if beside == name + KEPT_AS or beside.startswith(name + ARCHIVE):
                    yield os.path.join(folder, beside)
        return
    yield from agent_files(file, report)
    yield from history_files(file)
    yield from thread_beside(file)
    yield from chats_beside(file)
    if rollout_of(file) is not None:
        twin = file.removesuffix(".zst") if file.endswith(".zst") else f"{file}.zst"
        if os.path.isfile(twin):
            yield twin


def _every_line(block: bytearray | bytes, end: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < end:
        stop = block.find(b"\n", start, end)
        stop = end if stop < 0 else stop
        if stop > start:  # a file may have millions of blank lines
            yield start, stop
        start = stop + 1


def _document(file: str) -> Mapping[str, Any] | None:
    """The content of a document over many lines; None for a file of lines, or a large document."""
    if is_address(file) or is_in_database(file):
        return None
    with open(file, "rb") as opened:
        if opened.read(len(_DOCUMENT)) != _DOCUMENT:
            return None
        if os.fstat(opened.fileno()).st_size > _LARGEST_DOCUMENT:
            return None
        value = decode_leniently(_DOCUMENT + opened.read())
    return value if isinstance(value, dict) else None


def _parts(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The messages of a document, and the rest of it."""
    messages = document.get("messages")
    if isinstance(messages, list):
        yield from (message for message in messages if isinstance(message, dict))
        others = [message for message in messages if not isinstance(message, dict)]
        document = {**document, "messages": others}
    yield document


def _place_of(body: Mapping[str, Any]) -> _Place:
    name = body.get("uuid", body.get("id"))
    time = body.get("timestamp")
    return (
        name if isinstance(name, str) else None,
        seconds_of(time) if isinstance(time, str) else None,
    )


def _is_base64(content: bytes) -> bool:
    """True if content is one long run of base64 and nothing else, such as a picture."""
    return len(content) > 4096 and not content.rstrip(b"=").translate(None, _BASE64)


_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OF_BYTES: Final = ";base64"
"""How the media type of a blob ends that has bytes in base64, and no text."""


def _changed(file: str) -> float | None:
    with suppress(OSError):
        return DISK.stat(file).modified
    return None


def _size(file: str) -> int:
    with suppress(OSError):
        return DISK.stat(file).size
    return 0


class _Turns:
    """The numbers of the turns of a session, by entry and by time."""

    def __init__(self, one: SessionInfo) -> None:
        self._by_name: dict[str, int] = {}
        self._times: list[float] = []
        self._numbers: list[int] = []
        if one.bytes > LARGEST:
            return
        with suppress(SessionTreeError, OSError):  # the search has reported it
            self._read(one.file)

    def _read(self, file: str) -> None:
        from sessiontree.session import Session  # only a session with secrets needs both
        from sessiontree.views.turns import numbers_of

        with Session.open(file, readonly=True) as session:
            self._by_name = numbers_of(session.cursor)
            timed = sorted(
                (seconds, self._by_name[entry.uuid])
                for entry in session.entries()
                if entry.uuid in self._by_name
                and (seconds := seconds_of(entry.timestamp)) is not None
            )
        self._times = [seconds for seconds, _ in timed]
        self._numbers = [number for _, number in timed]

    def of(self, place: _Place) -> int | None:
        name, seconds = place
        if name in self._by_name:
            return self._by_name[name]
        if seconds is None or not (at := bisect_right(self._times, seconds)):
            return None
        return self._numbers[at - 1]
