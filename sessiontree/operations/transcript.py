"""A transcript: the path to an entry as Markdown for people to read.

All messages of the path are in it, also those that a compaction or an edit took from the
context. The result of a call is below the call, wherever on the path it is. What is not
shown is counted at the end.

Invariants: the same session gives the same text; content opens no heading of the
transcript and ends none of its parts (`text.markdown`); one entry at a time is in memory,
beside those that wait for a result and the handles resolved ahead.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote as quoted_path

from sessiontree.context.settings import header_settings, settings_of
from sessiontree.core.blob import blob_of
from sessiontree.core.blocks import Contents, folded_message, is_handle_of_message
from sessiontree.core.embedded import left_out
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.handle import Handle
from sessiontree.core.index import NO_ROW
from sessiontree.core.media import IMAGES, base_type
from sessiontree.core.message import (
    Call,
    Message,
    begins_turn,
    blocks_of,
    count_of_blocks,
    is_generated,
    is_partial,
    is_prompt,
    is_result_block,
    is_typed_command,
    most_blocks,
    result_ids,
    role_of,
    text_of,
    typed_text,
)
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionTreeError, TooMuchError
from sessiontree.storage.place import is_address
from sessiontree.text import markdown, passage
from sessiontree.text.passage import Answer

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction


_TITLE: Final = 80  # characters
_MODEL_WITHIN: Final = 500  # how many of the last entries are searched for the model in use
_HANDLES_AT_ONCE: Final = 1000  # entries
_MOST_WARNINGS: Final = 1000  # at the end; in the text, a placeholder stands in each place
_PIECES: Final = ("block", "message_end")


def transcript(
    cursor: Cursor,
    leaf: Entry,
    redaction: Redaction | None,
    beside: str | None,
    *,
    remote_images: bool,
) -> Iterator[str]:
    """See `Session.to_markdown`."""
    if redaction is not None:
        redaction.know_homes_of(cursor.reader.header)
    before = ""
    for part in _Transcript(cursor, leaf, redaction, beside, remote_images=remote_images).parts():
        if part.strip():
            yield f"{before}{part}\n"
            before = "\n"


class _Transcript:
    def __init__(
        self,
        cursor: Cursor,
        leaf: Entry,
        redaction: Redaction | None,
        beside: str | None,
        *,
        remote_images: bool,
    ) -> None:
        self._images = remote_images
        self._reader = reader = cursor.reader
        self._redaction = redaction
        self._beside = beside
        self._tree = reader.index()
        self._rows = list(self._tree.rows_up(reader.row(leaf)))[::-1]
        self._content: bytearray | None = None
        self._warnings: list[str] = []
        self._contents = Contents(cursor.resolve, False, self._warnings)
        self._labels = reader.names().labels
        self._speaker = ""
        self._pieces: list[Entry] = []
        self._pending = Answer()
        self._place = 0
        self._prepared = 0
        self._ahead: dict[int, Entry] = {}  # the entries of handles prepared, by their rows
        self._last_result: dict[str, int] | None = None
        self._names: dict[str, str] = {}
        self._not_shown: Counter[str] = Counter()
        self._blocks = 0
        self._most_blocks = most_blocks(reader.view.size)

    def parts(self) -> Iterator[str]:
        yield from self._front()
        for place, row in enumerate(self._rows):
            self._place = place
            self._prepare_handles()
            ahead = self._ahead.pop(row, None)
            yield from self._entry(ahead or self._reader.entry_at(row))
            following = self._rows[place + 1] if place + 1 < len(self._rows) else NO_ROW
            yield from self._branches(row, following)
        yield from self._pieces_message()
        yield from self._close_answer()
        yield from self._end()

    def _prepare_handles(self) -> None:
        """Resolve the handles of the next entries at once, before the first of them."""
        if (
            self._place >= self._prepared
            and self._tree.type_of(self._rows[self._place]) == "handle"
        ):
            self._prepared = self._place + _HANDLES_AT_ONCE
            rows = self._rows[self._place : self._prepared]
            of_handles = [row for row in rows if self._tree.type_of(row) == "handle"]
            self._ahead = {row: self._reader.entry_at(row) for row in of_handles}
            self._contents.prepare(list(self._ahead.values()))

    def _front(self) -> Iterator[str]:
        header = self._reader.header
        yield f"# {markdown.inline(self._title())}"
        if self._tree.uuids[self._rows[0]] != header.uuid:
            yield "*The path starts in the middle: what was above it is not in the file.*"
        model = self._model()
        facts = {
            "session": self._reader.id,
            "created": header.timestamp,
            "model": model and "/".join(str(part) for part in model.values() if part),
            "directory": header.get("cwd"),
        }
        shown = [
            f"- {name}: {markdown.code(self._text(value))}"
            for name, value in facts.items()
            if isinstance(value, str) and value
        ]
        if shown:
            yield "\n".join(shown)

    def _title(self) -> str:
        name = self._reader.names().name
        if name:
            return self._text(name)
        found = self._first_prompt(lambda value: value)
        if found is not None and self._redaction is not None:  # masked only where there is one
            found = self._first_prompt(self._redaction.value)
        if found is None:
            return f"Session {self._reader.id}"
        text = " ".join(markdown.plain(text_of(found)).split())
        return text if len(text) <= _TITLE else text[: _TITLE - 1] + "…"

    def _first_prompt(self, masked: Callable[[Any], Any]) -> Message | None:
        for place, row in enumerate(self._rows):
            if self._tree.type_of(row) in ("message", "handle"):
                self._place = place
                self._prepare_handles()
                entry = self._reader.entry_at(row)
                fields = masked(self._whole(entry))
                if is_handle_of_message(entry):
                    fields = {**fields, "message": masked(self._contents.of_handle(entry))}
                if begins_turn(fields) and not is_generated(fields):
                    message: Message = fields["message"]
                    return message
        return None

    def _model(self) -> dict[str, Any] | None:
        for row in self._rows[: -_MODEL_WITHIN - 1 : -1]:
            with contextlib.suppress(SessionTreeError):  # a missing blob has a warning later
                found = settings_of(self._reader.entry_at(row)).get("model")
                if isinstance(found, dict):
                    return found
        metadata = self._reader.names().metadata
        return header_settings({**self._reader.header.body, "metadata": metadata}).get("model")

    def _text(self, text: str) -> str:
        return text if self._redaction is None else self._redaction.text(text)

    def _fields(self, entry: Entry, uuid: str | None) -> Mapping[str, Any]:
        """The keys of an entry with its spilled content, masked; findings go to the uuid."""
        masked: Mapping[str, Any] = self._masked(self._whole(entry), uuid)
        return masked

    def _whole(self, entry: Entry) -> dict[str, Any]:
        whole = dict(self._contents.whole(entry).body)
        whole.pop("spilled", None)
        whole.pop("crc", None)
        return whole

    def _masked(self, value: Any, uuid: str | None) -> Any:
        return value if self._redaction is None else self._redaction.value(value, uuid)

    def _entry(self, entry: Entry) -> Iterator[str]:
        if entry.type in _PIECES:
            if self._pieces and self._pieces[0].get("messageUuid") != entry.get("messageUuid"):
                yield from self._pieces_message()
            self._pieces.append(entry)
            return
        if entry.is_content:
            yield from self._pieces_message()
        if entry.type == HEADER:
            self._masked(dict(entry.body), entry.uuid)
            return
        self._count_blocks(entry)
        if entry.type == "handle":
            yield from self._handle(entry)
            return
        fields = self._fields(entry, entry.uuid)
        if entry.type == "message":
            message = fields.get("message")
            if isinstance(message, Mapping):
                yield from self._message(message, entry)
        elif (typed := typed_text(fields)) is not None:
            message = {"role": "user", "content": typed}
            yield from self._section("User", entry, *passage.asked(message, images=self._images))
        elif entry.type == "custom_message":
            title = markdown.inline(str(fields.get("customType") or "custom"))
            message = {"role": "custom", "content": fields.get("content")}
            yield from self._section(title, entry, *passage.asked(message, images=self._images))
        else:
            note = passage.noted(entry.type, fields, images=self._images)
            if note:
                yield from self._apart(note)
            elif note is None:
                kind = fields.get("customType") if entry.type == "custom" else None
                self._not_shown[f"{entry.type} {kind}" if kind else entry.type] += 1

    def _count_blocks(self, entry: Entry) -> None:
        message = entry.message_as_stored
        self._blocks += count_of_blocks(message) if isinstance(message, dict) else 0
        if self._blocks > self._most_blocks:
            raise TooMuchError(
                f"the path has more than {self._most_blocks:,} content blocks and calls up to "
                f"entry {entry.uuid}; export an entry above it"
            )

    def _pieces_message(self) -> Iterator[str]:
        members, self._pieces = self._pieces, []
        if members:
            whole = [self._contents.whole(entry) for entry in members]
            message = self._masked(folded_message(whole), members[0].uuid)
            yield from self._message(message, members[0])

    def _message(self, message: Message, entry: Entry) -> Iterator[str]:
        role = role_of(message)
        if role == "assistant":
            yield from self._answer(message, entry)
            return
        if ids := result_ids(message):
            yield from self._results(message, ids, entry)
        if role == "user" and not ids and self._is_of_program(message, entry):
            said = passage.asked(message, images=self._images)
            yield from self._section("Program", entry, *said)
        elif role == "user" and (is_prompt(message) or not ids):
            yield from self._section("User", entry, *passage.asked(message, images=self._images))
        elif role == "bashExecution":
            yield from self._section("User", entry, passage.ran(message))
        elif not ids and role in ("system", "developer"):
            prompt = "\n\n".join(passage.asked(message, images=self._images))
            yield from self._section("System", entry, passage.folded("Prompt", prompt))
        elif not ids and role != "user":
            yield from self._section(
                passage.speaker(message), entry, *passage.asked(message, images=self._images)
            )

    def _is_of_program(self, message: Message, entry: Entry) -> bool:
        """Whether the program wrote a message in the user's name, not for a command of the user."""
        metadata = entry.get("metadata")
        is_meta = isinstance(metadata, dict) and metadata.get("isMeta") is True
        return is_meta and not is_typed_command(message)

    def _section(self, speaker: str, entry: Entry, *parts: str) -> Iterator[str]:
        yield from self._apart(*self._heading(speaker, entry), *parts)

    def _heading(self, speaker: str, entry: Entry) -> list[str]:
        """The heading of a speaker; nothing where the same one goes on."""
        label = self._labels.get(entry.uuid)
        facts = [
            markdown.inline(entry.timestamp or "")[:19].replace("T", " "),
            markdown.code(self._text(entry.uuid)[:8]),
            f"label {markdown.code(self._text(label))}" if label else "",
        ]
        if speaker == self._speaker and not (label or speaker == "User"):
            return []
        self._speaker = speaker
        return [f"## {speaker}", " · ".join(fact for fact in facts if fact)]

    def _answer(self, message: Message, entry: Entry) -> Iterator[str]:
        if not self._pending.open or (self._pending.is_answered and not self._waits()):
            yield from self._close_answer()
        self._pending.add(*self._heading("Assistant", entry))
        for part in passage.answered(message, images=self._images):
            if isinstance(part, Call):
                self._names[part.id] = part.name
                self._pending.add_call(part)
            else:
                self._pending.add(part)
        if is_partial(message):
            cause = "" if "stopReason" in message else ": it has no end"
            self._pending.add(f"*This message broke off{cause}.*")
        for key in ("errorMessage", "error"):
            if isinstance(error := message.get(key), str) and error:
                self._pending.add(f"*The answer failed:* {markdown.code(error)}")
        if not self._pending.open:
            yield from self._close_answer()

    def _results(self, message: Message, ids: list[str], entry: Entry) -> Iterator[str]:
        parts = [part for part in blocks_of(message) if is_result_block(part)]
        for id, part in zip(ids, parts or [message], strict=False):
            if self._pending.answer(id, passage.result(part)):
                continue
            name = self._names.get(id) or str(message.get("toolName") or "a call that is not here")
            yield from self._section("Assistant", entry, passage.result(part, name))
        if not self._pending.open:
            yield from self._close_answer()

    def _handle(self, entry: Entry) -> Iterator[str]:
        if (image := self._image(entry)) is not None:
            yield from self._section("User", entry, image)
            return
        yield from self._message(self._masked(self._contents.of_handle(entry), entry.uuid), entry)

    def _image(self, entry: Entry) -> str | None:
        """An attached image: a link where it and the transcript are files, else its name."""
        text = entry.get("handle")
        blob = blob_of(text)
        if blob is None:
            return None
        media_type = base_type((Handle.parse(text).meta[2:3] or ("",))[0])
        if media_type not in IMAGES:
            return None
        if self._redaction is not None:
            self._redaction.left_out.append((entry.uuid, media_type, blob.size))
            return f"*{markdown.inline(left_out(media_type, blob.size))}*"
        named = f"{self._whole(entry).get('preview') or media_type}, {passage.size(blob.size)}"
        folder = self._reader.blobs.folder
        if self._beside is None or is_address(folder):
            return f"*[{markdown.inline(named)}]*"
        path = os.path.relpath(os.path.join(folder, blob.sha256), self._beside)
        return f"![{markdown.inline(named)}]({quoted_path(path)})"

    def _apart(self, *parts: str) -> Iterator[str]:
        if parts and parts[0].startswith("---"):
            self._speaker = ""
        if self._waits():
            self._pending.add(*parts)
            return
        yield from self._close_answer()
        yield from parts

    def _waits(self) -> bool:
        """Whether a result for an open call comes further down the path."""
        if not self._pending.open:
            return False
        if self._last_result is None:
            self._last_result = {}
            rows = [row for row in self._rows if self._tree.type_of(row) == "handle"]
            handles = map(self._reader.entry_at, rows)
            self._contents.prepare(list(filter(is_handle_of_message, handles)))
            for place, row in enumerate(self._rows):
                if self._tree.type_of(row) in ("message", "handle"):
                    self._last_result.update(dict.fromkeys(self._results_in(row), place))
        last = self._last_result
        return any(last.get(id, 0) > self._place for id in self._pending.open)

    def _results_in(self, row: int) -> list[str]:
        """The ids of the calls whose results an entry has."""
        entry = self._reader.entry_at(row)
        message: Any = entry.message_as_stored
        if is_handle_of_message(entry):
            message = self._contents.of_handle(entry)
        return result_ids(message) if isinstance(message, Mapping) else []

    def _close_answer(self) -> Iterator[str]:
        """The answer that waited for results, with those that came."""
        answer, self._pending = self._pending, Answer()
        yield from answer.parts()

    def _branches(self, row: int, following: int) -> Iterator[str]:
        """Notices of the branches that leave the path below an entry."""
        tree = self._tree
        others = [child for child in tree.children(row) if child != following]
        if not others or following == NO_ROW:
            return
        if self._content is None:
            self._content = tree.content_rows()
        for child in others:
            below = [at for at in tree.subtree(child) if self._content[at]]
            if below:
                yield from self._apart(self._notice(below))

    def _notice(self, below: list[int]) -> str:
        first = self._reader.entry_at(below[0])
        fields = self._fields(first, None)
        message = fields.get("message")
        text = text_of(message) if isinstance(message, Mapping) else fields.get("summary")
        start = " ".join(markdown.plain(text).split())[:60] if isinstance(text, str) else ""
        count = f"{len(below):,} {'entry' if len(below) == 1 else 'entries'}"
        lane = f" on lane {markdown.code(self._text(first.lane))}" if first.lane else ""
        preview = f": {markdown.inline(start)}" if start else ""
        uuid = markdown.code(self._text(first.uuid)[:8])
        return f"*Another branch leaves here{lane}, {count} from {uuid} on*{preview}"

    def _end(self) -> Iterator[str]:
        if self._not_shown:
            kinds = sorted(self._not_shown.items())
            counts = [f"{n:,} {markdown.inline(self._text(kind))}" for kind, n in kinds]
            yield "---"
            yield f"*Not shown: {', '.join(counts)}.*"
        warnings = list(dict.fromkeys(self._warnings))
        for warning in warnings[:_MOST_WARNINGS]:
            yield f"*Warning: {markdown.inline(self._text(warning))}*"
        if (more := len(warnings) - _MOST_WARNINGS) > 0:
            yield f"*Warning: there are {more:,} more warnings of this transcript.*"
