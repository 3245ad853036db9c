"""The pi coding agent's sessions, versions 2 and 3.

`~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`: a header, then entries with `id` and `parentId`
that form a tree; the last line is the leaf. The format is close to version 2: an entry keeps its
type, its id as uuid, and all its other keys. (pi's version 1 is sessiontree's version 1.)

The differences:

- An entry without a parent starts a new root; here its parent is the header.
- A system message patches the sections of those before it; here it holds all of them.
- A string that replaces the content of an assistant's or a tool's message becomes one text block.
- An edit of an entry that pi does not edit, and a summary without text, have no effect.
- A summary of a branch that began at the top names the header as left; one of a branch that is
  not in the file names none.
- A compaction without a system message says that none is in force.

A compaction that keeps nothing names itself as the first kept entry, as in version 2.

A file whose header is lost is recognised by its first entry. Its id is that in the file's name, and
its start the time of its first entry; nothing has the working directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from sessiontree.agents import base
from sessiontree.agents.pi.names import id_in
from sessiontree.core.activity import FirstPrompt
from sessiontree.core.header import KEY as ORIGIN
from sessiontree.core.header import stem_of
from sessiontree.core.message import begins_turn, text_of
from sessiontree.core.usage import EntryTally, Tally
from sessiontree.text.pattern import lines_with

_STRUCTURE: Final = frozenset({"type", "id", "parentId", "timestamp"})
_OURS: Final = frozenset(
    {"uuid", "parentUuid", "lane", "version", "format", "spilled", "crc", ORIGIN}
)
_RENAMED: Final = {
    "firstKeptEntryId": "firstKeptEntryUuid",
    "fromId": "fromUuid",
    "targetId": "targetUuid",
}
_KNOWN: Final = frozenset(
    {
        *("message", "model_change", "thinking_level_change", "usage", "compaction"),
        *("branch_summary", "custom", "custom_message", "label", "session_info"),
        "context_edit",
    }
)
_LINE_KEYS: Final = (frozenset({"type", "id", "parentId"}), frozenset({"type", "version", "id"}))
_LISTS: Final = frozenset({"assistant", "toolResult"})
"""The roles whose content is a list of blocks, never a string."""

_EDITABLE: Final = _LISTS | {"user", "custom"}
_HOOK: Final = b'"hookMessage"'
"""The role of a custom message in version 2."""

_TOP: Final = "root"
"""What pi names as left where no entry was the leaf."""

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LARGEST_INDEX: Final = 2**32 - 1

_NOTHING: Final[Mapping[str, Any]] = {}


class PiReader(base.Reader):
    versions: tuple[int, ...] = (2, 3)
    has_header = True
    line_keys = _LINE_KEYS
    message_key = "message"
    parent_key = "parentId"

    def recognises(self, head: bytes) -> bool:
        """Whether the first object is a header of version 2 or 3, or an entry of pi."""
        first = base.first_object(head)
        if first is not None and self.is_header(first):
            return True
        entry = base.first_line(head, _LINE_KEYS)
        return entry is not None and (self.is_header(entry) or _is_entry(entry))

    def is_header(self, line: base.Values) -> bool:
        """Whether a line is a header of these versions, with neither `uuid` nor `format`."""
        return (
            line.text("type") == "session"
            and line.value("version") in self.versions
            and line.text("id") is not None
            and "uuid" not in line
            and "format" not in line
        )

    def made_header(self, source: base.AgentSource, id: str) -> dict[str, Any]:
        """See `Reader.made_header`; pi itself brings version 2 to version 3."""
        is_of_2 = any(_HOOK in line for _, line in source.lines())
        time = base.first_time(base.numbered(source, _LINE_KEYS))
        return {"type": "session", "version": 2 if is_of_2 else 3, "id": id, "timestamp": time}

    def id_of_lines(self, head: bytes, file: str) -> str:
        return self.facts(head, b"").id or id_in(stem_of(file)) or ""

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        header, lines = base.header_in(base.first_values(head), self.is_header)
        created, first = header.text("timestamp"), FirstPrompt()
        for line in lines:
            created = created or line.text("timestamp")
            first.take(_prompt_in(line))
            if first.is_found:
                break
        name = next(
            (entry.text("name") for part in (tail, head) for entry in _named_in(part)), None
        )
        return base.AgentFacts(
            header.text("id"), header.text("cwd"), name or None, first.text, created
        )

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        message = body.get("message")
        is_patch = isinstance(message, dict) and message.get("role") == "system"
        return not (is_patch or body.get("type") == "context_edit" or "systemMessage" in body)

    def beyond_header(self, left: dict[str, bytes]) -> Mapping[str, bytes]:
        return {key: value for key, value in left.items() if key not in ("type", "version")}

    def link(self, line: base.Values) -> base.Link | None:
        return _link_of(line)

    def tally(self) -> Tally:
        return EntryTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        numbered = base.numbered(source, _LINE_KEYS, 0, report)
        opening = base.opening_of(numbered, self.is_header, report)
        id = opening.values.text("id") or id_in(stem_of(source.name)) or ""
        entries = _Entries(base.LineMaker(self.name, report, id), source)
        yield entries.header(opening)
        for line in chain(opening.above, numbered):
            yield from entries.translated(line)


def _is_entry(line: base.Values) -> bool:
    """Whether a line is an entry of pi, and none of another program."""
    return (
        line.text("type") in _KNOWN
        and bool(line.text("id"))
        and bool(line.text("timestamp"))
        and "parentId" in line
        and "uuid" not in line
    )


def _link_of(line: base.Values) -> base.Link | None:
    id = line.text("id") if "parentId" in line else None
    return base.Link(id, line.text("parentId")) if id else None


def _named_in(part: bytes) -> Iterator[base.Values]:
    """The entries in a part of a file that may name the session, the latest first."""
    for start, end in reversed(list(lines_with(b'"session_info"', part, len(part)))):
        entry = base.values(part[start:end])
        if entry is not None:
            yield entry


def _prompt_in(entry: base.Values) -> str | None:
    message = entry.value("message") if entry.text("type") == "message" else None
    if not isinstance(message, dict) or not begins_turn(
        {"message": message, "metadata": entry.value("metadata")}
    ):
        return None
    return base.prompt_text(message)


class _Entries:
    def __init__(self, lines: base.LineMaker, source: base.AgentSource) -> None:
        self.lines = lines
        self._source = source
        self._joins: dict[str, str] | None = None  # made when the first parent is missing
        self._roles: dict[str, str] = {}
        self._prompts: dict[str, _Prompt] = {}

    def header(self, opening: base.FileOpening) -> base.EntryDraft:
        header = opening.values
        created = header.text("timestamp") or base.first_time(opening.above)
        facts = base.AgentFacts(header.text("id"), header.text("cwd"), created=created)
        rest = {
            key: header.fragment(key)
            for key in header
            if key not in ("type", "version", "id", "cwd", "timestamp") and key not in _OURS
        }
        return self.lines.opening(opening, facts, agentVersion=header.value("version"), **rest)

    def translated(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        lines = self.lines
        entry = line.values
        if entry is None:
            yield from lines.not_an_object(line)
            return
        kind, id = entry.text("type"), entry.text("id")
        uuid = lines.uuid(id, line)
        parent, missing = self._parent(entry), None
        if not lines.has(parent) and (joined := self._joined(id)) is not None:
            parent, missing = joined, parent
        prompt = self._prompts.get(parent)
        more = {"parent": parent, "timestamp": entry.text("timestamp"), "missing": missing}
        if prompt is not None:
            self._prompts[uuid] = prompt
        if kind not in _KNOWN or not id:
            lines.note_unknown(kind or "", line.place)
            yield lines.custom(kind or "line", line, uuid, entry.as_fragment(), **more)
            return
        fields: dict[str, Any] = {
            _RENAMED.get(key, key): entry.fragment(key)
            for key in entry
            if key not in _STRUCTURE and key not in _OURS
        }
        adjusted = self._adjusted(kind, uuid, entry, fields)
        if adjusted is None:
            yield lines.custom(kind, line, uuid, entry.as_fragment(), **more)
        else:
            yield lines.entry(adjusted, line, uuid, fields, **more)

    def _parent(self, entry: base.Values) -> str:
        if "parentId" not in entry:
            return self.lines.leaf
        return entry.text("parentId") or self.lines.root

    def _joined(self, id: str | None) -> str | None:
        """The entry to be the parent of one whose own is not in the file; None if that is there."""
        if not self._source.is_whole:
            return None
        if self._joins is None:
            numbered = base.numbered(self._source, _LINE_KEYS)
            lines = (line.values for line in numbered)
            links = (_link_of(line) for line in lines if line is not None)
            self._joins = base.joins(link for link in links if link is not None)
        return self._joins.get(id or "")

    def _adjusted(
        self, kind: str, uuid: str, entry: base.Values, fields: dict[str, Any]
    ) -> str | None:
        """Change the fields that pi reads differently; the type, None for no effect."""
        if kind == "message":
            self._adjust_message(uuid, entry.value("message"), fields)
        elif kind == "custom_message":
            self._roles[uuid] = "custom"
            if entry.value("content") is None:
                fields["content"] = []
        elif kind == "context_edit":
            return self._adjust_edit(entry, fields)
        elif kind == "branch_summary":
            if not entry.text("summary"):
                return "branch"
            self._adjust_summary(entry.text("fromId"), fields)
        elif kind == "compaction":
            self._adjust_compaction(uuid, entry.value("systemMessage"), fields)
        return kind

    def _adjust_summary(self, left: str | None, fields: dict[str, Any]) -> None:
        """The entry that was left may be the top, and a branched session may lack it."""
        if left == _TOP:
            fields["fromUuid"] = self.lines.root
        elif left is None or not self.lines.has(left):
            fields.pop("fromUuid", None)

    def _adjust_compaction(self, uuid: str, message: Any, fields: dict[str, Any]) -> None:
        """The prompt of a compaction replaces all before it; without one there is none."""
        if isinstance(message, dict):
            self._prompts[uuid] = _Prompt().patched(message)
            fields["state"] = {"system": self._prompts[uuid].text()}
        elif self._prompts.pop(uuid, None) is not None:
            fields["state"] = {"system": None}

    def _adjust_message(self, uuid: str, message: Any, fields: dict[str, Any]) -> None:
        if not isinstance(message, dict):
            return
        role = message.get("role")
        if isinstance(role, str):
            self._roles[uuid] = role
        if role == "hookMessage":
            fields["message"] = {**message, "role": "custom"}
        elif role == "system":
            prompt = self._prompts[uuid] = self._prompts.get(uuid, _Prompt()).patched(message)
            rest = {key: value for key, value in message.items() if key != "sections"}
            fields["message"] = {**rest, "content": prompt.text()}
        elif role in ("user", *_LISTS) and message.get("content") is None:
            fields["message"] = {**message, "content": []}

    def _adjust_edit(self, entry: base.Values, fields: dict[str, Any]) -> str | None:
        replacement = entry.value("replacement")
        role = self._roles.get(entry.text("targetId") or "")
        if replacement is None:
            return "context_edit"
        if role not in _EDITABLE or not isinstance(replacement, dict):
            return None
        content = replacement.get("content")
        if role in _LISTS and isinstance(content, str):
            block = {"type": "text", "text": content}
            fields["replacement"] = {**replacement, "content": [block]}
        return "context_edit"


def _is_number(name: str) -> bool:
    """Whether JavaScript orders a key by its number."""
    return _NUMBER.fullmatch(name) is not None and int(name) < _LARGEST_INDEX


class _Prompt(NamedTuple):
    """A system prompt: the contents of its messages, and its sections by name."""

    contents: tuple[str, ...] = ()
    sections: Mapping[str, Any] = _NOTHING

    def patched(self, message: Mapping[str, Any]) -> _Prompt:
        """The prompt after one more system message, which adds content and replaces sections."""
        text = text_of(message)
        patch = message.get("sections")
        sections = dict(self.sections)
        for name, section in patch.items() if isinstance(patch, dict) else ():
            if section is None:
                sections.pop(name, None)  # set again, it is the last
            else:
                sections[name] = section
        return _Prompt((*self.contents, text) if text else self.contents, sections)

    def text(self) -> str:
        """The whole prompt as pi renders it: sections with a number as name come first."""
        names = sorted(filter(_is_number, self.sections), key=int)
        names += [name for name in self.sections if not _is_number(name)]
        kept = (self.sections[name] for name in names if isinstance(self.sections[name], str))
        return "\n\n".join(part for part in ("\n\n".join(self.contents), *kept) if part)
