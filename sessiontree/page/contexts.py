"""What the model had, at any entry: what each entry adds to a context, for the script of the page.

The script folds a path as `context.fold` does, but with numbers: of each entry it knows the parent
and the tokens that it contributes; of a compaction the first kept entry, of an edit its target, of
a merge the path that it takes in. Messages are not needed for that, so that a page of any length
has the context of every entry.

Invariant: the rows that the script finds for an entry are those of `Session.context`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sessiontree.context.compaction import estimate_tokens
from sessiontree.context.fold import custom_message, replaced, summary_message
from sessiontree.core.blocks import message_uuid
from sessiontree.core.entry import PIECES, SUMMARIES, Entry
from sessiontree.core.message import Message, calls_of, is_result_block, result_ids

NOTHING: Final = -1
"""The tokens of an entry that contributes nothing."""


class Rules(msgspec.Struct):
    """What of some entries decides about contexts, by the number of the entry in its turn.

    Attributes:
        kept: of each compaction the uuid of the first entry that it keeps.
        edits: of each edit its target, and the tokens of the new content; `NOTHING` drops it.
        merges: of each merge the uuids of its base and its end, and whether it has a summary.
        pieces: of each piece of a message the name of the message.
        calls: the ids of the calls that an entry makes, and whether they stay when an edit replaces
            its content.
        answers: the ids of the calls that an entry answers.
        strays: the entries with results of calls that the turn does not have, and whether they
            have something else too.
    """

    kept: dict[int, str] = {}
    edits: dict[int, tuple[str, int]] = {}
    merges: dict[int, tuple[str, str, bool]] = {}
    pieces: dict[int, str] = {}
    calls: dict[int, tuple[list[str], bool]] = {}
    answers: dict[int, list[str]] = {}
    strays: dict[int, bool] = {}

    def take(self, entry: Entry, number: int) -> int:
        """Take a whole entry that is not a message; gives the tokens that it contributes."""
        kind = entry.type
        if kind == "context_edit":
            self._take_edit(entry, number)
        elif kind == "merge":
            ends = _text(entry.get("baseUuid")), _text(entry.get("mergedUuid"))
            self.merges[number] = *ends, entry.get("summary") is not None
            return estimate_tokens(summary_message("branchSummary", entry))
        elif kind == "compaction":
            self.kept[number] = _text(entry.get("firstKeptEntryUuid"))
            return estimate_tokens(summary_message("compactionSummary", entry))
        elif kind in SUMMARIES:
            return estimate_tokens(summary_message("branchSummary", entry))
        elif kind == "custom_message":
            return estimate_tokens(custom_message(entry))
        elif kind in PIECES:
            self.pieces[number] = message_uuid(entry)
            if entry.get("role") == "system":  # only now it is known to be no message of a context
                self.edits[number] = entry.uuid, NOTHING
            block = entry.get("block")
            return estimate_tokens({"content": [block]}) if isinstance(block, dict) else 0
        return NOTHING

    def _take_edit(self, entry: Entry, number: int) -> None:
        target = entry.get("targetUuid")
        if isinstance(target, str):
            message = replaced({"role": "user", "content": ""}, entry.get("replacement"))
            self.edits[number] = target, NOTHING if message is None else estimate_tokens(message)

    def take_message(self, message: Message, number: int, *, is_stray: bool) -> int:
        """Take a message; gives the tokens that it contributes.

        `is_stray` tells that it has a result, whose call its turn does not have.
        """
        if message.get("role") == "system":
            return NOTHING
        self.take_calls(message, number)
        if ids := result_ids(message):
            self.answers[number] = ids
            if is_stray:
                self.strays[number] = _has_more(message)
        return estimate_tokens(message)

    def take_calls(self, message: Message, number: int) -> None:
        """Take the calls of a message."""
        if calls := calls_of(message):
            is_apart = not isinstance(message.get("content"), list)
            self.calls[number] = [call.id for call in calls], is_apart


def _has_more(message: Message) -> bool:
    """Whether something is left of a message without its results."""
    content = message.get("content")
    is_list = message.get("role") == "user" and isinstance(content, list)
    return is_list and not all(map(is_result_block, content or ()))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
