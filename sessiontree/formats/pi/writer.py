"""A session as a file of the pi coding agent, version 3: the whole tree, entry by entry.

Each entry becomes a line of pi's type for it, below the line of its parent, and the
last line is the leaf. What pi has no type for is a `custom` entry, `sessiontree:<type>`,
which pi keeps and does not show. An entry is several lines, one below the other, where
pi keeps apart what was one message, or where a merge took in messages: pi has no
merges, so they are said again in its place.

The system text in force is a section of pi's prompt, for pi adds what a system message
says to those before it, and replaces a section of the same name.

Lines of a file of the pi coding agent, before they have their place in its tree.

Ids as the pi coding agent gives them: eight hexadecimal digits, unique in a file.

Messages that were written piece by piece: which pieces are told together, and where.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sessiontree.context.fold import replaced
from sessiontree.context.settings import header_settings, model_of
from sessiontree.core.blocks import folded_message
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.message import Message, role_of, system_text
from sessiontree.core.origin import origin_at
from sessiontree.formats.pi.messages import Model, PiMessages
from sessiontree.formats.writing import json_of, provider_of
from sessiontree.operations.convert import LONG_AGO, PIECES, Beside, Source, milliseconds

OWN: Final = "sessiontree:"
"""Stands before the name of a type of ours, where it is pi's `customType`."""

_STRUCTURE: Final = frozenset(
    {"type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled", "metadata"}
)


class Line(NamedTuple):
    """A line without its place in the tree.

    Attributes:
        type: of the entry, as pi calls it.
        fields: all but its id, parent and timestamp.
        of: the uuids of the entries, beside the one it is made of, whose content it says.
    """

    type: str
    fields: dict[str, Any]
    of: tuple[str, ...] = ()


def fields_of(entry: Entry, *without: str) -> dict[str, Any]:
    """The fields of an entry beside its place in the tree."""
    return {k: v for k, v in entry.body.items() if k not in _STRUCTURE and k not in without}


def some_of(entry: Entry, *keys: str) -> dict[str, Any]:
    """Those of some fields that an entry has."""
    return {key: entry[key] for key in keys if key in entry}


def as_custom(entry: Entry) -> Line:
    """An entry as a custom one of pi's, with all that it holds."""
    held = fields_of(entry)
    return Line("custom", {"customType": OWN + entry.type, **({"data": held} if held else {})})


def tools_of(compaction: Entry) -> dict[str, Any]:
    """The tools in force at a compaction of pi's own."""
    message = compaction.get("systemMessage")
    tools = message.get("toolsAdded") if isinstance(message, dict) else None
    return {"toolsAdded": tools} if isinstance(tools, list) else {}


_LENGTH: Final = 8
_HEX: Final = re.compile(r"[0-9a-f]{8}")


class PiIds:
    """Gives out ids, the same for the same uuids in the same order."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def give(self, uuid: str) -> str:
        """An id for an entry: the start of its uuid, which people know it by, where that is free.

        Asked again for the same uuid it gives another one.
        """
        id = uuid[:_LENGTH]
        again = 0
        while id in self._given or _HEX.fullmatch(id) is None:
            name = f"{uuid}\n{again}".encode("utf-8", "surrogatepass")
            id = hashlib.sha256(name).hexdigest()[:_LENGTH]
            again += 1
        self._given.add(id)
        return id


class Pieces:
    """The pieces that are told together: those on the current path, else on the last one's."""

    def __init__(self, source: Source) -> None:
        tree = source.tree
        groups: dict[str, list[int]] = {}
        for row in tree.rows_of_type(*PIECES):
            named = source.session._entry_at(row).get("messageUuid")
            groups.setdefault(named if isinstance(named, str) else "", []).append(row)
        self._members: dict[int, list[int]] = {}
        current = {row: n for n, row in enumerate(tree.rows_up(source.leaf))} if groups else {}
        for rows in groups.values():
            above = current if any(row in current for row in rows) else _above(tree, rows)
            told = sorted((row for row in rows if row in above), key=above.__getitem__)
            told.reverse()
            self._members.update((row, told) for row in told)

    def at(self, row: int) -> list[int] | None:
        """The rows of the message that a piece belongs to; None where it is left out."""
        return self._members.get(row)


