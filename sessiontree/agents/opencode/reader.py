"""The sessions of OpenCode: the rows of one session as JSON lines (see `storage.databases`).

The first line is the row of `session`, each line below a row of `message` with its rows of `part`,
in the order in which OpenCode sends them, and the last one has only a time. The session is linear,
and so is what is read.

A message of the user becomes a message; texts that are not sent are left out of it. One whose
texts are all `synthetic` is marked as the program's. A message of the assistant is one answer of
the model, and its parts are the blocks of the answer. A part that is a call has its result, too:
each such result becomes an entry below the answer. A result's `details` say what the call did to a
file, and what it showed. A call without an end has no result.

A completed summary becomes a compaction, which keeps the messages from `tail_start_id` on, or none;
the message that asked for it becomes a `custom` entry. So does an answer that failed before it
said anything. A `revert` of the session names the first message that the user took back: the entry
above it is the leaf then, and it is on a branch of its own until OpenCode removes it.

The tokens of an answer are without those of its cache, and its thinking is apart. An answer gets no
id here: a fork copies answers under other ids with their times, and each is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sessiontree.agents import base
from sessiontree.agents.opencode.names import UNTITLED
from sessiontree.agents.sequence import EntriesTally
from sessiontree.agents.shapes import (
    a_text,
    an_object,
    call_block,
    image_block,
    moment,
    objects,
    result_of,
    text_block,
    thought_block,
    whole,
)
from sessiontree.core.usage import Tally

Row = Mapping[str, Any]

_SESSION: Final = "session_row"
_END: Final = "end"
_LINE_KEYS: Final = (frozenset({"type", "id", "data", "parts"}), frozenset({"type", "timestamp"}))
_UNTITLED: Final = (UNTITLED, "Child session - ")
_NOT_SENT: Final = frozenset({"text/plain", "application/x-directory"})
"""The kinds of files that OpenCode sends as texts, which are parts of their own."""


_OF_ANSWER: Final = ("usage", "model", "provider")
"""The keys of an answer that the entry of a summary has, too."""


class OpenCodeReader(base.Reader):
    line_keys = _LINE_KEYS
    shares_origins = True

    def is_own_database(self, name: str) -> bool:
        """Whether the program of this reader names a database so."""
        return not name.startswith("kilo")

    def recognises(self, head: bytes) -> bool:
        """Whether the first object is a row of `session`."""
        first = base.first_object(head)
        return (
            first is not None
            and first.text("type") == _SESSION
            and "project_id" in first
            and "slug" in first
            and self.is_own_database(first.text("database") or "")
        )

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        lines = base.first_values(head)
        first = next(lines, base.Values({}))
        prompts = (_prompt_in(line) for line in lines)
        return _facts_in(first, next(filter(None, prompts), None))

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        return False  # a line may have many entries

    def tally(self) -> Tally:
        return EntriesTally((b'"user"', b'"assistant"'), _counted)

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        numbered = base.numbered(source, _LINE_KEYS, 0, report)
        line = next(numbered, None)
        first = None if line is None else line.values
        if line is None or first is None:
            return
        lines = base.LineMaker(self.name, report, first.text("id") or "")
        above = first.text("parent_id")
        yield lines.header(line, _facts_in(first), derivedFrom=[above] if above else None)
        entries = _SessionEntries(lines, _reverted_from(first))
        for each in numbered:
            yield from entries.translated(each)
            line = each
        yield from entries.finish(line)


def _facts_in(first: base.Values, prompt: str | None = None) -> base.AgentFacts:
    title = first.text("title")
    is_named = bool(title) and not (title or "").startswith(_UNTITLED)
    return base.AgentFacts(
        first.text("id"),
        first.text("directory"),
        title if is_named else None,
        prompt,
        moment(first.value("time_created")),
        above=first.text("parent_id"),
    )


def _reverted_from(first: base.Values) -> str | None:
    """The id of the first message that a revert took back."""
    return first.inside("revert").text("messageID")


def _prompt_in(line: base.Values) -> str | None:
    body = line.value("data") if line.text("type") == "message" else None
    if not isinstance(body, dict) or body.get("role") != "user":
        return None
    said = _message_of_user(_parts_in(line.value("parts")))
    return None if said is None or said[1] else base.prompt_text(said[0])


def _parts_in(parts: Any) -> list[Row]:
    """The JSON of each part."""
    return [*objects([row.get("data") for row in objects(parts)])]


def _message_of_user(parts: list[Row]) -> tuple[Row, bool] | None:
    """What the model gets of the user's parts, and whether OpenCode wrote it; None for nothing."""
    blocks: list[Row] = []
    are_generated: list[bool] = []
    for part in parts:
        kind = part.get("type")
        if kind == "text" and not part.get("ignored"):
            blocks.append(text_block(a_text(part.get("text"))))
            are_generated.append(bool(part.get("synthetic")))
        elif kind == "file" and part.get("mime") not in _NOT_SENT:
            blocks.append(_attachment(part))
            are_generated.append(False)
        elif kind == "subtask":
            blocks.append(text_block(str(part.get("prompt") or "")))
            are_generated.append(False)
    return ({"role": "user", "content": blocks}, all(are_generated)) if blocks else None


