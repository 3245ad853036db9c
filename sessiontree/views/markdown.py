"""The path to an entry as Markdown for people to read.

All messages of the path are in it, also those that a compaction or an edit took from the context.
The result of a call is below the call, wherever on the path it is. What is not shown is counted at
the end.

Invariants:

- A text stays within its place: it opens no heading of the document's own, and no code block, list
  or HTML element that goes on after it.
- Nothing in it controls a terminal. Unless asked, nothing in it is loaded from elsewhere by a
  viewer: an image becomes a link. A viewer that loads an image tells its server who reads the text,
  and when.
- The same session gives the same text.
- One entry at a time is in memory, beside those that wait for a result and the handles resolved
  ahead.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote as quoted_path

from sessiontree.context.resolved import fenced
from sessiontree.context.settings import header_settings, settings_of
from sessiontree.core import limits
from sessiontree.core.blocks import EntryContents, folded_message, is_handle_of_message
from sessiontree.core.display import WIDTH, printable
from sessiontree.core.entry import HEADER, MARKERS, PIECES, Entry, missing_parent
from sessiontree.core.handle import blob_of, media_type_in
from sessiontree.core.header import forked_from
from sessiontree.core.index import NO_ROW
from sessiontree.core.limits import Budget
from sessiontree.core.media import IMAGES, base_type, left_out
from sessiontree.core.message import (
    Message,
    ToolCall,
    count_of_blocks,
    failure_in,
    indented_text,
    is_generated,
    is_typed_command,
    result_ids,
    role_of,
    text_of,
    typed_text,
)
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionTreeError
from sessiontree.storage.place import is_address
from sessiontree.text.amounts import counted
from sessiontree.text.ids import kin_in_words
from sessiontree.text.preview import size_in_short
from sessiontree.text.terminal import as_shown
from sessiontree.text.title import TitlePrompt, prompt_in
from sessiontree.views.acts import Act, Detail, act_of, act_of_item, details_of
from sessiontree.views.messages import is_repeat
from sessiontree.views.parts import Part, note_of, parts, parts_of, title_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from sessiontree.redact.redaction import Redaction


DEEPER: Final = 2  # levels by which the headings of a text are lowered
_LARGEST: Final = 200_000  # characters parsed as Markdown; a longer text becomes a block of code
_TERMINAL: Final = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\r(?=\n)"
)
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&!$@])")
_TAG: Final = re.compile(r"(?<!\\)<(?=[A-Za-z/!?])(?![A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>)")
_IMAGE: Final = re.compile(r"(?<!\\)((?:\\\\)*)!\[(\](?=[(\[]))?")
_TICKS: Final = re.compile(r"`+")
_MARKS: Final = re.compile(r"[<>`~#=]|!\[|^[ \t]*-", re.MULTILINE)
"""Without one of these, a text has no heading, HTML or image, and no code that could stay open."""

_END: Final = "the-end-of-the-text"


def plain(text: str) -> str:
    """Text without control sequences, such as colours; line breaks stay."""
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text  # as most is; this check is a hundred times as fast
    return printable(_TERMINAL.sub("", text))


def inline(text: str) -> str:
    """Text on one line, without any markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(plain(text).split()))