def _above(tree: TreeIndex, rows: list[int]) -> dict[int, int]:
    """How far above the last of the rows those on its path are, as far up as there are any."""
    missing = set(rows)
    found: dict[int, int] = {}
    for steps, row in enumerate(tree.rows_up(rows[-1])):
        found[row] = steps
        missing.discard(row)
        if not missing:
            break
    return found


VERSION: Final = 3

_AS_THEY_ARE: Final = frozenset({"thinking_level_change", "usage", "custom"})
_KEPT_OF_SUMMARIES: Final = ("details", "usage", "fromHook")
_TOLD_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "message": ("message", "metadata"),
    "handle": ("handle", "kind", "role", "preview", "metadata"),
    "block": ("messageUuid", "index", "block", "metadata"),
    "model_change": ("provider", "modelId", "metadata"),
    "compaction": (
        *("summary", "firstKeptEntryUuid", "tokensBefore", "state", "systemMessage"),
        *(*_KEPT_OF_SUMMARIES, "metadata"),
    ),
    "branch_summary": ("summary", "fromUuid", *_KEPT_OF_SUMMARIES, "metadata"),
    "stack_summary": ("summary", "fromUuid", *_KEPT_OF_SUMMARIES, "metadata"),
    "merge": ("summary", "mergedUuid", "baseUuid", *_KEPT_OF_SUMMARIES, "metadata"),
}
"""Keys that are told, of the types of which not all are."""

_EDITED: Final = frozenset({"user", "assistant", "toolResult", "custom"})


