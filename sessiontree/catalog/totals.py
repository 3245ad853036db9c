"""What many sessions add up to, as a whole and by agent.

Invariant: an answer that is copied to several sessions, such as forks and imports, counts once, for
the first of them, as in `catalog.spending`. Copies are told by their time and tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.places import OWN
from sessiontree.core.counts import Answer, Counts, total
from sessiontree.core.usage import Usage


class Totals(msgspec.Struct):
    """The sums of some sessions.

    Attributes:
        sessions: the number of sessions.
        turns: the number of prompts, in each session that has them.
        bytes: the size of the session files.
        usage: the tokens, and the cost that the agents reported, of each answer once.
        not_counted: the number of sessions whose turns and tokens are not known.
        copies: the number of answers that stand in another session too, and count there.
    """

    sessions: int = 0
    turns: int = 0
    bytes: int = 0
    usage: Usage = Usage()
    not_counted: int = 0
    copies: int = 0

    def add(self, one: SessionInfo, counts: Counts | None, copies: list[Answer]) -> None:
        """Add a session, without the answers that are copies."""
        self.sessions += 1
        self.bytes += one.bytes
        if counts is None:
            self.not_counted += 1
            return
        self.turns += counts.turns
        self.usage += counts.usage
        if copies:
            self.usage -= total(copies)
            self.copies += sum(answer.has_tokens for answer in copies)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `stats --json` prints."""
        return {
            "sessions": self.sessions,
            "turns": self.turns,
            "bytes": {"file": self.bytes},
            "usage": self.usage.as_dict(),
            "notCounted": self.not_counted,
            "copies": self.copies,
        }


def totals_of(
    sessions: Iterable[tuple[SessionInfo, Counts | None]],
) -> tuple[Totals, dict[str, Totals]]:
    """The sums of all sessions, and by agent, the agent with the most sessions first.

    An answer that several sessions have counts for the first.
    """
    every = Totals()
    agents: dict[str, Totals] = {}
    known: set[tuple[Any, ...]] = set()
    for one, counts in sessions:
        answers = counts.answers() if counts is not None else []
        keys = {answer.key for answer in answers}
        copied = keys & known
        copies = [answer for answer in answers if answer.key in copied] if copied else []
        known |= keys
        every.add(one, counts, copies)
        agents.setdefault(one.made_by or OWN, Totals()).add(one, counts, copies)
    most_first = sorted(agents.items(), key=lambda item: (-item[1].sessions, item[0]))
    return every, dict(most_first)