def code(text: str) -> str:
    """Text on one line as code."""
    shown = " ".join(plain(text).split())
    if "`" not in shown:
        return f"`{shown}`" if shown else ""
    ticks = "`" * (max(map(len, _TICKS.findall(shown))) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def block(text: str, language: str = "") -> str:
    """Text as a block of code, in a fence that the text cannot end."""
    fence, rest = fenced(plain(text)).split("\n", 1)
    return f"{fence}{language}\n{rest}"


def quote(text: str) -> str:
    """A quotation of Markdown. Tabs become spaces, because they have other stops in it."""
    lines = (line.expandtabs(4) for line in text.split("\n"))
    return "\n".join(f"> {line}" if line.strip() else ">" for line in lines)


def prose(text: str, *, images: bool = False) -> str:
    """Markdown of another author, contained: its headings lower, its HTML text, its images links.

    With `images`, its images stay. Text that cannot be contained becomes a block of code.
    """
    text = plain(text).strip("\n")
    if len(text) > _LARGEST:
        return block(text)
    if not _MARKS.search(text):
        return text
    within = _without_tags if images else _linked
    outside = frozenset(["html_inline"] if images else ["html_inline", "image"])
    shown = _with_lower_headings(_changed_outside_code(text, within))
    if _is_contained(shown, outside):
        return shown
    fences = [token.markup for token in _tokens(shown) if token.type == "fence"]
    closed = f"{shown}\n{fences[-1]}" if fences else shown  # as one that was cut short is not
    return closed if fences and _is_contained(closed, outside) else block(text)


def typed(text: str, *, images: bool = False) -> str:
    """The same for text that a person typed: each line break stays."""
    shown = prose(text, images=images)
    lines = shown.split("\n")
    if shown.startswith("```") or len(lines) == 1:
        return shown
    whole = _whole_lines(_tokens(shown))
    return "\n".join(
        f"{line}  " if line.strip() and following.strip() and i not in whole else line
        for i, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True))
    )


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # slow to load, and few commands write Markdown

    parser = MarkdownIt("commonmark").enable("table")
    parser.parse("a")  # compiles its rules before threads share it; it would show them half of them
    return parser


def _tokens(text: str) -> list[Token]:
    return _parser().parse(text)


def _whole_lines(tokens: list[Token]) -> set[int]:
    return {
        line
        for token in tokens
        if token.type in ("fence", "code_block") and token.map is not None
        for line in range(*token.map)
    }


def _changed_outside_code(text: str, change: Callable[[str], str]) -> str:
    if not (_TAG.search(text) or _IMAGE.search(text)):
        return text
    whole = _whole_lines(_tokens(_TAG.sub("(", text)))
    shown: list[str] = []
    paragraph: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if number in whole or not line.strip():
            shown += [*_outside_code(paragraph, change), line]
            paragraph = []
        else:
            paragraph.append(line)
    return "\n".join(shown + _outside_code(paragraph, change))


def _without_tags(text: str) -> str:
    return _TAG.sub(r"\\<", text)


def _linked(text: str) -> str:
    shown = _without_tags(text)
    return _IMAGE.sub(lambda found: f"{found[1]}[image]" if found[2] else f"{found[1]}[", shown)


def _outside_code(paragraph: list[str], change: Callable[[str], str]) -> list[str]:
    text = "\n".join(paragraph)
    runs = [match.span() for match in _TICKS.finditer(text)]
    parts: list[str] = []
    at = number = 0
    while number < len(runs):
        start, end = runs[number]
        others = range(number + 1, len(runs))
        closing = next((i for i in others if runs[i][1] - runs[i][0] == end - start), None)
        if closing is not None:
            parts += [change(text[at:start]), text[start : runs[closing][1]]]
            at = runs[closing][1]
            number = closing
        number += 1
    parts.append(change(text[at:]))
    return "".join(parts).split("\n") if paragraph else []


def _with_lower_headings(text: str) -> str:
    lines = text.split("\n")
    for token in _tokens(text):
        if token.type == "heading_open" and token.map is not None:
            start, end = token.map
            if token.markup.startswith("#"):
                deeper = "#" * min(len(token.markup) + DEEPER, 6)
                lines[start] = lines[start].replace(token.markup, deeper, 1)
            else:
                mark = token.markup[0]
                lines[end - 1] = lines[end - 1].replace(mark, f"\\{mark}", 1)
    return "\n".join(lines)


def _is_contained(text: str, refused: frozenset[str]) -> bool:
    """Whether text after this is outside of it, its headings are low, and no part is refused."""
    tokens = _tokens(f"{text}\n\n{_END}\n")
    ends = [token.type for token in tokens[-3:]] == ["paragraph_open", "inline", "paragraph_close"]
    if not ends or tokens[-2].content != _END or tokens[-3].level != 0:
        return False
    return not any(
        token.type == "html_block"
        or (token.type == "heading_open" and int(token.tag[1:]) <= DEEPER)
        or any(child.type in refused for child in token.children or ())
        for token in tokens
    )


