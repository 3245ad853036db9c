"""Readers of sessions that are a sequence: each entry is below the one before it.

A reader says what a line means, and here the lines are named, put in their order and counted. The
lines are those of a file, or the elements of a list in a document. The first line of a file, or the
other keys of a document, say what the session is.

Invariants: what a line means depends on that line alone; a line that means nothing to a model
becomes a `custom` entry, and is noted if its type is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from sessiontree.agents import base, document
from sessiontree.core import limits
from sessiontree.core.activity import FirstPrompt
from sessiontree.core.limits import Budget
from sessiontree.core.message import begins_turn
from sessiontree.core.usage import EntryTally, Tally


class LineEntry(NamedTuple):
    """An entry that a line becomes, without its place among the others."""

    kind: str
    fields: Mapping[str, Any]
    own: str | None = None  # the agent's id of it, if that can be its uuid
    at: str | None = None  # its time; None: that of the line


class SequenceReader(base.Reader):
    """Reads files of lines; a session is in one file."""

    needles: tuple[bytes, ...] = (b'"user"', b'"usage"', b'"model"')
    mark: bytes = b""  # what the start of each file has, as the agent writes it
    others: frozenset[str] = frozenset()  # the known types of lines that mean nothing to a model
    end: str | None = None  # the type of a line that has only the time of the last change

    def recognises(self, head: bytes) -> bool:
        return self.mark in head and self.is_first(self.first_in(head))

    def first_in(self, head: bytes) -> base.Values:
        """The keys with which a file starts."""
        return base.first_object(head) or base.Values({})

    def is_first(self, first: base.Values) -> bool:
        """Whether a file that begins with these keys is the agent's."""
        raise NotImplementedError

    def facts_in(self, first: base.Values, second: base.Values) -> base.AgentFacts:
        """What a list shows of a session, as far as the first two lines have it."""
        raise NotImplementedError

    def about(self, first: base.Values) -> dict[str, Any]:
        """Further metadata of the session; None for what is not there."""
        return {}

    def kind_in(self, line: base.Values) -> str:
        """The type of a line."""
        return line.text("type") or ""

    def entries_in_first(self, first: base.Values) -> Iterator[LineEntry]:
        """The entries that the first line has beside the facts, such as what a session cost."""
        yield from ()

    def time_in(self, line: base.Values) -> str | None:
        """The time of a line."""
        return line.text("timestamp")

    def entries_in(self, line: base.Values) -> Iterator[LineEntry]:
        """The entries that mean something to a model."""
        raise NotImplementedError

    def counts_in(self, line: base.Values) -> Iterator[LineEntry]:
        """The entries that have something to count: prompts, models, tokens."""
        return self.entries_in(line)

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        lines, first = iter(self._lines_in(head)), FirstPrompt()
        held = list(islice(lines, 1))
        found = self.facts_in(self.first_in(head), *held or [base.Values({})])
        created = found.created
        for line in chain(held, lines):
            created = created or self.time_in(line)
            for entry in self.entries_in(line):
                if entry.kind == "message" and begins_turn(entry.fields):
                    first.take(base.prompt_text(entry.fields["message"]))
            if first.is_found:
                break
        last = filter(None, map(base.values, reversed(tail.split(b"\n"))))
        modified = next(filter(None, map(self.time_in, last)), found.modified)
        return replace(found, first_message=first.text, created=created, modified=modified)

    def tally(self) -> Tally:
        def counted(line: bytes) -> Iterator[Mapping[str, Any]]:
            for found in self._counted(line):
                first = self.entries_in_first(found) if self.is_first(found) else ()
                for kind, fields, own, at in (*first, *self.counts_in(found)):
                    yield {
                        **fields,
                        "type": kind,
                        "uuid": own,
                        "timestamp": at or self.time_in(found),
                    }

        return EntriesTally(self.needles, counted)

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        numbered = self._numbered(source, report)
        line = next(numbered, None)
        if line is None:
            return
        first = line.values or base.leading_values(line.text) or base.Values({})
        held = list(islice(numbered, 1))
        second = held[0].values if held else None
        second = second or base.Values({})
        facts = self.facts_in(first, second)
        facts = replace(facts, created=facts.created or self.time_in(second))
        facts = self.with_sidecar(facts, source.sidecar)
        lines = base.LineMaker(self.name, report, facts.id or "")
        lines.short = Budget(
            limits.SHORT_TEXTS, source.size, name=source.name, what="messages or results"
        )
        derived = [facts.above] if facts.above else None
        yield lines.header(line, facts, derivedFrom=derived, **self.about(first))
        for kind, fields, _, at in self.entries_in_first(first):
            yield lines.entry(
                kind, line, lines.uuid(None, line, kind.encode()), fields, timestamp=at
            )
        yield from self.translated(chain(held, numbered), lines)

    def translated(
        self, numbered: Iterator[base.SourceLine], lines: base.LineMaker
    ) -> Iterator[base.EntryDraft]:
        """The entries below the header."""
        for line in numbered:
            yield from self.entries_of(line, lines)

    def entries_of(self, line: base.SourceLine, lines: base.LineMaker) -> Iterator[base.EntryDraft]:
        """The entries of a line; one at least."""
        found = line.values
        if found is None:
            yield from lines.not_an_object(line)
            return
        time, entries = self.time_in(found), list(self.entries_in(found))
        parts = max(1, len(entries))
        if lines.short is not None and len(line.text) < limits.SHORT_BYTES * parts:
            lines.short.take(parts)
        for number, (kind, fields, own, at) in enumerate(entries, 1):
            uuid = lines.uuid(own, line, b"" if number == 1 else b" %d" % number)
            kept = {"firstKeptEntryUuid": uuid} if kind == "compaction" else {}
            made = {**kept, **lines.with_tools(fields)}
            yield lines.entry(kind, line, uuid, made, timestamp=at or time)
        kind = self.kind_in(found)
        if not entries and kind != self.end:
            if kind not in self.others:
                lines.note_unknown(kind, line.place)
            data = found.as_fragment()
            yield lines.custom(kind or "line", line, lines.uuid(None, line), data, timestamp=time)

    def _numbered(self, source: base.AgentSource, report: base.Report) -> Iterator[base.SourceLine]:
        """The line with the facts, and the others."""
        return base.numbered(source, self.line_keys, 0, report)

    def _lines_in(self, head: bytes) -> Iterable[base.Values]:
        """The lines at the start of a file, without the one with the facts."""
        lines = base.first_values(head)
        next(lines, None)
        return lines

    def _counted(self, line: bytes) -> Iterable[base.Values]:
        return filter(None, [base.values(line)])