class PiTree:
    """Makes the lines of one session."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._losses = source.losses
        self._tree = source.tree
        count = len(self._tree)
        self._ids = PiIds()
        self._messages = PiMessages(self._losses)
        self._firsts: list[str | None] = [None] * count
        self._tips: list[str | None] = [None] * count
        self._models: list[Model | None] = [None] * count
        self._systems: list[str | None] = [None] * count
        self._pieces = Pieces(source)
        self._targets = {
            str(source.session._entry_at(row).get("targetUuid"))
            for row in self._tree.rows_of_type("context_edit")
        }
        self._said: dict[str, dict[int, list[tuple[str, str]]]] = {}
        self._last: str | None = None
        self._time = LONG_AGO

    @property
    def default_name(self) -> str:
        """As pi names it: the time of its start, and its id."""
        session = self._source.session
        at = re.sub(r"[:.]", "-", session.header.timestamp or LONG_AGO)
        return re.sub(r"[^\w.\-]+", "-", f"{at}_{session.id}") + ".jsonl"

    def beside(self, stem: str) -> list[Beside]:
        """None: pi keeps all in one file."""
        return []

    def blocks(self) -> Iterator[bytes]:
        """The lines of the file, each with its LF."""
        source = self._source
        header = source.session.header
        self._time = header.timestamp or LONG_AGO
        yield json_of(self._header(header)) + b"\n"
        yield from self._placed(0, header, self._opening(header), None)
        for row in source.rows():
            parent = self._tree.parents[row]
            above = max(parent, 0)  # what hangs nowhere has the settings of the header
            self._models[row] = self._models[above]
            self._systems[row] = self._systems[above]
            entry = source.entry(row)
            self._losses.uuid = entry.uuid
            if entry.lane is not None:
                lane = f"the lane {entry.lane!r}: pi has no lanes, its entries are a branch"
                self._losses.add(lane)
            made = self._converted(entry, row)
            yield from self._placed(row, entry, made, None if parent == NO_ROW else parent)
        leaf = self._tips[source.leaf]
        if self._last != leaf:
            uuid = source.derived_uuid(source.session.leaf.uuid, 0)
            place = source.session.leaf.uuid
            yield self._line(OWN + "leaf", self._ids.give(uuid), leaf, {}, place)

    def _header(self, header: Entry) -> dict[str, Any]:
        origin = header.get("parentSession")
        above = origin.get("file") if isinstance(origin, dict) else origin
        id = header.get("id")
        cwd = header.get("cwd")
        return {
            "type": HEADER,
            "version": VERSION,
            "id": id if isinstance(id, str) and id else header.uuid,
            "timestamp": self._time,
            "cwd": cwd if isinstance(cwd, str) else "",
            **({"parentSession": above} if isinstance(above, str) and above else {}),
            **origin_at(header.uuid, {"type": HEADER}),
        }

    def _opening(self, header: Entry) -> list[Line]:
        """What our header says, and pi's does not."""
        made: list[Line] = []
        facts = {key: header[key] for key in ("metadata", "parentSession") if key in header}
        if facts:
            made.append(Line("custom", {"customType": OWN + HEADER, "data": facts}))
        if isinstance(name := header.get("name"), str):
            made.append(Line("session_info", {"name": name}))
        settings = header_settings(header.body)
        model = settings.get("model")
        if isinstance(model, dict) and isinstance(model.get("modelId"), str):
            made.append(Line("model_change", self._model(0, model)))
        if "thinkingLevel" in settings:
            made.append(Line("thinking_level_change", {"thinkingLevel": settings["thinkingLevel"]}))
        if "system" in settings:
            self._systems[0] = settings["system"]
            made.append(Line("message", {"message": self._prompt(0, header, {})}))
        return made

    def _placed(
        self, row: int, entry: Entry, made: list[Line], parent: int | None
    ) -> Iterator[bytes]:
        """The lines of an entry, the first of them below its parent's last."""
        tip = None if parent is None else self._tips[parent]
        self._time = entry.timestamp or self._time
        if isinstance(entry.get("metadata"), dict) and row and made:
            made[0].fields.setdefault("metadata", entry["metadata"])
        for number, (kind, fields, of) in enumerate(made):
            id = self._ids.give(entry.uuid)
            if not number:
                self._firsts[row] = id
            if fields.get("firstKeptEntryId", "") is None:
                fields["firstKeptEntryId"] = id
            place = of[-1] if of and entry.type in PIECES else entry.uuid
            yield self._line(kind, id, tip, fields, place)
            tip = id
            for uuid in self._targets.intersection((entry.uuid, *of)):
                self._note_said(uuid, row, id, kind, fields)
        self._tips[row] = tip

    def _line(
        self, kind: str, id: str, parent: str | None, fields: Mapping[str, Any], place: str
    ) -> bytes:
        """A line, which stands at the place of an entry of ours."""
        if kind.startswith(OWN):
            kind, fields = "custom", {"customType": kind, **fields}
        head = {"type": kind, "id": id, "parentId": parent, "timestamp": self._time}
        self._last = id
        try:
            return json_of({**head, **fields, **origin_at(place, {**head, **fields})}) + b"\n"
        except RecursionError:
            self._losses.add("an entry that is nested too deep for JSON was left empty")
            return json_of({**head, "type": "custom", "customType": OWN + "deep"}) + b"\n"

    def _note_said(
        self, uuid: str, row: int, id: str, kind: str, fields: Mapping[str, Any]
    ) -> None:
        if kind == "custom":  # which says nothing
            return
        role = "custom" if kind == "custom_message" else kind
        if kind == "message":
            role = role_of(fields["message"])
        self._said.setdefault(uuid, {}).setdefault(row, []).append((id, role))

    def _converted(self, entry: Entry, row: int) -> list[Line]:
        """The lines of an entry; none for a piece of a message that stands elsewhere."""
        kind = entry.type
        if kind in _TOLD_KEYS:
            self._losses.keys(entry, _TOLD_KEYS[kind])
        if kind in PIECES:
            return self._streamed(entry, row)
        convert = _CONVERTERS.get(kind)
        if convert is not None:
            return convert(self, entry, row)
        if kind in _AS_THEY_ARE:
            return [Line(kind, fields_of(entry))]
        if kind == "branch" and entry.get("name") is not None:
            self._losses.add("the name of a branch")
        elif kind != "branch":
            self._losses.add(f"a {kind} is kept as a custom entry, which pi does not show")
        return [as_custom(entry)]

    def _message(self, entry: Entry, row: int) -> list[Line]:
        message = entry.get("message")
        if not isinstance(message, dict):
            self._losses.add("an entry without a message is kept as a custom entry")
            return [as_custom(entry)]
        if message.get("role") == "system":
            self._systems[row] = system_text(message)
            kept = {key: message[key] for key in ("toolsAdded", "toolsRemoved") if key in message}
            return [Line("message", {"message": self._prompt(row, entry, kept)})]
        return self._of_message(message, entry, row) or [as_custom(entry)]

    def _of_message(self, message: Message, entry: Entry, row: int) -> list[Line]:
        if message.get("partial"):
            self._losses.add("a message that broke off is marked as aborted")
        made = self._messages.of(message, self._models[row], milliseconds(entry.timestamp))
        model = model_of(message) if message.get("role") == "assistant" else None
        if model is not None:
            self._model(row, model)
        if not made and entry.uuid in self._targets:  # an edit may give it something to say
            role = "assistant" if role_of(message) == "assistant" else "user"
            made = self._messages.of({"role": role, "content": []}, self._models[row], 0)
        elif not made:
            self._losses.add("a message that says nothing to a model is a custom entry")
        return [Line("message", {"message": each}) for each in made]

    def _prompt(self, row: int, entry: Entry, more: Mapping[str, Any]) -> dict[str, Any]:
        """The system text in force, as a section that later ones of its name replace."""
        sections = {"system": self._systems[row] or ""}
        at = milliseconds(entry.timestamp)
        return {"role": "system", "content": "", "sections": sections, **more, "timestamp": at}

    def _model(self, row: int, model: Mapping[str, Any]) -> dict[str, Any]:
        """Note the model in force; the fields that tell it."""
        id = str(model.get("modelId"))
        provider = model.get("provider")
        self._models[row] = (provider if isinstance(provider, str) else None, id)
        return {"provider": provider_of(id, model), "modelId": id}

    def _model_change(self, entry: Entry, row: int) -> list[Line]:
        if not isinstance(entry.get("modelId"), str):
            return [as_custom(entry)]
        return [Line("model_change", self._model(row, entry.body))]

    def _handle(self, entry: Entry, row: int) -> list[Line]:
        self._losses.add("a handle is what it resolves to now")
        return self._of_message(self._source.resolved(entry), entry, row) or [as_custom(entry)]

    def _streamed(self, entry: Entry, row: int) -> list[Line]:
        members = self._pieces.at(row)
        if members is None:
            self._losses.add("a piece of a streamed message that another branch has was left out")
            return []
        if not members or members[0] != row:
            return []
        message = folded_message([self._source.entry(member) for member in members])
        pieces = tuple(self._tree.uuids[member] for member in members)
        return [line._replace(of=pieces) for line in self._of_message(message, entry, row)]

    def _compaction(self, entry: Entry, row: int) -> list[Line]:
        state = entry.get("state")
        if isinstance(state, dict) and isinstance(state.get("system"), str):
            self._systems[row] = state["system"]
        summary, tokens = entry.get("summary"), entry.get("tokensBefore")
        fields: dict[str, Any] = {
            "summary": summary if isinstance(summary, str) else "",
            "firstKeptEntryId": self._first_kept(entry, row),
            "tokensBefore": tokens if isinstance(tokens, int) else 0,
            **some_of(entry, *_KEPT_OF_SUMMARIES),
        }
        if self._systems[row]:
            fields["systemMessage"] = self._prompt(row, entry, tools_of(entry))
        return [Line("compaction", fields)]

    def _first_kept(self, entry: Entry, row: int) -> str | None:
        """The id of the first kept line; None for the compaction's own."""
        wanted = entry.get("firstKeptEntryUuid")
        if wanted == entry.uuid:
            return None
        kept: str | None = None
        topmost = row
        for above in self._tree.rows_up(self._tree.parents[row]):
            kept = self._firsts[above] or kept
            if self._tree.uuids[above] == wanted:
                return self._whole_of(above) or kept
            topmost = above or topmost
        if self._is_cut_above(topmost):
            return kept
        self._losses.add("the first kept entry of a compaction is not on its path: nothing is kept")
        return None

    def _whole_of(self, row: int) -> str | None:
        """The id of the streamed message that a row is a later piece of."""
        members = self._pieces.at(row)
        if not members or members[0] == row:
            return None
        self._losses.add("a compaction that kept a part of a streamed message keeps it whole")
        return self._firsts[members[0]]

    def _is_cut_above(self, topmost: int) -> bool:
        origin = self._source.session.header.get("parentSession")
        if not isinstance(origin, dict):
            return False
        return origin.get("cutAbove") is True or origin.get("uuid") == self._tree.uuids[topmost]

    def _summary(self, entry: Entry, row: int) -> list[Line]:
        if entry.type == "stack_summary":
            self._losses.add("a stack_summary is a branch_summary")
        return [Line("branch_summary", self._summarized(entry, entry.get("fromUuid")))]

    def _summarized(self, entry: Entry, left: Any) -> dict[str, Any]:
        summary = entry.get("summary")
        return {
            "fromId": self._id_of(left),
            "summary": summary if isinstance(summary, str) else "",
            **some_of(entry, *_KEPT_OF_SUMMARIES),
        }

    def _id_of(self, uuid: Any) -> str | None:
        row = self._tree.row(uuid) if isinstance(uuid, str) else NO_ROW
        return None if row == NO_ROW else self._tips[row]

    def _merge(self, entry: Entry, row: int) -> list[Line]:
        if entry.get("summary") is not None:
            self._losses.add("a merge is a branch_summary")
            return [Line("branch_summary", self._summarized(entry, entry.get("mergedUuid")))]
        self._losses.add("a merge: what it takes in is said again in its place")
        made = [as_custom(entry)]
        before = self._models[row]
        for message, told in self._source.merged(entry):
            if message.get("role") == "system":
                continue
            contributed = self._contributed(message, told, row)
            made.extend(line._replace(of=(told.uuid,)) for line in contributed)
        if before is not None and self._models[row] != before:
            model = {"provider": before[0], "modelId": before[1]}
            made.append(Line("model_change", self._model(row, model)))
        return made

    def _contributed(self, message: Message, entry: Entry, row: int) -> list[Line]:
        """What a merge takes in of one entry."""
        role = message.get("role")
        summary = message.get("summary")
        if role in ("branchSummary", "compactionSummary") and isinstance(summary, str):
            left = message.get("fromUuid", message.get("mergedUuid", entry.uuid))
            return [Line("branch_summary", {"fromId": self._id_of(left), "summary": summary})]
        return self._of_message(message, entry, row)

    def _custom_message(self, entry: Entry, row: int) -> list[Line]:
        content = self._messages.blocks(entry.get("content"), "custom")
        display = entry.get("display")
        fields = {**fields_of(entry), "content": content, "display": display is True}
        return [Line("custom_message", fields)]

    def _label(self, entry: Entry, row: int) -> list[Line]:
        target = self._id_of(entry.get("targetUuid"))
        if target is None:
            self._losses.add("a label of what pi has no entry for is a custom entry")
            return [as_custom(entry)]
        return [Line("label", {**fields_of(entry, "targetUuid"), "targetId": target})]

    def _session_info(self, entry: Entry, row: int) -> list[Line]:
        named = isinstance(entry.get("name"), str)
        return [Line("session_info", fields_of(entry)) if named else as_custom(entry)]

    def _context_edit(self, entry: Entry, row: int) -> list[Line]:
        target, replacement = entry.get("targetUuid"), entry.get("replacement")
        made: list[Line] = []
        said = self._said.get(target, {}) if isinstance(target, str) else {}
        edited = self._edited(target, replacement) if said and replacement is not None else []
        for lines in said.values():
            left = list(edited)
            for id, role in lines:
                if replacement is not None and role not in _EDITED:
                    self._losses.add(f"an edit of a {role}, which pi does not edit, does nothing")
                    continue
                now = next((each for each in left if each["role"] == role), None)
                if now is not None:
                    left.remove(now)
                edit = None if now is None else {"content": now["content"]}
                made.append(Line("context_edit", {"targetId": id, "replacement": edit}))
        return made or [as_custom(entry)]

    def _edited(self, uuid: str, replacement: Any) -> list[dict[str, Any]]:
        """The messages that an edited entry makes; none for a type that pi does not edit."""
        row = self._tree.row(uuid)
        entry = self._source.entry(row)
        message: Message = {"role": "custom", "content": None}
        if entry.type == "message":
            message = entry["message"]
        elif entry.type == "handle":
            message = self._source.resolved(entry)
        elif entry.type in PIECES:
            message = {"role": "assistant", "content": None}
        elif entry.type != "custom_message":
            return []
        edited = replaced(message, replacement)
        return [] if edited is None else self._messages.of(edited, self._models[row], 0)


_CONVERTERS: Final[dict[str, Callable[[PiTree, Entry, int], list[Line]]]] = {
    "message": PiTree._message,
    "model_change": PiTree._model_change,
    "handle": PiTree._handle,
    "compaction": PiTree._compaction,
    "branch_summary": PiTree._summary,
    "stack_summary": PiTree._summary,
    "merge": PiTree._merge,
    "custom_message": PiTree._custom_message,
    "label": PiTree._label,
    "session_info": PiTree._session_info,
    "context_edit": PiTree._context_edit,
}