_SHORT_DETAIL: Final = 200  # characters of an argument that has no block of its own
_LONGEST_OPEN: Final = 25  # lines of a tool's result that are shown open; a longer one is folded


def passage(part: Part, *, quoted: bool = False, images: bool = False, name: str = "") -> str:
    """A part of a message as Markdown.

    What people typed is `quoted`. A result has the `name` of its tool if it is not below its call.
    """
    if part.call is not None:
        return called(part.call)
    match part.kind:
        case "text" | "refusal" if quoted:
            return quote(typed(part.text, images=images))
        case "text" | "refusal":
            return prose(part.text, images=images)
        case "thinking" if part.text:
            return folded(title_of(part), quote(prose(part.text, images=images)))
        case "thinking":
            return f"*{title_of(part)}.*"
        case "result":
            return _result(part, name)
        case "shell":
            return _ran(part)
        case "media":
            return f"*[{inline(part.text)}]*"
        case "error":
            return f"*{title_of(part)}:* {code(part.text)}"
        case "broken":
            cause = inline(part.text) or ("" if "stopReason" in part.block else "it has no end")
            return f"*{title_of(part)}{cause and ': '}{cause}.*"
    whole = block(indented_text(part.block), "json")
    if (act := act_of_item(part.block)) is not None:
        return f"{_act(act)}\n\n{folded(inline(title_of(part)), whole)}"
    return f"*{inline(title_of(part))}:*\n\n{whole}"


_IN_WORDS: Final = ("subagent", "todos", "question", "memory")
"""The kinds of acts whose object is not code."""


def called(call: ToolCall, act: Act | None = None) -> str:
    """A call as Markdown: its line, and what the line does not have; the act has its outcome."""
    act = act or act_of(call)
    return "\n\n".join([_act(act), *map(_detail, details_of(call, act))])


def _act(act: Act) -> str:
    show = inline if act.kind in _IN_WORDS else code
    place = act.place and ("" if act.place.startswith(":") else " ") + inline(act.place)
    outcome = f"**{inline(act.outcome)}**" if act.failed else inline(act.outcome)
    words = f"**{inline(act.verb)}** {show(act.object)}".rstrip()
    return words + place + (f" → {outcome}" if act.outcome else "")


def _detail(detail: Detail) -> str:
    is_short = detail.name and "\n" not in detail.text and len(detail.text) <= _SHORT_DETAIL
    if is_short and "`" not in detail.text:
        return f"{code(detail.name)}: {code(detail.text) or 'empty'}"
    shown = block(detail.text, detail.language)
    return f"{code(detail.name)}:\n\n{shown}" if detail.name else shown


def _result(part: Part, name: str = "") -> str:
    title = title_of(part) + (f" of {inline(name)}" if name else "")
    texts = [as_shown(piece.text) for piece in part.pieces if piece.kind == "text"]
    others = [passage(piece) for piece in part.pieces if piece.kind != "text"]
    text = "\n".join(texts)
    count = text.rstrip("\n").count("\n") + 1
    found = [] if texts or others else [f"*{title}: empty.*"]
    if texts and count > _LONGEST_OPEN:
        found.append(folded(f"{title}, {count:,} lines", block(text)))
    elif texts:
        found.append(f"{title}:\n\n{block(text)}")
    return "\n\n".join(found + others)


def _ran(part: Part) -> str:
    found = [block(f"$ {part.text}", "sh")]
    if part.pieces:
        found.append(_result(part))
    code_ = part.block.get("exitCode")
    if isinstance(code_, int) and code_:
        found.append(f"*Exit code {code_}.*")
    return "\n\n".join(found)


