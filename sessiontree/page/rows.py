"""The rows of a turn: each entry as what a reader sees of it, a call with its result inside.

Invariants: every entry of a turn has a row, or is within one; a result is in the row of its call,
wherever in the turn it stands; texts are masked before they come here, whole, so that no cut leaves
a part of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from markupsafe import Markup

from sessiontree.core.activity import (
    PATH_KEYS,
    ending_of,
    is_note_of_program,
    output_of,
)
from sessiontree.core.display import one_line
from sessiontree.core.entry import ANNOTATIONS, moment_of
from sessiontree.core.media import IMAGES, base_type
from sessiontree.core.message import (
    IMAGE_BLOCKS,
    Message,
    ToolCall,
    failure_in,
    indented_text,
    is_generated,
    is_typed_command,
    kind_of,
    role_of,
    says_interrupted,
    system_text,
    typed_text,
)
from sessiontree.edits.diff import DiffCounts, counted_diff_of
from sessiontree.edits.shell import Commit, commits_told, script_of
from sessiontree.edits.tools import Edit, SideFacts, edits_of, with_arguments
from sessiontree.page import markup
from sessiontree.page.templates import Templates
from sessiontree.text.amounts import lasting
from sessiontree.views.parts import (
    Part,
    Remark,
    note_of,
    parts,
    parts_of,
    split_arguments,
    title_of,
)

NOTHING: Final = Markup("")
_GIST: Final = 70
_MAX_TEXT: Final = 200_000
"""Characters of a result or an argument that the page has; of a longer one its start and end."""

_SHORT_SUMMARY: Final = 600
"""Characters of a summary that is shown unfolded."""

_OPEN_TEXT: Final = 12_000
"""Characters of a prompt that are shown unfolded."""

_TARGETS: Final = (
    *(*PATH_KEYS, "command"),
    *("cmd", "pattern", "query", "url", "description", "skill", "prompt", "subject", "name"),
)
_REMINDER: Final = re.compile(r"<system-reminder>(.*?)(?:</system-reminder>|\Z)", re.DOTALL)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)[^,\s]{0,100};base64,")
HIDDEN: Final = ANNOTATIONS | {"custom", "branch", "stack_push"}
"""The types of entries that nobody said and that change nothing: annotations, in a page."""

PROMPT, ANSWER, THOUGHT, CALL, RESULT = "u", "a", "t", "c", "r"
PROGRAM, SYSTEM, SHELL, COMPACTION, SUMMARY = "m", "s", "b", "k", "y"
ERROR, INTERRUPTION, CHANGE, UNKNOWN, ANNOTATION = "e", "i", "o", "x", "z"
TURN, AGENT, FILE, OVERVIEW = "T", "A", "F", "O"


class PageRow(msgspec.Struct, array_like=True, gc=False):
    """A row of the page, of a kind by one of the letters above."""

    kind: str
    gist: str
    """Its text in short, for the tree."""

    head: str
    body: str = ""
    """What is shown when it is opened."""

    time: str | None = None
    entry: int = -1
    """The number of its entry in its turn."""


class FileChange(msgspec.Struct, frozen=True, array_like=True):
    """An edit that was done, with the place of the row of its call, and the lines it changed."""

    place: int
    edit: Edit
    counts: DiffCounts


class MadeCommit(msgspec.Struct, frozen=True, array_like=True):
    """A commit that was made, with the place of the row of its call."""

    place: int
    commit: Commit


class _Open(msgspec.Struct):
    row: PageRow
    place: int
    call: ToolCall
    target: str
    together: int


class TurnRows:
    """Makes the rows of one turn; takes its entries in order.

    `told` gives what the agent keeps beside the results of the entry that is taken; `cwd` shortens
    paths; `colours` is the budget of colours in code.
    """

    def __init__(
        self,
        templates: Templates,
        told: Callable[[], SideFacts],
        cwd: str | None,
        colours: markup.Colours,
        *,
        is_subagent: bool,
    ) -> None:
        self._templates = templates
        self._colours = colours
        self._told = told
        self._cwd = cwd.rstrip("/") + "/" if cwd else None
        self._is_subagent = is_subagent
        self._open: dict[str, _Open] = {}
        self._rows: list[PageRow] = []
        self._time: str | None = None
        self.models: tuple[str, str] | None = None
        self.changes: list[FileChange] = []
        self.commits: list[MadeCommit] = []

    @property
    def rows(self) -> list[PageRow]:
        """The rows so far; those of calls without a result say so."""
        for waiting in self._open.values():
            self._close(waiting, "no result", NOTHING, [])
        self._open.clear()
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, place: int) -> PageRow:
        """The row at a place; that of an open call is complete when its result was taken."""
        return self._rows[place]

    def place_of_result(self, id: str) -> int | None:
        """The place of the row of an open call."""
        waiting = self._open.get(id)
        return None if waiting is None else waiting.place

    def add(self, row: PageRow) -> None:
        """Add a row that was made elsewhere."""
        self._rows.append(row)

    def add_empty(self, kind: str, time: str | None) -> None:
        """Add the row of an entry that has nothing to show."""
        self._time = time
        words = f"{plain_line(kind, 60)} without content"
        self._add(ANNOTATION, words, self._templates.note(words, "", "annotation"))

    def add_gap(self) -> None:
        """Add a row that says that the entry before the next one is missing."""
        words = "The entry before is missing"
        more = "joined to the one before it in the file"
        self._add(CHANGE, words, self._templates.note(words, more, "bad"))

    def add_more(self, time: str | None) -> None:
        """Add the row of entries without a row of their own, of which the first has a time."""
        self._time = time
        self._add(ANNOTATION, "", NOTHING)

    def count_more(self, count: int) -> None:
        """Say in the last row how many annotations it is of."""
        words = f"{count:,} more annotation{'s' if count > 1 else ''}"
        self._count(words, "without rows of their own")

    def count_repeats(self, count: int) -> None:
        """Say in the last row how many repeated messages it is of."""
        words = f"{count:,} message{'s' if count > 1 else ''} kept"
        self._count(words, "what the model sees again")

    def _count(self, words: str, detail: str) -> None:
        head = self._templates.note(words, detail, "annotation")
        self._rows[-1].gist, self._rows[-1].head = words, str(head)

    def own(self, first: int, entry: int) -> None:
        """Note that the rows from a place on are made of an entry."""
        for row in self._rows[first:]:
            row.entry = entry

    def _add(
        self,
        kind: str,
        gist: str,
        head: Markup,
        body: Markup = NOTHING,
    ) -> PageRow:
        row = PageRow(kind, one_line(gist, _GIST), str(head), str(body), self._time)
        self._rows.append(row)
        return row

    def take(self, kind: str, fields: Mapping[str, Any], time: str | None, uuid: str) -> None:
        """Take an entry that is not a message."""
        self._time = time
        if typed_text(fields) is not None:
            self._asked(parts_of(fields), PROMPT, "User, typed while the agent worked")
        elif kind == "custom_message":
            self._asked(parts_of(fields), PROGRAM, str(fields.get("customType") or "custom"))
        elif failure_in(fields) is not None:
            for part in parts_of(fields):
                self._said(part, together=0)
        elif kind in HIDDEN:
            self._annotation(kind, fields)
        elif (note := note_of(kind, fields)) is not None:
            self._note(kind, note, fields)
        else:
            body = markup.pre(indented_text(fields))
            head = self._templates.note(f"Unknown type {plain_line(kind, 60)}", "", "unknown")
            self._add(UNKNOWN, f"unknown type {kind}", head, body)

    def _annotation(self, kind: str, fields: Mapping[str, Any]) -> None:
        named = fields.get("customType") if kind == "custom" else None
        words = f"{kind} {plain_line(named, 60)}" if isinstance(named, str) else kind
        shown = {k: v for k, v in fields.items() if k not in ("uuid", "parentUuid", "type", "crc")}
        text = indented_text(shown)
        head = self._templates.note(words, plain_line(text, 120), "annotation")
        self._add(ANNOTATION, words, head, self._long(text))

    def _note(self, kind: str, note: Remark, fields: Mapping[str, Any]) -> None:
        if note.summary is not None:
            self._summary(note, note.summary, is_compaction=kind == "compaction")
            return
        if kind == "model_change":
            self._answers_with(str(fields.get("modelId")))
        words = " ".join(filter(None, note[:3]))
        given = fields.get("replacement") if kind == "context_edit" else None
        body = NOTHING if given is None else self._long(indented_text(given))
        self._add(CHANGE, words, self._templates.note(plain_line(words, 200), "", "change"), body)

    def _summary(self, note: Remark, text: str, *, is_compaction: bool) -> None:
        said = markup.prose(text, self._colours) if text else NOTHING
        is_short = 0 < len(text) <= _SHORT_SUMMARY
        shown, body = (self._templates.said("", said), NOTHING) if is_short else (NOTHING, said)
        head = self._templates.line(note.words, note.name, "model" if is_compaction else "") + shown
        kind = COMPACTION if is_compaction else SUMMARY
        self._add(kind, f"compacted: {text}" if is_compaction else text or note.words, head, body)

    def take_message(self, message: Message, fields: Mapping[str, Any], time: str | None) -> None:
        """Take a message; `fields` are the keys of its entry."""
        self._time = time
        found = list(parts(message))
        role = role_of(message)
        if role == "assistant":
            self._answer(message, found)
            return
        others: list[Part] = []
        for part in found:
            if part.kind == "result":
                self._result(part, fields)
            else:
                others.append(part)
        is_result = len(others) < len(found)
        if role == "user":
            self._user(message, others, fields)
        elif others and others[0].kind == "shell":
            self._shell(others[0])
        elif is_result:
            return
        elif role in ("system", "developer"):
            text = system_text(message)
            head = self._templates.fold("System prompt", f"{len(text):,} characters")
            self._add(SYSTEM, text, head, self._long(text))
        else:
            self._asked(others, PROGRAM, role or "Somebody")

    def _user(self, message: Message, found: list[Part], fields: Mapping[str, Any]) -> None:
        if says_interrupted(message):
            text = " ".join(part.text for part in found).strip()
            head = self._templates.note("Interrupted by the user", text, "bad")
            self._add(INTERRUPTION, "interrupted by the user", head)
        elif is_typed_command(message):
            self._asked(found, PROMPT, "User, a command")
        elif is_generated(fields):
            self._asked(found, PROGRAM, "Program, in the user's name")
        elif is_note_of_program(message):
            self._asked(found, PROGRAM, "Note of a task")
        elif self._is_subagent:
            self._asked(found, PROMPT, "Prompt of the agent")
        else:
            self._asked(found, PROMPT, "User")

    def _asked(self, found: Iterable[Part], kind: str, who: str) -> None:
        shown: list[Markup] = []
        words: list[str] = []
        reminders: list[str] = []
        for part in found:
            if part.kind != "text":
                shown.append(self._other(part))
                continue
            reminders += _REMINDER.findall(part.text)
            if text := _REMINDER.sub("", part.text).strip():
                words.append(text)
                shown.append(
                    markup.typed(text) if kind == PROMPT else markup.prose(text, self._colours)
                )
        if shown:
            self._say_parts(kind, who, " ".join(words) or "[image]", shown)
        for text in reminders:
            head = self._templates.fold("Reminder of the program", plain_line(text, 100))
            self._add(PROGRAM, text, head, self._long(text.strip()))

    def _say_parts(self, kind: str, who: str, gist: str, parts: list[Markup]) -> None:
        whole = markup.joined(parts)
        if kind == PROGRAM:
            head = self._templates.fold(plain_line(who, 60), plain_line(gist, 100))
            self._add(kind, gist, head, whole)
        elif len(whole) > _OPEN_TEXT and "<img" not in whole:
            start = markup.typed(gist[:2000] + " …")
            self._add(kind, gist, self._templates.said(who, start), whole)
        else:
            self._add(kind, gist, self._templates.said(who, whole))

    def _shell(self, part: Part) -> None:
        code = part.block.get("exitCode")
        chips = (
            [self._templates.chip(f"exit {code}", "bad")] if isinstance(code, int) and code else []
        )
        head = self._templates.call("User ran", plain_line(part.text, 160), chips)
        output = "\n".join(piece.text for piece in part.pieces)
        self._add(SHELL, f"$ {part.text}", head, self._long(f"$ {part.text}\n{output}"))

    def _answer(self, message: Message, found: list[Part]) -> None:
        model = message.get("model")
        if isinstance(model, str) and model and not model.startswith("<"):
            if self.models is not None and self.models[1] != model:
                words = f"Model: {plain_line(model, 100)}"
                self._add(CHANGE, words, self._templates.note(words, "", "change"))
            self._answers_with(model)
        together = sum(part.call is not None for part in found)
        for part in found:
            self._said(part, together)

    def _said(self, part: Part, together: int) -> None:
        text, title = part.text, title_of(part)
        if part.call is not None:
            self._call(part.call, together)
        elif part.kind == "result":
            self._result(part, {})
        elif part.kind == "text":
            if text.strip():
                self._add(ANSWER, text, self._templates.said("", markup.prose(text, self._colours)))
        elif part.kind == "refusal":
            refused = markup.prose(text, self._colours)
            self._add(ANSWER, text, self._templates.said("Refusal", refused))
        elif part.kind == "thinking" and text:
            head = self._templates.fold(title, plain_line(text, 100))
            self._add(THOUGHT, text, head, markup.prose(text, self._colours))
        elif part.kind == "thinking":
            self._add(THOUGHT, title, self._templates.note(title, "", "sealed"))
        elif part.kind in ("error", "broken"):
            head = self._templates.note(title, plain_line(text, 300), "bad")
            kind, gist = (ERROR, text) if part.kind == "error" else (INTERRUPTION, title)
            self._add(kind, gist, head, markup.pre(text) if len(text) > 300 else NOTHING)
        elif (image := self._image(part.block)) is not None:
            self._add(UNKNOWN, title, self._templates.said("", image))
        else:
            head = self._templates.note(plain_line(title, 60), "", "item")
            self._add(UNKNOWN, title, head, self._long(indented_text(part.block)))

    def _answers_with(self, model: str) -> None:
        self.models = (model if self.models is None else self.models[0], model)

    def _call(self, call: ToolCall, together: int) -> None:
        target = self._target(call)
        row = self._add(CALL, f"{call.name} {target}", NOTHING)
        if (before := self._open.pop(call.id, None)) is not None:  # which nothing answers now
            self._close(before, "no result", NOTHING, [])
        self._open[call.id] = _Open(row, len(self._rows) - 1, call, target, together)

    def _target(self, call: ToolCall) -> str:
        given = call.arguments
        if isinstance(given, str):
            return plain_line(given, 120)
        if not isinstance(given, Mapping):
            return ""
        found = _target_in(given)
        text = " ".join(map(str, found)) if isinstance(found, list) else found
        if self._cwd and text.startswith(self._cwd):
            text = text.removeprefix(self._cwd)
        return plain_line(text, 120)

    def _result(self, part: Part, fields: Mapping[str, Any]) -> None:
        body = self._output(part)
        waiting = self._open.pop(part.id, None)
        if waiting is None:
            named = part.block.get("toolName") or part.block.get("name")
            name = str(named or "a call that is not here")
            bad = [self._templates.chip("no call", "bad")]
            head = self._templates.call("Result of", plain_line(name, 60), bad)
            self._add(RESULT, f"result of {name}", head, body)
            return
        ending = ending_of(part.block)
        edits = self._edits(waiting.call, fields, part.id) if ending == "done" else []
        self._close(waiting, ending, body, edits)
        if script := script_of(with_arguments(waiting.call).arguments):
            made = commits_told(script, output_of(part.block))
            self.commits += (MadeCommit(waiting.place, commit) for commit in made)

    def _edits(self, call: ToolCall, fields: Mapping[str, Any], id: str) -> list[Edit]:
        edits = edits_of(call, {})
        told = self._told().of(fields, id) if edits else {}
        return edits_of(call, told) if told else edits

    def _close(self, waiting: _Open, ending: str, result: Markup, edits: list[Edit]) -> None:
        call, row = waiting.call, waiting.row
        chips: list[Markup] = []
        diffs = [counted_diff_of(edit) for edit in edits]
        added = sum([counts.added for counts, _ in diffs])
        removed = sum([counts.removed for counts, _ in diffs])
        if added or removed:
            chips.append(self._templates.lines(str(added), str(removed)))
        if ending != "done":
            chips.append(self._templates.chip(ending, "bad"))
        if ending != "no result" and (took := self._took(row.time)) is not None:
            chips.append(self._templates.chip(took, "dim"))
        if waiting.together > 1:
            chips.append(self._templates.chip(f"one of {waiting.together}", "dim"))
        name = plain_line(call.name, 60) or "a tool"
        head = self._templates.call(name, waiting.target, chips)
        row.head = str(head)  # markup is a slower string
        shown = [(edit, *diff) for edit, diff in zip(edits, diffs, strict=True) if edit.path]
        if shown and all(edit.kind != "change" for edit, _, _ in shown) and (added or removed):
            arguments = markup.joined([self._diff(edit, lines) for edit, _, lines in shown])
        else:
            arguments = self._arguments(call.arguments)
        row.body = f"{arguments}{result}"
        for edit, counts, _ in shown if ending == "done" else ():
            self.changes.append(FileChange(waiting.place, edit, counts))

    def _took(self, began: str | None) -> str | None:
        if began == self._time:
            return None
        first, last = moment_of(began), moment_of(self._time)
        if first is None or last is None or (seconds := (last - first).total_seconds()) < 1:
            return None
        return lasting(seconds)

    def _diff(self, edit: Edit, lines: list[str]) -> Markup:
        return self._templates.edit(self._short(edit.path), edit.kind, markup.diff(lines))

    def _short(self, path: str) -> str:
        if self._cwd and path.startswith(self._cwd):
            path = path.removeprefix(self._cwd)
        return plain_line(path, 200)

    def _arguments(self, arguments: Any) -> Markup:
        if isinstance(arguments, str):
            return self._long(arguments)
        long, short = split_arguments(arguments)
        shown = [self._long(indented_text(short))] if short is not None else []
        shown += [
            self._templates.argument(plain_line(key, 60), self._long(text))
            for key, text in long.items()
        ]
        return markup.joined(shown)

    def _output(self, part: Part) -> Markup:
        shown = [
            self._long(piece.text) if piece.kind == "text" else self._other(piece)
            for piece in part.pieces
        ]
        return self._templates.result(markup.joined(shown)) if shown else self._templates.empty()

    def _long(self, text: str) -> Markup:
        parts = list(markup.shortened(text, _MAX_TEXT))
        if len(parts) == 1:
            return markup.pre(text)
        note = self._templates.note(parts[1], "", "left")
        return markup.pre(parts[0]) + note + markup.pre(parts[2])

    def _other(self, part: Part) -> Markup:
        """A part that is not text: an image in its place, any other as JSON."""
        if (image := self._image(part.block)) is not None:
            return image
        title = self._templates.note(plain_line(title_of(part), 60), "", "item")
        return title + self._long(indented_text(part.block))

    def _image(self, block: Mapping[str, Any]) -> Markup | None:
        if kind_of(block) not in IMAGE_BLOCKS and "source" not in block and "mimeType" not in block:
            return None
        if (found := image_in(block)) is not None:
            return self._templates.image(*found)
        url = _url_of(block)
        return None if url is None else markup.remote_image(url)


def image_in(part: Mapping[str, Any]) -> tuple[str, str] | None:
    """The media type and the base64 text of an image in a block; None where it has none."""
    source = part.get("source")
    given = source if isinstance(source, Mapping) else part
    data = given.get("data")
    kind = given.get("media_type", given.get("mimeType", given.get("mime_type")))
    if not isinstance(data, str):
        url = _url_of(part) or ""
        found = _DATA_URL.match(url)
        if found is None:
            return None
        kind, data = found[1], url[found.end() :]
    if not isinstance(kind, str) or base_type(kind) not in IMAGES or not _BASE64.fullmatch(data):
        return None
    return base_type(kind), "".join(data.split())


def _url_of(part: Mapping[str, Any]) -> str | None:
    source = part.get("source")
    for holder in (part, source if isinstance(source, Mapping) else {}):
        for key in ("image_url", "url"):
            found = holder.get(key)
            found = found.get("url") if isinstance(found, Mapping) else found
            if isinstance(found, str):
                return found
    return None


def _target_in(arguments: Mapping[str, Any]) -> str | list[Any]:
    for key in _TARGETS:
        if (value := arguments.get(key)) and isinstance(value, str | list):
            return value
    return ""


def plain_line(text: Any, width: int) -> str:
    """A value of a session on one line, cut."""
    return one_line(text if isinstance(text, str) else str(text or ""), width)
