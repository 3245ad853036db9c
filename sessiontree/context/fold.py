"""The fold: a path from the root to a leaf, folded into messages.

Invariants: only the path counts, so a compaction, an edit or a setting on another branch has no
effect; the latest compaction puts its summary in place of everything before its first kept entry; a
merge contributes each entry at most once; the same entries always give the same messages. Messages
are the stored objects themselves wherever nothing had to change.

A fold is kept between two contexts: an entry that only adds to the end costs that entry alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import UNSET

from sessiontree.context.compaction import Slice
from sessiontree.context.pairing import ConcatSequence, Pairing
from sessiontree.context.settings import made_system, model_of, settings_of, settings_of_all
from sessiontree.core.blocks import Blocks, EntryContents, Resolve
from sessiontree.core.codec import Chain
from sessiontree.core.entry import (
    HEADER,
    KNOWN,
    MARK_OF_JOINED,
    MARKERS,
    SUMMARIES,
    Entry,
    edit_of,
    missing_parent,
)
from sessiontree.core.jsonbytes import ESCAPE
from sessiontree.core.message import Message, is_result_block, result_ids, role_of, system_text

if TYPE_CHECKING:
    from sessiontree.core.limits import Budget


def replaced(message: Message, replacement: Any) -> Message | None:
    """A message with its content replaced by an edit; None where the edit drops it."""
    if replacement is None:
        return None
    content = replacement.get("content")
    # A command, and a result of Responses, have their content as `output`. A call or reasoning
    # there is sealed, or made of fields: its replacement is a new message.
    key = "output" if "output" in message and "content" not in message else "content"
    if key == "content" and "role" not in message:
        return {"role": role_of(message), "content": content}
    if isinstance(content, str) and result_ids(message) and message.get("role") == "user":
        results = filter(is_result_block, message["content"])  # so that the calls stay answered
        content = [{**block, "content": content} for block in results]
    edited = {**message, key: content}
    if "summary" in edited:
        edited["summary"] = content
    return edited


def summary_message(role: str, entry: Entry) -> dict[str, Any]:
    """A summary as a message: `content` for any reader, `summary` as pi names it."""
    summary = entry.get("summary")
    text = summary if isinstance(summary, str) else ""
    keys = ("fromUuid", "mergedUuid", "tokensBefore")
    facts = {key: entry[key] for key in keys if key in entry}
    return {"role": role, "content": text, "summary": text, **facts}


def custom_message(entry: Entry) -> dict[str, Any]:
    """A `custom_message` entry as a message of role `custom`."""
    keys = ("customType", "content", "display", "details")
    return {"role": "custom", **{key: entry[key] for key in keys if key in entry}}


# Takes `baseUuid` and `mergedUuid`, gives the path below the first down to the second. It begins
# with the header if the first is not above the second.
Segment = Callable[[str, str], Sequence[Entry]]
_REBUILD: Final = frozenset({"compaction", "context_edit", "merge", "block", "message_end"})


_SILENT: Final = MARKERS | {HEADER, "custom"}
"""Types that neither contribute to a context nor set anything."""


_USUAL_ROLES: Final = ("assistant", "toolResult", "user", "tool")  # a role may be unhashable


class Contribution:
    """Entries that follow each other on a path, with what a fold asks about all of them.

    It is asked as soon as they are read, while the processor still has them at hand: later it
    takes three times as long.
    """

    __slots__ = ("are_texts", "entries", "joined", "messages", "model", "sources", "types")

    def __init__(self, entries: Sequence[Entry]) -> None:
        read = entries.read if isinstance(entries, Chain) else entries
        self.entries = entries
        self.types = {entry.type for entry in read}
        self.joined = _joined_in(entries)  # the uuids of entries whose own parent is missing
        # those that entries contribute, where they need to be paired and nothing else; otherwise
        # empty
        self.messages: list[Message] = []
        self.sources = entries  # the entry of each message
        self.are_texts = False  # whether each message is a role and a text
        self.model: dict[str, Any] | None = None  # the model that the messages set
        if self.types == {"message"}:
            self._note_messages(read)
        elif self.types - _SILENT == {"message"}:
            if any(e.spilled_value is not UNSET for e in entries if e.type != "message"):
                return  # what is spilled may be missing
            self.sources = [entry for entry in entries if entry.type == "message"]
            self._note_messages(self.sources)

    def let_go(self) -> None:
        """Let the entries go where the messages are enough; they are made again if asked for."""
        if self.are_texts and isinstance(self.sources, Chain):
            self.sources.let_go(self.messages)

    def _note_messages(self, sources: Sequence[Entry]) -> None:
        messages = [entry.message_value for entry in sources]
        others = [
            message
            for message in messages
            if message.__class__ is not dict
            or len(message) != 2
            or message.get("content").__class__ is not str
            or ((role := message.get("role")) != "user" and role != "assistant")
        ]
        unusual = [  # sets the system text, or may be incomplete
            message
            for message in others
            if message.__class__ is not dict
            or "partial" in message
            or message.get("role") not in _USUAL_ROLES
        ]
        if unusual:
            return
        self.messages = messages
        self.are_texts = not others
        spoken = (model_of(one) for one in reversed(others) if one["role"] == "assistant")
        self.model = next(filter(None, spoken), None)


class PathRead(Protocol):
    """A path as far as a context needs it."""

    @property
    def entries(self) -> list[Entry]:
        """The entries, oldest first, the leaf last.

        They begin at the first kept entry of the latest compaction, or at the top if there is none.
        """

    compaction: Entry | None  # the latest compaction among them
    whole: bool  # whether the entries reach the top of the path
    cut_above: bool  # whether the file itself ends above them, as in a subtree export


class _Verbatim:
    """Takes messages and gives them back unchanged, in place of a Pairing."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._sources: ConcatSequence[Entry] = ConcatSequence()

    def take(self, message: Message, source: Entry) -> None:
        self._messages.append(message)
        self._sources.append(source)

    def take_all(self, messages: Sequence[Message], sources: Sequence[Entry]) -> None:
        self._messages += messages
        self._sources.extend(sources)

    def joined(self) -> tuple[list[Message], ConcatSequence[Entry], list[str]]:
        return self._messages.copy(), self._sources.copy(), []