def folded(title: str, text: str) -> str:
    """Text that a reader unfolds by its title."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def noted(kind: str, fields: Mapping[str, Any], *, images: bool = False) -> str | None:
    """An entry that is not a message; empty for nothing, None for an unknown type."""
    note = note_of(kind, fields)
    if note is None:
        return "" if kind in MARKERS else None
    if note.summary is None:
        name = inline(note.name) if kind == "thinking_level_change" else code(note.name)
        return f"*{note.words} {name}{note.done and f' {note.done}.'}*"
    is_compaction = kind == "compaction"
    named = note.name and f", {note.name}" if is_compaction else f" {code(note.name)}"
    shown = f"\n\n{quote(prose(note.summary, images=images))}" if note.summary.strip() else ""
    return f"---\n\n**{note.words}{named}**{shown}\n\n---"


def speaker(message: Message) -> str:
    """The speaker of a message, as a title."""
    role = role_of(message)
    known = {"bashExecution": "User", "developer": "System", "tool": "Assistant"}
    return inline(known.get(role, role[:1].upper() + role[1:]) or "Somebody")


class AnswerParts:
    """The parts of an assistant's answer in order, up to the last result of a call in it."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.open: dict[str, int] = {}  # the place of the missing result of each call, by its id
        self.is_answered = False
        self._calls: dict[str, ToolCall] = {}

    def add(self, *parts: str) -> None:
        self._parts += parts

    def add_call(self, call: ToolCall) -> None:
        """Add a call at the end, with a place for its result."""
        self._show_open(call.id)  # one with the same id, which nothing answers now
        self.open[call.id] = len(self._parts) + 1
        self._calls[call.id] = call
        self.add("", "*No result was recorded.*")

    def answer(self, part: Part, cwd: str | None) -> bool:
        """Put a result below its call, whose line then has the outcome; False without a call."""
        place = self.open.pop(part.id, None)
        if place is None:
            return False
        self.is_answered = True
        call = self._calls.pop(part.id)
        act = act_of(call, part.block, cwd=cwd)
        self._parts[place - 1] = called(call, act)
        is_in_line = act.outcome == act.output.strip() and len(part.pieces) == 1
        self._parts[place] = "" if is_in_line else passage(part)
        return True

    def parts(self) -> list[str]:
        for id in self.open:
            self._show_open(id)
        return self._parts

    def _show_open(self, id: str) -> None:
        if (place := self.open.get(id)) is not None:
            self._parts[place - 1] = called(self._calls[id])


_GAP: Final = "*The entry before is missing; joined to the one before it in the file.*"
_TITLE: Final = 80  # characters
_MODEL_WITHIN: Final = 500  # how many of the last entries are searched for the model in use
_HANDLES_AT_ONCE: Final = 1000  # entries
_MAX_WARNINGS: Final = 1000  # at the end; in the text, a placeholder stands in each place


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
    made = _MarkdownTranscript(cursor, leaf, redaction, beside, remote_images=remote_images)
    before = ""
    for part in made.parts():
        if part.strip():
            yield f"{before}{part}\n"
            before = "\n"


