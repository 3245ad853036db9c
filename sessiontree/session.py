"""Session: one conversation, a tree of entries in one append-only file.

What users hold. It opens and makes sessions here; looking is in `Reader`,
appending in `Writer`, and each group of moves in a module of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from sessiontree import combining, copies, following, moves, refs
from sessiontree.core.codec import FORMAT, VERSION, encode
from sessiontree.core.compaction import KEEP_TOKENS, TokenCounter, estimate_tokens
from sessiontree.core.damage import Damage
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.fields import check_fields, check_session_name
from sessiontree.core.message import is_prompt
from sessiontree.core.summary import Summary, summarize
from sessiontree.errors import CallerError
from sessiontree.reader import Ref
from sessiontree.storage import upgrade
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.journal import Durability, Journal, create_file
from sessiontree.storage.memory import Memory
from sessiontree.writer import Writer, fresh_uuid, now

if TYPE_CHECKING:
    from sessiontree.storage.recovery import Progress, Repair

PathLike = str | os.PathLike[str]


class Session(Writer):
    """A session; a context manager. Make one with `create` or `open`."""

    def __init__(self, journal: Journal, lane: str, hooks: Iterable[Any]) -> None:
        refs.check_name(lane, "lane name")
        self._upgraded: upgrade.Upgraded | None = None
        self._closing = threading.Event()
        super().__init__(journal, None if lane == "main" else lane, hooks)

    @classmethod
    def create(
        cls,
        file: PathLike | None = None,
        *,
        cwd: PathLike | None = None,
        id: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        exclusive: bool = False,
        lane: str = "main",
        durability: Durability = "fsync",
        hooks: Iterable[Any] = (),
        fs: FileSystem = DISK,
    ) -> Self:
        """Make a new session and open it.

        Args:
            file: where to keep it, readable by its owner alone; None keeps it in memory.
            cwd: the working directory it is about, by default the current one.
            id: its id, by default a fresh UUID.
            name: a name for people.
            metadata: facts such as `model`, `system`, or the agent's own session id.
            exclusive, lane, durability, hooks, fs: as for `open`.

        Raises:
            FileTakenError: the file is there already.
            EntryError: a value that JSON cannot carry.
            DiskError: the file cannot be made.
        """
        refs.check_name(lane, "lane name")
        fields: dict[str, Any] = {
            "type": HEADER,
            "version": VERSION,
            "format": FORMAT,
            "uuid": fresh_uuid(),
            "parentUuid": None,
            "timestamp": now(),
            "id": id or fresh_uuid(),
            "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),
        }
        if name is not None:
            check_session_name(name)
            fields["name"] = name
        if metadata is not None:
            check_fields("custom", {"customType": HEADER, "metadata": metadata})
            fields["metadata"] = metadata
        if file is None:
            fs, durability = Memory(), "os"
        path = _IN_MEMORY if file is None else os.fspath(file)
        create_file(fs, path, iter([encode(fields) + b"\n"]))
        session = cls.open(
            path, exclusive=exclusive, lane=lane, durability=durability, hooks=hooks, fs=fs
        )
        if file is None:
            session._disk = DISK
        return session

    @classmethod
    def open(
        cls,
        file: PathLike,
        *,
        readonly: bool = False,
        exclusive: bool = False,
        lane: str = "main",
        durability: Durability = "fsync",
        migrate: bool = True,
        hooks: Iterable[Any] = (),
        fs: FileSystem = DISK,
    ) -> Self:
        """Open a session. A version 1 file is migrated: on disk, or to read in memory.

        Args:
            file: the session file.
            readonly: never write: no lock, no migration on disk.
            exclusive: keep all other writers out until closed.
            lane: the lane to read and write.
            durability: `fsync`: an acknowledged entry survives a power cut;
                `os`: the death of the process.
            migrate: False refuses a version 1 file where it would be written.
            hooks: objects told of what is written; see `sessiontree.hooks`.
            fs: the seam to the disk; another one is for tests.

        Raises:
            NotASessionError, ForeignFormatError, NewerFormatError: not ours to open.
            MigrationRefusedError: version 1, and `migrate=False`.
            SessionBusyError: another writer is exclusive.
            FileMissingError, DiskError: the system refused.
        """
        if durability not in ("fsync", "os"):
            raise CallerError(f"durability is 'fsync' or 'os', not {durability!r}")
        if readonly and exclusive:
            raise CallerError("a session is opened readonly or exclusive, not both")
        journal = Journal(fs, os.fspath(file), readonly=readonly, durability=durability)
        try:
            upgraded = upgrade.to_current(journal, migrate=migrate)
            if exclusive:
                journal.lock.keep()
            session = cls(upgraded.journal if upgraded else journal, lane, hooks)
        except BaseException:
            journal.close()
            raise
        session._upgraded = upgraded
        session._disk = fs
        return session

    @property
    def file(self) -> str | None:
        return None if self._journal.path == _IN_MEMORY else self._journal.path

    @property
    def damage(self) -> list[Damage]:
        found = super().damage
        return found if self._upgraded is None else self._upgraded.in_original(found)

    def refresh(self) -> None:
        super().refresh()
        if self._upgraded is not None and self._upgraded.is_outdated():
            original = self._upgraded.original
            original.reopen()
            again = upgrade.to_current(original, migrate=False)
            self._reopen_on(again.journal if again else original)  # none: a writer migrated it
            self._upgraded = again

    def verify(self, progress: Progress | None = None) -> list[Damage]:
        found = super().verify(progress)
        return found if self._upgraded is None else self._upgraded.in_original(found)

    def repair(self, *, dry_run: bool = False) -> Repair:
        """Mend what can be mended without guessing; the original is kept beside the file.

        Args:
            dry_run: only say what would be done.

        Returns:
            What was mended, where the original is, and what is damaged still.

        Raises:
            MigrationRefusedError: the file is of version 1, and was opened to read.
        """
        from sessiontree.storage import recovery  # few sessions are ever mended

        self._ready()
        if dry_run:
            read = self._upgraded.original if self._upgraded is not None else self._journal
            return recovery.repair(read, dry_run=True)
        with self._holding():
            done = recovery.repair(self._journal)
            if done.evidence is not None:
                self._reopen()
                self._tail = self._leaf_in_file().uuid
        return done

    def follow(self) -> Iterator[Entry]:
        """Each entry that anyone adds after what this session knows, as it comes.

        Ends when the session is closed. Only lines ended by a newline are given.

        Raises:
            FileReplacedError: the file was rewritten in place, or is another session's now.
            FileMissingError: it is gone.
        """
        view = self._ready()
        if self.file is None:
            raise CallerError("a session in memory has no file to follow")
        self._journal.size()  # refused where this is closed
        journal = Journal(self._disk, self.file, readonly=True)
        return following.follow(journal, view, self._journal, self._closing)

    def close(self) -> None:
        self._closing.set()
        super().close()
        if self._upgraded is not None:
            self._upgraded.original.close()

    def branch(self, ref: Ref, summary: Summary | None = None, name: str | None = None) -> Entry:
        """Go on from an entry, in place: append a `branch` entry below it.

        Args:
            ref: where to go on; the header starts over with an empty context.
            summary: of the work left behind: text, or a summarizer. The entry is then
                a `branch_summary`, which the context shows.
            name: a name for the new branch.

        Returns:
            The entry written, the new leaf.
        """
        return moves.branch(self, ref, summary, name)

    def switch(self, ref: Ref) -> Entry:
        """Go to the tip of a named branch, or to any entry; returns the leaf.

        Going to where one is writes nothing.
        """
        return moves.switch(self, ref)

    def rewind(self, ref: Ref | None = None) -> str:
        """Go to before a prompt, by default the last; returns its text, to be edited."""
        return moves.rewind(self, ref)

    def push(self, note: str | None = None) -> Entry:
        """Mark this place, to `pop` back to."""
        fields: dict[str, Any] = {} if note is None else {"note": note}
        return self.append("stack_push", **fields)

    def pop(self, ref: Ref | None = None, summary: Summary | None = None) -> Entry:
        """Go back up the path, with a summary of what is left behind.

        Without `ref`: to the innermost open push, and where none is open to the
        nearest prompt that has something besides summaries and markers after it.
        Without `summary`: what `sessiontree.summarize` says.

        Returns:
            The `stack_summary` written, the new leaf.
        """
        return moves.pop(self, ref, summarize if summary is None else summary)

    def compact(
        self,
        summary: Summary | None = None,
        first_kept: Ref | None = None,
        *,
        keep: int = KEEP_TOKENS,
        count: TokenCounter = estimate_tokens,
        details: Any = None,
        usage: Any = None,
    ) -> Entry:
        """Put a summary in place of the older part of the context.

        Args:
            summary: text, or a summarizer of the entries it replaces; by default
                `sessiontree.summarize`.
            first_kept: the first entry to keep as it is; by default chosen.
            keep: about how many tokens to keep, where chosen; 0 keeps nothing.
            count: counts the tokens of one message.
            details, usage: kept with the entry.

        Raises:
            NothingToDoError: the context is smaller than `keep`.
        """
        if not isinstance(keep, int) or keep < 0:
            raise CallerError(f"keep is a number of tokens, 0 or more, not {keep!r}")
        extra = {k: v for k, v in (("details", details), ("usage", usage)) if v is not None}
        summary = summarize if summary is None else summary
        return moves.compact(self, summary, first_kept, keep, count, extra)

    def cherry_pick(self, picked: Ref) -> Entry:
        """Copy an entry, of this session or another, below the leaf; returns the copy."""
        return combining.cherry_pick(self, picked)

    def merge(self, ref: Ref, summary: Summary | None = None) -> Entry:
        """Take what another branch contributes into this path, or a summary of it.

        Raises:
            NothingToDoError: the entry is on the path already.
        """
        return combining.merge(self, ref, summary)

    def edit_context(self, ref: Ref, replacement: str | Mapping[str, Any] | None) -> Entry:
        """Replace or drop what an entry contributes, on this path, from here on.

        Args:
            ref: the entry.
            replacement: None drops it; text, or `{"content": …}`, takes its content's place.
        """
        return combining.edit_context(self, ref, replacement)

    def turns(self, ref: Ref | None = None) -> list[list[Entry]]:
        """The messages of a path by turns: each a prompt and what follows it."""
        turns: list[list[Entry]] = []
        for entry in self.path(ref):
            message = entry.get("message") if entry.type == "message" else None
            if not isinstance(message, dict):
                continue
            if is_prompt(message):
                turns.append([entry])
            elif turns:
                turns[-1].append(entry)
        return turns

    def export(self, ref: Ref, file: PathLike, with_path: bool = False) -> str:
        """Copy an entry and all below it into a new session file; returns its path.

        Args:
            ref: the top of the subtree.
            file: the file to make.
            with_path: also copy the path from the header down to it.

        Raises:
            FileTakenError: the file is there already.
        """
        return copies.export(self, ref, os.fspath(file), with_path=with_path)

    def fork(self, file: PathLike, at: Ref | None = None) -> str:
        """Copy the path to an entry, by default the leaf, into a new session file.

        Returns its path. The copy has an id of its own, and not the agent's session id.
        """
        return copies.fork(self, os.fspath(file), at)


_IN_MEMORY = "(in memory)"