class ContextBuilder:
    """A path folded into messages, ready to take the next entry.

    `parts` has the entries of the path as they were read, where that is still known.
    `settings` has those that the folded entries hold, by `SETTING_KEYS`.
    """

    def __init__(
        self,
        path: PathRead,
        segment: Segment,
        resolve: Resolve | None = None,
        parts: Sequence[Contribution] = (),
        *,
        verbatim: bool = False,
        strict: bool = False,
    ) -> None:
        self.settings: dict[str, Any] = {}
        self._segment = segment
        self._verbatim = verbatim
        self._resolve = resolve
        self._strict = strict
        self._out: _Verbatim | Pairing[Entry] = _Verbatim() if verbatim else Pairing()
        self._warnings: list[str] = []
        self._unknown: set[str] = set()
        self._contents = EntryContents(resolve, strict, self._warnings)
        first: list[Entry] = []
        if path.compaction is not None:
            visible = _visible(path, self._warnings)
            first, parts = visible[:1], [Contribution(visible[1:])]
        parts = parts or [Contribution(path.entries)]
        joined = chain(_joined_in(first), *(part.joined for part in parts))
        self._warnings += map(_GAP.format, joined)
        types = {kind for part in parts for kind in part.types}
        plain = _REBUILD.isdisjoint(types)
        self._edits: dict[str, Any] = {}
        self._blocks = Blocks((), self._warnings)
        if not plain or "handle" in types:
            visible = [*first, *chain.from_iterable(part.entries for part in parts)]
        if "handle" in types:
            self._contents.prepare(visible)
        if plain:
            for part in [Contribution(first), *parts]:
                self._take_part(part)
        else:
            visible = [self._contents.whole(entry) for entry in visible]
            self._edits = _edits(visible, self._warnings)
            self._blocks = Blocks(visible, self._warnings)
            for _, message, source in self._contributions(visible):
                self._out.take(message, source)
        if path.compaction is not None:  # its settings follow those of the entries it kept
            self.settings = settings_of_all(path.entries, self._contents)

    @property
    def complete(self) -> bool:
        """True if nothing had to be replaced by a placeholder, which may not be so again."""
        return self._contents.complete

    def take(self, entry: Entry) -> bool:
        """Take in one more entry at the end; False where the fold must be made anew."""
        if entry.type in _REBUILD:
            return False
        if missing_parent(entry) is not None:
            self._warnings.append(_GAP.format(entry.uuid))
        self._take(entry)
        return True

    def _take_part(self, part: Contribution) -> None:
        if not part.messages:
            for entry in part.entries:
                self._take(entry)
        else:
            self._out.take_all(part.messages, part.sources)
            if part.model is not None:
                self.settings["model"] = part.model

    def _take(self, entry: Entry) -> None:
        source, message = entry, entry.message_value
        if message is UNSET:
            entry = self._contents.whole(entry)
            message = entry.get("message")
        if entry.type == "message" and type(message) is dict:
            role = message.get("role")
            if role == "assistant":
                if "model" in message and (model := model_of(message)) is not None:
                    self.settings["model"] = model
            elif role == "system":
                self.settings["system"] = system_text(message)
                if not self._verbatim:
                    return
            if "partial" in message:
                self._tell_if_partial(entry, message)
            self._out.take(message, source)
            return
        self._note_setting(entry)
        message = self._message(entry)
        if message is not None and self._is_kept(message):
            self._out.take(message, source)

    def _is_kept(self, message: Message) -> bool:
        return self._verbatim or message.get("role") != "system"

    def _contributions(self, visible: list[Entry]) -> Iterator[tuple[Entry, Message, Entry]]:
        """For each message: the entry on this path, the message, its source."""
        merged = _Merged({entry.uuid for entry in visible})
        for entry in visible:
            self._note_setting(entry)
            if entry.type == "merge":
                for message, source in self._merge(entry, merged):
                    yield entry, message, source
                continue
            own = self._edited(entry, self._edits, self._blocks)
            if own is not None and self._is_kept(own):
                yield entry, own, entry

    def _merge(self, merge: Entry, merged: _Merged) -> Iterator[tuple[Message, Entry]]:
        """What a merge contributes, merges inside it included, each entry once."""
        frames: list[tuple[Entry | None, Iterator[Entry], dict[str, Any], Blocks]] = [
            (None, iter([merge]), self._edits, self._blocks)
        ]
        while frames:
            outer, entries, edits, blocks = frames[-1]
            entry = next(entries, None)
            if entry is None:
                frames.pop()
                if outer is not None:
                    merged.finish(outer)
                continue
            is_whole = entry.get("summary") is not None or entry.uuid in edits
            if entry.type == "merge" and not is_whole:
                if merged.is_finished(entry):  # all that it takes in was seen
                    continue
                segment = self._segment_of(entry, merged)
                if not segment:
                    continue
                self._contents.prepare(segment)
                visible = [self._contents.whole(below) for below in segment]
                inside = {**_edits(visible, self._warnings), **edits}
                added = merged.claim(visible)
                self._warnings += [_GAP.format(uuid) for uuid in _joined_in(added)]
                frames.append((entry, iter(added), inside, Blocks(added, self._warnings)))
                continue
            message = self._edited(entry, edits, blocks)
            if message is not None and self._is_kept(message):
                yield message, entry

    def _segment_of(self, merge: Entry, known: _Merged) -> Sequence[Entry]:
        """Return the entries that a merge takes in, or none, with a warning."""
        base, merged = merge.get("baseUuid"), merge.get("mergedUuid")
        is_named = isinstance(base, str) and isinstance(merged, str) and base != merged
        segment = known.take(merge, self._segment(base, merged)) if is_named else []
        if base == merged:
            cause = f"its base is the merged entry {merged}"
        elif not segment:
            cause = f"{merged} is not in the file"
        elif segment[0].type == HEADER:
            cause = f"its base {base} is not above {merged}"
        else:
            return _visible_segment(segment)
        self._warnings.append(f"merge {merge.uuid} contributes nothing: {cause}")
        return ()

    def _edited(self, entry: Entry, edits: Mapping[str, Any], blocks: Blocks) -> Message | None:
        """What an entry contributes under the edits of its path."""
        folded = blocks.message_at(entry)
        message = folded[0] if folded else self._message(entry)
        if message is None or not edits:
            return message
        for uuid in folded[1] if folded else (entry.uuid,):
            if uuid in edits:
                return replaced(message, edits[uuid])
        return message

    def _message(self, entry: Entry) -> Message | None:
        kind = entry.type
        if kind == "message":
            if isinstance(message := entry.get("message"), dict):
                self._tell_if_partial(entry, message)
                return message
            self._warnings.append(f"message {entry.uuid} holds no message and was left out")
        elif kind in SUMMARIES or kind == "merge":
            return summary_message("branchSummary", entry)
        elif kind == "compaction":
            return summary_message("compactionSummary", entry)
        elif kind == "custom_message":
            return custom_message(entry)
        elif kind == "handle":
            return self._contents.of_handle(entry)
        elif kind not in KNOWN and kind not in self._unknown:
            self._unknown.add(kind)
            self._warnings.append(
                f"entries of the unknown type {kind!r} are kept, but are not in the context"
            )
        return None

    def _tell_if_partial(self, entry: Entry, message: Message) -> None:
        if message.get("partial") is True:
            self._warnings.append(f"message {entry.uuid} is partial: it broke off")

    def _note_setting(self, entry: Entry) -> None:
        self.settings.update(settings_of(self._contents.whole(entry)))
        system = made_system(entry, self._blocks, self._contents)
        if system is not None:
            self.settings["system"] = system

    def contents(self, warnings: list[str]) -> EntryContents:
        """What makes other entries whole as those of this fold."""
        return EntryContents(self._resolve, self._strict, warnings)

    def result(self) -> tuple[list[Message], list[Entry], list[str]]:
        """The messages, the entry each came from, and the warnings, in fresh lists."""
        messages, entries, warnings = self.joined()
        return messages, list(entries), warnings

    def joined(self) -> tuple[list[Message], ConcatSequence[Entry], list[str]]:
        """The same, the entries not made yet where only their messages were read."""
        messages, entries, warnings = self._out.joined()
        return messages, entries, self._warnings + warnings

    def pieces(self, path: PathRead) -> list[Slice]:
        """What each entry of a path contributes, for choosing where to cut it."""
        visible = _visible(path, [])
        parts: dict[str, tuple[list[Message], list[Entry]]] = {e.uuid: ([], []) for e in visible}
        for entry, message, source in self._contributions(visible):
            messages, sources = parts[entry.uuid]
            messages.append(message)
            sources.append(source)
        return [Slice(uuid, *part) for uuid, part in parts.items()]


