"""A sound copy of an agent's file, which the agent opens: the rules of `repair FILE -o NEW`.

A line that is sound stays byte for byte. Each entry gets a line of its own; a fragment is left out,
and so is a line that holds no entry, a second copy of a line, and the result of a call that is not
in the file. An entry whose parent is not in the file is joined to the one before it, as it is read
(`base.joins`). A lone surrogate and invalid UTF-8 become U+FFFD. The header comes first; if it is
lost and the agent needs one, it is made.

Invariants: each change is reported once, with the place of its line; a file that needs no change is
copied as it is; a copy of a copy changes nothing; the file is read twice, to make a header once
more, and no line is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from sessiontree.agents import base
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import calls_of, is_result_block, result_ids

Note = Callable[[base.LinePlace, str], object]
"""Takes the place of a line that is changed, and what is done with it, in words."""

_ESCAPES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)
_REPLACEMENT: Final = rb"\ufffd"
_AROUND: Final = b"\0\r\t \xef\xbb\xbf"


class _Plan(NamedTuple):
    """What the first reading finds."""

    parents: dict[str, str | None]  # by its id, the parent of each entry that gets another
    calls: frozenset[str]


def mended(reader: base.Reader, source: base.AgentSource, id: str, note: Note) -> Iterator[bytes]:
    """The lines of the copy, without LF.

    Args:
        reader: reads the file.
        source: the file.
        id: the session's id, for a header that is made.
        note: called for each change.
    """
    document = reader.whole_document(source)
    if document is not None:
        content, what = document
        if what:
            note(base.START, what)
        yield content
        return
    plan = _planned(reader, source)
    opening = base.opening_of(base.numbered(source, reader.line_keys), reader.is_header)
    yield from _first_line(reader, source, id, opening, note)
    seen: set[str] = set()
    before = b""

    def report(kind: str, place: base.LinePlace, cause: str) -> None:
        if cause == base.SEPARATES:
            note(place, "removed a line that only separates entries")
        elif kind == "nul":
            note(place, f"removed {cause}")

    for line in base.numbered(source, reader.line_keys, 0, report):
        if opening.is_at(line.place):
            continue
        text = line.text
        if (found := base.values(text)) is None:
            if line.text.strip(_AROUND):
                note(line.place, f"removed {len(line.text):,} bytes that hold no whole entry")
            elif line.text:
                note(line.place, "removed a line without content")
            continue
        link = reader.link(found)
        is_copy = text == before if link is None else link.id in seen and text == before
        if is_copy and (link is not None or _message_in(reader, found)):
            note(line.place, "removed a copy of the line before it")
            continue
        before = text
        if link is not None:
            seen.add(link.id)
        made = _Line(line, text, found, note)
        if made.without_orphans(reader, plan.calls):
            made.rehang(reader, link, plan)
            yield made.cleaned()
            if line.is_torn:
                note(line.place, "ended the last line with a newline")


def _first_line(
    reader: base.Reader, source: base.AgentSource, id: str, opening: base.FileOpening, note: Note
) -> Iterator[bytes]:
    """The header, if the agent needs one."""
    line = opening.header
    if line is None:
        made = None if opening.is_empty else reader.made_header(source, id)
        if made is not None:
            note(opening.line.place, "put a new header before the first entry")
            yield base.json_of({key: value for key, value in made.items() if value is not None})
        return
    if any(other.values is not None for other in opening.above):
        note(line.place, "moved the header to the first line")
    text = line.text if line.values is not None else opening.values.as_json()
    yield _Line(line, text, opening.values, note).cleaned()


def _message_in(reader: base.Reader, line: base.Values) -> dict[str, Any]:
    found = line.value(reader.message_key) if reader.message_key else None
    return found if isinstance(found, dict) else {}


def _planned(reader: base.Reader, source: base.AgentSource) -> _Plan:
    links: list[base.Link] = []
    calls: set[str] = set()
    gone: dict[str, str | None] = {}
    answers: list[tuple[base.Link, list[str]]] = []
    for line in base.numbered(source, reader.line_keys):
        if (found := line.values) is None:
            continue
        message = _message_in(reader, found)
        calls.update(call.id for call in calls_of(message))
        if not result_ids(message):  # an item of Codex
            calls.update(id for key in ("call_id", "id") if isinstance(id := message.get(key), str))
        if (link := reader.link(found)) is None:
            continue
        links.append(link)
        if (ids := list(result_ids(message))) and _is_only_results(message):
            answers.append((link, ids))
    for link, ids in answers:
        if calls.isdisjoint(ids):
            gone[link.id] = link.parent
    parents: dict[str, str | None] = dict(base.joins(links))
    known = {link.id for link in links}
    for link in links:
        is_lost = link.parent is not None and link.parent not in known and link.id not in parents
        if is_lost and not link.may_be_elsewhere:
            parents[link.id] = None
    for link in links:
        above = parents.get(link.id, link.parent)
        while above in gone:
            above = parents[link.id] = parents.get(above, gone[above])
    return _Plan(parents, frozenset(calls))


def _is_only_results(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if message.get("role") in ("user", "assistant") and isinstance(content, list):
        return all(isinstance(block, dict) and is_result_block(block) for block in content)
    return True


class _Line:
    """A line of the copy while it is made."""

    def __init__(self, line: base.SourceLine, text: bytes, found: base.Values, note: Note) -> None:
        self._place = line.place
        self._found = found
        self._note = note
        self._text = text if text.startswith(b"{") and text.endswith(b"}") else found.as_json()
        if text != line.text:
            note(line.place, "kept what is left of the first line")
        elif line.is_part:
            note(line.place, "gave the entry a line of its own")
        elif self._text != text:
            note(line.place, "removed bytes without content beside the entry")

    def without_orphans(self, reader: base.Reader, calls: frozenset[str]) -> bool:
        """Leave out the results of calls that are not in the file; False if nothing is left."""
        message = _message_in(reader, self._found)
        lost = [id for id in result_ids(message) if id not in calls]
        if not lost:
            return True
        self._note(self._place, f"removed the result of call {lost[0]}, which is not in the file")
        content = message.get("content")
        if _is_only_results(message) and len(lost) == len(list(result_ids(message))):
            return False
        blocks = content if isinstance(content, list) else []
        kept = [each for each in blocks if not _answers(each, lost)]
        self._put(reader.message_key, base.json_of({**message, "content": kept}))
        return True

    def rehang(self, reader: base.Reader, link: base.Link | None, plan: _Plan) -> None:
        """Put the entry below its parent of the copy."""
        if link is None or link.id not in plan.parents or link.parent == plan.parents[link.id]:
            return
        parent = plan.parents[link.id]
        what = "made the entry the first" if parent is None else f"joined the entry to {parent}"
        self._note(self._place, f"{what}: its parent {link.parent} is not in the copy")
        self._put(reader.parent_key, dumps(parent))

    def _put(self, key: str, value: bytes) -> None:
        self._found = base.Values({**self._found.raws(), key: value})
        self._text = self._found.as_json()

    def cleaned(self) -> bytes:
        """The line as JSON that every program reads."""
        text = self._text
        if not text.isascii():
            clean = text.decode("utf-8", "replace").encode()
            if clean != text:
                self._note(self._place, "replaced invalid UTF-8 with U+FFFD")
            text = clean
        if b"\\ud" in text or b"\\uD" in text:
            clean = _ESCAPES.sub(lambda found: _REPLACEMENT if found[1] else found[0], text)
            if clean != text:
                self._note(self._place, "replaced lone surrogates with U+FFFD")
            text = clean
        return text


def _answers(block: Any, lost: list[str]) -> bool:
    ids = result_ids({"role": "user", "content": [block]}) if isinstance(block, dict) else ()
    return any(id in lost for id in ids)