class _MarkdownTranscript:
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
        self._contents = EntryContents(cursor.resolve, False, self._warnings)
        self._labels = reader.names().labels
        cwd = reader.header.get("cwd")
        self._cwd = self._text(cwd) if isinstance(cwd, str) else None
        self._speaker = ""
        self._pieces: list[Entry] = []
        self._pending = AnswerParts()
        self._place = 0
        self._prepared = 0
        self._ahead: dict[int, Entry] = {}  # the entries of handles prepared, by their rows
        self._last_result: dict[str, int] | None = None
        self._names: dict[str, str] = {}
        self._not_shown: Counter[str] = Counter()
        advice = "; export an entry above it"
        self._blocks = Budget(limits.SHOWN_BLOCKS, reader.view.size, what="the path", next=advice)

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
        yield f"# {inline(self._title())}"
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
            f"- {name}: {code(self._text(value))}"
            for name, value in facts.items()
            if isinstance(value, str) and value
        ]
        if kin := kin_in_words(self._reader.id, forked_from(header.as_stored)):
            shown.insert(1, f"- {inline(self._text(kin))}")
        if shown:
            yield "\n".join(shown)

    def _title(self) -> str:
        name = self._reader.names().name
        if name:
            return self._text(name)
        found = self._first_prompt()
        if found is None:
            return f"Session {self._reader.id}"
        text = " ".join(plain(found).split())
        return text if len(text) <= _TITLE else text[: _TITLE - 1] + "…"

    def _first_prompt(self) -> str | None:
        """The first prompt of the session, as lists show it; it may be on another path."""
        first = TitlePrompt()
        for row in self._tree.rows_of_type("message", "handle", "custom"):
            keys = self._reader.entry_at(row).as_stored
            if prompt_in(keys) is not None:  # what else a secret may be in is masked where it is
                first.take(self._masked(dict(keys), None))
                if first.is_found:
                    break
        return first.whole

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

    def _fields(self, entry: Entry) -> Mapping[str, Any]:
        """The keys of an entry with its spilled content, masked."""
        masked: Mapping[str, Any] = self._masked(self._whole(entry), entry.uuid)
        return masked

    def _whole(self, entry: Entry) -> dict[str, Any]:
        body = self._contents.whole(entry).body
        return {key: body[key] for key in body if key not in ("spilled", "crc")}

    def _masked(self, value: Any, uuid: str | None) -> Any:
        return value if self._redaction is None else self._redaction.value(value, uuid)

    def _entry(self, entry: Entry) -> Iterator[str]:
        if entry.type in PIECES:
            if self._pieces and self._pieces[0].get("messageUuid") != entry.get("messageUuid"):
                yield from self._pieces_message()
            self._pieces.append(entry)
            return
        if entry.is_content:
            yield from self._pieces_message()
        if missing_parent(entry) is not None:
            yield from self._apart(_GAP)
        if entry.type == HEADER:
            self._masked(dict(entry.body), entry.uuid)
            return
        if is_repeat(entry, self._reader.index):
            self._not_shown["repeated for the model"] += 1
            return
        self._count_blocks(entry)
        if entry.type == "handle":
            yield from self._handle(entry)
            return
        fields = self._fields(entry)
        if entry.type == "message":
            message = fields.get("message")
            if isinstance(message, Mapping):
                yield from self._message(message, entry)
        elif entry.type == "custom_message":
            title = inline(str(fields.get("customType") or "custom"))
            yield from self._section(title, entry, *self._quoted(parts_of(fields)))
        elif typed_text(fields) is not None:
            yield from self._section("User", entry, *self._quoted(parts_of(fields)))
        elif failure_in(fields) is not None:
            passages = (passage(part, images=self._images) for part in parts_of(fields))
            yield from self._section("Assistant", entry, *passages)
        else:
            note = noted(entry.type, fields, images=self._images)
            if note:
                yield from self._apart(note)
            elif note is None:
                kind = fields.get("customType") if entry.type == "custom" else None
                self._not_shown[f"{entry.type} {kind}" if kind else entry.type] += 1

    def _count_blocks(self, entry: Entry) -> None:
        message = entry.message_as_stored
        if isinstance(message, dict):
            self._blocks.take(count_of_blocks(message), uuid=entry.uuid)

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
        found = list(parts(message))
        results = [part for part in found if part.kind == "result"]
        if results:
            yield from self._results(results, message, entry)
        if len(results) == len(found) > 0:
            return
        others = [part for part in found if part.kind != "result"]
        passages = self._quoted(others)
        if role in ("system", "developer"):
            passages = [folded("Prompt", "\n\n".join(passages))]
        is_generated_user = role == "user" and not results and is_generated(entry.body)
        is_program = is_generated_user and not is_typed_command(message)
        who = "Program" if is_program else speaker(message)
        yield from self._section(who, entry, *passages)

    def _quoted(self, found: Iterable[Part]) -> list[str]:
        return [passage(part, quoted=True, images=self._images) for part in found]

    def _section(self, speaker: str, entry: Entry, *parts: str) -> Iterator[str]:
        yield from self._apart(*self._heading(speaker, entry), *parts)

    def _heading(self, speaker: str, entry: Entry) -> list[str]:
        """The heading of a speaker; nothing where the same one goes on."""
        label = self._labels.get(entry.uuid)
        facts = [
            inline(entry.timestamp or "")[:19].replace("T", " "),
            code(self._text(entry.uuid)[:8]),
            f"label {code(self._text(label))}" if label else "",
        ]
        if speaker == self._speaker and not (label or speaker == "User"):
            return []
        self._speaker = speaker
        return [f"## {speaker}", " · ".join(fact for fact in facts if fact)]

    def _answer(self, message: Message, entry: Entry) -> Iterator[str]:
        if not self._pending.open or (self._pending.is_answered and not self._waits()):
            yield from self._close_answer()
        self._pending.add(*self._heading("Assistant", entry))
        for part in parts(message):
            if part.call is not None:
                self._names[part.call.id] = part.call.name
                self._pending.add_call(part.call)
            elif part.kind != "result" or not self._pending.answer(part, self._cwd):
                self._pending.add(passage(part, images=self._images))
        if not self._pending.open:
            yield from self._close_answer()

    def _results(self, results: list[Part], message: Message, entry: Entry) -> Iterator[str]:
        for part in results:
            if self._pending.answer(part, self._cwd):
                continue
            named = message.get("toolName") or message.get("name") or "a call that is not here"
            name = self._names.get(part.id) or str(named)
            yield from self._section("Assistant", entry, passage(part, name=name))
        if not self._pending.open:
            yield from self._close_answer()

    def _handle(self, entry: Entry) -> Iterator[str]:
        if (image := self._image(entry)) is not None:
            yield from self._section("User", entry, image)
            return
        yield from self._message(self._masked(self._contents.of_handle(entry), entry.uuid), entry)

    def _image(self, entry: Entry) -> str | None:
        """An attached image: a link where it and the transcript are files, else its name."""
        handle = entry.get("handle")
        blob = blob_of(handle)
        if blob is None:
            return None
        media_type = base_type(media_type_in(handle))
        if media_type not in IMAGES:
            return None
        if self._redaction is not None:
            self._redaction.left_out.append((entry.uuid, media_type, blob.size))
            return f"*{inline(left_out(media_type, blob.size))}*"
        named = f"{self._whole(entry).get('preview') or media_type}, {size_in_short(blob.size)}"
        folder = self._reader.blobs.folder
        if self._beside is None or is_address(folder):
            return f"*[{inline(named)}]*"
        path = os.path.relpath(os.path.join(folder, blob.sha256), self._beside)
        return f"![{inline(named)}]({quoted_path(path)})"

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
        entry = self._reader.entry_at(row)
        message: Any = entry.message_as_stored
        if is_handle_of_message(entry):
            message = self._contents.of_handle(entry)
        return result_ids(message) if isinstance(message, Mapping) else []

    def _close_answer(self) -> Iterator[str]:
        answer, self._pending = self._pending, AnswerParts()
        yield from answer.parts()

    def _branches(self, row: int, following: int) -> Iterator[str]:
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
        fields = self._fields(first)
        message = fields.get("message")
        text = text_of(message) if isinstance(message, Mapping) else fields.get("summary")
        start = " ".join(plain(text).split()) if isinstance(text, str) else ""
        if len(start) > WIDTH:  # a mask that is cut cannot be told from a text
            start = start[:WIDTH].rpartition(" ")[0] if self._redaction else start[:WIDTH]
        count = counted(len(below), "entry", "entries")
        lane = f" on lane {code(self._text(first.lane))}" if first.lane else ""
        preview = f": {inline(start)}" if start else ""
        uuid = code(self._text(first.uuid)[:8])
        return f"*Another branch leaves here{lane}, {count} from {uuid} on*{preview}"

    def _end(self) -> Iterator[str]:
        if self._not_shown:
            kinds = sorted(self._not_shown.items())
            counts = [f"{n:,} {inline(self._text(kind))}" for kind, n in kinds]
            yield "---"
            yield f"*Not shown: {', '.join(counts)}.*"
        warnings = list(dict.fromkeys(self._warnings))
        for warning in warnings[:_MAX_WARNINGS]:
            yield f"*Warning: {inline(self._text(warning))}*"
        if (more := len(warnings) - _MAX_WARNINGS) > 0:
            yield f"*Warning: {counted(more, 'more warning')} of this transcript.*"