class _Merged:
    """What the merges of one context took in so far.

    Merges can be nested so that each takes in all that the others did: the work is then the square
    of their number, for a context in which each entry is once. How often entries may be read again
    is limited.
    """

    def __init__(self, own: set[str]) -> None:
        self._known = own  # the uuids of the entries on the path itself, and of those added
        self._finished: set[tuple[Any, Any]] = set()
        self._read: dict[tuple[str, int], Entry] = {}

    @cached_property
    def _again(self) -> Budget:
        from sessiontree.core.limits import MERGED_AGAIN, Budget  # lazy: few contexts merge

        return Budget(MERGED_AGAIN)

    def is_finished(self, merge: Entry) -> bool:
        """True if another merge took in the same path, and is done."""
        return _ends_of(merge) in self._finished

    def finish(self, merge: Entry) -> None:
        """Note that a merge contributed all that it takes in."""
        self._finished.add(_ends_of(merge))

    def claim(self, visible: Sequence[Entry]) -> list[Entry]:
        """The entries of a merged path that its merge adds; no merge inside it adds them again."""
        added: dict[str, Entry] = {}
        for entry in visible:
            if entry.uuid not in self._known:
                added.setdefault(entry.uuid, entry)  # of several with a uuid, the first
        self._known.update(added)
        return list(added.values())

    def take(self, merge: Entry, segment: Sequence[Entry]) -> list[Entry]:
        """Note the path that a merge takes in; entries read before are the same objects.

        Raises:
            TooMuchError: the merges read entries again too often.
        """
        known = len(self._read)
        found = [self._read.setdefault((entry.uuid, entry.offset), entry) for entry in segment]
        self._again.take(len(segment) - (len(self._read) - known), uuid=merge.uuid)
        return found


