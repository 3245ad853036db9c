"""Surveyor: questions that take the whole file.

Invariants: nothing on the disk is changed; the file is read once for all of
them, and again only as far as it grew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import orjson

from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry
from sessiontree.core.index import Branch
from sessiontree.core.message import begins_turn, calls_of, result_ids
from sessiontree.engine.reader import Reader, Ref
from sessiontree.engine.undisturbed import undisturbed
from sessiontree.errors import UsageError
from sessiontree.operations import outline
from sessiontree.operations.outline import TreeRow

if TYPE_CHECKING:
    from sessiontree.context.resolved import ResolvedHandle
    from sessiontree.core.handle import Handle
    from sessiontree.engine.repair import Progress
    from sessiontree.handles.registry import Resolution
    from sessiontree.handles.resolve import ResolvedEntry
    from sessiontree.operations.stats import Stats
    from sessiontree.recording.events import Event
    from sessiontree.redact.redaction import Redaction


class Surveyor(Reader):
    """What the index of the whole file answers."""

    @property
    @undisturbed
    def name(self) -> str | None:
        """The session's name, the latest given, or None. Reads the whole file."""
        return self._all_names().name

    @property
    @undisturbed
    def metadata(self) -> dict[str, Any]:
        """The header's metadata with all later changes. Reads the whole file."""
        return self._all_names().metadata.copy()

    @undisturbed
    def children(self, ref: Ref) -> list[Entry]:
        """The entries whose parent is this one, in file order."""
        row = self._row(self.entry(ref))
        return [self._entry_at(child) for child in self._index().children(row)]

    def turns(self, ref: Ref | None = None) -> list[list[Entry]]:
        """The messages of a path by turns: each a prompt and what follows it."""
        turns: list[list[Entry]] = []
        for entry in self.path(ref):
            message = entry.message_as_stored if entry.type == "message" else None
            if isinstance(message, dict) and begins_turn(entry.as_stored):
                turns.append([entry])
            elif turns and (isinstance(message, dict) or entry.type in ("block", "message_end")):
                turns[-1].append(entry)
        return turns

    def conversation(self, ref: Ref | None = None) -> Iterator[Event]:
        """What was said on a path, block by block: the events that a recording of it gives.

        Deltas and beginnings are left out; see `sessiontree.recording.events`.
        """
        from sessiontree.recording.replay import conversation  # few sessions are taken apart

        return conversation(self, ref)

    def to_markdown(
        self,
        ref: Ref | None = None,
        *,
        redact: Redaction | None = None,
        beside: str | None = None,
    ) -> Iterator[str]:
        """The path to an entry as Markdown for people to read, part by part.

        Args:
            ref: the entry, by default the leaf.
            redact: masks secrets in it, and tells afterwards which.
            beside: the folder that the transcript will lie in; attached images are then
                links to their files.

        Content that cannot be had is named in its place.
        """
        from sessiontree.operations.transcript import transcript  # few sessions are read as a whole

        leaf = self._leaf if ref is None else self.entry(ref)
        return transcript(self, leaf, redact, beside)

    def block(self, ref: Ref, index: int) -> dict[str, Any]:
        """A content block of the message that an entry is, or is a piece of.

        An item of OpenAI Responses that has no role (a call, its output, a thought) is its
        own block 0.

        Raises:
            UsageError: it is no message, or has no such block.
        """
        from sessiontree.recording.replay import block

        return block(self, ref, index)

    def find(self, *, type: str | None = None, tool_call_id: str | None = None) -> list[Entry]:
        """The entries of a type, or that make or answer a tool call, in file order.

        Raises:
            UsageError: neither is given.
        """
        if type is None and tool_call_id is None:
            raise UsageError("find what? give type=… or tool_call_id=…")
        if type is not None:
            found = (self._entry_at(row) for row in self._rows_of(type))
        else:
            needle = _spelling(tool_call_id or "")
            found = (entry for entry in self.entries() if needle is None or needle in entry.line)
        return [e for e in found if tool_call_id is None or _names_call(e, tool_call_id)]

    @undisturbed
    def _rows_of(self, type: str) -> list[int]:
        return self._index().rows_of_type(type)

    @undisturbed
    def branches(self, ref: Ref | None = None) -> list[Branch]:
        """The lines of conversation, by their tips, in file order.

        Args:
            ref: only those below this entry.
        """
        below = None if ref is None else self._row(self.entry(ref))
        return outline.branches(self._outlined(), below)

    @undisturbed
    def tree(self) -> Iterator[TreeRow]:
        """Each entry with its place in the tree, in file order, one by one."""
        return outline.rows(self._outlined())

    def render(self, *, all: bool = False) -> Iterator[str]:
        """The tree drawn with box characters, line by line.

        Args:
            all: show every message, also in long runs without a branch.
        """
        with self._log.lock.alone():
            lines = outline.drawn(self._outlined(), all=all)
        return self._one_by_one(lines)

    def _one_by_one(self, lines: Iterator[str]) -> Iterator[str]:
        """Lines drawn as they are asked for, each with no other thread in between."""
        while True:
            with self._log.lock.alone():
                line = next(lines, None)
            if line is None:
                return
            yield line

    @undisturbed
    def _outlined(self) -> outline.Outlined:
        view = self._whole()
        return outline.Outlined(
            view.tree(), self._all_names(), view.read, view.lines, self._row(self._leaf)
        )

    def resolve(self, handle: Handle | str) -> ResolvedHandle:
        """What a handle points to.

        Raises:
            HandleError: it is not well formed, or not what its schema says.
            ResolveError, BlobError: it cannot be had.
        """
        from sessiontree.handles import resolve as resolving  # many sessions have no handles

        return resolving.resolve(self, handle, registry=self._registry, root=self._root)

    def resolve_many(self, handles: Iterable[Handle | str]) -> list[Resolution]:
        """What handles point to, or the error of each, in order; each distinct one once."""
        from sessiontree.handles import resolve as resolving

        return resolving.resolve_many(self, handles, registry=self._registry, root=self._root)

    def resolved_path(self, ref: Ref | None = None) -> list[ResolvedEntry]:
        """The path to an entry, by default the leaf, with what its handles point to.

        Where a handle cannot be resolved its error stands in place of that.
        """
        from sessiontree.handles import resolve as resolving

        return resolving.resolved_path(self, ref, registry=self._registry, root=self._root)

    def resolved_tree(self, ref: Ref | None = None) -> ResolvedEntry:
        """An entry, by default the header, and all below it, with what handles point to.

        Where a handle cannot be resolved its error stands in place of that.
        """
        from sessiontree.handles import resolve as resolving

        return resolving.resolved_tree(self, ref, registry=self._registry, root=self._root)

    @undisturbed
    def stats(self) -> Stats:
        """How many entries, branches and bytes there are, and what they cost."""
        from sessiontree.operations.stats import stats  # few sessions are ever counted

        return stats(self)

    def _file_size(self) -> int:
        """The size of the session file in bytes."""
        return self._view.size

    def verify(
        self, progress: Progress | None = None, *, processes: int | None = 1
    ) -> list[Damage]:
        """Read everything, follow every reference, and give all that is not sound.

        Args:
            progress: told of the bytes done and the bytes in all, now and then.
            processes: how many look at the checksums of a large file; None: as many as are
                worth it. More than this one are forked.

        Returns:
            One finding a fault, in file order; empty where all is sound.
        """
        from sessiontree.engine import repair  # few sessions are ever looked over
        from sessiontree.operations.workers import Crew, available

        self._ready()
        count = processes or available()
        if count == 1:
            return repair.verify(self._log, progress)

        def work(share: repair.Share) -> Iterator[list[int]]:
            yield repair.unsound_in(self._log, share)

        crew = Crew(work, orjson.dumps, orjson.loads, count)
        with ExitStack() as opened:

            def elsewhere(shares: Sequence[repair.Share]) -> Iterator[list[int]]:
                return opened.enter_context(closing(crew.results(shares)))

            return repair.verify(self._log, progress, elsewhere)


def _spelling(text: str) -> bytes | None:
    """The bytes of a plain string in any line; None where JSON may spell it otherwise."""
    return (
        text.encode()
        if text.isascii() and text.replace("_", "").replace("-", "").isalnum()
        else None
    )


def _names_call(entry: Entry, id: str) -> bool:
    message = entry.message_as_stored
    if not isinstance(message, dict):
        block = entry.as_stored.get("block")
        message = {"role": "assistant", "content": [block]}
    return id in result_ids(message) or any(call.id == id for call in calls_of(message))