def _attachment(part: Row) -> Row:
    url, mime = part.get("url"), part.get("mime")
    if isinstance(url, str) and url.startswith("data:") and str(mime).startswith("image/"):
        return image_block(url.partition(",")[2], mime)
    return {**part, "type": "file"}


class _SessionEntries:
    """Makes the entries below the header."""

    def __init__(self, lines: base.LineMaker, reverted: str | None) -> None:
        self._lines = lines
        self._reverted = reverted
        self._leaf: str | None = None  # the entry above the message that was taken back
        self._uuids: dict[str, str] = {}  # by the id of a message: its first entry
        self._asked: dict[str, str | None] = {}  # by the id of a message that asked for a summary:
        # the id of the first message that it keeps

    def translated(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        if line.values is None:
            yield from self._lines.not_an_object(line)
            return
        kind, id = line.values.text("type"), line.values.text("id")
        if kind == _END:
            return
        if id is not None and id == self._reverted:
            self._leaf = self._lines.leaf
        uuid = self._lines.uuid(id, line)
        if id:
            self._uuids.setdefault(id, uuid)
        body = line.values.value("data")
        at = moment(line.values.value("time_created"))
        if kind != "message" or not isinstance(body, dict):
            if kind != "message":
                self._lines.note_unknown(kind or "", line.place)
            yield self._custom(line, uuid, at)
            return
        parts = _parts_in(line.values.value("parts"))
        if isinstance(times := body.get("time"), dict):
            at = moment(times.get("created"))
        if body.get("role") == "user":
            yield self._of_user(line, uuid, id, parts, at)
        else:
            yield from self._of_assistant(line, uuid, body, parts, at)

    def finish(self, last: base.SourceLine) -> Iterator[base.EntryDraft]:
        """What follows the last line."""
        if self._leaf is not None:
            yield self._lines.branch(self._leaf, last.place)

    def _custom(self, line: base.SourceLine, uuid: str, at: str | None) -> base.EntryDraft:
        assert line.values is not None
        kind = line.values.text("type") or "line"
        return self._lines.custom(kind, line, uuid, line.values.as_fragment(), timestamp=at)

    def _of_user(
        self, line: base.SourceLine, uuid: str, id: str | None, parts: list[Row], at: str | None
    ) -> base.EntryDraft:
        asks = next((part for part in parts if part.get("type") == "compaction"), None)
        said = _message_of_user(parts)
        if asks is not None and id:
            kept = asks.get("tail_start_id")
            self._asked[id] = kept if isinstance(kept, str) else None
        if asks is not None or said is None:
            return self._custom(line, uuid, at)
        message, is_generated = said
        fields: dict[str, Any] = {"message": message}
        if is_generated:
            fields["metadata"] = {"isMeta": True}
        return self._lines.entry("message", line, uuid, fields, timestamp=at)

    def _of_assistant(
        self, line: base.SourceLine, uuid: str, body: Row, parts: list[Row], at: str | None
    ) -> Iterator[base.EntryDraft]:
        message = _answer(body, parts)
        asked = body.get("parentID")
        if body.get("summary") and asked in self._asked and _is_complete(body):
            text = "\n".join(
                a_text(part.get("text")) for part in parts if part.get("type") == "text"
            )
            kept = self._uuids.get(self._asked[str(asked)] or "", uuid)
            fields: dict[str, Any] = {k: message[k] for k in _OF_ANSWER if k in message}
            fields |= {"summary": text, "firstKeptEntryUuid": kept}
            yield self._lines.entry("compaction", line, uuid, fields, timestamp=at)
            return
        if not message["content"] and "usage" not in message:
            yield self._custom(line, uuid, at)
            return
        yield self._lines.entry("message", line, uuid, {"message": message}, timestamp=at)
        for number, part in enumerate(parts):
            result = _result(part)
            if result is not None:
                own = self._lines.uuid(None, line, b" result %d" % number)
                then = moment(an_object(part["state"].get("time")).get("end"))
                fields = {"message": result}
                yield self._lines.entry("message", line, own, fields, timestamp=then or at)


def _is_complete(body: Row) -> bool:
    return bool(body.get("finish")) and not body.get("error")


def _answer(body: Row, parts: list[Row]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": list(_blocks(parts))}
    for key, name in (("provider", "providerID"), ("model", "modelID")):
        if isinstance(value := body.get(name), str):
            message[key] = value
    if (usage := _usage(body)) is not None:
        message["usage"] = usage
    error = body.get("error")
    if isinstance(error, dict):
        is_aborted = error.get("name") == "MessageAbortedError"
        told = error.get("data")
        message["stopReason"] = "aborted" if is_aborted else "error"
        message["errorMessage"] = str(told.get("message") if isinstance(told, dict) else error)
    return message


def _blocks(parts: list[Row]) -> Iterator[Row]:
    for part in parts:
        kind, state = part.get("type"), part.get("state")
        if kind == "text":
            yield text_block(a_text(part.get("text")))
        elif kind == "reasoning":
            yield thought_block(a_text(part.get("text")))
        elif kind == "tool" and isinstance(state, dict):
            yield call_block(part.get("callID"), part.get("tool"), state.get("input"))


def _usage(body: Row) -> Row | None:
    """The tokens and the cost of an answer; None for one that used none."""
    tokens = body.get("tokens")
    if not isinstance(tokens, dict):
        return None
    cache = an_object(tokens.get("cache"))
    usage = {
        "input": tokens.get("input"),
        "output": whole(tokens.get("output")) + whole(tokens.get("reasoning")),
        "cacheRead": cache.get("read"),
        "cacheWrite": cache.get("write"),
    }
    if not any(usage.values()):
        return None
    cost = body.get("cost")
    return {**usage, "cost": {"total": cost}} if cost else usage


def _result(part: Row) -> Row | None:
    """The result of a call as a message; None for another part, and a call without an end."""
    state = part.get("state")
    if part.get("type") != "tool" or not isinstance(state, dict):
        return None
    status = state.get("status")
    if status not in ("completed", "error"):
        return None
    output = state.get("output" if status == "completed" else "error")
    content = [text_block(a_text(output)), *map(_attachment, objects(state.get("attachments")))]
    told = an_object(state.get("metadata"))
    is_error = status == "error" or whole(told.get("exit")) != 0
    about = part.get("callID"), part.get("tool"), content
    return result_of(*about, is_error=is_error, **dict(_details(told)))


def _details(told: Row) -> Iterator[tuple[str, Any]]:
    """What a call did to a file, and what it showed, by the names that readers of edits know."""
    if isinstance(diff := told.get("diff"), str):
        yield "fileDiff", diff
    shown = told.get("display")
    if isinstance(shown, dict) and shown.get("type") == "file" and not shown.get("truncated"):
        first, last = shown.get("lineStart"), shown.get("lineEnd")
        if isinstance(first, int) and isinstance(last, int):
            yield (
                "file",
                {
                    "filePath": shown.get("path"),
                    "content": shown.get("text"),
                    "startLine": first,
                    "numLines": last - first + 1,
                    "totalLines": shown.get("totalLines"),
                },
            )
    if isinstance(exit := told.get("exit"), int):
        yield "exit", exit
    if isinstance(child := told.get("sessionId"), str):
        yield "sessionId", child


def _counted(line: bytes) -> Iterator[Row]:
    """The entries of a line, as far as they count."""
    row = base.values(line) or base.Values({})
    body = row.value("data")
    if row.text("type") != "message" or not isinstance(body, dict):
        return
    at = moment(an_object(body.get("time")).get("created"))
    about = {"type": "message", "timestamp": at, "uuid": row.text("id")}
    if body.get("role") != "user":
        yield {**about, "message": _answer(body, [])}
    elif (said := _message_of_user(_parts_in(row.value("parts")))) is not None and not said[1]:
        yield {**about, "message": said[0]}