_GAP: Final = (
    "the entry before {} is missing from the file; the path continues at the one before it there"
)


def _joined_in(entries: Sequence[Entry]) -> Sequence[str]:
    """The uuids of the entries that were joined to the one before them in the file."""
    if isinstance(entries, Chain) and not any(map(entries.has, (MARK_OF_JOINED, ESCAPE))):
        return ()
    return [entry.uuid for entry in entries if missing_parent(entry) is not None]


def _ends_of(merge: Entry) -> tuple[Any, Any]:
    base, merged = merge.get("baseUuid"), merge.get("mergedUuid")
    return base if isinstance(base, str) else None, merged if isinstance(merged, str) else None


def _visible(path: PathRead, warnings: list[str]) -> list[Entry]:
    """The entries that count, a compaction before the entries it kept."""
    entries, compaction = path.entries, path.compaction
    if compaction is None:
        return entries
    at = next(i for i in reversed(range(len(entries))) if entries[i] is compaction)
    kept_from = _first_kept(entries, at)
    if kept_from is None and not path.cut_above:
        first_kept = compaction.as_stored.get("firstKeptEntryUuid")
        warnings.append(
            f"the first kept entry {first_kept} of compaction {compaction.uuid} is not on the "
            "path; only what follows the compaction is in the context"
        )
        kept_from = at
    return _compacted(entries, at, kept_from or 0)