class DocumentReader(SequenceReader):
    """Reads documents; `list_key` is the key of the messages."""

    is_of_lines = False
    list_key: str

    def first_in(self, head: bytes) -> base.Values:
        return document.first_keys(head)

    def whole_document(self, source: base.AgentSource) -> tuple[bytes, str] | None:
        return document.made_whole(document.text_in(source), self.list_key)

    def _numbered(self, source: base.AgentSource, report: base.Report) -> Iterator[base.SourceLine]:
        text = document.text_in(source)
        if text:
            yield base.SourceLine(base.START, text)
            yield from document.lines_of(text, self.list_key, report)

    def _lines_in(self, head: bytes) -> Iterable[base.Values]:
        texts = (text for _, text in document.elements_of(head, self.list_key))
        return filter(None, map(base.values, texts))

    def _counted(self, line: bytes) -> Iterable[base.Values]:
        return self._lines_in(line)


class EntriesTally(EntryTally):
    """Counts the lines of a session by the entries that they become. See `Tally`.

    Args:
        needles: one of them is in each line that has something to count.
        entries: gives the entries of a line, as far as they have something to count.
    """

    def __init__(
        self, needles: tuple[bytes, ...], entries: Callable[[bytes], Iterator[Mapping[str, Any]]]
    ) -> None:
        super().__init__()
        self.needles = needles
        self._entries = entries

    def take(self, line: bytes, *, beside: bool = False) -> None:
        self._sums.decoded(line)
        for entry in self._entries(line):
            self.count(entry)
