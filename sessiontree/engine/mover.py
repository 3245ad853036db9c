"""Mover: a session that moves about the tree, combines branches and copies them out.

The methods of a session, told in one place; each group of moves is built in a
module of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from sessiontree.context.compaction import KEEP_TOKENS, TokenCounter, estimate_tokens
from sessiontree.context.summary import Summary, summarize
from sessiontree.core.entry import Entry
from sessiontree.engine.composer import Composer
from sessiontree.engine.reader import PathLike, Ref
from sessiontree.errors import UsageError
from sessiontree.operations import branch as moves
from sessiontree.operations import export as copies
from sessiontree.operations import merge as combining

if TYPE_CHECKING:
    from sessiontree.operations.convert import ConversionResult
    from sessiontree.redact.redaction import Redaction


class Mover(Composer):
    """The moving half of a session."""

    def branch(self, ref: Ref, summary: Summary | None = None, name: str | None = None) -> Entry:
        """Go on from an entry, in place: append a `branch` entry below it.

        Args:
            ref: where to go on; the header starts over with an empty context.
            summary: of the work left behind: text, or a summarizer. The entry is then
                a `branch_summary`, which the context shows.
            name: a name for the new branch.

        Returns:
            The entry written, the new leaf.

        Raises:
            InvalidNameError: the name is none, or taken.
            EntryError: the summary is empty, or no text.
        """
        return moves.branch(self, ref, summary, name)

    def switch(self, ref: Ref) -> Entry:
        """Go to the tip of a named branch, or to any entry; returns the leaf.

        Going to where one is writes nothing.
        """
        return moves.switch(self, ref)

    def rewind(self, ref: Ref | None = None) -> str:
        """Go to before a prompt, by default the last; returns its text, to be edited.

        Raises:
            UsageError: the entry is no prompt.
            NothingToDoError: no prompt lies on the path.
        """
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

        Raises:
            UsageError: the entry is not on the path.
            NothingToDoError: nothing follows it, or there is nowhere to pop to.
            EntryError: the summary is empty, or no text.
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
            first_kept: the first entry to keep as it is; by default chosen. `@` is what was
                said last, also where marks or edits stand behind it.
            keep: about how many tokens to keep, where chosen; 0 keeps nothing.
            count: counts the tokens of one message.
            details, usage: kept with the entry.

        Raises:
            UsageError: `keep` is no number of tokens, or the first kept is not on the path.
            NothingToDoError: the context is smaller than `keep`.
            EntryError: the summary is empty, or no text.
        """
        if not isinstance(keep, int) or keep < 0:
            raise UsageError(f"keep is a number of tokens, 0 or more, not {keep!r}")
        extra = {k: v for k, v in (("details", details), ("usage", usage)) if v is not None}
        summary = summarize if summary is None else summary
        return moves.compact(self, summary, first_kept, keep, count, extra)

    def cherry_pick(self, picked: Ref) -> Entry:
        """Copy an entry, of this session or another, below the leaf; returns the copy.

        Raises:
            UsageError: it is of a type that speaks of the place where it stands.
            BlobError: content of it cannot be had.
        """
        return combining.cherry_pick(self, picked)

    def merge(self, ref: Ref, summary: Summary | None = None) -> Entry:
        """Take what another branch contributes into this path, or a summary of it.

        Args:
            ref: the last entry to take in.
            summary: text, or a summarizer of what is taken in.

        Raises:
            UsageError: it has no ancestor in common with the path.
            NothingToDoError: it is on the path already.
            EntryError: the summary is empty, or no text.
        """
        return combining.merge(self, ref, summary)

    def edit_context(self, ref: Ref, replacement: str | Mapping[str, Any] | None) -> Entry:
        """Replace or drop what an entry contributes, on this path, from here on.

        Args:
            ref: the entry.
            replacement: None drops it; text, or `{"content": …}`, takes its content's place.

        Raises:
            UsageError: it says nothing in the current context.
        """
        return combining.edit_context(self, ref, replacement)

    def export_branch(
        self,
        ref: Ref,
        file: PathLike,
        with_path: bool = False,
        *,
        inline: bool = False,
        redact: Redaction | None = None,
    ) -> str:
        """Copy an entry and all below it into a new session file; returns its path.

        Scratch lanes below it that were never kept stay behind, with a warning, but for the
        one that the entry is on and the one that this session is on.

        Args:
            ref: the top of the subtree.
            file: the file to make.
            with_path: also copy the path from the header down to it.
            inline: put what lies in blobs, and what handles point to, into the file itself.
            redact: masks secrets in the copy, and tells afterwards which.

        Raises:
            SessionExistsError: the file is there already.
            BlobError: with `inline`, content that cannot be had back as it was; without it a
                blob that the system refuses. One that is lost is a ContentLostWarning then.
        """
        path = os.fspath(file)
        return copies.export(self, ref, path, with_path=with_path, inline=inline, redact=redact)

    def fork(self, file: PathLike, at: Ref | None = None) -> str:
        """Copy the path to an entry, by default the leaf, into a new session file.

        Returns its path. The copy has an id of its own, and not the agent's session id.

        Raises:
            SessionExistsError: the file is there already.
            BlobUnreadableError: the system refuses a blob that it needs. One that is lost
                or damaged is a ContentLostWarning.
        """
        return copies.fork(self, os.fspath(file), at)

    def convert(
        self, to: Literal["pi", "claude-code", "atif"], file: PathLike | None = None
    ) -> ConversionResult:
        """Make a file that another program opens; this session is left as it is.

        Args:
            to: `pi`, the pi coding agent, version 3: the whole tree; `claude-code`, a
                transcript of Claude Code; `atif`, a trajectory in the Agent Trajectory
                Interchange Format 1.7: the current path, as it happened.
            file: the file to make, by default one in the current directory, with the name
                that the program would give it.

        Returns:
            The files made, and what in them is not said, or said otherwise.

        Raises:
            UsageError: there is no such target.
            NothingToDoError: nothing was said yet.
            SessionExistsError: a file is there already.
        """
        from sessiontree.operations.convert import convert  # few sessions are converted

        return convert(self, to, file)