def _visible_segment(entries: Sequence[Entry]) -> list[Entry]:
    """The same for a merged segment, whose first kept entry may be above its base."""
    at = next((i for i in reversed(range(len(entries))) if entries[i].type == "compaction"), None)
    if at is None:
        return list(entries)
    return _compacted(entries, at, _first_kept(entries, at) or 0)


def _first_kept(entries: Sequence[Entry], at: int) -> int | None:
    """The place of the first entry that a compaction keeps; its own place where it keeps none."""
    first_kept = entries[at].as_stored.get("firstKeptEntryUuid")
    return next((i for i in range(at, -1, -1) if entries[i].uuid == first_kept), None)


def _compacted(entries: Sequence[Entry], at: int, kept_from: int) -> list[Entry]:
    """A compaction before what it keeps, in which earlier compactions contribute nothing."""
    kept = [entry for entry in entries[kept_from:at] if entry.type != "compaction"]
    return [entries[at], *kept, *entries[at + 1 :]]


def _edits(entries: Iterable[Entry], warnings: list[str]) -> dict[str, Any]:
    """The replacements in force, each by the uuid of its target."""
    edits: dict[str, Any] = {}
    for entry in entries:
        if entry.type != "context_edit":
            continue
        if (edit := edit_of(entry)) is not None:
            edits.update([edit])
        else:
            warnings.append(
                f"edit {entry.uuid} has no effect: it needs a target, and a replacement that is "
                "null or has a content"
            )
    return edits
